"""The worked scenarios of streaming aggregation, by name: Spark's own operator and ours side by side."""

from __future__ import annotations

import pytest
from harness import Running, Source, at, duel, progress_metrics
from millrace import spark_glue as mr
from pyspark.sql import functions as F

WINDOWED = "ts timestamp, v int"


def seconds(*values):
    """Rows whose value is their event second."""
    return [(at(v), int(v)) for v in values]


def counts(outputs):
    """Rows of all batches in order, as plain tuples."""
    return [sorted(map(tuple, rows.elements())) for rows in outputs.values()]


def windowed(source, mode, delay="10 seconds", size="5 seconds", slide=None):
    """A windowed count, in Spark's words and in ours."""
    frame = source.frame()
    times = [size] if slide is None else [size, slide]
    own = (
        frame.withWatermark("ts", delay)
        .groupBy(F.window("ts", *times).alias("window"))
        .agg(F.count(F.lit(1)).alias("n"))
    )
    window = mr.window("ts", size, slide=slide)
    ours = mr.aggregate(frame, aggs={"n": mr.count()}, window=window, watermark=("ts", delay), output_mode=mode)
    return own, ours


def starts(outputs):
    """Window starts in seconds and counts, of all batches in order."""
    return [sorted((int(row[0][0].timestamp()), row[1]) for row in rows.elements()) for rows in outputs.values()]


A1 = [seconds(10, 11, 12, 13, 14, 15), seconds(25), seconds(10, 25), seconds(10), seconds(20)]


def test_a1_append(spark):
    source = Source(spark, WINDOWED)
    seen = duel([source], *windowed(source, "append"), "append", [[rows] for rows in A1], metrics="aggregate")
    assert starts(seen[-1]) == [[(10, 5)]]


def test_a2_update(spark):
    source = Source(spark, WINDOWED)
    seen = duel([source], *windowed(source, "update"), "update", [[rows] for rows in A1], metrics="aggregate")
    assert starts(seen[-1]) == [[(10, 5), (15, 1)], [(25, 1)], [(25, 2)], [(20, 1)]]


def test_a3_complete(spark):
    source = Source(spark, WINDOWED)
    own, ours = windowed(source, "complete")
    seen = duel([source], own, ours, "update", [[rows] for rows in A1], own_mode="complete", metrics="aggregate")
    assert starts(seen[-1])[-1] == [(10, 7), (15, 1), (20, 1), (25, 2)]


@pytest.mark.parametrize("restart", [(), (0, 1, 2)])
def test_a7_sliding_windows(spark, restart):
    source = Source(spark, WINDOWED)
    pair = windowed(source, "append", size="10 seconds", slide="5 seconds")
    steps = [[seconds(12)], [seconds(25)], [seconds(30)]]
    seen = duel([source], *pair, "append", steps, restart_after=restart)
    assert starts(seen[-1]) == [[(5, 1)], [(10, 1)]]


def test_a8_null_event_time_as_a_key(spark):
    source = Source(spark, WINDOWED)
    frame = source.frame()
    own = frame.withWatermark("ts", "10 seconds").groupBy("ts").count()
    ours = mr.aggregate(frame, ["ts"], {"count": mr.count()}, watermark=("ts", "10 seconds"), output_mode="append")
    steps = [[[(None, 1), *seconds(12)]], [seconds(50)], [[(None, 1)]]]
    duel([source], own, ours, "append", steps, metrics="aggregate")


def test_a4_a_window_leaves_when_its_end_is_the_watermark(spark):
    source = Source(spark, WINDOWED)
    steps = [[seconds(12)], [seconds(24)], [seconds(25)]]
    seen = duel([source], *windowed(source, "append"), "append", steps, metrics="aggregate")
    assert [starts(outputs) for outputs in seen] == [[], [], [[(10, 1)]]]


def late_counts(source, steps):
    """Late groups, by batch, of a windowed count that runs over the steps one by one."""
    running = Running(windowed(source, "append")[1], "append").start()
    for rows in steps:
        source.add(rows)
        running.process()
    running.stop()
    return [late for _, _, _, late in progress_metrics(running, "aggregate").values()]


def test_a5_late_is_told_by_the_end_of_the_window(spark):
    steps = [seconds(26), seconds(14, 15)]
    source = Source(spark, WINDOWED)
    duel([source], *windowed(source, "append"), "append", [[rows] for rows in steps], metrics="aggregate")
    assert late_counts(Source(spark, WINDOWED), steps) == [0, 0, 1]


def test_a6_late_rows_are_counted_by_group(spark):
    steps = [seconds(30), seconds(10, 11, 16)]
    source = Source(spark, WINDOWED)
    duel([source], *windowed(source, "append"), "append", [[rows] for rows in steps], metrics="aggregate")
    assert late_counts(Source(spark, WINDOWED), steps) == [0, 0, 2]


def test_a9_null_event_times_lie_in_no_window(spark):
    source = Source(spark, WINDOWED)
    steps = [[[(None, 1), *seconds(12)]], [seconds(50)], [[(None, 1)]]]
    seen = duel([source], *windowed(source, "append"), "append", steps, metrics="aggregate")
    assert starts(seen[-1]) == [[(10, 1)]]


