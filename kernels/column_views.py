"""`key` and `rows` as compiled functions see them: columns by name, read through addresses.

Both carry the addresses of their columns as plain values, so that once everything is inlined a read
such as ``rows.amount[i]`` is two loads: the row's number, and the value.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass

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
    overload_method,
    register_jitable,
    register_model,
)

from .columns import Column, Form
from .decimal_values import DecimalType, load_decimal
from .kinds import ACCEPTED, HINT, KINDS, decimal_digits
from .raw_memory import BYTE, WORD, pointer_at
from .refusals import refuse, unknown_field
from .text import TEXT_TYPES, make_text
from .view_iteration import ViewIterator, iterable

PARTS = ("values", "nulls", "ends", "data")  # the addresses of one column, see `addresses_of`


class ColumnsType(types.Type):
    """Columns by name. `columns` holds (name, kind) pairs; the kind says "?type" where there is none.

    Only columns in `used` have addresses: those that the function may read.
    """

    view = ""

    def __init__(self, columns, used) -> None:
        self.columns = tuple(columns)
        self.used = tuple(name for name, kind in self.columns if name in set(used) and not kind.startswith("?"))
        super().__init__(name=f"{self.view}({self.columns!r}, used={self.used!r})")

    def kind(self, name: str) -> str:
        """Give the kind of a column, or refuse it."""
        kind = dict(self.columns).get(name)
        if kind is None:
            raise unknown_field(self.view, name, [name for name, _ in self.columns], "column")
        if kind.startswith("?"):
            raise refuse(f"{self.view}.{name} is {kind[1:]}, accepted are {ACCEPTED}; {HINT}")
        if name not in self.used:
            raise refuse(f"{self.view}.{name} must be spelled out in the function")
        return kind


class KeyType(ColumnsType):
    view = "key"


class RowsType(ColumnsType):
    view = "rows"


class ColumnType(types.IterableType):
    """One column of the rows of a key."""

    def __init__(self, name: str, kind: str) -> None:
        self.column, self.kind = name, kind
        super().__init__(name=f"Column({name}, {kind})")

    @property
    def iterator_type(self) -> ViewIterator:
        """What a loop over the column's values goes through."""
        return ViewIterator(self, seen_type(self.kind))


def _members(columns: ColumnsType, head: tuple[str, ...]) -> list[tuple[str, types.Type]]:
    parts = [f"{part}_{i}" for i in range(len(columns.used)) for part in PARTS]
    return [(name, types.int64) for name in (*head, *parts)]


@register_model(KeyType)
class KeyModel(models.StructModel):
    def __init__(self, manager, key_type):
        super().__init__(manager, key_type, _members(key_type, ("call",)))


@register_model(RowsType)
class RowsModel(models.StructModel):
    def __init__(self, manager, rows_type):
        super().__init__(manager, rows_type, _members(rows_type, ("order", "count")))


@register_model(ColumnType)
class ColumnModel(models.StructModel):
    def __init__(self, manager, column_type):
        super().__init__(manager, column_type, [(name, types.int64) for name in ("order", "count", *PARTS)])


# --- building views ---------------------------------------------------------------------------------


def _view_maker(head: tuple[str, ...]):
    """An intrinsic's body: a view out of the values in its head and the addresses of its columns."""

    def make(typing_context, ref, addresses, *values):
        view_type = ref.instance_type

        def generate(context, builder, signature, args):
            view = cgutils.create_struct_proxy(view_type)(context, builder)
            for name, value in zip(head, args[2:], strict=True):
                setattr(view, name, value)
            for i in range(len(view_type.used)):
                for j, part in enumerate(PARTS):
                    address = builder.load(pointer_at(builder, args[1], WORD(i * len(PARTS) + j), WORD))
                    setattr(view, f"{part}_{i}", address)
            return view._getvalue()

        return view_type(ref, types.int64, *([types.int64] * len(head))), generate

    return make


@intrinsic
def key_view(typing_context, ref, addresses, call):
    """Make the view of the key of a call, out of the address of the key columns' addresses."""
    return _view_maker(("call",))(typing_context, ref, addresses, call)


