"""Names with dots, nested integers beside nulls, callables that are no functions, plans that Spark would refuse."""

from __future__ import annotations

import sys
from collections import Counter
from functools import partial

import pandas as pd
import pytest
from harness import Running, Source, duel, normal, spark_at_least
from millrace import spark_glue as mr
from pyspark import cloudpickle
from pyspark.sql import functions as F

# Workers cannot import this file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def same_rows(own, ours):
    assert ours.schema == own.schema
    assert Counter(map(tuple, ours.collect())) == Counter(map(tuple, own.collect()))


@pytest.fixture(scope="module")
def odd(spark):
    return spark.createDataFrame([(1, 5, "x"), (1, 7, None), (None, 1, "y")], "`a.b` int, `c``d` long, `E f` string")


def test_names_with_dots_and_backquotes_in_an_aggregation(odd):
    own = odd.groupBy("`a.b`").agg(F.sum("`c``d`").alias("s.u"), F.max("`E f`").alias("m`x"))
    same_rows(own, mr.aggregate(odd, ["a.b"], {"s.u": mr.sum("c`d"), "m`x": mr.max("E f")}))


def test_names_with_dots_and_backquotes_in_a_join(spark, odd):
    other = spark.createDataFrame([(1, 3.0), (2, 4.0)], "k int, `v.w` double")
    for how in ("inner", "left_outer", "left_semi"):
        own = odd.join(other, F.expr("`a.b` = k AND `v.w` < `c``d`"), how)
        same_rows(own, mr.join(odd, other, "`a.b` = k AND `v.w` < `c``d`", how))


def test_names_with_dots_in_a_compiled_function(odd):
    @mr.stateful(keys=["a.b"], state="n long", output="n long")
    def rows_of(key, rows, state, out):
        out.emit(len(rows))

    assert sorted(row.n for row in odd.transform(rows_of).collect()) == [1, 2]


NESTED = "k long, a array<long>, s struct<x: long>, m map<string, long>, o array<struct<x: long>>"


def echo(key, pdfs, state):
    """Gives its rows back, and so shows what became of their values."""
    state.update((1,))
    yield from pdfs


def looked_at(key, pdfs, state):
    """Tells what the values are to Python."""
    state.update((1,))
    for pdf in pdfs:
        yield pd.DataFrame({"k": [key[0]], "seen": [repr([list(pdf["a"][0]), pdf["s"][0], pdf["m"][0]])]})


def nested_rows(large):
    return [
        (1, [large, None], (large,), {"p": large, "q": None}, [(large,), (None,)]),
        (2, [large], (None,), {"p": large}, [(large,)]),
        (3, [], None, None, None),
    ]


# As Spark 4.3's own function sees them.
SEEN = [
    (1, "[[9007199254740993, None], {'x': 9007199254740993}, {'p': 9007199254740993, 'q': None}]"),
    (2, "[[np.int64(9007199254740993)], {'x': None}, {'p': 9007199254740993}]"),
]
LOOKED_AT = (looked_at, "k long, seen string", SEEN)


@pytest.mark.parametrize(("function", "output", "wanted"), [(echo, NESTED, nested_rows(2**53 + 1)), LOOKED_AT])
def test_integers_within_nested_values_stay_integers_beside_nulls(spark, function, output, wanted):
    source, frame = nested_frame(spark, function)
    running = Running(mr.apply_in_pandas_with_state(frame, ["k"], *echoing(function, output)), "update").start()
    try:
        source.add(nested_rows(2**53 + 1))
        running.process()
        assert sum(running.outputs().values(), Counter()) == Counter(map(normal, wanted))
    finally:
        running.stop()


# Spark 4.0's own shows functions numbers of arrays and maps with nulls as floats, which end at 2**53.
SHOWN = [(echo, NESTED), *([LOOKED_AT[:2]] if spark_at_least("4.3") else [])]


@pytest.mark.parametrize(("function", "output"), SHOWN)
def test_nested_integers_beside_nulls_are_what_spark_shows(spark, function, output):
    source, frame = nested_frame(spark, function)
    call = echoing(function, output)
    own = frame.groupBy("k").applyInPandasWithState(*call)
    rows = nested_rows(2**53 + 1 if spark_at_least("4.3") else 2**53)
    duel([source], own, mr.apply_in_pandas_with_state(frame, ["k"], *call), "update", [[rows]])


def nested_frame(spark, function):
    """A source and its frame; the third row has nothing to look at."""
    source = Source(spark, NESTED)
    return source, source.frame() if function is echo else source.frame().where("k < 3")


