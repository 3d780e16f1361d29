"""A store of rows against a dict of Python rows, for every kind of Arrow type."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from millrace.kernels import row_store
from millrace.kernels.row_store import RowStore

VALUES = {
    pa.int8(): st.integers(-128, 127),
    pa.uint16(): st.integers(0, 2**16 - 1),
    pa.int32(): st.integers(-5, 5),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float32(): st.sampled_from([0.5, -1.0, float("inf")]),
    pa.float64(): st.floats(allow_nan=False),
    pa.bool_(): st.booleans(),
    pa.decimal128(20, 3): st.decimals(-1000, 1000, places=3),
    pa.decimal256(50, 0): st.sampled_from([Decimal(0), Decimal("9" * 28)]),
    pa.date32(): st.dates(date(1900, 1, 1), date(2100, 1, 1)),
    pa.timestamp("us", "UTC"): st.just(datetime(2026, 1, 1)),
    pa.time64("us"): st.just(time(1, 2, 3)),
    pa.duration("us"): st.just(timedelta(hours=3)),
    pa.binary(5): st.binary(min_size=5, max_size=5),
    pa.string(): st.text(max_size=20),
    pa.large_string(): st.text(max_size=5),
    pa.string_view(): st.text(max_size=20),
    pa.binary(): st.binary(max_size=10),
    pa.dictionary(pa.int8(), pa.string()): st.sampled_from(["a", "b"]),
    pa.list_(pa.int16()): st.lists(st.none() | st.integers(-5, 5), max_size=3),
    pa.struct([("a", pa.int8()), ("b", pa.string())]): st.fixed_dictionaries({"a": st.just(1), "b": st.text()}),
    pa.map_(pa.string(), pa.int8()): st.lists(st.tuples(st.sampled_from("xyz"), st.integers(0, 9)), max_size=2),
    pa.null(): st.none(),
}


@st.composite
def schemas(draw):
    types = draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=4))
    return pa.schema([pa.field(f"c{i}", t) for i, t in enumerate(types)])


@settings(max_examples=200, deadline=None)
@given(schemas(), st.data())
def test_rows_come_back_as_they_went_in(schema, data):
    store, model = RowStore(schema), {}
    for _ in range(data.draw(st.integers(1, 5))):
        rows = data.draw(st.integers(0, 12))
        nulls = data.draw(st.booleans())
        columns = []
        for f in schema:
            values = st.none() | VALUES[f.type] if nulls else VALUES[f.type]
            columns.append(pa.array(data.draw(st.lists(values, min_size=rows, max_size=rows)), f.type))
        batch = pa.RecordBatch.from_arrays(columns, schema=schema).slice(data.draw(st.integers(0, 3)))
        numbers = store.append(batch).tolist()
        assert not set(numbers) & set(model)
        model |= dict(zip(numbers, batch.to_pylist(), strict=True))
        gone = data.draw(st.lists(st.sampled_from(sorted(model)), unique=True)) if model else []
        store.drop(np.array(gone, np.uint32))
        for number in gone:
            del model[number]
        assert len(store) == len(model) and store.live().tolist() == sorted(model)
        wanted = data.draw(st.lists(st.sampled_from(sorted(model)), max_size=20)) if model else []
        assert store.gather(np.array(wanted, np.uint32)).to_pylist() == [model[number] for number in wanted]


@pytest.mark.parametrize("kind", [pa.string(), pa.list_(pa.int64())])
def test_memory_stays_bounded_while_rows_come_and_go(kind, monkeypatch):
    monkeypatch.setattr(row_store, "REBUILD_ABOVE", 10_000)
    monkeypatch.setattr(row_store, "REBUILD_ROWS_ABOVE", 100)
    store, kept, sizes = RowStore(pa.schema({"id": pa.int64(), "v": kind})), [], []
    for cycle in range(200):
        ids = range(cycle * 100, cycle * 100 + 100)
        values = [f"{i:050d}" for i in ids] if kind == pa.string() else [[i] * 8 for i in ids]
        batch = pa.record_batch([pa.array(ids), pa.array(values, kind)], schema=store.schema)
        kept.append((store.append(batch), batch))
        if len(kept) > 3:
            store.drop(kept.pop(0)[0])
        sizes.append(store.nbytes)
    for numbers, batch in kept:
        assert store.gather(numbers).equals(batch)
    assert max(sizes[20:]) < 3 * sizes[3]


def test_some_columns_only():
    store = RowStore(pa.schema({"a": pa.int8(), "b": pa.string(), "c": pa.bool_()}))
    numbers = store.append(pa.record_batch([[1], ["x"], [True]], schema=store.schema))
    assert store.gather(numbers, [2, 0]).to_pylist() == [{"c": True, "a": 1}]


def test_a_row_of_two_longs_a_time_and_a_double_takes_no_more_than_its_values():
    schema = pa.schema({"a": pa.int64(), "b": pa.int64(), "t": pa.timestamp("us"), "x": pa.float64()})
    store, rows = RowStore(schema), 10_000
    zeros = np.zeros(rows, np.int64)
    store.append(pa.record_batch([pa.array(zeros), zeros, pa.array(zeros).cast(schema.field("t").type), zeros * 1.0],
                                 schema=schema))  # fmt: skip
    assert store.nbytes == 32 * rows
