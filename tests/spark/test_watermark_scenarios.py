"""Scenarios of the watermark, by name: its value, who moves it, no-data batches, triggers and recovery."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness import Running, Source, conf, duel, watermarks
from millrace import spark_glue as mr
from pyspark.sql import functions as F
from test_aggregate_scenarios import A1, WINDOWED, seconds, starts, windowed

NO_DATA = "spark.sql.streaming.noDataMicroBatches.enabled"
MULTIPLE = "spark.sql.streaming.statefulOperator.allowMultiple"
POLICY = "spark.sql.streaming.multipleWatermarkPolicy"


def test_a10_watermarks_are_floored_to_milliseconds(spark):
    source = Source(spark, WINDOWED)
    steps = [[seconds(1)], [seconds(5.999999)], [seconds(6.000999)]]
    seen = duel([source], *windowed(source, "append", delay="1 second"), "append", steps, metrics="aggregate")
    assert [starts(outputs) for outputs in seen] == [[], [], [[(0, 1)]]]


@pytest.mark.parametrize(("multiple", "tens"), [("true", 2), ("false", 1)])
def test_a11_late_rows_without_no_data_batches(spark, multiple, tens):
    source = Source(spark, WINDOWED)
    with conf(spark, {NO_DATA: "false", MULTIPLE: multiple}):
        pair = windowed(source, "append")
        steps = [[seconds(10, 25)], [seconds(12, 26)], [seconds(13, 27)]]
        seen = duel([source], *pair, "append", steps, metrics="aggregate")
    assert [starts(outputs) for outputs in seen] == [[], [[(10, tens)]], [[(10, tens)]]]


def test_p1_reported_watermark(spark):
    source = Source(spark, WINDOWED)
    steps = [[seconds(15)], [seconds(10, 12, 14)], [seconds(25)]]
    runs = [Running(frame, "append").start() for frame in windowed(source, "append")]
    for (rows,) in steps:
        source.add(rows)
        for running in runs:
            running.process()
    for running in runs:
        running.stop()
        assert starts(running.outputs()) == [[(10, 3)]]
    assert watermarks(runs[1]) == watermarks(runs[0]) == [0, 5, 5, 5, 15]


def test_p2_one_batch_a_run(spark):
    source = Source(spark, WINDOWED)
    runs = [Running(frame, "append", trigger={"once": True}) for frame in windowed(source, "append")]
    seen = []
    for rows in (seconds(15), seconds(10, 12, 14), seconds(25), seconds(50), seconds(50)):
        source.add(rows)
        for running in runs:
            running.start().query.awaitTermination()
        assert runs[1].outputs() == runs[0].outputs()
        seen.append(starts(runs[0].outputs()))
    assert seen == [[], [], [], [[(10, 3)]], [[(10, 3)], [(15, 1), (25, 1)]]]


def test_p3_recovery_of_a_batch_that_was_not_committed(spark):
    source = Source(spark, WINDOWED)
    runs = [Running(frame, "append").start() for frame in windowed(source, "append")]

    def step(rows):
        source.add(rows)
        for running in runs:
            running.process()
        assert runs[1].outputs() == runs[0].outputs()
        return starts(runs[0].outputs())

    step(seconds(10, 11, 12, 13, 14, 15))
    assert step(seconds(25)) == [[(10, 5)]]
    for running in runs:
        running.stop()
        commits = sorted(Path(running.checkpoint, "commits").glob("[0-9]*"), key=lambda path: int(path.name))
        commits[-1].unlink()
        Path(running.checkpoint, "commits", f".{commits[-1].name}.crc").unlink(missing_ok=True)
        running.batches.clear()
        running.start().process()
        assert starts(running.outputs()) == [[(10, 5)]]
    assert step(seconds(10, 27, 30))[1:] == [[(15, 1)]]
    for running in runs:
        running.restart()
    assert step(seconds(17))[1:] == [[(15, 1)]]
    assert step(seconds(40))[1:] == [[(15, 1)], [(25, 2)]]
    for running in runs:
        running.stop()


def two_sources(spark, delays):
    """Two sources in one frame, each with a watermark of its own, grouped by window."""
    sources = [Source(spark, WINDOWED) for _ in delays]
    left, right = (s.frame().withWatermark("ts", delay) for s, delay in zip(sources, delays, strict=True))
    frame = left.union(right)
    window = F.window("ts", "5 seconds").alias("window")
    own = frame.groupBy(window).agg(F.count(F.lit(1)).alias("n"))
    ours = mr.aggregate(frame, aggs={"n": mr.count()}, window=mr.window("ts", "5 seconds"), output_mode="append")
    return sources, own, ours


def union_watermarks(spark, delays, steps, settings, restart=()):
    """Run the steps on both, with the watermark in seconds that each ended with."""
    seen = []
    with conf(spark, settings):
        sources, *frames = two_sources(spark, delays)
        runs = [Running(frame, "append").start() for frame in frames]
    for number, step in enumerate(steps):
        for source, rows in zip(sources, step, strict=True):
            if rows:
                source.add(seconds(*rows))
        for running in runs:
            running.process()
        assert runs[1].outputs() == runs[0].outputs()
        if number in restart:
            # What the policy was is read from the checkpoint.
            with conf(spark, {POLICY: "min"}):
                for running in runs:
                    running.restart()
            continue
        ends = [watermarks(running)[-1] for running in runs]
        assert ends[0] == ends[1]
        seen.append(ends[0])
    for running in runs:
        running.stop()
    return seen


def test_p4_two_sources_the_slower_counts(spark):
    steps = [([11], []), ([], [6]), ([], [8]), ([21], []), ([], [17, 28, 39]), ([31], []), ([41], []), ([51], [])]
    assert union_watermarks(spark, ("10 seconds", "5 seconds"), steps, {}) == [0, 1, 1, 3, 11, 21, 31, 34]


def test_p5_two_sources_the_faster_counts(spark):
    steps = [([20], [30]), ([120], [130]), ([150], [])]
    seen = union_watermarks(spark, ("10 seconds", "15 seconds"), steps, {POLICY: "max"}, restart=[1])
    assert seen == [15, 140]


def test_p6_two_sources_one_idle(spark):
    steps = [([20], [30]), ([120], [130]), ([], [150])]
    assert union_watermarks(spark, ("10 seconds", "15 seconds"), steps, {}) == [10, 110, 110]


def test_p7_without_no_data_batches(spark):
    source = Source(spark, WINDOWED)
    with conf(spark, {NO_DATA: "false"}):
        seen = duel([source], *windowed(source, "append"), "append", [[A1[0]], [seconds(25)], [seconds(26)]])
    assert [starts(outputs) for outputs in seen] == [[], [], [[(10, 5)]]]
