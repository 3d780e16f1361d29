"""Storing values that functions compute: into fields of records, elements of arrays and emitted rows.

Nothing is converted behind a function's back: a float never becomes an integer, an integer that does
not fit its type raises, and text is copied.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils

from .decimal_values import DecimalType, load_decimal, store_decimal
from .kinds import KINDS, decimal_digits, element_of
from .native_memory import add_garbage, room_for_text, room_in_arena, take_text
from .raw_memory import WORD, compare_memory, copy_memory, load_word_at, pointer_at, store_word_at
from .refusals import refuse
from .text import STRING, TEXT_TYPES, UTF8_MOST, TextType, address_and_length, literal_text, put_utf8

FLOATS = ("float", "double")


def require_storable(where: str, kind: str, value: types.Type) -> None:
    """Refuse, while types are inferred, a value that a kind does not take."""
    wanted = _accepted(kind, value)
    if wanted:
        raise refuse(f"{where} is {kind}, got {named(value)}; accepted is {wanted}")


def named(value: types.Type) -> str:
    """Give a type's name as a user would say it."""
    if isinstance(value, types.NoneType):
        return "None"
    if isinstance(value, types.Optional):
        return f"{named(value.type)} or None"
    if isinstance(value, TextType):
        return value.kind
    if isinstance(value, DecimalType):
        return value.name
    return str(types.unliteral(value))


def _accepted(kind: str, value: types.Type) -> str | None:
    """Say what a kind takes, or None if it takes the value."""
    value = types.unliteral(value)
    if kind in TEXT_TYPES:
        good = value == TEXT_TYPES[kind] or (kind == "string" and isinstance(value, types.UnicodeType))
        return None if good else f"a {kind}"
    if kind == "boolean":
        return None if isinstance(value, types.Boolean) else "a bool; bool(…) makes one"
    if decimal_digits(kind):
        good = isinstance(value, DecimalType | types.Integer | types.Boolean)
        return None if good else "a decimal or an integer; Decimal('…') makes one"
    if kind in FLOATS:
        good = isinstance(value, types.Integer | types.Float | types.Boolean)
        return None if good else "a number; float(…) makes one"
    whole = isinstance(value, types.Integer | types.Boolean)
    return None if whole else "an integer; int(…), math.floor(…) or round(…) make one"


# --- numbers ----------------------------------------------------------------------------------------


def store_number(context, builder, where: str, kind: str, value_type, value, address, index, packed: bool) -> None:
    """Store a number at element `index` from an address: as a word, or as narrow as an array has it."""
    digits = decimal_digits(kind)
    if digits:
        message = f"{where}: the value does not fit {kind}"
        store_decimal(context, builder, message, digits, value_type, value, address, index)
        return
    seen = KINDS[kind].seen
    value = context.cast(builder, value, types.unliteral(value_type), seen)
    element = _element_type(kind) if packed else WORD
    if kind in FLOATS:
        if kind == "float":
            value = builder.fptrunc(value, ir.FloatType())
        if not (packed and kind == "float"):
            element = ir.DoubleType()
            value = builder.fpext(value, element) if kind == "float" else value
    elif kind == "boolean":
        value = builder.zext(value, element)
    else:
        _require_range(context, builder, where, kind, value)
        value = value if element is WORD else builder.trunc(value, element)
    builder.store(value, pointer_at(builder, address, index, element))


def load_number(context, builder, kind: str, address, index, packed: bool):
    """Read what `store_number` stored, as the type in which the kind is seen."""
    if decimal_digits(kind):
        return load_decimal(builder, address, index)
    element = _element_type(kind) if packed else WORD
    if kind in FLOATS:
        element = ir.FloatType() if packed and kind == "float" else ir.DoubleType()
        value = builder.load(pointer_at(builder, address, index, element))
        return value if element == ir.DoubleType() else builder.fpext(value, ir.DoubleType())
    value = builder.load(pointer_at(builder, address, index, element))
    if kind == "boolean":
        return builder.icmp_unsigned("!=", value, element(0))
    return value if element is WORD else builder.sext(value, WORD)


