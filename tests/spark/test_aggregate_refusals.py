"""Mistakes are refused on the driver in plain words; a changed query on a checkpoint says what differs."""

from __future__ import annotations

import pytest
from harness import Running, Source, at
from millrace import spark_glue as mr
from millrace.spark_glue.buckets import bucket_keys, murmur3
from pyspark.sql import functions as F

EVENTS = "k int, ts timestamp, v bigint, tags array<string>"
N = {"n": mr.count()}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"keys": ["kk"], "aggs": N}, r"keys: there is no column 'kk' \(did you mean 'k'\?\)"),
        ({"keys": "k", "aggs": N}, "keys: got 'k', accepted is a list"),
        ({"keys": ["tags"], "aggs": N}, "keys: column 'tags' is list"),
        ({"keys": ["k"], "aggs": {}}, "aggs: got {}"),
        ({"keys": ["k"], "aggs": {"n": "count"}}, r"aggs\['n'\]: got 'count', accepted is an aggregate function"),
        ({"keys": ["k"], "aggs": {"n": mr.sum("ts")}}, r"aggs\['n'\]: sum got column 'ts' of type timestamp"),
        ({"keys": ["k"], "aggs": {"n": mr.sum("w")}}, r"aggs\['n'\]: there is no column 'w'"),
        ({"keys": ["k"], "aggs": {"k": mr.count()}}, "'k' would come twice"),
        ({"keys": ["k"], "aggs": N, "output_mode": "upsert"}, "output_mode: got 'upsert'"),
        ({"keys": ["k"], "aggs": N, "output_mode": "append"}, "output_mode: got 'append'"),
        ({"keys": ["k"], "aggs": N, "watermark": ("ts", "-1 seconds")}, "watermark: got '-1 seconds'"),
        ({"keys": ["k"], "aggs": N, "watermark": ("k", "1 second")}, "column 'k' is int, accepted is timestamp"),
        ({"keys": ["k"], "aggs": N, "buckets": 0}, "buckets: got 0, accepted is an int from 1"),
        ({"keys": ["k"], "aggs": N, "state_backend": "disk"}, "state_backend: got 'disk', accepted is 'inline'"),
        ({"keys": ["k"], "aggs": N, "state_format_version": 3}, "3"),
        ({"keys": ["k"], "aggs": N, "name": ""}, "name: got ''"),
        ({"keys": ["k"], "aggs": N, "window": "10 minutes"}, "window: got '10 minutes'"),
    ],
)
def test_wrong_arguments(spark, arguments, words):
    with pytest.raises(mr.InvalidArgument, match=words):
        mr.aggregate(Source(spark, EVENTS).frame(), **arguments)


def test_wrong_windows_and_two_watermarks(spark):
    with pytest.raises(mr.InvalidArgument, match=r"window\.slide"):
        mr.window("ts", "10 seconds", slide="20 seconds")
    frame = Source(spark, EVENTS).frame().withWatermark("ts", "1 second")
    with pytest.raises(mr.InvalidArgument, match="already has a watermark on 'ts'"):
        mr.aggregate(frame, ["ts"], N, watermark=("ts", "1 second"))


def fails(running, words):
    with pytest.raises(Exception, match=words):
        running.start().process()
    running.stop()


def test_a_changed_query_is_refused_and_says_what_differs(spark):
    source = Source(spark, "k int, v bigint, ts timestamp")
    source.add([(1, 2, at(1)), (3, 4, at(1))])
    first = Running(mr.aggregate(source.frame(), ["k"], N, output_mode="update"), "update")
    first.start().process()
    first.stop()
    source.add([(1, 1, at(2))])
    by_window = mr.aggregate(source.frame(), ["k"], N, window=mr.window("ts", "1 minute"), output_mode="update")
    for changed, words in [
        (by_window, "window was"),
        (mr.aggregate(source.frame(), ["v"], N, output_mode="update"), "aggregate 'aggregate', bucket .*keys was"),
        (mr.aggregate(source.frame(), ["k"], {"m": mr.count()}, output_mode="update"), "aggs was"),
        (mr.aggregate(source.frame(), ["k"], N, output_mode="update", buckets=3), "buckets was 2, now is 3"),
    ]:
        fails(Running(changed, "update", checkpoint=first.checkpoint), words)
    again = Running(first.frame, "update", checkpoint=first.checkpoint)
    again.start().process()
    again.stop()
    assert [tuple(row) for rows in again.batches.values() for row in rows] == [(1, 2)]


def test_an_overflow_names_its_place_and_leaves_the_state_as_it_was(spark):
    source = Source(spark, "k int, v bigint")
    frame = source.frame()
    total = mr.aggregate(frame, ["k"], {"s": mr.sum("v")}, output_mode="update", name="totals")
    running = Running(total, "update")
    source.add([(1, 2**62)])
    running.start().process()
    source.add([(1, 2**62)])
    with pytest.raises(Exception, match=r"aggregate 'totals', bucket \d+, batch 1: .*does not fit"):
        running.process()
    running.stop()
    (source.folder / "00002.parquet").unlink()
    source.steps = 1
    source.add([(1, -5)])
    running.start().process()
    running.stop()
    assert [tuple(row) for rows in running.batches.values() for row in rows] == [(1, 2**62), (1, 2**62 - 5)]


@pytest.mark.parametrize("version", [1, 2])
def test_both_state_formats_go_on_in_a_query_of_version_2(spark, version):
    source = Source(spark, "ts timestamp, v int")
    source.add([(at(12), 1)])
    make = {"aggs": N, "window": mr.window("ts", "5 seconds"), "watermark": ("ts", "10 seconds")}
    first = Running(mr.aggregate(source.frame(), **make, state_format_version=version), "append")
    first.start().process()
    first.stop()
    source.add([(at(40), 1)])
    second = Running(mr.aggregate(source.frame(), **make), "append", checkpoint=first.checkpoint)
    second.start().process()
    second.stop()
    assert [row.n for rows in second.batches.values() for row in rows] == [1]


def test_buckets_lie_evenly_where_spark_puts_them(spark):
    frame = spark.createDataFrame([(key,) for key in bucket_keys(8)], "b int")
    placed = frame.select(F.hash("b").alias("h"), F.expr("pmod(hash(b), 8)").alias("p")).collect()
    assert sorted(row.p for row in placed) == list(range(8))
    assert [row.h % 2**32 for row in placed] == [murmur3(key) for key in bucket_keys(8)]
    assert frame.repartition(4, "b").groupBy(F.spark_partition_id()).count().agg(F.max("count")).first()[0] == 2
