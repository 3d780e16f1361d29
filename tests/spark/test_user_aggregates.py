"""User-defined aggregates beside built-in ones, in every mode, against the same thing in Spark's own functions."""

from __future__ import annotations

import sys

import pytest
from harness import ROCKSDB, Source, at, conf, duel
from millrace import spark_glue as mr
from pyspark import cloudpickle
from pyspark.sql import functions as F

# Workers cannot import this file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

EVENTS = "user string, ts timestamp, v double, w double"


@mr.aggregator(state="lo double, hi double, n long", returns="double")
class Spread:
    """Greatest less least value."""

    def update(state, v):
        state.lo = v if state.n == 0 else min(state.lo, v)
        state.hi = v if state.n == 0 else max(state.hi, v)
        state.n += 1

    def merge(state, other):
        if other.n > 0:
            state.lo = other.lo if state.n == 0 else min(state.lo, other.lo)
            state.hi = other.hi if state.n == 0 else max(state.hi, other.hi)
            state.n += other.n

    def finish(state):
        return state.hi - state.lo if state.n > 0 else None


AGGS = {"n": mr.count(), "mean": mr.weighted_mean("v", "w"), "spread": Spread("v"), "hi": mr.max("v")}
# The rows at 3 s of the last step are late: the watermark of the step before is 20 s.
STEPS = [
    [("a", at(1), 1.0, 2.0), ("b", at(2), 5.0, 1.0), (None, at(2), 3.0, 0.5)],
    [("a", at(4), 7.0, 1.0), ("a", at(12), -2.0, 3.0), (None, at(9), 4.0, 0.25)],
    [("b", at(30), 8.0, 1.0)],
    [("a", at(3), 100.0, 1.0), ("b", at(31), 9.0, 3.0), ("a", at(60), 0.0, 1.0)],
]


def own_aggs():
    mean = F.sum(F.col("v") * F.col("w")) / F.sum("w")
    spread = (F.max("v") - F.min("v")).alias("spread")
    return [F.count(F.lit(1)).alias("n"), mean.alias("mean"), spread, F.max("v").alias("hi")]


@pytest.mark.parametrize("mode", ["append", "update", "complete"])
def test_windows_in_every_mode(spark, mode):
    source = Source(spark, EVENTS)
    frame = source.frame().withWatermark("ts", "10 seconds")
    own = frame.groupBy(F.window("ts", "10 seconds").alias("window"), "user").agg(*own_aggs())
    ours = mr.aggregate(frame, ["user"], AGGS, window=mr.window("ts", "10 seconds"), output_mode=mode)
    query_mode = "update" if mode == "complete" else mode
    duel(
        [source], own, ours, query_mode, [[step] for step in STEPS],
        own_mode=mode, restart_after=[1], metrics="aggregate",
    )  # fmt: skip


def test_state_of_format_version_1(spark):
    source = Source(spark, EVENTS)
    own = source.frame().groupBy("user").agg(*own_aggs())
    ours = mr.aggregate(source.frame(), ["user"], AGGS, output_mode="update", state_format_version=1)
    duel([source], own, ours, "update", [[step] for step in STEPS], restart_after=[0, 2])


def test_on_rocksdb(spark):
    source = Source(spark, EVENTS)
    frame = source.frame().withWatermark("ts", "10 seconds")
    own = frame.groupBy("user", "ts").agg(*own_aggs())
    ours = mr.aggregate(frame, ["user", "ts"], AGGS, output_mode="append")
    with conf(spark, {"spark.sql.streaming.stateStore.providerClass": ROCKSDB}):
        duel([source], own, ours, "append", [[step] for step in STEPS], restart_after=[1], metrics="aggregate")


def test_sketches_are_as_near_as_they_say(spark):
    frame = spark.range(50_000).select(
        (F.col("id") % 3).alias("k"), (F.hash("id") % 20_000).alias("v"), (F.col("id") + 100.0).alias("x")
    )
    aggs = {"different": mr.approx_count_distinct("v"), "median": mr.approx_quantile("x", 0.5)}
    ours = {row.k: row for row in mr.aggregate(frame, ["k"], aggs).collect()}
    exact = frame.groupBy("k").agg(F.countDistinct("v").alias("different"), F.percentile("x", 0.5).alias("median"))
    for row in exact.collect():
        # Five times the standard error of 1.6 %, and 1 % of the value.
        assert abs(ours[row.k].different / row.different - 1) < 0.08
        assert abs(ours[row.k].median / row.median - 1) <= 0.011
