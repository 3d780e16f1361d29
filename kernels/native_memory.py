"""Memory that compiled functions let grow while they run: emitted rows, and the text that state keeps.

Each is described by a short array of words, its *header*, whose address the views carry. Python makes
the header, and gives back the memory when it is done.
"""

from __future__ import annotations

import ctypes
import weakref

import numpy as np
from numba import njit
from numba.extending import register_jitable

from .raw_memory import address_of, copy_memory, load_word_at, reallocate, release, store_word_at

HEADER_WORDS = 8
# Header of emitted rows: their address, room and number, words per row; the same for their text.
ROWS, ROW_CAPACITY, ROW_COUNT, ROW_WORDS, TEXT, TEXT_CAPACITY, TEXT_USED = range(7)
# Header of an arena: its current block, that block's size and end, the size of all blocks, and how much
# of it nothing points at any more.
BLOCK, BLOCK_SIZE, BLOCK_USED, ARENA_SIZE, ARENA_GARBAGE = range(5)
FIRST_BLOCK = 2**16
LARGEST_STEP = 2**26
LINK = 8  # each block begins with the address of the one before it


def view_words(address: int, count: int) -> np.ndarray:
    """View words at an address, which must outlive the array."""
    if not count:
        return np.empty(0, np.int64)
    return np.ctypeslib.as_array((ctypes.c_int64 * count).from_address(address))


def view_bytes(address: int, count: int) -> np.ndarray:
    """View bytes at an address, which must outlive the array."""
    if not count:
        return np.empty(0, np.uint8)
    return np.ctypeslib.as_array((ctypes.c_uint8 * count).from_address(address))


class EmittedRows:
    """Rows that functions emit: a row of words each, and their text in one piece.

    Parameters
    ----------
    row_words
        words of a row.
    expected
        rows to make room for at once.
    """

    def __init__(self, row_words: int, expected: int) -> None:
        self.header = np.zeros(HEADER_WORDS, np.int64)
        self.header[ROW_WORDS] = row_words
        start_rows(self.header, expected)
        self._release = weakref.finalize(self, free_rows, self.header)

    @property
    def words(self) -> np.ndarray:
        """The rows; good as long as this lives and nothing more is emitted."""
        count, width = int(self.header[ROW_COUNT]), int(self.header[ROW_WORDS])
        return view_words(int(self.header[ROWS]), count * width).reshape(count, width)

    @property
    def text(self) -> np.ndarray:
        """The rows' text, likewise."""
        return view_bytes(int(self.header[TEXT]), int(self.header[TEXT_USED]))


@njit(cache=True, nogil=True)
def start_rows(header, expected):
    """Make room for the first rows."""
    grow_rows(address_of(header), expected)


@njit(cache=True, nogil=True)
def free_rows(header):
    """Give back what emitted rows took."""
    release(header[ROWS])
    release(header[TEXT])


@register_jitable
def grow_rows(header, wanted):
    """Make room for a number of rows in all."""
    size = wanted * load_word_at(header, ROW_WORDS) * 8
    store_word_at(header, ROWS, allocated(load_word_at(header, ROWS), size))
    store_word_at(header, ROW_CAPACITY, wanted)


@register_jitable
def allocated(address, size):
    """Reallocate, or raise."""
    moved = reallocate(address, max(size, 8))
    if moved == 0:
        raise MemoryError("no memory is left for what a function emits or keeps")
    return moved


@register_jitable
def next_row(header):
    """Give the address of one more emitted row."""
    count = load_word_at(header, ROW_COUNT)
    if count >= load_word_at(header, ROW_CAPACITY):
        grow_rows(header, 2 * count + 64)
    store_word_at(header, ROW_COUNT, count + 1)
    return load_word_at(header, ROWS) + count * load_word_at(header, ROW_WORDS) * 8


@register_jitable
def room_for_text(header, length):
    """Make room for more text in emitted rows; gives its address, without taking it yet."""
    used = load_word_at(header, TEXT_USED)
    if used + length > load_word_at(header, TEXT_CAPACITY):
        capacity = 2 * (used + length) + FIRST_BLOCK
        store_word_at(header, TEXT, allocated(load_word_at(header, TEXT), capacity))
        store_word_at(header, TEXT_CAPACITY, capacity)
    return load_word_at(header, TEXT) + used


