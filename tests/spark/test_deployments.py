"""The same query on RocksDB, on a cluster of two executors and through Spark Connect, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

QUERY = """
import os, sys, tempfile
import pandas as pd, pyarrow as pa, pyarrow.parquet as pq
from pyspark.sql import SparkSession, functions as F
from millrace import spark_glue as mr

def session(builder, settings):
    defaults = {"spark.sql.shuffle.partitions": "4", "spark.ui.enabled": "false", "spark.sql.session.timeZone": "UTC",
                "spark.log.level": "ERROR"}
    builder = mr.configure(builder)
    for key, value in {**defaults, **settings}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()

def stream(spark, folder, columns):
    return spark.readStream.schema(columns).option("maxFilesPerTrigger", 1).parquet(folder)

def write(folder, number, **columns):
    path = f"{folder}/{number}.parquet"
    times = {k: v.cast(pa.timestamp("us", "UTC")) if k.endswith("t") else v for k, v in columns.items()}
    pq.write_table(pa.table(times), path)
    os.utime(path, (number, number))

OUTPUT, STATE = "k long, n long, total long", "n long, total long"

def unchanged(key, pdfs, state):
    n, total = state.get if state.exists else (0, 0)
    for pdf in pdfs:
        n, total = n + len(pdf), total + int(pdf["v"].sum())
    state.update((n, total))
    yield pd.DataFrame({"k": [key[0]], "n": [n], "total": [total]})

@mr.stateful(keys=["k"], state=STATE, output=OUTPUT, name="compiled")
def compiled(key, rows, state, out):
    for v in rows.v:
        state.n += 1
        state.total += v
    out.emit(key.k, state.n, state.total)

BEGIN = {0: (3, 50), 4: (1, -7)}

def begun(key, pdfs, state):
    # Spark's Python has no initial state: the function itself begins with it.
    if not state.exists:
        state.update(BEGIN.get(key[0], (0, 0)))
    yield from unchanged(key, pdfs, state)

def table(spark, frame, name, checkpoint):
    writer = frame.writeStream.trigger(availableNow=True).outputMode("update" if "stateful" in name else "append")
    if "stateful" in name:
        # Parquet takes append alone.
        writer = writer.foreachBatch(lambda out, batch: out.write.mode("append").parquet(f"{checkpoint}-out"))
    else:
        writer = writer.format("parquet").option("path", f"{checkpoint}-out")
    writer.option("checkpointLocation", checkpoint).start().awaitTermination()
    rows = spark.read.schema(frame.schema).parquet(f"{checkpoint}-out").collect()
    return sorted(map(str, rows))

def run(spark):
    folder, work = tempfile.mkdtemp(), tempfile.mkdtemp()
    events = stream(spark, folder, "k long, t timestamp, v long")
    marked = events.withWatermark("t", "5 seconds")
    window = F.window("t", "10 seconds").alias("window")
    own = marked.groupBy(window, "k").agg(F.count(F.lit(1)).alias("n"), F.sum("v").alias("s"))
    ours = mr.aggregate(marked, ["k"], {"n": mr.count(), "s": mr.sum("v")}, window=mr.window("t", "10 seconds"))
    left, right = (marked.select(*(F.col(c).alias(p + c) for c in "ktv")) for p in "ab")
    on = "ak = bk AND bt BETWEEN at AND at + interval 3 seconds"
    joins = left.join(right, F.expr(on), "left_outer"), mr.join(left, right, on, "left_outer")
    call = (OUTPUT, STATE, "update", "NoTimeout")
    stateful = events.groupBy("k").applyInPandasWithState(unchanged, *call)
    initial = spark.createDataFrame([(k, *values) for k, values in BEGIN.items()], "k long, n long, total long")
    begins = mr.stateful(keys=["k"], state=STATE, output=OUTPUT, name="begins", initial_state=initial)
    beginning = events.groupBy("k").applyInPandasWithState(begun, *call), begins(compiled.__wrapped__)(events)
    queries = {
        "agg": (own, ours), "join": joins, "stateful-jit": (stateful, compiled(events)), "stateful-initial": beginning,
        "stateful-pandas": (stateful, mr.apply_in_pandas_with_state(events, ["k"], unchanged, *call)),
    }
    for half in range(2):
        # The second half goes on from the checkpoint of the first.
        for batch in range(3 * half, 3 * half + 3):
            seconds = [(batch * 9 + i * 7) % 60 * 1_000_000 for i in range(40)]
            write(folder, batch, k=pa.array([i % 5 for i in range(40)]), t=pa.array(seconds), v=pa.array(range(40)))
        for name, (theirs, mine) in queries.items():
            wanted = table(spark, theirs, name, f"{work}/own-{name}")
            got = table(spark, mine, name, f"{work}/ours-{name}")
            assert got == wanted, (name, got, wanted)
            assert half == 0 or len(got) > 5
    compare_states(spark, work)
    print("SAME")

def plain(frame):
    return sorted(str(tuple(row)) for row in frame.collect())

def compare_states(spark, work):
    # What Spark's own operators hold in the end, as Spark reads it, is what ours hold.
    columns = {
        "agg": ["key.*", "value.*"], "join": ["value.bk", "value.bt", "value.bv"],
        "stateful-jit": ["key.k", "value.groupState"], "stateful-pandas": ["key.k", "value.groupState"],
        "stateful-initial": ["key.k", "value.groupState"],
    }
    for name, wanted in columns.items():
        reader = spark.read.format("statestore")
        reader = reader.option("joinSide", "right") if name == "join" else reader
        own = plain(reader.load(f"{work}/own-{name}").select(*wanted))
        state = mr.read_state(spark, f"{work}/ours-{name}")
        state = state.where("side = 'right'").select("right.*") if name == "join" else state
        got = plain(state.drop("timeout"))
        assert own and got == own, (name, got, own)
    try:
        mr.read_state(spark, f"{work}/none")
    except mr.InvalidArgument as error:
        assert "there is no" in str(error)
    else:
        raise AssertionError("a missing checkpoint was read")
"""


def execute(folder: Path, script: str) -> None:
    env = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    # In a file, since functions that are compiled must have a source.
    path = folder / "query.py"
    path.write_text(QUERY + textwrap.dedent(script))
    run = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, env=env, timeout=600)
    assert run.returncode == 0 and run.stdout.endswith("SAME\n"), run.stderr[-4000:]


def test_rocksdb_with_changelog_checkpoints(tmp_path):
    execute(
        tmp_path,
        """
        store = "spark.sql.streaming.stateStore."
        run(session(SparkSession.builder.master("local[2]"), {
            store + "providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
            store + "rocksdb.changelogCheckpointing.enabled": "true",
        }))
    """,
    )


def test_a_cluster_of_two_executors(tmp_path):
    execute(
        tmp_path,
        """
        run(session(SparkSession.builder.master("local-cluster[2,1,2048]"), {"spark.executor.memory": "1g"}))
    """,
    )


def test_spark_connect(tmp_path):
    pytest.importorskip("grpc")
    execute(
        tmp_path,
        """
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        run(session(SparkSession.builder.remote("local[2]"), {}))
    """,
    )
