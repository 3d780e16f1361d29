"""Byte strings of many lengths in one growing array, and gathering spans of it."""

from __future__ import annotations

import numpy as np
from numba import njit

from .memory import copy_bytes, grown


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


@njit(cache=True, nogil=True)
def gather_spans(data, starts, lengths, out):
    """Lay the spans of many rows one after another into `out`."""
    at = 0
    for row in range(len(starts)):
        copy_bytes(data, starts[row], out, at, lengths[row])
        at += lengths[row]
