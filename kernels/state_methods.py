"""What a stateful function can do with `state` besides reading and writing its fields."""

from __future__ import annotations

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload_method, register_jitable

from .call_protocol import ARENA, DONE, REMOVED, STORED, set_duration, set_timestamp
from .column_views import literal_name
from .kinds import Slot
from .native_memory import add_garbage
from .raw_memory import load_word_at, store_word_at
from .record_views import RecordType, StateType, header_of, load_null_mark, mark_written, record_of
from .refusals import refuse
from .text import TEXT_TYPES


def _text_words(slots) -> tuple[int, ...]:
    return tuple(slot.word for slot in slots if slot.kind in TEXT_TYPES)


@register_jitable
def clear_words(record, first, end):
    """Zero words of a record."""
    for word in range(first, end):
        store_word_at(record, word, 0)


@overload_method(StateType, "remove")
def remove(state):
    """``state.remove()``"""
    slots = tuple(state.slots.values())
    lengths = tuple(word + 1 for word in _text_words(slots))
    end = max((slot.word + slot.words for slot in slots), default=1)

    def removed(state):
        record, header = record_of(state), header_of(state)
        for length in lengths:
            add_garbage(load_word_at(header, ARENA), load_word_at(record, length))
        marks = load_word_at(record, 0)
        clear_words(record, 0, end)
        # Whether the key is stored is decided after the call; see `end_call`.
        store_word_at(record, 0, marks & STORED)
        store_word_at(header, DONE, REMOVED)

    def removed_without_text(state):
        record, header = record_of(state), header_of(state)
        marks = load_word_at(record, 0)
        clear_words(record, 0, end)
        store_word_at(record, 0, marks & STORED)
        store_word_at(header, DONE, REMOVED)

    # A loop over an empty tuple has no type.
    return removed if lengths else removed_without_text


def _require_timeout(state: StateType, wanted: str, condition: str, way: str, argument) -> None:
    if state.timeout != wanted:
        rule = f"[CANNOT_WITHOUT] Cannot {condition} without enabling {way} timeout"
        raise refuse(f"{rule}; this query has {state.timeout}")
    if not isinstance(argument, types.Integer):
        raise refuse(f"state: to {condition} takes milliseconds as an integer, got {argument}")


@overload_method(StateType, "set_timeout_duration")
def set_timeout_duration(state, duration_ms):
    """``state.set_timeout_duration(ms)``"""
    _require_timeout(state, "ProcessingTimeTimeout", "set timeout duration", "processing time", duration_ms)
    return lambda state, duration_ms: set_duration(header_of(state), np.int64(duration_ms))


@overload_method(StateType, "set_timeout_timestamp")
def set_timeout_timestamp(state, timestamp_ms):
    """``state.set_timeout_timestamp(ms)``"""
    _require_timeout(state, "EventTimeTimeout", "set timeout timestamp", "event time", timestamp_ms)
    return lambda state, timestamp_ms: set_timestamp(header_of(state), np.int64(timestamp_ms))


@overload_method(StateType, "is_null", prefer_literal=True)
def is_null(state, name):
    """``state.is_null("n")``"""
    return lambda state, name: null_mark(state, name)


@overload_method(StateType, "set_null", prefer_literal=True)
def set_null(state, name):
    """``state.set_null("n")``"""
    slot = state.slot(literal_name("state.set_null", name))
    first, end = slot.word, slot.word + slot.words
    length = slot.word + 1

    def set_text_null(state, name):
        add_garbage(load_word_at(header_of(state), ARENA), load_word_at(record_of(state), length))
        clear_words(record_of(state), first, end)
        mark_null(state, name)

    def set_number_null(state, name):
        clear_words(record_of(state), first, end)
        mark_null(state, name)

    return set_text_null if slot.kind in TEXT_TYPES else set_number_null


def _slot_named(state: RecordType, what: str, name) -> Slot:
    return state.slot(literal_name(what, name))


@intrinsic(prefer_literal=True)
def null_mark(typing_context, state, name):
    """Read a field's null mark."""
    slot = _slot_named(state, "state.is_null", name)

    def generate(context, builder, signature, args):
        view = cgutils.create_struct_proxy(signature.args[0])(context, builder, args[0])
        return load_null_mark(builder, view.record, slot)

    return types.boolean(state, name), generate


@intrinsic(prefer_literal=True)
def mark_null(typing_context, state, name):
    """Set a field's null mark."""
    slot = _slot_named(state, "state.set_null", name)

    def generate(context, builder, signature, args):
        view = cgutils.create_struct_proxy(signature.args[0])(context, builder, args[0])
        mark_written(builder, signature.args[0], view, slot, null=True)
        return context.get_dummy_value()

    return types.void(state, name), generate
