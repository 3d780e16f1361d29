"""State by key under an unchanged `applyInPandasWithState` function, many keys in one bucket.

Keys, states and timeouts lie in Arrow columns; only what a batch touches becomes Python objects. The
function gets Spark's own `GroupState`, and what it leaves in it is judged as Spark judges it: a state
whose call has not updated, removed or given it a timeout stays as it was, its timeout included.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as T
from pyspark.sql.streaming.state import GroupState

from ..kernels.call_order import CallOrder
from ..kernels.columns import Column, column_of, storage_array, storage_type
from ..kernels.errors import InvalidArgument, MillraceError, StateFormatError
from ..kernels.hash_table import HashTable
from ..kernels.keys import KeyLayout
from ..kernels.metrics import Metrics, milliseconds
from ..kernels.state_format import check_version, dump_state, load_state, require_same, require_schema
from ..kernels.watermark import limit_of
from .group_state_frames import FrameConverter, FrameSlices
from .operator import Clock

OPERATOR = "stateful-pandas"
NO_TIMEOUT = -1
NO_GROUPS = np.empty(0, np.uint32)
# New objects between two collections of garbage while functions are called.
COLLECT_AFTER = 100_000


@dataclass(frozen=True)
class PandasQuery:
    """An unchanged function and what it works on, as plain data."""

    function: Callable[..., Iterable[pd.DataFrame]]
    keys: tuple[str, ...]
    input: T.StructType
    schema: pa.Schema
    state: T.StructType
    state_schema: pa.Schema
    output: T.StructType
    output_schema: pa.Schema
    timeout: str
    event_time: str | None
    order_by: str | None
    time_zone: str

    def __getstate__(self) -> dict[str, object]:
        return {k: v for k, v in self.__dict__.items() if k not in ("frames", "results", "key_frames", "layout")}

    @property
    def name(self) -> str:
        return name_of(self.function)

    @property
    def key_types(self) -> list[pa.DataType]:
        return [storage_type(self.schema.field(name).type, "keys", name) for name in self.keys]

    @cached_property
    def layout(self) -> KeyLayout:
        return KeyLayout(self.key_types)

    @cached_property
    def frames(self) -> FrameConverter:
        return FrameConverter(self.input, self.schema, self.time_zone)

    @cached_property
    def key_frames(self) -> FrameConverter:
        fields = [self.input[name] for name in self.keys]
        return FrameConverter(
            T.StructType(fields), pa.schema(zip(self.keys, self.key_types, strict=True)), self.time_zone
        )

    @cached_property
    def results(self) -> FrameConverter:
        return FrameConverter(self.output, self.output_schema, self.time_zone)

    @property
    def saved_schema(self) -> pa.Schema:
        """A key, its state as one nullable struct, as in Spark's second format, and its timeout."""
        keys = [pa.field(f"key:{name}", t) for name, t in zip(self.keys, self.key_types, strict=True)]
        return pa.schema(
            [*keys, pa.field("state", pa.struct(list(self.state_schema))), pa.field("timeout", pa.int64())]
        )

    def describe(self) -> dict[str, object]:
        """Everything that a saved state must agree with. The function may change."""
        return {
            "keys": [[name, str(t)] for name, t in zip(self.keys, self.key_types, strict=True)],
            "state": [[f.name, str(f.type)] for f in self.state_schema],
            "timeout": self.timeout,
        }


