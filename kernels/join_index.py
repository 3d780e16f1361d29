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
from .expiry import END, TimeSlots, unlink
from .hash_table import ABSENT, HashTable
from .keys import KeyLayout
from .memory import grown, prefetch
from .row_store import RowStore, write

# Candidate pairs are made this many at a time, so that a key with many rows on both sides needs no
# more memory than any other.
PAIRS_AT_ONCE = 65_536
CHUNK_ROWS = 16_384
AHEAD = 16
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
    expected
        number of keys to make room for at once.
    """

    def __init__(self, schema: pa.Schema, layout: KeyLayout, slot_width: int, expected: int = 0) -> None:
        self.table = HashTable(layout, expected)
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
        write(self.matched, rows, matched)
        for base in range(0, len(rows), CHUNK_ROWS):
            chunk = rows[base : base + CHUNK_ROWS]
            groups, new = self.table.upsert(self.table.encode(keys, base, len(chunk)))
            self._heads = grown(self._heads, len(self._heads), self.table.capacity)
            self._counts = grown(self._counts, len(self._counts), self.table.capacity)
            start_keys(self._heads, self._counts, new)
            link_rows(self._heads, self._counts, self._next, self._previous, self._group, groups, chunk)
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
        keys = np.empty(len(self), np.uint32)
        pair_rows(self._heads, self._counts, self._next, groups, 0, np.zeros(3, np.int64), keys, rows)
        firsts = np.cumsum(self._counts[groups]) - self._counts[groups]
        return rows, np.arange(len(rows)) - firsts[keys]

    def candidates(
        self, keys: Sequence[Column], count: int, matchable: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Pair probing rows with the stored rows of equal keys.

        Yields positions of probing rows and numbers of stored rows, a bounded number at a time; they
        are good until the next are asked for.
        """
        all_match = bool(matchable.all())
        probing, stored = np.empty(PAIRS_AT_ONCE, np.uint32), np.empty(PAIRS_AT_ONCE, np.uint32)
        for base in range(0, count, CHUNK_ROWS):
            rows = min(CHUNK_ROWS, count - base)
            groups = self.table.find(self.table.encode(keys, base, rows))
            if not all_match:
                groups[~matchable[base : base + rows]] = ABSENT
            cursor = np.zeros(3, np.int64)
            while cursor[0] < rows:
                pairs = pair_rows(self._heads, self._counts, self._next, groups, base, cursor, probing, stored)
                if pairs:
                    yield probing[:pairs], stored[:pairs]


@njit(cache=True, nogil=True)
def start_keys(heads, counts, new):
    """Begin the chains of new keys."""
    for group in new:
        heads[group], counts[group] = END, 0


@njit(cache=True, nogil=True)
def link_rows(heads, counts, following, previous, group_of, groups, rows):
    """Put each row in front of its key's chain."""
    for i in range(len(rows)):
        row, group = rows[i], groups[i]
        head = heads[group]
        following[row], previous[row], group_of[row] = head, END, group
        if head != END:
            previous[head] = np.int32(row)
        heads[group] = np.int32(row)
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
def pair_rows(heads, counts, following, groups, base, cursor, probing, stored):
    """Pair rows, counted from `base`, until the room is full; returns the number of pairs.

    `cursor` keeps what to go on with: the probing row, the stored row, and how many of its key are left.
    """
    done, row, entry, left = 0, cursor[0], cursor[1], cursor[2]
    rows = len(groups)
    while row < rows:
        if row + AHEAD < rows:
            prefetch(heads, np.int64(groups[row + AHEAD]))
            prefetch(counts, np.int64(groups[row + AHEAD]))
        if left == 0 and groups[row] != ABSENT:
            entry, left = np.int64(heads[groups[row]]), np.int64(counts[groups[row]])
        while left > 0:
            if done == len(probing):
                cursor[0], cursor[1], cursor[2] = row, entry, left
                return done
            probing[done] = np.uint32(base + row)
            stored[done] = np.uint32(entry)
            done += 1
            left -= 1
            # The last row of a key need not be asked for the next: most keys have one row only.
            if left > 0:
                entry = np.int64(following[entry])
        row += 1
    cursor[0] = row
    return done
