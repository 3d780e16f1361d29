"""The stateful grouped aggregation: one micro-batch in, the rows that Spark's operator would emit out."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from .aggregation import Aggregation
from .columns import record_batches
from .errors import MillraceError, StateFormatError
from .expiry import TimeSlots
from .groups import NO_GROUPS, Data, Groups, Rows, read_partials, read_rows
from .hash_table import HashTable
from .metrics import Metrics, milliseconds
from .saved_groups import user_defined
from .state_format import CURRENT_VERSION, check_version, dump_state, load_state, require_same, require_schema
from .watermark import limit_of

OPERATOR = "aggregate"
# Below this many groups, memory that evicted groups leave behind is not worth a rebuild.
REBUILD_ABOVE = 65_536


@dataclass(frozen=True)
class BatchResult:
    """The rows that came out of a batch, and its metrics."""

    rows: pa.RecordBatch
    metrics: Metrics


class GroupState:
    """State of a grouped aggregation across micro-batches.

    Parameters
    ----------
    query
        what to group by and to compute.
    output_mode
        ``"append"`` emits each group once, when the watermark has passed it; ``"update"`` emits the
        groups that a batch touched; ``"complete"`` emits all groups after every batch and never
        drops or evicts any.
    expected
        number of groups to make room for at once.

    Examples
    --------
    >>> from millrace.kernels import Aggregation, GroupState, functions as F
    >>> batch = pa.record_batch({"user": ["ann", "bob", "ann"], "amount": [5, 1, 2]})
    >>> query = Aggregation(batch.schema, ["user"], {"n": F.count(), "total": F.sum("amount")})
    >>> state = GroupState(query, "update")
    >>> state.process(batch).rows.to_pylist()
    [{'user': 'ann', 'n': 2, 'total': 7}, {'user': 'bob', 'n': 1, 'total': 1}]
    >>> state.process(batch.slice(1, 1)).rows.to_pylist()
    [{'user': 'bob', 'n': 2, 'total': 2}]
    """

    def __init__(self, query: Aggregation, output_mode: str, expected: int = 0) -> None:
        query.require_mode(output_mode)
        self.query = query
        self.output_mode = output_mode
        self.watermark_ms: int | None = None
        self.metrics = Metrics()
        self._groups = Groups(query, expected)
        self._slots = TimeSlots(query.slot_width)
        self._broken = False

    def __len__(self) -> int:
        return len(self._groups)

    @property
    def nbytes(self) -> int:
        """Memory that the state takes."""
        return self._groups.nbytes + self._slots.nbytes

    def process(
        self,
        data: Data = (),
        *,
        partials: Data = (),
        watermark_ms: int | None = None,
        late_watermark_ms: int | None = None,
    ) -> BatchResult:
        """Run one micro-batch.

        Parameters
        ----------
        data
            the batch's rows: a record batch, a table or any number of record batches; none at all for
            a batch without data.
        partials
            more of the batch, aggregated already by `partial_aggregate`.
        watermark_ms
            the current watermark, which evicts. None: nothing is evicted.
        late_watermark_ms
            the watermark of the batch before, which tells late rows. None: nothing is late.

        Raises
        ------
        ArithmeticOverflow
            a sum left its range. The state is then unusable; load it again from its last bytes.
        """
        self._require_whole()
        result = self._process((data, partials), limit_of(watermark_ms), limit_of(late_watermark_ms))
        self._broken = False
        if watermark_ms is not None:
            self.watermark_ms = watermark_ms
        return result

    def _process(self, data: tuple[Data, Data], limit: int | None, late_limit: int | None) -> BatchResult:
        started = time.perf_counter()
        expires = self.query.expiry_key is not None and self.output_mode != "complete"
        late = self._absorb(data, late_limit if expires else None)
        touched = self._groups.records.take_touched()
        self._groups.seal(touched)
        updated = time.perf_counter()
        evicted = self._expired(limit) if expires and limit is not None else NO_GROUPS
        rows = self._groups.finish(self._emitted(touched, evicted))
        if len(evicted):
            self._groups.drop(evicted)
        self._rebuild_if_sparse()
        self.metrics = Metrics(
            numOutputRows=rows.num_rows,
            numTotalStateRows=len(self),
            numUpdatedStateRows=len(touched),
            numRemovedStateRows=len(evicted),
            numRowsDroppedByWatermark=late,
            allUpdatesTimeMs=milliseconds(started, updated),
            allRemovalsTimeMs=milliseconds(updated, time.perf_counter()) if expires else 0,
            stateMemory=self.nbytes,
        )
        return BatchResult(rows, self.metrics)

    def _absorb(self, data: tuple[Data, Data], late_limit: int | None) -> int:
        """Take in all rows and partials that are not late; returns the number of late groups."""
        late_keys = HashTable(self.query.layout)
        for read, batches in zip((read_rows, read_partials), data, strict=True):
            for batch in record_batches(batches):
                rows = read(self.query, batch)
                if late_limit is not None:
                    rows = self._without_late(rows, late_limit, late_keys)
                # From here on an error leaves part of the batch behind; see `process`.
                self._broken = True
                self._track(self._groups.absorb(rows))
        if self.query.is_global:
            self._groups.ensure_global()
        return len(late_keys)

    def _without_late(self, rows: Rows, limit: int, late_keys: HashTable) -> Rows:
        """Leave out the rows whose group has expired, and note their keys."""
        key = rows.keys[self.query.expiry_key or 0]
        late = key.values + self.query.expiry_delay <= limit
        if key.has_nulls:
            late &= key.valid_rows(0, rows.count)
        if not late.any():
            return rows
        dropped = rows.take(np.flatnonzero(late))
        late_keys.upsert(late_keys.encode(dropped.keys, 0, dropped.count))
        return rows.take(np.flatnonzero(~late))

    def _emitted(self, touched: np.ndarray, evicted: np.ndarray) -> np.ndarray:
        if self.output_mode == "append":
            return evicted
        return touched if self.output_mode == "update" else self._groups.table.live()

    # --- expiry ---

    def _track(self, groups: np.ndarray) -> None:
        """File new groups under the time they expire at; a null time never expires."""
        if self.query.expiry_key is None or self.output_mode == "complete":
            return
        groups = groups[~self._groups.table.key_is_null(groups, self.query.expiry_key)]
        self._slots.put(groups, self._expiry_of(groups))

    def _expiry_of(self, groups: np.ndarray) -> np.ndarray:
        position = self.query.layout.positions[self.query.expiry_key or 0]
        return self._groups.table.key_word(groups, position) + self.query.expiry_delay

    def _expired(self, limit: int) -> np.ndarray:
        """Take the groups that the watermark has passed out of the slots."""
        taken = self._slots.take_until(limit)
        if self.query.slot_width == 1:
            return taken
        times = self._expiry_of(taken)
        early = times > limit
        self._slots.put(taken[early], times[early])
        return taken[~early]

    def _rebuild_if_sparse(self) -> None:
        """Give memory back when most of it belongs to groups and bytes that are gone."""
        table, arenas = self._groups.table, (self._groups.table.arena, self._groups.records.arena)
        sparse = table.high_water > max(REBUILD_ABOVE, 4 * len(table))
        wasteful = any(arena.garbage > max(2**20, arena.used // 2) for arena in arenas)
        if sparse or wasteful:
            self._restore(self._groups.export(table.live()))

    def _restore(self, partials: pa.RecordBatch) -> None:
        """Start over with the groups that were exported before."""
        self._groups = Groups(self.query, partials.num_rows)
        self._slots = TimeSlots(self.query.slot_width)
        self._track(self._groups.absorb(read_partials(self.query, partials)))
        self._groups.records.take_touched()

    # --- bytes ---

    def to_bytes(self, version: int = CURRENT_VERSION, buckets: int | None = None, name: str | None = None) -> bytes:
        """Write the whole state.

        Version 2 keeps keys and values apart; version 1 repeats the keys within the values, as Spark's
        first format does.

        Parameters
        ----------
        buckets
            number of buckets that the query's keys are spread over; a state is refused by a query
            with another number.
        name
            what the operator is called, for those who look into the state.
        """
        self._require_whole()
        started = time.perf_counter()
        body = self._groups.export(self._groups.table.live())
        if check_version(version) == 1:
            body = repeat_keys(self.query, body)
        facts = {
            "watermark_ms": self.watermark_ms, "buckets": buckets, "name": name,
            "user_defined": user_defined(self.query.aggs),
        }  # fmt: skip
        data = dump_state(version, OPERATOR, self.query.describe(), facts, body)
        self.metrics.commitTimeMs = milliseconds(started, time.perf_counter())
        return data

    @classmethod
    def from_bytes(
        cls, query: Aggregation, output_mode: str, data: bytes | memoryview | pa.Buffer, buckets: int | None = None
    ) -> GroupState:
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
            raise StateFormatError(f"the state has {len(saved.bodies)} sets of rows, an aggregation's has one")
        body = saved.bodies[0]
        require_schema(body, state_schema(query, saved.version))
        if saved.version == 1:
            body = drop_repeated_keys(query, body)
        state = cls(query, output_mode)
        state._restore(body)
        if len(state) != body.num_rows:
            raise StateFormatError(f"the state has {body.num_rows} rows but only {len(state)} different keys")
        state.watermark_ms = saved.header.get("watermark_ms")
        return state

    def _require_whole(self) -> None:
        if self._broken:
            raise MillraceError("this state failed in the middle of a batch; load it again from its last bytes")


def state_schema(query: Aggregation, version: int) -> pa.Schema:
    """Give the columns of a state at rest: keys, in version 1 the keys again, then accumulators."""
    fields = list(query.partial_schema)
    keys = len(query.layout.types)
    repeated = query.key_fields("value") if version == 1 else []
    return pa.schema([*fields[:keys], *repeated, *fields[keys:]])


def repeat_keys(query: Aggregation, partials: pa.RecordBatch) -> pa.RecordBatch:
    """Turn columns of version 2 into version 1."""
    keys = len(query.layout.types)
    columns = partials.columns
    return pa.RecordBatch.from_arrays([*columns[:keys], *columns], schema=state_schema(query, 1))


def drop_repeated_keys(query: Aggregation, body: pa.RecordBatch) -> pa.RecordBatch:
    """Turn columns of version 1 into version 2."""
    keys = len(query.layout.types)
    return pa.RecordBatch.from_arrays([*body.columns[:keys], *body.columns[2 * keys :]], schema=query.partial_schema)
