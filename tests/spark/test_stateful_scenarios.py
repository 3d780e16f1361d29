"""Scenarios of stateful functions, by name, and what a function is handed: Spark's own and both engines."""

from __future__ import annotations

import re
import sys
from collections import Counter
from datetime import date
from decimal import Decimal

import pandas as pd
import pytest
from harness import Running, Source, at, duel, spark_at_least
from millrace import spark_glue as mr
from pyspark import cloudpickle
from pyspark.sql import functions as F

# Workers cannot import this file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

EVENTS = "user string, ts timestamp, v long"
OUTPUT, STATE = "user string, n long", "n long"


def rows(*named):
    return [(user, at(second), int(second * 1000)) for user, second in named]


def marked(source):
    return source.frame().withWatermark("ts", "10 seconds")


def unchanged(frame, function, timeout="EventTimeTimeout", keys=("user",), output=OUTPUT, state=STATE):
    own = frame.groupBy(*keys).applyInPandasWithState(function, output, state, "update", timeout)
    ours = mr.apply_in_pandas_with_state(frame, list(keys), function, output, state, "update", timeout)
    return own, ours


def compiled(function, timeout="EventTimeTimeout", output=OUTPUT, state=STATE):
    return mr.stateful(keys=["user"], state=state, output=output, timeout=timeout)(function)


def alarms(key, pdfs, state):
    """Sets a timeout at the value of the first row, in milliseconds."""
    if state.hasTimedOut:
        state.remove()
        yield pd.DataFrame({"user": [key[0]], "n": [-1]})
    else:
        for pdf in pdfs:
            state.update((1,))
            state.setTimeoutTimestamp(int(pdf["v"].iloc[0]))
            yield pd.DataFrame({"user": [key[0]], "n": [int(pdf["v"].iloc[0])]})


def compiled_alarms(key, rows, state, out):
    if state.has_timed_out:
        state.remove()
        out.emit(key.user, -1)
    else:
        state.n = 1
        state.set_timeout_timestamp(rows.v[0])
        out.emit(key.user, rows.v[0])


@pytest.mark.parametrize("engine", ["pandas", "jit"])
def test_g4_a_timeout_fires_below_the_watermark(spark, engine):
    source = Source(spark, EVENTS)
    own, ours = unchanged(marked(source), alarms)
    if engine == "jit":
        ours = compiled(compiled_alarms)(marked(source))
    # The watermark becomes one second; the alarm of 60 is far off.
    steps = [rows(("a", 0.999), ("b", 1.001), ("c", 1)), rows(("z", 11)), rows(("z", 11.001))]
    name = "alarms" if engine == "pandas" else "compiled_alarms"
    seen = duel([source], own, ours, "update", [[step] for step in steps], metrics=name, restart_after=[0])
    assert [("a", -1) in batch for batch in seen[-1].values()].count(True) == 1


def once(key, pdfs, state):
    """Sets a timeout in its first call alone."""
    if state.hasTimedOut:
        yield pd.DataFrame({"user": [key[0]], "n": [-state.get[0]]})
    elif not state.exists:
        state.update((7,))
        state.setTimeoutTimestamp(15_000)


def compiled_once(key, rows, state, out):
    if state.has_timed_out:
        out.emit(key.user, -state.n)
    elif not state.exists:
        state.n = 7
        state.set_timeout_timestamp(15_000)


UNTOUCHED = [rows(("a", 1)), rows(("a", 2)), rows(("z", 30)), rows(("z", 31)), rows(("z", 40))]


def test_g5_g6_pandas_keeps_a_timeout_that_a_call_does_not_touch(spark):
    source = Source(spark, EVENTS)
    seen = duel([source], *unchanged(marked(source), once), "update", [[step] for step in UNTOUCHED], metrics="once")
    # It fires again in every batch, for nothing answers it.
    assert sum(("a", -7) in batch for batch in seen[-1].values()) > 1


def test_g5_g6_compiled_clears_a_timeout_that_a_call_does_not_set(spark):
    source = Source(spark, EVENTS)
    running = Running(compiled(compiled_once)(marked(source)), "update").start()
    for step in UNTOUCHED:
        source.add(step)
        running.process()
    running.stop()
    # The second call of a took its timeout back, as Scala does; z, called once before each of the others, goes on.
    assert ("a", -7) not in [tuple(row) for batch in running.batches.values() for row in batch]


