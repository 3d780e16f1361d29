"""Where accumulators live: one row of words per group, and an arena for byte strings.

Rows rather than one array per accumulator: a group's accumulators then share one or two cache lines,
so a batch pays one cache miss per row, however many aggregates there are. Rows of up to a line are
padded to a power of two: on 2 M rows and 1 M groups, rows that straddle lines took 1.5× as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from .accumulate import gather_records, start_records, touch, untouch
from .accumulate_by import CAPACITY_SHIFT, LENGTH_MASK
from .arena import Arena, gather_spans
from .columns import Form, array_of, bytes_array, form_or_none
from .fixed_arrays import packed_to_lists
from .memory import empty, grown

MARKS_PER_WORD = 63
WORDS_PER_LINE = 8


@dataclass(eq=False)
class Field:
    """One accumulator of a group: its Arrow type outside, its words inside.

    `nullable` fields own a mark bit; `flip` undoes the bit flip that turns a minimum into a maximum;
    `ordered` says that a double is kept as the integer with the same order.
    """

    name: str
    type: pa.DataType
    words: int = 1
    nullable: bool = True
    initial: int | np.ndarray = 0
    flip: int = 0
    ordered: bool = False
    # First word, mark word and mark bit, as the accumulate loops want them; see `_place`.
    at: tuple[int, int, int] = field(default=(0, 0, 0), init=False)

    @property
    def word(self) -> int:
        return self.at[0]

    @property
    def is_bytes(self) -> bool:
        return form_or_none(self.type) is Form.BYTES


class Records:
    """The accumulators of all groups.

    Parameters
    ----------
    fields
        every accumulator; this places them within the record.
    expected
        number of groups to make room for at once.
    """

    def __init__(self, fields: Sequence[Field], expected: int = 0) -> None:
        self.fields = tuple(fields)
        self.template = _place(self.fields)
        self.words = empty((max(expected, 1), len(self.template)), np.int64)
        self.arena = Arena()
        self.touched = np.empty(1024, np.uint32)
        self.touched_count = 0
        plain = [f.word + f.words for f in self.fields if not pt.is_fixed_size_list(f.type)]
        self.plain_words = max([*plain, *(f.at[1] + 1 for f in self.fields)], default=1)
        self._wraps: dict[Field, dict[int, int]] = {}

    @property
    def nbytes(self) -> int:
        return self.words.nbytes + self.arena.nbytes

    def start(self, new: np.ndarray, capacity: int) -> None:
        """Begin the accumulators of new groups, in a table that has room for `capacity` groups."""
        self.words = grown(self.words, len(self.words), capacity)
        start_records(self.words, self.template, new)

    def touch(self, groups: np.ndarray) -> None:
        """Note which groups this batch meets, each once."""
        self.touched = grown(self.touched, self.touched_count, self.touched_count + len(groups))
        self.touched_count = touch(self.words, groups, self.touched, self.touched_count)

    def take_touched(self) -> np.ndarray:
        """Give the groups met since the last call, in order of first appearance, and forget them."""
        touched = self.touched[: self.touched_count].copy()
        untouch(self.words, touched)
        self.touched_count = 0
        return touched

    def note_wraps(self, f: Field, group: int, count: int) -> None:
        """Remember that a group's sum wrapped around, upwards or (negative) downwards.

        So rare that a dictionary holds it; see `wraps`.
        """
        groups = self._wraps.setdefault(f, {})
        groups[int(group)] = groups.get(int(group), 0) + count

    def wraps(self, f: Field, groups: np.ndarray) -> np.ndarray | None:
        """Tell how often each group's sum has wrapped around: how many times 2**64 it is short of."""
        noted = self._wraps.get(f)
        return np.array([noted.get(int(group), 0) for group in groups], np.int64) if noted else None

    def drop(self, groups: np.ndarray) -> None:
        """Forget groups. Their records stay as they are until the table gives the numbers out again."""
        for noted in self._wraps.values():
            for group in groups:
                noted.pop(int(group), None)
        for f in self.fields:
            if f.is_bytes:
                self.arena.garbage += int((self.words[groups, f.word + 1] >> CAPACITY_SHIFT).sum())

    def select(self, groups: np.ndarray) -> Selection:
        """Read the accumulators of some groups."""
        return Selection(self, groups)


