"""Values that are handed on as they were read: the value, or none where it is null.

Text needs none of this: null text knows that it is.
"""

from __future__ import annotations

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, register_jitable

from .column_views import ColumnType, KeyType, checked, count_of, key_nulls, load_null, null_at
from .record_views import StateType, load_null_mark
from .refusals import require_literal
from .text import TEXT_TYPES, TextType


def _optional(context, builder, value_type, value, null):
    """Build an optional out of a value and whether it is null."""
    optional = context.make_helper(builder, types.Optional(value_type))
    optional.valid = builder.not_(null)
    optional.data = value
    return optional._getvalue()


def _as_it_is(context, builder, signature, args):
    return args[2]


@intrinsic(prefer_literal=True)
def field_or_null(typing_context, view, name, value):
    """Give the value that was read from a field of the key or of the state, or none where that is null."""
    require_literal(name)
    if isinstance(value, TextType):
        return value(view, name, value), _as_it_is
    return _nullable(view, name, value)


@intrinsic(prefer_literal=True)
def field_or_none(typing_context, view, name, value):
    """The same, with none for null text too."""
    require_literal(name)
    return _nullable(view, name, value)


def _nullable(view, name, value):
    field = name.literal_value
    slot = view.slots.get(field) if isinstance(view, StateType) else None
    if not isinstance(view, KeyType) and (slot is None or slot.length):
        return value(view, name, value), _as_it_is

    def generate(context, builder, signature, args):
        proxy = cgutils.create_struct_proxy(view)(context, builder, args[0])
        if isinstance(view, KeyType):
            null = load_null(builder, key_nulls(view, proxy, field), proxy.call)
        else:
            null = load_null_mark(builder, proxy.record, view.slots[field])
        return _optional(context, builder, signature.args[2], args[2], null)

    return types.Optional(value)(view, name, value), generate


@intrinsic
def item_or_null(typing_context, column, index, value):
    """Give the value that was read from a row of a column, or none where that is null."""
    if not isinstance(column, ColumnType) or column.kind in TEXT_TYPES:
        return value(column, index, value), _as_it_is

    def generate(context, builder, signature, args):
        kind = types.boolean(column, signature.args[1])
        null = context.compile_internal(builder, null_in_row, kind, args[:2])
        return _optional(context, builder, signature.args[2], args[2], null)

    return types.Optional(value)(column, index, value), generate


@register_jitable
def null_in_row(column, index):
    """Tell whether a column is null in a row."""
    return null_at(column, checked(np.int64(index), count_of(column)))