def ghost(key, pdfs, state):
    """Removes its state and sets a timeout all the same."""
    if state.hasTimedOut:
        yield pd.DataFrame({"user": [key[0]], "n": [100 if state.exists else -100]})
        state.remove()
    else:
        state.update((1,))
        state.remove()
        state.setTimeoutTimestamp(15_000)


def compiled_ghost(key, rows, state, out):
    if state.has_timed_out:
        out.emit(key.user, 100 if state.exists else -100)
        state.remove()
    elif rows.v[0] < 10_000:
        state.n = 1
        state.remove()
        state.set_timeout_timestamp(15_000)


def test_g7_a_timeout_without_a_state(spark):
    source = Source(spark, EVENTS)
    steps = [[rows(("a", 1))], [rows(("a", 3), ("b", 4))]]
    duel([source], *unchanged(marked(source), ghost), "update", steps, metrics="ghost", restart_after=[0])
    running = Running(compiled(compiled_ghost)(marked(source)), "update").start()
    running.process()
    source.add(rows(("z", 30)))
    running.process()
    running.restart()
    running.process()
    running.stop()
    fired = sorted(tuple(row) for batch in running.batches.values() for row in batch)
    assert fired == [("a", -100), ("b", -100)]


def error_class(frame, source, step):
    """The class of the error that a query over one more file ends with."""
    running = Running(frame, "update").start()
    with pytest.raises(Exception) as caught:
        source.add(step)
        running.process()
    running.stop()
    return re.findall(r"\[([A-Z_]+(?:\.[A-Z_]+)?)\] ", str(caught.value))[-1]


def into_the_past(key, pdfs, state):
    state.update((1,))
    state.setTimeoutTimestamp(state.getCurrentWatermarkMs() - 1)
    yield pd.DataFrame({"user": [], "n": []})


def no_state(key, pdfs, state):
    yield pd.DataFrame({"user": [key[0]], "n": [state.get[0]]})


def nothing(key, pdfs, state):
    state.update(None)
    yield pd.DataFrame({"user": [], "n": []})


def wrong_timeout(key, pdfs, state):
    state.setTimeoutDuration(1000)
    yield pd.DataFrame({"user": [], "n": []})


def negative(key, pdfs, state):
    state.setTimeoutTimestamp(-5)
    yield pd.DataFrame({"user": [], "n": []})


@pytest.mark.parametrize("function", [into_the_past, no_state, nothing, wrong_timeout, negative])
def test_g8_mistakes_end_as_in_spark(spark, function):
    classes = []
    for side in range(2):
        source = Source(spark, EVENTS)
        frame = marked(source)
        # Some watermark first: a timeout before it is the mistake.
        source.add(rows(("a", 30)))
        quiet = Running(unchanged(frame, once)[side], "update").start()
        quiet.process()
        quiet.stop()
        classes.append(error_class(unchanged(frame, function)[side], source, rows(("a", 40))))
    assert classes[1] == classes[0]


def test_g8_compiled_functions_are_told_so_too(spark):
    def late(key, rows, state, out):
        state.n = 1
        state.set_timeout_timestamp(state.current_watermark_ms - 1)

    source = Source(spark, EVENTS)
    running = Running(compiled(late)(marked(source)), "update").start()
    source.add(rows(("a", 30)))
    with pytest.raises(Exception, match=r"stateful 'late', bucket \d+, batch 0: .*timeout"):
        running.process()
    running.stop()


# --- what a function is handed ---

FULL = ("a", True, 1, 2, 3, 4, 1.5, -0.0, Decimal("1.50"), date(2020, 1, 2), at(5), at(5).replace(tzinfo=None), b"\x00")
KEYED = (
    "s string, b boolean, y tinyint, h smallint, i int, l long, f float, d double, c decimal(9,2), day date, "
    "t timestamp, n timestamp_ntz, bin binary"
)


def told(key, pdfs, state):
    """What the key, the frames and the state look like to Python."""
    seen = [f"{type(v).__name__}={v!r}" for v in key]
    seen += [f"{list(pdf.columns)} {[str(t) for t in pdf.dtypes]} {pdf.values.tolist()}" for pdf in pdfs]
    seen.append(repr(state.getOption))
    state.update((len(seen[0]),))
    yield pd.DataFrame({"told": [" ".join(seen)], "n": [1]})


