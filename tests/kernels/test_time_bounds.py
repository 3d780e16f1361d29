"""Value watermarks: the cases worked out on Spark, and what the definition promises."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from millrace.kernels import InvalidArgument
from millrace.kernels.time_bounds import Bound, TimeBounds, nearness, value_watermark

SECOND, MS = 1_000_000, 1000


def open_(seconds):
    return Bound(int(seconds * SECOND), closed=False)


def closed(seconds):
    return Bound(int(seconds * SECOND))


@pytest.mark.parametrize(
    ("condition", "bounds", "side", "wanted"),
    [
        ("lt < rt - 5s", [TimeBounds(lower=open_(5))], "right", 25_000),
        ("lt <= rt - 5s", [TimeBounds(lower=closed(5))], "right", 24_999),
        ("rt > lt + 5s", [TimeBounds(lower=open_(5))], "right", 25_000),
        ("lt < rt - 5s", [TimeBounds(lower=open_(5))], "left", None),
        ("lt BETWEEN rt - 10s AND rt + 5s", [TimeBounds(closed(-5), closed(10))], "right", 14_999),
        ("lt BETWEEN rt - 10s AND rt + 5s", [TimeBounds(closed(-5), closed(10))], "left", 9_999),
        ("lt BETWEEN rt - 10s AND rt - 5s", [TimeBounds(closed(5), closed(10))], "right", 24_999),
        ("rt >= lt AND rt <= lt + 5s", [TimeBounds(closed(0)), TimeBounds(upper=closed(5))], "left", 14_999),
        ("two lower ends", [TimeBounds(lower=open_(5)), TimeBounds(lower=closed(3))], "right", 22_999),
        ("no range at all", [], "right", None),
        ("unbounded", [TimeBounds()], "left", None),
    ],
)
def test_worked_cases_at_a_watermark_of_20_seconds(condition, bounds, side, wanted):
    assert value_watermark(bounds, side, 20_000) == wanted, condition


def test_j29_the_right_row_at_the_watermark_is_kept_and_the_one_before_goes():
    limit = value_watermark([TimeBounds(closed(5), closed(10))], "right", 30_000)
    assert limit == 34_999
    assert not limit * MS >= 35 * SECOND and limit * MS >= 34 * SECOND


def test_fractions_of_a_millisecond_are_truncated_towards_zero():
    assert value_watermark([TimeBounds(lower=Bound(1999, closed=False))], "right", 0) == 1
    assert value_watermark([TimeBounds(lower=Bound(-1999, closed=False))], "right", 0) == -1


ENDS = st.none() | st.builds(Bound, st.integers(-20, 20).map(lambda n: n * SECOND // 4), st.booleans())


@given(st.lists(st.builds(TimeBounds, ENDS, ENDS), max_size=3), st.sampled_from(["left", "right"]),
       st.integers(0, 50), st.integers(-50, 100), st.integers(1, 400))  # fmt: skip
def test_no_row_is_evicted_that_a_row_to_come_could_match(bounds, side, watermark_s, stored_quarter, ahead_quarter):
    limit = value_watermark(bounds, side, watermark_s * 1000)
    stored = stored_quarter * SECOND // 4
    if limit is None or stored > limit * MS:
        return
    to_come = watermark_s * SECOND + ahead_quarter * SECOND // 4
    difference = stored - to_come if side == "right" else to_come - stored
    assert not all(holds(one, difference) for one in bounds)


def holds(bounds: TimeBounds, difference: int) -> bool:
    lower, upper = bounds.lower, bounds.upper
    above = lower is None or difference > lower.microseconds or (lower.closed and difference == lower.microseconds)
    below = upper is None or difference < upper.microseconds or (upper.closed and difference == upper.microseconds)
    return above and below


@given(st.lists(st.builds(TimeBounds, ENDS, ENDS, st.booleans()), max_size=3), st.integers(-24, 24))
def test_pairs_are_near_where_all_exact_bounds_hold(bounds, quarter):
    difference, limits = quarter * SECOND // 4, nearness(bounds)
    near = limits is None or limits[0] <= difference <= limits[1]
    assert near == all(holds(one, difference) for one in bounds if one.exact)


def test_arguments_that_cannot_be():
    with pytest.raises(InvalidArgument, match="side: got 'both', accepted is 'left' or 'right'"):
        value_watermark([], "both", 0)
    with pytest.raises(InvalidArgument, match="lower: got 5, accepted is a Bound"):
        TimeBounds(lower=5)
