"""The open-addressing hash table: keys to dense group numbers, whole batches at a time.

A slot is one word: the upper half of the key's hash as a *tag*, and the group number plus one; zero
is an empty slot. The home of a key is the top bits of its tag, so slots can be moved to a larger
array, or back over a hole, without looking at any key. Keys lie apart from slots, in one row per
group, behind what the table's owner wants to keep in the same cache line; a group number stays the
same until its group is deleted, and is then used again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numba import njit

from .arena import Arena
from .columns import NO_WORDS, Column
from .keys import KeyLayout, Keys
from .memory import compare_bytes, copy_bytes, empty, freeze, grown, prefetch
from .number_pool import NumberPool

EMPTY = np.uint64(0)
ONE = np.uint64(1)
GROUP_MASK = np.uint64(0xFFFFFFFF)
TAG_BITS = np.uint64(32)
ABSENT = np.uint32(0xFFFFFFFF)
MAX_GROUPS = 2**32 - 2

MIN_SLOT_BITS = 10
# Every probe past the first slot is likely a mispredicted branch: a load of a third or less made
# upserts 1.4× as fast as a load of two thirds. Where that would take much memory, room goes first.
SLOTS_PER_GROUP = 3.0
TIGHT_SLOTS_PER_GROUP = 1.6
ROOMY_SLOT_BITS = 21
# How many rows ahead to fetch: slots first, then, halfway, the key row that the slot points at.
AHEAD = 16


class HashTable:
    """Keys to group numbers.

    Parameters
    ----------
    layout
        how the keys look.
    expected
        number of groups to make room for at once; the table grows by itself past it.
    own_words
        words at the front of each group's row that are the owner's to use, through `rows`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from millrace.kernels.columns import column_of
    >>> table = HashTable(KeyLayout([pa.int64()]))
    >>> groups, new = table.upsert(table.encode([column_of(pa.array([7, 8, 7]))], 0, 3))
    >>> groups.tolist(), new.tolist()
    ([0, 1, 0], [0, 1])
    """

    def __init__(self, layout: KeyLayout, expected: int = 0, own_words: int = 0) -> None:
        self.layout = layout
        self._first = own_words
        self.arena = Arena()
        self._has_null_word = False
        self._bits = _slot_bits(expected)
        self._slots = _empty_slots(self._bits)
        self.rows = empty((max(expected, 1), own_words + layout.words + 2 * layout.has_bytes), np.uint64)
        self._pool = NumberPool()
        self._found = self._made = np.empty(0, np.uint32)

    def __len__(self) -> int:
        return len(self._pool)

    @property
    def high_water(self) -> int:
        """One more than the greatest group number given so far."""
        return self._pool.high_water

    @property
    def nbytes(self) -> int:
        """Memory in use; room reserved for rows that have never been there does not count."""
        keys = self.high_water * self.rows.shape[1] * self.rows.itemsize
        return self._slots.nbytes + keys + self._pool.nbytes + self.arena.nbytes

    @property
    def capacity(self) -> int:
        """Groups that fit before the key rows grow."""
        return len(self.rows)

    def encode(self, columns: Sequence[Column], base: int, rows: int) -> Keys:
        """Turn rows of key columns into keys that fit this table (see `KeyLayout.encode`)."""
        if not self._has_null_word and any(column.has_nulls for column in columns):
            self._widen_for_nulls()
        return self.layout.encode(columns, base, rows, self._has_null_word)

    def _widen_for_nulls(self) -> None:
        """Give every key row a null word; no hash changes, so the slots stay as they are."""
        at = self._first + self.layout.words
        wider = empty((len(self.rows), self.rows.shape[1] + 1), np.uint64)
        wider[:, :at] = self.rows[:, :at]
        wider[:, at] = 0
        wider[:, at + 1 :] = self.rows[:, at:]
        self.rows, self._has_null_word = wider, True

    def upsert(self, keys: Keys) -> tuple[np.ndarray, np.ndarray]:
        """Find each row's group, making the groups that are missing.

        Returns
        -------
        groups, new
            the group of every row, and the groups made by this call, in order of first appearance;
            both are good until the next call.
        """
        rows = len(keys)
        self._reserve(rows)
        if rows > len(self._made):
            self._found, self._made = np.empty(rows, np.uint32), np.empty(rows, np.uint32)
        groups, made = self._found[:rows], self._made
        supply = self._pool.supply
        shift = np.uint64(32 - self._bits)
        if self.layout.has_bytes:
            self.arena.reserve(keys.byte_count)
            count, self.arena.used = upsert_bytes(
                self._slots, shift, self.rows, self._first, self.arena.data, self.arena.used,
                keys.words, keys.starts, keys.ends, keys.data, keys.hashes, supply, groups, made,
            )  # fmt: skip
        else:
            upsert = {1: upsert_word, 2: upsert_pair}.get(keys.words.shape[1], upsert_words)
            count = upsert(self._slots, shift, self.rows, self._first, keys.words, keys.hashes, supply, groups, made)
        self._pool.taken(count)
        return groups, made[:count]

    def find(self, keys: Keys) -> np.ndarray:
        """Give each row's group, `ABSENT` where the table has none."""
        groups = np.empty(len(keys), np.uint32)
        shift = np.uint64(32 - self._bits)
        if self.layout.has_bytes:
            find_bytes(
                self._slots, shift, self.rows, self._first, self.arena.data,
                keys.words, keys.starts, keys.ends, keys.data, keys.hashes, groups,
            )  # fmt: skip
        elif keys.words.shape[1] == 1:
            find_word(self._slots, shift, self.rows, self._first, keys.words, keys.hashes, groups)
        else:
            find_words(self._slots, shift, self.rows, self._first, keys.words, keys.hashes, groups)
        return groups

    def delete(self, groups: np.ndarray) -> None:
        """Remove groups; their numbers go back for later keys. Every group must exist, once."""
        keys = self.rows[groups, self._first :]
        words, starts, ends = keys, NO_WORDS, NO_WORDS
        if self.layout.has_bytes:
            words, starts = keys[:, :-2].copy(), keys[:, -2].astype(np.int64)
            ends = starts + keys[:, -1].astype(np.int64)
            self.arena.garbage += int((ends - starts).sum())
        hashes, _ = self.layout.hash(freeze(words), freeze(starts), freeze(ends), freeze(self.arena.data))
        delete_groups(self._slots, np.uint64(32 - self._bits), hashes, groups)
        self._pool.give_back(groups)

    def live(self) -> np.ndarray:
        """Give the numbers of all groups, ascending."""
        return self._pool.live()

    def key_columns(self, groups: np.ndarray) -> np.ndarray:
        """Give some groups' keys, one row per word, as `KeyLayout.decode` wants them."""
        columns = empty((self.rows.shape[1] - self._first, len(groups)), np.uint64)
        gather_columns(self.rows, self._first, groups, columns)
        return columns

    def key_word(self, groups: np.ndarray, word: int) -> np.ndarray:
        """Give one word of some groups' keys, as int64."""
        return self.rows[groups, self._first + word].view(np.int64)

    def key_is_null(self, groups: np.ndarray, column: int) -> np.ndarray:
        """Tell which groups' keys are null in one key column."""
        if not self._has_null_word:
            return np.zeros(len(groups), np.bool_)
        return (self.rows[groups, self._first + self.layout.words] >> np.uint64(column)) & ONE != 0

    def _reserve(self, rows: int) -> None:
        """Make room for `rows` more groups, the most that a batch of so many rows can add."""
        wanted = len(self) + rows
        if wanted > MAX_GROUPS:
            raise MemoryError(f"a table holds at most {MAX_GROUPS} groups, {wanted} were asked for")
        bits = _slot_bits(wanted)
        if bits > self._bits:
            bits = max(bits, min(bits + 2, ROOMY_SLOT_BITS))
            slots = _empty_slots(bits)
            move_slots(self._slots, slots, np.uint64(32 - bits))
            self._slots, self._bits = slots, bits
        self.rows = grown(self.rows, self.high_water, self.high_water + rows)


