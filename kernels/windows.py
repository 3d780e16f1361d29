"""Time windows: which windows an event time falls into, as Spark's `window` function has it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from .accumulate import is_valid
from .columns import Column
from .durations import Duration, to_microseconds
from .errors import InvalidArgument


@dataclass(frozen=True)
class Window:
    """Windows of `size` microseconds over a time column, one starting every `slide`, shifted by `start`."""

    column: str
    size: int
    slide: int
    start: int

    @property
    def overlap(self) -> int:
        """The most windows that one time can fall into."""
        return -(-self.size // self.slide)


def window(column: str, size: Duration, slide: Duration | None = None, start: Duration = 0) -> Window:
    """Describe tumbling windows, or sliding ones where `slide` is shorter than `size`.

    Parameters
    ----------
    column
        the time column.
    size, slide, start
        microseconds, a timedelta or text like ``"10 minutes"``. Windows begin at `start` past the
        epoch and every `slide` from there, in both directions.

    Examples
    --------
    >>> window("ts", "10 minutes")
    Window(column='ts', size=600000000, slide=600000000, start=0)
    >>> window("ts", "10 minutes", slide="5 minutes").overlap
    2
    """
    size_us = to_microseconds("window.size", size)
    slide_us = size_us if slide is None else to_microseconds("window.slide", slide)
    start_us = to_microseconds("window.start", start)
    if size_us <= 0:
        raise InvalidArgument.of("window.size", size, "a positive duration")
    if not 0 < slide_us <= size_us:
        raise InvalidArgument.of("window.slide", slide, f"a positive duration, at most the size ({size!r})")
    if abs(start_us) >= slide_us:
        raise InvalidArgument.of("window.start", start, f"less than the slide ({slide or size!r}) in either direction")
    return Window(column, size_us, slide_us, start_us)


def assign(times: Column, rows: int, spec: Window) -> tuple[np.ndarray | None, np.ndarray]:
    """Place each time into its windows.

    Returns
    -------
    taken, starts
        for each (row, window) pair the row and the window's start. `taken` is None where every row
        has exactly one window, so that nothing needs to be copied. Null times have no window.
    """
    starts = np.empty(rows * spec.overlap, np.int64)
    if spec.overlap == 1 and not times.has_nulls:
        tumble(times.values, spec.size, spec.start, starts)
        return None, starts
    taken = np.empty(rows * spec.overlap, np.int64)
    count = slide_over(times.values, times.valid, times.offset, spec.size, spec.slide, spec.start, taken, starts)
    return taken[:count], starts[:count]


@njit(cache=True, nogil=True)
def tumble(times, size, start, starts):
    """One window each. The remainder takes the sign of `size`, so times before 1970 come out right."""
    for row in range(len(starts)):
        starts[row] = times[row] - (times[row] - start) % size


@njit(cache=True, nogil=True)
def slide_over(times, valid, offset, size, slide, start, taken, starts):
    """Every window of every row that has a time; returns how many."""
    count = 0
    overlap = len(starts) // max(len(times), 1)
    for row in range(len(times)):
        if is_valid(valid, offset + row):
            time = times[row]
            latest = time - (time - start) % slide
            for i in range(overlap):
                begin = latest - i * slide
                if begin + size > time:
                    taken[count] = row
                    starts[count] = begin
                    count += 1
    return count
