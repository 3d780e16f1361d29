"""The verbs of which aggregates are made: each runs one loop over one chunk of rows.

A step is called as ``step(records, chunk)``. It finds its input column by position and its
accumulator through its `Field`, so that aggregates can be written as plain lists of steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from . import accumulate as acc
from . import accumulate_by as by
from .columns import Column, Form
from .memory import freeze
from .records import Field, Records


@dataclass(slots=True)
class Chunk:
    """Rows `base` … of some input columns, and the group of each."""

    inputs: Sequence[Column]
    groups: np.ndarray
    base: int
    won: np.ndarray  # scratch: which rows won the last contest


class Step(Protocol):
    def __call__(self, records: Records, chunk: Chunk) -> None: ...


@dataclass(frozen=True)
class CountRows:
    field: Field

    def __call__(self, records: Records, chunk: Chunk) -> None:
        acc.count_rows(records.words, self.field.at, chunk.groups)


@dataclass(frozen=True)
class CountValid:
    field: Field
    source: int

    def __call__(self, records: Records, chunk: Chunk) -> None:
        column = chunk.inputs[self.source]
        acc.count_valid(records.words, self.field.at, chunk.groups, chunk.base, column.valid, column.offset)


@dataclass(frozen=True)
class Fold:
    """Run a loop of `accumulate` that takes one value per row and the accumulator, and no more."""

    loop: Callable
    field: Field
    source: int

    def __call__(self, records: Records, chunk: Chunk) -> None:
        column = chunk.inputs[self.source]
        self.loop(records.words, self.field.at, chunk.groups, chunk.base, column.values, column.valid, column.offset)


@dataclass(frozen=True)
class AddChecked:
    """Sum int64 values, or exact two-word sums of them, and note every time a sum wraps around."""

    field: Field
    source: int

    def __call__(self, records: Records, chunk: Chunk) -> None:
        column, rows = chunk.inputs[self.source], len(chunk.groups)
        values, base = column.values, chunk.base
        if values.ndim == 2:
            sums, base = values[base : base + rows], 0
            values = freeze(sums[:, 0].copy())
            self._note_upper(records, chunk, sums)
        wraps = np.empty(rows, np.int64)
        count = acc.add_int_checked(
            records.words, self.field.at, chunk.groups, base, values, column.valid,
            column.offset + chunk.base - base, wraps,
        )  # fmt: skip
        for i in wraps[:count]:
            records.note_wraps(self.field, chunk.groups[i], 1 if values[base + i] >= 0 else -1)

    def _note_upper(self, records: Records, chunk: Chunk, sums: np.ndarray) -> None:
        """Note what of the sums the lower words do not hold."""
        valid = chunk.inputs[self.source].valid_rows(chunk.base, len(sums))
        upper = np.where(valid, sums[:, 1] - (sums[:, 0] >> 63), 0)
        for i in np.flatnonzero(upper):
            records.note_wraps(self.field, chunk.groups[i], int(upper[i]))


@dataclass(frozen=True)
class AddWords:
    field: Field
    source: int

    def __call__(self, records: Records, chunk: Chunk) -> None:
        column = chunk.inputs[self.source]
        acc.add_words(
            records.words, self.field.at, self.field.words, chunk.groups, chunk.base,
            column.values, column.valid, column.offset,
        )  # fmt: skip


@dataclass(frozen=True)
class MergeMoments:
    """Merge count, mean and squares, which stand in three fields in a row and in inputs 0 to 2."""

    count: Field

    def __call__(self, records: Records, chunk: Chunk) -> None:
        counts, means, squares = (column.values for column in chunk.inputs[:3])
        acc.merge_moments(records.words, self.count.at, chunk.groups, chunk.base, counts, means, squares)


@dataclass(frozen=True)
class KeepGreatest:
    """Greatest one-word value, or the least where the field flips."""

    field: Field
    source: int

    def __call__(self, records: Records, chunk: Chunk) -> None:
        column = chunk.inputs[self.source]
        acc.keep_greatest(
            records.words, self.field.at, chunk.groups, chunk.base,
            column.values, column.valid, column.offset, self.field.flip,
        )  # fmt: skip


@dataclass(frozen=True)
class WinAll:
    def __call__(self, records: Records, chunk: Chunk) -> None:
        chunk.won.fill(True)


@dataclass(frozen=True)
class WinValid:
    source: int

    def __call__(self, records: Records, chunk: Chunk) -> None:
        column = chunk.inputs[self.source]
        by.win_valid(chunk.won, chunk.base, column.valid, column.offset)


@dataclass(frozen=True)
class WinTrue:
    source: int

    def __call__(self, records: Records, chunk: Chunk) -> None:
        by.win_true(chunk.won, chunk.base, chunk.inputs[self.source].values)


@dataclass(frozen=True)
class WinUnseen:
    seen: Field

    def __call__(self, records: Records, chunk: Chunk) -> None:
        by.win_unseen(records.words, self.seen.at, chunk.groups, chunk.won)


@dataclass(frozen=True)
class MarkSeen:
    seen: Field

    def __call__(self, records: Records, chunk: Chunk) -> None:
        by.mark_seen(records.words, self.seen.at, chunk.groups, chunk.won)


@dataclass(frozen=True)
class Contest:
    """Let rows compete for the greatest value, or the least where `least` is set."""

    field: Field
    source: int
    least: bool

    def __call__(self, records: Records, chunk: Chunk) -> None:
        column, words, at = chunk.inputs[self.source], records.words, self.field.at
        if column.form is Form.BYTES:
            arena = room_for(records, column, chunk)
            sign = -1 if self.least else 1
            settle(records, by.contest_bytes(
                words, at, chunk.groups, chunk.base, spans_of(column), column.valid, column.offset,
                sign, arena, chunk.won,
            ))  # fmt: skip
            return
        loop = by.contest_decimals if column.form is Form.DECIMAL else by.contest_words
        loop(
            words, at, chunk.groups, chunk.base, column.values, column.valid, column.offset,
            self.field.flip, chunk.won,
        )  # fmt: skip


@dataclass(frozen=True)
class Assign:
    """Copy the values of the rows that won."""

    field: Field
    source: int

    def __call__(self, records: Records, chunk: Chunk) -> None:
        column, words, at = chunk.inputs[self.source], records.words, self.field.at
        if column.form is Form.BYTES:
            arena = room_for(records, column, chunk)
            settle(records, by.assign_bytes(
                words, at, chunk.groups, chunk.base, spans_of(column), column.valid, column.offset,
                arena, chunk.won,
            ))  # fmt: skip
            return
        loop = by.assign_decimals if column.form is Form.DECIMAL else by.assign_words
        # A double is copied as the word of its bits.
        values = column.values.view(np.int64)
        loop(words, at, chunk.groups, chunk.base, values, column.valid, column.offset, chunk.won)


def spans_of(column: Column) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return column.starts, column.ends, column.data


def room_for(records: Records, column: Column, chunk: Chunk) -> tuple[np.ndarray, int]:
    """Make room in the arena for every byte string of the chunk, so that the loop need not grow it."""
    rows = slice(chunk.base, chunk.base + len(chunk.groups))
    records.arena.reserve(int((column.ends[rows] - column.starts[rows]).sum()))
    return records.arena.data, records.arena.used


def settle(records: Records, outcome: tuple[int, int]) -> None:
    """Note how far a loop has filled the arena and what it dropped."""
    records.arena.used = outcome[0]
    records.arena.garbage += outcome[1]