def _empty_slots(bits: int) -> np.ndarray:
    # Fresh pages come zeroed: nothing is left to fill.
    return np.zeros(1 << bits, np.uint64)


def _slot_bits(groups: int) -> int:
    roomy = max(MIN_SLOT_BITS, int(groups * SLOTS_PER_GROUP).bit_length())
    return min(roomy, max(ROOMY_SLOT_BITS, int(groups * TIGHT_SLOTS_PER_GROUP).bit_length()))


@njit(cache=True, nogil=True, inline="always")
def next_group(supply, taken):
    """Give the number for the next new group: freed ones first, the latest freed first."""
    free, free_count, high_water = supply
    return free[free_count - 1 - taken] if taken < free_count else np.uint32(high_water + taken - free_count)


@njit(cache=True, nogil=True)
def upsert_word(slots, shift, keys, first, words, hashes, supply, groups, made):
    """Upsert keys of one word; returns how many groups were `made`."""
    mask = np.uint64(len(slots) - 1)
    width, rows, taken = keys.shape[1], len(groups), 0
    for row in range(rows):
        if row + 2 * AHEAD < rows:
            prefetch(slots, np.int64((hashes[row + 2 * AHEAD] >> TAG_BITS) >> shift))
        if row + AHEAD < rows:
            ahead = slots[(hashes[row + AHEAD] >> TAG_BITS) >> shift]
            prefetch(keys, np.int64(ahead & GROUP_MASK) * width - width)
        key, tag = words[row, 0], hashes[row] >> TAG_BITS
        at = tag >> shift
        while True:
            slot = slots[at]
            if slot == EMPTY:
                group = next_group(supply, taken)
                made[taken] = group
                taken += 1
                slots[at] = (tag << TAG_BITS) | (np.uint64(group) + ONE)
                keys[group, first] = key
                groups[row] = group
                break
            group = np.uint32((slot & GROUP_MASK) - ONE)
            if slot >> TAG_BITS == tag and keys[group, first] == key:
                groups[row] = group
                break
            at = (at + ONE) & mask
    return taken


