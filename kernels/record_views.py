"""`state` as compiled functions see it: the fields of one record, by name.

Two kinds of record share this: the state of a key, which can also exist or not, be removed and have a
timeout; and what a user-defined aggregate accumulates, which is nothing but its fields.
"""

from __future__ import annotations

import operator

import numpy as np
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    infer_getattr,
    intrinsic,
    lower_getattr_generic,
    models,
    overload,
    register_model,
)

from . import call_protocol as protocol
from .column_views import checked, seen_type
from .kinds import Slot
from .native_memory import add_garbage
from .raw_memory import WORD, pointer_at
from .refusals import refuse, require_literal, unknown_field
from .slot_stores import keep_text, load_number, named, require_storable, store_number, store_or_null
from .text import TEXT_TYPES, make_text
from .view_iteration import ViewIterator, iterable

KEYED_ATTRIBUTES = {
    "exists": types.boolean,
    "has_timed_out": types.boolean,
    "current_watermark_ms": types.int64,
    "current_processing_time_ms": types.int64,
}
KEYED_METHODS = ("remove", "set_timeout_duration", "set_timeout_timestamp", "is_null", "set_null")
RESERVED = (*KEYED_ATTRIBUTES, *KEYED_METHODS)


class RecordType(types.Type):
    """A record of fields."""

    def __init__(self, slots) -> None:
        self.slots = {slot.name: slot for slot in slots}
        super().__init__(name=self._name())

    def _name(self) -> str:
        return f"{type(self).__name__}({[tuple(slot) for slot in self.slots.values()]!r})"

    def slot(self, name: str) -> Slot:
        """Give a field, or refuse it."""
        if name not in self.slots:
            raise unknown_field("state", name, self.slots)
        return self.slots[name]


class AccumulatorType(RecordType):
    """What a user-defined aggregate accumulates."""


class StateType(RecordType):
    """The state of a key, under a kind of timeout."""

    def __init__(self, slots, timeout: str) -> None:
        self.timeout = timeout
        super().__init__(slots)

    def _name(self) -> str:
        return f"{super()._name()}, {self.timeout}"


class ArrayType(types.IterableType):
    """A fixed-size array within a record."""

    def __init__(self, record: RecordType, field: str) -> None:
        self.record, self.slot = record, record.slot(field)
        super().__init__(name=f"Array({record.name}, {field})")

    @property
    def iterator_type(self) -> ViewIterator:
        """What a loop over the elements goes through."""
        return ViewIterator(self, seen_type(self.slot.kind))


iterable(ArrayType)


@register_model(AccumulatorType)
@register_model(StateType)
class RecordModel(models.StructModel):
    def __init__(self, manager, record_type):
        super().__init__(manager, record_type, [("record", types.int64), ("header", types.int64)])


@register_model(ArrayType)
class ArrayModel(models.StructModel):
    def __init__(self, manager, array_type):
        super().__init__(manager, array_type, [("record", types.int64), ("header", types.int64)])


@intrinsic
def record_view(typing_context, ref, record, header):
    """Make the view of the record at an address; `header` is the call header's, 0 for accumulators."""

    def generate(context, builder, signature, args):
        return _record_view(context, builder, signature.return_type, args[1], args[2])

    return ref.instance_type(ref, types.int64, types.int64), generate


def _record_view(context, builder, view_type, record, header):
    view = cgutils.create_struct_proxy(view_type)(context, builder)
    view.record, view.header = record, header
    return view._getvalue()


@intrinsic
def record_of(typing_context, view):
    """Give the address of a view's record."""

    def generate(context, builder, signature, args):
        return cgutils.create_struct_proxy(signature.args[0])(context, builder, args[0]).record

    return types.int64(view), generate


@intrinsic
def header_of(typing_context, view):
    """Give the address of a view's call header."""

    def generate(context, builder, signature, args):
        return cgutils.create_struct_proxy(signature.args[0])(context, builder, args[0]).header

    return types.int64(view), generate


# --- reading fields ---------------------------------------------------------------------------------


