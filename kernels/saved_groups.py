"""The groups of a saved aggregation, finished without the query that wrote them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from .aggregates import FUNCTIONS, BoundAggregate, bind, look
from .aggregation import WINDOW
from .columns import array_of, column_of
from .errors import InvalidArgument, StateFormatError
from .functions import Aggregate
from .groups import CHUNK_ROWS
from .plain_arrays import plain, struct_of
from .records import Records
from .sketches import is_shipped, shipped
from .state_format import SavedState
from .steps import Chunk

_TIMESTAMP = re.compile(r"timestamp\[us(?:, tz=(.+))?\]$")
_DECIMAL = re.compile(r"decimal128\((\d+), (-?\d+)\)$")
_FUNCTION = re.compile(r"(\w+(?:\([-+.\w]+, \d+\)(?=\())?)\(")


def group_rows(saved: SavedState) -> pa.RecordBatch:
    """Give one row per group: window, keys and results, accumulators where the function is not known.

    Examples
    --------
    >>> from millrace.kernels import Aggregation, GroupState, functions as F
    >>> from millrace.kernels.state_format import load_state
    >>> batch = pa.record_batch({"k": [1, 1], "v": [5, 2]})
    >>> state = GroupState(Aggregation(batch.schema, ["k"], {"most": F.max("v")}), "update")
    >>> _ = state.process(batch)
    >>> group_rows(load_state(state.to_bytes())).to_pylist()
    [{'k': 1, 'most': 5}]
    """
    query, body = saved.header["query"], saved.bodies[0]
    columns = _key_columns(query, body)
    # Version 1 has the keys twice.
    position = len(columns) * (2 if saved.version == 1 else 1)
    own = saved.header.get("user_defined", [])
    for name, text, types in query["aggs"]:
        accumulators = _accumulators(body, position, name)
        bound = None if name in own else _bound(name, text, types, query["ansi"])
        if bound is not None and [(f.name, f.type) for f in bound.fields] == [(n, a.type) for n, a in accumulators]:
            columns[name] = _finished(bound, [array for _, array in accumulators])
        else:
            columns[name] = struct_of({n: plain(array) for n, array in accumulators}, body.num_rows)
        position += len(accumulators)
    if position != body.num_columns:
        raise StateFormatError(f"the state has {body.num_columns} columns, its header tells of {position}")
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def user_defined(aggs: Mapping[str, Aggregate]) -> list[str]:
    """Name the aggregates whose functions are not this package's, so that a state alone cannot finish them.

    Examples
    --------
    >>> from millrace.kernels import functions as F
    >>> from millrace.kernels.sketches import weighted_mean
    >>> user_defined({"n": F.count(), "mean": weighted_mean("v", "w")})
    []
    """
    return [name for name, agg in aggs.items() if agg.definition is not None and not is_shipped(agg.definition)]


def _key_columns(query: Mapping[str, Any], body: pa.RecordBatch) -> dict[str, pa.Array]:
    columns = {}
    if query["window"]:
        starts = body.column(0)
        ends = array_of(starts.type, column_of(starts).values + query["window"][1])
        columns[WINDOW] = pa.StructArray.from_arrays([starts, ends], ["start", "end"])
    for name, _ in query["keys"]:
        columns[name] = body.column(len(columns))
    return columns


def _accumulators(body: pa.RecordBatch, position: int, aggregate: str) -> list[tuple[str, pa.Array]]:
    """The columns from a position on that belong to an aggregate, under their own names."""
    found = []
    for name, array in zip(body.schema.names[position:], body.columns[position:], strict=True):
        owner, _, field = name.rpartition(":")
        if owner != aggregate:
            break
        found.append((field, array))
    return found


def _bound(name: str, text: str, types: Sequence[str], ansi: bool) -> BoundAggregate | None:
    """Settle an aggregate again; None if its function is not known."""
    function = function_of(text)
    definition = shipped(function)
    if function not in FUNCTIONS and definition is None:
        return None
    # Which columns it read makes no difference to what it finishes.
    columns = tuple(f"c{i}" for i in range(len(types)))
    try:
        aggregate = Aggregate(function, columns, definition=definition)
        return bind(aggregate, [type_named(t) for t in types], f"aggs[{name!r}]", ansi)
    except InvalidArgument:
        return None


def function_of(text: str) -> str:
    """Take the function out of an aggregate's text; columns may be called anything.

    Examples
    --------
    >>> function_of("sum(a(b))"), function_of("approx_quantile(0.9, 512)(ms)")
    ('sum', 'approx_quantile(0.9, 512)')
    """
    match = _FUNCTION.match(text)
    return match[1] if match else text


def type_named(text: str) -> pa.DataType:
    """Give the type of an input column that Arrow calls so.

    Examples
    --------
    >>> type_named("timestamp[us, tz=UTC]"), type_named("decimal128(10, 2)"), type_named("double")
    (TimestampType(timestamp[us, tz=UTC]), Decimal128Type(decimal128(10, 2)), DataType(double))
    """
    if match := _TIMESTAMP.match(text):
        return pa.timestamp("us", match[1])
    if match := _DECIMAL.match(text):
        return pa.decimal128(int(match[1]), int(match[2]))
    try:
        return pa.type_for_alias(text)
    except ValueError as error:
        raise InvalidArgument.of("type", text, "the name of a type that Arrow has") from error


def _finished(bound: BoundAggregate, accumulators: Sequence[pa.Array]) -> pa.Array:
    """Merge accumulators into fresh groups, one each, and finish those."""
    rows = len(accumulators[0])
    groups = np.arange(rows, dtype=np.uint32)
    records, won = Records(bound.fields, rows), np.empty(CHUNK_ROWS, np.bool_)
    records.start(groups, rows)
    inputs = [look(array, bound.lens_of(i)) for i, array in enumerate(accumulators)]
    for base in range(0, rows, CHUNK_ROWS):
        some = groups[base : base + CHUNK_ROWS]
        for step in bound.merge:
            step(records, Chunk(inputs, some, base, won[: len(some)]))
    return bound.finish(records.select(groups))
