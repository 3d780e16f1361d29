"""How arrays grow, and the machine operations that NumPy indexing has no words for.

The operations are intrinsics rather than jitted functions also because Numba counts references to the
arrays it passes to a function: within the hottest loops that alone doubled the time.
"""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


def _element_address(context, builder, array_type, array, index):
    data = context.make_array(array_type)(context, builder, array).data
    address = builder.gep(data, [index])
    return builder.bitcast(address, ir.IntType(8).as_pointer())


@intrinsic
def prefetch(typing_context, array, index):
    """Ask the processor to fetch element `index` of the flattened `array` for writing.

    Never faults, whatever the index, so it may run past the end.
    """

    def generate(context, builder, signature, args):
        address = _element_address(context, builder, signature.args[0], *args)
        flag = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [address.type, flag, flag, flag])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [address, flag(1), flag(3), flag(1)])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


@intrinsic
def load_word(typing_context, data, index):
    """Read eight bytes of a uint8 array from `index` on as one little-endian word.

    The caller makes sure that all eight lie inside the array.
    """

    def generate(context, builder, signature, args):
        address = _element_address(context, builder, signature.args[0], *args)
        pointer = builder.bitcast(address, ir.IntType(64).as_pointer())
        return builder.load(pointer, align=1)

    return types.uint64(data, types.int64), generate


@intrinsic
def store_word(typing_context, data, index, word):
    """Write one little-endian word as eight bytes of a uint8 array from `index` on.

    The caller makes sure that all eight lie inside the array.
    """

    def generate(context, builder, signature, args):
        address = _element_address(context, builder, signature.args[0], args[0], args[1])
        pointer = builder.bitcast(address, ir.IntType(64).as_pointer())
        builder.store(args[2], pointer, align=1)
        return context.get_dummy_value()

    return types.void(data, types.int64, types.uint64), generate


@intrinsic
def copy_bytes(typing_context, source, start, target, at, length):
    """Copy `length` bytes of one uint8 array into another, with memcpy."""

    def generate(context, builder, signature, args):
        from_address = _element_address(context, builder, signature.args[0], args[0], args[1])
        to_address = _element_address(context, builder, signature.args[2], args[2], args[3])
        cgutils.raw_memcpy(builder, to_address, from_address, args[4], 1)
        return context.get_dummy_value()

    return types.void(source, types.int64, target, types.int64, types.int64), generate


@intrinsic
def compare_bytes(typing_context, left, left_start, right, right_start, length):
    """Compare `length` bytes of two uint8 arrays, with memcmp: below, equal to or above zero."""

    def generate(context, builder, signature, args):
        left_address = _element_address(context, builder, signature.args[0], args[0], args[1])
        right_address = _element_address(context, builder, signature.args[2], args[2], args[3])
        kind = ir.FunctionType(ir.IntType(32), [left_address.type, right_address.type, ir.IntType(64)])
        function = cgutils.get_or_insert_function(builder.module, kind, "memcmp")
        return builder.call(function, [left_address, right_address, args[4]])

    return types.int32(left, types.int64, right, types.int64, types.int64), generate


# Memory that is reserved but never written costs nothing, so small arrays grow in large strides.
SMALL_BYTES = 64 * 2**20


def empty(shape: tuple[int, ...], dtype: type) -> np.ndarray:
    """Make an uninitialised array in Arrow's memory pool.

    The pool aligns to cache lines, so that short rows never straddle two, and keeps what is freed for
    the next batch: getting fresh pages from the system can cost more than all loops over them.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    return np.frombuffer(pa.allocate_buffer(size), np.uint8).view(dtype).reshape(shape)


def grown(array: np.ndarray, used: int, wanted: int) -> np.ndarray:
    """Give an array with room for `wanted` rows that begins with the first `used` rows of `array`.

    Returns the array itself if it has the room; so growing row by row copies each row a few times at most.
    """
    if wanted <= len(array):
        return array
    factor = 4 if array.nbytes < SMALL_BYTES else 2
    larger = empty((max(wanted, factor * len(array)), *array.shape[1:]), array.dtype.type)
    larger[:used] = array[:used]
    return larger


def freeze(array: np.ndarray) -> np.ndarray:
    """Give a read-only view, the only kind of array that input kernels are compiled for."""
    view = array.view()
    view.flags.writeable = False
    return view