@njit(cache=True, nogil=True)
def upsert_pair(slots, shift, keys, first, words, hashes, supply, groups, made):
    """Upsert keys of two words, such as a number and a window; returns how many groups were `made`."""
    mask = np.uint64(len(slots) - 1)
    width, rows, taken = keys.shape[1], len(groups), 0
    for row in range(rows):
        if row + 2 * AHEAD < rows:
            prefetch(slots, np.int64((hashes[row + 2 * AHEAD] >> TAG_BITS) >> shift))
        if row + AHEAD < rows:
            ahead = slots[(hashes[row + AHEAD] >> TAG_BITS) >> shift]
            prefetch(keys, np.int64(ahead & GROUP_MASK) * width - width)
        one, two, tag = words[row, 0], words[row, 1], hashes[row] >> TAG_BITS
        at = tag >> shift
        while True:
            slot = slots[at]
            if slot == EMPTY:
                group = next_group(supply, taken)
                made[taken] = group
                taken += 1
                slots[at] = (tag << TAG_BITS) | (np.uint64(group) + ONE)
                keys[group, first], keys[group, first + 1] = one, two
                groups[row] = group
                break
            group = np.uint32((slot & GROUP_MASK) - ONE)
            if slot >> TAG_BITS == tag and keys[group, first] == one and keys[group, first + 1] == two:
                groups[row] = group
                break
            at = (at + ONE) & mask
    return taken


@njit(cache=True, nogil=True, inline="always")
def same_words(keys, first, group, words, row):
    """Tell whether a group's words are those of a row."""
    same = True
    for word in range(words.shape[1]):
        same &= keys[group, first + word] == words[row, word]
    return same


