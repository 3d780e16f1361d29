"""One side of a stream-stream join: the rows it has stored, found by key.

Each key has a number of rows, chained both ways; each row has a matched flag, and expires by its own
time or by its key's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from numba import njit

from .columns import Column
from .expiry import END, TimeSlots, chain, unlink
from .hash_table import ABSENT, HashTable
from .keys import KeyLayout
from .memory import grown
from .row_store import RowStore

# Candidate pairs are made this many at a time, so that a key with many rows on both sides needs no
# more memory than any other.
PAIRS_AT_ONCE = 65_536
CHUNK_ROWS = 4096
NO_ROWS = np.empty(0, np.uint32)


class JoinIndex:
    """Stored rows of one side, by key.

    Parameters
    ----------
    schema
        of the rows.
    layout
        of the keys, the same on both sides.
    slot_width
        of the time slots that rows expire by, in microseconds.
    """

    def __init__(self, schema: pa.Schema, layout: KeyLayout, slot_width: int) -> None:
        self.table = HashTable(layout)
        self.store = RowStore(schema)
        self.slots = TimeSlots(slot_width)
        self.matched = np.empty(0, np.bool_)
        self._heads = np.empty(0, np.int32)
        self._counts = np.empty(0, np.int32)
        self._next = np.empty(0, np.int32)
        self._previous = np.empty(0, np.int32)
        self._group = np.empty(0, np.uint32)

    def __len__(self) -> int:
        return len(self.store)

    @property
    def nbytes(self) -> int:
        per_row = sum(a.itemsize for a in (self._next, self._previous, self._group, self.matched))
        per_key = sum(a.itemsize for a in (self._heads, self._counts))
        rows, keys = self.store.high_water, self.table.high_water
        return self.table.nbytes + self.store.nbytes + self.slots.nbytes + per_row * rows + per_key * keys

    def add(self, batch: pa.RecordBatch, keys: Sequence[Column], matched: np.ndarray) -> np.ndarray:
        """Store the rows of a batch under their keys; returns their numbers."""
        rows = self.store.append(batch)
        if not len(rows):
            return rows
        needed = int(rows.max()) + 1
        self._next, self._previous, self._group, self.matched = (
            grown(a, len(a), needed) for a in (self._next, self._previous, self._group, self.matched)
        )
        self.matched[rows] = matched
        for base in range(0, len(rows), CHUNK_ROWS):
            chunk = rows[base : base + CHUNK_ROWS]
            groups, new = self.table.upsert(self.table.encode(keys, base, len(chunk)))
            self._heads = grown(self._heads, len(self._heads), self.table.capacity)
            self._counts = grown(self._counts, len(self._counts), self.table.capacity)
            self._heads[new], self._counts[new] = END, 0
            chain(self._heads, self._next, self._previous, groups.astype(np.int64), chunk)
            count_up(self._counts, groups)
            self._group[chunk] = groups
        return rows

    def remove(self, rows: np.ndarray) -> None:
        """Forget rows, and keys that have none left. The rows must not be in the time slots any more."""
        if not len(rows):
            return
        groups = self._group[rows]
        unlink(self._heads, self._next, self._previous, groups.astype(np.int64), rows)
        emptied = np.empty(len(rows), np.uint32)
        count = count_down(self._counts, groups, emptied)
        self.table.delete(emptied[:count])
        self.store.drop(rows)

    def numbered(self) -> tuple[np.ndarray, np.ndarray]:
        """Give all rows, key by key, and each row's number among those of its key."""
        groups = self.table.live()
        rows = np.empty(len(self), np.uint32)
        keys = np.empty(len(self), np.int64)
        pair_rows(self._heads, self._next, groups, np.array([0, END], np.int64), keys, rows)
        firsts = np.cumsum(self._counts[groups]) - self._counts[groups]
        return rows, np.arange(len(rows)) - firsts[keys]

    def candidates(
        self, keys: Sequence[Column], count: int, matchable: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Pair probing rows with the stored rows of equal keys.

        Yields positions of probing rows and numbers of stored rows, a bounded number at a time.
        """
        for base in range(0, count, CHUNK_ROWS):
            rows = min(CHUNK_ROWS, count - base)
            groups = self.table.find(self.table.encode(keys, base, rows))
            groups[~matchable[base : base + rows]] = ABSENT
            cursor = np.array([0, END], np.int64)
            while cursor[0] < rows:
                probing, stored = np.empty(PAIRS_AT_ONCE, np.int64), np.empty(PAIRS_AT_ONCE, np.uint32)
                pairs = pair_rows(self._heads, self._next, groups, cursor, probing, stored)
                if pairs:
                    yield probing[:pairs] + base, stored[:pairs]


@njit(cache=True, nogil=True)
def count_up(counts, groups):
    """Count one more row of each key."""
    for group in groups:
        counts[group] += 1


@njit(cache=True, nogil=True)
def count_down(counts, groups, emptied):
    """Count one row less of each key; lists the keys that have none left."""
    count = 0
    for group in groups:
        counts[group] -= 1
        if counts[group] == 0:
            emptied[count] = group
            count += 1
    return count


@njit(cache=True, nogil=True)
def pair_rows(heads, following, groups, cursor, probing, stored):
    """Pair rows until the room is full; `cursor` keeps the probing row and the stored row to go on with."""
    count, row, entry = 0, cursor[0], cursor[1]
    while row < len(groups):
        if entry == END and groups[row] != ABSENT:
            entry = np.int64(heads[groups[row]])
        while entry != END:
            if count == len(probing):
                cursor[0], cursor[1] = row, entry
                return count
            probing[count] = row
            stored[count] = np.uint32(entry)
            count += 1
            entry = np.int64(following[entry])
        row += 1
    cursor[0] = row
    return count
