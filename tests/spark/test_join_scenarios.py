"""The worked scenarios of the stream-stream join, by name: Spark's own operator and ours side by side, with metrics."""

from __future__ import annotations

import pytest
from harness import Running, Source, at, conf, duel
from millrace import spark_glue as mr
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

NO_DATA = "spark.sql.streaming.noDataMicroBatches.enabled"
TIMED = "k int, t timestamp"
OUTER = ("inner", "left_outer", "right_outer", "full_outer", "left_semi")


def run(pair_of, schema, how, steps, on, **options):
    """Run a scenario on both; `pair_of` gives the two inputs of the sources' frames."""
    return duel(*scenario(pair_of, schema, how, on), "append", steps, together=True, metrics="join", **options)


def scenario(pair_of, schema, how, on):
    sources = [Source(SparkSession.active(), schema) for _ in range(2)]
    left, right = pair_of(*(source.frame() for source in sources))
    return sources, left.join(right, F.expr(on), how), mr.join(left, right, on, how)


def outputs(seen):
    """All rows of the last step's outputs, by batch."""
    return [sorted(map(tuple, rows.elements()), key=repr) for rows in seen[-1].values()]


# --- windows of values: key v, time v, left value 2v, right value 3v ---


def numbers(*values):
    return [(v, at(v)) for v in values]


def by_window(delays=("10 seconds", "10 seconds")):
    """Both sides with a window of their time; a delay of None is no watermark."""

    def pair_of(*frames):
        sides = []
        for frame, side, factor, delay in zip(frames, "lr", (2, 3), delays, strict=True):
            marked = frame.withWatermark("t", delay) if delay else frame
            window = F.window("t", "10 seconds").alias(side + "w")
            value = (F.col("k") * factor).alias(side + "v")
            sides.append(marked.select(F.col("k").alias(side + "k"), window, value))
        return sides

    return pair_of


WIN = "lk = rk AND lw = rw"
WIN_STEPS = [
    (numbers(1, 2, 3, 4, 5), numbers(3, 4, 5, 6, 7)),
    (numbers(21), numbers(22)),
    (numbers(22), None),
    (numbers(1), None),
    (None, numbers(5)),
]


def test_j2_windows_without_watermarks(spark):
    steps = [(numbers(1), None), (None, numbers(1)), (numbers(25), None), (None, numbers(25)), (numbers(1), None)]
    seen = run(by_window((None, None)), TIMED, "inner", steps, WIN)
    assert [len(batch) for batch in outputs(seen)] == [1, 1, 1]


def test_j3_a_watermark_on_the_left_alone(spark):
    steps = [(numbers(1), None), (None, numbers(1)), (numbers(25), None), (None, numbers(25)), (None, numbers(1)),
             (numbers(5), None)]  # fmt: skip
    seen = run(by_window(("10 seconds", None)), TIMED, "inner", steps, WIN)
    assert [len(batch) for batch in outputs(seen)] == [1, 1]


@pytest.mark.parametrize(
    ("how", "padded"),
    [("inner", 0), ("left_outer", 2), ("right_outer", 2), ("full_outer", 4), ("left_semi", 0)],
    ids=["j9", "j10", "j11", "j12", "j13"],
)
def test_j9_to_j13_windows(spark, how, padded):
    seen = run(by_window(), TIMED, how, WIN_STEPS, WIN)
    sizes = [len(batch) for batch in outputs(seen)]
    assert sizes == [3, padded, 1] if padded else sizes == [3, 1]


FILTERED = [
    ("j14", "left_outer", "lv > 4"), ("j15", "left_outer", "rv > 7"), ("j16", "right_outer", "lv > 4"),
    ("j17", "right_outer", "rv > 7"), ("j18", "full_outer", "lv > 4"), ("j19", "full_outer", "rv > 7"),
    ("j20-left", "left_semi", "lv > 4"), ("j20-right", "left_semi", "rv > 7"),
]  # fmt: skip


@pytest.mark.parametrize(("how", "also"), [case[1:] for case in FILTERED], ids=[case[0] for case in FILTERED])
def test_j14_to_j20_filters_of_one_side(spark, how, also):
    low, high = numbers(1, 2, 3), numbers(3, 4, 5)
    first = (low, high) if also.startswith("lv") else (high, low)
    steps = [first, (numbers(20), numbers(21)), (None, numbers(20))]
    run(by_window(), TIMED, how, steps, f"{WIN} AND {also}")


