"""The loops that move rows into accumulators. One loop, one idea.

`records` holds one row of int64 words per group: first the *mark words*, then every accumulator's own
words. A mark is one bit that says "this accumulator has seen a value"; the top bit of the first word
says "this group was touched in the current batch".

Arguments shared by the loops: `at` is (first word, mark word, mark bit) of the accumulator; `groups`
has the group of each row of the chunk; row `i` of the chunk is row `base + i` of the input, whose
validity bit is `offset + base + i`. An empty `valid` means that nothing is null.
"""

from __future__ import annotations

import numpy as np
from numba import njit

TOUCHED = np.int64(-0x8000000000000000)


@njit(cache=True, nogil=True)
def is_valid(valid, position):
    """Read one bit of an Arrow validity bitmap."""
    return len(valid) == 0 or (valid[position >> 3] >> (position & 7)) & 1 != 0


@njit(cache=True, nogil=True)
def as_double(word):
    """Read a word's bits as a double."""
    return np.int64(word).view(np.float64)


@njit(cache=True, nogil=True)
def as_word(value):
    """Give a double's bits as a word."""
    return np.float64(value).view(np.int64)


@njit(cache=True, nogil=True)
def start_records(records, template, new):
    """Give new groups the accumulators of a group that has seen nothing."""
    for group in new:
        for word in range(len(template)):
            records[group, word] = template[word]


@njit(cache=True, nogil=True)
def touch(records, groups, touched, count):
    """Append each group to `touched` the first time this batch meets it; returns the new count."""
    for group in groups:
        if records[group, 0] >= 0:
            records[group, 0] |= TOUCHED
            touched[count] = group
            count += 1
    return count


@njit(cache=True, nogil=True)
def untouch(records, touched):
    """Take the touched bit away, ready for the next batch."""
    for group in touched:
        records[group, 0] &= ~TOUCHED


@njit(cache=True, nogil=True)
def count_rows(records, at, groups):
    """count(*)"""
    word = at[0]
    for group in groups:
        records[group, word] += 1


@njit(cache=True, nogil=True)
def count_valid(records, at, groups, base, valid, offset):
    """count(column)"""
    word = at[0]
    for i in range(len(groups)):
        if is_valid(valid, offset + base + i):
            records[groups[i], word] += 1


@njit(cache=True, nogil=True)
def count_true(records, at, groups, base, values, valid, offset):
    """count_if(column)"""
    word = at[0]
    for i in range(len(groups)):
        if is_valid(valid, offset + base + i):
            records[groups[i], word] += values[base + i]


@njit(cache=True, nogil=True)
def add_int(records, at, groups, base, values, valid, offset):
    """Sum of integers that wraps around, as Java's does."""
    word, mark, bit = at
    for i in range(len(groups)):
        if is_valid(valid, offset + base + i):
            group = groups[i]
            records[group, word] += values[base + i]
            records[group, mark] |= bit


@njit(cache=True, nogil=True)
def add_int_checked(records, at, groups, base, values, valid, offset, wraps):
    """Sum of integers that lists in `wraps` the rows at which a sum wrapped around; returns how many."""
    word, mark, bit = at
    wrapped = 0
    for i in range(len(groups)):
        if is_valid(valid, offset + base + i):
            group, value = groups[i], values[base + i]
            old = records[group, word]
            new = old + value
            records[group, word] = new
            records[group, mark] |= bit
            # The sign comes out wrong exactly if both numbers have one sign and the result the other.
            if (old ^ new) & (value ^ new) < 0:
                wraps[wrapped] = i
                wrapped += 1
    return wrapped


@njit(cache=True, nogil=True)
def add_float(records, at, groups, base, values, valid, offset):
    """Sum of doubles, whose bits stand in the accumulator's word."""
    word, mark, bit = at
    for i in range(len(groups)):
        if is_valid(valid, offset + base + i):
            group = groups[i]
            total = as_double(records[group, word]) + values[base + i]
            records[group, word] = as_word(total)
            records[group, mark] |= bit


@njit(cache=True, nogil=True)
def add_words(records, at, words, groups, base, values, valid, offset):
    """Exact sum of two's-complement numbers of several words; narrower values are sign-extended."""
    word, mark, bit = at
    lanes = values.shape[1]
    for i in range(len(groups)):
        if is_valid(valid, offset + base + i):
            group, row = groups[i], base + i
            carry = np.uint64(0)
            for lane in range(words):
                value = values[row, lane] if lane < lanes else values[row, lanes - 1] >> 63
                partial = np.uint64(records[group, word + lane]) + np.uint64(value)
                total = partial + carry
                carry = np.uint64(partial < np.uint64(value)) | np.uint64(total < partial)
                records[group, word + lane] = np.int64(total)
            records[group, mark] |= bit


@njit(cache=True, nogil=True)
def add_moments(records, at, groups, base, values, valid, offset):
    """Count, mean and sum of squared deviations, one value at a time (Welford)."""
    word = at[0]
    for i in range(len(groups)):
        if is_valid(valid, offset + base + i):
            group, value = groups[i], values[base + i]
            count = as_double(records[group, word]) + 1.0
            mean = as_double(records[group, word + 1])
            delta = value - mean
            step = delta / count
            squares = as_double(records[group, word + 2]) + delta * (delta - step)
            records[group, word] = as_word(count)
            records[group, word + 1] = as_word(mean + step)
            records[group, word + 2] = as_word(squares)


@njit(cache=True, nogil=True)
def merge_moments(records, at, groups, base, counts, means, squares):
    """Join two sets of moments (Chan's formula, which stays exact when the means are far from zero)."""
    word = at[0]
    for i in range(len(groups)):
        group, more = groups[i], counts[base + i]
        if more == 0.0:
            continue
        count = as_double(records[group, word])
        mean = as_double(records[group, word + 1])
        total = count + more
        delta = means[base + i] - mean
        step = delta / total
        both = as_double(records[group, word + 2]) + squares[base + i] + delta * step * count * more
        records[group, word] = as_word(total)
        records[group, word + 1] = as_word(mean + step * more)
        records[group, word + 2] = as_word(both)


@njit(cache=True, nogil=True)
def keep_greatest(records, at, groups, base, values, valid, offset, flip):
    """max, or min where `flip` is −1: flipping all bits turns the order of integers round."""
    word, mark, bit = at
    for i in range(len(groups)):
        if is_valid(valid, offset + base + i):
            group, value = groups[i], values[base + i] ^ flip
            kept = records[group, word]
            # A select, not a branch: which of the two is greater cannot be predicted.
            records[group, word] = value if value > kept else kept
            records[group, mark] |= bit


@njit(cache=True, nogil=True)
def gather_records(records, groups, columns):
    """Read the first words of some groups' records, each word into a column of its own."""
    for row in range(len(groups)):
        group = groups[row]
        for word in range(len(columns)):
            columns[word, row] = records[group, word]
