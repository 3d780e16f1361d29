"""Stateful functions, compiled, against the model of Spark's operator that runs the same functions."""

from __future__ import annotations

from collections import defaultdict

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from millrace.kernels.errors import InvalidArgument, MillraceError
from millrace.kernels.keyed_state import KeyedState
from millrace.kernels.stateful_query import StatefulQuery
from spark_stateful_model import SparkStateful

SCHEMA = pa.schema(
    {"user": pa.string(), "n": pa.int32(), "op": pa.int64(), "v": pa.int64(), "text": pa.string(),
     "ts": pa.timestamp("us"), "tags": pa.list_(pa.string())}
)  # fmt: skip
KINDS = {"user": str, "n": int, "op": int, "v": int, "text": str, "ts": int}
STATE = "total long, last long, name string, ring array<long, 3>"
STATE_KINDS = {"total": int, "last": int, "name": str, "ring": [0, 0, 0]}
OUTPUT = "user string, n long, what string, total long, last long, name string, element int, present boolean"


def scripted(key, rows, state, out):
    """Do what the rows say; on a timeout, what the total says."""
    for i in range(len(rows)):
        op = rows.op[i]
        if op == 0:
            state.total += rows.v[i]
        elif op == 1:
            state.remove()
        elif op == 2:
            state.name = rows.text[i]
        elif op == 3:
            state.set_null("name")
        elif op == 4:
            state.ring[rows.v[i] % 3] += 1
        elif op == 5:
            state.last = rows.v[i]
        elif op == 6 and state.is_null("last"):
            state.last = 7
        elif op == 7:
            state.name = None if rows.is_null("v", i) else state.name
        out.emit(key.user, key.n, "row", state.total, state.last, state.name, state.ring[1], state.exists)
    if state.has_timed_out:
        choice = state.total % 3
        if choice == 0:
            state.remove()
        elif choice == 1:
            state.total += 1
        out.emit(key.user, key.n, "late", state.total, state.last, state.name, len(state.ring), state.exists)


def scripted_event_time(key, rows, state, out):
    """The same, and set timeouts relative to the watermark."""
    scripted(key, rows, state, out)
    for i in range(len(rows)):
        if rows.op[i] == 8:
            state.set_timeout_timestamp(state.current_watermark_ms + 1 + rows.v[i] * 500)
    if state.has_timed_out and state.total % 2 == 1:
        state.set_timeout_timestamp(state.current_watermark_ms + 1000)


def scripted_processing_time(key, rows, state, out):
    """The same, and set timeouts relative to the clock."""
    scripted(key, rows, state, out)
    for i in range(len(rows)):
        if rows.op[i] == 8:
            state.set_timeout_duration(1 + rows.v[i] * 500)
    if state.has_timed_out and state.total % 2 == 1:
        state.set_timeout_duration(state.current_processing_time_ms % 700 + 1)


FUNCTIONS = {
    "NoTimeout": scripted,
    "EventTimeTimeout": scripted_event_time,
    "ProcessingTimeTimeout": scripted_processing_time,
}
ROW = st.fixed_dictionaries(
    {
        "user": st.sampled_from(["ann", "bob", "", "żółw", None]),
        "n": st.sampled_from([0, -1, None]),
        "op": st.integers(0, 8),
        "v": st.none() | st.integers(0, 6),
        "text": st.sampled_from(["", "x", "a longer text", "żółty", None]),
        "ts": st.none() | st.integers(0, 20).map(lambda half: half * 500_000),
    }
)


def to_batch(rows: list[dict]) -> pa.RecordBatch:
    arrays = [pa.array([row.get(f.name) for row in rows], pa.int64() if f.name == "ts" else f.type) for f in SCHEMA]
    return pa.RecordBatch.from_arrays([a.cast(f.type) for a, f in zip(arrays, SCHEMA, strict=True)], schema=SCHEMA)


def query_of(timeout: str, **changes) -> StatefulQuery:
    keys = changes.pop("keys", ["user", "n"])
    return StatefulQuery(SCHEMA, keys, STATE, OUTPUT, FUNCTIONS[timeout], timeout, event_time="ts", **changes)


def model_of(timeout: str, order_by: str | None = None) -> SparkStateful:
    return SparkStateful(["user", "n"], KINDS, STATE_KINDS, FUNCTIONS[timeout], timeout, "ts", order_by)


def by_key(rows) -> dict:
    """Rows of each key in order; the order of keys is nobody's promise."""
    grouped = defaultdict(list)
    for row in rows:
        grouped[row[:2]].append(row)
    return grouped


def check(state: KeyedState, model: SparkStateful, rows: list[dict], data, **marks) -> None:
    wanted, metrics = model.run(rows, marks["batch_time_ms"], marks.get("watermark_ms"), marks.get("late_watermark_ms"))
    result = state.process(data, **marks)
    assert by_key(tuple(row.values()) for row in result.rows.to_pylist()) == by_key(wanted)
    got = result.metrics.as_dict()
    assert {name: got[name] for name in metrics} == metrics
    assert got["stateMemory"] == state.nbytes > 0


def reloaded(state: KeyedState, version: int) -> KeyedState:
    try:
        saved = state.to_bytes(version)
    except InvalidArgument as error:
        assert version == 1 and "has a timeout without state" in str(error)
        saved = state.to_bytes()
    return KeyedState.from_bytes(state.query, saved)


