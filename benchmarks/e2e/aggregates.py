"""Grouped aggregation: running by key, with many and with few keys, and in windows."""

from __future__ import annotations

from collections.abc import Iterator

from millrace import spark_glue as mr
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from .inputs import events
from .workload import Workload, pair

AGGS = {"n": mr.count(), "s": mr.sum("v"), "m": mr.max("v")}
Frames = dict[str, DataFrame]


def own_aggs() -> list:
    return [F.count(F.lit(1)).alias("n"), F.sum("v").alias("s"), F.max("v").alias("m")]


def own_running(frames: Frames) -> DataFrame:
    return frames["events"].groupBy("k").agg(*own_aggs())


def our_running(frames: Frames) -> DataFrame:
    return mr.aggregate(frames["events"], ["k"], AGGS, output_mode="update")


def own_windows(frames: Frames, length: str = "10 minutes") -> DataFrame:
    events = frames["events"].withWatermark("ts", "1 minute")
    return events.groupBy(F.window("ts", length).alias("window"), "k").agg(*own_aggs())


def our_windows(frames: Frames, length: str = "10 minutes") -> DataFrame:
    return mr.aggregate(
        frames["events"], ["k"], AGGS,
        window=mr.window("ts", length), watermark=("ts", "1 minute"), output_mode="append",
    )  # fmt: skip


def own_minutes(frames: Frames) -> DataFrame:
    return own_windows(frames, "1 minute")


def our_minutes(frames: Frames) -> DataFrame:
    return our_windows(frames, "1 minute")


def workloads() -> Iterator[Workload]:
    """Two million rows a micro-batch."""

    def workload(name, mode, own, ours, targets, keys=1_000_000, check_batches=4):
        compared = pair(name, own, ours, targets)
        return Workload(
            name, "aggregate", mode, 2_000_000, keys, {"events": events}, check_batches=check_batches, **compared
        )

    yield workload("aggregate, update", "update", own_running, our_running, {"hdfs": 2.0, "rocksdb": 5.0})
    yield workload("aggregate, update, 10,000 keys", "update", own_running, our_running, {}, keys=10_000)
    yield workload(
        "aggregate, 10-minute windows, append", "append", own_windows, our_windows, {"hdfs": 2.5}, check_batches=13
    )
    # A window ends in every micro-batch, so that every one of them evicts as much as it stores.
    yield workload("aggregate, 1-minute windows, append", "append", own_minutes, our_minutes, {})
