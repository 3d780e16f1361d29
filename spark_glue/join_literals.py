"""Constants of Spark SQL as the kernel's literals, with the types that Spark gives them."""

from __future__ import annotations

import re
from datetime import date, timedelta
from decimal import Decimal

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from ..kernels.expression_types import MAX_DIGITS, is_number
from ..kernels.expressions import Literal, literal
from .join_constants import constant
from .spark_types import cast_target


def literal_of(node: exp.Expr) -> Literal | None:
    """Give the kernel's literal for a constant; None if it has none, and Spark must work it out.

    Examples
    --------
    >>> from .join_sql import parse
    >>> [literal_of(parse(text)).type for text in ("1", "3000000000", "1e3", "1L")]
    [DataType(int32), DataType(int64), DataType(double), DataType(int64)]
    >>> literal_of(parse("interval 1 minute * 2")), literal_of(parse("0.50"))
    (Literal(value=datetime.timedelta(seconds=120), type=DurationType(duration[us])), \
Literal(value=Decimal('0.50'), type=Decimal128Type(decimal128(2, 2))))
    >>> literal_of(parse("upper('a')"))
    """
    node = node.unnest()
    if isinstance(node, exp.Boolean):
        return literal(node.this, pa.bool_())
    if isinstance(node, exp.Null):
        return literal(None, pa.null())
    if isinstance(node, exp.Literal):
        return literal(node.name, pa.string()) if node.is_string else _number(node.name)
    if isinstance(node, exp.Cast | exp.TryCast) and isinstance(node.this, exp.Literal):
        typed = _cast(node.this, node.args["to"])
        if typed is not None:
            return typed
    value = constant(node)
    if value is not None and value.is_interval:
        return literal(timedelta(microseconds=round(value.value)), pa.duration("us"))
    return None


def _number(text: str) -> Literal | None:
    """``5`` is an int if one holds it, ``5.0`` a decimal, ``5e0`` a double."""
    if "e" in text.lower():
        return literal(float(text), pa.float64())
    if "." not in text:
        value = int(text)
        if value < 2**31:
            return literal(value, pa.int32())
        if value < 2**63:
            return literal(value, pa.int64())
    scale = len(text.partition(".")[2])
    # Leading zeros before the point do not count.
    precision = max(len(text.partition(".")[0].lstrip("0")) + scale, 1)
    return literal(Decimal(text), pa.decimal128(precision, scale)) if precision <= MAX_DIGITS else None


def _cast(inner: exp.Literal, to: exp.DataType) -> Literal | None:
    """Typed constants: ``5L``, ``1.5D``, ``DATE '2026-01-01'``."""
    target = cast_target(to, "UTC")
    if target is None:
        return None
    if pt.is_date32(target) and re.fullmatch(r"\d{4}-\d\d-\d\d", inner.name):
        try:
            return literal(date.fromisoformat(inner.name), target)
        except ValueError:
            return None
    if inner.is_string and not (pt.is_decimal(target) and re.fullmatch(r"\d+(\.\d*)?|\.\d+", inner.name)):
        return None
    return _typed_number(inner.name, target) if is_number(target) else None


def _typed_number(text: str, target: pa.DataType) -> Literal | None:
    try:
        if pt.is_floating(target):
            return literal(float(text), target)
        value = int(Decimal(text)) if pt.is_signed_integer(target) else Decimal(text)
        pa.scalar(value, target)
    except (ArithmeticError, ValueError, pa.ArrowException):
        return None
    return literal(value, target)
