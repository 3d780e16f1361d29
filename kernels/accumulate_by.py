"""Accumulators that keep one row's value: first and last, min_by and max_by, min and max of wide types.

They work in two steps. A *contest* decides for each row of the chunk whether it wins over what its
group holds, and writes that into `won`; an *assignment* then copies the winners' values, in row
order, so that the last winner of a group stays. Arguments are as in `accumulate`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .accumulate import is_valid
from .memory import compare_bytes, copy_bytes

LENGTH_MASK = np.int64(0xFFFFFFFF)
CAPACITY_SHIFT = 32


@njit(cache=True, nogil=True)
def win_valid(won, base, valid, offset):
    """Every row that is not null wins."""
    for i in range(len(won)):
        won[i] = is_valid(valid, offset + base + i)


@njit(cache=True, nogil=True)
def win_true(won, base, values):
    """Every row whose value is true wins."""
    for i in range(len(won)):
        won[i] = values[base + i] != 0


@njit(cache=True, nogil=True)
def win_unseen(records, at, groups, won):
    """Of the rows that won so far, only the first of each group ever stays a winner."""
    mark, bit = at[1], at[2]
    for i in range(len(won)):
        if won[i]:
            group = groups[i]
            won[i] = records[group, mark] & bit == 0
            records[group, mark] |= bit


@njit(cache=True, nogil=True)
def mark_seen(records, at, groups, won):
    """Remember that the groups of winners have seen a row."""
    mark, bit = at[1], at[2]
    for i in range(len(won)):
        if won[i]:
            records[groups[i], mark] |= bit


@njit(cache=True, nogil=True)
def contest_words(records, at, groups, base, values, valid, offset, flip, won):
    """Greatest of one-word values; among equals the later wins."""
    word, mark, bit = at
    for i in range(len(won)):
        won[i] = False
        if is_valid(valid, offset + base + i):
            group, value = groups[i], values[base + i] ^ flip
            if records[group, mark] & bit == 0 or value >= records[group, word]:
                records[group, word] = value
                records[group, mark] |= bit
                won[i] = True


@njit(cache=True, nogil=True)
def contest_decimals(records, at, groups, base, values, valid, offset, flip, won):
    """Greatest of two-word decimals; among equals the later wins."""
    word, mark, bit = at
    for i in range(len(won)):
        won[i] = False
        if is_valid(valid, offset + base + i):
            group = groups[i]
            low, high = values[base + i, 0] ^ flip, values[base + i, 1] ^ flip
            kept_high = records[group, word + 1]
            if (
                records[group, mark] & bit == 0
                or high > kept_high
                or (high == kept_high and np.uint64(low) >= np.uint64(records[group, word]))
            ):
                records[group, word], records[group, word + 1] = low, high
                records[group, mark] |= bit
                won[i] = True


@njit(cache=True, nogil=True)
def contest_bytes(records, at, groups, base, spans, valid, offset, sign, arena, won):
    """Greatest (`sign` 1) or least (−1) byte string; among equals the later wins, without a copy.

    `spans` is (starts, ends, data) of the input and `arena` (data, used); returns the arena's new end
    and the bytes of it that nothing points at any more.
    """
    word, mark, bit = at
    starts, ends, data = spans
    target, used = arena
    garbage = 0
    for i in range(len(won)):
        won[i] = False
        if is_valid(valid, offset + base + i):
            group, start = groups[i], starts[base + i]
            length = ends[base + i] - start
            order = np.int64(1)
            if records[group, mark] & bit:
                kept = records[group, word + 1] & LENGTH_MASK
                order = np.int64(compare_bytes(data, start, target, records[group, word], min(length, kept)))
                order = sign * (order if order != 0 else length - kept)
            if order > 0:
                used, dropped = store_span(records, group, word, data, start, length, target, used)
                garbage += dropped
                records[group, mark] |= bit
            won[i] = order >= 0
    return used, garbage


@njit(cache=True, nogil=True)
def store_span(records, group, word, data, start, length, target, used):
    """Keep a byte string for a group: over its old one where it fits, else at the arena's end.

    The accumulator's words are the start, and the length with the capacity above it.
    """
    capacity = records[group, word + 1] >> CAPACITY_SHIFT
    dropped = 0
    if length > capacity:
        dropped = capacity
        records[group, word], capacity = used, length
        used += length
    copy_bytes(data, start, target, records[group, word], length)
    records[group, word + 1] = (capacity << CAPACITY_SHIFT) | length
    return used, dropped


@njit(cache=True, nogil=True)
def assign_words(records, at, groups, base, values, valid, offset, won):
    """Copy winners' one-word values; a null winner takes the mark away."""
    word, mark, bit = at
    for i in range(len(won)):
        if won[i]:
            group = groups[i]
            if is_valid(valid, offset + base + i):
                records[group, word] = values[base + i]
                records[group, mark] |= bit
            else:
                records[group, mark] &= ~bit


@njit(cache=True, nogil=True)
def assign_decimals(records, at, groups, base, values, valid, offset, won):
    """Copy winners' two-word values; a null winner takes the mark away."""
    word, mark, bit = at
    for i in range(len(won)):
        if won[i]:
            group = groups[i]
            if is_valid(valid, offset + base + i):
                records[group, word] = values[base + i, 0]
                records[group, word + 1] = values[base + i, 1]
                records[group, mark] |= bit
            else:
                records[group, mark] &= ~bit


@njit(cache=True, nogil=True)
def assign_bytes(records, at, groups, base, spans, valid, offset, arena, won):
    """Copy winners' byte strings; a null winner takes the mark away. Returns as `contest_bytes` does."""
    word, mark, bit = at
    starts, ends, data = spans
    target, used = arena
    garbage = 0
    for i in range(len(won)):
        if won[i]:
            group, start = groups[i], starts[base + i]
            if is_valid(valid, offset + base + i):
                length = ends[base + i] - start
                used, dropped = store_span(records, group, word, data, start, length, target, used)
                garbage += dropped
                records[group, mark] |= bit
            else:
                records[group, mark] &= ~bit
    return used, garbage