@njit(cache=True, nogil=True)
def upsert_words(slots, shift, keys, first, words, hashes, supply, groups, made):
    """Upsert keys of several words; returns how many groups were `made`."""
    mask = np.uint64(len(slots) - 1)
    width, rows, taken = keys.shape[1], len(groups), 0
    for row in range(rows):
        if row + 2 * AHEAD < rows:
            prefetch(slots, np.int64((hashes[row + 2 * AHEAD] >> TAG_BITS) >> shift))
        if row + AHEAD < rows:
            ahead = slots[(hashes[row + AHEAD] >> TAG_BITS) >> shift]
            prefetch(keys, np.int64(ahead & GROUP_MASK) * width - width)
        tag = hashes[row] >> TAG_BITS
        at = tag >> shift
        while True:
            slot = slots[at]
            if slot == EMPTY:
                group = next_group(supply, taken)
                made[taken] = group
                taken += 1
                slots[at] = (tag << TAG_BITS) | (np.uint64(group) + ONE)
                for word in range(words.shape[1]):
                    keys[group, first + word] = words[row, word]
                groups[row] = group
                break
            group = np.uint32((slot & GROUP_MASK) - ONE)
            if slot >> TAG_BITS == tag and same_words(keys, first, group, words, row):
                groups[row] = group
                break
            at = (at + ONE) & mask
    return taken


@njit(cache=True, nogil=True, inline="always")
def same_bytes(keys, group, arena, data, start, end):
    """Tell whether a group's bytes, found through the last two words of its key row, are a row's."""
    span = keys.shape[1] - 2
    length = np.int64(keys[group, span + 1])
    return length == end - start and compare_bytes(arena, np.int64(keys[group, span]), data, start, length) == 0


@njit(cache=True, nogil=True)
def upsert_bytes(slots, shift, keys, first, arena, used, words, starts, ends, data, hashes, supply, groups, made):
    """Upsert keys that have bytes; returns how many groups were `made` and the arena's new end."""
    mask = np.uint64(len(slots) - 1)
    width, rows, taken = keys.shape[1], len(groups), 0
    for row in range(rows):
        if row + 2 * AHEAD < rows:
            prefetch(slots, np.int64((hashes[row + 2 * AHEAD] >> TAG_BITS) >> shift))
        if row + AHEAD < rows:
            ahead = slots[(hashes[row + AHEAD] >> TAG_BITS) >> shift]
            prefetch(keys, np.int64(ahead & GROUP_MASK) * width - width)
        tag = hashes[row] >> TAG_BITS
        at = tag >> shift
        while True:
            slot = slots[at]
            if slot == EMPTY:
                group = next_group(supply, taken)
                made[taken] = group
                taken += 1
                slots[at] = (tag << TAG_BITS) | (np.uint64(group) + ONE)
                for word in range(words.shape[1]):
                    keys[group, first + word] = words[row, word]
                length = ends[row] - starts[row]
                copy_bytes(data, starts[row], arena, used, length)
                keys[group, width - 2] = np.uint64(used)
                keys[group, width - 1] = np.uint64(length)
                used += length
                groups[row] = group
                break
            group = np.uint32((slot & GROUP_MASK) - ONE)
            if (
                slot >> TAG_BITS == tag
                and same_words(keys, first, group, words, row)
                and same_bytes(keys, group, arena, data, starts[row], ends[row])
            ):
                groups[row] = group
                break
            at = (at + ONE) & mask
    return taken, used


@njit(cache=True, nogil=True)
def find_word(slots, shift, keys, first, words, hashes, groups):
    """Find keys of one word."""
    mask = np.uint64(len(slots) - 1)
    width, rows = keys.shape[1], len(groups)
    for row in range(rows):
        if row + 2 * AHEAD < rows:
            prefetch(slots, np.int64((hashes[row + 2 * AHEAD] >> TAG_BITS) >> shift))
        if row + AHEAD < rows:
            ahead = slots[(hashes[row + AHEAD] >> TAG_BITS) >> shift]
            prefetch(keys, np.int64(ahead & GROUP_MASK) * width - width)
        key, tag = words[row, 0], hashes[row] >> TAG_BITS
        at = tag >> shift
        groups[row] = ABSENT
        while slots[at] != EMPTY:
            slot = slots[at]
            group = np.uint32((slot & GROUP_MASK) - ONE)
            if slot >> TAG_BITS == tag and keys[group, first] == key:
                groups[row] = group
                break
            at = (at + ONE) & mask


