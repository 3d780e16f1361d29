"""Reading state back: what Spark's own operators know and show at the same batch is what ours knows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pytest
from harness import HDFS, ROCKSDB, Running, Source, at, conf, normal
from millrace import spark_glue as mr
from millrace.spark_glue import state_command
from millrace.spark_glue.cli import app
from pyspark import cloudpickle
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState
from typer.testing import CliRunner

# Workers cannot import this file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

STORE = "spark.sql.streaming.stateStore."
CHANGELOG = {STORE + "providerClass": ROCKSDB, STORE + "rocksdb.changelogCheckpointing.enabled": "true"}
SIDE = "k int, t timestamp, v string"


def run(sources, queries, steps, restart_after=None):
    """Put files through queries: step by step, a list of rows per source (None: nothing)."""
    for running in queries:
        running.start()
    for number, step in enumerate(steps):
        for source, rows in zip(sources, step, strict=True):
            if rows is not None:
                source.add(rows)
        for running in queries:
            running.process()
            if number == restart_after:
                running.restart()
    for running in queries:
        running.stop()
    return queries


def counted(frame):
    return Counter(normal(row) for row in frame.collect())


@pytest.mark.parametrize(("settings", "version"), [({STORE + "providerClass": HDFS}, 1), (CHANGELOG, 2)])
def test_aggregate_is_what_complete_mode_shows(spark, settings, version):
    source = Source(spark, "k string, t timestamp, v int, p decimal(9,2), d date")
    frame = source.frame()
    functions = {
        "n": (mr.count(), F.count("*")), "total": (mr.sum("v"), F.sum("v")), "mean": (mr.avg("p"), F.avg("p")),
        "low": (mr.min("k"), F.min("k")), "last": (mr.max("d"), F.max("d")), "one": (mr.first("d"), F.first("d")),
        "dev": (mr.stddev_samp("v"), F.stddev_samp("v")), "by": (mr.max_by("p", "v"), F.max_by("p", "v")),
        "few": (mr.approx_count_distinct("v"), F.approx_count_distinct("v")),
    }  # fmt: skip
    window = F.window("t", "10 seconds", "5 seconds").alias("window")
    own = frame.groupBy(window, "k").agg(*(theirs.alias(name) for name, (_, theirs) in functions.items()))
    ours = mr.aggregate(
        frame, ["k"], {name: mine for name, (mine, _) in functions.items()}, output_mode="complete",
        window=mr.window("t", "10 seconds", "5 seconds"), state_format_version=version, name="counts",
    )  # fmt: skip
    day = date(2026, 1, 1)
    steps = [
        [("a", at(1), 3, Decimal("0.10"), day), (None, at(2), None, None, None)],
        [("a", at(4), 5, Decimal("0.25"), day), ("b", at(11), 1, Decimal("7.00"), None)],
        [("a", at(3), None, Decimal("1.05"), day), ("b", at(31), 2, None, day)],
    ]
    with conf(spark, settings):
        theirs, mine = run(
            [source], [Running(own, "complete"), Running(ours, "update")], [[step] for step in steps], restart_after=1
        )
    for batch, rows in theirs.outputs().items():
        state = mr.read_state(spark, mine.checkpoint, batch=batch)
        assert state.columns == own.columns and [f.dataType for f in state.schema] == [f.dataType for f in own.schema]
        assert counted(state) == rows, batch
    assert batch == 2 and counted(mr.read_state(spark, mine.checkpoint)) == rows


def test_join_rows_are_those_that_spark_stores(spark):
    sources = [Source(spark, SIDE), Source(spark, SIDE)]
    left, right = (
        source.frame().select(*(F.col(c).alias(p + c) for c in "ktv")).withWatermark(p + "t", "5 seconds")
        for source, p in zip(sources, "lr", strict=True)
    )
    on = "lk + 1 = rk + 1 AND rt BETWEEN lt AND lt + interval 5 seconds"
    queries = [
        Running(left.join(right, F.expr(on), "left_outer"), "append"),
        Running(mr.join(left, right, on, "left_outer"), "append"),
    ]
    steps = [
        ([(1, at(1), "x"), (2, at(20), "y"), (None, at(21), "z")], None),
        (None, [(1, at(3), "p"), (2, at(22), "q"), (9, at(30), "r")]),
        ([(3, at(40), "w")], [(3, at(41), "s"), (3, at(39), "t")]),
    ]
    theirs, mine = run(sources, queries, steps)
    reader = spark.read.format("statestore")
    for batch in sorted({0, 1, max(mine.batches)}):
        state = mr.read_state(spark, Path(mine.checkpoint), batch=batch)
        for side, prefix in (("left", "l"), ("right", "r")):
            stored = reader.option("batchId", batch).option("joinSide", side).load(theirs.checkpoint)
            own = stored.select(*(F.col(f"value.{prefix}{c}") for c in "ktv"))
            assert counted(state.where(F.col("side") == side).select(f"{side}.*")) == counted(own), (batch, side)
        assert state.columns == ["side", "matched", "left", "right"]
        assert state.where("left is not null and right is not null").count() == 0
    # Of the second step's rows the second of each side has met.
    met = mr.read_state(spark, mine.checkpoint, batch=1).where("matched").selectExpr("coalesce(left.lv, right.rv)")
    assert {row[0] for row in met.collect()} >= {"y", "q"}


def remember(key, pdfs, state: GroupState):
    """Keeps how often and when a key came; waits for ten seconds after it."""
    n, _, _ = state.get if state.exists else (0, None, None)
    latest = None
    for pdf in pdfs:
        n, latest = n + len(pdf), pdf["t"].max()
    if state.hasTimedOut or latest is None:
        state.remove()
        return
    seen = latest.to_pydatetime()
    state.update((n, seen, seen.date()))
    state.setTimeoutTimestamp(int(latest.timestamp() * 1000) + 10_000)
    yield pd.DataFrame({"user": [key[0]], "n": [n]})


def test_stateful_functions_keep_what_spark_keeps(spark):
    @mr.stateful(keys=["user"], state="n long", output="user string, n long", timeout="EventTimeTimeout")
    def compiled(key, rows, state, out):
        if state.has_timed_out:
            state.remove()
            return
        latest = 0
        for i in range(len(rows)):
            state.n += 1
            latest = max(latest, rows.t[i])
        state.set_timeout_timestamp(latest // 1000 + 10_000)
        out.emit(key.user, state.n)

    source = Source(spark, "user string, t timestamp")
    frame = source.frame().withWatermark("t", "5 seconds")
    call = ("user string, n long", "n long, seen timestamp, day date", "update", "EventTimeTimeout")
    queries = [
        Running(frame.groupBy("user").applyInPandasWithState(remember, *call), "update"),
        Running(mr.apply_in_pandas_with_state(frame, ["user"], remember, *call), "update"),
        Running(compiled(frame), "update"),
    ]
    steps = [[[("a", at(1)), ("b", at(2)), (None, at(3))]], [[("b", at(20))]], [[("c", at(100_000))]]]
    theirs, mine, jit = run([source], queries, steps)
    for batch in sorted(mine.batches):
        own = spark.read.format("statestore").option("batchId", batch).load(theirs.checkpoint)
        timeout = F.timestamp_millis("value.timeoutTimestamp")
        wanted = counted(own.select("key.user", "value.groupState", timeout))
        assert counted(mr.read_state(spark, mine.checkpoint, batch=batch)) == wanted, batch
        wanted = counted(own.select("key.user", F.struct("value.groupState.n"), timeout))
        assert counted(mr.read_state(spark, jit.checkpoint, batch=batch)) == wanted, batch
    assert mr.read_state(spark, mine.checkpoint, batch=0).count() == 3


# --- mistakes ---------------------------------------------------------------------------------------


class Shared:
    """The session of all tests, which a command must not stop."""

    def __init__(self, spark):
        self.spark = spark

    def __getattr__(self, name):
        return getattr(self.spark, name)

    def stop(self):
        pass


@pytest.fixture
def command(spark, monkeypatch):
    """Runs `millrace state` in the session of all tests."""
    monkeypatch.setattr(state_command, "_session", lambda master, settings: Shared(spark))
    return lambda *arguments: CliRunner().invoke(app, ["state", *map(str, arguments)])


def broken(key, pdfs, state: GroupState):
    """Leaves something in the state that looks like Millrace's."""
    state.update(("MILLRACE" if key[0] == 0 else "",))
    yield from ()