def test_a12_global_sum(spark):
    source = Source(spark, "v int")
    frame = source.frame()
    own = frame.groupBy().agg(F.count(F.lit(1)).alias("n"), F.sum("v").alias("s"))
    ours = mr.aggregate(frame, [], {"n": mr.count(), "s": mr.sum("v")}, output_mode="update")
    duel([source], own, ours, "update", [[[(1,), (2,)]], [[(3,)]], [[]], [[(None,)]]])


def test_a13_append_needs_a_watermark_on_a_key(spark):
    frame = Source(spark, WINDOWED).frame()
    for marked in (frame, frame.withWatermark("ts", "10 seconds")):
        # Spark refuses it when the query starts.
        with pytest.raises(Exception, match="watermark"):
            Running(marked.groupBy("v").count(), "append").start()
        with pytest.raises(mr.InvalidArgument, match=r"output_mode: got 'append'.*watermark"):
            mr.aggregate(marked, ["v"], {"count": mr.count()}, output_mode="append")


def by_value(source, mode, keys=("v",)):
    frame = source.frame()
    for position, key in enumerate(keys[1:], 1):
        frame = frame.withColumn(key, F.col("v") + position)
    return frame.groupBy(*keys).count(), mr.aggregate(frame, list(keys), {"count": mr.count()}, output_mode=mode)


def values(*numbers):
    return [[(number,) for number in numbers]]


def test_a14_count_by_value(spark):
    source = Source(spark, "v int")
    steps = [values(3), values(3, 2), values(3, 2, 1), values(4, 4, 4, 4)]
    seen = duel([source], *by_value(source, "update"), "update", steps, restart_after=[1], metrics="aggregate")
    assert counts(seen[-1]) == [[(3, 1)], [(2, 1), (3, 2)], [(1, 1), (2, 2), (3, 3)], [(4, 4)]]


def test_a15_count_by_value_complete(spark):
    source = Source(spark, "v int")
    steps = [values(3), values(2), values(3, 2, 1), values(4, 4, 4, 4)]
    own, ours = by_value(source, "complete")
    seen = duel([source], own, ours, "update", steps, own_mode="complete", restart_after=[1], metrics="aggregate")
    assert counts(seen[-1]) == [
        [(3, 1)], [(2, 1), (3, 1)], [(1, 1), (2, 2), (3, 2)], [(1, 1), (2, 2), (3, 2), (4, 4)],
    ]  # fmt: skip


@pytest.mark.parametrize(("mode", "second"), [("update", 3), ("complete", 4)])
def test_a16_a17_metrics(spark, mode, second):
    source = Source(spark, "v int")
    frame = source.frame().select(F.explode(F.array("v", F.col("v") + 1)).alias("v"))
    own = frame.groupBy("v").count()
    ours = mr.aggregate(frame, ["v"], {"count": mr.count()}, output_mode=mode)
    steps = [values(1), values(2, 3)]
    seen = duel([source], own, ours, "update", steps, own_mode=mode, metrics="aggregate")
    assert [len(batch) for batch in counts(seen[-1])] == [2, second]


def test_a18_two_keys(spark):
    source = Source(spark, "v int")
    seen = duel([source], *by_value(source, "update", ("v", "w")), "update", [values(1, 2), values(1, 2)])
    assert counts(seen[-1]) == [[(1, 2, 1), (2, 3, 1)], [(1, 2, 2), (2, 3, 2)]]


def test_a19_a_failure_in_the_first_batch_counts_nothing_twice(spark, tmp_path):
    marker = tmp_path / "failed"

    def fail_once(values):
        for batch in values:
            if not marker.exists():
                marker.touch()
                raise RuntimeError("on purpose")
            yield batch

    source = Source(spark, "v int")
    frame = source.frame().mapInPandas(fail_once, "v int")
    source.add([(1,), (2,), (3,)])
    running = Running(mr.aggregate(frame, ["v"], {"count": mr.count()}, output_mode="update"), "update").start()
    with pytest.raises(Exception, match="on purpose"):
        running.process()
    running.start().process()
    running.stop()
    assert counts(running.outputs()) == [[(1, 1), (2, 1), (3, 1)]]


def test_a20_empty_batches_and_a_global_count(spark):
    source = Source(spark, "v int")
    frame = source.frame()
    own = frame.groupBy().agg(F.count(F.lit(1)).alias("n"))
    ours = mr.aggregate(frame, [], {"n": mr.count()}, output_mode="complete")
    steps = [values(1), [[]], values(2, 3), [[]]]
    seen = duel([source], own, ours, "update", steps, own_mode="complete")
    assert counts(seen[-1]) == [[(1,)], [(1,)], [(3,)], [(3,)]]


def test_a21_the_event_time_itself_as_the_key(spark):
    source = Source(spark, WINDOWED)
    frame = source.frame()
    own = frame.withWatermark("ts", "10 seconds").groupBy("ts").count()
    ours = mr.aggregate(frame, ["ts"], {"count": mr.count()}, watermark=("ts", "10 seconds"), output_mode="append")
    seen = duel([source], own, ours, "append", [[seconds(10)], [seconds(25)]], metrics="aggregate")
    assert [[row[1] for row in batch] for batch in counts(seen[-1])] == [[1]]