@njit(cache=True, nogil=True)
def find_words(slots, shift, keys, first, words, hashes, groups):
    """Find keys of any number of words."""
    mask = np.uint64(len(slots) - 1)
    width, rows = keys.shape[1], len(groups)
    for row in range(rows):
        if row + 2 * AHEAD < rows:
            prefetch(slots, np.int64((hashes[row + 2 * AHEAD] >> TAG_BITS) >> shift))
        if row + AHEAD < rows:
            ahead = slots[(hashes[row + AHEAD] >> TAG_BITS) >> shift]
            prefetch(keys, np.int64(ahead & GROUP_MASK) * width - width)
        tag = hashes[row] >> TAG_BITS
        at = tag >> shift
        groups[row] = ABSENT
        while slots[at] != EMPTY:
            slot = slots[at]
            group = np.uint32((slot & GROUP_MASK) - ONE)
            if slot >> TAG_BITS == tag and same_words(keys, first, group, words, row):
                groups[row] = group
                break
            at = (at + ONE) & mask


@njit(cache=True, nogil=True)
def find_bytes(slots, shift, keys, first, arena, words, starts, ends, data, hashes, groups):
    """Find keys that have bytes."""
    mask = np.uint64(len(slots) - 1)
    width, rows = keys.shape[1], len(groups)
    for row in range(rows):
        if row + 2 * AHEAD < rows:
            prefetch(slots, np.int64((hashes[row + 2 * AHEAD] >> TAG_BITS) >> shift))
        if row + AHEAD < rows:
            ahead = slots[(hashes[row + AHEAD] >> TAG_BITS) >> shift]
            prefetch(keys, np.int64(ahead & GROUP_MASK) * width - width)
        tag = hashes[row] >> TAG_BITS
        at = tag >> shift
        groups[row] = ABSENT
        while slots[at] != EMPTY:
            slot = slots[at]
            group = np.uint32((slot & GROUP_MASK) - ONE)
            if (
                slot >> TAG_BITS == tag
                and same_words(keys, first, group, words, row)
                and same_bytes(keys, group, arena, data, starts[row], ends[row])
            ):
                groups[row] = group
                break
            at = (at + ONE) & mask


@njit(cache=True, nogil=True)
def delete_groups(slots, shift, hashes, groups):
    """Empty the slots of groups and close each hole by moving later slots back: no tombstones."""
    mask = np.uint64(len(slots) - 1)
    for row in range(len(groups)):
        hole = (hashes[row] >> TAG_BITS) >> shift
        while slots[hole] & GROUP_MASK != np.uint64(groups[row]) + ONE:
            hole = (hole + ONE) & mask
        at = (hole + ONE) & mask
        while slots[at] != EMPTY:
            home = (slots[at] >> TAG_BITS) >> shift
            # A slot may move back to the hole if that does not put it before its home.
            if (at - home) & mask >= (at - hole) & mask:
                slots[hole] = slots[at]
                hole = at
            at = (at + ONE) & mask
        slots[hole] = EMPTY


@njit(cache=True, nogil=True)
def move_slots(slots, larger, shift):
    """Put every slot into a larger empty array; home order is kept, so both are walked in sequence."""
    mask = np.uint64(len(larger) - 1)
    for old in range(len(slots)):
        slot = slots[old]
        if slot != EMPTY:
            at = (slot >> TAG_BITS) >> shift
            while larger[at] != EMPTY:
                at = (at + ONE) & mask
            larger[at] = slot


@njit(cache=True, nogil=True)
def gather_columns(keys, first, groups, columns):
    """Read the key rows of some groups into columns."""
    for row in range(len(groups)):
        for word in range(len(columns)):
            columns[word, row] = keys[groups[row], first + word]
