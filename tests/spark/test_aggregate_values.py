"""Every aggregate over every type of key and value, against Spark's own."""

from __future__ import annotations

import random
from datetime import date, datetime
from decimal import Decimal

import pytest
from harness import Source, at, duel, normal
from millrace import spark_glue as mr
from millrace.spark_glue.aggregate import spark_twin

NAN = float("nan")
VALUES = {
    "boolean": [True, False],
    "tinyint": [-128, 0, 127],
    "smallint": [-(2**15), 7, 2**15 - 1],
    "int": [-(2**31), -1, 2**31 - 1],
    "bigint": [-(2**40), 0, 5, 2**40],
    "float": [-0.0, 0.0, 1.5, NAN, float("inf")],
    "double": [-0.0, 0.0, -2.25, NAN, 1e300],
    "decimal(10,2)": [Decimal("-99999999.99"), Decimal("0.01"), Decimal("7.00")],
    "decimal(38,18)": [Decimal("-3.000000000000000001"), Decimal("1234567890123456.5")],
    "date": [date(1969, 12, 31), date(2026, 11, 21)],
    "timestamp": [at(-1.5), at(1e9), at(0.000001)],
    "timestamp_ntz": [datetime(1960, 1, 1), datetime(2026, 1, 1, 0, 0, 0, 1)],
    "string": ["", "a", "a\0b", "żółw", "a" * 300],
    "binary": [b"", b"\x00", b"\xff" * 20],
}
NUMBERS = ("sum", "avg", "var_pop", "var_samp", "stddev_pop", "stddev_samp")


def rows_of(kind, count=60):
    """Keys and values of one type, a third of them null, each key with a time of its own for `min_by`."""
    draw = random.Random(kind)
    values = [None, *VALUES[kind], *VALUES[kind]]
    return [(draw.choice(values), draw.choice(values), i, i % 3 == 0) for i in range(count)]


def aggregates_for(kind):
    aggs = {"n": mr.count(), "c": mr.count("v"), "i": mr.count_if("b"), "lo": mr.min("v"), "hi": mr.max("v")}
    aggs |= {
        "at_least": mr.min_by("o", "o"),
        "at_most": mr.max_by("v", "o"),
        "any": mr.bool_or("b"),
        "all": mr.bool_and("b"),
    }
    if kind in ("tinyint", "smallint", "int", "bigint", "float", "double") or kind.startswith("decimal"):
        aggs |= {name: getattr(mr, name)("v") for name in NUMBERS}
    return aggs


@pytest.mark.parametrize("kind", VALUES)
def test_batch_frames_give_what_spark_gives(spark, kind):
    frame = spark.createDataFrame(rows_of(kind), f"k {kind}, v {kind}, o int, b boolean").coalesce(1)
    aggs = aggregates_for(kind)
    own = frame.groupBy("k").agg(*(spark_twin(agg).alias(name) for name, agg in aggs.items()))
    ours = mr.aggregate(frame, ["k"], aggs)
    assert ours.schema == own.schema
    assert sorted(map(repr, map(normal, ours.collect()))) == sorted(map(repr, map(normal, own.collect())))


def random_row(draw, batch):
    """A row for the stream of many types, some of them late."""
    key, time = draw.choice(["a", "ż", None]), at(batch * 20 + draw.random() * 30)
    price, ratio = Decimal(draw.randint(-999, 999)) / 100, draw.choice([1.5, NAN, None, -0.0])
    return key, time, price, ratio, draw.choice([None, draw.randint(-9, 9)]), draw.random() < 0.5


def facts(frame):
    return [(f.name, f.dataType, f.nullable) for f in frame.schema]


def test_a_stream_of_many_types(spark):
    schema = "k string, ts timestamp, d decimal(10,2), x double, v bigint, b boolean"
    draw = random.Random(1)
    steps = [[[random_row(draw, batch) for _ in range(40)]] for batch in range(4)]
    source = Source(spark, schema)
    frame = source.frame().withWatermark("ts", "10 seconds")
    aggs = {
        "n": mr.count(), "s": mr.sum("d"), "a": mr.avg("d"), "m": mr.avg("x"), "var": mr.var_samp("v"),
        "hi": mr.max("k"), "least": mr.min("ts"), "any": mr.bool_or("b"),
    }  # fmt: skip
    own = frame.groupBy("k", "ts").agg(*(spark_twin(agg).alias(name) for name, agg in aggs.items()))
    ours = mr.aggregate(frame, ["k", "ts"], aggs, output_mode="update")
    assert [(f.name, f.dataType, f.nullable) for f in ours.schema] == [
        (f.name, f.dataType, f.nullable) for f in own.schema
    ]
    duel([source], own, ours, "update", steps, metrics="aggregate", restart_after=[0, 2])


def test_nothing_but_an_empty_frame(spark):
    frame = spark.createDataFrame([], "k int, v int")
    aggs = {"n": mr.count(), "s": mr.sum("v")}
    assert mr.aggregate(frame, ["k"], aggs).collect() == []