def test_j24_filters_of_both_sides(spark):
    steps = [
        (numbers(1, 2, 3), numbers(1, 2, 3)), (numbers(20), numbers(21)), (None, numbers(20)),
        (numbers(40, 41), numbers(40, 41)), (numbers(70), numbers(71)), (None, numbers(70)),
        (numbers(101, 102, 103), numbers(101, 102, 103)), (numbers(1000), numbers(1001)),
    ]  # fmt: skip
    on = f"{WIN} AND lv > 10 AND (rv < 300 OR rv > 1000)"
    seen = run(by_window(), TIMED, "left_outer", steps, on)
    assert [len(batch) for batch in outputs(seen)] == [3, 1, 2, 1, 3]


# --- ranges of time ---


def pairs(*values):
    return [(k, at(t)) for k, t in values]


def by_time(delays=("10 seconds", "10 seconds")):
    def pair_of(*frames):
        return [
            frame.select(F.col("k").alias(side + "k"), F.col("t").alias(side + "t")).withWatermark(side + "t", delay)
            for frame, side, delay in zip(frames, "lr", delays, strict=True)
        ]

    return pair_of


def between(low, high):
    times = [f"rt {'-' if s < 0 else '+'} interval {abs(s)} seconds" for s in (low, high)]
    return f"lk = rk AND lt BETWEEN {times[0]} AND {times[1]}"


def test_j1_without_time(spark):
    steps = [(pairs((1, 1)), None), (None, pairs((1, 1), (10, 1))), (pairs((10, 2)), None), (None, pairs((1, 3))),
             (pairs((1, 4)), None)]  # fmt: skip

    def plain(*frames):
        return [f.select(*(F.col(c).alias(side + c) for c in "kt")) for f, side in zip(frames, "lr", strict=True)]

    seen = run(plain, TIMED, "inner", steps, "lk = rk")
    assert [len(batch) for batch in outputs(seen)] == [1, 1, 1, 2]


def test_j4_open_range(spark):
    steps = [
        (pairs((1, 5)), None), (None, pairs((1, 11))), (None, pairs((1, 10))), (pairs((1, 3), (1, 30)), None),
        (None, pairs((0, 30))), (None, pairs((1, 20), (1, 21), (1, 28))), (pairs((1, 20), (1, 21)), None),
    ]  # fmt: skip
    seen = run(by_time(), TIMED, "inner", steps, "lk = rk AND lt < rt - interval 5 seconds")
    assert [len(batch) for batch in outputs(seen)] == [1, 2, 4, 1]


def test_j5_two_delays(spark):
    def ones(*times):
        return pairs(*((1, t) for t in times))

    steps = [
        (ones(20), None), (None, ones(14, 15, 25, 26, 30, 31)), (None, ones(60)), (ones(49, 50, 65, 66), None),
        (ones(30, 31), None), (None, ones(80)), (None, ones(46, 50)),
    ]  # fmt: skip
    seen = run(by_time(("20 seconds", "30 seconds")), TIMED, "inner", steps, between(-10, 5))
    assert [len(batch) for batch in outputs(seen)] == [4, 2, 3, 2]


@pytest.mark.parametrize("how", OUTER)
def test_j29_right_rows_that_are_evicted_at_once(spark, how):
    steps = [
        (pairs((0, 40), (1, 38)), pairs((0, 40))),
        (None, pairs((7, 33), (8, 36), (9, 35), (1, 46))),
        (pairs((2, 70)), pairs((2, 70))),
    ]
    run(by_time(), TIMED, how, steps, between(-10, -5))


@pytest.mark.parametrize("how", ["inner", "left_outer", "full_outer"])
def test_j30_left_rows_that_are_evicted_at_once(spark, how):
    steps = [(pairs((0, 40)), pairs((0, 40))), (pairs((2, 33), (3, 36)), None), (None, pairs((2, 33), (3, 31)))]
    run(by_time(), TIMED, how, steps, between(5, 10))


@pytest.mark.parametrize("how", ["inner", "left_outer", "right_outer", "left_semi"])
def test_j31_null_keys(spark, how):
    steps = [(pairs((None, 5), (1, 5)), pairs((None, 5), (1, 6))), (pairs((9, 40)), pairs((8, 40)))]
    run(by_time(), TIMED, how, steps, between(-5, 5))


