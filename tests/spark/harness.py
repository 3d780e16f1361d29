"""Runs Spark's own operator and ours over the same files, one micro-batch of data per step, and compares sinks."""

from __future__ import annotations

import math
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyspark
from millrace import spark_glue as mr
from pyspark.sql import DataFrame, SparkSession

HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def build_session(master: str, **settings: str) -> SparkSession:
    builder = mr.configure(SparkSession.builder.master(master).appName("millrace-tests"))
    defaults = {
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.log.level": "ERROR",
        "spark.driver.memory": "2g",
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
        "spark.sql.streaming.stateStore.maintenanceInterval": "10min",
        "spark.sql.streaming.pollingDelay": "5ms",
        "spark.driver.extraJavaOptions": "-Djava.net.preferIPv4Stack=true",
    }
    for key, value in {**defaults, **settings}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def spark_at_least(version: str) -> bool:
    """Whether this is that Spark or a later one: some of what it reports has changed."""
    numbers = [[int(number) for number in text.split(".")[:2]] for text in (pyspark.__version__, version)]
    return numbers[0] >= numbers[1]


def at(seconds: float) -> datetime:
    """The time so many seconds after the epoch."""
    return EPOCH + timedelta(seconds=seconds)


class Source:
    """A folder that gets one file per step; every file is a micro-batch."""

    def __init__(self, spark: SparkSession, schema: str) -> None:
        self.spark = spark
        self.schema = schema
        self.folder = Path(tempfile.mkdtemp(prefix="millrace-source-"))
        self.steps = 0

    def frame(self) -> DataFrame:
        reader = self.spark.readStream.schema(self.schema).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self.folder))

    def add(self, rows: Sequence[tuple]) -> None:
        """Add one file; files are taken in the order of their times, so those must differ."""
        frame = self.spark.createDataFrame(list(rows), self.schema).coalesce(1)
        staged = tempfile.mkdtemp(prefix="millrace-staged-")
        frame.write.mode("overwrite").parquet(staged)
        (part,) = Path(staged).glob("part-*.parquet")
        self.steps += 1
        time.sleep(0.01)
        part.rename(self.folder / f"{self.steps:05d}.parquet")


@dataclass
class Running:
    """A query and what its sink got, by batch."""

    frame: DataFrame
    mode: str
    options: dict[str, str] = field(default_factory=dict)
    checkpoint: str = field(default_factory=lambda: tempfile.mkdtemp(prefix="millrace-checkpoint-"))
    batches: dict[int, list] = field(default_factory=dict)
    query: Any = None
    trigger: dict[str, Any] = field(default_factory=dict)

    def start(self) -> Running:
        def take(frame: DataFrame, batch: int) -> None:
            self.batches[batch] = frame.collect()

        writer = self.frame.writeStream.outputMode(self.mode).foreachBatch(take)
        if self.trigger:
            writer = writer.trigger(**self.trigger)
        self.query = writer.option("checkpointLocation", self.checkpoint).start()
        return self

    def process(self) -> None:
        self.query.processAllAvailable()

    def stop(self) -> None:
        self.query.stop()

    def restart(self) -> None:
        self.stop()
        self.start()

    def outputs(self) -> dict[int, Counter]:
        """Rows by batch, as multisets; batches without rows do not count."""
        return {batch: Counter(map(normal, rows)) for batch, rows in sorted(self.batches.items()) if rows}


def normal(value: Any) -> Any:
    """A value that can be compared and counted: floats to nine digits, NaN equal to itself."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else float(f"{value:.9e}") + 0.0
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, tuple | list):
        return tuple(normal(v) for v in value)
    if isinstance(value, dict):
        return tuple(sorted((normal(k), normal(v)) for k, v in value.items()))
    return value


@contextmanager
def conf(spark: SparkSession, settings: dict[str, str]) -> Iterator[None]:
    """Session options for a while; a query keeps those that it is started with."""
    before = {key: spark.conf.get(key, None) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, value)


def watermarks(running: Running) -> list[float]:
    """The watermark of every batch of the current run, in seconds."""
    times = [
        progress["eventTime"].get("watermark")
        for progress in running.query.recentProgress
        if "watermark" in progress["eventTime"]
    ]
    return [datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() for text in times]


def progress_metrics(running: Running, name: str) -> dict[int, tuple[int, ...]]:
    """(total, updated, removed, late) by batch: of Spark's own operator, or of ours by `name`."""
    result = {}
    for progress in running.query.recentProgress:
        batch, observed = progress["batchId"], progress["observedMetrics"]
        if f"millrace:{name}" in observed:
            row = observed[f"millrace:{name}"]
            if name == "join":
                assert row["numLeftStateRows"] + row["numRightStateRows"] == row["numTotalStateRows"]
            result[batch] = (
                row["numTotalStateRows"], row["numUpdatedStateRows"],
                row["numRemovedStateRows"], row["numRowsDroppedByWatermark"],
            )  # fmt: skip
        elif not observed and progress["stateOperators"] and progress["durationMs"].get("addBatch"):
            own = progress["stateOperators"][0]
            result[batch] = (
                own["numRowsTotal"], own["numRowsUpdated"], own["numRowsRemoved"], own["numRowsDroppedByWatermark"],
            )  # fmt: skip
    return result


def duel(
    sources: Sequence[Source],
    own: DataFrame,
    ours: DataFrame,
    mode: str,
    steps: Sequence[Sequence[Sequence[tuple]]],
    *,
    own_mode: str | None = None,
    restart_after: Sequence[int] = (),
    metrics: str | None = None,
    together: bool = False,
    compare: Callable[[dict], dict] = lambda outputs: outputs,
) -> list[dict[int, Counter]]:
    """Run both over the steps, each a list of rows per source (None: nothing), and compare after each.

    Running queries take the files of a step as they come, one source after the other; with `together` all are
    of one batch. Returns what Spark's own gave after each step, for scenarios that state it.
    """
    pair = [Running(own, own_mode or mode).start(), Running(ours, mode).start()]
    seen = []
    try:
        for number, step in enumerate(steps):
            paused = together and sum(rows is not None for rows in step) > 1
            for running in pair if paused else ():
                running.stop()
            for source, rows in zip(sources, step, strict=True):
                if rows is not None:
                    source.add(rows)
            for running in pair:
                (running.start() if paused else running).process()
            expected, got = (compare(running.outputs()) for running in pair)
            assert got == expected, f"after step {number}: {got}, Spark: {expected}"
            seen.append(expected)
            # Before 4.3, Spark's join left out some of the rows that it removes, and semi joins kept more.
            if metrics and (metrics != "join" or spark_at_least("4.3")):
                wanted = progress_metrics(pair[0], metrics)
                ours_now = progress_metrics(pair[1], metrics)
                for batch, row in ours_now.items():
                    assert row == wanted.get(batch, row), f"metrics of batch {batch}: {row}, Spark: {wanted[batch]}"
            if number in restart_after:
                for running in pair:
                    running.restart()
    finally:
        for running in pair:
            running.stop()
    return seen
