"""Spark's types as the Arrow types that rows arrive in."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa
from pyspark.sql import types as T

from ..kernels.errors import InvalidArgument, UnsupportedType

_PLAIN: dict[type[T.DataType], pa.DataType] = {
    T.BooleanType: pa.bool_(),
    T.ByteType: pa.int8(),
    T.ShortType: pa.int16(),
    T.IntegerType: pa.int32(),
    T.LongType: pa.int64(),
    T.FloatType: pa.float32(),
    T.DoubleType: pa.float64(),
    T.StringType: pa.string(),
    T.CharType: pa.string(),
    T.VarcharType: pa.string(),
    T.BinaryType: pa.binary(),
    T.DateType: pa.date32(),
    T.TimestampType: pa.timestamp("us", "UTC"),
    T.TimestampNTZType: pa.timestamp("us"),
    T.DayTimeIntervalType: pa.duration("us"),
    T.NullType: pa.null(),
}


def arrow_type(data_type: T.DataType, argument: str, name: str) -> pa.DataType:
    """Give the Arrow type of a Spark type, or refuse it in the name of `argument`.

    Examples
    --------
    >>> arrow_type(T.ArrayType(T.LongType()), "left", "tags")
    ListType(list<element: int64>)
    """
    plain = _PLAIN.get(type(data_type))
    if plain is not None:
        return plain
    if isinstance(data_type, T.DecimalType):
        return pa.decimal128(data_type.precision, data_type.scale)
    inner: Callable[[T.DataType], pa.DataType] = lambda t: arrow_type(t, argument, name)  # noqa: E731
    if isinstance(data_type, T.ArrayType):
        return pa.list_(pa.field("element", inner(data_type.elementType), data_type.containsNull))
    if isinstance(data_type, T.MapType):
        return pa.map_(inner(data_type.keyType), pa.field("value", inner(data_type.valueType)))
    if isinstance(data_type, T.StructType):
        return pa.struct([pa.field(f.name, inner(f.dataType), f.nullable) for f in data_type])
    raise UnsupportedType(
        f"{argument}: column {name!r} is {data_type.simpleString()}, which Spark does not hand to Arrow functions "
        "in a form that Millrace reads; cast it, to a string for example"
    )


def arrow_schema(schema: T.StructType, names: Iterable[str], argument: str) -> pa.Schema:
    """Give the Arrow schema of some columns of a frame."""
    fields = {f.name: f for f in schema}
    return pa.schema([pa.field(name, arrow_type(fields[name].dataType, argument, name)) for name in names])


def require_binary_text(argument: str, name: str, data_type: T.DataType) -> None:
    """Refuse text of a collation other than UTF8_BINARY: Millrace compares bytes.

    Examples
    --------
    >>> require_binary_text("keys", "name", T.StringType("UTF8_LCASE"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    millrace.kernels.errors.UnsupportedType: keys: column 'name' is string collate UTF8_LCASE, accepted is text...
    """
    if getattr(data_type, "collation", "UTF8_BINARY") != "UTF8_BINARY":
        raise UnsupportedType(
            f"{argument}: column {name!r} is {data_type.simpleString()}, accepted is text that is compared byte by "
            f"byte; use lower({name}), or {name} COLLATE UTF8_BINARY"
        )


def require_columns(argument: str, names: Iterable[str], schema: T.StructType) -> None:
    """Refuse names that a frame does not have, or has twice."""
    for name in names:
        if name not in schema.names:
            raise InvalidArgument.unknown_column(argument, name, schema.names)
        if schema.names.count(name) > 1:
            raise InvalidArgument(f"{argument}: the frame has {schema.names.count(name)} columns called {name!r}")
