"""The stream-stream join: Spark's own and ours on the same inputs, batch by batch."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest
from harness import Source, at, duel, spark_at_least
from millrace import spark_glue as mr
from pyspark.sql import functions as F

ROW = "k int, t timestamp, v string"
TYPES = ("inner", "left_outer", "right_outer", "full_outer", "left_semi")
RANGE = "lk = rk AND lt BETWEEN rt - interval 5 seconds AND rt + interval 5 seconds"


def rows(*pairs):
    return [(key, at(second), f"{key}@{second}") for key, second in pairs]


def sides(spark, delay="10 seconds", marks=(True, True)):
    """Two sources and their frames, with columns of their own names and watermarks where asked for."""
    sources = [Source(spark, ROW), Source(spark, ROW)]
    frames = []
    for source, prefix, marked in zip(sources, "lr", marks, strict=True):
        frame = source.frame().select(*(F.col(c).alias(prefix + c) for c in ("k", "t", "v")))
        frames.append(frame.withWatermark(prefix + "t", delay) if marked else frame)
    return sources, frames


def fight(spark, on, how, steps, mode="append", **options):
    sources, (left, right) = sides(spark, **options)
    own = left.join(right, F.expr(on), how)
    ours = mr.join(left, right, on, how, output_mode=mode)
    assert [(f.name, f.dataType, f.nullable) for f in ours.schema] == [
        (f.name, f.dataType, f.nullable) for f in own.schema
    ]
    # Before 4.3, Spark's own join has no update mode; an inner join's output is the same in both.
    own_mode = mode if spark_at_least("4.3") else "append"
    return duel(sources, own, ours, mode, steps, own_mode=own_mode, metrics="join", restart_after=[1])


# J21 to J23: rows of both sides, late ones, and a move of the watermark.
RNG = [
    (rows((1, 5), (3, 5)), None),
    (None, rows((1, 10), (2, 5))),
    (None, rows((1, 9))),
    (rows((1, 7), (1, 30)), None),
    (None, rows((0, 30))),
    (rows((4, 3), (1, 31)), rows((1, 31), (None, 33))),
]


@pytest.mark.parametrize("how", TYPES)
def test_j21_to_j23_value_predicate(spark, how):
    fight(spark, RANGE, how, RNG)


WIN = [
    (rows(*((v, v) for v in range(1, 6))), rows(*((v, v) for v in range(3, 8)))),
    (rows((21, 21)), rows((22, 22))),
    (rows((22, 22), (None, 23)), None),
    (rows((1, 1)), rows((5, 5))),
]


@pytest.mark.parametrize("how", ["inner", "left_outer", "full_outer"])
def test_j9_to_j12_key_predicate(spark, how):
    """The window of the event time is part of the key."""
    sources, frames = sides(spark)
    left, right = (
        frame.select(side + "k", F.window(side + "t", "10 seconds").alias(side + "w"), side + "v")
        for frame, side in zip(frames, "lr", strict=True)
    )
    on = "lk = rk AND lw = rw"
    steps = [(a, b) for a, b in WIN] if how != "full_outer" else WIN[:2]
    own, ours = left.join(right, F.expr(on), how), mr.join(left, right, on, how)
    duel(sources, own, ours, "append", steps, metrics="join")


def test_filters_residual_and_cast_keys(spark):
    on = (
        RANGE.replace("lk = rk", "cast(lk as bigint) = rk") + " AND length(lv) > 3 AND upper(rv) <> 'X' AND lk + rk > 2"
    )
    fight(spark, on, "left_outer", [RNG[0], (rows((1, 6), (1, 10), (3, 4)), rows((1, 10), (3, 6))), *RNG[4:]])


def test_j1_inner_without_time(spark):
    fight(spark, "lk = rk", "inner", [RNG[0], RNG[1], (rows((2, 1)), rows((2, 2), (3, 3)))], marks=(False, False))


@pytest.mark.parametrize("how", TYPES)
def test_rows_without_an_event_time_match_nothing(spark, how):
    timeless = [(1, None, "l"), (None, None, "l")]
    steps = [(rows((1, 5)) + timeless, rows((1, 6)) + timeless), *RNG[3:5], (timeless, rows((1, 31)) + timeless)]
    fight(spark, RANGE, how, steps)


def test_one_watermark_and_update_mode(spark):
    fight(spark, RANGE, "inner", RNG[:4], mode="update", marks=(True, False))


def test_using_names_and_aliases(spark):
    left = spark.createDataFrame(rows((1, 5), (2, 6), (None, 7)), ROW).alias("a")
    right = spark.createDataFrame(rows((1, 8), (3, 9), (None, 7)), ROW).alias("b")
    for how in TYPES:
        own, ours = left.join(right, ["k"], how), mr.join(left, right, ["k"], how)
        assert ours.columns == own.columns
        assert sorted(map(str, ours.collect())) == sorted(map(str, own.collect())), how
        on = "a.k = b.k AND a.v <> b.v"
        own, ours = left.join(right, F.expr(on), how), mr.join(left, right, on, how)
        assert sorted(map(str, ours.collect())) == sorted(map(str, own.collect())), how


@pytest.mark.parametrize("how", ["inner", "left_outer", "left_semi"])
def test_a_stream_with_a_batch_frame(spark, how):
    (source, _), (left, _) = sides(spark)
    names = spark.createDataFrame([(1, "one"), (2, "two"), (2, "zwei")], "lk int, name string")
    steps = [(rows((1, 1), (2, 2), (3, 3)),), (rows((2, 4), (None, 5)),)]
    duel([source], left.join(names, ["lk"], how), mr.join(left, names, ["lk"], how), "append", steps)
    own = left.alias("left").join(names.alias("right"), F.expr("left.lk = right.lk AND name < 'two'"), how)
    ours = mr.join(left, names, "left.lk = right.lk AND name < 'two'", how)
    assert ours.schema == own.schema
    duel([source], own, ours, "append", [(rows((1, 6)),)])


def test_rows_keep_columns_of_every_type(spark):
    schema = (
        "k string, b boolean, y tinyint, s smallint, i int, f float, d double, c decimal(20,3), day date, t timestamp, "
        "n timestamp_ntz, bin binary, a array<int>, m map<string,int>, st struct<x:int,z:string>"
    )
    full = ("ż", True, 1, 2, 3, 1.5, 2.5, Decimal("1.250"), date(2020, 1, 2), at(5), at(5).replace(tzinfo=None),
            bytearray(b"\x00x"), [1, None], {"q": 1}, (7, "w"))  # fmt: skip
    frame = spark.createDataFrame([full, ("k2", *[None] * 14)], schema)
    own, ours = frame.join(frame, ["k"]), mr.join(frame, frame, ["k"])
    assert sorted(map(str, ours.collect())) == sorted(map(str, own.collect()))


def test_mistakes_are_refused_on_the_driver(spark):
    _, (left, right) = sides(spark)
    _, (plain, other) = sides(spark, marks=(False, False))
    for arguments, words in [
        ((left, right, "lk > rk"), "at least one equality"),
        ((left, right, "lk = rk", "left_outer"), "without a watermark in the join keys"),
        ((plain, other, RANGE, "left_outer"), "without a watermark in the join keys"),
        ((left, right, "lk = rq"), "rq"),
        ((left, right, "lk = rk", "cross"), "how: got 'cross'"),
        ((left, spark.range(3), "lk = id", "right_outer"), "'left_semi' where the left side alone is a stream"),
        ((left, spark.range(3), "lk = nothing"), "on: .*nothing"),
        ((left, right, "lk = rk AND levenshtein(lv, rv) < 3"), "levenshtein"),
    ]:
        with pytest.raises(mr.InvalidArgument, match=words):
            mr.join(*arguments)
    with pytest.raises(mr.InvalidArgument, match="'append' for a left_outer join"):
        mr.join(left, right, RANGE, "left_outer", output_mode="update")


def test_collated_text_travels_along_but_is_not_compared(spark):
    plain = spark.createDataFrame([("A", 1), ("a", 1)], "k string, v bigint")
    frame = plain.selectExpr("k COLLATE UTF8_LCASE AS k", "v")
    for build in (
        lambda: mr.join(frame, frame, ["k"]),
        lambda: mr.join(frame, frame, "left.v = right.v AND left.k < right.k"),
        lambda: mr.aggregate(frame, ["k"], {"n": mr.count()}),
        lambda: mr.aggregate(frame, ["v"], {"n": mr.max("k")}),
    ):
        with pytest.raises(mr.UnsupportedType, match=r"'k' is string collate UTF8_LCASE, accepted is .* byte by byte"):
            build()
    own, ours = frame.join(frame, ["v"]), mr.join(frame, frame, ["v"])
    assert sorted(map(str, ours.collect())) == sorted(map(str, own.collect()))