def test_keys_of_every_type_and_null_look_as_in_spark(spark):
    source = Source(spark, KEYED)
    names = [part.split()[0] for part in KEYED.split(", ")]
    steps = [[[FULL, (None,) * len(FULL)]], [[FULL]]]
    pair = unchanged(source.frame(), told, "NoTimeout", names, "told string, n long", "x int")
    duel([source], *pair, "update", steps, metrics="told")


def test_frames_keep_their_column_order_and_leading_nulls(spark):
    source = Source(spark, "v long, k string, t timestamp, d decimal(9,2), tags array<string>, day date")
    row = (None, "a", at(5), Decimal("2.50"), ["x", None], date(2020, 1, 2))
    steps = [[[row, (1, "a", None, None, None, None)]], [[(None, None, None, None, [], None)]]]
    pair = unchanged(source.frame(), told, "NoTimeout", ("k",), "told string, n long", "x int")
    duel([source], *pair, "update", steps)


# No arrays: Spark 4.3 itself fails to read the state's schema with one.
KEPT = "t timestamp, day date, d decimal(9,2), s struct<x:int,y:string>, b boolean, f double, z binary"


def keeps(key, pdfs, state):
    """Keeps values of many types, and says what it finds of them in the next batch."""
    before = repr(state.get) if state.exists else "none"
    for pdf in pdfs:
        first = pdf.iloc[0]
        state.update((first.t.to_pydatetime(), first.day, first.d, (3, "y"), True, float(first.v), b"\x01\x00"))
    yield pd.DataFrame({"told": [before], "n": [1]})


def test_state_of_many_types_comes_back_as_in_spark(spark):
    source = Source(spark, "k string, v long, t timestamp, day date, d decimal(9,2), tags array<string>")
    row = ("a", 1, at(5), date(2020, 1, 2), Decimal("2.50"), ["x"])
    pair = unchanged(source.frame(), keeps, "NoTimeout", ("k",), "told string, n long", KEPT)
    steps = [[[row]], [[row, ("b", *row[1:])]], [[row]]]
    # Before, Spark's own gave binaries back as bytearrays.
    older = {} if spark_at_least("4.3") else {"compare": bytearrays_as_bytes}
    duel([source], *pair, "update", steps, restart_after=[1], **older)


def bytearrays_as_bytes(outputs):
    return {
        batch: Counter({(re.sub(r"bytearray\((.*?)\)", r"\1", seen), n): count for (seen, n), count in rows.items()})
        for batch, rows in outputs.items()
    }


def test_a_key_comes_back_after_its_removal(spark):
    def toggles(key, pdfs, state):
        if state.exists:
            state.remove()
        else:
            state.update((1,))
        yield pd.DataFrame({"user": [key[0]], "n": [int(state.exists)]})

    source = Source(spark, EVENTS)
    steps = [[rows(("a", 1), ("b", 1))], [rows(("a", 1))], [rows(("a", 1), (None, 1))], [[]], [rows(("a", 2))]]
    duel([source], *unchanged(source.frame(), toggles, "NoTimeout"), "update", steps, metrics="toggles")


def test_a_function_before_a_table(spark, tmp_path):
    """A compiled function in a larger plan, written to a table by foreachBatch."""

    @mr.stateful(keys=["user"], state="n long", output="user string, n long")
    def counted(key, rows, state, out):
        state.n += len(rows)
        out.emit(key.user, state.n)

    source = Source(spark, EVENTS)
    frame = source.frame().where("v >= 0").withColumn("user", F.upper("user"))
    table = str(tmp_path / "table")
    writer = frame.transform(counted).where("n > 1").writeStream.outputMode("update")
    writer = writer.foreachBatch(lambda out, batch: out.write.mode("append").parquet(table))
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    for step in (rows(("a", 1), ("A", 1), ("b", -1)), rows(("a", 2), ("b", 2))):
        source.add(step)
        query.processAllAvailable()
    query.stop()
    assert sorted(map(tuple, spark.read.parquet(table).collect())) == [("A", 2), ("A", 3)]


def test_two_operators_in_one_query_are_refused(spark):
    """Spark itself has one `applyInPandasWithState` a query, and says so only when the query starts."""
    source = Source(spark, EVENTS)
    joined = mr.aggregate(marked(source), ["ts"], {"n": mr.count()}, output_mode="append", name="first")
    with pytest.raises(mr.InvalidArgument, match=r"one stateful operator of Millrace a query.*foreachBatch"):
        mr.aggregate(joined, ["n"], {"m": mr.count()}, output_mode="update")
