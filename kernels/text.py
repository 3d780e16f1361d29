"""Text within compiled functions: an address and a length, never a Python object.

A value of a string column is UTF-8 where it lies, in Arrow memory or among the state's own text. It can
be compared with other text and with literals (by code point), searched, measured in characters,
hashed, kept in state and emitted. Of binary columns the same holds, measured in bytes. Python
strings that a function puts together itself may be compared, kept and emitted too. Null text reads
as empty; its address is 0, so that it stays null wherever it is handed on.
"""

from __future__ import annotations

import operator

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typeconv import Conversion
from numba.extending import (
    intrinsic,
    lower_cast,
    models,
    overload,
    overload_method,
    register_jitable,
    register_model,
)

from .hashing import LENGTH_SEED, absorb, mix
from .raw_memory import compare_memory, load_byte_at, load_word_at, store_byte_at
from .refusals import refuse

UTF8_MOST = 4


class TextType(types.Hashable):
    """Text of a kind: "string" or "binary"."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        super().__init__(name=f"Text({kind})")

    def can_convert_from(self, typing_context, other):
        """A literal joins with text, as in ``rows.name[i] if known else "nobody"``."""
        return Conversion.safe if isinstance(other, types.StringLiteral) and self.kind == "string" else None


STRING, BINARY = TextType("string"), TextType("binary")
TEXT_TYPES = {"string": STRING, "binary": BINARY}


@register_model(TextType)
class TextModel(models.StructModel):
    def __init__(self, manager, text_type):
        super().__init__(manager, text_type, [("address", types.int64), ("length", types.int64)])


def make_text(context, builder, text_type, address, length):
    """Build a text value."""
    text = cgutils.create_struct_proxy(text_type)(context, builder)
    text.address, text.length = address, length
    return text._getvalue()


def literal_text(context, builder, value):
    """Build the text of a literal, whose bytes become part of the compiled code."""
    data = value.encode()
    pointer = context.insert_const_bytes(builder.module, data + b"\0")
    word = ir.IntType(64)
    return make_text(context, builder, STRING, builder.ptrtoint(pointer, word), word(len(data)))


@lower_cast(types.StringLiteral, TextType)
def literal_to_text(context, builder, from_type, to_type, value):
    """Let a literal stand where text is expected."""
    return literal_text(context, builder, from_type.literal_value)


@intrinsic(prefer_literal=True)
def as_text(typing_context, value):
    """Give text for text or a literal."""
    if isinstance(value, types.StringLiteral):
        literal = value.literal_value
        return STRING(value), lambda context, builder, signature, args: literal_text(context, builder, literal)
    if isinstance(value, TextType):
        return value(value), lambda context, builder, signature, args: args[0]
    return None


@intrinsic
def address_and_length(typing_context, text):
    """Take text apart."""

    def generate(context, builder, signature, args):
        view = cgutils.create_struct_proxy(signature.args[0])(context, builder, args[0])
        return context.make_tuple(builder, signature.return_type, [view.address, view.length])

    if isinstance(text, TextType):
        return types.UniTuple(types.int64, 2)(text), generate
    return None


# --- comparing --------------------------------------------------------------------------------------


@register_jitable
def text_order(left, right):
    """Order two texts by their bytes, which for UTF-8 is by code point: below, at or above zero."""
    left_address, left_length = address_and_length(left)
    right_address, right_length = address_and_length(right)
    order = compare_memory(left_address, right_address, min(left_length, right_length))
    return order if order != 0 else left_length - right_length


@register_jitable
def text_equal(left, right):
    """Tell whether two texts are the same."""
    left_address, left_length = address_and_length(left)
    right_address, right_length = address_and_length(right)
    return left_length == right_length and compare_memory(left_address, right_address, left_length) == 0


@register_jitable
def code_point_at(address, at):
    """Read one UTF-8 sequence; gives the code point and the sequence's length."""
    first = load_byte_at(address, at)
    if first < 0x80:
        return first, 1
    length = 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    point = first & (0x7F >> length)
    for i in range(1, length):
        point = (point << 6) | (load_byte_at(address, at + i) & 0x3F)
    return point, length


@register_jitable
def order_with_string(text, string):
    """Order text against a Python string made at run time."""
    address, length = address_and_length(text)
    at = 0
    for character in string:
        if at >= length:
            return -1
        point, size = code_point_at(address, at)
        difference = point - ord(character)
        if difference != 0:
            return difference
        at += size
    return length - at


@register_jitable
def put_utf8(string, address):
    """Write a Python string as UTF-8; returns how many bytes it took, at most `UTF8_MOST` a character."""
    at = 0
    for character in string:
        point = ord(character)
        if point < 0x80:
            store_byte_at(address, at, point)
            at += 1
            continue
        length = 2 if point < 0x800 else 3 if point < 0x10000 else 4
        for i in range(length - 1, 0, -1):
            store_byte_at(address, at + i, 0x80 | (point & 0x3F))
            point >>= 6
        store_byte_at(address, at, ((0xF00 >> length) & 0xFF) | point)
        at += length
    return at


