"""`out` as compiled functions see it, and emitted rows as Arrow.

A row of emitted words is one word of null marks for every 64 columns, then for each column its value:
one word, or for text where it begins and its length.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AttributeTemplate
from numba.extending import infer_getattr, intrinsic, models, overload_method, register_model

from .arena import gather_spans
from .columns import array_of, bytes_array
from .kinds import Slot, decimal_digits
from .native_memory import EmittedRows, next_row
from .raw_memory import WORD, pointer_at
from .refusals import refuse
from .slot_stores import emit_text, require_storable, store_number, store_or_null
from .text import TEXT_TYPES


class OutType(types.Type):
    """Where a function emits rows of some columns."""

    def __init__(self, slots) -> None:
        self.slots = tuple(slots)
        super().__init__(name=f"Out({[tuple(slot) for slot in self.slots]!r})")


@register_model(OutType)
class OutModel(models.StructModel):
    def __init__(self, manager, out_type):
        super().__init__(manager, out_type, [("header", types.int64)])


@infer_getattr
class OutAttributes(AttributeTemplate):
    key = OutType

    def generic_resolve(self, out, name):
        if name != "emit":
            raise refuse(f"out has no {name!r}, only out.emit(…)")


@intrinsic
def out_view(typing_context, ref, header):
    """Make the view through which rows are emitted."""

    def generate(context, builder, signature, args):
        view = cgutils.create_struct_proxy(signature.return_type)(context, builder)
        view.header = args[1]
        return view._getvalue()

    return ref.instance_type(ref, types.int64), generate


@intrinsic
def emitted_header(typing_context, out):
    """Give the address of the header of what is emitted."""

    def generate(context, builder, signature, args):
        return cgutils.create_struct_proxy(signature.args[0])(context, builder, args[0]).header

    return types.int64(out), generate


@overload_method(OutType, "emit", prefer_literal=True)
def emit(out, *values):
    """``out.emit(…)``, one value for each output column; None is null."""
    given = values[0].types if len(values) == 1 and isinstance(values[0], types.BaseTuple) else values
    names = [slot.name for slot in out.slots]
    if len(given) != len(names):
        raise refuse(f"out.emit got {len(given)} values, accepted are {len(names)}: {', '.join(names)}")
    for slot, value in zip(out.slots, given, strict=True):
        if isinstance(value, types.NoneType):
            continue
        inner = value.type if isinstance(value, types.Optional) else value
        require_storable(f"out.emit: {slot.name}", slot.kind, inner)

    def emitted(out, *values):
        header = emitted_header(out)
        fill_row(out, header, next_row(header), values)

    return emitted


@intrinsic(prefer_literal=True)
def fill_row(typing_context, out, header, row, values):
    """Write one row's values."""

    def generate(context, builder, signature, args):
        _, header, row, packed = args
        for word in range(marks_words(len(out.slots))):
            builder.store(WORD(0), pointer_at(builder, row, WORD(word), WORD))
        for i, (slot, value_type) in enumerate(zip(out.slots, signature.args[3].types, strict=True)):
            _fill(context, builder, slot, value_type, builder.extract_value(packed, i), header, row)
        return context.get_dummy_value()

    return types.void(out, types.int64, types.int64, values), generate


def _fill(context, builder, slot: Slot, value_type, value, header, row) -> None:
    def put(value_type, value):
        _put(context, builder, slot, value_type, value, header, row)

    store_or_null(context, builder, value_type, value, put, lambda: _put_null(builder, slot, row))


def _put(context, builder, slot: Slot, value_type, value, header, row) -> None:
    if slot.kind in TEXT_TYPES:
        for i, part in enumerate(emit_text(context, builder, value_type, value, header)):
            builder.store(part, pointer_at(builder, row, WORD(slot.word + i), WORD))
    else:
        where = f"out.emit: {slot.name}"
        store_number(context, builder, where, slot.kind, value_type, value, row, WORD(slot.word), packed=False)


def _put_null(builder, slot: Slot, row) -> None:
    pointer = pointer_at(builder, row, WORD(slot.bit // 64), WORD)
    builder.store(builder.or_(builder.load(pointer), WORD(1 << (slot.bit % 64))), pointer)
    # What a null's words hold is never looked at, but must not be read uninitialised either.
    for i in range(slot.words):
        builder.store(WORD(0), pointer_at(builder, row, WORD(slot.word + i), WORD))


# --- outside of functions ---------------------------------------------------------------------------


def marks_words(columns: int) -> int:
    """Words of null marks that a row of so many columns begins with."""
    return -(-columns // 64) or 1


def emitted_arrays(emitted: EmittedRows, slots: tuple[Slot, ...], schema: pa.Schema) -> pa.RecordBatch:
    """Give emitted rows as a record batch."""
    words = emitted.words
    arrays = [_array(words, emitted, slot, f.type) for slot, f in zip(slots, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(words: np.ndarray, emitted: EmittedRows, slot: Slot, data_type: pa.DataType) -> pa.Array:
    marks = words[:, slot.bit // 64] >> np.int64(slot.bit % 64)
    valid = marks & 1 == 0
    if slot.kind in TEXT_TYPES:
        starts, lengths = (words[:, slot.word + i].copy() for i in range(2))
        data = np.empty(int(lengths.sum()), np.uint8)
        gather_spans(emitted.text, starts, lengths, data)
        return bytes_array(data_type, lengths, data, valid)
    # A copy always, also where a single row would be a view: the memory goes with the emitted rows.
    if decimal_digits(slot.kind):
        return array_of(data_type, words[:, slot.word : slot.word + 2].copy(), valid)
    values = words[:, slot.word].copy()
    return array_of(data_type, values.view(np.float64) if pt.is_floating(data_type) else values, valid)
