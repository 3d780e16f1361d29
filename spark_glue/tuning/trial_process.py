"""One trial, in a process of its own: a session with the trial's settings, one query over all files.

It reads a job and its settings as JSON from standard input, and writes a JSON line on standard output for
each thing that happens. When standard input ends, its parent is gone, and it ends too.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

from pyspark import cloudpickle
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from ...kernels.errors import InvalidArgument, MillraceError
from ..watch import short_reason
from . import stage_timers
from .job import Job, split_query
from .processes import Sampler, cpu_between
from .query_file import Query, load_query, raised_in
from .settings import Settings
from .task_times import task_times
from .workloads import WORKLOADS

MODES = ("append", "update", "complete")
POLL = 0.1
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
# The child's first words are asked for before any trial: what the query is like.
DESCRIBE, MEASURE = "describe", "measure"


class Teller:
    """Writes events for the parent; whatever else prints goes to standard error."""

    def __init__(self) -> None:
        self._out: TextIO = os.fdopen(os.dup(1), "w", buffering=1)
        os.dup2(2, 1)

    def tell(self, event: str, **values: Any) -> None:
        self._out.write(json.dumps({"event": event, **values}) + "\n")


def the_query(job: Job) -> Query:
    """The workload's, or the user's."""
    if job.workload:
        return WORKLOADS[job.workload].query
    query = load_query(job.query)
    # Workers cannot import the user's file, nor its neighbours by name alone.
    cloudpickle.register_pickle_by_value(sys.modules[query.build.__module__])
    return query


def pin(cores: int) -> None:
    """Keep this process, and the JVM and workers that it will start, on so many cores."""
    if hasattr(os, "sched_setaffinity"):
        allowed = sorted(os.sched_getaffinity(0))
        if cores < len(allowed):
            os.sched_setaffinity(0, allowed[:cores])


def session(job: Job, settings: Settings, folder: Path) -> SparkSession:
    """A session with the trial's settings; the user's own options win over them."""
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), *_query_folder(job)]))
    options = {
        "spark.driver.memory": job.memory,
        "spark.sql.session.timeZone": "UTC",
        "spark.executorEnv.PYTHONPATH": path,
        **settings.spark_options(),
        **job.conf,
        # All that it writes lies in its own folder, which goes with it however it ends.
        "spark.local.dir": str(folder / "local"),
        JAVA_OPTIONS: f"-Djava.io.tmpdir={folder} {job.conf.get(JAVA_OPTIONS, '')}".strip(),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.streaming.numRecentProgressUpdates": "10000",
    }
    os.environ["PYTHONPATH"] = path
    builder = SparkSession.builder.master(f"local[{settings.cores}]").appName("millrace tune")
    for key, value in options.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _query_folder(job: Job) -> list[str]:
    return [str(Path(split_query(job.query)[0]).resolve().parent)] if job.query else []


def stream(spark: SparkSession, folder: str) -> DataFrame:
    """A stream of one file per micro-batch."""
    schema = spark.read.parquet(folder).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(folder)


def built(job: Job, query: Query, settings: Settings, frames: dict[str, DataFrame]) -> DataFrame:
    """Call the user's function; what it raises is told with its place."""
    place = Path(split_query(job.query)[0]) if job.query else Path(__file__)
    try:
        frame = query.build(*(frames[name] for name in query.inputs), **settings.keywords(query.accepted))
    except Exception as error:
        raise InvalidArgument(f"--query: {raised_in(place, error)}") from error
    if not isinstance(frame, DataFrame) or not frame.isStreaming:
        raise InvalidArgument.of("--query", f"a function that returns {type(frame).__name__}", "a streaming DataFrame")
    return frame


def started(frame: DataFrame, job: Job, checkpoint: Path) -> Any:
    """Start the query in the mode that is asked for, else in the first that it can be written in."""
    problems = []
    for mode in [job.output_mode] if job.output_mode else MODES:
        writer = frame.writeStream.format("noop").outputMode(mode).trigger(availableNow=True)
        try:
            return writer.option("checkpointLocation", str(checkpoint / mode)).start()
        except AnalysisException as error:
            problems.append(short_reason(str(error)))
    raise InvalidArgument(f"--query: the query does not start: {problems[0]}")


def batches_of(query: Any) -> Iterator[Any]:
    """The progress of each micro-batch that had rows, as soon as it is there."""
    told = -1
    while True:
        active = query.isActive
        last = query.lastProgress
        if last is not None and last["batchId"] != told:
            # Spark counts from 0 and keeps them all, batches without rows among them.
            yield from (p for p in query.recentProgress if p["batchId"] > told and p["numInputRows"] > 0)
            told = last["batchId"]
        if not active:
            failure = query.exception()
            if failure is not None:
                raise RuntimeError(short_reason(str(failure)))
            return
        time.sleep(POLL)


def measure(job: Job, settings: Settings, folder: Path, teller: Teller) -> None:
    """Run the whole trial."""
    pin(settings.cores)
    sampler = Sampler()
    sampler.start()
    spark = session(job, settings, folder)
    accumulator = stage_timers.install(spark.sparkContext)
    query = the_query(job)
    frames = {name: stream(spark, place) for name, place in job.inputs.items()}
    running = started(built(job, query, settings, frames), job, folder / "checkpoint")
    teller.tell("started")
    steady: list[Any] = []
    for number, progress in enumerate(batches_of(running)):
        ms = progress["durationMs"]["triggerExecution"]
        teller.tell("batch", batch=progress["batchId"], rows=progress["numInputRows"], ms=ms)
        if number >= job.warm_up:
            steady.append(progress)
        if len(steady) == job.batches:
            running.stop()
            break
    sampler.stop()
    if steady:
        teller.tell("totals", **totals(spark, accumulator.value, steady, sampler))


def totals(spark: SparkSession, times: stage_timers.Times, steady: list[Any], sampler: Sampler) -> dict[str, Any]:
    """What the steady batches took together."""
    batches = {str(progress["batchId"]) for progress in steady}
    first, last = (_seconds(steady[i]["timestamp"]) for i in (0, -1))
    stages: dict[str, float] = {}
    for (batch, stage), seconds in times.items():
        if batch in batches:
            stages[stage] = stages.get(stage, 0.0) + seconds
    return {
        "cpu": cpu_between(sampler.samples, first, last + steady[-1]["durationMs"]["triggerExecution"] / 1000),
        "memory": sampler.peak,
        "stages": stages,
        "commit": sum(o.get("commitTimeMs", 0) for p in steady for o in p["stateOperators"]) / 1000,
        "tasks": task_times(spark, str(steady[0]["runId"]), batches),
        "versions": {"spark": spark.version},
    }


def _seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()


def end_with_parent() -> None:
    sys.stdin.read()
    os._exit(1)


def main() -> None:
    """Do what standard input asks for."""
    teller = Teller()
    asked = json.loads(sys.stdin.readline())
    threading.Thread(target=end_with_parent, daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    job = Job(**asked["job"])
    try:
        if asked["do"] == DESCRIBE:
            query = the_query(job)
            teller.tell("query", inputs=query.inputs, accepted=query.accepted)
        else:
            folder = Path(asked.get("folder") or tempfile.mkdtemp(prefix="millrace-tune-"))
            measure(job, Settings(**asked["settings"]), folder, teller)
    except MillraceError as error:
        teller.tell("mistake", reason=str(error))
    except Exception as error:
        teller.tell("failed", reason=short_reason(f"{type(error).__name__}: {error}"))
    teller.tell("over")
    # A session that hangs while it stops would hold up the next trial; the parent ends what is left.
    os._exit(0)


if __name__ == "__main__":
    main()
