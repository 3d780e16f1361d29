"""What Spark itself knows of the tasks of some batches: run time, garbage collection, shuffle."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pyspark.sql import SparkSession


def task_times(spark: SparkSession, run_id: str, batches: Collection[str]) -> dict[str, float] | None:
    """Seconds, added up over all tasks of the batches; None where this Spark does not tell.

    They come from the store behind Spark's user interface, which is kept also where none is shown.
    """
    try:
        stages = list(_stages(spark))
    except Exception:  # the store is no public interface, and only a part of the report hangs on it
        return None
    sums = {"run": 0.0, "gc": 0.0, "shuffle_write": 0.0, "shuffle_wait": 0.0, "shuffle_bytes": 0.0}
    for stage in stages:
        description = stage.description()
        text = description.get() if description.isDefined() else ""
        if run_id in text and _batch_of(text) in batches:
            sums["run"] += stage.executorRunTime() / 1e3
            sums["gc"] += stage.jvmGcTime() / 1e3
            sums["shuffle_write"] += stage.shuffleWriteTime() / 1e9
            sums["shuffle_wait"] += stage.shuffleFetchWaitTime() / 1e3
            sums["shuffle_bytes"] += stage.shuffleWriteBytes()
    return sums if sums["run"] else None


def _stages(spark: SparkSession) -> Any:
    context = spark.sparkContext
    gateway: Any = context._gateway
    jvm: Any = context._jvm
    none = gateway.new_array(jvm.double, 0)
    found = context._jsc.sc().statusStore().stageList(None, False, False, none, jvm.java.util.ArrayList())
    return (found.apply(i) for i in range(found.size()))


def _batch_of(description: str) -> str:
    """Read the batch off the description that Spark gives to the jobs of a streaming query.

    Examples
    --------
    >>> _batch_of("id = 1a<br/>runId = 2b<br/>batch = 7")
    '7'
    """
    return description.rpartition("batch = ")[2].split()[0] if "batch = " in description else ""
