"""Rows out of state bytes, without the query that wrote them; what is expected is counted by hand."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from millrace.kernels import Aggregation, GroupState, StateFormatError, StatefulQuery, aggregator, window
from millrace.kernels import functions as F
from millrace.kernels.join_query import Join
from millrace.kernels.join_state import JoinState
from millrace.kernels.keyed_state import KeyedState
from millrace.kernels.saved_groups import type_named
from millrace.kernels.sketches import approx_count_distinct, approx_quantile, weighted_mean
from millrace.kernels.state_format import SavedState, load_state
from millrace.kernels.state_rows import state_row_schema, state_rows

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SCHEMA = pa.schema(
    {"k": pa.string(), "t": pa.timestamp("us", "UTC"), "v": pa.int32(), "f": pa.float64(), "p": pa.decimal128(5, 1),
     "s": pa.string(), "b": pa.bool_()}
)  # fmt: skip
ROWS = [
    ("a", NOON, 1, 0.5, Decimal("1.5"), "x", True),
    ("a", NOON, 3, -0.5, Decimal("2.5"), "yy", False),
    ("a", NOON, None, None, None, None, None),
    (None, NOON, None, None, None, None, None),
]
BATCH = pa.RecordBatch.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in ROWS], SCHEMA)
# Of each function what comes of the key "a", and of the key null.
EXPECTED = {
    "count": (F.count(), 3, 1), "values": (F.count("v"), 2, 0), "trues": (F.count_if("b"), 1, 0),
    "sum": (F.sum("v"), 4, None), "floats": (F.sum("f"), 0.0, None), "decimals": (F.sum("p"), Decimal("4.0"), None),
    "avg": (F.avg("v"), 2.0, None), "mean": (F.avg("p"), Decimal("2.00000"), None),
    "low": (F.min("f"), -0.5, None), "high": (F.max("s"), "yy", None), "least": (F.min("v"), 1, None),
    "first": (F.first("s"), "x", None), "last": (F.last("s", ignore_nulls=True), "yy", None),
    "least_by": (F.min_by("s", "f"), "yy", None), "most_by": (F.max_by("v", "f"), 1, None),
    "all": (F.bool_and("b"), False, None), "any": (F.bool_or("b"), True, None),
    "vp": (F.var_pop("v"), 1.0, None), "vs": (F.var_samp("v"), 2.0, None),
    "sp": (F.stddev_pop("v"), 1.0, None), "ss": (F.stddev_samp("v"), math.sqrt(2), None),
    "weighted": (weighted_mean("f", "v"), -0.25, None), "distinct": (approx_count_distinct("v"), 2, 0),
    "top": (approx_quantile("v", 1.0), pytest.approx(3, rel=0.01), None),
}  # fmt: skip


def aggregated(aggs, version=2, rows=BATCH, **options) -> SavedState:
    state = GroupState(Aggregation(rows.schema, ["k"], aggs, **options), "update")
    state.process(rows)
    return load_state(state.to_bytes(version, 4, "totals"))


def rows_of(saved: SavedState) -> list[dict]:
    rows = [row for batch in state_rows(saved) for row in batch.to_pylist()]
    assert all(batch.schema.equals(state_row_schema(saved)) for batch in state_rows(saved))
    return rows


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("ansi", [True, False])
def test_every_function_is_finished(version, ansi):
    saved = aggregated({name: function for name, (function, _, _) in EXPECTED.items()}, version, ansi=ansi)
    wanted = [{"k": key, **{name: row[i + 1] for name, row in EXPECTED.items()}} for i, key in enumerate(("a", None))]
    assert rows_of(saved) == wanted
    assert (saved.header["name"], saved.header["buckets"], saved.header["user_defined"]) == ("totals", 4, [])


def test_windows_have_their_ends():
    saved = aggregated({"n": F.count()}, window=window("t", "10 minutes"))
    (a, _) = rows_of(saved)
    assert a == {"window": {"start": NOON, "end": NOON.replace(minute=10)}, "k": "a", "n": 3}


def test_many_groups_take_several_passes():
    rows = pa.record_batch({"k": [*range(40_000)] * 2, "v": [1] * 40_000 + [2] * 40_000})
    got = rows_of(aggregated({"s": F.sum("v")}, rows=rows))
    assert {row["s"] for row in got} == {3} and {row["k"] for row in got} == set(range(40_000))


def span(name: str, field: str):
    class Span:
        def update(state, value):
            state.total += value

        def merge(state, other):
            state.total += other.total

        def finish(state):
            return state.total * 100

    Span.__name__ = name
    return aggregator(state=f"{field} long", returns="long")(Span)


@pytest.mark.parametrize("name", ["span", "sum", "weighted_mean"])
def test_functions_of_the_users_show_what_they_have_accumulated(name):
    saved = aggregated({"x": span(name, "total")("v"), "n": F.count()})
    assert saved.header["user_defined"] == ["x"]
    assert rows_of(saved) == [{"k": "a", "x": {"total": 4}, "n": 3}, {"k": None, "x": {"total": 0}, "n": 1}]
    # A state from before states told of user-defined functions.
    del saved.header["user_defined"]
    assert rows_of(saved)[0]["x"] == {"total": 4}


def test_a_quantile_whose_name_is_rounded_is_not_guessed():
    (row, _) = rows_of(aggregated({"q": approx_quantile("v", 1 / 3, 16)}))
    assert row["q"]["positive_count"] == 2 and len(row["q"]["positives"]) == 16


@pytest.mark.parametrize("version", [1, 2])
def test_joins_show_both_sides_and_nothing_that_was_computed(version):
    left = pa.schema({"k": pa.int64(), "v": pa.string(), "__millrace_0": pa.int64()})
    right = pa.schema({"k": pa.int64(), "v": pa.list_(pa.int8())})
    state = JoinState(Join(left, right, [("k", "k")], "inner"))
    rows = pa.record_batch([[1, 2], ["a", None], [7, 8]], schema=left), pa.record_batch([[2], [[5]]], schema=right)
    assert sum(out.num_rows for out in state.process(*rows)) == 1
    saved = load_state(state.to_bytes(version))
    flags = {1: [None] * 3, 2: [False, True, True]}[version]
    sides = [
        {"side": "left", "left": {"k": 1, "v": "a"}, "right": None},
        {"side": "left", "left": {"k": 2, "v": None}, "right": None},
        {"side": "right", "left": None, "right": {"k": 2, "v": [5]}},
    ]
    assert rows_of(saved) == [{**row, "matched": flag} for row, flag in zip(sides, flags, strict=True)]


def ring(key, rows, state, out):
    for v in rows.v:
        state.ring[0] += v
        state.n += 1
    state.set_timeout_duration(1500)


@pytest.mark.parametrize("version", [1, 2])
def test_stateful_functions_show_key_state_and_timeout(version):
    schema = pa.schema({"state": pa.string(), "v": pa.int64()})
    query = StatefulQuery(
        schema, ["state"], "n long, ring array<long, 2>", "n long", ring, timeout="ProcessingTimeTimeout"
    )
    state = KeyedState(query)
    state.process(pa.record_batch([["a", "a"], [1, 4]], schema=schema), batch_time_ms=500)
    due = datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC)
    row = {"state": "a", "_state": {"n": 2, "ring": [5, 0]}, "timeout": due}
    assert rows_of(load_state(state.to_bytes(version))) == [row]


def wait(key, rows, state, out):
    state.set_timeout_duration(1000)


def test_a_key_that_only_waits_has_no_state():
    schema = pa.schema({"k": pa.int64()})
    state = KeyedState(StatefulQuery(schema, ["k"], "n long", "n long", wait, timeout="ProcessingTimeTimeout"))
    state.process(pa.record_batch([[1]], schema=schema), batch_time_ms=0)
    (row,) = rows_of(load_state(state.to_bytes()))
    assert row["state"] is None and row["timeout"].second == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"operator": "sort"}, "operator 'sort', known are 'aggregate', 'join'"),
        ({"operator": "join"}, "1 sets of rows, that of 'join' has 2"),
        ({"query": {}}, "does not describe its rows"),
        ({"query": {"keys": [], "aggs": [], "window": None}}, "3 columns, its header tells of 0"),
    ],
)
def test_headers_that_do_not_fit_are_refused(change, words):
    saved = aggregated({"n": F.count(), "s": F.sum("f")})
    header = json.loads(json.dumps({**saved.header, **change}))
    with pytest.raises(StateFormatError, match=words):
        list(state_rows(SavedState(saved.version, header, saved.bodies)))


@pytest.mark.parametrize(
    "data_type",
    [pa.bool_(), pa.int8(), pa.int16(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.large_string(),
     pa.binary(), pa.large_binary(), pa.date32(), pa.timestamp("us"), pa.timestamp("us", "Asia/Tokyo"),
     pa.decimal128(38, 18), pa.time64("us"), pa.duration("us")],
)  # fmt: skip
def test_types_are_known_by_their_names(data_type):
    assert type_named(str(data_type)) == data_type
