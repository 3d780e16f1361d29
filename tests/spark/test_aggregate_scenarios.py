"""The worked scenarios of streaming aggregation, by name: Spark's own operator and ours side by side."""

from __future__ import annotations

import pytest
from harness import Source, at, duel
from millrace import spark_glue as mr
from pyspark.sql import functions as F

WINDOWED = "ts timestamp, v int"


def seconds(*values):
    """Rows whose value is their event second."""
    return [(at(v), int(v)) for v in values]


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


def test_a12_global_sum(spark):
    source = Source(spark, "v int")
    frame = source.frame()
    own = frame.groupBy().agg(F.count(F.lit(1)).alias("n"), F.sum("v").alias("s"))
    ours = mr.aggregate(frame, [], {"n": mr.count(), "s": mr.sum("v")}, output_mode="update")
    duel([source], own, ours, "update", [[[(1,), (2,)]], [[(3,)]], [[]], [[(None,)]]])
