"""One schema of every kind of column, and queries over it with compiled functions."""

from __future__ import annotations

import pyarrow as pa
from millrace.kernels.keyed_state import KeyedState
from millrace.kernels.stateful_query import StatefulQuery

SCHEMA = pa.schema(
    {"k": pa.string(), "v": pa.float64(), "n": pa.int32(), "text": pa.string(), "blob": pa.binary(), "flag": pa.bool_(),
     "day": pa.date32(), "at": pa.timestamp("ms", "UTC"), "price": pa.decimal128(10, 2), "tags": pa.list_(pa.string())}
)  # fmt: skip


def batch_of(**columns) -> pa.RecordBatch:
    rows = len(next(iter(columns.values())))
    columns = {"k": ["a"] * rows} | columns
    return pa.record_batch(
        [pa.array(columns.get(f.name, [None] * rows), f.type) for f in SCHEMA], schema=SCHEMA
    )  # fmt: skip


def query_for(function, state="n long, total double, name string", output="x long", **changes) -> StatefulQuery:
    return StatefulQuery(SCHEMA, changes.pop("keys", ["k"]), state, output, function, **changes)


def run(function, batch=None, state="n long, total double, name string", output="x long", **changes) -> list[tuple]:
    batch = batch_of(v=[1.0]) if batch is None else batch
    rows = KeyedState(query_for(function, state, output, **changes)).process(batch, batch_time_ms=0).rows
    return [tuple(row.values()) for row in rows.to_pylist()]