def echoing(function, output):
    return function, output, "n long", "update", "NoTimeout"


def counted(start, key, pdfs, state):
    n = (state.get[0] if state.exists else start) + sum(len(pdf) for pdf in pdfs)
    state.update((n,))
    yield pd.DataFrame({"k": [key[0]], "n": [n]})


class Counted:
    def __call__(self, key, pdfs, state):
        yield from counted(7, key, pdfs, state)


@pytest.mark.parametrize(("function", "name"), [(partial(counted, 5), "counted"), (Counted(), "Counted")])
def test_any_callable_is_an_unchanged_function(spark, function, name):
    source = Source(spark, "k long, v long")
    call = (function, "k long, n long", "n long", "update", "NoTimeout")
    own = source.frame().groupBy("k").applyInPandasWithState(*call)
    ours = mr.apply_in_pandas_with_state(source.frame(), ["k"], *call)
    duel([source], own, ours, "update", [[[(1, 1), (2, 1)]], [[(1, 1)]]], metrics=name)


def failing(key, pdfs, state):
    raise ValueError("boom")


@mr.aggregator(state="n long", returns="long")
class Tenths:
    def update(state, v):
        state.n += 10 // v

    def merge(state, other):
        state.n += other.n

    def finish(state):
        return state.n


def test_what_a_users_function_raises_is_told_with_its_place(spark):
    source = Source(spark, "k long, v long")
    source.add([(1, 0)])
    failed = mr.apply_in_pandas_with_state(
        source.frame(), ["k"], failing, "n long", "n long", "update", "NoTimeout", buckets=1
    )
    for frame, words in (
        (failed, r"stateful 'failing', bucket 0, batch 0: ValueError: boom"),
        (mr.aggregate(source.frame(), ["k"], {"n": Tenths("v")}, output_mode="update", name="tenths"),
         r"aggregate 'tenths', map task, batch 0: .*ZeroDivisionError"),
    ):  # fmt: skip
        with pytest.raises(Exception, match=words):
            Running(frame, "update").start().process()


def test_an_aggregation_of_sparks_own_before_it_is_refused_when_it_is_built(spark):
    source = Source(spark, "k long, ts timestamp")
    counts = source.frame().withWatermark("ts", "1 second").groupBy(F.window("ts", "5 seconds"), "k").count()
    again = counts.select(F.window_time("window").alias("t"), "k", "count")
    with pytest.raises(mr.InvalidArgument, match=r"frame: it comes out of an aggregation of Spark's own, accepted is"):
        mr.aggregate(again, ["k"], {"n": mr.sum("count")}, window=mr.window("t", "20 seconds"))
    # An aggregated batch frame beside the stream is none.
    table = spark.range(3).groupBy(F.col("id").alias("k")).count()
    mr.aggregate(source.frame().join(table, "k"), ["k"], {"n": mr.count()}, output_mode="update")


@pytest.mark.parametrize("engine", ["jit", "pandas"])
@pytest.mark.parametrize(
    ("rows", "schema", "words"),
    [
        ([(1, "one")], "k long, n string", r"^initial_state: .*'?n'?"),
        ([(1, 1), (1, 2)], "k long, n long", "^initial_state: .*twice|^initial_state: .*comes 2 times"),
    ],
)
def test_an_initial_state_that_does_not_fit_is_refused_when_the_query_is_built(spark, engine, rows, schema, words):
    def counter(key, rows, state, out):
        out.emit(state.n)

    source = Source(spark, "k long, v long")
    begun = spark.createDataFrame(rows, schema)
    function = counter if engine == "jit" else partial(counted, 0)
    decorate = mr.stateful(keys=["k"], state="n long", output="n long", engine=engine, initial_state=begun)
    with pytest.raises(mr.InvalidArgument, match=words):
        decorate(function)(source.frame())


def test_delays_with_fractions_of_seconds(spark):
    source = Source(spark, "k long, ts timestamp")
    for delay in ("1.5 seconds", "0.25 second", "1 minute 1.5 seconds"):
        ours = mr.aggregate(
            source.frame(), [], {"n": mr.count()}, window=mr.window("ts", "2.5 seconds"), watermark=("ts", delay)
        )
        assert ours.isStreaming
    spark_reads = spark.range(1).select(F.window(F.lit(0).cast("timestamp"), "2.5 seconds")).first()[0]
    assert (spark_reads.end - spark_reads.start).total_seconds() == 2.5
