"""Groups and their accumulators: the table and the records together, without any notion of time.

`Groups` is all that partial aggregation needs; `GroupState` adds watermarks, modes and storage.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from .aggregates import Input, look
from .aggregation import Aggregation
from .columns import Column, array_of, column_of, record_batches, storage_array, word_column
from .errors import InvalidArgument
from .hash_table import HashTable
from .records import Records
from .steps import Chunk
from .windows import assign

# Rows per pass over all loops: few enough that a chunk's records stay in the second-level cache, many
# enough that what a chunk costs in Python does not count (a million groups: 1.1× as fast as 4096).
CHUNK_ROWS = 16_384
NO_GROUPS = np.empty(0, np.uint32)


@dataclass
class Rows:
    """Rows ready to be absorbed: key columns, each aggregate's inputs, and whether they are partials."""

    count: int
    keys: list[Column]
    inputs: list[list[Column]]
    partial: bool

    def take(self, rows: np.ndarray) -> Rows:
        """Give some of the rows."""
        taken: dict[int, Column] = {}

        def once(column: Column) -> Column:
            # Aggregates share columns; each is taken once.
            if id(column) not in taken:
                taken[id(column)] = column.take(rows)
            return taken[id(column)]

        keys = [once(column) for column in self.keys]
        return Rows(len(rows), keys, [[once(c) for c in columns] for columns in self.inputs], self.partial)


def read_rows(query: Aggregation, batch: pa.RecordBatch) -> Rows:
    """Prepare raw rows, each as often as it has windows."""
    seen: dict[Input, Column] = {}

    def read(wanted: Input) -> Column:
        if wanted not in seen:
            data_type = query.column_type("aggs", wanted.column)
            seen[wanted] = look(storage_array(batch, wanted.column, data_type), wanted.lens)
        return seen[wanted]

    keys = [read(Input(name)) for name in query.keys]
    inputs = [[read(wanted) for wanted in bound.inputs] for bound in query.bound]
    rows = Rows(batch.num_rows, keys, inputs, partial=False)
    if query.window is None:
        return rows
    taken, starts = assign(read(Input(query.window.column)), batch.num_rows, query.window)
    rows = rows if taken is None else rows.take(taken)
    rows.keys.insert(0, word_column(starts))
    return rows


def read_partials(query: Aggregation, batch: pa.RecordBatch) -> Rows:
    """Prepare partials: what `Groups.export` gave, here or elsewhere."""
    if not batch.schema.equals(query.partial_schema):
        raise InvalidArgument(
            f"batch: these are not partials of this query; got {batch.schema.names}, "
            f"accepted are {query.partial_schema.names} with the query's types"
        )
    columns = iter(batch.columns)
    keys = [column_of(next(columns)) for _ in query.layout.types]
    inputs = [[look(next(columns), bound.lens_of(i)) for i in range(len(bound.fields))] for bound in query.bound]
    return Rows(batch.num_rows, keys, inputs, partial=True)