def test_what_cannot_be_read_is_said_in_one_line(spark, tmp_path, command):
    missing, empty = tmp_path / "missing", tmp_path / "a[1]"
    empty.mkdir()
    source = Source(spark, "bucket int")
    frame = source.frame()
    count = frame.groupBy("bucket").count()
    damaged = frame.groupBy("bucket").applyInPandasWithState(broken, "n int", "handle string", "update", "NoTimeout")
    ours = mr.aggregate(frame, ["bucket"], {"n": mr.count()}, output_mode="update", buckets=1, name="counts")
    queries = [Running(count, "update"), Running(damaged, "update"), Running(ours, "update")]
    count, damaged, ours = (each.checkpoint for each in run([source], queries, [[[(0,)]], [[(0,)]]]))
    refusals = [
        (missing, {}, f"checkpoint: there is no '{missing}'"),
        (empty, {}, "has no file 'metadata'"),
        (None, {}, "checkpoint: got None"),
        (count, {}, "has no operator of Millrace; its stateful operators are 0 (stateStoreSave)"),
        (ours, {"batch": 2}, "batch: got 2, accepted is a batch whose state is retained: 0 to 1"),
        (ours, {"operator": 1}, "operator: got 1, accepted is 0"),
        (damaged, {}, "operator 0, batch 1, bucket 0: "),
    ]
    for checkpoint, options, words in refusals:
        with pytest.raises(mr.MillraceError) as error:
            mr.read_state(spark, checkpoint, **options)
        assert words in str(error.value) and "\n" not in str(error.value)
    # Looking at them has left nothing behind.
    assert not missing.exists() and not list(empty.iterdir())

    result = command(damaged)
    assert result.exit_code == 1 and "bucket 0" in result.output and "not a Millrace state" in result.output
    result = command(ours, "--rows", 5)
    assert result.exit_code == 0 and "aggregate 'counts'" in result.output and "n = count(*) by bucket" in result.output
    assert isinstance(command(ours, "--batch", 7).exception, mr.InvalidArgument)
    assert "--rows: got -1" in str(command(ours, "--rows", -1).exception)

    # The same from a shell, in a session of its own.
    program = [sys.executable, "-m", "millrace.spark_glue.cli", "state"]
    env = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    told = subprocess.run(
        [*program, ours, "--batch", "0", "--rows", "3", "--json"], capture_output=True, text=True, env=env, timeout=300
    )
    report = json.loads(told.stdout)
    assert (told.returncode, report["batch"], report["batches"]) == (0, 0, {"first": 0, "last": 1})
    assert report["rows"] == [{"bucket": 0, "n": 1}]
    (operator,) = report["operators"]
    assert (operator["kind"], operator["name"]) == ("aggregate", "counts")
    assert [(b["rows"], b["watermark"], b["format_version"]) for b in operator["buckets"]] == [({"rows": 1}, None, 2)]


def test_times_are_read_in_any_time_zone(spark):
    source = Source(spark, "t timestamp, z timestamp_ntz")
    ours = mr.aggregate(source.frame(), ["t", "z"], {"n": mr.count()}, output_mode="update", buckets=1)
    (running,) = run([source], [Running(ours, "update")], [[[(at(0), datetime(2026, 1, 1))]]])
    with conf(spark, {"spark.sql.session.timeZone": "Asia/Tokyo"}):
        (row,) = mr.read_state(spark, running.checkpoint).selectExpr("string(t)", "string(z)", "n").collect()
    assert tuple(row) == ("1970-01-01 09:00:00", "2026-01-01 00:00:00", 1)
