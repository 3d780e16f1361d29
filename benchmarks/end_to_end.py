"""Spark's own stateful operators against Millrace, end to end, over the same Parquet micro-batches in one run.

    python benchmarks/end_to_end.py [--only TEXT] [--rows 2000000] [--keys 1000000] [--stores hdfs,rocksdb] …

Every query reads the same files, one per micro-batch, and writes to the same kind of sink. A query's
figure is the median time of its micro-batches after the first six (--warm-up), which warm up both sides; the
ratio is Spark's median over ours. --repeat runs every query several times, the sides taking turns.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from millrace import spark_glue as mr
from pyspark import cloudpickle
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor

# Workers cannot import this file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])
STORES = {
    "hdfs": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
    "rocksdb": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
}
START = 1_767_225_600_000_000  # 2026-01-01 in microseconds
SECOND = 1_000_000


@dataclass(frozen=True)
class Workload:
    """One job in Spark's own words and in Millrace's, over generated micro-batches."""

    name: str
    mode: str
    # Least ratio to reach, per state store.
    targets: dict[str, float]
    rows: int
    keys: int
    # Files of one micro-batch, by input: batch number, rows, keys → table.
    inputs: dict[str, Callable[[int, int, int], pa.Table]]
    own: Callable[[dict[str, DataFrame]], DataFrame]
    ours: Callable[[dict[str, DataFrame]], DataFrame]


@dataclass
class Run:
    """What one query took."""

    batches_ms: list[float] = field(default_factory=list)
    rows_out: int = 0


def events(batch: int, rows: int, keys: int) -> pa.Table:
    """One minute of events: a key, a time and an amount."""
    rng = np.random.default_rng(batch)
    times = START + batch * 60 * SECOND + rng.integers(0, 60 * SECOND, rows)
    return pa.table(
        {
            "k": rng.integers(0, keys, rows),
            "ts": pa.array(times, pa.int64()).cast(pa.timestamp("us", "UTC")),
            "v": rng.integers(0, 1000, rows),
        }
    )


AGGS = {"n": mr.count(), "s": mr.sum("v"), "m": mr.max("v")}


def own_aggs() -> list:
    return [F.count(F.lit(1)).alias("n"), F.sum("v").alias("s"), F.max("v").alias("m")]


def impressions(batch: int, rows: int, keys: int) -> pa.Table:
    """One minute of impressions of so many ads; with as many ads as rows, each has an id of its own."""
    rng = np.random.default_rng(batch)
    times = START + batch * 60 * SECOND + rng.integers(0, 60 * SECOND, rows)
    ads = batch * rows + np.arange(rows) if keys == rows else rng.integers(0, keys, rows)
    return pa.table(
        {
            "ad": ads,
            "shown": pa.array(times, pa.int64()).cast(pa.timestamp("us", "UTC")),
            "cost": rng.random(rows),
        }
    )


def clicks(batch: int, rows: int, keys: int) -> pa.Table:
    """As many clicks, each up to half a minute after the impression that it belongs to."""
    shown = impressions(batch, rows, keys)
    rng = np.random.default_rng(1_000_000 + batch)
    clicked = rng.integers(0, rows, rows)
    times = shown["shown"].cast(pa.int64()).to_numpy()[clicked] + rng.integers(0, 30 * SECOND, rows)
    return pa.table(
        {
            "click_ad": shown["ad"].to_numpy()[clicked],
            "clicked": pa.array(times, pa.int64()).cast(pa.timestamp("us", "UTC")),
            "user": rng.integers(0, 100_000, rows),
        }
    )


MATCH = "ad = click_ad AND clicked BETWEEN shown AND shown + interval 20 seconds"


def join_workloads() -> Iterator[Workload]:
    """Impressions and clicks; half of the rows of a micro-batch each."""
    for name, how, ads, targets in (
        ("join, inner", "inner", 50_000, {"hdfs": 5.0, "rocksdb": 20.0}),
        ("join, left outer", "left_outer", 50_000, {"hdfs": 5.0, "rocksdb": 20.0}),
        # Little work for either side: most of what is measured is moving rows.
        ("join, inner, a key a row", "inner", 250_000, {}),
    ):

        def own(frames: dict[str, DataFrame], how: str = how) -> DataFrame:
            left = frames["impressions"].withWatermark("shown", "10 seconds")
            return left.join(frames["clicks"].withWatermark("clicked", "10 seconds"), F.expr(MATCH), how)

        def ours(frames: dict[str, DataFrame], how: str = how) -> DataFrame:
            watermarks = (("shown", "10 seconds"), ("clicked", "10 seconds"))
            return mr.join(frames["impressions"], frames["clicks"], MATCH, how, watermarks=watermarks)

        inputs = {"impressions": impressions, "clicks": clicks}
        yield Workload(name, "append", targets, 250_000, ads, inputs, own, ours)


def own_counter(key, pdfs, state):
    n = state.get[0] if state.exists else 0
    for pdf in pdfs:
        n += len(pdf)
    state.update((n,))
    yield pd.DataFrame({"k": [key[0]], "n": [n]})


class RowCounter(StatefulProcessor):
    """The same in Spark's fastest Python API, `transformWithState` with Rows."""

    def init(self, handle):
        self.count = handle.getValueState("n", "n long")

    def handleInputRows(self, key, rows, timerValues):
        n = self.count.get()[0] if self.count.exists() else 0
        n += sum(1 for _ in rows)
        self.count.update((n,))
        yield Row(k=key[0], n=n)

    def close(self):
        pass


