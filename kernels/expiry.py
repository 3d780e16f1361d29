"""What expires when: entries in time slots, so that evicting costs what it evicts.

A slot covers a stretch of time and holds the entries that expire within it, chained both ways through
arrays that are indexed by entry. Slots are kept in order of time; evicting takes slots off the front.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .memory import grown

END = np.int32(-1)
# Slots within this span are found through a table of the whole span: 8× as fast as searching for each.
DENSE = 65_536


class TimeSlots:
    """Entries (small integers) by expiry time.

    Parameters
    ----------
    width
        how much time a slot covers, in microseconds; 1 where few distinct times are expected.

    Examples
    --------
    >>> slots = TimeSlots(width=10)
    >>> slots.put(np.array([0, 1, 2], np.uint32), np.array([35, 12, 99]))
    >>> sorted(slots.take_until(36).tolist())
    [0, 1]
    """

    def __init__(self, width: int = 1) -> None:
        self.width = width
        self._slots = np.empty(0, np.int64)
        self._heads = np.empty(0, np.int32)
        self._next = np.empty(0, np.int32)
        self._previous = np.empty(0, np.int32)

    @property
    def nbytes(self) -> int:
        return self._slots.nbytes + self._heads.nbytes + self._next.nbytes + self._previous.nbytes

    def put(self, entries: np.ndarray, times: np.ndarray) -> None:
        """Add entries with the times at which they expire."""
        if not len(entries):
            return
        slots = times // self.width if self.width > 1 else times
        needed = int(entries.max()) + 1
        self._next = grown(self._next, len(self._next), needed)
        self._previous = grown(self._previous, len(self._previous), needed)
        positions = np.empty(len(slots), np.int64)
        first, last = int(slots.min()), int(slots.max())
        if last - first < DENSE:
            self._place(slots, first, last - first + 1, positions)
        elif locate(self._slots, slots, positions):
            self._add_slots(slots[positions < 0])
            locate(self._slots, slots, positions)
        chain(self._heads, self._next, self._previous, positions, entries)

    def _place(self, slots: np.ndarray, first: int, span: int, positions: np.ndarray) -> None:
        """Find the positions of slots that lie close together by a table of all between, adding what is missing."""
        table = np.zeros(span, np.int32)
        mark(slots, first, table)
        self._add_slots(np.flatnonzero(table) + first)
        low, high = np.searchsorted(self._slots, [first, first + span])
        table[self._slots[low:high] - first] = np.arange(low, high)
        look_up(slots, first, table, positions)

    def remove(self, entries: np.ndarray, times: np.ndarray) -> None:
        """Remove entries before their time; `times` are those they were put with."""
        slots = times // self.width if self.width > 1 else times
        positions = np.empty(len(slots), np.int64)
        locate(self._slots, slots, positions)
        unlink(self._heads, self._next, self._previous, positions, entries)

    def take_until(self, limit: int) -> np.ndarray:
        """Remove and return every entry of each slot that begins at or before `limit`.

        The last such slot may reach past the limit: whoever knows exact times puts back what is early.
        """
        count = int(np.searchsorted(self._slots, limit // self.width, side="right"))
        if count == 0:
            return np.empty(0, np.uint32)
        entries = unchain(self._heads[:count], self._next)
        self._slots, self._heads = self._slots[count:], self._heads[count:]
        return entries

    def _add_slots(self, missing: np.ndarray) -> None:
        new = np.setdiff1d(missing, self._slots)
        at = np.searchsorted(self._slots, new)
        self._slots = np.insert(self._slots, at, new)
        self._heads = np.insert(self._heads, at, END)


@njit(cache=True, nogil=True)
def locate(sorted_slots, slots, positions):
    """Write where each slot stands among the known ones, −1 if nowhere; tells whether any was missing."""
    missing, last = False, -1
    for i in range(len(slots)):
        # Neighbouring entries mostly share a slot, so the last one found is tried first.
        if last < 0 or sorted_slots[last] != slots[i]:
            last = np.searchsorted(sorted_slots, slots[i])
            if last == len(sorted_slots) or sorted_slots[last] != slots[i]:
                last, missing = -1, True
        positions[i] = last
    return missing


@njit(cache=True, nogil=True)
def mark(slots, first, table):
    """Mark the slots that occur."""
    for slot in slots:
        table[slot - first] = 1


@njit(cache=True, nogil=True)
def look_up(slots, first, table, positions):
    """Read the position of each slot from a table."""
    for i in range(len(slots)):
        positions[i] = table[slots[i] - first]


@njit(cache=True, nogil=True)
def chain(heads, following, previous, positions, entries):
    """Put each entry in front of its chain."""
    for i in range(len(entries)):
        entry, head = np.int32(entries[i]), heads[positions[i]]
        following[entry] = head
        previous[entry] = END
        if head != END:
            previous[head] = entry
        heads[positions[i]] = entry


@njit(cache=True, nogil=True)
def unlink(heads, following, previous, positions, entries):
    """Take each entry out of its chain."""
    for i in range(len(entries)):
        entry = entries[i]
        after, before = following[entry], previous[entry]
        if before == END:
            heads[positions[i]] = after
        else:
            following[before] = after
        if after != END:
            previous[after] = before


@njit(cache=True, nogil=True)
def unchain(heads, following):
    """List the entries of several chains."""
    count = 0
    for head in heads:
        entry = head
        while entry != END:
            count += 1
            entry = following[entry]
    entries = np.empty(count, np.uint32)
    count = 0
    for head in heads:
        entry = head
        while entry != END:
            entries[count] = np.uint32(entry)
            count += 1
            entry = following[entry]
    return entries
