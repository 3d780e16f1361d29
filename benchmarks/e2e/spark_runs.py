"""The Spark session, and one query over all files of its inputs."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from millrace import spark_glue as mr
from millrace.spark_glue.tuning.settings import STORE_OPTION, STORES
from pyspark.sql import DataFrame, SparkSession

from .workload import Build

CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
STORE_SETTINGS = {
    "hdfs": {STORE_OPTION: STORES["hdfs"]},
    "rocksdb": {STORE_OPTION: STORES["rocksdb"], CHANGELOG: "true"},
    "rocksdb-snapshots": {STORE_OPTION: STORES["rocksdb"], CHANGELOG: "false"},
}


@dataclass(frozen=True)
class Surroundings:
    """What all queries of a run share."""

    cores: int = 2
    partitions: int | None = None
    sink: str = "noop"
    memory: str = "6g"
    daemon: bool = True
    # More settings of the session, for both sides; they win over all but the store's.
    conf: Mapping[str, str] = field(default_factory=dict)

    def session(self, store: str) -> SparkSession:
        """The one session, set to a state store."""
        builder = SparkSession.builder.master(f"local[{self.cores}]").appName("millrace-bench")
        settings = {
            "spark.sql.shuffle.partitions": self.partitions or self.cores,
            "spark.sql.streaming.numRecentProgressUpdates": 1000,
            "spark.driver.memory": self.memory,
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.session.timeZone": "UTC",
            "spark.log.level": "ERROR",
            **self.conf,
        }
        if self.daemon:
            builder = mr.configure(builder)
        for key, value in settings.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        # Set on the session, which may be an earlier store's.
        for key, value in STORE_SETTINGS[store].items():
            spark.conf.set(key, value)
        return spark


def stream(spark: SparkSession, folder: Path) -> DataFrame:
    """A file a micro-batch."""
    schema = spark.read.parquet(str(folder)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


def run_query(
    spark: SparkSession,
    build: Build,
    mode: str,
    folders: dict[str, Path],
    sink: str | Callable[[DataFrame, int], None] = "noop",
) -> list[int]:
    """Milliseconds of each micro-batch that had rows."""
    frame = build({name: stream(spark, folder) for name, folder in folders.items()})
    scratch = Path(tempfile.mkdtemp(prefix="millrace-bench-"))
    writer = frame.writeStream.outputMode(mode).option("checkpointLocation", str(scratch / "checkpoint"))
    writer = writer.format(sink) if isinstance(sink, str) else writer.foreachBatch(sink)
    try:
        query = writer.trigger(availableNow=True).start(*[str(scratch / "sink")] if sink == "parquet" else ())
        query.awaitTermination()
        return [p["durationMs"]["triggerExecution"] for p in query.recentProgress if p["numInputRows"] > 0]
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
