"""Ranges of time in conditions, against what Spark 4.3 evicts by them.

The expected watermarks are what Spark's own StreamingJoinHelper gave for these conditions.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from join_inputs import TIME, type_of
from millrace.kernels.time_bounds import Bound, TimeBounds, value_watermark
from millrace.spark_glue.join_condition import SideInfo, analyse

LEFT = pa.schema({"k": pa.int64(), "lt": TIME, "ln": pa.int64(), "lt2": TIME, "ld": pa.date32()})
RIGHT = pa.schema({"rk": pa.int64(), "rt": TIME, "rn": pa.int64(), "rt2": TIME})
W = 20_000


def plan(on, left_time="lt", right_time="rt"):
    left, right = SideInfo(LEFT, (), left_time, type_of), SideInfo(RIGHT, (), right_time, type_of)
    return analyse(f"k = rk AND ({on})", left, right, "inner", time_zone="UTC")


@pytest.mark.parametrize(
    ("on", "left", "right"),
    [
        ("lt < rt - interval 5 seconds", None, 25_000),
        ("rt > lt + interval 5 seconds", None, 25_000),
        ("lt <= rt - interval 5 seconds", None, 24_999),
        ("cast(rt as long) > cast(lt as long) + 5", None, 25_000),
        ("cast(rt as long) >= cast(lt as long) + 5", None, 24_999),
        ("cast(rt as double) > cast(lt as double) + 0.5", None, 20_500),
        ("cast(rt as decimal(20,6)) > cast(lt as decimal(20,6)) + 0.5D", None, 20_500),
        ("cast(rt as int) > cast(lt as int) + 5L", None, 25_000),
        ("cast(rt as long) - cast(lt as long) > 5", None, 25_000),
        ("-cast(rt as long) < -cast(lt as long) - 5", None, 25_000),
        ("5 < cast(rt as long) - cast(lt as long)", None, 25_000),
        ("rt > cast(cast(lt as long) + 5 as timestamp)", None, 25_000),
        ("try_cast(rt as bigint) > try_cast(lt as bigint) + 5", None, 25_000),
        ("cast(rt as long) > cast(lt as long) + 10 / 4", None, 22_500),
        ("cast(rt as long) > cast(lt as long) + cast(5.9 as int)", None, 25_000),
        ("rt between lt and lt + interval 5 seconds", 14_999, 19_999),
        ("lt between rt - interval 10 seconds and rt - interval '5' second", 9_999, 24_999),
        ("not (rt < lt or rt > lt + interval 5 seconds)", 14_999, 19_999),
        ("not (rt < lt + interval 5 seconds)", None, 24_999),
        ("rt <= lt + interval 5 seconds", 14_999, None),
        ("rt > lt and lt > rt - interval 9 seconds", 11_000, 20_000),
        ("rt > lt + interval 5 seconds and rt > lt + interval 9 seconds", None, 25_000),
        ("rt + interval 5 seconds > lt", None, 15_000),
        ("lt + interval 3 seconds < rt - interval 4 seconds", None, 27_000),
        ("interval 3 seconds + lt < rt", None, 23_000),
        ("rt > lt + interval 5 seconds + interval 5 seconds", None, 30_000),
        ("rt > lt - (interval 5 seconds - interval 7 seconds)", None, 22_000),
        ("rt > lt + -interval 5 seconds", None, 15_000),
        ("rt > lt + interval 5 seconds * 2", None, 30_000),
        ("rt > lt + make_dt_interval(0, 0, 0, 5)", None, 25_000),
        ("rt > lt + cast('5' as interval second)", None, 25_000),
        ("rt > lt + interval '1 00:00:05' day to second", None, 86_425_000),
        ("rt > lt + interval '-1 00:00:05' day to second", None, -86_385_000),
        ("rt > lt + interval -'01:30' minute to second", None, -70_000),
        ("rt > lt - interval 1 minute 30 seconds", None, -70_000),
        ("rt > lt - interval '1 minute 30 seconds'", None, -70_000),
        ("rt > lt + interval 1500 milliseconds", None, 21_500),
        ("rt > lt + interval '5 seconds'", None, 25_000),
        ("rt >= lt + interval '0.0015' second", None, 20_000),
        ("rt > lt + interval '0.0015' second", None, 20_001),
        ("rt > lt - interval '0.0015' second", None, 19_998),
        ("rt >= lt", None, 19_999),
    ],
)
def test_spark_s_watermarks_at_20_seconds(on, left, right):
    p = plan(on)
    assert (value_watermark(p.bounds, "left", W), value_watermark(p.bounds, "right", W)) == (left, right)
    assert p.notes == () and p.residual is not None
    join = p.join()
    assert (join.expiry_column("left"), join.expiry_column("right")) == (left and "lt", right and "rt")


@pytest.mark.parametrize(
    ("on", "reason"),
    [
        ("rt - lt > interval 5 seconds", "is a difference of timestamps"),
        ("unix_timestamp(rt) > unix_timestamp(lt) + 5", r"unix_timestamp\(right.rt\) is none of sums"),
        ("lt < rt - interval 1 month", "INTERVAL '1' MONTH is neither a number of seconds nor an interval of days"),
        ("cast(rt as long) > cast(lt as long) + rn", "right.rn is not the event time of its side"),
        ("rt > date_trunc('hour', lt)", "is none of sums"),
        ("rt > cast(lt as date)", "is a cast to neither a number nor a timestamp"),
        ("cast(rt as timestamp_ntz) > cast(lt as timestamp_ntz)", "is a cast to neither"),
        ("cast(rt as long) + cast(lt as long) > 5", "it does not compare one event time with the other"),
        ("rt not between lt and lt + interval 5 seconds", "it is not a comparison"),
        ("rt <> lt", "it is not a comparison"),
    ],
)
def test_what_spark_does_not_understand_limits_nothing_and_says_so(on, reason):
    p = plan(on)
    assert p.bounds == () and len(p.notes) == 1
    with pytest.raises(AssertionError, match="does not limit how long rows are kept: .*" + reason):
        raise AssertionError(p.notes[0])


@pytest.mark.parametrize("on", ["rt > lt2", "rt2 > lt + interval 5 seconds", "rt > ld", "rt > timestamp '2026-01-01'"])
def test_other_times_say_nothing(on):
    """Spark takes the second for a bound on rt, and loses matches by it."""
    assert plan(on).bounds == () == plan(on).notes


def test_without_both_event_times_there_is_nothing_to_bound():
    assert plan("rt > lt", left_time=None).bounds == ()


def test_a_time_that_is_a_key_evicts_by_the_key():
    p = plan("lt = rt")
    assert p.join().expiry_key == 1 and p.bounds == () == p.notes
    # A cast of it is another column, which does not.
    assert plan("cast(lt as date) = rn::date").join().expiry_key is None


def test_windows_bound_nothing():
    window = pa.struct({"start": TIME, "end": TIME})
    info = SideInfo(pa.schema({"k": pa.int64(), "w": window}), event_time="w")
    p = analyse("left.k = right.k AND right.w.end > left.w.end", info, info, "inner")
    assert p.bounds == () and "right.w.end is none of sums" in p.notes[0]


def test_bounds_are_what_the_kernel_has():
    assert plan("rt between lt - interval 1 second and lt + interval 5 seconds").bounds == (
        TimeBounds(lower=Bound(-1_000_000), exact=True), TimeBounds(upper=Bound(5_000_000), exact=True),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("on", "exact", "only_bounds"),
    [
        ("rt between lt and lt + interval 20 seconds", [True, True], True),
        ("lt < rt - interval 23 hours 59 minutes", [True], True),
        # A day of the session's zone may have twenty-three or twenty-five hours.
        ("lt < rt - interval 1 day", [False], False),
        ("lt < rt - interval 12 hours and rt < lt + interval 25 hours", [True, False], False),
        # 5.0 and 0.9 are five seconds apart once they are cast, and 4.1 before.
        ("cast(rt as long) >= cast(lt as long) + 5", [False], False),
        ("rt >= lt and ln < rn", [True], False),
        ("rt >= lt and rt <= lt + interval 1 month", [True], False),
    ],
)
def test_bounds_that_no_matching_pair_lies_outside_of(on, exact, only_bounds):
    p = plan(on)
    assert ([one.exact for one in p.bounds], p.only_bounds) == (exact, only_bounds)
