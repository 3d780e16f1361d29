"""Constants in conditions: intervals and numbers, worked out as Spark's optimiser does before it looks at ranges."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from sqlglot import exp

from ..kernels.durations import MICROSECONDS

_TERM = re.compile(r"\s*([+-]?)\s*(\d+\.?\d*|\.\d+)\s+([a-z]+?)s?(?=\s|$)", re.IGNORECASE)
_NUMBER = re.compile(r"\s*([+-]?)\s*(\d+\.?\d*|\.\d+)\s*")
_SPANS = {
    ("day", "hour"): r"(?P<day>\d+) (?P<hour>\d+)",
    ("day", "minute"): r"(?P<day>\d+) (?P<hour>\d+):(?P<minute>\d+)",
    ("day", "second"): r"(?P<day>\d+) (?P<hour>\d+):(?P<minute>\d+):(?P<second>\d+\.?\d*)",
    ("hour", "minute"): r"(?P<hour>\d+):(?P<minute>\d+)",
    ("hour", "second"): r"(?P<hour>\d+):(?P<minute>\d+):(?P<second>\d+\.?\d*)",
    ("minute", "second"): r"(?P<minute>\d+):(?P<second>\d+\.?\d*)",
}
_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_PARTS = ("day", "hour", "minute", "second")


@dataclass(frozen=True)
class Constant:
    """A number, or a day-time interval in microseconds."""

    value: Fraction
    is_interval: bool = False

    @property
    def microseconds(self) -> Fraction:
        """What it counts in a range of times, where numbers are seconds."""
        return self.value if self.is_interval else self.value * MICROSECONDS["second"]


def constant(node: exp.Expr) -> Constant | None:
    """Work out an expression without columns; None if it is neither a number nor a day-time interval.

    Examples
    --------
    >>> from .join_sql import parse
    >>> constant(parse("a > -interval '1 00:00:05' day to second").expression).microseconds
    Fraction(-86405000000, 1)
    >>> constant(parse("5 + 0.5")).microseconds
    Fraction(5500000, 1)
    >>> constant(parse("a > interval 1 month").expression)
    """
    node = node.unnest()
    if isinstance(node, exp.Interval):
        micros = interval_microseconds(node)
        return None if micros is None else Constant(micros, is_interval=True)
    if isinstance(node, exp.Literal):
        return None if node.is_string else Constant(Fraction(node.name))
    if isinstance(node, exp.Neg):
        inner = constant(node.this)
        return None if inner is None else Constant(-inner.value, inner.is_interval)
    if isinstance(node, exp.Cast | exp.TryCast):
        return _cast(node)
    if isinstance(node, exp.Anonymous) and node.name.lower() == "make_dt_interval":
        return _make_interval([constant(argument) for argument in node.expressions])
    if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Div):
        return _combined(node, constant(node.this), constant(node.expression))
    return None


def _cast(node: exp.Expr) -> Constant | None:
    target = node.args["to"].this
    if isinstance(target, exp.Interval):
        return _cast_to_interval(node.this.unnest(), target)
    literal = node.this.unnest()
    is_text = isinstance(literal, exp.Literal) and literal.is_string
    inner = _text_number(literal.name) if is_text else constant(literal)
    if inner is None or inner.is_interval or not isinstance(target, exp.DataType.Type):
        return None
    if target.name in _INTEGERS:
        return Constant(Fraction(int(inner.value)))
    if target.name == "DECIMAL":
        parameters = [int(p.name) for p in node.args["to"].expressions]
        step = Fraction(1, 10 ** (parameters[1] if len(parameters) > 1 else 0))
        return Constant(_rounded(inner.value / step) * step)
    return inner if target.name in ("FLOAT", "DOUBLE") else None


def _cast_to_interval(literal: exp.Expr, target: exp.Interval) -> Constant | None:
    """``CAST('5' AS INTERVAL SECOND)`` is the literal that says the same."""
    if not isinstance(literal, exp.Literal) or not literal.is_string:
        return None
    micros = interval_microseconds(exp.Interval(this=literal.copy(), unit=target.args.get("unit")))
    return None if micros is None else Constant(micros, is_interval=True)


def _text_number(text: str) -> Constant | None:
    return Constant(Fraction(text.strip())) if _NUMBER.fullmatch(text) else None


def _make_interval(parts: list[Constant | None]) -> Constant | None:
    """``make_dt_interval(days, hours, minutes, seconds)``, each of them optional."""
    total = Fraction(0)
    for name, part in zip(_PARTS, parts, strict=False):
        if part is None or part.is_interval:
            return None
        total += part.value * MICROSECONDS[name]
    return Constant(total, is_interval=True)


def _combined(node: exp.Expr, a: Constant | None, b: Constant | None) -> Constant | None:
    if a is None or b is None:
        return None
    if isinstance(node, exp.Add | exp.Sub):
        if a.is_interval != b.is_interval:
            return None
        return Constant(a.value + b.value if isinstance(node, exp.Add) else a.value - b.value, a.is_interval)
    if b.is_interval and (a.is_interval or isinstance(node, exp.Div)):
        return None
    if isinstance(node, exp.Div) and b.value == 0:
        return None
    value = a.value * b.value if isinstance(node, exp.Mul) else a.value / b.value
    is_interval = a.is_interval or b.is_interval
    return Constant(Fraction(_rounded(value)) if is_interval else value, is_interval)


def _rounded(value: Fraction) -> int:
    """Round half up, away from zero, as Spark does to whole microseconds."""
    quotient, rest = divmod(abs(value.numerator), value.denominator)
    magnitude = quotient + (2 * rest >= value.denominator)
    return magnitude if value >= 0 else -magnitude


def interval_microseconds(node: exp.Interval) -> Fraction | None:
    """Give the length of an interval literal; None for months and years, which have none, and for other text.

    Examples
    --------
    >>> from .join_sql import parse
    >>> [int(interval_microseconds(parse(f"a > interval {text}").expression)) for text in ("1.5 seconds", "'1 day'")]
    [1500000, 86400000000]
    """
    literal, sign = node.this, 1
    if isinstance(literal, exp.Neg):
        literal, sign = literal.this, -1
    if not isinstance(literal, exp.Literal):
        return None
    text, unit = literal.name, node.args.get("unit")
    if unit is None:
        micros = _terms(text)
    elif isinstance(unit, exp.IntervalSpan):
        micros = _span(text, unit.this.name.lower(), unit.expression.name.lower())
    else:
        micros = _terms(f"{text} {unit.name}")
    return None if micros is None else sign * micros


def _terms(text: str) -> Fraction | None:
    """``2 days 1.5 seconds``: any number of amounts and units."""
    text = re.sub(r"^\s*interval\s+", "", text, flags=re.IGNORECASE)
    total, position = Fraction(0), 0
    while position < len(text.rstrip()):
        term = _TERM.match(text, position)
        if term is None or term[3].lower() not in MICROSECONDS:
            return None
        amount = Fraction(Decimal(term[2]))
        total += (-amount if term[1] == "-" else amount) * MICROSECONDS[term[3].lower()]
        position = term.end()
    return total if position else None


def _span(text: str, first: str, last: str) -> Fraction | None:
    """``1 00:00:05`` from days to seconds: one text for several units."""
    match = re.fullmatch(r"\s*(?P<sign>[+-]?)" + _SPANS.get((first, last), r"(?!)") + r"\s*", text)
    if match is None:
        return None
    parts = match.groupdict()
    sign = -1 if parts.pop("sign") == "-" else 1
    return sign * sum((Fraction(amount) * MICROSECONDS[name] for name, amount in parts.items()), Fraction(0))
