"""Small numbers for things that come and go: groups of a table, rows of a store."""

from __future__ import annotations

import numpy as np

from .memory import grown


class NumberPool:
    """Hands out numbers from zero on; those given back are handed out again, the latest first.

    Examples
    --------
    >>> pool = NumberPool()
    >>> pool.take(3).tolist()
    [0, 1, 2]
    >>> pool.give_back(np.array([1], np.uint32))
    >>> pool.take(2).tolist(), len(pool)
    ([1, 3], 4)
    """

    def __init__(self) -> None:
        self._free = np.empty(0, np.uint32)
        self._free_count = 0
        self.high_water = 0

    def __len__(self) -> int:
        return self.high_water - self._free_count

    @property
    def nbytes(self) -> int:
        return self._free.nbytes

    @property
    def supply(self) -> tuple[np.ndarray, int, int]:
        """What a kernel needs to choose numbers by itself: freed ones, how many, and the first unused."""
        return self._free, self._free_count, self.high_water

    def taken(self, count: int) -> None:
        """Note that the first `count` numbers of the supply are in use now."""
        reused = min(count, self._free_count)
        self._free_count -= reused
        self.high_water += count - reused

    def take(self, count: int) -> np.ndarray:
        """Hand out `count` numbers."""
        reused = self._free[: self._free_count][::-1][:count]
        unused = np.arange(self.high_water, self.high_water + count - len(reused), dtype=np.uint32)
        numbers = np.concatenate((reused, unused))
        self.taken(count)
        return numbers

    def give_back(self, numbers: np.ndarray) -> None:
        """Take numbers back; each must be in use."""
        count = self._free_count + len(numbers)
        self._free = grown(self._free, self._free_count, count)
        self._free[self._free_count : count] = numbers
        self._free_count = count

    def live(self) -> np.ndarray:
        """Give all numbers in use, ascending."""
        if not self._free_count:
            return np.arange(self.high_water, dtype=np.uint32)
        alive = np.ones(self.high_water, np.bool_)
        alive[self._free[: self._free_count]] = False
        return np.flatnonzero(alive).astype(np.uint32)