def test_j31_null_keys_never_match_in_a_full_outer_join(spark):
    """Here Spark joins null with null, which its own batch join does not."""
    steps = [(pairs((None, 5), (1, 5)), pairs((None, 5), (1, 6))), (pairs((9, 40)), pairs((8, 40)))]
    sources, _, ours = scenario(by_time(), TIMED, "full_outer", between(-5, 5))
    running = Running(ours, "append")
    for step in steps:
        for source, rows in zip(sources, step, strict=True):
            source.add(rows)
        running.start().process()
        running.stop()
    got = sorted((tuple(row) for rows in running.batches.values() for row in rows), key=repr)
    naive = [
        tuple(None if v is None else v.replace(tzinfo=None) if hasattr(v, "tzinfo") else v for v in r) for r in got
    ]
    at5, at6 = at(5).replace(tzinfo=None), at(6).replace(tzinfo=None)
    assert sorted(naive, key=repr) == sorted(
        [(1, at5, 1, at6), (None, at5, None, None), (None, None, None, at5)], key=repr
    )


def test_j7_null_safe_keys(spark):
    steps = [(pairs((None, 5), (1, 5)), pairs((None, 5), (2, 6)))]
    seen = run(by_time(), TIMED, "inner", steps, "lk <=> rk")
    assert len(outputs(seen)[0]) == 1


def test_j32_the_time_in_the_key(spark):
    steps = [
        (pairs((1, 20), (2, 21)), pairs((1, 20))),
        (pairs((3, 40)), pairs((3, 40))),
        (pairs((3, 30), (3, 31)), None),
    ]
    seen = run(by_time(), TIMED, "inner", steps, "lk = rk AND lt = rt")
    assert [len(batch) for batch in outputs(seen)] == [1, 1]


@pytest.mark.parametrize("first", [pairs((1, 0)), pairs((1, 0), (1, 3600), (1, 5400))], ids=["j33", "j34"])
def test_j33_j34_without_no_data_batches(spark, first):
    steps = [
        (first, pairs((1, 1))), (pairs((1, 3600)), pairs((1, 3660))), (pairs((1, 5400)), None),
        (None, pairs((1, 5410))),
    ]  # fmt: skip
    with conf(spark, {NO_DATA: "false"}):
        run(by_time(("0 seconds", "0 seconds")), TIMED, "left_outer", steps, between(-30, 30))


# --- a stream with itself ---


@pytest.mark.parametrize("how", OUTER)
def test_j25_to_j28_a_stream_with_half_of_itself(spark, how):
    source = Source(spark, TIMED)
    frame = source.frame().withWatermark("t", "5 seconds")
    left = frame.select(F.col("k").alias("lk"), F.col("t").alias("lt"))
    right = frame.where("k % 2 = 0").select(F.col("k").alias("rk"), F.col("t").alias("rt"))
    on = "lk = rk AND rt >= lt AND rt <= lt + interval 5 seconds"
    steps = [(numbers(*range(first, first + 5)),) for first in (1, 6, 11)]
    # Where Spark may, it infers from the equality that the left ids must be even too, and stores no others.
    metrics = "join" if how in ("left_outer", "full_outer") else None
    duel([source], left.join(right, F.expr(on), how), mr.join(left, right, on, how), "append", steps, metrics=metrics)


def test_j6_a_stream_with_itself_without_time(spark):
    source = Source(spark, "v int")
    frame = source.frame()
    left, right = (frame.select((F.col("v") % 5).alias(side + "k"), F.col("v").alias(side + "v")) for side in "lr")
    own, ours = left.join(right, F.expr("lk = rk")), mr.join(left, right, "lk = rk")
    seen = duel([source], own, ours, "append", [([(1,), (2,)],), ([(3,), (6,)],)], metrics="join")
    assert outputs(seen) == [
        [(1, 1, 1, 1), (2, 2, 2, 2)], [(1, 1, 1, 6), (1, 6, 1, 1), (1, 6, 1, 6), (3, 3, 3, 3)],
    ]  # fmt: skip


# --- the watermarks of both sides together ---


@pytest.mark.parametrize("policy", ["min", "max"])
def test_policies_and_a_side_that_stays_idle(spark, policy):
    with conf(spark, {"spark.sql.streaming.multipleWatermarkPolicy": policy}):
        steps = [(pairs((1, 5), (2, 6)), pairs((1, 5)))]
        steps += [(pairs((step, 30 + 20 * step)), None) for step in range(3)]
        steps += [(None, pairs((1, 100), (2, 71)))]
        run(by_time(), TIMED, "left_outer", steps, between(-5, 5), restart_after=[2])


def test_a_hot_key_among_others(spark):
    hot = pairs(*((1, 10 + i % 7) for i in range(60)), *((k, 12) for k in range(2, 30)))
    steps = [(hot, hot), (pairs((1, 40)), hot[:40]), (None, pairs((1, 60)))]
    run(by_time(), TIMED, "left_outer", steps, between(-2, 2))
