"""The symmetric stream-stream join: one micro-batch of both sides in, the rows Spark would emit out."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence

import numpy as np
import pyarrow as pa

from .columns import Column, column_of, storage_array
from .errors import InvalidArgument, MillraceError, StateFormatError
from .join_index import NO_ROWS, PAIRS_AT_ONCE, JoinIndex, chosen_pairs
from .join_query import ROW_SLOT, Join
from .metrics import JoinMetrics, milliseconds
from .nearness import Nearness
from .row_store import is_stretch
from .state_format import CURRENT_VERSION, check_version, dump_state, load_state, require_same, require_schema
from .time_bounds import SIDES
from .watermark import limit_of

OPERATOR = "join"
OTHER = {"left": "right", "right": "left"}


class JoinState:
    """Rows of both sides that may still find a partner.

    Parameters
    ----------
    join
        what to join, and how.

    Examples
    --------
    >>> side = pa.schema({"k": pa.int64(), "v": pa.string()})
    >>> state = JoinState(Join(side, side, [("k", "k")], "inner"))
    >>> left = pa.record_batch([[1, 2], ["a", "b"]], schema=side)
    >>> right = pa.record_batch([[2], ["z"]], schema=side)
    >>> [list(zip(*rows.to_pydict().values())) for rows in state.process(left)]
    []
    >>> [rows.num_rows for rows in state.process(right=right)]
    [1]
    >>> state.metrics.numTotalStateRows
    3
    """

    def __init__(self, join: Join) -> None:
        self.join = join
        self.sides = {side: JoinIndex(join.schemas[side], join.layout, ROW_SLOT) for side in SIDES}
        self.watermark_ms: int | None = None
        self.metrics = JoinMetrics()
        self._busy = False

    def __len__(self) -> int:
        return sum(map(len, self.sides.values()))

    @property
    def nbytes(self) -> int:
        """Memory that the state takes."""
        return sum(index.nbytes for index in self.sides.values())

    def process(
        self,
        left: pa.RecordBatch | None = None,
        right: pa.RecordBatch | None = None,
        *,
        watermark_ms: int | None = None,
        late_watermark_ms: int | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Run one micro-batch, giving its output piece by piece; it must be read to the end.

        Afterwards `metrics` tells what the batch did.

        Parameters
        ----------
        left, right
            the batch's rows of each side, None for none.
        watermark_ms
            the current watermark, which evicts. None: nothing is evicted.
        late_watermark_ms
            the watermark of the batch before, which tells late rows. None: nothing is late.
        """
        self._require_idle()
        batches = {side: self._checked(side, batch) for side, batch in (("left", left), ("right", right))}
        return self._run(batches, watermark_ms, limit_of(late_watermark_ms))

    def _checked(self, side: str, batch: pa.RecordBatch | None) -> pa.RecordBatch:
        """Bring a batch into the side's schema."""
        schema = self.sides[side].store.schema
        if batch is None:
            return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)
        arrays = [storage_array(batch, f.name, f.type) for f in schema]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _run(
        self, batches: dict[str, pa.RecordBatch], watermark_ms: int | None, late_limit: int | None
    ) -> Iterator[pa.RecordBatch]:
        self._busy = True
        started = time.perf_counter()
        self.metrics = JoinMetrics()
        # The left rows of a left semi join must see this batch's right rows.
        for side in reversed(SIDES) if self.join.is_left_semi else SIDES:
            for rows in self._one_side(side, batches[side], watermark_ms, late_limit):
                self.metrics.numOutputRows += rows.num_rows
                yield rows
        updated = time.perf_counter()
        outer = [side for side in SIDES if self.join.is_outer(side)]
        for side in [*outer, *(s for s in SIDES if s not in outer)]:
            for rows in self._evict(side, watermark_ms):
                self.metrics.numOutputRows += rows.num_rows
                yield rows
        self.metrics.allUpdatesTimeMs = milliseconds(started, updated)
        self.metrics.allRemovalsTimeMs = milliseconds(updated, time.perf_counter())
        self.metrics.numTotalStateRows = len(self)
        self.metrics.numLeftStateRows, self.metrics.numRightStateRows = (len(self.sides[side]) for side in SIDES)
        self.metrics.stateMemory = self.nbytes
        if watermark_ms is not None:
            self.watermark_ms = watermark_ms
        self._busy = False

    # --- one side's new rows ---

    def _one_side(
        self, side: str, batch: pa.RecordBatch, watermark_ms: int | None, late_limit: int | None
    ) -> Iterator[pa.RecordBatch]:
        batch = self._without_late(side, batch, late_limit)
        batch, unfit = self._split(side, batch)
        if self.join.is_outer(side):
            yield from self._padded_if_any(side, unfit)
        if not batch.num_rows:
            return
        keys = self._key_columns(side, batch)
        matchable = self._matchable(keys, batch.num_rows)
        had_match = np.zeros(batch.num_rows, np.bool_)
        yield from self._probe(side, batch, keys, matchable, had_match)
        self._store(side, batch, matchable, had_match, watermark_ms)

    def _without_late(self, side: str, batch: pa.RecordBatch, late_limit: int | None) -> pa.RecordBatch:
        column = self.join.times[side]
        if column is None or late_limit is None:
            return batch
        late = _times(batch, column) <= late_limit
        self.metrics.numRowsDroppedByWatermark += int(np.count_nonzero(late))
        return batch.filter(pa.array(~late)) if late.any() else batch

    def _key_columns(self, side: str, batch: pa.RecordBatch) -> list[Column]:
        names, types = self.join.key_names(side), self.join.key_types
        return [column_of(storage_array(batch, name, t)) for name, t in zip(names, types, strict=True)]

    def _matchable(self, keys: Sequence[Column], rows: int) -> np.ndarray:
        """Tell which rows can match at all: a null key equals nothing, unless it is compared null-safely."""
        matchable = np.ones(rows, np.bool_)
        for position, column in enumerate(keys):
            if column.has_nulls and position not in self.join.null_safe:
                matchable &= column.valid_rows(0, rows)
        return matchable

    def _probe(
        self,
        side: str,
        batch: pa.RecordBatch,
        keys: Sequence[Column],
        matchable: np.ndarray,
        had_match: np.ndarray,
        flags: bool = True,
    ) -> Iterator[pa.RecordBatch]:
        """Join new rows with the other side's stored ones, and set the matched `flags` of both."""
        index = self.sides[OTHER[side]]
        gone = [NO_ROWS]
        for probing, stored in self._matches(side, batch, keys, matchable):
            mine = _take(batch, probing)
            theirs = self._partners(side, mine, stored)
            if self.join.is_left_semi:
                fresh = _semi_matches(side, probing, stored, had_match, index.matched)
                rows = mine if side == "left" else theirs
                if side == "right":
                    gone.append(stored[fresh])
                output = rows.filter(pa.array(fresh))
            else:
                output = _side_by_side(side, mine, theirs, self.join.output_schema)
            if flags:
                had_match[probing] = True
                index.matched[stored] = True
            if output.num_rows:
                yield output
        if self.join.is_left_semi and side == "right":
            self._remove_early("left", np.concatenate(gone))

    def _matches(
        self, side: str, batch: pa.RecordBatch, keys: Sequence[Column], matchable: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Pair new rows with the other side's stored ones that they match, a bounded number of pairs at a time."""
        candidates = self.sides[OTHER[side]].candidates(keys, batch.num_rows, matchable)
        if self.join.residual is None:
            yield from candidates
            return
        near = Nearness.between(self.join, side, batch, self.sides[OTHER[side]].store)
        found: list[tuple[np.ndarray, np.ndarray]] = []
        count = 0
        for probing, stored in candidates:
            if near is not None:
                probing, stored = near.pairs(probing, stored)
            if near is not None and near.suffices:
                found.append((probing.copy(), stored.copy()))
            else:
                found.append(chosen_pairs(probing, stored, self._holds(side, batch, probing, stored)))
            count += len(found[-1][0])
            # Few large pieces of output cost less than many small ones.
            if count > PAIRS_AT_ONCE // 2:
                yield _joined(found)
                found, count = [], 0
        if count:
            yield _joined(found)

    def _holds(self, side: str, batch: pa.RecordBatch, probing: np.ndarray, stored: np.ndarray) -> np.ndarray:
        """Tell which candidates satisfy the residual; only the columns that it reads are looked up."""
        residual = self.join.residual
        assert residual is not None
        here, there = (self._positions(s, residual.reads[s]) for s in (side, OTHER[side]))
        mine, theirs = _take(batch.select(here), probing), self.sides[OTHER[side]].store.gather(stored, there)
        return residual.holds(*(mine, theirs) if side == "left" else (theirs, mine))

    def _positions(self, side: str, names: Collection[str]) -> list[int]:
        """Give positions of columns; one at least, for a batch without columns knows no number of rows."""
        schema = self.join.schemas[side]
        return [i for i, name in enumerate(schema.names) if name in names] or [0]

    def _partners(self, side: str, mine: pa.RecordBatch, stored: np.ndarray) -> pa.RecordBatch:
        """Give the stored rows that new rows have met; what equals a new row's key is not looked up again."""
        store, shared = self.sides[OTHER[side]].store, self.join.shared_columns(side)
        rest = store.gather(stored, [i for i in range(len(store.schema)) if i not in shared])
        columns = iter(rest.columns)
        arrays = [mine.column(shared[i]) if i in shared else next(columns) for i in range(len(store.schema))]
        return pa.RecordBatch.from_arrays(arrays, schema=store.schema)

    def _remove_early(self, side: str, rows: np.ndarray) -> None:
        """Remove rows that will never be needed again before they expire."""
        index, column = self.sides[side], self.join.expiry_column(side)
        if column is not None and len(rows):
            times = self._stored_times(side, column, rows)
            timed = times.valid_rows(0, len(rows))
            index.slots.remove(rows[timed], times.values[timed])
        index.remove(rows)
        self.metrics.numRemovedStateRows += len(rows)

    def _store(
        self, side: str, batch: pa.RecordBatch, matchable: np.ndarray, had_match: np.ndarray, watermark_ms: int | None
    ) -> None:
        """Store the new rows that may still be needed."""
        needed = np.ones(batch.num_rows, np.bool_) if self.join.is_outer(side) else matchable.copy()
        if side == "left" and self.join.is_left_semi:
            needed &= ~had_match
        column, limit = self.join.expiry_column(side), self.join.expiry_limit(side, watermark_ms)
        if side == "right" and limit is not None and column is not None:
            evictable = _times(batch, column) <= limit
            needed &= ~evictable | (~had_match if self.join.is_outer(side) else False)
        if not needed.all():
            batch, had_match = batch.filter(pa.array(needed)), had_match[needed]
        if not batch.num_rows:
            return
        self._keep(side, batch, had_match)
        self.metrics.numUpdatedStateRows += batch.num_rows

    def _keep(self, side: str, batch: pa.RecordBatch, matched: np.ndarray) -> None:
        """Store rows and file them under the time they expire at; a null time never expires."""
        rows = self.sides[side].add(batch, self._key_columns(side, batch), matched)
        column = self.join.expiry_column(side)
        if column is not None:
            times = _time_column(batch, column)
            timed = times.valid_rows(0, len(rows))
            self.sides[side].slots.put(rows[timed], times.values[timed])

    def bounded(self, left: pa.RecordBatch, right: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Join all rows there are, of a state that holds none yet, without keeping any (see `join_bounded`)."""
        right, unfit = self._split("right", self._checked("right", right))
        index = JoinIndex(self.join.schemas["right"], self.join.layout, ROW_SLOT, expected=right.num_rows)
        self.sides["right"] = index
        keys = self._key_columns("right", right)
        index.add(right, keys, np.zeros(right.num_rows, np.bool_))
        left, lonely = self._split("left", self._checked("left", left))
        keys, had_match = self._key_columns("left", left), np.zeros(left.num_rows, np.bool_)
        matchable = self._matchable(keys, left.num_rows)
        flags = self.join.how != "inner"
        yield from self._probe("left", left, keys, matchable, had_match, flags)
        if self.join.is_outer("left"):
            yield from self._padded_if_any("left", lonely)
            yield from self._padded_if_any("left", left.filter(pa.array(~had_match)))
        if self.join.is_outer("right"):
            rows = index.store.live()
            yield from self._padded_if_any("right", unfit)
            yield from self._padded_if_any("right", index.store.gather(rows[~index.matched[rows]]))

    def _padded_if_any(self, side: str, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        if rows.num_rows:
            yield self._padded(side, rows)

    def _split(self, side: str, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Part the rows that pass the side's filter from those that do not."""
        condition = self.join.filters[side]
        if condition is None or not batch.num_rows:
            return batch, batch.slice(0, 0)
        passing = condition.holds(batch)
        return batch.filter(pa.array(passing)), batch.filter(pa.array(~passing))

    # --- eviction ---

    def _evict(self, side: str, watermark_ms: int | None) -> Iterator[pa.RecordBatch]:
        """Remove a side's expired rows; on an outer side those that never matched come out."""
        limit, column = self.join.expiry_limit(side, watermark_ms), self.join.expiry_column(side)
        if limit is None or column is None:
            return
        index = self.sides[side]
        taken = index.slots.take_until(limit)
        times = self._stored_times(side, column, taken).values
        early = times > limit
        index.slots.put(taken[early], times[early])
        expired = taken[~early]
        if self.join.is_outer(side):
            lonely = expired[~index.matched[expired]]
            for base in range(0, len(lonely), PAIRS_AT_ONCE):
                yield self._padded(side, index.store.gather(lonely[base : base + PAIRS_AT_ONCE]))
        index.remove(expired)
        self.metrics.numRemovedStateRows += len(expired)

    def _stored_times(self, side: str, column: str, rows: np.ndarray) -> Column:
        position = self.join.schemas[side].get_field_index(column)
        return _time_column(self.sides[side].store.gather(rows, [position]), column)

    # --- bytes ---

    def to_bytes(self, version: int = CURRENT_VERSION, buckets: int | None = None, name: str | None = None) -> bytes:
        """Write the whole state: the rows of each side, each with its number among those of its key.

        Version 2 has matched flags; version 1 has none and is written for inner joins only, as in Spark.

        Parameters
        ----------
        buckets
            number of buckets that the keys are spread over; a query with another number refuses it.
        name
            what the operator is called, for those who look into the state.
        """
        self._require_idle()
        if check_version(version) == 1 and self.join.how != "inner":
            raise InvalidArgument.of("state_format_version", 1, f"2 for a {self.join.how} join: 1 has no matched flags")
        started = time.perf_counter()
        bodies = [self._export(side, version) for side in SIDES]
        facts = {"watermark_ms": self.watermark_ms, "buckets": buckets, "name": name}
        data = dump_state(version, OPERATOR, self.join.describe(), facts, *bodies)
        self.metrics.commitTimeMs = milliseconds(started, time.perf_counter())
        return data

    def _export(self, side: str, version: int) -> pa.RecordBatch:
        index = self.sides[side]
        rows, numbers = index.numbered()
        columns = [pa.array(numbers, pa.int32()), *index.store.gather(rows).columns]
        if version > 1:
            columns.append(pa.array(index.matched[rows]))
        return pa.RecordBatch.from_arrays(columns, schema=_side_schema(self.join, side, version))

    @classmethod
    def from_bytes(cls, join: Join, data: bytes | memoryview | pa.Buffer, buckets: int | None = None) -> JoinState:
        """Read a state that `to_bytes` wrote, of either version; version 1 is upgraded.

        Raises
        ------
        StateFormatError
            the bytes are no such state, damaged, or of another query; the message says which.
        """
        saved = load_state(data, OPERATOR)
        require_same("query", saved.header.get("query"), join.describe())
        require_same("layout", {"buckets": saved.header.get("buckets")}, {"buckets": buckets})
        if len(saved.bodies) != len(SIDES):
            raise StateFormatError(f"the state has {len(saved.bodies)} sets of rows, a join's has two")
        state = cls(join)
        for side, body in zip(SIDES, saved.bodies, strict=True):
            require_schema(body, _side_schema(join, side, saved.version))
            values = body.columns[1 : 1 + len(join.schemas[side])]
            matched = np.zeros(body.num_rows, np.bool_)
            # Every key has one row of number 0, so this is how many keys there will be.
            expected = int(np.count_nonzero(body.column(0).to_numpy() == 0))
            state.sides[side] = JoinIndex(join.schemas[side], join.layout, ROW_SLOT, expected)
            if saved.version > 1:
                matched = column_of(body.column("matched")).values.astype(np.bool_)
            state._keep(side, pa.RecordBatch.from_arrays(values, schema=join.schemas[side]), matched)
        if saved.version == 1:
            state._find_matches()
        state.watermark_ms = saved.header.get("watermark_ms")
        return state

    def _find_matches(self) -> None:
        """Set the matched flags that version 1 does not have, by joining what is stored."""
        left, right = self.sides["left"], self.sides["right"]
        rows = left.store.live()
        for base in range(0, len(rows), PAIRS_AT_ONCE):
            some = rows[base : base + PAIRS_AT_ONCE]
            batch = left.store.gather(some)
            keys = self._key_columns("left", batch)
            for probing, stored in right.candidates(keys, len(some), self._matchable(keys, len(some))):
                if self.join.residual is not None:
                    holds = self._holds("left", batch, probing, stored)
                    probing, stored = chosen_pairs(probing, stored, holds)
                left.matched[some[probing]] = True
                right.matched[stored] = True

    def _require_idle(self) -> None:
        if self._busy:
            raise MillraceError("this state was left in the middle of a batch; load it again from its last bytes")

    def _padded(self, side: str, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of one side beside nulls."""
        schema = self.sides[OTHER[side]].store.schema
        nulls = [pa.nulls(rows.num_rows, f.type) for f in schema]
        other = pa.RecordBatch.from_arrays(nulls, schema=schema)
        return _side_by_side(side, rows, other, self.join.output_schema)


def join_bounded(join: Join, left: pa.RecordBatch, right: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Join two bounded inputs in one go, giving the output piece by piece.

    Examples
    --------
    >>> side = pa.schema({"k": pa.int64(), "v": pa.string()})
    >>> left = pa.record_batch([[1, 2], ["a", "b"]], schema=side)
    >>> right = pa.record_batch([[2, 3], ["y", "z"]], schema=side)
    >>> join = Join(side, side, [("k", "k")], "left_outer")
    >>> [[column.to_pylist() for column in rows.columns] for rows in join_bounded(join, left, right)]
    [[[2], ['b'], [2], ['y']], [[1], ['a'], [None], [None]]]
    """
    return JoinState(join).bounded(left, right)


def _side_schema(join: Join, side: str, version: int) -> pa.Schema:
    """Columns of one side at rest."""
    fields = [pa.field("index", pa.int32()), *(pa.field(f"value:{f.name}", f.type) for f in join.schemas[side])]
    return pa.schema([*fields, pa.field("matched", pa.bool_())] if version > 1 else fields)


def _time_column(batch: pa.RecordBatch, column: str) -> Column:
    zone = batch.schema.field(column).type.tz
    return column_of(storage_array(batch, column, pa.timestamp("us", zone)))


def _times(batch: pa.RecordBatch, column: str) -> np.ndarray:
    """Give a column's times in microseconds; a null is later than any watermark."""
    times = _time_column(batch, column)
    return np.where(times.valid_rows(0, batch.num_rows), times.values, np.iinfo(np.int64).max)


def _joined(pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Pieces of pairs as one."""
    probing, stored = zip(*pairs, strict=True)
    return np.concatenate(probing), np.concatenate(stored)


def _take(batch: pa.RecordBatch, rows: np.ndarray) -> pa.RecordBatch:
    """Take rows of a batch, in ascending order; a stretch of it without copying."""
    if is_stretch(rows):
        return batch.slice(rows[0], len(rows))
    return batch.take(pa.array(rows))


def _semi_matches(
    side: str, probing: np.ndarray, stored: np.ndarray, had_match: np.ndarray, matched: np.ndarray
) -> np.ndarray:
    """Tell which pairs bring out a left row for the first time."""
    rows, seen = (probing, had_match) if side == "left" else (stored, matched)
    first = np.zeros(len(rows), np.bool_)
    first[np.unique(rows, return_index=True)[1]] = True
    return first & ~seen[rows]


def _side_by_side(side: str, mine: pa.RecordBatch, theirs: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    left, right = (mine, theirs) if side == "left" else (theirs, mine)
    return pa.RecordBatch.from_arrays([*left.columns, *right.columns], names=schema.names)