class Groups:
    """All groups of a query and what they have accumulated.

    Parameters
    ----------
    query
        keys and aggregates.
    expected
        number of groups to make room for at once.
    """

    def __init__(self, query: Aggregation, expected: int = 0) -> None:
        self.query = query
        self.table = HashTable(query.layout, expected)
        self.records = Records(query.fields, expected)
        self._won = np.empty(CHUNK_ROWS, np.bool_)

    def __len__(self) -> int:
        return len(self.table)

    @property
    def nbytes(self) -> int:
        return self.table.nbytes + self.records.nbytes

    def absorb(self, rows: Rows, touch: bool = True) -> np.ndarray:
        """Take rows in; returns the groups that are new.

        `touch` notes which groups the rows belong to, for `Records.take_touched`.
        """
        work = [
            (aggregate.merge if rows.partial else aggregate.update, Chunk(inputs, NO_GROUPS, 0, self._won))
            for aggregate, inputs in zip(self.query.bound, rows.inputs, strict=True)
        ]
        made = [NO_GROUPS]
        for base in range(0, rows.count, CHUNK_ROWS):
            count = min(CHUNK_ROWS, rows.count - base)
            groups, new = self.table.upsert(self.table.encode(rows.keys, base, count))
            if len(new):
                self.records.start(new, self.table.capacity)
                made.append(new.copy())
            if touch:
                self.records.touch(groups)
            won = self._won[:count]
            for steps, chunk in work:
                chunk.groups, chunk.base, chunk.won = groups, base, won
                for step in steps:
                    step(self.records, chunk)
        return np.concatenate(made)

    def ensure_global(self) -> None:
        """Touch the only group of a query without keys, making it if need be."""
        groups, new = self.table.upsert(self.table.encode([], 0, 1))
        self.records.start(new, self.table.capacity)
        self.records.touch(groups)

    def seal(self, touched: np.ndarray) -> None:
        """End a batch: let aggregates look at the groups it touched for overflow."""
        for bound in self.query.bound:
            if bound.seal is not None:
                bound.seal(self.records, touched)

    def drop(self, groups: np.ndarray) -> None:
        """Forget groups."""
        self.records.drop(groups)
        self.table.delete(groups)

    def keys(self, groups: np.ndarray) -> list[pa.Array]:
        """Give the key columns of some groups, the window as its start."""
        return self.query.layout.decode(self.table.key_columns(groups), self.table.arena.data)

    def finish(self, groups: np.ndarray) -> pa.RecordBatch:
        """Give the result rows of some groups."""
        keys = self.keys(groups)
        if self.query.window:
            starts = keys[0]
            ends = array_of(starts.type, column_of(starts).values + self.query.window.size)
            keys[0] = pa.StructArray.from_arrays([starts, ends], ["start", "end"])
        selection = self.records.select(groups)
        results = [bound.finish(selection) for bound in self.query.bound]
        return pa.RecordBatch.from_arrays(keys + results, schema=self.query.output_schema)

    def export(self, groups: np.ndarray) -> pa.RecordBatch:
        """Give the accumulators of some groups, to be merged elsewhere or later."""
        selection = self.records.select(groups)
        accumulators = [selection.array(f) for f in self.query.fields]
        return pa.RecordBatch.from_arrays(self.keys(groups) + accumulators, schema=self.query.partial_schema)


Data: TypeAlias = pa.RecordBatch | pa.Table | Iterable[pa.RecordBatch]


def partial_aggregate(query: Aggregation, data: Data) -> pa.RecordBatch:
    """Aggregate rows without any state: one partial per group, to be merged by a `GroupState`.

    Examples
    --------
    >>> from millrace.kernels import Aggregation, functions as F
    >>> batch = pa.record_batch({"k": [1, 2, 1]})
    >>> query = Aggregation(batch.schema, ["k"], {"n": F.count()})
    >>> partial_aggregate(query, batch).to_pydict()
    {'key:k': [1, 2], 'n:count': [2, 1]}
    """
    groups = _absorbed(query, data)
    return groups.export(groups.table.live())


def aggregate(query: Aggregation, data: Data) -> pa.RecordBatch:
    """Aggregate bounded data in one go: one result row per group, in order of first appearance.

    Examples
    --------
    >>> from millrace.kernels import Aggregation, functions as F
    >>> batch = pa.record_batch({"k": [1, 2, 1], "v": [1.0, 2.0, 4.0]})
    >>> aggregate(Aggregation(batch.schema, ["k"], {"mean": F.avg("v")}), batch).to_pydict()
    {'k': [1, 2], 'mean': [2.5, 2.0]}
    """
    groups = _absorbed(query, data)
    if query.is_global:
        groups.ensure_global()
    return groups.finish(groups.table.live())


def _absorbed(query: Aggregation, data: Data) -> Groups:
    groups = Groups(query)
    for batch in record_batches(data):
        groups.absorb(read_rows(query, batch), touch=False)
    return groups