class PandasState:
    """The keys of one bucket."""

    def __init__(self, query: PandasQuery, saved: pa.RecordBatch | None = None) -> None:
        self.query = query
        self.watermark_ms: int | None = None
        self.metrics = Metrics()
        self._table = HashTable(query.layout)
        self._saved = pa.RecordBatch.from_pylist([], query.saved_schema) if saved is None else saved
        self._timeouts = self._saved.column("timeout").to_numpy().copy()
        # What a batch has written, by group: the state's values, or None where there is no state.
        self._written: dict[int, tuple | None] = {}
        self._removed: set[int] = set()
        # Keys of an initial state, which have a call in the first batch, with rows or without.
        self._pending = NO_GROUPS
        self._restore_keys()

    def _restore_keys(self) -> None:
        """Give the saved keys the numbers of their rows."""
        rows = self._saved.num_rows
        keys = [column_of(self._saved.column(i)) for i in range(len(self.query.keys))]
        if rows:
            _, new = self._table.upsert(self._table.encode(keys, 0, rows))
            if len(new) != rows:
                raise StateFormatError(f"the state has {rows} rows but only {len(new)} different keys")

    @classmethod
    def initial(cls, query: PandasQuery, rows: pa.RecordBatch) -> PandasState:
        """Begin with state from elsewhere: rows of the key columns and then the state's fields."""
        count = len(query.keys)
        keys = [storage_array(rows, name, t) for name, t in zip(query.keys, query.key_types, strict=True)]
        try:
            values = [rows.column(count + i).cast(f.type) for i, f in enumerate(query.state_schema)]
        except pa.ArrowException as error:
            raise InvalidArgument(f"initial_state: a column does not fit the state's schema: {error}") from error
        state = pa.StructArray.from_arrays(values, fields=list(query.state_schema))
        none = pa.array(np.full(rows.num_rows, NO_TIMEOUT, np.int64))
        begun = pa.RecordBatch.from_arrays([*keys, state, none], schema=query.saved_schema)
        try:
            made = cls(query, begun)
        except StateFormatError as error:
            raise InvalidArgument(f"initial_state: a key comes twice: {error}") from error
        made._pending = np.arange(rows.num_rows, dtype=np.uint32)
        return made

    def __len__(self) -> int:
        return len(self._table) - len(self._removed)

    # --- one micro-batch ---

    def run(self, batches: Sequence[pa.RecordBatch], clock: Clock) -> Iterator[pa.RecordBatch]:
        """Call the function for each key with rows, then for each key whose timeout has passed."""
        started = time.perf_counter()
        rows = pa.Table.from_batches(batches, self.query.schema).combine_chunks()
        rows, late = self._without_late(rows, clock)
        with rare_collections():
            frames = [*self._calls_with_rows(rows, clock), *self._calls_of_initial_keys(clock)]
            updated = time.perf_counter()
            frames += self._calls_of_timeouts(clock)
        frames = [frame for frame in frames if not isinstance(frame, pd.DataFrame) or len(frame)]
        output = 0
        if frames:
            result = self.query.results.to_arrow(frames, self.query.name)
            output = result.num_rows
            yield result
        if clock.watermark_ms is not None:
            self.watermark_ms = clock.watermark_ms
        self.metrics.numOutputRows = output
        self.metrics.numRowsDroppedByWatermark = late
        self.metrics.numTotalStateRows = len(self)
        self.metrics.allUpdatesTimeMs = milliseconds(started, updated)
        self.metrics.allRemovalsTimeMs = milliseconds(updated, time.perf_counter())
        self.metrics.stateMemory = self._saved.nbytes + self._table.nbytes

    def _without_late(self, rows: pa.Table, clock: Clock) -> tuple[pa.Table, int]:
        query, limit = self.query, limit_of(clock.late_watermark_ms)
        if query.timeout != "EventTimeTimeout" or limit is None or query.event_time is None or not rows.num_rows:
            return rows, 0
        times = column_of(_one_array(rows, query.event_time).cast(pa.timestamp("us")))
        late = (times.values <= limit) & times.valid_rows(0, rows.num_rows)
        return (rows.filter(pa.array(~late)), int(np.count_nonzero(late))) if late.any() else (rows, 0)

    def _calls_with_rows(self, rows: pa.Table, clock: Clock) -> Iterator[pd.DataFrame]:
        if not rows.num_rows:
            return
        if self.query.order_by is not None:
            rows = rows.take(pc.sort_indices(rows, [(self.query.order_by, "ascending")], null_placement="at_start"))
        keys = [
            column_of(storage_array(rows.combine_chunks().to_batches()[0], name, t))
            for name, t in zip(self.query.keys, self.query.key_types, strict=True)
        ]
        groups = self._groups_of(keys, rows.num_rows)
        calls = CallOrder().arrange(groups, NO_GROUPS, len(self._timeouts))
        rows, called, firsts = rows.take(pa.array(calls.order)), calls.groups, calls.starts[:-1]
        self._pending = np.setdiff1d(self._pending, called)
        for some in self.query.frames.slices([_one_array(rows, name) for name in rows.column_names], firsts):
            yield from self._calls_with_slices(called[some.calls], some, clock)

    def _calls_with_slices(self, groups: np.ndarray, slices: FrameSlices, clock: Clock) -> Iterator[pd.DataFrame]:
        states = self._states_of(groups)
        keys = scalars_of([slices.frame[name].iloc[slices.firsts] for name in self.query.keys])
        bounds = zip(slices.firsts.tolist(), slices.ends.tolist(), strict=True)
        for group, (first, end), key, state in zip(groups.tolist(), bounds, keys, states, strict=True):
            part = slices.frame[first:end]
            # At a tenth of what `reset_index` costs; nobody else reads these rows, so writing to them is no mistake.
            part.index = pd.RangeIndex(end - first)
            part._is_copy = None
            yield from self._call(group, key, part, state, clock, timed_out=False)

    def _groups_of(self, keys: Sequence[Column], rows: int) -> np.ndarray:
        groups, new = self._table.upsert(self._table.encode(keys, 0, rows))
        if len(new):
            self._timeouts = np.concatenate([self._timeouts, np.full(len(new), NO_TIMEOUT, np.int64)])
            # A key without a state yet is not stored, whatever its call leaves.
            self._removed.update(new.tolist())
        return groups.copy()

    def _states_of(self, groups: np.ndarray) -> list[tuple | None]:
        """The state of each group as the values of Spark's row; None where it has none."""
        known = groups < self._saved.num_rows
        saved = self._saved.column("state").take(pa.array(groups[known])).to_pylist()
        rows = iter([None if row is None else self._from_saved(row) for row in saved])
        states = [next(rows) if is_known else None for is_known in known]
        return [self._written.get(int(group), state) for group, state in zip(groups, states, strict=True)]

    def _from_saved(self, row: dict[str, Any]) -> tuple:
        return tuple(self.query.state.fromInternal(in_order(row, self.query.state)))

    def _calls_of_timeouts(self, clock: Clock) -> list[pd.DataFrame]:
        threshold = {"EventTimeTimeout": clock.watermark_ms, "ProcessingTimeTimeout": clock.processing_time_ms}.get(
            self.query.timeout
        )
        if threshold is None:
            return []
        due = (self._timeouts != NO_TIMEOUT) & (self._timeouts < threshold)
        due[[group for group in self._removed if group < len(due)]] = False
        return self._calls_without_rows(np.flatnonzero(due).astype(np.uint32), clock, timed_out=True)

    def _calls_of_initial_keys(self, clock: Clock) -> list[pd.DataFrame]:
        pending, self._pending = self._pending, NO_GROUPS
        return self._calls_without_rows(pending, clock, timed_out=False)

    def _calls_without_rows(self, groups: np.ndarray, clock: Clock, *, timed_out: bool) -> list[pd.DataFrame]:
        if not len(groups):
            return []
        keys = self.query.layout.decode(self._table.key_columns(groups), self._table.arena.data)
        nothing = self.query.frames.to_pandas([pa.array([], f.type) for f in self.query.schema])
        results: list[pd.DataFrame] = []
        for some in self.query.key_frames.slices(keys, np.arange(len(groups))):
            called = groups[some.calls]
            keys_called = scalars_of([some.frame[name] for name in self.query.keys])
            for group, key, state in zip(called.tolist(), keys_called, self._states_of(called), strict=True):
                results += self._call(group, key, nothing.copy(), state, clock, timed_out=timed_out)
        return results

    def _call(
        self, group: int, key: tuple, rows: pd.DataFrame, values: tuple | None, clock: Clock, *, timed_out: bool
    ) -> Iterator[pd.DataFrame]:
        state = GroupState(
            optionalValue=None if values is None else T.Row(*values),  # type: ignore[arg-type]
            batchProcessingTimeMs=clock.processing_time_ms,
            eventTimeWatermarkMs=NO_TIMEOUT if clock.watermark_ms is None else clock.watermark_ms,
            timeoutConf=self.query.timeout,
            hasTimedOut=timed_out,
            watermarkPresent=clock.watermark_ms is not None,
            defined=values is not None,
            updated=False,
            removed=False,
            timeoutTimestamp=NO_TIMEOUT,
            keyAsUnsafe=b"",
            valueSchema=self.query.state,
        )
        results = self.query.function(key, iter([rows]), state)
        if isinstance(results, pd.DataFrame) or not isinstance(results, Iterable):
            given = type(results).__name__
            raise MillraceError(f"{self.query.name}: it returned {given}, accepted is an iterable of pandas frames")
        yield from results
        self._judge(group, state)

    def _judge(self, group: int, state: GroupState) -> None:
        """Keep what a call has left, as `FlatMapGroupsInPandasWithStateExec` does."""
        timeout = int(state._timeout_timestamp)
        if state._removed and timeout == NO_TIMEOUT:
            self._removed.add(group)
            self._written.pop(group, None)
            self._timeouts[group] = NO_TIMEOUT
            self.metrics.numRemovedStateRows += 1
        elif state._updated or state._removed or timeout != NO_TIMEOUT:
            self._written[group] = tuple(state._value) if state.exists else None
            self._timeouts[group] = timeout
            self._removed.discard(group)
            self.metrics.numUpdatedStateRows += 1

    def next_timeout_ms(self) -> int | None:
        """The earliest timeout of any key."""
        waiting = self._timeouts[self._timeouts != NO_TIMEOUT]
        return int(waiting.min()) if len(waiting) else None

    # --- bytes ---

    def to_bytes(self, version: int, buckets: int, name: str | None = None) -> bytes:
        """Write the whole state."""
        started = time.perf_counter()
        facts = {
            "watermark_ms": self.watermark_ms, "buckets": buckets, "name": name,
            # Dates and times lie in the rows as the numbers that Spark keeps for them.
            "state_type": self.query.state.jsonValue(),
        }  # fmt: skip
        data = dump_state(check_version(version), OPERATOR, self.query.describe(), facts, self._export())
        self.metrics.commitTimeMs = milliseconds(started, time.perf_counter())
        return data

    def _export(self) -> pa.RecordBatch:
        """The saved rows that still stand, then those that were written."""
        kept = np.ones(self._saved.num_rows, np.bool_)
        gone = [group for group in (*self._written, *self._removed) if group < len(kept)]
        kept[gone] = False
        written = np.array(list(self._written), np.uint32)
        timeouts = np.concatenate([self._timeouts[: len(kept)][kept], self._timeouts[written]])
        old = self._saved.filter(pa.array(kept))
        keys = self.query.layout.decode(self._table.key_columns(written), self._table.arena.data)
        states = [self._to_saved(values) for values in self._written.values()]
        try:
            new = [*keys, pa.array(states, self.query.saved_schema.field("state").type)]
        except (pa.ArrowException, TypeError) as error:
            raise MillraceError(f"state.update: a value does not fit the state's schema: {error}") from error
        arrays = [pa.concat_arrays([old.column(i), array]) for i, array in enumerate(new)]
        return pa.RecordBatch.from_arrays([*arrays, pa.array(timeouts)], schema=self.query.saved_schema)

    def _to_saved(self, values: tuple | None) -> dict[str, Any] | None:
        if values is None:
            return None
        names = self.query.state.names
        if len(values) != len(names):
            raise MillraceError(
                f"state.update: got {len(values)} values, accepted are {len(names)}: {', '.join(names)}"
            )
        return by_name(self.query.state.toInternal(values), self.query.state)

    @classmethod
    def from_bytes(cls, query: PandasQuery, data: bytes | memoryview, buckets: int) -> PandasState:
        """Read a state that `to_bytes` wrote."""
        saved = load_state(data, OPERATOR)
        require_same("query", saved.header.get("query", {}), query.describe())
        require_same("layout", {"buckets": saved.header.get("buckets")}, {"buckets": buckets})
        if len(saved.bodies) != 1:
            raise StateFormatError(f"the state has {len(saved.bodies)} sets of rows, a stateful function's has one")
        require_schema(saved.bodies[0], query.saved_schema)
        state = cls(query, saved.bodies[0])
        state.watermark_ms = saved.header.get("watermark_ms")
        return state


