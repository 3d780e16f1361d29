"""Decimals in compiled functions and user-defined aggregates, against Spark's own functions and SQL."""

from __future__ import annotations

import sys
from decimal import ROUND_HALF_UP, Decimal

import pandas as pd
import pytest
from harness import ROCKSDB, Source, conf, duel
from millrace import spark_glue as mr
from millrace.spark_glue import divide
from pyspark import cloudpickle
from pyspark.sql import functions as F

# Workers cannot import this file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

EVENTS = "user string, price decimal(12, 2), pieces int"
OUTPUT = "user string, total decimal(20, 2), net decimal(20, 2), each decimal(20, 4)"
STATE = "total decimal(20, 2), pieces long"
FEE = Decimal("0.015")
D = Decimal
STEPS = [
    [("a", D("1.10"), 1), ("b", D("-7.00"), 2), ("a", D("0.05"), 3), (None, D("9999999999.99"), 1)],
    [("b", D("7.33"), 1), ("a", D("-0.01"), 2), ("c", D("0.00"), 7)],
    [(None, D("9999999999.99"), 5), ("c", D("-0.03"), 1), ("a", D("3.335").quantize(D("0.01")), 4)],
]


def cents(value: Decimal, places: str = "0.01") -> Decimal:
    return value.quantize(Decimal(places), ROUND_HALF_UP)


def spending(key, pdfs, state):
    """What a key has spent, net of fees and by the piece."""
    total, pieces = state.get if state.exists else (Decimal("0.00"), 0)
    for pdf in pdfs:
        total += sum(pdf["price"], Decimal(0))
        pieces += int(pdf["pieces"].sum())
    state.update((total, pieces))
    net, each = cents(total - total * FEE), cents(total / pieces, "0.0001")
    yield pd.DataFrame({"user": [key[0]], "total": [total], "net": [net], "each": [each]})


@mr.stateful(keys=["user"], state=STATE, output=OUTPUT)
def spent(key, rows, state, out):
    for i in range(len(rows)):
        state.total += rows.price[i]
        state.pieces += rows.pieces[i]
    out.emit(key.user, state.total, state.total - state.total * FEE, divide(state.total, state.pieces, 4))


@pytest.mark.parametrize("store", ["hdfs", "rocksdb"])
def test_a_compiled_function(spark, store):
    source = Source(spark, EVENTS)
    frame = source.frame()
    own = frame.groupBy("user").applyInPandasWithState(spending, OUTPUT, STATE, "update", "NoTimeout")
    with conf(spark, {"spark.sql.streaming.stateStore.providerClass": ROCKSDB} if store == "rocksdb" else {}):
        duel([source], own, frame.transform(spent), "update", [[step] for step in STEPS], restart_after=[0, 1])


@mr.aggregator(state="total decimal(38, 2), squares decimal(38, 4)", returns="decimal(38, 4)")
class Squares:
    """The sum of the squares, and of the values themselves."""

    def update(state, price):
        state.total += price
        state.squares += price * price

    def merge(state, other):
        state.total += other.total
        state.squares += other.squares

    def finish(state):
        return state.squares + state.total


def test_an_aggregate(spark):
    source = Source(spark, EVENTS)
    price = F.col("price")
    own = source.frame().groupBy("user").agg((F.sum(price * price) + F.sum(price)).cast("decimal(38, 4)").alias("x"))
    ours = mr.aggregate(source.frame(), ["user"], {"x": Squares("price")}, output_mode="update")
    duel([source], own, ours, "update", [[step] for step in STEPS], restart_after=[1])
