"""Timeouts of keys, and which of them have passed.

One word per key, and for every block of keys a lower bound of its timeouts. Looking for what has passed
reads the bounds and the few blocks whose bound has passed; so it costs about what times out, and
setting a timeout costs two stores.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .memory import freeze, grown

NONE = np.int64(-1)
NEVER = np.int64(2**63 - 1)
BLOCK_SHIFT = 9
BLOCK = 1 << BLOCK_SHIFT


class Timeouts:
    """Timeouts by group, in milliseconds; −1 where a group has none.

    Examples
    --------
    >>> timeouts = Timeouts()
    >>> timeouts.reserve(3)
    >>> timeouts.put(np.array([0, 2], np.uint32), np.array([500, 900]))
    >>> timeouts.passed(900).tolist()
    [0]
    """

    def __init__(self) -> None:
        self.times = np.empty(0, np.int64)
        self.earliest = np.empty(0, np.int64)

    @property
    def nbytes(self) -> int:
        return self.times.nbytes + self.earliest.nbytes

    def reserve(self, groups: int) -> None:
        """Make room for groups up to a number; new ones have no timeout."""
        known = len(self.times)
        if groups > known:
            self.times = grown(self.times, known, groups)
            self.times[known:] = NONE
            blocks = len(self.earliest)
            self.earliest = grown(self.earliest, blocks, (len(self.times) + BLOCK - 1) >> BLOCK_SHIFT)
            self.earliest[blocks:] = NEVER

    def put(self, groups: np.ndarray, times: np.ndarray) -> None:
        """Set timeouts."""
        put_times(self.times, self.earliest, groups, freeze(times))

    def passed(self, threshold: int) -> np.ndarray:
        """Give the groups whose timeout lies before a threshold, ascending."""
        found = np.empty(len(self.times), np.uint32)
        return found[: find_passed(self.times, self.earliest, np.int64(threshold), found)].copy()


@njit(cache=True, nogil=True)
def put_times(times, earliest, groups, new):
    """The loop of `Timeouts.put`."""
    for i in range(len(groups)):
        group = groups[i]
        times[group] = new[i]
        if new[i] != NONE:
            earliest[group >> BLOCK_SHIFT] = min(earliest[group >> BLOCK_SHIFT], new[i])


@njit(cache=True, nogil=True)
def find_passed(times, earliest, threshold, found):
    """List the groups with a timeout before the threshold and tighten the bounds on the way."""
    count = 0
    for block in range(len(earliest)):
        if earliest[block] >= threshold:
            continue
        least = NEVER
        for group in range(block << BLOCK_SHIFT, min((block + 1) << BLOCK_SHIFT, len(times))):
            if times[group] != NONE:
                least = min(least, times[group])
                if times[group] < threshold:
                    found[count] = group
                    count += 1
        earliest[block] = least
    return count