def are_texts(left, right) -> bool:
    """Tell whether both sides are text or literals, one of them at least text, and of the same kind."""
    kinds = [side.kind if isinstance(side, TextType) else "string" for side in (left, right)]
    text = any(isinstance(side, TextType) for side in (left, right))
    return text and kinds[0] == kinds[1] and all(isinstance(t, TextType | types.StringLiteral) for t in (left, right))


def _overload_comparison(compare, of_texts, of_strings):
    @overload(compare, prefer_literal=True)
    def overloaded(left, right):
        if are_texts(left, right):
            return lambda left, right: of_texts(as_text(left), as_text(right))
        if left == STRING and isinstance(right, types.UnicodeType):
            return lambda left, right: of_strings(left, right)
        if right == STRING and isinstance(left, types.UnicodeType):
            swapped = MIRRORED[compare]
            return lambda left, right: swapped(right, left)
        return None


MIRRORED = {
    operator.eq: operator.eq, operator.ne: operator.ne, operator.lt: operator.gt,
    operator.le: operator.ge, operator.gt: operator.lt, operator.ge: operator.le,
}  # fmt: skip


def _overload_order(compare):
    @register_jitable
    def of_texts(left, right):
        return compare(text_order(left, right), 0)

    @register_jitable
    def of_strings(left, right):
        return compare(order_with_string(left, right), 0)

    _overload_comparison(compare, of_texts, of_strings)


@register_jitable
def _text_differs(left, right):
    return not text_equal(left, right)


@register_jitable
def _string_equal(left, right):
    return order_with_string(left, right) == 0


@register_jitable
def _string_differs(left, right):
    return order_with_string(left, right) != 0


_overload_comparison(operator.eq, text_equal, _string_equal)
_overload_comparison(operator.ne, _text_differs, _string_differs)
for _compare in (operator.lt, operator.le, operator.gt, operator.ge):
    _overload_order(_compare)


# --- measuring, searching, hashing ------------------------------------------------------------------


@overload(len)
def text_length(text):
    """Characters of a string, bytes of a binary."""
    if text == STRING:
        return lambda text: count_characters(text)
    if text == BINARY:
        return lambda text: address_and_length(text)[1]
    return None


@register_jitable
def count_characters(text):
    """Count the bytes that begin a UTF-8 sequence."""
    address, length = address_and_length(text)
    count = 0
    for i in range(length):
        count += load_byte_at(address, i) & 0xC0 != 0x80
    return count


@overload(bool)
def text_truth(text):
    """Text is true unless it is empty, as in Python."""
    if isinstance(text, TextType):
        return lambda text: address_and_length(text)[1] > 0
    return None


@overload_method(TextType, "__str__")
def text_as_string(text):
    """A Python string of the function's own, to put others together with; it allocates memory."""
    if text != STRING:
        raise refuse("str(…) takes text of a string column, got binary")

    def decoded(text):
        address, length = address_and_length(text)
        string, at = "", 0
        while at < length:
            point, size = code_point_at(address, at)
            string += chr(point)
            at += size
        return string

    return decoded


@overload_method(TextType, "__hash__")
def text_hash(text):
    """Hash the bytes; equal texts have equal hashes, in every process."""

    def hashed(text):
        address, length = address_and_length(text)
        return hash_memory(address, length)

    return hashed


@register_jitable
def hash_memory(address, length):
    """Hash bytes, eight at a time and the rest one by one."""
    h = np.uint64(length) * LENGTH_SEED
    words = length >> 3
    for i in range(words):
        h = absorb(h, np.uint64(load_word_at(address, i)))
    for i in range(words << 3, length):
        h = absorb(h, np.uint64(load_byte_at(address, i)))
    return np.int64(mix(h))


@overload_method(TextType, "startswith", prefer_literal=True)
def text_startswith(text, start):
    """Tell whether text begins with other text."""
    return _affix_test(text, start, at_end=False)


@overload_method(TextType, "endswith", prefer_literal=True)
def text_endswith(text, end):
    """Tell whether text ends with other text."""
    return _affix_test(text, end, at_end=True)


def _affix_test(text, part, at_end):
    if not are_texts(text, part):
        return None

    @register_jitable
    def test(text, part):
        address, length = address_and_length(text)
        part_address, part_length = address_and_length(as_text(part))
        shift = length - part_length if at_end else 0
        return part_length <= length and compare_memory(address + shift, part_address, part_length) == 0

    # The name of the second argument must be the caller's, since it may be given by name.
    return (lambda text, end: test(text, end)) if at_end else (lambda text, start: test(text, start))


@overload(operator.contains, prefer_literal=True)
def text_contains(text, part):
    """``part in text``"""
    if not (isinstance(text, TextType) and are_texts(text, part)):
        return None

    def contains(text, part):
        address, length = address_and_length(text)
        part_address, part_length = address_and_length(as_text(part))
        for shift in range(length - part_length + 1):
            if compare_memory(address + shift, part_address, part_length) == 0:
                return True
        return False

    return contains