@mr.stateful(keys=["k"], state="n long", output="k long, n long")
def compiled_counter(key, rows, state, out):
    state.n += len(rows)
    out.emit(key.k, state.n)


OUTPUT = "k long, n long"


def own_stateful(frames):
    return frames["events"].groupBy("k").applyInPandasWithState(own_counter, OUTPUT, "n long", "update", "NoTimeout")


def own_rows(frames):
    return frames["events"].groupBy("k").transformWithState(RowCounter(), OUTPUT, "update", "None")


def unchanged(frames):
    return mr.apply_in_pandas_with_state(frames["events"], ["k"], own_counter, OUTPUT, "n long", "update", "NoTimeout")


def stateful_workloads() -> Iterator[Workload]:
    """Counters at several numbers of keys; the targets hold at the numbers that they are stated for."""
    for keys in (1_000, 10_000, 100_000):
        rows = 500_000
        shared = {"mode": "update", "rows": rows, "keys": keys, "inputs": {"events": events}}
        yield Workload(
            f"stateful, compiled, {keys:,} keys", targets={"hdfs": 100.0} if keys == 100_000 else {},
            own=own_stateful, ours=lambda f: compiled_counter(f["events"]), **shared,
        )  # fmt: skip
        yield Workload(
            f"stateful, compiled against Rows, {keys:,} keys", targets={"rocksdb": 10.0} if keys == 100_000 else {},
            own=own_rows, ours=lambda f: compiled_counter(f["events"]), **shared,
        )  # fmt: skip
        yield Workload(
            f"stateful, unchanged, {keys:,} keys", targets={"hdfs": 4.0} if keys == 10_000 else {},
            own=own_stateful, ours=unchanged, **shared,
        )  # fmt: skip


WORKLOADS = (
    Workload(
        "aggregate, update",
        "update",
        {"hdfs": 2.0, "rocksdb": 5.0},
        2_000_000,
        1_000_000,
        {"events": events},
        own=lambda f: f["events"].groupBy("k").agg(*own_aggs()),
        ours=lambda f: mr.aggregate(f["events"], ["k"], AGGS, output_mode="update"),
    ),
    Workload(
        "aggregate, 10-minute windows, append",
        "append",
        {"hdfs": 2.5},
        2_000_000,
        1_000_000,
        {"events": events},
        own=lambda f: f["events"].withWatermark("ts", "1 minute")
        .groupBy(F.window("ts", "10 minutes").alias("window"), "k").agg(*own_aggs()),
        ours=lambda f: mr.aggregate(
            f["events"], ["k"], AGGS,
            window=mr.window("ts", "10 minutes"), watermark=("ts", "1 minute"), output_mode="append",
        ),
    ),
    *join_workloads(),
    *stateful_workloads(),
)  # fmt: skip


