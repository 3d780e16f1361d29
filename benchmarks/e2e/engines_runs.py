"""Other engines against Spark and Millrace: the same files, the same results, rows a second."""

from __future__ import annotations

import statistics
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from .checks import DifferentResults, in_order
from .engine_jobs import BATCHES, JOBS, LAST, Job
from .engine_programs import ENGINES, Absent, Engine, Way
from .figures import Figures
from .inputs import SECOND, first_batches
from .measure import surroundings
from .spark_runs import run_query
from .workload import Pace, Side

CHECK_ROWS, CHECK_KEYS = 2_000, 200
PACE = Pace(6, BATCHES - 6)
HOUR = 3600 * SECOND
RUNS = 3  # of each engine, timed


def measure_engines(figures: Figures, options: Namespace) -> Iterator[str]:
    """Check and time every engine that is installed on every job it has; gives a line for each."""
    jobs = [job for job in JOBS if options.only in f"engines, {job.name}"]
    there = []
    for engine in ENGINES if jobs else ():
        try:
            figures.engine_versions[engine.title] = engine.run()["version"]
            figures.absent.pop(engine.title, None)
            there.append(engine)
        except Absent as reason:
            figures.absent[engine.title] = str(reason)
            yield f"{engine.title}: {reason}"
    for job in jobs:
        with tempfile.TemporaryDirectory(prefix="millrace-engines-") as folder:
            yield from Race(figures, job, there, options, Path(folder)).run()


class Race:
    """One job through Spark, Millrace and all engines that are there."""

    def __init__(self, figures: Figures, job: Job, engines: list[Engine], options: Namespace, folder: Path) -> None:
        self.figures, self.job, self.options, self.folder = figures, job, options, folder
        self.around = surroundings(options)
        self.ways = [(engine, way) for engine in engines for way in engine.jobs.get(job.name, ())]
        self.rows, self.keys = options.rows or job.rows, options.keys or job.keys
        self.entry = figures.entry("engines", job=job.name)
        self.entry.update(title=job.title, rows=self.rows * len(job.inputs), keys=self.keys, batches=BATCHES)
        self.entry.setdefault("runs", [])

    def run(self) -> Iterator[str]:
        """Check, then time, whoever is not in the figures yet."""
        measured = {run["engine"] for run in self.entry["runs"]}
        sides = [side for side in self.job.sides if side.name not in measured]
        ways = [(engine, way) for engine, way in self.ways if engine.label(way) not in measured]
        if not (sides or ways):
            return
        spark = self.around.session(self.job.store)
        ways = list(self.agreeing(spark, ways))
        for side in sides:
            yield self.add(side.name, 1.0, list(self.timed_side(spark, side)))
        # Spark's memory and threads are not to stand in the way of the others.
        spark.stop()
        for engine, way in ways:
            try:
                yield self.add(engine.label(way), way.share, list(self.timed_way(engine, way)))
            except Absent as reason:
                self.figures.absent[self.named(engine, way)] = str(reason)
                yield f"engines, {self.named(engine, way)}: {reason}"

    def named(self, engine: Engine, way: Way) -> str:
        return f"{engine.label(way)}, {self.job.name}"

    def add(self, name: str, share: float, rates: list[float]) -> str:
        self.entry["runs"].append({"engine": name, "share": share, "rates": rates})
        self.figures.save()
        return f"engines, {self.job.name}: {name:<60} {statistics.median(rates):>12,.0f} rows/s"

    def agreeing(self, spark: SparkSession, ways: list[tuple[Engine, Way]]) -> Iterator[tuple[Engine, Way]]:
        """Those that give Spark's results in a small run; the others are named in the figures."""
        folders = self.job.write(self.folder / "check", CHECK_ROWS, CHECK_KEYS)
        wanted, ours = (spark_results(spark, self.job, side, folders) for side in self.job.sides)
        if not ours.equals(wanted):
            raise DifferentResults(f"engines, {self.job.name}: Millrace and Spark do not give the same rows")
        self.entry["checked rows"] = len(wanted)
        for engine, way in ways:
            path = self.folder / f"{engine.name}-{way.name}.parquet"
            name = self.named(engine, way)
            try:
                engine.run(*self.arguments(way, self.folder / "check"), "--results", str(path))
            except Absent as reason:
                self.figures.absent[name] = str(reason)
                continue
            given = comparable(pq.read_table(path).to_pandas().set_axis(self.job.columns, axis=1), self.job)
            if given.equals(wanted):
                self.figures.absent.pop(name, None)
                yield engine, way
            else:
                self.figures.absent[name] = f"gives other results than Spark: {len(given):,} rows, not {len(wanted):,}"

    def arguments(self, way: Way, folder: Path) -> list[str]:
        return ["--job", self.job.name, "--way", way.name, "--folder", str(folder), "--cores", str(self.options.cores)]

    def data(self, share: float) -> Path:
        """The files of a share of the rows and keys."""
        folder = self.folder / f"share-{share}"
        if not folder.exists():
            self.job.write(folder, *(max(int(size * share), 1) for size in (self.rows, self.keys)))
        return folder

    def timed_side(self, spark: SparkSession, side: Side) -> Iterator[float]:
        """Rows a second of every micro-batch after those that warm up."""
        pace = PACE.at_most(side.pace)
        folders = {name: self.data(1.0) / name for name in self.job.inputs}
        taken = run_query(spark, side.build, self.job.mode, first_batches(folders, pace.batches))
        for ms in taken[pace.warm_up :]:
            yield self.entry["rows"] / ms * 1000

    def timed_way(self, engine: Engine, way: Way) -> Iterator[float]:
        """Rows a second of every run, from the first batch that the engine takes to its last result."""
        for _ in range(RUNS):
            told = engine.run(*self.arguments(way, self.data(way.share)))
            yield told["rows"] / told["seconds"]


def spark_results(spark: SparkSession, job: Job, side: Side, folders: dict[str, Path]) -> pd.DataFrame:
    """All that reached the sink, as whole numbers."""
    batches: list[pd.DataFrame] = []

    def keep(frame: DataFrame, batch: int) -> None:
        batches.append(frame.select([whole(frame, name) for name in job.columns]).toPandas())

    run_query(spark, side.build, job.mode, folders, keep)
    return comparable(pd.concat(batches), job)


def whole(frame: DataFrame, name: str):
    """A column of the job; times as microseconds."""
    column = F.col("window.start" if name == "start" else name)
    is_time = name == "start" or frame.schema[name].dataType.typeName() == "timestamp"
    return (F.unix_micros(column) if is_time else column).alias(name)


def comparable(rows: pd.DataFrame, job: Job) -> pd.DataFrame:
    """The last row of each key where rows are updated, without the window that ended all others, in order."""
    if job.key:
        rows = rows.drop_duplicates(job.key, keep="last")
    if "start" in rows:
        rows = rows[rows["start"] < LAST - HOUR]
    return in_order(rows.astype("int64"))
