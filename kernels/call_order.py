"""Which rows belong to which call: a counting sort by group, and the order of rows within a call."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numba import njit

from .columns import Column, Form
from .memory import empty, grown
from .records import to_ordered

NONE = np.int32(-1)
INSERTION_MOST = 24


@dataclass
class Calls:
    """Calls in order: the group of each, and where its row numbers begin in `order`."""

    groups: np.ndarray
    starts: np.ndarray
    order: np.ndarray

    def __len__(self) -> int:
        return len(self.groups)


class CallOrder:
    """Numbers the groups of a batch in order of first appearance; one call each."""

    def __init__(self) -> None:
        self._call_of = np.empty(0, np.int32)

    @property
    def nbytes(self) -> int:
        return self._call_of.nbytes

    def arrange(self, groups: np.ndarray, extra: np.ndarray, high_water: int) -> Calls:
        """Arrange rows, given the group of each; groups in `extra` have a call even without rows."""
        known = len(self._call_of)
        self._call_of = grown(self._call_of, known, high_water)
        self._call_of[known:] = NONE
        rows = len(groups)
        met = empty((min(rows + len(extra), high_water),), np.uint32)
        counts = empty((len(met),), np.int64)
        count = number_calls(self._call_of, groups, extra, met, counts)
        starts = np.zeros(count + 1, np.int64)
        np.cumsum(counts[:count], out=starts[1:])
        order = empty((rows,), np.int64)
        place_rows(self._call_of, groups, starts, order)
        met = met[:count]
        self._call_of[met] = NONE
        return Calls(met, starts, order)


@njit(cache=True, nogil=True)
def number_calls(call_of, groups, extra, met, counts):
    """Number groups as they are first met, and count the rows of each; returns how many there are."""
    calls = 0
    for group in groups:
        call = call_of[group]
        if call < 0:
            call = call_of[group] = calls
            met[calls] = group
            counts[calls] = 0
            calls += 1
        counts[call] += 1
    for group in extra:
        if call_of[group] < 0:
            call_of[group] = calls
            met[calls] = group
            counts[calls] = 0
            calls += 1
    return calls


@njit(cache=True, nogil=True)
def place_rows(call_of, groups, starts, order):
    """Write row numbers call by call, in order of arrival; `starts` is as before afterwards."""
    for row in range(len(groups)):
        call = call_of[groups[row]]
        order[starts[call]] = row
        starts[call] += 1
    for call in range(len(starts) - 1, 0, -1):
        starts[call] = starts[call - 1]
    starts[0] = 0


def sort_keys(array: pa.Array, column: Column) -> np.ndarray:
    """Give integers in the order of a column's values: nulls first, NaN last, −0.0 equal to 0.0."""
    if column.has_nulls or column.form in (Form.BYTES, Form.DECIMAL):
        return _ranks(array, column)
    return to_ordered(column.values + 0.0) if column.form is Form.FLOAT else column.values.copy()


def _ranks(array: pa.Array, column: Column) -> np.ndarray:
    if column.form is Form.FLOAT:
        # As integers NaN is the greatest, as in Spark; Arrow would put it elsewhere.
        mask = array.is_null().to_numpy(zero_copy_only=False)
        array = pa.array(to_ordered(column.values + 0.0), mask=mask)
    elif pt.is_boolean(array.type):
        array = array.cast(pa.int8())
    ranks = np.zeros(len(array), np.int64)
    # Ranks begin at one, which leaves zero for the nulls.
    ranks[column.valid_rows(0, len(array))] = pc.rank(array.drop_null(), tiebreaker="dense").to_numpy()
    return ranks


def sort_within_calls(calls: Calls, keys: np.ndarray) -> None:
    """Order each call's rows by a key per row; equal ones stay in order of arrival."""
    sort_rows(calls.starts, calls.order, keys)


@njit(cache=True, nogil=True)
def sort_rows(starts, order, keys):
    """The loop of `sort_within_calls`."""
    for call in range(len(starts) - 1):
        first, end = starts[call], starts[call + 1]
        if end - first > INSERTION_MOST:
            rows = order[first:end].copy()
            order[first:end] = rows[np.argsort(keys[rows], kind="mergesort")]
            continue
        for at in range(first + 1, end):
            row = order[at]
            hole = at
            while hole > first and keys[order[hole - 1]] > keys[row]:
                order[hole] = order[hole - 1]
                hole -= 1
            order[hole] = row
