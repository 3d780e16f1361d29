"""State by key under a user's function: one micro-batch in, the rows that the function emits out.

The rules are those of Spark's InputProcessor as Scala has it: late rows are dropped, keys with new rows
are called first, then keys whose timeout has passed; every call begins without a timeout.
"""

from __future__ import annotations

import time
from numbers import Integral

import numpy as np
import pyarrow as pa

from . import call_protocol as protocol
from .call_order import CallOrder, Calls, sort_keys, sort_within_calls
from .column_views import ColumnAddresses
from .columns import column_of, record_batches, storage_array, storage_type
from .emitting import emitted_arrays
from .errors import FunctionFailed, InvalidArgument, MillraceError, StateFormatError
from .group_state import REBUILD_ABOVE, BatchResult
from .groups import NO_GROUPS, Data
from .keyed_groups import KeyedGroups, saved_schema
from .metrics import Metrics, milliseconds
from .native_memory import EmittedRows
from .state_format import CURRENT_VERSION, check_version, dump_state, load_state, require_same, require_schema
from .stateful_query import StatefulQuery
from .watermark import limit_of

OPERATOR = "stateful"


class KeyedState:
    """State of a stateful function across micro-batches.

    Parameters
    ----------
    query
        the function, and what it works on.

    Examples
    --------
    >>> def running_count(key, rows, state, out):
    ...     state.n += len(rows)
    ...     out.emit(key.user, state.n)
    >>> batch = pa.record_batch({"user": ["ann", "bob", "ann"]})
    >>> state = KeyedState(StatefulQuery(batch.schema, ["user"], "n long", "user string, n long", running_count))
    >>> state.process(batch, batch_time_ms=0).rows.to_pylist()
    [{'user': 'ann', 'n': 2}, {'user': 'bob', 'n': 1}]
    >>> state.process(batch.slice(1, 1), batch_time_ms=1000).rows.to_pylist()
    [{'user': 'bob', 'n': 2}]
    """

    def __init__(self, query: StatefulQuery) -> None:
        self.query = query
        self.watermark_ms: int | None = None
        self.metrics = Metrics()
        self._groups = KeyedGroups(query)
        self._order = CallOrder()
        self._header = np.zeros(protocol.CALL_WORDS, np.int64)
        # Keys of an initial state that have not had their first call.
        self._pending = NO_GROUPS
        self._started = False
        self._broken = False

    def __len__(self) -> int:
        return len(self._groups)

    @property
    def nbytes(self) -> int:
        """Memory that the state takes."""
        return self._groups.nbytes + self._order.nbytes

    @property
    def next_timeout_ms(self) -> int | None:
        """A time before which no key's timeout passes; None where none is set."""
        return self._groups.records.timeouts.next_due

    # --- batches ---

    def process(
        self,
        data: Data = (),
        *,
        batch_time_ms: int,
        watermark_ms: int | None = None,
        late_watermark_ms: int | None = None,
    ) -> BatchResult:
        """Run one micro-batch.

        Parameters
        ----------
        data
            the batch's rows: a record batch, a table or any number of record batches.
        batch_time_ms
            the batch's processing time.
        watermark_ms
            the current watermark: what the function sees, and what event-time timeouts are compared
            with. 0 in a stream's first batch, −1 in a query over bounded data. None: there is none.
        late_watermark_ms
            the watermark of the batch before; with event-time timeouts, rows at or before it are
            dropped. None: nothing is late.

        Raises
        ------
        FunctionFailed
            the function raised. The state is then unusable; load it again from its last bytes.
        """
        self._require_whole()
        _require_milliseconds("batch_time_ms", batch_time_ms)
        limit_of(watermark_ms)
        late_limit = limit_of(late_watermark_ms) if self.query.timeout == "EventTimeTimeout" else None
        columns, count, late = self._read(data, late_limit)
        # From here on an error leaves part of the batch behind.
        self._broken = True
        result = self._process(columns, count, late, int(batch_time_ms), watermark_ms)
        self._broken, self._started = False, True
        if watermark_ms is not None:
            self.watermark_ms = int(watermark_ms)
        return result

    def _process(
        self, columns: dict[str, pa.Array], count: int, late: int, batch_time_ms: int, watermark_ms: int | None
    ) -> BatchResult:
        started = time.perf_counter()
        self._set_header(batch_time_ms, watermark_ms)
        calls = self._arrange(columns, count)
        emitted = EmittedRows(self._row_words(), len(calls))
        self._call(calls, columns, count, emitted)
        updated = time.perf_counter()
        self._time_out(emitted)
        rows = emitted_arrays(emitted, self.query.output_slots, self.query.output)
        self._tidy()
        self.metrics = Metrics(
            numOutputRows=rows.num_rows,
            numTotalStateRows=len(self),
            numUpdatedStateRows=int(self._header[protocol.UPDATED_COUNT]),
            numRemovedStateRows=int(self._header[protocol.REMOVED_COUNT]),
            numRowsDroppedByWatermark=late,
            allUpdatesTimeMs=milliseconds(started, updated),
            allRemovalsTimeMs=milliseconds(updated, time.perf_counter()),
            stateMemory=self.nbytes,
        )
        return BatchResult(rows, self.metrics)

    def _row_words(self) -> int:
        return max(slot.word + slot.words for slot in self.query.output_slots)

    def _set_header(self, batch_time_ms: int, watermark_ms: int | None) -> None:
        header = self._header
        header[:] = 0
        header[protocol.BATCH_TIME] = batch_time_ms
        header[protocol.HAS_WATERMARK] = watermark_ms is not None
        header[protocol.WATERMARK] = watermark_ms or 0
        header[protocol.ARENA] = self._groups.records.arena.header.ctypes.data

    def _read(self, data: Data, late_limit: int | None) -> tuple[dict[str, pa.Array], int, int]:
        """Take the columns that are needed out of the data, without late rows; counts both."""
        query = self.query
        names = dict.fromkeys([*query.keys, *query.program.ROWS.used])
        for name in (query.order_by, query.event_time if late_limit is not None else None):
            if name is not None:
                names[name] = None
        types = {name: storage_type(query.schema.field(name).type, "schema", name) for name in names}
        batches = list(record_batches(data))
        parts = [[storage_array(batch, name, t) for name, t in types.items()] for batch in batches]
        count = sum(batch.num_rows for batch in batches)
        columns = {
            name: arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays) if arrays else pa.array([], types[name])
            for name, arrays in zip(types, zip(*parts, strict=True) if parts else [()] * len(types), strict=True)
        }
        if late_limit is None or query.event_time is None:
            return columns, count, 0
        times = column_of(columns[query.event_time])
        late = times.values <= late_limit
        if times.has_nulls:
            late &= times.valid_rows(0, count)
        dropped = int(np.count_nonzero(late))
        if dropped:
            kept = pa.array(~late)
            columns = {name: array.filter(kept) for name, array in columns.items()}
        return columns, count - dropped, dropped

    def _arrange(self, columns: dict[str, pa.Array], count: int) -> Calls:
        """Find the group of each row and put the rows in order of calls."""
        query = self.query
        groups, _ = self._groups.find_or_make([columns[name] for name in query.keys], count)
        calls = self._order.arrange(groups, self._pending, self._groups.table.high_water)
        self._pending = NO_GROUPS
        if query.order_by is not None and count:
            array = columns[query.order_by]
            sort_within_calls(calls, sort_keys(array, column_of(array)))
        return calls

    def _time_out(self, emitted: EmittedRows) -> None:
        """Call every key whose timeout has passed, those set in this batch included."""
        threshold = self._threshold()
        passed = NO_GROUPS if threshold is None else self._groups.records.timeouts.passed(threshold)
        if len(passed):
            self._header[protocol.TIMED_OUT] = 1
            self._call(Calls(passed, np.zeros(len(passed) + 1, np.int64), np.empty(0, np.int64)), {}, 0, emitted)

    def _threshold(self) -> int | None:
        header, timeout = self._header, self.query.timeout
        if timeout == "ProcessingTimeTimeout":
            return int(header[protocol.BATCH_TIME])
        if timeout == "EventTimeTimeout" and header[protocol.HAS_WATERMARK]:
            return int(header[protocol.WATERMARK])
        return None

    def _call(self, calls: Calls, columns: dict[str, pa.Array], count: int, emitted: EmittedRows) -> None:
        """Call the function for each of some groups, and forget those that are not stored afterwards."""
        if not len(calls):
            return
        program, header, records = self.query.program, self._header, self._groups.records
        keys = dict(zip(self.query.keys, self._groups.keys(calls.groups) if program.KEY.used else (), strict=False))
        key_columns = ColumnAddresses([column_of(keys[name]) for name in program.KEY.used], len(calls))
        row_arrays = [columns[name] for name in program.ROWS.used] if columns else []
        row_columns = ColumnAddresses([column_of(array) for array in row_arrays], count)
        table = row_columns.table if columns else np.zeros(len(program.ROWS.used) * 4 + 1, np.int64)
        dropped = np.empty(len(calls), np.uint32)
        header[protocol.DROPPED_COUNT] = 0
        try:
            program.call_each(
                header, emitted.header, key_columns.table, table, calls.groups, calls.starts, calls.order,
                records.words, records.timeouts.times, records.timeouts.earliest, dropped,
            )  # fmt: skip
        except Exception as error:
            raise self._failure(calls, error) from error
        self._groups.forget(dropped[: header[protocol.DROPPED_COUNT]])

    def _failure(self, calls: Calls, error: Exception) -> FunctionFailed:
        key = self._groups.key_text(int(calls.groups[self._header[protocol.CALL]]))
        reason = failure_reason(self._header) or f"{type(error).__name__}: {error}"
        return FunctionFailed(f"{self.query.function.name} failed for key {key}: {reason}")

    def _tidy(self) -> None:
        """Give memory back when most of it belongs to keys and text that are gone."""
        table, records = self._groups.table, self._groups.records
        sparse = table.high_water > max(REBUILD_ABOVE, 4 * len(table))
        if sparse or table.arena.garbage > max(2**20, table.arena.used // 2):
            saved = self._groups.export(CURRENT_VERSION)
            self._groups, self._order = KeyedGroups(self.query, saved.num_rows), CallOrder()
            self._groups.restore(saved, CURRENT_VERSION)
        elif records.is_wasteful:
            records.collect_garbage(table.live())

    # --- initial state and bytes ---

    def load_initial(self, rows: Data) -> None:
        """Begin with state from elsewhere: rows of the key columns and the state's fields.

        Each of these keys has a call in the first batch, with rows or without.

        Raises
        ------
        InvalidArgument
            a key comes twice, or the state is not a fresh one.
        """
        self._require_whole()
        if self._started or len(self):
            raise InvalidArgument("load_initial: this state has begun already, accepted is a fresh one")
        query = self.query
        key_types = dict(zip(query.keys, query.key_types, strict=True))
        fields = {f.name: f.type for f in query.state}
        batches = list(record_batches(rows))
        if not batches:
            return
        self._broken = True
        keys = [_column(batches, name, t) for name, t in key_types.items()]
        values = [_column(batches, name, t) for name, t in fields.items()]
        count = sum(batch.num_rows for batch in batches)
        none = np.full(count, protocol.NO_TIMEOUT, np.int64)
        self._pending = self._groups.fill(keys, values, np.ones(count, np.bool_), none)
        self._broken = False

    def to_bytes(self, version: int = CURRENT_VERSION, buckets: int | None = None, name: str | None = None) -> bytes:
        """Write the whole state.

        Parameters
        ----------
        version
            2, or 1, which cannot hold a key that has a timeout but no state.
        buckets
            number of buckets that the query's keys are spread over; a state is refused by a query
            with another number.
        name
            what the operator is called, for those who look into the state.
        """
        self._require_whole()
        started = time.perf_counter()
        body = self._groups.export(check_version(version))
        facts = {
            "watermark_ms": self.watermark_ms, "buckets": buckets, "name": name,
            "pending": bool(len(self._pending)),
        }  # fmt: skip
        data = dump_state(version, OPERATOR, self.query.describe(), facts, body)
        self.metrics.commitTimeMs = milliseconds(started, time.perf_counter())
        return data

    @classmethod
    def from_bytes(
        cls, query: StatefulQuery, data: bytes | memoryview | pa.Buffer, buckets: int | None = None
    ) -> KeyedState:
        """Read a state that `to_bytes` wrote, of either version.

        Raises
        ------
        StateFormatError
            the bytes are no such state, damaged, or of another query; the message says which.
        """
        saved = load_state(data, OPERATOR)
        require_same("query", saved.header.get("query", {}), query.describe())
        require_same("layout", {"buckets": saved.header.get("buckets")}, {"buckets": buckets})
        if len(saved.bodies) != 1:
            raise StateFormatError(f"the state has {len(saved.bodies)} sets of rows, a stateful function's has one")
        require_schema(saved.bodies[0], saved_schema(query, saved.version))
        state = cls(query)
        state._groups = KeyedGroups(query, saved.bodies[0].num_rows)
        state._groups.restore(saved.bodies[0], saved.version)
        state.watermark_ms = saved.header.get("watermark_ms")
        state._started = not saved.header.get("pending", False)
        state._pending = NO_GROUPS if state._started else state._groups.table.live()
        return state

    def _require_whole(self) -> None:
        if self._broken:
            raise MillraceError("this state failed in the middle of a batch; load it again from its last bytes")


def failure_reason(header: np.ndarray) -> str | None:
    """Say which of Spark's rules a function broke, in Spark's words; None if it was none of them."""
    failure, value = int(header[protocol.FAILURE]), int(header[protocol.FAILED_VALUE])
    if failure == protocol.NOT_POSITIVE:
        return f"[VALUE_NOT_POSITIVE] Value for the timeout must be positive, got '{value}'."
    if failure == protocol.BEFORE_WATERMARK:
        watermark = int(header[protocol.WATERMARK])
        return (
            f"[INVALID_TIMEOUT_TIMESTAMP] Timeout timestamp ({value}) cannot be earlier than the current "
            f"watermark ({watermark})."
        )
    if failure == protocol.WITHOUT_WATERMARK:
        return "[CANNOT_WITHOUT] Cannot get event time watermark timestamp without setting a watermark."
    return None


def _require_milliseconds(argument: str, value: object) -> None:
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise InvalidArgument.of(argument, value, "milliseconds as an int")


def _column(batches: list[pa.RecordBatch], name: str, data_type: pa.DataType) -> pa.Array:
    return pa.concat_arrays([storage_array(batch, name, data_type) for batch in batches])
