"""Key columns as rows of canonical 64-bit words, plus at most one byte string a row.

Two rows have the same key exactly when their words and bytes are equal. To make that so:

- integers, booleans, dates and timestamps take one word, decimals two;
- floats are widened to double, with one bit pattern for all NaNs and one for both zeros;
- a single string or binary column is used as it lies in Arrow memory; several are joined into one
  byte string, each behind its length;
- a null becomes zero words or no bytes, and a bit in one extra *null word*. The null word is
  appended only once a null key has been seen, so that keys without nulls stay narrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numba import njit

from .arena import gather_spans
from .columns import NO_BYTES, NO_WORDS, Column, Form, array_of, bytes_array, form_of
from .errors import InvalidArgument
from .hashing import follow, hash_in_bytes, hash_in_nulls, hash_single_words, hash_words, mix
from .memory import copy_bytes, freeze

MAX_KEYS = 64
LENGTH_BYTES = 4
CANONICAL_NAN = np.uint64(0x7FF8000000000000)
FORM_WORDS = {Form.WORD: 1, Form.FLOAT: 1, Form.DECIMAL: 2, Form.BYTES: 0}


@dataclass(slots=True)
class Keys:
    """The keys of a batch of rows: words, the bytes (if the layout has any) and the hashes."""

    words: np.ndarray  # uint64 (rows, words), the null word last if there is one
    starts: np.ndarray  # of each row's bytes in `data`
    ends: np.ndarray
    data: np.ndarray
    hashes: np.ndarray
    byte_count: int  # of all rows' bytes together

    def __len__(self) -> int:
        return len(self.hashes)


class KeyLayout:
    """How the key columns of one query become words and bytes, and back.

    Parameters
    ----------
    types
        storage type of each key column, in order. None at all means one group for everything.
    """

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        if len(types) > MAX_KEYS:
            raise InvalidArgument.of("keys", f"{len(types)} columns", f"at most {MAX_KEYS}")
        self.types = tuple(types)
        self.forms = tuple(form_of(t) for t in types)
        self.positions = self._place()
        self._is_pair = self.forms == (Form.WORD, Form.WORD)
        self.byte_columns = [i for i, form in enumerate(self.forms) if form is Form.BYTES]

    def _place(self) -> tuple[int, ...]:
        positions, used = [], 0
        for form in self.forms:
            positions.append(used)
            used += FORM_WORDS[form]
        # Without key columns a constant word keeps every row in one group.
        self.words = used if self.types else 1
        return tuple(positions)

    @property
    def has_bytes(self) -> bool:
        return bool(self.byte_columns)

    def encode(self, columns: Sequence[Column], base: int, rows: int, with_nulls: bool) -> Keys:
        """Turn `rows` rows of the key columns, from row `base` on, into keys.

        `with_nulls` appends the null word; it must be set where any of the columns holds a null.
        """
        if self._is_pair and not with_nulls:
            return pair_keys(*(column.values[base : base + rows] for column in columns))
        words = self._encode_words(columns, base, rows, with_nulls)
        starts, ends, data = self._encode_bytes(columns, base, rows)
        return Keys(words, starts, ends, data, *self.hash(words, starts, ends, data))

    def hash(self, words: np.ndarray, starts: np.ndarray, ends: np.ndarray, data: np.ndarray) -> tuple[np.ndarray, int]:
        """Hash keys, be they of a batch or read back from a table; also counts their bytes."""
        hashes = np.empty(len(words), np.uint64)
        if words.shape[1] == 1 and self.words == 1:
            hash_single_words(words, hashes)
        else:
            hash_words(words, self.words, hashes)
        byte_count = hash_in_bytes(starts, ends, data, hashes) if self.has_bytes else 0
        if words.shape[1] > self.words:
            hash_in_nulls(words, self.words, hashes)
        return hashes, byte_count

    def _encode_words(self, columns: Sequence[Column], base: int, rows: int, with_nulls: bool) -> np.ndarray:
        stop = base + rows
        if len(columns) == 1 and self.forms[0] is Form.WORD and not with_nulls:
            # The hottest case, one integer-like column, is used where it lies.
            return columns[0].values[base:stop].view(np.uint64).reshape(rows, 1)
        shape = (rows, self.words + with_nulls)
        # Without nulls every word is written below, unless there are no columns at all.
        words = np.empty(shape, np.uint64) if columns and not with_nulls else np.zeros(shape, np.uint64)
        for i, (column, form, at) in enumerate(zip(columns, self.forms, self.positions, strict=True)):
            if form is Form.WORD:
                place_words(column.values, base, words, at)
            elif form is Form.FLOAT:
                canonical_floats(column.values[base:stop], words, at)
            elif form is Form.DECIMAL:
                words[:, at : at + 2] = column.values[base:stop].view(np.uint64)
            if column.has_nulls:
                mark_nulls(words, at, FORM_WORDS[form], i, column.valid, column.offset + base)
        return freeze(words)

    def _encode_bytes(
        self, columns: Sequence[Column], base: int, rows: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        if not self.byte_columns:
            return NO_WORDS, NO_WORDS, NO_BYTES
        stop = base + rows
        chosen = [columns[i] for i in self.byte_columns]
        if len(chosen) == 1 and not chosen[0].has_nulls:
            return chosen[0].starts[base:stop], chosen[0].ends[base:stop], chosen[0].data
        lengths = [self._lengths(column, base, rows) for column in chosen]
        prefix = LENGTH_BYTES if len(chosen) > 1 else 0
        ends = np.cumsum(sum(lengths) + prefix * len(chosen), dtype=np.int64)
        starts = np.concatenate(([0], ends[:-1]))
        data = np.empty(int(ends[-1]) if rows else 0, np.uint8)
        cursors = starts.copy()
        for column, length in zip(chosen, lengths, strict=True):
            append_spans(column.data, column.starts[base:stop], length, prefix, data, cursors)
        return freeze(starts), freeze(ends), freeze(data)

    @staticmethod
    def _lengths(column: Column, base: int, rows: int) -> np.ndarray:
        lengths = column.ends[base : base + rows] - column.starts[base : base + rows]
        if column.has_nulls:
            # Arrow lets a null row span any bytes at all; they must not reach the key.
            lengths[~column.valid_rows(base, rows)] = 0
        return lengths

    def decode(self, columns: np.ndarray, data: np.ndarray) -> list[pa.Array]:
        """Turn stored keys back into one Arrow array per key column.

        `columns` has a row per word of the keys, null word and bytes included, as
        `HashTable.key_columns` gives them; `data` is what the keys' bytes lie in.
        """
        has_null_word = len(columns) > self.words + 2 * self.has_bytes
        nulls = columns[self.words] if has_null_word else None
        cursors, lengths = columns[-2:].astype(np.int64) if self.has_bytes else (NO_WORDS, NO_WORDS)
        return [self._decode_column(i, columns, nulls, cursors, lengths, data) for i in range(len(self.types))]

    def _decode_column(
        self,
        i: int,
        columns: np.ndarray,
        nulls: np.ndarray | None,
        cursors: np.ndarray,
        lengths: np.ndarray,
        data: np.ndarray,
    ) -> pa.Array:
        data_type, form, at = self.types[i], self.forms[i], self.positions[i]
        valid = None if nulls is None else (nulls >> np.uint64(i)) & np.uint64(1) == 0
        if form is Form.BYTES:
            if len(self.byte_columns) > 1:
                lengths = np.empty(len(cursors), np.int64)
                read_lengths(data, cursors, lengths)
            out = np.empty(int(lengths.sum()), np.uint8)
            gather_spans(data, cursors, lengths, out)
            # The next byte column of the same key, if there is one, begins where this one ends.
            cursors += lengths
            return bytes_array(data_type, lengths, out, valid)
        if form is Form.DECIMAL:
            return array_of(data_type, columns[at : at + 2].T, valid)
        return array_of(data_type, columns[at].view(np.float64 if pt.is_floating(data_type) else np.int64), valid)


def pair_keys(first: np.ndarray, second: np.ndarray) -> Keys:
    """Encode and hash two columns of words in one pass, such as a number and a window: a hot case."""
    rows = len(first)
    words, hashes = np.empty((rows, 2), np.uint64), np.empty(rows, np.uint64)
    place_pairs(first, second, words, hashes)
    return Keys(freeze(words), NO_WORDS, NO_WORDS, NO_BYTES, hashes, 0)


@njit(cache=True, nogil=True)
def place_pairs(first, second, words, hashes):
    """Write two columns into the words of every row, and hash them as `hash_words` does."""
    for row in range(len(words)):
        words[row, 0], words[row, 1] = np.uint64(first[row]), np.uint64(second[row])
    for row in range(len(words)):
        hashes[row] = mix(follow(np.uint64(first[row]), np.uint64(second[row])))


@njit(cache=True, nogil=True)
def place_words(values, base, words, at):
    """Write one column's values into one word of every row."""
    for row in range(len(words)):
        words[row, at] = np.uint64(values[base + row])


