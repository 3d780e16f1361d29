"""Loads, stores and allocation by address, for compiled functions whose views carry no arrays.

Numba counts references to arrays that are passed around, and cannot let an array grow within a call;
an address costs nothing to pass, and what it points to can be reallocated. Whoever holds an address
makes sure that the memory behind it lives.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

BYTE, HALF, WORD = ir.IntType(8), ir.IntType(32), ir.IntType(64)


def pointer_at(builder, address, index, element):
    """Give a pointer to element `index` of an array of LLVM type `element` at an address."""
    return builder.gep(builder.inttoptr(address, element.as_pointer()), [index])


def _loader(element, result):
    def load(typing_context, address, index):
        def generate(context, builder, signature, args):
            value = builder.load(pointer_at(builder, args[0], args[1], element))
            return builder.zext(value, WORD) if element is BYTE else value

        return result(types.int64, types.int64), generate

    return load


def _storer(element):
    def store(typing_context, address, index, value):
        def generate(context, builder, signature, args):
            value = builder.trunc(args[2], element) if element is BYTE else args[2]
            builder.store(value, pointer_at(builder, args[0], args[1], element))
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.int64), generate

    return store


# Read and write element `index` of the words, or bytes, at an address.
load_word_at = intrinsic(_loader(WORD, types.int64))
load_byte_at = intrinsic(_loader(BYTE, types.int64))
store_word_at = intrinsic(_storer(WORD))
store_byte_at = intrinsic(_storer(BYTE))


@intrinsic
def address_of(typing_context, array):
    """Give the address of an array's first element."""

    def generate(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.ptrtoint(data, WORD)

    return types.int64(array), generate


@intrinsic
def copy_memory(typing_context, source, target, length):
    """Copy bytes from address to address."""

    def generate(context, builder, signature, args):
        source, target = (builder.inttoptr(address, BYTE.as_pointer()) for address in args[:2])
        cgutils.raw_memcpy(builder, target, source, args[2], 1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic
def compare_memory(typing_context, left, right, length):
    """Compare bytes at two addresses, with memcmp: below, equal to or above zero."""

    def generate(context, builder, signature, args):
        pointers = [builder.inttoptr(address, BYTE.as_pointer()) for address in args[:2]]
        kind = ir.FunctionType(HALF, [pointers[0].type, pointers[1].type, WORD])
        function = cgutils.get_or_insert_function(builder.module, kind, "memcmp")
        return builder.sext(builder.call(function, [*pointers, args[2]]), WORD)

    return types.int64(types.int64, types.int64, types.int64), generate


@intrinsic
def reallocate(typing_context, address, size):
    """Move memory to a place of another size, with realloc; 0 for the first time, 0 back on failure."""

    def generate(context, builder, signature, args):
        pointer = builder.inttoptr(args[0], BYTE.as_pointer())
        kind = ir.FunctionType(pointer.type, [pointer.type, WORD])
        function = cgutils.get_or_insert_function(builder.module, kind, "realloc")
        return builder.ptrtoint(builder.call(function, [pointer, args[1]]), WORD)

    return types.int64(types.int64, types.int64), generate


@intrinsic
def release(typing_context, address):
    """Give memory back, with free."""

    def generate(context, builder, signature, args):
        pointer = builder.inttoptr(args[0], BYTE.as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [pointer.type])
        function = cgutils.get_or_insert_function(builder.module, kind, "free")
        builder.call(function, [pointer])
        return context.get_dummy_value()

    return types.void(types.int64), generate