class Selection:
    """The accumulators of some groups."""

    def __init__(self, records: Records, groups: np.ndarray) -> None:
        self.records = records
        self.groups = groups

    def __len__(self) -> int:
        return len(self.groups)

    @cached_property
    def _columns(self) -> np.ndarray:
        """The words of all fields but arrays, one column per word.

        Read in one pass, since every pass over the records costs as much as the memory they fill,
        whatever it takes from them.
        """
        columns = empty((self.records.plain_words, len(self.groups)), np.int64)
        gather_records(self.records.words, self.groups, columns)
        return columns

    def valid(self, f: Field) -> np.ndarray | None:
        """Tell which groups' accumulators have a value; None means all."""
        return self._marks(f) if f.nullable else None

    def _marks(self, f: Field) -> np.ndarray:
        _, mark, bit = f.at
        return self._columns[mark] & bit != 0

    def wraps(self, f: Field) -> np.ndarray | None:
        """Tell how often each group's sum has wrapped around; None where none has (see `Records.wraps`)."""
        return self.records.wraps(f, self.groups)

    def values(self, f: Field) -> np.ndarray:
        """Give the accumulator's values, as the field's form has them (not for bytes)."""
        if f.words == 0:
            return self._marks(f).astype(np.int64)
        kept = self._columns[f.word : f.word + f.words]
        if f.flip:
            kept = kept ^ f.flip
        if f.words > 1:
            return np.ascontiguousarray(kept.T)
        if f.ordered:
            return from_ordered(kept[0])
        return kept[0].view(np.float64) if pt.is_floating(f.type) else kept[0]

    def array(self, f: Field) -> pa.Array:
        """Give the accumulator as an Arrow array of the field's type."""
        valid = self.valid(f)
        if f.is_bytes:
            return self._bytes(f, valid)
        if pt.is_fixed_size_list(f.type):
            words = self.records.words[self.groups, f.word : f.word + f.words]
            return packed_to_lists(words, f.type)
        values = self.values(f)
        if pt.is_decimal256(f.type):
            values = np.column_stack((values, values[:, -1] >> 63))
        elif pt.is_decimal(f.type) and f.words == 1:
            wraps = self.wraps(f)
            values = np.column_stack((values, (values >> 63) + (0 if wraps is None else wraps)))
        return array_of(f.type, values, valid)

    def _bytes(self, f: Field, valid: np.ndarray | None) -> pa.Array:
        starts, lengths = self._columns[f.word], self._columns[f.word + 1] & LENGTH_MASK
        if valid is not None:
            lengths[~valid] = 0
        data = np.empty(int(lengths.sum()), np.uint8)
        gather_spans(self.records.arena.data, starts, lengths, data)
        return bytes_array(f.type, lengths, data, valid)


def _place(fields: Sequence[Field]) -> np.ndarray:
    """Give every field its words and its mark, and build the record of a group that has seen nothing."""
    marked = [f for f in fields if f.nullable or f.words == 0]
    marks = {f: (i // MARKS_PER_WORD, 1 << (i % MARKS_PER_WORD)) for i, f in enumerate(marked)}
    used = max(1, -(-len(marked) // MARKS_PER_WORD))
    for f in fields:
        f.at = (used, *marks.get(f, (0, 0)))
        used += f.words
    width = used if used > WORDS_PER_LINE else 1 << (used - 1).bit_length()
    template = np.zeros(width, np.int64)
    for f in fields:
        template[f.word : f.word + f.words] = f.initial
    return template


def to_ordered(values: np.ndarray) -> np.ndarray:
    """Map doubles to integers of the same order, NaN (any) above all, −0.0 just below 0.0."""
    bits = np.where(np.isnan(values), np.float64(np.nan), values).view(np.int64)
    return bits ^ ((bits >> 63) & np.int64(0x7FFFFFFFFFFFFFFF))


def from_ordered(ordered: np.ndarray) -> np.ndarray:
    """Undo `to_ordered`."""
    return (ordered ^ ((ordered >> 63) & np.int64(0x7FFFFFFFFFFFFFFF))).view(np.float64)
