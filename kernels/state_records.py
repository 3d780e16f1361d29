"""The state of all keys in memory: a record of words each, timeouts, and text."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numba import njit

from .call_protocol import EXISTS, STORED
from .columns import array_of, bytes_array, column_of
from .fixed_arrays import lists_to_packed, packed_to_lists
from .kinds import Slot, decimal_digits
from .memory import empty, grown
from .native_memory import TextArena, lay_addresses
from .text import TEXT_TYPES
from .timeouts import Timeouts

WORDS_PER_LINE = 8
# Text that nothing points at is not worth a rebuild below this.
REBUILD_ABOVE = 2**20


class StateRecords:
    """Records by group.

    Parameters
    ----------
    schema
        of the state's fields.
    slots
        where each field lies within a record.
    expected
        number of groups to make room for at once.
    """

    def __init__(self, schema: pa.Schema, slots: tuple[Slot, ...], expected: int = 0) -> None:
        self.schema, self.slots = schema, slots
        self._used = max((slot.word + slot.words for slot in slots), default=1)
        # As in `Records`: short rows are padded so that none straddles two cache lines.
        self.width = self._used if self._used > WORDS_PER_LINE else 1 << (self._used - 1).bit_length()
        self.words = empty((max(expected, 1), self.width), np.int64)
        self.timeouts = Timeouts()
        self.arena = TextArena()
        self.text_words = np.array([slot.word for slot in slots if slot.kind in TEXT_TYPES], np.int64)

    @property
    def nbytes(self) -> int:
        return self.words.nbytes + self.timeouts.nbytes + self.arena.nbytes

    def start(self, new: np.ndarray, capacity: int) -> None:
        """Begin the records of new groups, in a table that has room for `capacity` groups."""
        self.words = grown(self.words, len(self.words), capacity)
        self.timeouts.reserve(capacity)
        clear_records(self.words, new)

    def collect_garbage(self, live: np.ndarray) -> None:
        """Give memory back if most text belongs to nobody; `live` are the groups whose text is kept."""
        self.arena.rebuild(self.words, live, self.text_words)

    @property
    def is_wasteful(self) -> bool:
        """Whether most text belongs to nobody."""
        return self.arena.garbage > max(REBUILD_ABOVE, self.arena.nbytes // 2)

    # --- as Arrow ---

    def exists(self, groups: np.ndarray) -> np.ndarray:
        """Tell which groups have state; the others only have, or had, a timeout."""
        return self.words[groups, 0] & EXISTS != 0

    def arrays(self, groups: np.ndarray) -> list[pa.Array]:
        """Give the fields of some groups."""
        return [self._array(slot, f.type, groups) for slot, f in zip(self.slots, self.schema, strict=True)]

    def _array(self, slot: Slot, data_type: pa.DataType, groups: np.ndarray) -> pa.Array:
        marks = self.words[groups, slot.bit // 64] >> np.int64(slot.bit % 64)
        valid = marks & 1 == 0
        if slot.length:
            return packed_to_lists(self.words[groups, slot.word : slot.word + slot.words], data_type, valid)
        if slot.kind in TEXT_TYPES:
            addresses, lengths = self.words[groups, slot.word], self.words[groups, slot.word + 1].copy()
            return text_array(data_type, addresses, lengths, valid)
        if decimal_digits(slot.kind):
            return array_of(data_type, self.words[groups, slot.word : slot.word + 2], valid)
        values = self.words[groups, slot.word]
        return array_of(data_type, values.view(np.float64) if pt.is_floating(data_type) else values, valid)

    def load(self, groups: np.ndarray, arrays: list[pa.Array], exists: np.ndarray, timeouts: np.ndarray) -> None:
        """Fill the records of groups that have just begun."""
        for slot, array in zip(self.slots, arrays, strict=True):
            self._load(slot, array, groups)
        self.words[groups, 0] |= np.where(exists, STORED | EXISTS, STORED)
        self.timeouts.put(groups, timeouts)

    def _load(self, slot: Slot, array: pa.Array, groups: np.ndarray) -> None:
        null = np.zeros(len(array), np.bool_)
        if array.null_count:
            null = array.is_null().to_numpy(zero_copy_only=False)
            self.words[groups[null], slot.bit // 64] |= np.int64(np.uint64(1 << (slot.bit % 64)))
        if slot.length:
            self.words[groups, slot.word : slot.word + slot.words] = lists_to_packed(array, slot.name)
            return
        column = column_of(array)
        if slot.kind in TEXT_TYPES:
            lengths = column.ends - column.starts
            lengths[null] = 0
            self.arena.adopt(self.words, slot.word, groups, column.starts, lengths, column.data)
            return
        if decimal_digits(slot.kind):
            self.words[groups, slot.word : slot.word + 2] = np.where(null[:, None], 0, column.values)
            return
        values = column.values.view(np.int64)
        self.words[groups, slot.word] = np.where(null, 0, values)


@njit(cache=True, nogil=True)
def clear_records(words, groups):
    """Zero the records of some groups."""
    for group in groups:
        for word in range(words.shape[1]):
            words[group, word] = 0


def text_array(data_type: pa.DataType, addresses: np.ndarray, lengths: np.ndarray, valid: np.ndarray) -> pa.Array:
    """Gather text by address."""
    data = np.empty(int(lengths.sum()), np.uint8)
    lay_addresses(addresses, lengths, data)
    return bytes_array(data_type, lengths, data, valid)
