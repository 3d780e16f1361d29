"""Exact decimal sums and averages: three-word integers in, Spark's decimal128 results out.

A running sum is a two's-complement number of three 64-bit words, which no real stream can overflow.
Whether a result fits its type is decided only when it is asked for; so the order in which values were
added never matters. A sum found too large at the end of a batch is *pinned* far out of range, because
Spark, too, never recovers from an overflow it has stored.
"""

from __future__ import annotations

import numpy as np
from numba import njit

PINNED = np.int64(1) << 62
MAX_PRECISION = 38
LOW_HALF = np.uint64(0xFFFFFFFF)
U32 = np.uint64(32)


def power_of_ten(digits: int) -> tuple[np.uint64, np.uint64]:
    """Give 10**digits as two words, low word first."""
    value = 10**digits
    return np.uint64(value & (2**64 - 1)), np.uint64(value >> 64)


@njit(cache=True, nogil=True)
def magnitude(low, middle, high):
    """Give the absolute value of a three-word number as three unsigned words."""
    a, b, c = np.uint64(low), np.uint64(middle), np.uint64(high)
    if high < 0:
        a = ~a + np.uint64(1)
        b = ~b + np.uint64(a == 0)
        c = ~c + np.uint64(a == 0 and b == 0)
    return a, b, c


@njit(cache=True, nogil=True)
def fits(a, b, c, limit):
    """Tell whether a three-word magnitude is below the two-word `limit`."""
    return c == 0 and (b < limit[1] or (b == limit[1] and a < limit[0]))


@njit(cache=True, nogil=True)
def negate(a, b):
    """Give the two words of a number's negative."""
    low = ~a + np.uint64(1)
    return low, ~b + np.uint64(low == 0)


@njit(cache=True, nogil=True)
def decimals_to_doubles(values, divisor, doubles):
    """Divide two-word decimals by a power of ten; from the magnitude, so that small negatives stay exact."""
    for row in range(len(values)):
        low, high = np.uint64(values[row, 0]), np.uint64(values[row, 1])
        if values[row, 1] < 0:
            low, high = negate(low, high)
        whole = np.float64(high) * 18446744073709551616.0 + np.float64(low)
        doubles[row] = -whole / divisor if values[row, 1] < 0 else whole / divisor


@njit(cache=True, nogil=True)
def pin_overflows(records, word, groups, limit):
    """Pin the sums of `groups` that have reached `limit`."""
    for group in groups:
        a, b, c = magnitude(records[group, word], records[group, word + 1], records[group, word + 2])
        if not fits(a, b, c, limit):
            records[group, word + 2] = PINNED


@njit(cache=True, nogil=True)
def finish_sums(sums, limit, out, fitting):
    """Narrow three-word sums to two words; `fitting` says which are below `limit`."""
    for row in range(len(sums)):
        a, b, c = magnitude(sums[row, 0], sums[row, 1], sums[row, 2])
        fitting[row] = fits(a, b, c, limit)
        out[row, 0], out[row, 1] = sums[row, 0], sums[row, 1]


@njit(cache=True, nogil=True)
def finish_averages(sums, counts, limits, scale_up, spare_digits, out, fitting):
    """Divide sums by counts, with Spark's rounding.

    `limits` holds the bounds of the sum's type and of the result's; the sum is multiplied by
    `scale_up`, a power of ten, first. Spark divides to 38 decimal places, half up, and then rounds to
    the result's scale, half up again: `spare_digits` is 38 less that scale.
    """
    for row in range(len(sums)):
        a, b, c = magnitude(sums[row, 0], sums[row, 1], sums[row, 2])
        fitting[row] = fits(a, b, c, limits[0])
        if not fitting[row] or counts[row] == 0:
            continue
        count = np.uint64(counts[row])
        a, b, c = multiply(a, b, scale_up)
        a, b, c, remainder = divide(a, b, c, count)
        if rounds_up(remainder, count, spare_digits):
            a += np.uint64(1)
            b += np.uint64(a == 0)
            c += np.uint64(a == 0 and b == 0)
        fitting[row] = fits(a, b, c, limits[1])
        if sums[row, 2] < 0:
            a, b = negate(a, b)
        out[row, 0], out[row, 1] = np.int64(a), np.int64(b)


@njit(cache=True, nogil=True)
def multiply(a, b, factor):
    """Multiply a two-word number by a factor below 2**32."""
    carry = np.uint64(0)
    low, carry = multiply_word(a, factor, carry)
    middle, carry = multiply_word(b, factor, carry)
    return low, middle, carry


@njit(cache=True, nogil=True)
def multiply_word(word, factor, carry):
    """Multiply one word by a factor below 2**32 and add a carry; gives the word and the next carry."""
    lower = (word & LOW_HALF) * factor + carry
    upper = (word >> U32) * factor + (lower >> U32)
    return (upper << U32) | (lower & LOW_HALF), upper >> U32


@njit(cache=True, nogil=True)
def divide(a, b, c, divisor):
    """Divide a three-word number by one word: quotient (three words) and remainder."""
    if divisor <= LOW_HALF:
        c, remainder = divide_word(c, np.uint64(0), divisor)
        b, remainder = divide_word(b, remainder, divisor)
        a, remainder = divide_word(a, remainder, divisor)
        return a, b, c, remainder
    return divide_by_bits(a, b, c, divisor)


@njit(cache=True, nogil=True)
def divide_word(word, remainder, divisor):
    """Divide `remainder` and `word` in a row by a divisor below 2**32, half a word at a time."""
    upper = (remainder << U32) | (word >> U32)
    lower = ((upper % divisor) << U32) | (word & LOW_HALF)
    return ((upper // divisor) << U32) | (lower // divisor), lower % divisor


@njit(cache=True, nogil=True)
def divide_by_bits(a, b, c, divisor):
    """Long division bit by bit, for the rare group of more than four thousand million rows."""
    remainder = np.uint64(0)
    top, one = np.uint64(63), np.uint64(1)
    for _ in range(192):
        remainder = (remainder << one) | (c >> top)
        c = (c << one) | (b >> top)
        b = (b << one) | (a >> top)
        a = a << one
        # Counts stay below 2**63, so the doubled remainder never loses its top bit.
        if remainder >= divisor:
            remainder -= divisor
            a |= one
    return a, b, c, remainder


@njit(cache=True, nogil=True)
def rounds_up(remainder, divisor, spare_digits):
    """Tell whether remainder / divisor, rounded half up to `spare_digits` places, is at least a half."""
    if remainder >= divisor - remainder:
        return True
    # Below a half by d / (2 × divisor): the first rounding still reaches it if d × 10**spare <= divisor.
    short = divisor - remainder - remainder
    if spare_digits == 0 or spare_digits > 18:
        return False
    for _ in range(spare_digits):
        divisor //= np.uint64(10)
    return short <= divisor