class _RecordAttributes(AttributeTemplate):
    def generic_resolve(self, record, name):
        if isinstance(record, StateType) and name in RESERVED:
            return KEYED_ATTRIBUTES.get(name)
        slot = record.slot(name)
        if slot.length:
            return ArrayType(record, name)
        return seen_type(slot.kind)


@infer_getattr
class StateAttributes(_RecordAttributes):
    key = StateType


@infer_getattr
class AccumulatorAttributes(_RecordAttributes):
    key = AccumulatorType


@lower_getattr_generic(StateType)
def state_attribute(context, builder, state_type, value, name):
    """Read a field of the state, or what is known about the call."""
    view = cgutils.create_struct_proxy(state_type)(context, builder, value)
    if name == "exists":
        marks = builder.load(pointer_at(builder, view.record, WORD(0), WORD))
        return builder.icmp_unsigned("!=", builder.and_(marks, WORD(protocol.EXISTS)), WORD(0))
    if name == "has_timed_out":
        flag = builder.load(pointer_at(builder, view.header, WORD(protocol.TIMED_OUT), WORD))
        return builder.icmp_unsigned("!=", flag, WORD(0))
    if name == "current_processing_time_ms":
        return builder.load(pointer_at(builder, view.header, WORD(protocol.BATCH_TIME), WORD))
    if name == "current_watermark_ms":
        signature = types.int64(types.int64)
        return context.compile_internal(builder, protocol.current_watermark, signature, (view.header,))
    return accumulator_attribute(context, builder, state_type, value, name)


@lower_getattr_generic(AccumulatorType)
def accumulator_attribute(context, builder, record_type, value, name):
    """Read a field."""
    view = cgutils.create_struct_proxy(record_type)(context, builder, value)
    slot = record_type.slot(name)
    if slot.length:
        return _record_view(context, builder, ArrayType(record_type, name), view.record, view.header)
    if slot.kind in TEXT_TYPES:
        address, length = (builder.load(pointer_at(builder, view.record, WORD(slot.word + i), WORD)) for i in range(2))
        # Null text has address 0; a field that was never written is empty text, and not null.
        known = builder.select(builder.icmp_unsigned("==", address, WORD(0)), WORD(1), address)
        null = load_null_mark(builder, view.record, slot) if slot.bit >= 0 else cgutils.false_bit
        return make_text(context, builder, TEXT_TYPES[slot.kind], builder.select(null, WORD(0), known), length)
    return load_number(context, builder, slot.kind, view.record, WORD(slot.word), packed=False)


