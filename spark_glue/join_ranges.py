"""Ranges of time in a condition: what they say about how long rows must be kept, by Spark's rules.

Spark takes a comparison apart into terms, and understands sums and differences of the two event times, numbers
(which count as seconds) and day-time intervals, through casts to numbers and timestamps. A range that it
does not understand limits nothing; the rows are kept for ever.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

from sqlglot import exp

from ..kernels.durations import MICROSECONDS
from ..kernels.time_bounds import Bound, TimeBounds
from .join_constants import constant
from .join_sql import columns_of, quote

_NUMBERS = ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL")
_TIMES = ("TIMESTAMPTZ", "TIMESTAMPLTZ")


class NotARange(Exception):
    """Spark would not understand this part of a comparison; the message says why."""


class _Terms:
    """A sum: how often each side's event time is in it, and the constants, in microseconds."""

    def __init__(self, times: Mapping[str, str]) -> None:
        self._names = times
        self.times = dict.fromkeys(times, 0)
        self.microseconds = Fraction(0)
        # Casts cut off parts of seconds, and a day has not always twenty-four hours.
        self.exact = True

    def add(self, node: exp.Expr, sign: int) -> str:
        """Add a part, telling what kind of value it is: "time", "number" or "interval"."""
        node = node.unnest()
        if not columns_of(node):
            return self._add_constant(node, sign)
        if isinstance(node, exp.Add | exp.Sub):
            kinds = self.add(node.this, sign), self.add(node.expression, sign if isinstance(node, exp.Add) else -sign)
            if kinds == ("time", "time"):
                raise NotARange(
                    f"{quote(node)} is a difference of timestamps; compare one with the other ± an interval"
                )
            return "time" if "time" in kinds else kinds[0]
        if isinstance(node, exp.Neg):
            return self.add(node.this, -sign)
        if isinstance(node, exp.Cast | exp.TryCast):
            return self._add_cast(node, sign)
        if isinstance(node, exp.Column):
            return self._add_column(node, sign)
        raise NotARange(f"{quote(node)} is none of sums, differences and casts of the two event times")

    def _add_constant(self, node: exp.Expr, sign: int) -> str:
        value = constant(node)
        if value is None:
            raise NotARange(f"{quote(node)} is neither a number of seconds nor an interval of days to seconds")
        self.microseconds += sign * value.microseconds
        self.exact &= value.is_interval and abs(value.microseconds) < MICROSECONDS["day"]
        return "interval" if value.is_interval else "number"

    def _add_cast(self, node: exp.Expr, sign: int) -> str:
        target = node.args["to"].this
        name = target.name if isinstance(target, exp.DataType.Type) else ""
        if name not in _NUMBERS + _TIMES:
            raise NotARange(f"{quote(node)} is a cast to neither a number nor a timestamp")
        self.add(node.this, sign)
        self.exact = False
        return "number" if name in _NUMBERS else "time"

    def _add_column(self, node: exp.Column, sign: int) -> str:
        if self._names[node.table] != node.name:
            raise NotARange(f"{quote(node)} is not the event time of its side")
        self.times[node.table] += sign
        return "time"


def is_about_both_times(node: exp.Expr, times: Mapping[str, str | None]) -> bool:
    """Tell whether a condition looks at both sides' event times.

    Examples
    --------
    >>> from .join_sql import parse
    >>> is_about_both_times(parse("right.t > left.t + interval 1 second"), {"left": "t", "right": "t"})
    True
    """
    found = columns_of(node)
    return all(name is not None and (side, name) in found for side, name in times.items())


def time_bounds(node: exp.Expr, times: Mapping[str, str]) -> TimeBounds:
    """Give what a comparison says about right time − left time.

    Parameters
    ----------
    node
        one conjunct, with its names resolved.
    times
        the event-time column of each side.

    Raises
    ------
    NotARange
        Spark would not understand it.

    Examples
    --------
    >>> from .join_sql import parse
    >>> time_bounds(parse("left.t < right.t - interval 5 seconds"), {"left": "t", "right": "t"})
    TimeBounds(lower=Bound(microseconds=5000000, closed=False), upper=None, exact=True)
    """
    if not isinstance(node, exp.LT | exp.LTE | exp.GT | exp.GTE):
        raise NotARange("it is not a comparison with <, <=, > or >=")
    larger, smaller = (
        (node.expression, node.this) if isinstance(node, exp.LT | exp.LTE) else (node.this, node.expression)
    )
    terms = _Terms(times)
    terms.add(larger, 1)
    terms.add(smaller, -1)
    closed = isinstance(node, exp.LTE | exp.GTE)
    # larger − smaller > 0 is ±(right − left) + microseconds > 0. Parts of a microsecond err on the safe side.
    if terms.times == {"left": -1, "right": 1}:
        return TimeBounds(lower=Bound(math.floor(-terms.microseconds), closed), exact=terms.exact)
    if terms.times == {"left": 1, "right": -1}:
        return TimeBounds(upper=Bound(math.ceil(terms.microseconds), closed), exact=terms.exact)
    raise NotARange("it does not compare one event time with the other")


def understood(conjuncts: list[exp.Expr], times: Mapping[str, str | None]) -> tuple[list[TimeBounds], list[str]]:
    """Find the ranges among conjuncts, and say of those that bound nothing why not.

    Examples
    --------
    >>> from .join_sql import parse
    >>> bounds, notes = understood([parse("right.t - left.t > interval 5 seconds")], {"left": "t", "right": "t"})
    >>> notes[0][:68]
    "right.t - left.t > INTERVAL '5' SECONDS does not limit how long rows"
    """
    bounds, notes = [], []
    named = {side: name for side, name in times.items() if name is not None}
    for node in conjuncts:
        if not is_about_both_times(node, times):
            continue
        try:
            bounds.append(time_bounds(node, named))
        except NotARange as reason:
            notes.append(f"{quote(node)} does not limit how long rows are kept: {reason}")
    return bounds, notes