@settings(max_examples=250, deadline=None)
@given(st.sampled_from(list(FUNCTIONS)), st.lists(st.lists(ROW, max_size=12), min_size=1, max_size=6), st.data())
def test_streams(timeout, batches, data):
    order_by = data.draw(st.sampled_from([None, "v", "ts"]))
    model, state = model_of(timeout, order_by), KeyedState(query_of(timeout, order_by=order_by))
    clock, watermark, late = 1000, 0, 0
    for rows in batches:
        cut = data.draw(st.integers(0, len(rows)))
        parts = data.draw(st.sampled_from([[rows], [rows[:cut], rows[cut:]]]))
        marks = {"batch_time_ms": clock, "watermark_ms": watermark, "late_watermark_ms": late}
        check(state, model, rows, [to_batch(part) for part in parts], **marks)
        version = data.draw(st.sampled_from([None, 1, 2]))
        if version is not None:
            state = reloaded(state, version)
        late = watermark
        watermark += data.draw(st.integers(0, 6)) * 500
        clock += data.draw(st.integers(0, 6)) * 500


@settings(max_examples=60, deadline=None)
@given(st.lists(ROW, max_size=12), st.data())
def test_initial_state(rows, data):
    keys = data.draw(
        st.lists(st.tuples(ROW.map(lambda r: r["user"]), st.sampled_from([0, None])), unique=True, max_size=4)
    )
    values = [
        {"total": i, "last": data.draw(st.none() | st.integers(0, 3)), "name": data.draw(st.sampled_from(["x", None])),
         "ring": [i, i + 1, i + 2]}
        for i in range(len(keys))
    ]  # fmt: skip
    model, query = model_of("NoTimeout"), query_of("NoTimeout")
    state = KeyedState(query)
    model.load_initial(list(zip(keys, values, strict=True)))
    schema = pa.schema([SCHEMA.field("user"), SCHEMA.field("n"), *query.state])
    initial = [{"user": k[0], "n": k[1], **v} for k, v in zip(keys, values, strict=True)]
    state.load_initial(pa.RecordBatch.from_pylist(initial, schema))
    if data.draw(st.booleans()):
        state = reloaded(state, 2)
    check(state, model, rows, to_batch(rows), batch_time_ms=0)
    check(state, model, rows, to_batch(rows), batch_time_ms=0)


def test_an_initial_state_calls_keys_without_rows():
    def greet(key, rows, state, out):
        out.emit(key.user, state.n, len(rows))

    query = StatefulQuery(SCHEMA, ["user"], "n long", "user string, n long, rows long", greet)
    state = KeyedState(query)
    state.load_initial(pa.table({"user": ["ann", "bob"], "n": [5, 6]}))
    rows = state.process(to_batch([{"user": "bob"}]), batch_time_ms=0).rows.to_pylist()
    assert rows == [{"user": "bob", "n": 6, "rows": 1}, {"user": "ann", "n": 5, "rows": 0}]
    assert state.process(batch_time_ms=0).rows.num_rows == 0
    with pytest.raises(InvalidArgument, match="has begun already"):
        state.load_initial(pa.table({"user": ["cid"], "n": [5]}))
    twice = KeyedState(query)
    with pytest.raises(InvalidArgument, match="the key user='ann' comes 2 times"):
        twice.load_initial(pa.table({"user": ["ann", "ann"], "n": [5, 6]}))
    with pytest.raises(MillraceError, match="load it again"):
        twice.process(batch_time_ms=0)
    with pytest.raises(InvalidArgument, match="there is no column 'n'"):
        KeyedState(query).load_initial(pa.table({"user": ["ann"]}))


COLUMNS = {
    "integers": pa.array([3, None, 1, 2, 1]),
    "whole": pa.array([3, -5, 1, 2, 1]),
    "text": pa.array(["żó", None, "a", "b", "a"]),
    "times": pa.array([3, None, 1, 2, 1], pa.timestamp("us")),
    "doubles": pa.array([float("nan"), None, -0.0, 1.5, 0.0]),
    "whole doubles": pa.array([float("nan"), float("-inf"), -0.0, 1.5, 0.0]),
    "booleans": pa.array([True, None, False, False, False]),
    "decimals": pa.array(["3.5", None, "-1.0", "2.0", "-1.0"]).cast(pa.decimal128(5, 1)),
}
RANKS = {"booleans": [2, 0, 1, 1, 1]}


@pytest.mark.parametrize("copies", [1, 9])
@pytest.mark.parametrize("column", COLUMNS)
def test_order_by(column, copies):
    """Nulls first, NaN last, equal ones as they came; few rows and many are sorted in two ways."""

    def positions(key, rows, state, out):
        for position in rows.position:
            out.emit(key.k, position)

    n = 5 * copies
    ranks = RANKS.get(column, [3, 0, 1, 2, 1])
    data = pa.table({"x": pa.concat_arrays([COLUMNS[column]] * copies), "position": range(n), "k": [7] * n})
    query = StatefulQuery(data.schema, ["k"], "n long", "k long, position long", positions, order_by="x")
    got = KeyedState(query).process(data, batch_time_ms=0).rows.column(1).to_pylist()
    assert got == sorted(range(n), key=lambda i: ranks[i % 5])
