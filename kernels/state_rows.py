"""What state bytes hold, as rows that people read: keys and results, not tables and accumulators.

The query that wrote a state is not needed: a state says of itself what it is. Results of aggregates are
finished as the query would finish them. Of functions that a user has defined a state knows the name
alone, so that their accumulators are shown.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from .call_protocol import NO_TIMEOUT
from .errors import StateFormatError
from .plain_arrays import plain, struct_of
from .saved_groups import group_rows
from .state_format import SavedState
from .time_bounds import SIDES

COMPUTED = "__millrace_"
VALUE, KEY = "value:", "key:"
TIME = pa.timestamp("us", "UTC")


def state_rows(saved: SavedState) -> Iterator[pa.RecordBatch]:
    """Give all rows of a state, in one batch or several of the same columns.

    - aggregate: the columns of the result, as complete mode would give them;
    - join: ``side``, ``matched`` (null in version 1, which does not know) and the columns of each side in a
      struct ``left`` and a struct ``right``, of which one is null;
    - stateful: the key's columns, the struct ``state``, which is null for a key that only waits, and ``timeout``.

    Raises
    ------
    StateFormatError
        the state's header and its rows do not fit each other, or its operator is not known.

    Examples
    --------
    >>> from millrace.kernels import Aggregation, GroupState, functions as F
    >>> from millrace.kernels.state_format import load_state
    >>> batch = pa.record_batch({"user": ["ann", "bob", "ann"], "ms": [5, 1, 2]})
    >>> state = GroupState(Aggregation(batch.schema, ["user"], {"mean": F.avg("ms")}), "update")
    >>> _ = state.process(batch)
    >>> [rows.to_pylist() for rows in state_rows(load_state(state.to_bytes()))]
    [[{'user': 'ann', 'mean': 3.5}, {'user': 'bob', 'mean': 1.0}]]
    """
    kind = saved.header.get("operator")
    if kind not in READERS:
        raise StateFormatError(f"the state belongs to operator {kind!r}, known are {', '.join(map(repr, READERS))}")
    bodies, read = READERS[kind]
    if len(saved.bodies) != bodies:
        raise StateFormatError(f"the state has {len(saved.bodies)} sets of rows, that of {kind!r} has {bodies}")
    try:
        yield from read(saved)
    except (KeyError, TypeError, IndexError, pa.ArrowException) as error:
        raise StateFormatError(f"the state's header does not describe its rows: {error!r}") from error


def state_row_schema(saved: SavedState) -> pa.Schema:
    """Give the columns of a state's rows.

    Examples
    --------
    >>> from millrace.kernels import Aggregation, GroupState, functions as F
    >>> from millrace.kernels.state_format import load_state
    >>> query = Aggregation(pa.schema({"k": pa.int8()}), ["k"], {"n": F.count()})
    >>> state_row_schema(load_state(GroupState(query, "update").to_bytes())).names
    ['k', 'n']
    """
    return next(state_rows(without_rows(saved))).schema


def without_rows(saved: SavedState) -> SavedState:
    """Give a state of the same columns that holds nothing."""
    return SavedState(saved.version, saved.header, [body.slice(0, 0) for body in saved.bodies])


def _group_rows(saved: SavedState) -> Iterator[pa.RecordBatch]:
    yield group_rows(saved)


# --- joins ------------------------------------------------------------------------------------------


def _join_rows(saved: SavedState) -> Iterator[pa.RecordBatch]:
    sides = [_side_rows(body) for body in saved.bodies]
    for number, (side, body) in enumerate(zip(SIDES, saved.bodies, strict=True)):
        rows = body.num_rows
        matched = body.column("matched") if "matched" in body.schema.names else pa.nulls(rows, pa.bool_())
        structs = [mine if i == number else pa.nulls(rows, mine.type) for i, mine in enumerate(sides)]
        arrays = [pa.repeat(pa.scalar(side), rows), matched, *structs]
        yield pa.RecordBatch.from_arrays(arrays, names=["side", "matched", *SIDES])


def _side_rows(body: pa.RecordBatch) -> pa.StructArray:
    """The stored rows of a side, without what was computed for the condition."""
    shown = {
        name.removeprefix(VALUE): plain(array)
        for name, array in zip(body.schema.names, body.columns, strict=True)
        if name.startswith(VALUE) and not name.startswith(VALUE + COMPUTED)
    }
    return struct_of(shown, body.num_rows)


# --- stateful functions -----------------------------------------------------------------------------


def _keyed_rows(saved: SavedState) -> Iterator[pa.RecordBatch]:
    body, query = saved.bodies[0], saved.header["query"]
    keys = {name: plain(body.column(i)) for i, (name, _) in enumerate(query["keys"])}
    if saved.version == 1:
        fields = {name: plain(body.column(len(keys) + i)) for i, (name, _) in enumerate(query["state"])}
        state = struct_of(fields, body.num_rows)
    else:
        state = plain(body.column("state"))
    columns = [*keys.values(), state, _times(body.column(body.num_columns - 1))]
    names = [*keys, free_name("state", keys), free_name("timeout", keys)]
    yield pa.RecordBatch.from_arrays(columns, names=names)


def _times(milliseconds: pa.Array) -> pa.Array:
    some = pc.if_else(pc.equal(milliseconds, NO_TIMEOUT), None, milliseconds)
    return pc.multiply(some, 1000).cast(TIME)


def free_name(name: str, taken: Collection[str]) -> str:
    """A name for a column beside others: a key may be called the same.

    Examples
    --------
    >>> free_name("state", ["user"]), free_name("state", ["state", "city"])
    ('state', '_state')
    """
    return name if name not in taken else free_name(f"_{name}", taken)


Reader = Callable[[SavedState], Iterator[pa.RecordBatch]]
# Of each operator: how many sets of rows its state has, and how to read them.
READERS: dict[Any, tuple[int, Reader]] = {
    "aggregate": (1, _group_rows),
    "join": (2, _join_rows),
    "stateful": (1, _keyed_rows),
    "stateful-pandas": (1, _keyed_rows),
}
