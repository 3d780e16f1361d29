"""Which types meet in an expression, and what comes of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from .columns import column_of, plain_type
from .durations import MICROSECONDS
from .errors import UnsupportedType

MAX_DIGITS = 38
DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
INTERVAL = pa.duration("us")
EXACT_DOUBLE, EXACT_POWER = 2**53, 22
LEAST = np.iinfo(np.int64).min


def is_number(t: pa.DataType) -> bool:
    """Whether Spark would calculate with it."""
    return pt.is_signed_integer(t) or pt.is_floating(t) or pt.is_decimal128(t)


def is_text(t: pa.DataType) -> bool:
    """Whether it is a string."""
    return pt.is_string(t) or pt.is_large_string(t)


def is_bytes(t: pa.DataType) -> bool:
    """Whether it is binary."""
    return pt.is_binary(t) or pt.is_large_binary(t)


def refuse(expression: object, types: Sequence[pa.DataType], accepted: str) -> UnsupportedType:
    """Build the error for types that do not go together, quoting the part of the condition."""
    return UnsupportedType(f"condition: {expression} got {', '.join(map(str, types))}, accepted are {accepted}")


def comparable_type(expression: object, types: Sequence[pa.DataType]) -> pa.DataType:
    """Give the type in which values are compared."""
    common = plain_type(types[0])
    for t in types[1:]:
        joined = _comparable_pair(common, plain_type(t))
        if joined is None:
            accepted = "two numbers, strings, binaries, booleans, intervals, or dates and timestamps of one kind"
            raise refuse(expression, types, accepted)
        common = joined
    # Narrow floats are compared as doubles, and every timestamp in microseconds.
    if pt.is_floating(common):
        return pa.float64()
    return pa.bool_() if pt.is_null(common) else common


def _comparable_pair(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    if pt.is_null(a) or pt.is_null(b):
        return b if pt.is_null(a) else a
    if is_number(a) and is_number(b):
        return common_number(a, b)
    for family, wide in ((is_text, pa.large_string()), (is_bytes, pa.large_binary())):
        if family(a) and family(b):
            return a if a.equals(b) else wide
    if pt.is_date32(a) and pt.is_date32(b):
        return a
    if (pt.is_timestamp(a) or pt.is_date32(a)) and (pt.is_timestamp(b) or pt.is_date32(b)):
        zones = {t.tz for t in (a, b) if pt.is_timestamp(t)}
        return pa.timestamp("us", zones.pop()) if len({zone is None for zone in zones}) == 1 else None
    if pt.is_duration(a) and pt.is_duration(b):
        return INTERVAL
    return a if pt.is_boolean(a) and pt.is_boolean(b) else None


def common_number(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """Give the number type that holds both; None if no decimal of 38 digits can."""
    if pt.is_floating(a) or pt.is_floating(b):
        return pa.float64()
    if pt.is_decimal128(a) or pt.is_decimal128(b):
        (p, s), (q, r) = _digits(a), _digits(b)
        scale, whole = max(s, r), max(p - s, q - r)
        return pa.decimal128(scale + whole, scale) if scale + whole <= MAX_DIGITS else None
    return a if a.bit_width >= b.bit_width else b


def _digits(t: pa.DataType) -> tuple[int, int]:
    return (t.precision, t.scale) if pt.is_decimal(t) else (DIGITS[t.bit_width], 0)


def result_type(expression: Any, types: Sequence[pa.DataType]) -> tuple[list[pa.DataType], pa.DataType]:
    """Give the types that the operands of an arithmetic operator are cast to, and its result's."""
    operator = expression.operator
    accepted = "numbers, or timestamps and intervals where they can be added"
    if operator in ("negate", "abs"):
        if not is_number(types[0]) and not pt.is_duration(types[0]):
            raise refuse(expression, types, "a number or an interval")
        return [types[0]], types[0]
    a, b = types
    if is_number(a) and is_number(b):
        return _number_result(expression, a, b)
    with_time = _time_result(operator, a, b)
    if with_time is None:
        raise refuse(expression, types, accepted)
    return with_time


def _number_result(expression: Any, a: pa.DataType, b: pa.DataType) -> tuple[list[pa.DataType], pa.DataType]:
    operator = expression.operator
    decimal = (pt.is_decimal(a) or pt.is_decimal(b)) and not (pt.is_floating(a) or pt.is_floating(b))
    if decimal and operator in ("/", "%"):
        raise refuse(expression, (a, b), "integers and floats for / and %; cast decimals to double")
    if operator == "/":
        return [pa.float64(), pa.float64()], pa.float64()
    if not decimal:
        common = common_number(a, b)
        assert common is not None
        return [common, common], common
    (p, s), (q, r) = _digits(a), _digits(b)
    scale, precision = max(s, r), max(p - s, q - r) + max(s, r) + 1
    if operator == "*":
        scale, precision = s + r, p + q + 1
    if precision > MAX_DIGITS:
        raise refuse(expression, (a, b), "decimals whose result has at most 38 digits; cast to fewer, or to double")
    return [pa.decimal128(p, s), pa.decimal128(q, r)], pa.decimal128(precision, scale)