def _element_type(kind: str):
    dtype = element_of(kind)
    if dtype.kind == "f":
        return ir.FloatType() if dtype.itemsize == 4 else ir.DoubleType()
    return WORD if dtype.itemsize == 8 else ir.IntType(8 * dtype.itemsize)


def _require_range(context, builder, where: str, kind: str, value) -> None:
    dtype = element_of(kind)
    if dtype.itemsize == 8:
        return
    narrow = ir.IntType(8 * dtype.itemsize)
    back = builder.sext(builder.trunc(value, narrow), WORD)
    with builder.if_then(builder.icmp_signed("!=", back, value), likely=False):
        context.call_conv.return_user_exc(builder, OverflowError, (f"{where}: the value does not fit {kind}",))


# --- text -------------------------------------------------------------------------------------------


def emit_text(context, builder, value_type, value, header):
    """Append text to emitted rows; gives where it begins and its length."""
    value_type, value = _plain_text(context, builder, value_type, value)
    function = append_text if isinstance(value_type, TextType) else append_string
    signature = types.UniTuple(types.int64, 2)(types.int64, value_type)
    pair = context.compile_internal(builder, function, signature, (header, value))
    return builder.extract_value(pair, 0), builder.extract_value(pair, 1)


def keep_text(context, builder, value_type, value, arena, address) -> None:
    """Keep text in an arena; its address and length go into the two words at `address`."""
    value_type, value = _plain_text(context, builder, value_type, value)
    function = replace_text if isinstance(value_type, TextType) else replace_string
    signature = types.void(types.int64, types.int64, value_type)
    context.compile_internal(builder, function, signature, (arena, address, value))


def _plain_text(context, builder, value_type, value):
    if isinstance(value_type, types.StringLiteral):
        return STRING, literal_text(context, builder, value_type.literal_value)
    return types.unliteral(value_type), value


def append_text(header, text):
    """Copy text behind that of the rows before."""
    address, length = address_and_length(text)
    copy_memory(address, room_for_text(header, length), length)
    return take_text(header, length), length


def append_string(header, string):
    """Write a Python string behind the text of the rows before."""
    length = put_utf8(string, room_for_text(header, len(string) * UTF8_MOST))
    return take_text(header, length), length


def replace_text(arena, field, text):
    """Let a field point at a copy of text; the old text stays, since a variable may still show it."""
    address, length = address_and_length(text)
    old = load_word_at(field, 1)
    if old == length and compare_memory(load_word_at(field, 0), address, length) == 0:
        return
    add_garbage(arena, old)
    target = room_in_arena(arena, length)
    copy_memory(address, target, length)
    store_word_at(field, 0, target)
    store_word_at(field, 1, length)


def replace_string(arena, field, string):
    """Let a field point at the UTF-8 of a Python string."""
    add_garbage(arena, load_word_at(field, 1))
    most = len(string) * UTF8_MOST
    target = room_in_arena(arena, most)
    length = put_utf8(string, target)
    add_garbage(arena, most - length)
    store_word_at(field, 0, target)
    store_word_at(field, 1, length)


# --- nulls ------------------------------------------------------------------------------------------


def store_or_null(context, builder, value_type, value, put, put_null) -> None:
    """Generate `put` of a value's type and the value where it is there, `put_null` where it is none or null."""
    if isinstance(value_type, types.NoneType):
        put_null()
        return
    present = None
    if isinstance(value_type, types.Optional):
        optional = context.make_helper(builder, value_type, value)
        present = cgutils.as_bool_bit(builder, optional.valid)
        value_type, value = value_type.type, optional.data
    if isinstance(value_type, TextType):
        address = cgutils.create_struct_proxy(value_type)(context, builder, value).address
        there = builder.icmp_unsigned("!=", address, WORD(0))
        present = there if present is None else builder.and_(present, there)
    if present is None:
        put(value_type, value)
        return
    with builder.if_else(present) as (known, missing):
        with known:
            put(value_type, value)
        with missing:
            put_null()
