"""State of stateful functions at rest: what is written, and bytes that are something else."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from millrace.kernels import GroupState, KeyedState, StateFormatError, StatefulQuery
from millrace.kernels.keyed_groups import saved_schema
from millrace.kernels.keyed_state import OPERATOR
from millrace.kernels.state_format import dump_state

SCHEMA = pa.schema({"user": pa.string(), "n": pa.int32(), "ts": pa.timestamp("us")})
STATE = "total long, name string, ring array<short, 3>"


def keep(key, rows, state, out):
    state.total += len(rows)
    state.name = key.user
    state.ring[1] = 7
    state.set_timeout_timestamp(5000)
    out.emit(len(rows))


def keep_without_timeout(key, rows, state, out):
    state.total += len(rows)
    out.emit(state.total)


def query(keys=("user", "n"), state=STATE, function=keep, timeout="EventTimeTimeout") -> StatefulQuery:
    return StatefulQuery(SCHEMA, list(keys), state, "total long", function, timeout, "ts")


def some_state(rows: int = 3) -> KeyedState:
    state = KeyedState(query())
    batch = {"user": [f"u{i}" for i in range(rows - 1)] + [None], "n": list(range(rows)), "ts": [None] * rows}
    state.process(pa.RecordBatch.from_pydict(batch, SCHEMA), batch_time_ms=0, watermark_ms=1000)
    return state


def test_what_is_written():
    state = some_state()
    for version in (1, 2):
        body = state._groups.export(version)
        assert body.schema.equals(saved_schema(state.query, version))
        row = body.to_pylist()[0]
        values = {"total": 1, "name": "u0", "ring": [0, 7, 0]}
        kept = {f"state:{k}": v for k, v in values.items()} if version == 1 else {"state": values}
        assert row == {"key:user": "u0", "key:n": 0, **kept, "timeout": 5000}
        again = KeyedState.from_bytes(state.query, state.to_bytes(version))
        assert again.to_bytes() == state.to_bytes() and again.watermark_ms == 1000 and len(again) == 3


def test_an_empty_state():
    state = KeyedState(query())
    again = KeyedState.from_bytes(state.query, state.to_bytes(1))
    assert len(again) == 0 and again.to_bytes() == state.to_bytes()


SAVED = some_state(40).to_bytes(buckets=4)


def test_the_number_of_buckets_belongs_to_the_state():
    assert len(KeyedState.from_bytes(query(), SAVED, buckets=4)) == 40
    with pytest.raises(StateFormatError, match="buckets was 4, now is 8"):
        KeyedState.from_bytes(query(), SAVED, buckets=8)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (query(keys=["user"]), "keys was"),
        (query(state="total long, name string, ring array<short, 4>"), "state was"),
        (query(state="total double, name string, ring array<short, 3>"), "state was"),
        (
            query(function=keep_without_timeout, timeout="NoTimeout"),
            'timeout was "EventTimeTimeout", now is "NoTimeout"',
        ),
    ],
)
def test_another_query(other, message):
    with pytest.raises(StateFormatError, match=f"the state belongs to another query: .*{message}"):
        KeyedState.from_bytes(other, SAVED, buckets=4)


def test_another_function_may_go_on():
    after = KeyedState.from_bytes(query(function=keep_without_timeout), SAVED, buckets=4)
    batch = pa.RecordBatch.from_pydict({"user": ["u0"], "n": [0], "ts": [None]}, SCHEMA)
    assert after.process(batch, batch_time_ms=0, watermark_ms=1000).rows.to_pylist() == [{"total": 2}]


def test_another_operator():
    from millrace.kernels import Aggregation
    from millrace.kernels import functions as F

    grouped = Aggregation(SCHEMA, ["user"], {"n": F.count()})
    with pytest.raises(StateFormatError, match="belongs to operator 'stateful', not 'aggregate'"):
        GroupState.from_bytes(grouped, "update", SAVED)
    with pytest.raises(StateFormatError, match="belongs to operator 'aggregate', not 'stateful'"):
        KeyedState.from_bytes(query(), GroupState(grouped, "update").to_bytes())


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_damage_is_noticed(data):
    at = data.draw(st.integers(0, len(SAVED) - 1))
    if data.draw(st.booleans()):
        bad = SAVED[:at]
    else:
        bad = bytearray(SAVED)
        bad[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(StateFormatError):
        KeyedState.from_bytes(query(), bytes(bad), buckets=4)


def written(body: pa.RecordBatch, *more: pa.RecordBatch, version: int = 2) -> bytes:
    return dump_state(version, OPERATOR, query().describe(), {"buckets": None}, body, *more)


def test_rows_that_cannot_be():
    body = some_state()._groups.export(2)
    assert len(KeyedState.from_bytes(query(), written(body))) == 3
    twice = pa.Table.from_batches([body, body]).combine_chunks().to_batches()[0]
    timeouts = body.set_column(body.num_columns - 1, body.schema.field("timeout"), pa.array([1, -2, 3]))
    null_timeouts = body.set_column(body.num_columns - 1, body.schema.field("timeout"), pa.array([1, None, 3]))
    holes = [{"total": 1, "name": "x", "ring": [1, None, 2]}] * 3
    hollow = body.set_column(2, body.schema.field("state"), pa.array(holes, body.schema.field("state").type))
    for bad, message in [
        (written(twice), "the state's rows cannot be: the key user='u0', n=0 comes 2 times"),
        (written(timeouts), "timeouts that no function can set"),
        (written(null_timeouts), "timeouts that no function can set"),
        (written(hollow), "the state's rows cannot be: state: field 'ring' has an array with a null element"),
        (written(body, body), "the state has 2 sets of rows, a stateful function's has one"),
        (written(body.select([0, 1, 2])), "the state's columns are"),
        (written(body, version=1), "the state's columns are"),
    ]:
        with pytest.raises(StateFormatError, match=message):
            KeyedState.from_bytes(query(), bad)
