"""One hash for values of every kind, to be called within compiled functions."""

from __future__ import annotations

import numpy as np
from numba import types
from numba.extending import intrinsic

from .decimal_values import DecimalType, low_words, widened
from .hashing import mix
from .text import TextType, address_and_length, hash_memory

CANONICAL_NAN = np.uint64(0x7FF8000000000000)


@intrinsic
def hash64(typing_context, value):
    """Hash a number, a boolean, a time or text to 64 well-mixed bits (uint64).

    Equal values of one type have equal hashes in every process; −0.0 is equal to 0.0, and every NaN to every
    other. Decimals are of one type if they have equally many places.

    Examples
    --------
    >>> from numba import njit
    >>> bool(njit(lambda a, b: hash64(a) == hash64(b))(0.0, -0.0))
    True
    """
    function = _function_for(value)
    if function is None:
        return None

    def generate(context, builder, signature, args):
        return context.compile_internal(builder, function, signature, args)

    return types.uint64(value), generate


def _function_for(value):
    if isinstance(value, TextType):
        return _hash_text
    if isinstance(value, DecimalType):
        return _hash_decimal
    if isinstance(value, types.Float):
        return _hash_float
    return _hash_whole if isinstance(value, types.Integer | types.Boolean) else None


def _hash_text(text):
    address, length = address_and_length(text)
    return np.uint64(hash_memory(address, length))


def _hash_float(value):
    if value != value:
        return mix(CANONICAL_NAN)
    return mix(np.float64(value + 0.0).view(np.uint64))


def _hash_decimal(value):
    low, high = low_words(widened(value))
    return mix(low ^ mix(high))


def _hash_whole(value):
    return mix(np.uint64(value))