@intrinsic
def rows_view(typing_context, ref, addresses, order, count):
    """Make the view of `count` rows whose numbers stand at address `order`."""
    return _view_maker(("order", "count"))(typing_context, ref, addresses, order, count)


def _part(columns: ColumnsType, view, name: str, part: str):
    return getattr(view, f"{part}_{columns.used.index(name)}")


def key_nulls(key: KeyType, view, name: str):
    """Give the address of a key column's null marks."""
    return _part(key, view, name, "nulls")


# --- attributes -------------------------------------------------------------------------------------


def seen_type(kind: str) -> types.Type:
    """Give the Numba type in which a kind is seen."""
    digits = decimal_digits(kind)
    if digits:
        return DecimalType(digits[1])
    return KINDS[kind].seen or TEXT_TYPES[kind]


def load_value(context, builder, kind: str, column, row):
    """Read a column's value in a row; `column` has the parts as attributes."""
    if kind in TEXT_TYPES:
        start = builder.load(pointer_at(builder, column.values, row, WORD))
        end = builder.load(pointer_at(builder, column.ends, row, WORD))
        null = load_null(builder, column.nulls, row)
        address = builder.select(null, WORD(0), builder.add(column.data, start))
        return make_text(context, builder, TEXT_TYPES[kind], address, builder.sub(end, start))
    if decimal_digits(kind):
        return load_decimal(builder, column.values, builder.mul(row, WORD(2)))
    seen = seen_type(kind)
    if kind == "boolean":
        word = builder.load(pointer_at(builder, column.values, row, WORD))
        return context.cast(builder, word, types.int64, types.boolean)
    return builder.load(pointer_at(builder, column.values, row, context.get_value_type(seen)))


@dataclass
class _Parts:
    values: object
    nulls: object
    ends: object
    data: object


@infer_getattr
class KeyAttributes(AttributeTemplate):
    key = KeyType

    def generic_resolve(self, key, name):
        return None if name in RESERVED else seen_type(key.kind(name))


@lower_getattr_generic(KeyType)
def key_attribute(context, builder, key_type, value, name):
    """Read a field of the key."""
    view = cgutils.create_struct_proxy(key_type)(context, builder, value)
    parts = _Parts(*(_part(key_type, view, name, part) for part in PARTS))
    return load_value(context, builder, key_type.kind(name), parts, view.call)


@infer_getattr
class RowsAttributes(AttributeTemplate):
    key = RowsType

    def generic_resolve(self, rows, name):
        return None if name in RESERVED else ColumnType(name, rows.kind(name))


@lower_getattr_generic(RowsType)
def rows_attribute(context, builder, rows_type, value, name):
    """Take one column out of the rows."""
    view = cgutils.create_struct_proxy(rows_type)(context, builder, value)
    column = cgutils.create_struct_proxy(ColumnType(name, rows_type.kind(name)))(context, builder)
    column.order, column.count = view.order, view.count
    for part in PARTS:
        setattr(column, part, _part(rows_type, view, name, part))
    return column._getvalue()


RESERVED = ("is_null",)


# --- reading by row ---------------------------------------------------------------------------------


@register_jitable
def checked(index, count):
    """Give the position that an index means, negative ones counting from the end."""
    position = index + count if index < 0 else index
    if position < 0 or position >= count:
        raise IndexError("index out of range")
    return position


@intrinsic
def count_of(typing_context, view):
    """Give the number of rows behind `rows`, or behind one of its columns."""

    def generate(context, builder, signature, args):
        return cgutils.create_struct_proxy(signature.args[0])(context, builder, args[0]).count

    return types.int64(view), generate


@intrinsic
def value_at(typing_context, column, position):
    """Read a column's value at a position within the key's rows."""

    def generate(context, builder, signature, args):
        view = cgutils.create_struct_proxy(signature.args[0])(context, builder, args[0])
        row = builder.load(pointer_at(builder, view.order, args[1], WORD))
        return load_value(context, builder, signature.args[0].kind, view, row)

    return seen_type(column.kind)(column, types.int64), generate