@njit(cache=True, nogil=True)
def canonical_floats(values, words, at):
    """Write doubles as words, with one pattern for every NaN and one for both zeros."""
    for row in range(len(values)):
        value = values[row]
        if value != value:
            words[row, at] = CANONICAL_NAN
        else:
            # Adding zero turns -0.0 into 0.0 and leaves every other number alone.
            words[row, at] = np.float64(value + 0.0).view(np.uint64)


@njit(cache=True, nogil=True)
def mark_nulls(words, at, count, bit, valid, offset):
    """Zero the words of null rows and set the column's bit in the null word, the last of each row."""
    last = words.shape[1] - 1
    for row in range(len(words)):
        position = offset + row
        if (valid[position >> 3] >> (position & 7)) & 1 == 0:
            for word in range(at, at + count):
                words[row, word] = 0
            words[row, last] |= np.uint64(1) << np.uint64(bit)


@njit(cache=True, nogil=True)
def append_spans(source, starts, lengths, prefix, data, cursors):
    """Append one column's bytes to every row's key, each behind `prefix` bytes of its length."""
    for row in range(len(starts)):
        at, length = cursors[row], lengths[row]
        for i in range(prefix):
            data[at + i] = (length >> (8 * i)) & 0xFF
        copy_bytes(source, starts[row], data, at + prefix, length)
        cursors[row] = at + prefix + length


@njit(cache=True, nogil=True)
def read_lengths(data, cursors, lengths):
    """Read the length that stands at each cursor and move the cursor behind it."""
    for row in range(len(cursors)):
        at = cursors[row]
        length = np.int64(0)
        for i in range(LENGTH_BYTES):
            length |= np.int64(data[at + i]) << (8 * i)
        lengths[row] = length
        cursors[row] = at + LENGTH_BYTES
