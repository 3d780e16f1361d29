"""`configure`: the session options that make Millrace fast."""

from __future__ import annotations

from typing import TypeVar

Builder = TypeVar("Builder")

OPTIONS = {
    # Python workers are forked from a process that has imported Millrace and loaded its kernels already,
    # and keep what it allocated out of every garbage collection.
    "spark.python.use.daemon": "true",
    "spark.python.daemon.module": "millrace.spark_glue.daemon",
    "spark.python.worker.reuse": "true",
    # Rows come from the JVM in batches of this many: fewer calls, and the kernels' loops run longer.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    # Measuring the batch after every row, to keep it under a size, takes Spark longer than writing it.
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    # The pipe to Python workers carries blobs of megabytes.
    "spark.sql.execution.python.udf.buffer.size": "1048576",
    # Where the state store is RocksDB: a commit writes what changed, rather than flush and copy the whole database.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}


def configure(builder: Builder) -> Builder:
    """Set what makes Millrace fast on a session builder; everything works without it too.

    Parameters
    ----------
    builder
        what ``SparkSession.builder`` gives. Options that are set on it afterwards win.

    Examples
    --------
    .. code-block:: python

        spark = mr.configure(SparkSession.builder.appName("clicks")).getOrCreate()
    """
    for key, value in OPTIONS.items():
        builder = builder.config(key, value)  # type: ignore[attr-defined]
    return builder