def _time_result(operator: str, a: pa.DataType, b: pa.DataType) -> tuple[list[pa.DataType], pa.DataType] | None:
    if pt.is_date32(a):
        a = pa.timestamp("us")
    if pt.is_date32(b):
        b = pa.timestamp("us")
    if pt.is_duration(a) and pt.is_duration(b) and operator in ("+", "-"):
        return [INTERVAL, INTERVAL], INTERVAL
    if pt.is_timestamp(a) and pt.is_duration(b) and operator in ("+", "-"):
        time = pa.timestamp("us", a.tz)
        return [time, INTERVAL], time
    if pt.is_duration(a) and pt.is_timestamp(b) and operator == "+":
        time = pa.timestamp("us", b.tz)
        return [INTERVAL, time], time
    if pt.is_timestamp(a) and pt.is_timestamp(b) and operator == "-" and (a.tz is None) == (b.tz is None):
        return [pa.timestamp("us", a.tz), pa.timestamp("us", b.tz)], INTERVAL
    if pt.is_duration(a) and pt.is_signed_integer(b) and operator == "*":
        return [INTERVAL, pa.int64()], INTERVAL
    if pt.is_signed_integer(a) and pt.is_duration(b) and operator == "*":
        return [pa.int64(), INTERVAL], INTERVAL
    return None


def as_type(expression: object, given: pa.DataType, target: pa.DataType | None) -> pa.DataType:
    """Check a cast."""
    times = pt.is_timestamp(given) or pt.is_date32(given)
    to_number = target is not None and is_number(target)
    allowed = target is not None and (
        given.equals(target)
        or pt.is_null(given)
        or (is_number(given) and to_number)
        or (pt.is_timestamp(given) and to_number and not pt.is_decimal(target))
        or (times and (pt.is_timestamp(target) or pt.is_date32(target)))
    )
    if not allowed or target is None:
        raise refuse(
            expression, [given], "casts among numbers, among dates and timestamps, and of timestamps to numbers"
        )
    return target


def cast_value(value: Any, target: pa.DataType) -> Any:
    """Cast an array or scalar; a timestamp becomes seconds, rounded down for integers, as in Spark."""
    if pt.is_dictionary(value.type):
        value = value.cast(value.type.value_type)
    if pt.is_timestamp(value.type) and is_number(target):
        micros = value.cast(pa.timestamp("us", value.type.tz)).cast(pa.int64())
        if pt.is_floating(target):
            return pc.divide(micros.cast(pa.float64()), float(MICROSECONDS["second"])).cast(target)
        return _floor_seconds(micros).cast(target)
    if pt.is_floating(value.type) and pt.is_signed_integer(target):
        # Spark drops the fraction; what is left must fit.
        return pc.trunc(value).cast(target)
    if pt.is_signed_integer(value.type) and pt.is_floating(target):
        # Large ones are rounded, as in Spark; Arrow's safe cast refuses them.
        return pc.cast(value, target, safe=False)
    if pt.is_decimal128(value.type) and pt.is_floating(target):
        return _nearest_doubles(value).cast(target)
    return value.cast(target)


def _nearest_doubles(value: Any) -> Any:
    """Turn decimals into the doubles nearest to them; Arrow's own cast is often off by a bit."""
    if isinstance(value, pa.Scalar):
        return pa.scalar(None if not value.is_valid else float(value.as_py()), pa.float64())
    scale, words = value.type.scale, column_of(value).values
    low, high = words[:, 0], words[:, 1]
    # Two doubles that are exact have an exact quotient but for one rounding.
    simple = (high == low >> 63) & (np.abs(low) <= EXACT_DOUBLE) & (low != LEAST) & (0 <= scale <= EXACT_POWER)
    doubles = low / 10.0**scale
    mask = value.is_null().to_numpy(zero_copy_only=False)
    for row in np.flatnonzero(~simple & ~mask):
        doubles[row] = float(value[int(row)].as_py())
    return pa.array(doubles, mask=mask)


def _floor_seconds(micros: Any) -> Any:
    if isinstance(micros, pa.Scalar):
        return pa.scalar(None if not micros.is_valid else micros.as_py() // MICROSECONDS["second"], pa.int64())
    mask = micros.is_null().to_numpy(zero_copy_only=False)
    values = pc.fill_null(micros, 0).to_numpy(zero_copy_only=False)
    return pa.array(np.floor_divide(values, MICROSECONDS["second"]), mask=mask)