def write_inputs(workload: Workload, folder: Path, options: argparse.Namespace) -> dict[str, Path]:
    """Generate a file per micro-batch and input."""
    folders = {}
    for name, generate in workload.inputs.items():
        folders[name] = folder / name
        folders[name].mkdir(parents=True)
        for batch in range(options.warm_up + options.batches):
            table = generate(batch, options.rows or workload.rows, options.keys or workload.keys)
            path = folders[name] / f"{batch:05d}.parquet"
            # Row groups are what Spark's tasks share out.
            pq.write_table(table, path, row_group_size=max(1, -(-table.num_rows // 4)))
            os.utime(path, (batch, batch))
    return folders


def run_query(
    spark: SparkSession, workload: Workload, side: str, folders: dict[str, Path], options: argparse.Namespace
) -> Run:
    """Run one query over all files and time its micro-batches."""
    frames = {}
    for name, folder in folders.items():
        schema = spark.read.parquet(str(folder)).schema
        frames[name] = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))
    checkpoint = tempfile.mkdtemp(prefix="millrace-bench-")
    query = (
        getattr(workload, side)(frames)
        .writeStream.format(options.sink)
        .outputMode(workload.mode)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start(**({"path": tempfile.mkdtemp(prefix="millrace-sink-")} if options.sink == "parquet" else {}))
    )
    query.awaitTermination()
    progress = [p for p in query.recentProgress if p["numInputRows"] > 0]
    shutil.rmtree(checkpoint, ignore_errors=True)
    return Run([p["durationMs"]["triggerExecution"] for p in progress])


def session(store: str, options: argparse.Namespace) -> SparkSession:
    builder = SparkSession.builder.master(f"local[{options.cores}]").appName("millrace-bench")
    settings = {
        "spark.sql.shuffle.partitions": options.partitions or options.cores,
        "spark.sql.streaming.stateStore.providerClass": STORES[store],
        "spark.sql.streaming.numRecentProgressUpdates": 1000,
        "spark.driver.memory": options.memory,
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.log.level": "ERROR",
    }
    if options.daemon:
        builder = mr.configure(builder)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def measure(workload: Workload, store: str, options: argparse.Namespace) -> dict[str, object]:
    """Run both sides on one store, taking turns."""
    spark = session(store, options)
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", STORES[store])
    times: dict[str, list[float]] = {"own": [], "ours": []}
    with tempfile.TemporaryDirectory(prefix="millrace-data-") as folder:
        folders = write_inputs(workload, Path(folder), options)
        for _ in range(options.repeat):
            for side in times:
                run = run_query(spark, workload, side, folders, options)
                times[side] += run.batches_ms[options.warm_up : options.warm_up + options.batches]
                if options.verbose:
                    print(f"  {side}: {[round(ms) for ms in run.batches_ms]}", file=sys.stderr)
    medians = {side: statistics.median(ms) for side, ms in times.items()}
    rows = (options.rows or workload.rows) * len(workload.inputs)
    return {
        "workload": workload.name,
        "store": store,
        "rows": rows,
        "ms": {side: {"min": min(ms), "median": medians[side], "max": max(ms)} for side, ms in times.items()},
        "ratio": medians["own"] / medians["ours"],
        "target": workload.targets.get(store),
    }


def report(row: dict) -> str:
    own, ours = row["ms"]["own"], row["ms"]["ours"]
    spread = lambda side: f"{side['median']:>7.0f} ({side['min']:.0f}–{side['max']:.0f})"  # noqa: E731
    rate = lambda side: row["rows"] / side["median"] / 1000  # noqa: E731
    target = row["target"]
    verdict = "" if target is None else f"{target:>5.1f}  {'ok' if row['ratio'] >= target else 'MISSED'}"
    return (
        f"{row['workload']:<38} {row['store']:<8} {spread(own):>22} {spread(ours):>22} "
        f"{rate(own):>7.2f} {rate(ours):>7.2f}  {row['ratio']:>6.2f}  {verdict}"
    )


def draw(rows: list[dict], path: str) -> None:
    """Draw the ratios as bars, with a mark where each should reach."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 1.2 + 0.45 * len(rows)), layout="constrained")
    names = [f"{row['workload']}, {row['store']}" for row in rows]
    bars = axes.barh(names, [row["ratio"] for row in rows], color="#3b6ea5")
    axes.bar_label(bars, [f"{row['ratio']:.1f}×" for row in rows], padding=4)
    for i, row in enumerate(rows):
        if row["target"] is not None:
            axes.plot([row["target"]] * 2, [i - 0.4, i + 0.4], color="#c0392b", linewidth=2)
    axes.axvline(1, color="grey", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_xlabel("time of Spark's own operator ÷ time of Millrace (red: to reach)")
    axes.invert_yaxis()
    axes.margins(x=0.12)
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="TEXT", help="only workloads whose name has this text")
    parser.add_argument("--stores", default="hdfs,rocksdb", help="state stores, of hdfs and rocksdb (default both)")
    parser.add_argument("--rows", type=int, help="rows of a micro-batch and input (default: the workload's own)")
    parser.add_argument("--keys", type=int, help="different keys (default: the workload's own)")
    parser.add_argument("--batches", type=int, default=6, help="timed micro-batches (default 6)")
    parser.add_argument("--warm-up", type=int, default=6, help="micro-batches before those (default 6)")
    parser.add_argument("--repeat", type=int, default=1, help="runs of each query, in turns (default 1)")
    parser.add_argument("--cores", type=int, default=2, help="executor cores (default 2)")
    parser.add_argument("--partitions", type=int, help="shuffle partitions (default: as many as cores)")
    parser.add_argument("--sink", default="noop", choices=("noop", "parquet"), help="where results go (default noop)")
    parser.add_argument("--memory", default="6g", help="memory of the JVM (default 6g)")
    parser.add_argument("--no-daemon", dest="daemon", action="store_false", help="without mr.configure")
    parser.add_argument("--targets", action="store_true", help="only workloads and stores that have a target")
    parser.add_argument("--json", help="also write the figures to this file")
    parser.add_argument("--chart", metavar="FILE", help="also draw the ratios, as a PNG")
    parser.add_argument("--verbose", action="store_true", help="also print every micro-batch's time")
    options = parser.parse_args()
    heading = "milliseconds a micro-batch: median (min–max)"
    print(f"{heading:<47} {'Spark':>22} {'Millrace':>22} {'M rows/s':>15}   ratio  target")
    rows = []
    for workload in (w for w in WORKLOADS if options.only in w.name):
        for store in options.stores.split(","):
            if options.targets and store not in workload.targets:
                continue
            started = time.perf_counter()
            rows.append(measure(workload, store, options))
            print(report(rows[-1]), f"  [{time.perf_counter() - started:.0f} s]" if options.verbose else "", flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=2))
    if options.chart and rows:
        draw(rows, options.chart)


if __name__ == "__main__":
    main()