def load_null_mark(builder, record, slot: Slot):
    """Read a field's null mark."""
    word = builder.load(pointer_at(builder, record, WORD(slot.bit // 64), WORD))
    return builder.icmp_unsigned("!=", builder.and_(word, WORD(1 << (slot.bit % 64))), WORD(0))


# --- writing fields ---------------------------------------------------------------------------------


def mark_written(builder, record_type, view, slot: Slot, null: bool = False) -> None:
    """Note that a field was written: the state exists, and has been updated in this call."""
    if not isinstance(record_type, StateType):
        return
    _change_word(builder, view.record, 0, protocol.EXISTS, 0)
    bit = 1 << (slot.bit % 64)
    _change_word(builder, view.record, slot.bit // 64, bit if null else 0, 0 if null else bit)
    builder.store(WORD(protocol.UPDATED), pointer_at(builder, view.header, WORD(protocol.DONE), WORD))


def _change_word(builder, address, index: int, on: int, off: int) -> None:
    pointer = pointer_at(builder, address, WORD(index), WORD)
    word = builder.and_(builder.load(pointer), WORD(~off & (2**64 - 1)))
    builder.store(builder.or_(word, WORD(on)), pointer)


@intrinsic(prefer_literal=True)
def set_field(typing_context, record, name, value):
    """``state.name = value``; the pass `SpellOut` turns assignments into calls of this."""
    require_literal(name)
    slot = _assignable(record, name.literal_value, value)

    def generate(context, builder, signature, args):
        record_type, _, value_type = signature.args
        view = cgutils.create_struct_proxy(record_type)(context, builder, args[0])

        def put(value_type, value):
            _store(context, builder, slot, view, value_type, value)
            mark_written(builder, record_type, view, slot)

        def put_null():
            _clear(context, builder, slot, view)
            mark_written(builder, record_type, view, slot, null=True)

        store_or_null(context, builder, value_type, args[2], put, put_null)
        return context.get_dummy_value()

    return types.void(record, name, value), generate


def _assignable(record, field: str, value) -> Slot:
    """Give the field that an assignment means, or refuse it."""
    if not isinstance(record, RecordType):
        raise refuse(f"attributes of {record} cannot be assigned; only those of state can")
    if isinstance(record, StateType) and field in RESERVED:
        raise refuse(f"state.{field} cannot be assigned")
    slot = record.slot(field)
    if slot.length:
        raise refuse(f"state.{field} is an array of {slot.length}; assign its elements, state.{field}[i] = x")
    where, null = f"state.{field}", isinstance(value, types.NoneType | types.Optional)
    if null and not isinstance(record, StateType):
        raise refuse(f"{where}: got {named(value)}, accepted is a value; what an aggregate accumulates is never null")
    if not isinstance(value, types.NoneType):
        require_storable(where, slot.kind, value.type if null else value)
    return slot


def _store(context, builder, slot: Slot, view, value_type, value) -> None:
    where = f"state.{slot.name}"
    if slot.kind in TEXT_TYPES:
        address = builder.add(view.record, WORD(8 * slot.word))
        keep_text(context, builder, value_type, value, arena_of(builder, view), address)
    else:
        store_number(
            context, builder, where, slot.kind, value_type, value, view.record, WORD(slot.word), packed=False
        )  # fmt: skip


def arena_of(builder, view):
    """Give the address of the header of the arena that state keeps its text in."""
    return builder.load(pointer_at(builder, view.header, WORD(protocol.ARENA), WORD))


def _clear(context, builder, slot: Slot, view) -> None:
    """Zero a single value."""
    if slot.kind in TEXT_TYPES:
        length = builder.load(pointer_at(builder, view.record, WORD(slot.word + 1), WORD))
        signature = types.void(types.int64, types.int64)
        context.compile_internal(builder, add_garbage, signature, (arena_of(builder, view), length))
    for i in range(slot.words):
        builder.store(WORD(0), pointer_at(builder, view.record, WORD(slot.word + i), WORD))


@overload(len)
def array_length(array):
    """Elements of a fixed-size array."""
    if not isinstance(array, ArrayType):
        return None
    count = array.slot.length
    return lambda array: count


def _require_index(array: ArrayType, index) -> None:
    if not isinstance(index, types.Integer):
        raise refuse(f"state.{array.slot.name}[...] got {index}, accepted is the number of an element")


@overload(operator.getitem)
def array_item(array, index):
    """``state.ring[i]``"""
    if not isinstance(array, ArrayType):
        return None
    _require_index(array, index)
    return lambda array, index: element_at(array, checked(np.int64(index), len(array)))


@overload(operator.setitem)
def set_array_item(array, index, value):
    """``state.ring[i] = x``"""
    if not isinstance(array, ArrayType):
        return None
    _require_index(array, index)
    require_storable(f"state.{array.slot.name}[…]", array.slot.kind, value)
    return lambda array, index, value: set_element(array, checked(np.int64(index), len(array)), value)


@intrinsic
def element_at(typing_context, array, position):
    """Read an element of a fixed-size array."""

    def generate(context, builder, signature, args):
        view = cgutils.create_struct_proxy(array)(context, builder, args[0])
        address = builder.add(view.record, WORD(8 * array.slot.word))
        return load_number(context, builder, array.slot.kind, address, args[1], packed=True)

    return seen_type(array.slot.kind)(array, types.int64), generate


@intrinsic
def set_element(typing_context, array, position, value):
    """Write an element of a fixed-size array."""

    def generate(context, builder, signature, args):
        view = cgutils.create_struct_proxy(array)(context, builder, args[0])
        slot = array.slot
        address = builder.add(view.record, WORD(8 * slot.word))
        where = f"state.{slot.name}[…]"
        store_number(context, builder, where, slot.kind, value, args[2], address, args[1], packed=True)
        mark_written(builder, array.record, view, slot)
        return context.get_dummy_value()

    return types.void(array, types.int64, value), generate