@intrinsic
def null_at(typing_context, column, position):
    """Tell whether a column is null at a position within the key's rows."""

    def generate(context, builder, signature, args):
        view = cgutils.create_struct_proxy(signature.args[0])(context, builder, args[0])
        row = builder.load(pointer_at(builder, view.order, args[1], WORD))
        return load_null(builder, view.nulls, row)

    return types.boolean(column, types.int64), generate


def load_null(builder, nulls, row):
    """Read a row's null mark; address 0 means that there are no nulls."""
    known = builder.icmp_unsigned("!=", nulls, nulls.type(0))
    result = cgutils.alloca_once_value(builder, cgutils.false_bit)
    with builder.if_then(known):
        mark = builder.load(pointer_at(builder, nulls, row, BYTE))
        builder.store(builder.icmp_unsigned("!=", mark, mark.type(0)), result)
    return builder.load(result)


iterable(ColumnType)


@overload(len)
def view_length(view):
    """Rows of the key."""
    return (lambda view: count_of(view)) if isinstance(view, RowsType | ColumnType) else None


@overload(operator.getitem)
def column_item(column, index):
    """``rows.amount[i]``"""
    if not isinstance(column, ColumnType):
        return None
    if not isinstance(index, types.Integer):
        raise refuse(f"rows.{column.column}[...] got {index}, accepted is the number of a row")
    return lambda column, index: value_at(column, checked(np.int64(index), count_of(column)))


def literal_name(view: str, name) -> str:
    """Take a field's name that is given as an argument: it must be a literal."""
    if not isinstance(name, types.StringLiteral):
        raise refuse(f"{view}: a field's name must be written as a literal, like 'amount'; got {name}")
    return name.literal_value


@intrinsic(prefer_literal=True)
def column_named(typing_context, rows, name):
    """Take one column out of the rows by name."""
    field = literal_name("rows.is_null", name)
    column = ColumnType(field, rows.kind(field))

    def generate(context, builder, signature, args):
        return rows_attribute(context, builder, signature.args[0], args[0], field)

    return column(rows, name), generate


@overload_method(RowsType, "is_null", prefer_literal=True)
def rows_is_null(rows, name, index):
    """``rows.is_null("amount", i)``"""
    rows.kind(literal_name("rows.is_null", name))

    def is_null(rows, name, index):
        column = column_named(rows, name)
        return null_at(column, checked(np.int64(index), count_of(column)))

    return is_null


@intrinsic(prefer_literal=True)
def key_null(typing_context, key, name):
    """Tell whether a field of the key is null."""
    field = literal_name("key.is_null", name)
    key.kind(field)

    def generate(context, builder, signature, args):
        view = cgutils.create_struct_proxy(signature.args[0])(context, builder, args[0])
        return load_null(builder, key_nulls(signature.args[0], view, field), view.call)

    return types.boolean(key, name), generate


@overload_method(KeyType, "is_null", prefer_literal=True)
def key_is_null(key, name):
    """``key.is_null("user")``"""
    return lambda key, name: key_null(key, name)


# --- addresses, outside of functions ----------------------------------------------------------------


class ColumnAddresses:
    """The addresses of some columns, for `key_view` and `rows_view`; keeps alive what they point to."""

    def __init__(self, columns: list[Column], rows: int) -> None:
        parts = [self._parts(column, rows) for column in columns]
        self._alive = parts
        flat = [0 if part is None else part.ctypes.data for column in parts for part in column]
        # Never empty, so that there is always an address to give.
        self.table = np.array([*flat, 0], np.int64)

    @staticmethod
    def _parts(column: Column, rows: int) -> list[np.ndarray | None]:
        """Values, null marks, ends and data. A null reads as zero or as empty text."""
        nulls = None if not column.has_nulls else ~column.valid_rows(0, rows)
        if column.form is Form.BYTES:
            ends = column.ends if nulls is None else np.where(nulls, column.starts, column.ends)
            return [column.starts, nulls, ends, column.data]
        if nulls is None:
            return [column.values, None, None, None]
        # A decimal has two words a row.
        absent = nulls.reshape(rows, *[1] * (column.values.ndim - 1))
        values = np.where(absent, column.values.dtype.type(0), column.values)
        return [values, nulls, None, None]
