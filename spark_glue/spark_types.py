"""Spark's types as SQL names them, and the type in which Spark compares two of them.

The rules are those of Spark 4 in ANSI mode, its default.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from ..kernels.columns import plain_type
from ..kernels.expression_types import DIGITS, MAX_DIGITS, is_bytes, is_number, is_text

# Spark counts twenty digits for a long where it meets a decimal.
_SPARK_DIGITS = {**DIGITS, 64: 20}
_NAMES = {
    pa.bool_(): "BOOLEAN", pa.int8(): "TINYINT", pa.int16(): "SMALLINT", pa.int32(): "INT", pa.int64(): "BIGINT",
    pa.float32(): "FLOAT", pa.float64(): "DOUBLE", pa.string(): "STRING", pa.large_string(): "STRING",
    pa.binary(): "BINARY", pa.large_binary(): "BINARY", pa.date32(): "DATE",
}  # fmt: skip
_CAST_TARGETS = {
    "BOOLEAN": pa.bool_(), "TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INT": pa.int32(), "BIGINT": pa.int64(),
    "FLOAT": pa.float32(), "DOUBLE": pa.float64(), "TEXT": pa.string(), "BINARY": pa.binary(), "DATE": pa.date32(),
    "TIMESTAMPNTZ": pa.timestamp("us"), "DECIMAL": pa.decimal128(10, 0),
}  # fmt: skip


def sql_name(data_type: pa.DataType) -> str:
    """Name a type as ``CAST(x AS …)`` takes it.

    Examples
    --------
    >>> sql_name(pa.decimal128(12, 2)), sql_name(pa.timestamp("us", "UTC"))
    ('DECIMAL(12, 2)', 'TIMESTAMP_LTZ')
    """
    if pt.is_decimal(data_type):
        return f"DECIMAL({data_type.precision}, {data_type.scale})"
    if pt.is_timestamp(data_type):
        # Plain TIMESTAMP is either, as the session is set up.
        return "TIMESTAMP_NTZ" if data_type.tz is None else "TIMESTAMP_LTZ"
    return _NAMES[data_type]


def cast_target(to: exp.DataType, zone: str) -> pa.DataType | None:
    """Give the type a cast casts to; None for types the kernels do not calculate with.

    Examples
    --------
    >>> cast_target(exp.DataType.build("decimal(5, 1)", dialect="spark"), "UTC")
    Decimal128Type(decimal128(5, 1))
    """
    if not isinstance(to.this, exp.DataType.Type):
        return None
    name = to.this.name
    if name == "DECIMAL" and to.expressions:
        precision, scale = [int(p.name) for p in to.expressions] + [0] * (2 - len(to.expressions))
        return pa.decimal128(precision, scale)
    if name in ("TIMESTAMPTZ", "TIMESTAMPLTZ"):
        return pa.timestamp("us", zone)
    return _CAST_TARGETS.get(name)


def common_type(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """Give the type in which Spark compares two plain types; None if it refuses to.

    Examples
    --------
    >>> common_type(pa.int32(), pa.float32()), common_type(pa.string(), pa.int8())
    (DataType(double), DataType(int64))
    >>> common_type(pa.int32(), pa.decimal128(10, 2)), common_type(pa.int64(), pa.decimal128(38, 30))
    (Decimal128Type(decimal128(12, 2)), Decimal128Type(decimal128(38, 18)))
    >>> common_type(pa.bool_(), pa.int32())
    """
    a, b = plain_type(a), plain_type(b)
    if a.equals(b) or pt.is_null(b):
        return a
    if pt.is_null(a):
        return b
    if is_text(a) or is_text(b):
        return _with_text(a, b)
    if is_bytes(a) and is_bytes(b):
        return a
    if is_number(a) and is_number(b):
        return _common_number(a, b)
    if pt.is_duration(a) and pt.is_duration(b):
        return pa.duration("us")
    return _common_time(a, b)


def _with_text(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """A string is cast to what it is compared with; to the widest of a kind of numbers."""
    if is_text(a) and is_text(b):
        return a
    other = b if is_text(a) else a
    if pt.is_signed_integer(other):
        return pa.int64()
    if is_number(other):
        return pa.float64()
    castable = pt.is_boolean(other) or is_bytes(other) or pt.is_date32(other) or pt.is_timestamp(other)
    return other if castable else None


def _common_number(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    if pt.is_signed_integer(a) and pt.is_signed_integer(b):
        return a if a.bit_width >= b.bit_width else b
    if pt.is_floating(a) or pt.is_floating(b):
        return pa.float64()
    (p, s), (q, r) = _digits(a), _digits(b)
    whole, scale = max(p - s, q - r), max(s, r)
    if whole + scale > MAX_DIGITS:
        # Digits before the point are kept, at the cost of those after it.
        return pa.decimal128(MAX_DIGITS, max(MAX_DIGITS - whole, 0))
    return pa.decimal128(whole + scale, scale)


def _digits(t: pa.DataType) -> tuple[int, int]:
    return (t.precision, t.scale) if pt.is_decimal(t) else (_SPARK_DIGITS[t.bit_width], 0)


def _common_time(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """A date becomes the timestamp it meets, and a timestamp without a zone one with a zone."""
    times = [t for t in (a, b) if pt.is_timestamp(t)]
    if not times or not all(pt.is_timestamp(t) or pt.is_date32(t) for t in (a, b)):
        return None
    zones = [t.tz for t in times if t.tz is not None]
    return pa.timestamp("us", zones[0] if zones else None)
