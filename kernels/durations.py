"""Lengths of time, as people write them and as microseconds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta

from .errors import InvalidArgument

MICROSECONDS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
# Spark takes fractions of seconds, and of nothing else.
_TERM = re.compile(r"\s*([+-]?)(\d+)(?:\.(\d{1,9})(?=\s+seconds?(?:\s|$)))?\s+([a-z]+?)s?(?=\s|$)")
_ACCEPTED = "microseconds as an int, a timedelta, or text like '1 hour 30 minutes' (week … microsecond; no months)"

Duration = int | str | timedelta


def to_microseconds(argument: str, duration: Duration) -> int:
    """Turn a duration into microseconds.

    Months and years are refused, as Spark refuses them for windows: they have no fixed length.

    Examples
    --------
    >>> to_microseconds("size", "1 hour 30 minutes")
    5400000000
    >>> to_microseconds("size", timedelta(seconds=2))
    2000000
    """
    if isinstance(duration, bool):
        raise InvalidArgument.of(argument, duration, _ACCEPTED)
    if isinstance(duration, int):
        return duration
    if isinstance(duration, timedelta):
        return duration // timedelta(microseconds=1)
    if not isinstance(duration, str):
        raise InvalidArgument.of(argument, duration, _ACCEPTED)
    return _parse(argument, duration)


def _parse(argument: str, text: str) -> int:
    total = sum_of_terms(text, MICROSECONDS)
    if total is None:
        raise InvalidArgument.of(argument, text, _ACCEPTED)
    return total


def sum_of_terms(text: str, units: Mapping[str, int]) -> int | None:
    """Add up numbers of units, as in "1 hour 30 minutes"; None where the text is something else.

    Examples
    --------
    >>> sum_of_terms("1 minute 0.5 seconds", MICROSECONDS), sum_of_terms("soon", MICROSECONDS)
    (60500000, None)
    """
    rest = text.lower().strip().removeprefix("interval ")
    total, position = 0, 0
    while position < len(rest):
        term = _TERM.match(rest, position)
        if term is None or term[4] not in units:
            return None
        size = int(term[2]) * units[term[4]] + int((term[3] or "").ljust(6, "0")[:6])
        total += -size if term[1] == "-" else size
        position = term.end()
    return total if rest else None
