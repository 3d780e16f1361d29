"""Ten-minute windows per user over a real stream, by Millrace and by Spark's own operator, on two local cores.

The same generated files are streamed through both, one after the other. A live table shows each at work; at the end
their results are compared, all of them, and their speeds. Other sizes: `demo.py ROWS_PER_FILE FILES`.
"""

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from millrace import spark_glue as mr
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

# Executors must run this very Python.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

ROWS, FILES = map(int, sys.argv[1:3] or (500_000, 12))
USERS = 200_000
WARM_UP = 4  # the first batches load code on both sides
MINUTE = 60_000_000
START = 1_767_225_600_000_000  # 2026-01-01 in microseconds
SCHEMA = pa.schema({"user": pa.int64(), "ts": pa.timestamp("us", "UTC"), "cents": pa.int64()})
WINDOW, DELAY = "10 minutes", "5 minutes"


def write_events(folder: Path) -> None:
    """Write files of five minutes of events each; every twentieth event comes up to half an hour late."""
    rng = np.random.default_rng(7)
    for i in range(FILES):
        times = START + 5 * i * MINUTE + rng.integers(0, 5 * MINUTE, ROWS)
        late = rng.random(ROWS) < 0.05
        times[late] -= rng.integers(0, 30 * MINUTE, int(late.sum()))
        columns = [rng.integers(0, USERS, ROWS), times, rng.gamma(2.0, 1000.0, ROWS).astype(np.int64)]
        arrays = [pa.array(c).cast(t) for c, t in zip(columns, SCHEMA.types, strict=True)]
        pq.write_table(pa.table(arrays, schema=SCHEMA), folder / f"{i:03d}.parquet")
        # Spark takes files in the order of their times.
        os.utime(folder / f"{i:03d}.parquet", (i, i))


def by_millrace(events: DataFrame) -> DataFrame:
    return mr.aggregate(
        events,
        keys=["user"],
        aggs={"n": mr.count(), "total": mr.sum("cents"), "highest": mr.max("cents")},
        window=mr.window("ts", WINDOW),
        watermark=("ts", DELAY),
        output_mode="append",
    )


def by_spark(events: DataFrame) -> DataFrame:
    groups = events.withWatermark("ts", DELAY).groupBy(F.window("ts", WINDOW).alias("window"), "user")
    return groups.agg(F.count(F.lit(1)).alias("n"), F.sum("cents").alias("total"), F.max("cents").alias("highest"))


def run(name: str, results: DataFrame, folder: Path) -> float:
    """Run a query over all files, watching it; returns its rows per second in steady batches."""
    print(f"\n{name}", flush=True)
    writer = results.writeStream.queryName(name.split()[0]).format("parquet").outputMode("append")
    writer = writer.option("path", str(folder / "out")).option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    mr.watch(query, every=0.5)
    query.awaitTermination()  # raises if the query failed
    speeds = [p["processedRowsPerSecond"] for p in query.recentProgress if p["numInputRows"]]
    return statistics.median(speeds[WARM_UP:] or speeds)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="millrace-demo-") as folder:
        demo(Path(folder))


def demo(folder: Path) -> None:
    started = time.perf_counter()
    names = {"millrace": by_millrace, "spark": by_spark}
    for path in ("events", *names):
        (folder / path).mkdir()
    write_events(folder / "events")
    print(f"{FILES} files of {ROWS:,} events from {USERS:,} users; windows of {WINDOW}, watermark {DELAY}")
    builder = mr.configure(SparkSession.builder.master("local[2]").appName("millrace-demo"))
    settings = {
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.memory": "3g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        reader = spark.readStream.schema("user long, ts timestamp, cents long").option("maxFilesPerTrigger", 1)
        events = reader.parquet(str(folder / "events"))
        speeds = {name: run(name, query(events), folder / name) for name, query in names.items()}
        same = compare(*(spark.read.parquet(str(folder / name / "out")) for name in names))
    finally:
        spark.stop()
    for name, speed in speeds.items():
        print(f"{name:>9}: {speed:>9,.0f} rows/s, median of the batches after the first {WARM_UP}")
    print(f"    ratio: {speeds['millrace'] / speeds['spark']:.1f}")
    print(f"in {time.perf_counter() - started:.0f} s, all told")
    if not same:
        sys.exit("the results differ")


def compare(ours: DataFrame, own: DataFrame) -> bool:
    """Tell whether two frames hold the same rows, each as often; print what was found."""
    sides = [frame.withColumn("side", F.lit(side)) for frame, side in ((ours, 1), (own, -1))]
    different = sides[0].unionByName(sides[1]).groupBy(*own.columns).agg(F.sum("side").alias("surplus"))
    total, wrong = own.count(), different.where("surplus != 0").count()
    print(f"\n{total:,} windows came out of Spark's own operator, {ours.count():,} of Millrace; {wrong} differ:")
    print("the same results" if wrong == 0 else "NOT the same results")
    ours.orderBy(F.desc("window"), "user").limit(3).show(truncate=False)
    return wrong == 0


if __name__ == "__main__":
    main()