@contextmanager
def rare_collections() -> Iterator[None]:
    """Look for garbage less often: all that functions give stays until the batch ends, and looking through it again
    and again took a fifth of the time."""
    before = gc.get_threshold()
    if before[0]:
        gc.set_threshold(max(before[0], COLLECT_AFTER), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def name_of(function: Callable) -> str:
    """What to call a function in messages: a partial one by what it calls, an object by its class.

    Examples
    --------
    >>> from functools import partial
    >>> name_of(print), name_of(partial(partial(print, 1), 2)), name_of(type("Counter", (), {"__call__": print})())
    ('print', 'print', 'Counter')
    """
    while isinstance(function, partial):
        function = function.func
    return getattr(function, "__name__", type(function).__name__)


def in_order(value: Any, data_type: T.DataType) -> Any:
    """A value of Arrow's, structs as dicts, as PySpark's own format has it, structs as tuples.

    Examples
    --------
    >>> point = T.StructType([T.StructField("x", T.IntegerType()), T.StructField("y", T.StringType())])
    >>> in_order([{"x": 3, "y": "a"}, None], T.ArrayType(point))
    [(3, 'a'), None]
    """
    if value is None:
        return None
    if isinstance(data_type, T.StructType):
        return tuple(in_order(value[f.name], f.dataType) for f in data_type)
    if isinstance(data_type, T.ArrayType):
        return [in_order(element, data_type.elementType) for element in value]
    return value


def by_name(value: Any, data_type: T.DataType) -> Any:
    """The way back of `in_order`.

    Examples
    --------
    >>> by_name((3, "a"), T.StructType([T.StructField("x", T.IntegerType()), T.StructField("y", T.StringType())]))
    {'x': 3, 'y': 'a'}
    """
    if value is None:
        return None
    if isinstance(data_type, T.StructType):
        return {f.name: by_name(field, f.dataType) for f, field in zip(data_type, value, strict=True)}
    if isinstance(data_type, T.ArrayType):
        return [by_name(element, data_type.elementType) for element in value]
    return value


def scalars_of(columns: Sequence[pd.Series]) -> Iterator[tuple]:
    """Give rows of values as a series gives them one by one: NumPy's numbers, pandas' timestamps, objects."""
    listed = [
        list(column) if isinstance(column.dtype, pd.DatetimeTZDtype) or column.dtype.kind in "mM" else column.to_numpy()
        for column in columns
    ]
    return zip(*listed, strict=True)


def _one_array(rows: pa.Table, name: str) -> pa.Array:
    column = rows.column(name).combine_chunks()
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
