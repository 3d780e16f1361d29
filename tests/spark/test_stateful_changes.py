"""A stateful function's checkpoint: a changed query is refused and told what differs, a changed body goes on."""

from __future__ import annotations

import sys

import pandas as pd
import pytest
from harness import Running, Source, at
from millrace import spark_glue as mr
from pyspark import cloudpickle

# Workers cannot import this file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

EVENTS = "user string, ts timestamp, v long"
QUERY, LAYOUT = "the state belongs to another query: ", "the state belongs to another layout: "
ONE_FIELD, TWO_FIELDS = r'state was \[\["n", "int64"\]\]', r'now is \[\["n", "int64"\], \["m", "int64"\]\]'
SPARKS_OWN = "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE"


def counted(key, rows, state, out):
    state.n += len(rows)
    out.emit(state.n)


def counted_by_pandas(key, pdfs, state):
    before = state.get if state.exists else (0,)
    n = before[0] + sum(len(pdf) for pdf in pdfs)
    state.update((n, *before[1:]))
    yield pd.DataFrame({"n": [n]})


def doubled(key, rows, state, out):
    state.n += 2 * len(rows)
    out.emit(state.n, rows.v[0])


def doubled_by_pandas(key, pdfs, state):
    rows = pd.concat(pdfs)
    n = state.get[0] + 2 * len(rows)
    state.update((n,))
    yield pd.DataFrame({"n": [n], "v": [rows["v"].iloc[0]]})


COUNTED = {"jit": counted, "pandas": counted_by_pandas}
DOUBLED = {"jit": doubled, "pandas": doubled_by_pandas}
OTHER = {"jit": "pandas", "pandas": "jit"}
WRITTEN = {"jit": "'stateful'", "pandas": "'stateful-pandas'"}


def query(source, engine, function=None, **changed):
    options = {"keys": ["user"], "state": "n long", "output": "n long", "buckets": 2, "name": "counted", **changed}
    frame = source.frame().withWatermark("ts", "10 seconds")
    return mr.stateful(**options, engine=engine)(function or COUNTED[engine])(frame)


def begun(spark, engine, **options):
    """A query that was stopped after a batch, with rows for the next one waiting."""
    source = Source(spark, EVENTS)
    source.add([("a", at(1), 1), ("b", at(1), 2), ("a", at(2), 3)])
    first = Running(query(source, engine, **options), "update").start()
    first.process()
    first.stop()
    assert given(first) == [1, 2]
    source.add([("a", at(3), 7)])
    return source, first


def given(running):
    return sorted(row.n for rows in running.batches.values() for row in rows)


def goes_on(frame, first):
    again = Running(frame, "update", checkpoint=first.checkpoint).start()
    try:
        again.process()
    finally:
        again.stop()
    return [tuple(row) for rows in again.batches.values() for row in rows]


def refused(frame, first, words):
    with pytest.raises(Exception, match=words):
        goes_on(frame, first)


@pytest.mark.parametrize("engine", ["jit", "pandas"])
def test_a_changed_function_is_refused_and_the_old_one_goes_on(spark, engine):
    source, first = begun(spark, engine)
    place = r"stateful 'counted', bucket \d, batch 1: "
    for changed, words in [
        ({"state": "n long, m long"}, place + QUERY + f"{ONE_FIELD}, {TWO_FIELDS}"),
        ({"keys": ["v"]}, place + QUERY + r'keys was \[\["user", ".*string"\]\], now is \[\["v", "int64"\]\]'),
        ({"buckets": 3}, place + LAYOUT + "buckets was 2, now is 3"),
        (
            {"engine": OTHER[engine]},
            place + f"the state belongs to operator {WRITTEN[engine]}, not {WRITTEN[OTHER[engine]]}",
        ),
        ({"timeout": "ProcessingTimeTimeout"}, SPARKS_OWN),
    ]:
        refused(query(source, **{"engine": engine, **changed}), first, words)
    assert goes_on(first.frame, first) == [(3,)]


@pytest.mark.parametrize("engine", ["jit", "pandas"])
def test_another_kind_of_timeout_is_refused_and_the_old_one_goes_on(spark, engine):
    source, first = begun(spark, engine, timeout="EventTimeTimeout")
    words = QUERY + 'timeout was "EventTimeTimeout", now is "ProcessingTimeTimeout"'
    refused(query(source, engine, timeout="ProcessingTimeTimeout"), first, words)
    refused(query(source, engine), first, SPARKS_OWN)
    assert goes_on(first.frame, first) == [(3,)]


@pytest.mark.parametrize("engine", ["jit", "pandas"])
def test_body_output_and_name_may_change(spark, engine):
    source, first = begun(spark, engine)
    changed = query(source, engine, DOUBLED[engine], output="n long, v long", name="doubled")
    assert goes_on(changed, first) == [(4, 7)]
