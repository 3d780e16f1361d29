"""One side of a stream-stream join: the rows it has stored, found by key.

Each key has a number of rows, chained both ways; each row has a matched flag, and expires by its own
time or by its key's. The chain of a key is one word in the key's own row of the hash table, so that
whoever has just found the key finds its rows in the same cache line: the first row's number plus one,
0 for none, and in the upper half how many there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from numba import njit

from .columns import Column
from .expiry import END, TimeSlots
from .hash_table import ABSENT, AHEAD, HashTable
from .keys import KeyLayout
from .memory import grown, prefetch
from .row_store import RowStore, write

# Candidate pairs are made this many at a time, so that a key with many rows on both sides needs no
# more memory than any other.
PAIRS_AT_ONCE = 65_536
# Few enough that the key rows found are still in the second-level cache when their chains are read.
CHUNK_ROWS = 8192
HEAD_MASK = np.uint64(0xFFFFFFFF)
COUNT_SHIFT = np.uint64(32)
ONE = np.uint64(1)
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
        self.table = HashTable(layout, expected, own_words=1)
        self.store = RowStore(schema)
        self.slots = TimeSlots(slot_width)
        self.matched = np.empty(0, np.bool_)
        self._next = np.empty(0, np.int32)
        self._previous = np.empty(0, np.int32)
        self._group = np.empty(0, np.uint32)

    def __len__(self) -> int:
        return len(self.store)

    @property
    def nbytes(self) -> int:
        per_row = sum(a.itemsize for a in (self._next, self._previous, self._group, self.matched))
        return self.table.nbytes + self.store.nbytes + self.slots.nbytes + per_row * self.store.high_water

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
            start_chains(self.table.rows, new)
            link_rows(self.table.rows, self._next, self._previous, self._group, groups, chunk)
        return rows

    def remove(self, rows: np.ndarray) -> None:
        """Forget rows, and keys that have none left. The rows must not be in the time slots any more."""
        if not len(rows):
            return
        emptied = np.empty(len(rows), np.uint32)
        count = unlink_rows(self.table.rows, self._next, self._previous, self._group, rows, emptied)
        self.table.delete(emptied[:count])
        self.store.drop(rows)

    def numbered(self) -> tuple[np.ndarray, np.ndarray]:
        """Give all rows, key by key, and each row's number among those of its key."""
        groups = self.table.live()
        rows = np.empty(len(self), np.uint32)
        keys = np.empty(len(self), np.uint32)
        pair_rows(self.table.rows, self._next, groups, 0, np.zeros(3, np.int64), keys, rows)
        counts = (self.table.rows[groups, 0] >> COUNT_SHIFT).astype(np.int64)
        firsts = np.cumsum(counts) - counts
        return rows, np.arange(len(rows)) - firsts[keys]

    def candidates(
        self, keys: Sequence[Column], count: int, matchable: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Pair probing rows with the stored rows of equal keys.

        Yields positions of probing rows and numbers of stored rows, a bounded number at a time; they
        are good until the next are asked for.
        """
        all_match, filled = bool(matchable.all()), 0
        probing, stored = np.empty(PAIRS_AT_ONCE, np.uint32), np.empty(PAIRS_AT_ONCE, np.uint32)
        for base in range(0, count, CHUNK_ROWS):
            rows = min(CHUNK_ROWS, count - base)
            groups = self.table.find(self.table.encode(keys, base, rows))
            if not all_match:
                groups[~matchable[base : base + rows]] = ABSENT
            cursor = np.zeros(3, np.int64)
            while cursor[0] < rows:
                room = probing[filled:], stored[filled:]
                filled += pair_rows(self.table.rows, self._next, groups, base, cursor, *room)
                if filled > PAIRS_AT_ONCE - CHUNK_ROWS:
                    yield probing[:filled], stored[:filled]
                    filled = 0
        if filled:
            yield probing[:filled], stored[:filled]


@njit(cache=True, nogil=True)
def start_chains(keys, new):
    """Begin the chains of new keys."""
    for group in new:
        keys[group, 0] = 0


@njit(cache=True, nogil=True)
def link_rows(keys, following, previous, group_of, groups, rows):
    """Put each row in front of its key's chain."""
    for i in range(len(rows)):
        row, group = rows[i], groups[i]
        chain = keys[group, 0]
        head = np.int32(np.int64(chain & HEAD_MASK) - 1)
        following[row], previous[row], group_of[row] = head, END, group
        if head != END:
            previous[head] = np.int32(row)
        keys[group, 0] = ((chain >> COUNT_SHIFT) + ONE) << COUNT_SHIFT | (np.uint64(row) + ONE)


@njit(cache=True, nogil=True)
def unlink_rows(keys, following, previous, group_of, rows, emptied):
    """Take each row out of its key's chain; lists the keys that have none left, and returns how many."""
    count = 0
    for row in rows:
        group = group_of[row]
        after, before = following[row], previous[row]
        chain = keys[group, 0] - (ONE << COUNT_SHIFT)
        if before == END:
            chain = (chain & ~HEAD_MASK) | np.uint64(np.int64(after) + 1)
        else:
            following[before] = after
        if after != END:
            previous[after] = before
        keys[group, 0] = chain
        if chain >> COUNT_SHIFT == 0:
            emptied[count] = group
            count += 1
    return count


@njit(cache=True, nogil=True)
def pair_rows(keys, following, groups, base, cursor, probing, stored):
    """Pair rows, counted from `base`, until the room is full; returns the number of pairs.

    `cursor` keeps what to go on with: the probing row, the stored row, and how many of its key are left.
    """
    done, row, entry, left = 0, cursor[0], cursor[1], cursor[2]
    rows = len(groups)
    while row < rows:
        if left == 0 and groups[row] != ABSENT:
            chain = keys[groups[row], 0]
            entry, left = np.int64(chain & HEAD_MASK) - 1, np.int64(chain >> COUNT_SHIFT)
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


@njit(cache=True, nogil=True)
def near_pairs(probing, stored, mine, theirs, least, greatest):
    """Move the pairs whose stored time less the probing one lies within bounds to the front; returns how many."""
    count, pairs = 0, len(probing)
    for i in range(pairs):
        if i + AHEAD < pairs:
            prefetch(theirs, np.int64(stored[i + AHEAD]))
        row, entry = probing[i], stored[i]
        apart = theirs[entry] - mine[row]
        # Every pair is written, and written over unless it counts: a branch here would be mispredicted.
        probing[count], stored[count] = row, entry
        count += (least <= apart) & (apart <= greatest)
    return count


@njit(cache=True, nogil=True)
def chosen_pairs(probing, stored, holds):
    """Give the pairs for which a condition holds; 3× as fast as NumPy's masks."""
    count = 0
    for held in holds:
        count += held
    chosen_probing, chosen_stored = np.empty(count, np.uint32), np.empty(count, np.uint32)
    at = 0
    for i in range(len(holds)):
        if holds[i]:
            chosen_probing[at], chosen_stored[at] = probing[i], stored[i]
            at += 1
    return chosen_probing, chosen_stored