@register_jitable
def take_text(header, length):
    """Take room that was made before; gives where in the text it begins."""
    used = load_word_at(header, TEXT_USED)
    store_word_at(header, TEXT_USED, used + length)
    return used


class TextArena:
    """Text that state keeps, in blocks that never move: text read before a write stays good after it.

    Whoever holds the records rebuilds the arena when most of it is garbage, see `rebuild`.
    """

    def __init__(self) -> None:
        self.header = np.zeros(HEADER_WORDS, np.int64)
        self._release = weakref.finalize(self, free_arena, self.header)

    @property
    def nbytes(self) -> int:
        return int(self.header[ARENA_SIZE])

    @property
    def garbage(self) -> int:
        return int(self.header[ARENA_GARBAGE])

    def adopt(self, words: np.ndarray, word: int, groups: np.ndarray, starts: np.ndarray, lengths: np.ndarray,
              data: np.ndarray) -> None:  # fmt: skip
        """Copy text into the arena and let the groups' records point at it."""
        adopt_text(self.header, words, word, groups, starts, lengths, data)

    def rebuild(self, words: np.ndarray, groups: np.ndarray, text_words: np.ndarray) -> None:
        """Copy the text of some groups together and give all other memory back."""
        rebuild_arena(self.header, words, groups, text_words)


@register_jitable
def room_in_arena(header, length):
    """Take room in an arena; gives its address."""
    used = load_word_at(header, BLOCK_USED)
    if used + length > load_word_at(header, BLOCK_SIZE):
        add_block(header, length)
        used = LINK
    store_word_at(header, BLOCK_USED, used + length)
    return load_word_at(header, BLOCK) + used


@register_jitable
def add_block(header, length):
    """Begin another block, in which a text of some length fits."""
    step = min(2 * load_word_at(header, BLOCK_SIZE), LARGEST_STEP)
    size = max(step, length + LINK, FIRST_BLOCK)
    block = allocated(0, size)
    store_word_at(block, 0, load_word_at(header, BLOCK))
    store_word_at(header, BLOCK, block)
    store_word_at(header, BLOCK_SIZE, size)
    store_word_at(header, ARENA_SIZE, load_word_at(header, ARENA_SIZE) + size)


@register_jitable
def add_garbage(header, length):
    """Note that nothing points at some text of an arena any more."""
    store_word_at(header, ARENA_GARBAGE, load_word_at(header, ARENA_GARBAGE) + length)


@register_jitable
def free_blocks(block):
    """Give back a block and all those before it."""
    while block != 0:
        before = load_word_at(block, 0)
        release(block)
        block = before


@njit(cache=True, nogil=True)
def free_arena(header):
    """Give back what an arena took."""
    free_blocks(header[BLOCK])


@njit(cache=True, nogil=True)
def adopt_text(header, words, word, groups, starts, lengths, data):
    """The loop of `TextArena.adopt`."""
    arena, source = address_of(header), address_of(data)
    for i in range(len(groups)):
        target = room_in_arena(arena, lengths[i])
        copy_memory(source + starts[i], target, lengths[i])
        words[groups[i], word] = target
        words[groups[i], word + 1] = lengths[i]


@njit(cache=True, nogil=True)
def rebuild_arena(header, words, groups, text_words):
    """The loop of `TextArena.rebuild`."""
    arena, old = address_of(header), header[BLOCK]
    header[:] = 0
    for group in groups:
        for word in text_words:
            length = words[group, word + 1]
            target = room_in_arena(arena, length)
            copy_memory(words[group, word], target, length)
            words[group, word] = target
    free_blocks(old)


@njit(cache=True, nogil=True)
def lay_addresses(addresses, lengths, out):
    """Lay text, found by address, one after another into `out`."""
    target = address_of(out)
    for row in range(len(addresses)):
        copy_memory(addresses[row], target, lengths[row])
        target += lengths[row]
