"""Bytes as ASCII text, seven bits a character.

Spark hands state to Python through a pickler that is slow with binaries: it turns each into text in an
eight-bit alphabet, and that text into UTF-8, a byte at a time. Text that is ASCII already is copied whole.
Coding costs an eighth more space, and a hundred times less time than it saves.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .memory import empty, load_word, store_word

LOW_SEVEN = np.uint64(0x7F)
# Fields of 56, 28 and 14 bits are parted in two, with room for one more bit of every byte, or joined again:
# 5× as fast as byte by byte.
LOW_28, LOW_14, LOW_7 = np.uint64(0x0FFFFFFF), np.uint64(0x3FFF00003FFF), np.uint64(0x7F007F007F007F)
FOUR, TWO, ONE = np.uint64(4), np.uint64(2), np.uint64(1)


def to_text(data: bytes | memoryview) -> str:
    """Write bytes as ASCII text.

    Examples
    --------
    >>> to_text(b"\\xff\\x00")
    '\\x7f\\x01\\x00'
    """
    raw = np.frombuffer(data, np.uint8)
    text = empty((len(raw) + -(-len(raw) // 7),), np.uint8)
    spread(raw, text)
    return str(text.data, "ascii")


def from_text(text: str) -> memoryview:
    """Read what `to_text` wrote.

    Examples
    --------
    >>> bytes(from_text("\\x7f\\x01\\x00"))
    b'\\xff\\x00'
    """
    raw = empty((len(text) * 7 // 8,), np.uint8)
    gather(np.frombuffer(text.encode("ascii"), np.uint8), raw)
    return raw.data


@njit(cache=True, nogil=True)
def spread(raw, text):
    """Write every seven bytes as eight of seven bits, lowest bits first."""
    # A block is read as a word, which must not reach past the end.
    whole = max(len(raw) - 1, 0) // 7
    for i in range(whole):
        word = load_word(raw, 7 * i)
        word = (word & LOW_28) | (word & LOW_28 << np.uint64(28)) << FOUR
        word = (word & LOW_14) | (word & LOW_14 << np.uint64(14)) << TWO
        word = (word & LOW_7) | (word & LOW_7 << np.uint64(7)) << ONE
        store_word(text, 8 * i, word)
    word = np.uint64(0)
    for j in range(7 * whole, len(raw)):
        word |= np.uint64(raw[j]) << np.uint64(8 * (j - 7 * whole))
    for j in range(8 * whole, len(text)):
        text[j] = np.uint8(word >> np.uint64(7 * (j - 8 * whole)) & LOW_SEVEN)


@njit(cache=True, nogil=True)
def gather(text, raw):
    """The way back."""
    whole = max(len(raw) - 1, 0) // 7
    for i in range(whole):
        word = load_word(text, 8 * i)
        word = (word & LOW_7) | word >> ONE & LOW_7 << np.uint64(7)
        word = (word & LOW_14) | word >> TWO & LOW_14 << np.uint64(14)
        word = (word & LOW_28) | word >> FOUR & LOW_28 << np.uint64(28)
        # The eighth byte is the next block's, which is written after it.
        store_word(raw, 7 * i, word)
    word = np.uint64(0)
    for j in range(8 * whole, len(text)):
        word |= np.uint64(text[j]) << np.uint64(7 * (j - 8 * whole))
    for j in range(7 * whole, len(raw)):
        raw[j] = np.uint8(word >> np.uint64(8 * (j - 7 * whole)))
