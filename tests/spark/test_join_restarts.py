"""A join's checkpoint: both state formats go on, and a changed query is refused in words that say what differs."""

from __future__ import annotations

import pytest
from harness import Running, Source, at
from millrace import spark_glue as mr
from pyspark.sql import functions as F

RANGE = "lk = rk AND lt BETWEEN rt - interval 5 seconds AND rt + interval 5 seconds"


def inputs(spark, key="k"):
    sources = [Source(spark, "k int, t timestamp, v string") for _ in range(2)]
    frames = [
        source.frame().select(F.expr(key).alias(side + "k"), F.col("t").alias(side + "t"), F.col("v").alias(side + "v"))
        for source, side in zip(sources, "lr", strict=True)
    ]
    return sources, [frame.withWatermark(f.columns[1], "10 seconds") for frame, f in zip(frames, frames, strict=True)]


@pytest.mark.parametrize("version", [1, 2])
def test_both_formats_go_on_in_a_query_of_version_2(spark, version):
    (left, right), frames = inputs(spark)
    first = Running(mr.join(*frames, RANGE, state_format_version=version), "append")
    left.add([(1, at(5), "a"), (2, at(6), "b")])
    right.add([(1, at(4), "x")])
    first.start().process()
    first.stop()
    second = Running(mr.join(*frames, RANGE), "append", checkpoint=first.checkpoint)
    right.add([(2, at(7), "y"), (1, at(9), "z")])
    second.start().process()
    second.stop()
    rows = sorted((row.lv, row.rv) for rows in (*first.batches.values(), *second.batches.values()) for row in rows)
    assert rows == [("a", "x"), ("a", "z"), ("b", "y")]


def test_version_1_is_for_inner_joins(spark):
    _, frames = inputs(spark)
    with pytest.raises(mr.InvalidArgument, match="state_format_version: got 1, accepted is 2 for a left_outer join"):
        mr.join(*frames, RANGE, "left_outer", state_format_version=1)


def test_j35_a_changed_join_is_refused_and_says_what_differs(spark):
    (left, right), frames = inputs(spark)
    first = Running(mr.join(*frames, RANGE), "append")
    left.add([(1, at(5), "a")])
    right.add([(1, at(4), "x")])
    first.start().process()
    first.stop()
    left.add([(1, at(6), "b")])
    other_key = [frame.withColumn(c, F.col(c).cast("long")) for frame, c in zip(frames, ("lk", "rk"), strict=True)]
    other_value = [frames[0], frames[1].withColumn("rv", F.length("rv"))]
    for changed, words in [
        (mr.join(*other_key, RANGE), r"join 'join', bucket \d+, batch 1: .*left was .*int32.*now is .*int64"),
        (mr.join(*other_value, RANGE), "right was .*string.*now is .*int32"),
        (mr.join(*frames, RANGE, "left_outer"), 'how was "inner", now is "left_outer"'),
        (mr.join(*frames, RANGE, buckets=5), "buckets was 2, now is 5"),
        (mr.join(*frames, f"{RANGE} AND lv = rv"), "keys was .*now is"),
    ]:
        running = Running(changed, "append", checkpoint=first.checkpoint)
        with pytest.raises(Exception, match=words):
            running.start().process()
        running.stop()
    again = Running(first.frame, "append", checkpoint=first.checkpoint).start()
    again.process()
    again.stop()
    assert [(row.lv, row.rv) for rows in again.batches.values() for row in rows] == [("b", "x")]
