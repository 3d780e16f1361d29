"""Byte strings of many lengths in one growing array, and gathering spans of it."""

from __future__ import annotations

import numpy as np
from numba import njit

from .memory import copy_bytes, freeze, grown


class Arena:
    """Bytes appended one span after another; spans are known to others by start and length.

    Dropped spans are only counted (`garbage`): whoever holds the spans decides when to rebuild.
    """

    def __init__(self, capacity: int = 0) -> None:
        self.data = np.empty(capacity, np.uint8)
        self.used = 0
        self.garbage = 0

    @property
    def nbytes(self) -> int:
        return self.data.nbytes

    def reserve(self, extra: int) -> None:
        """Make room for `extra` more bytes, so that a kernel can append without growing."""
        self.data = grown(self.data, self.used, self.used + extra)


def gather_spans(data: np.ndarray, starts: np.ndarray, lengths: np.ndarray, out: np.ndarray) -> None:
    """Lay the spans of many rows one after another into `out`, whoever owns the bytes."""
    lay_spans(freeze(data), freeze(starts), freeze(lengths), out)


@njit(cache=True, nogil=True)
def lay_spans(data, starts, lengths, out):
    """The loop of `gather_spans`."""
    at = 0
    for row in range(len(starts)):
        copy_bytes(data, starts[row], out, at, lengths[row])
        at += lengths[row]
