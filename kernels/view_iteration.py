"""Loops over the values of a view: ``for amount in rows.amount``."""

from __future__ import annotations

from numba import types
from numba.core import cgutils
from numba.core.imputils import RefType, iternext_impl, lower_builtin
from numba.extending import models, register_jitable, register_model


class ViewIterator(types.SimpleIteratorType):
    """Goes through a view that has a length and is read by position."""

    def __init__(self, view: types.Type, value: types.Type) -> None:
        self.view = view
        super().__init__(f"Iterator({view.name})", value)


@register_model(ViewIterator)
class ViewIteratorModel(models.StructModel):
    def __init__(self, manager, iterator):
        members = [("view", iterator.view), ("position", types.EphemeralPointer(types.int64))]
        super().__init__(manager, iterator, members)


def iterable(view_type) -> None:
    """Let views of a type be looped over."""

    @lower_builtin("getiter", view_type)
    def start(context, builder, signature, args):
        iterator = cgutils.create_struct_proxy(signature.return_type)(context, builder)
        position = context.get_constant(types.int64, 0)
        iterator.view = args[0]
        iterator.position = cgutils.alloca_once_value(builder, position)
        return iterator._getvalue()


@register_jitable
def _length(view):
    return len(view)


@register_jitable
def _item(view, position):
    return view[position]


@lower_builtin("iternext", ViewIterator)
@iternext_impl(RefType.UNTRACKED)
def go_on(context, builder, signature, args, result):
    """Give the next value, if there is one."""
    iterator_type = signature.args[0]
    iterator = cgutils.create_struct_proxy(iterator_type)(context, builder, args[0])
    length_signature = types.int64(iterator_type.view)
    length = context.compile_internal(builder, _length, length_signature, (iterator.view,))
    position = builder.load(iterator.position)
    more = builder.icmp_signed("<", position, length)
    result.set_valid(more)
    with builder.if_then(more):
        item_signature = iterator_type.yield_type(iterator_type.view, types.int64)
        result.yield_(context.compile_internal(builder, _item, item_signature, (iterator.view, position)))
        builder.store(builder.add(position, position.type(1)), iterator.position)
