"""64-bit hashes of key words and of byte strings.

A hash has two uses that must not share bits: the table takes the *upper* 32 bits for slots and tags,
`partition` takes the *lower* 32. Were they the same, all keys of one bucket would crowd into one
corner of the bucket's table.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .memory import load_word

LENGTH_SEED = np.uint64(0x9E3779B97F4A7C15)
MULTIPLIER_1 = np.uint64(0xBF58476D1CE4E5B9)
MULTIPLIER_2 = np.uint64(0x94D049BB133111EB)
# Shift counts are uint64 too: mixed with signed ints, Numba would turn the arithmetic into float64.
U8, U27, U30, U31, U32 = (np.uint64(bits) for bits in (8, 27, 30, 31, 32))


@njit(cache=True, nogil=True)
def mix(x):
    """Scramble one word so that every input bit moves every output bit (a bijection, after splitmix64)."""
    x = (x ^ (x >> U30)) * MULTIPLIER_1
    x = (x ^ (x >> U27)) * MULTIPLIER_2
    return x ^ (x >> U31)


@njit(cache=True, nogil=True)
def follow(h, word):
    """Take one more word into a running hash that `mix` will end; a third of the work of mixing each."""
    h *= MULTIPLIER_1
    return h ^ (h >> U32) ^ word


@njit(cache=True, nogil=True)
def hash_single_words(words, hashes):
    """Hash rows of one word; a loop of its own because it vectorises (4× faster than the general one)."""
    for row in range(len(hashes)):
        hashes[row] = mix(words[row, 0])


@njit(cache=True, nogil=True)
def hash_words(words, count, hashes):
    """Hash the first `count` words of each row; keys of bytes alone have none."""
    for row in range(len(hashes)):
        h = words[row, 0] if count > 0 else np.uint64(0)
        for column in range(1, count):
            h = follow(h, words[row, column])
        hashes[row] = mix(h)


@njit(cache=True, nogil=True)
def hash_in_nulls(words, null_column, hashes):
    """Fold each row's null word into its hash; no null leaves the hash as it was.

    So a table built before the first null key was seen still finds its keys afterwards.
    """
    for row in range(len(hashes)):
        nulls = words[row, null_column]
        if nulls != 0:
            hashes[row] = mix(hashes[row] ^ nulls)


@njit(cache=True, nogil=True)
def hash_in_bytes(starts, ends, data, hashes):
    """Fold a byte string per row into the hashes of the rows' words, eight bytes at a time.

    The last eight bytes may overlap those before; a string of fewer than eight is one short word.
    Returns how many bytes there are in all.
    """
    total = 0
    for row in range(len(hashes)):
        start, end = starts[row], ends[row]
        length = end - start
        total += length
        h = np.uint64(length) * LENGTH_SEED
        if length >= 8:
            for position in range(start, end - 8, 8):
                h = absorb(h, load_word(data, position))
            h = absorb(h, load_word(data, end - 8))
        else:
            tail = np.uint64(0)
            for position in range(start, end):
                tail = (tail << U8) | np.uint64(data[position])
            h = absorb(h, tail)
        hashes[row] = mix(hashes[row] ^ h)
    return total


@njit(cache=True, nogil=True)
def absorb(h, word):
    """Take one more word into a running hash; cheaper than `mix`, which still follows at the end."""
    h = (h ^ word) * MULTIPLIER_1
    return h ^ (h >> U32)


@njit(cache=True, nogil=True)
def partition(hashes, count, parts):
    """Write each row's bucket in 0 … `count` − 1, from the lower half of its hash (fixed-point multiply)."""
    for row in range(len(hashes)):
        low = hashes[row] & np.uint64(0xFFFFFFFF)
        parts[row] = np.int32((low * np.uint64(count)) >> U32)
