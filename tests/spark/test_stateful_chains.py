"""Larger plans around an operator, each against Spark's own in the same place."""

from __future__ import annotations

import sys

import pandas as pd
from harness import Source, at, duel
from millrace import spark_glue as mr
from pyspark import cloudpickle
from pyspark.sql import functions as F

# Workers cannot import this file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

EVENTS = "user string, ts timestamp, v long"
OUTPUT, STATE = "user string, n long", "n long"


def rows(*named):
    return [(user, at(second), int(second)) for user, second in named]


def latest(key, pdfs, state):
    """Keeps the latest second of a key, and says so again five seconds later."""
    n = state.get[0] if state.exists else 0
    if state.hasTimedOut:
        state.remove()
        yield pd.DataFrame({"user": [key[0]], "n": [-n]})
        return
    n = max(n, *(int(pdf["v"].max()) for pdf in pdfs))
    state.update((n,))
    state.setTimeoutTimestamp(max(n * 1000 + 5000, state.getCurrentWatermarkMs()))
    yield pd.DataFrame({"user": [key[0]], "n": [n]})


def compiled_latest(key, rows, state, out):
    n = state.n
    if state.has_timed_out:
        state.remove()
        out.emit(key.user, -n)
        return
    for i in range(len(rows)):
        n = max(n, rows.v[i])
    state.n = n
    state.set_timeout_timestamp(max(n * 1000 + 5000, state.current_watermark_ms))
    out.emit(key.user, n)


def test_sparks_own_join_before_a_stateful_function(spark):
    left, right = Source(spark, EVENTS), Source(spark, "other string, seen timestamp")
    shown = left.frame().withWatermark("ts", "5 seconds")
    clicked = right.frame().withWatermark("seen", "5 seconds")
    on = F.expr("user = other AND seen BETWEEN ts AND ts + interval 4 seconds")
    joined = shown.join(clicked, on).select("user", "ts", "v")
    own = joined.groupBy("user").applyInPandasWithState(latest, OUTPUT, STATE, "append", "EventTimeTimeout")
    make = mr.stateful(keys=["user"], state=STATE, output=OUTPUT, output_mode="append", timeout="EventTimeTimeout")
    steps = [
        [rows(("a", 1), ("b", 2), ("c", 3)), [("a", at(2)), ("b", at(3))]],
        [rows(("a", 6)), [("c", at(4)), ("a", at(7)), (None, at(8))]],
        [rows(("z", 30)), [("z", at(31))]],
        [rows(("y", 60), ("late", 7)), [("y", at(60)), ("late", at(8))]],
    ]
    # Files of one step make one batch: both queries stop and start for that.
    seen = duel([left, right], own, make(compiled_latest)(joined), "append", steps, together=True)
    given = [tuple(row) for batch in seen[-1].values() for row in batch.elements()]
    # Every timeout below the last watermark has fired once, and what came late is nowhere.
    assert sorted(row for row in given if row[1] < 0) == [("a", -6), ("b", -2), ("c", -3), ("z", -30)]
    assert not any(user == "late" for user, _ in given)


def test_deduplication_before_an_aggregate(spark):
    source = Source(spark, EVENTS)
    distinct = source.frame().withWatermark("ts", "10 seconds").dropDuplicates(["user", "ts"])
    own = distinct.groupBy(F.window("ts", "5 seconds").alias("window"), "user").agg(
        F.count(F.lit(1)).alias("n"), F.sum("v").alias("s")
    )
    aggs = {"n": mr.count(), "s": mr.sum("v")}
    ours = mr.aggregate(distinct, ["user"], aggs, window=mr.window("ts", "5 seconds"), output_mode="append")
    steps = [
        rows(("a", 1), ("a", 1), ("b", 2), (None, 3)),
        rows(("a", 1), ("a", 4), (None, 3), ("b", 11)),
        rows(("z", 30), ("z", 30)),
        rows(("a", 1), ("a", 12), ("z", 30), ("z", 60)),
    ]
    seen = duel([source], own, ours, "append", [[step] for step in steps], restart_after=[1])
    given = {(user, n, s) for batch in seen[-1].values() for _, user, n, s in batch}
    assert given == {("a", 2, 5), ("b", 1, 2), (None, 1, 3), ("b", 1, 11), ("z", 1, 30)}


def written(frame, folder, source, steps):
    """What a query has written to its table by `foreachBatch`, stopped and started after each step."""
    table = str(folder / "table")

    def write(out, batch):
        out.withColumn("batch", F.lit(batch)).write.mode("append").parquet(table)

    for step in steps:
        source.add(step)
        writer = frame.writeStream.outputMode("update").foreachBatch(write).trigger(availableNow=True)
        writer.option("checkpointLocation", str(folder / "checkpoint")).start().awaitTermination()
    return sorted(map(repr, frame.sparkSession.read.parquet(table).collect()))


def test_a_table_behind_a_stateful_function(spark, tmp_path):
    steps = [rows(("a", 1), ("b", 2), (None, 3)), rows(("z", 30), ("a", 3)), [], rows(("z", 31), ("b", 9))]
    tables = []
    for side in ("own", "ours"):
        source = Source(spark, EVENTS)
        frame = source.frame().withWatermark("ts", "10 seconds").where("v > 0")
        if side == "own":
            call = (latest, OUTPUT, STATE, "update", "EventTimeTimeout")
            result = frame.groupBy("user").applyInPandasWithState(*call)
        else:
            make = mr.stateful(keys=["user"], state=STATE, output=OUTPUT, timeout="EventTimeTimeout")
            result = make(compiled_latest)(frame)
        tables.append(written(result.where("n != 30"), tmp_path / side, source, steps))
    assert tables[1] == tables[0]
    assert "Row(user='a', n=-3, batch=" in "".join(tables[0])
