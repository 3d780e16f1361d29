"""Workers and drivers that die in the middle of a batch: after a restart nothing is lost and nothing counts twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter

import pandas as pd
from harness import Running, Source, at
from millrace import spark_glue as mr
from pyspark.sql import functions as F

EVENTS = "k int, ts timestamp, v bigint"
STEPS = [[(k, at(10 * step + k), step) for k in range(6)] for step in range(4)]


def windowed(frame):
    """A windowed sum in Spark's words and in ours."""
    marked = frame.withWatermark("ts", "5 seconds")
    window = F.window("ts", "10 seconds").alias("window")
    own = marked.groupBy(window, "k").agg(F.sum("v").alias("s"))
    return own, mr.aggregate(marked, ["k"], {"s": mr.sum("v")}, window=mr.window("ts", "10 seconds"))


def everything(running):
    """All rows that a sink got, whatever the batch."""
    return Counter(tuple(row) for rows in running.batches.values() for row in rows)


def die_once(marker, batch_of):
    """A function over Arrow batches that ends its own process when it meets a certain batch for the first time."""

    def pass_on(batches):
        for batch in batches:
            if batch_of in batch.column("v").to_pylist() and not os.path.exists(marker):
                open(marker, "w").close()
                os.kill(os.getpid(), signal.SIGKILL)
            yield batch

    return pass_on


def test_a_killed_worker(spark, tmp_path):
    source = Source(spark, EVENTS)
    marker = str(tmp_path / "died")
    own, _ = windowed(source.frame())
    _, ours = windowed(source.frame().mapInArrow(die_once(marker, 2), EVENTS))
    runs = [Running(own, "append").start(), Running(ours, "append").start()]
    for rows in STEPS:
        source.add(rows)
        for running in runs:
            try:
                running.process()
            except Exception:
                assert os.path.exists(marker)
                running.start().process()
    for running in runs:
        running.stop()
    assert os.path.exists(marker)
    assert everything(runs[1]) == everything(runs[0]) and len(everything(runs[0])) == 18


def test_a_worker_killed_within_the_step(spark, tmp_path):
    """A stateful function ends its own worker half-way through the keys of a bucket."""
    marker = str(tmp_path / "died")

    def count(key, pdfs, state):
        if key[0] == 3 and state.exists and not os.path.exists(marker):
            open(marker, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        n = (state.get[0] if state.exists else 0) + sum(len(pdf) for pdf in pdfs)
        state.update((n,))
        yield pd.DataFrame({"k": [key[0]], "n": [n]})

    source = Source(spark, EVENTS)
    ours = mr.apply_in_pandas_with_state(source.frame(), ["k"], count, "k int, n long", "n long", "update", "NoTimeout")
    running = Running(ours, "update").start()
    for rows in STEPS:
        source.add(rows)
        try:
            running.process()
        except Exception:
            running.start().process()
    running.stop()
    assert os.path.exists(marker)
    assert [Counter(tuple(row) for row in rows) for rows in running.batches.values()] == [
        Counter((k, n) for k in range(6)) for n in range(1, 5)
    ]


DRIVER = """
import os, sys, time
sys.path.insert(0, {here!r})
from harness import build_session
from test_failures import EVENTS, windowed

spark = build_session("local[2]")
folder, checkpoint, table, marker = sys.argv[1:]

def slowly(batches):
    for batch in batches:
        if 2 in batch.column("v").to_pylist() and not os.path.exists(marker):
            open(marker, "w").close()
            time.sleep(600)  # the driver is killed meanwhile
        yield batch

frame = spark.readStream.schema(EVENTS).option("maxFilesPerTrigger", 1).parquet(folder)
query = windowed(frame.mapInArrow(slowly, EVENTS))[1]
writer = query.selectExpr("window.start", "k", "s").writeStream.format("parquet").option("path", table)
writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()
"""


def test_a_killed_driver(spark, tmp_path):
    source = Source(spark, EVENTS)
    for rows in STEPS:
        source.add(rows)
    own = Running(windowed(source.frame())[0], "append", trigger={"availableNow": True})
    own.start().query.awaitTermination()
    marker, table = tmp_path / "reached", tmp_path / "table"
    script = DRIVER.format(here=os.path.dirname(__file__))
    command = [sys.executable, "-c", script, str(source.folder), str(tmp_path / "checkpoint"), str(table), str(marker)]
    # A session of its own, so that the JVM and its workers can be ended with it.
    first = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(1200):
        if marker.exists():
            break
        assert first.poll() is None
        time.sleep(0.1)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    got = spark.read.parquet(str(table)).collect()
    wanted = Counter((row.window.start, row.k, row.s) for rows in own.batches.values() for row in rows)
    assert Counter(tuple(row) for row in got) == wanted and len(wanted) == 18
