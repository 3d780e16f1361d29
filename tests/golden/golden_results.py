"""What each aggregate gives for a group's rows, in plain Python, after Spark's rules alone."""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Sequence
from decimal import Decimal

from golden_rows import FIRST_COUNT, order, some

EXACT = decimal.Context(prec=200, rounding=decimal.ROUND_HALF_UP)
Result = Callable[[list[dict]], object]


def count(column: str | None = None) -> Result:
    return lambda rows: len(rows) if column is None else len(some(rows, column))


def total(column: str) -> Result:
    return lambda rows: _sum(some(rows, column)) if some(rows, column) else None


def _sum(values: Sequence) -> object:
    if isinstance(values[0], Decimal):
        with decimal.localcontext(EXACT):
            return sum(values)
    return sum(values)


def mean(column: str) -> Result:
    """Of decimals with four more places, rounded to 38 places first, as Spark divides."""

    def result(rows: list[dict]) -> object:
        values = some(rows, column)
        if not values:
            return None
        if not isinstance(values[0], Decimal):
            return _sum(values) / len(values)
        with decimal.localcontext(EXACT):
            quotient = (sum(values) / len(values)).quantize(Decimal("1e-38"))
            return quotient.quantize(values[0].scaleb(-4), context=EXACT)

    return result


def least(column: str) -> Result:
    return lambda rows: min(some(rows, column), key=order, default=None)


def greatest(column: str) -> Result:
    return lambda rows: max(some(rows, column), key=order, default=None)


def first(column: str, ignore_nulls: bool = False) -> Result:
    return lambda rows: next((r[column] for r in rows if not (ignore_nulls and r[column] is None)), None)


def last(column: str, ignore_nulls: bool = False) -> Result:
    return lambda rows: first(column, ignore_nulls)(rows[::-1])


def least_by(value: str, ordering: str) -> Result:
    """Among equals the later row wins, so the last of the least."""

    def result(rows: list[dict]) -> object:
        known = [row for row in rows if row[ordering] is not None]
        return min(known[::-1], key=lambda row: order(row[ordering]))[value] if known else None

    return result


def greatest_by(value: str, ordering: str) -> Result:
    def result(rows: list[dict]) -> object:
        known = [row for row in rows if row[ordering] is not None]
        return max(known[::-1], key=lambda row: order(row[ordering]))[value] if known else None

    return result


def every(column: str) -> Result:
    return lambda rows: all(some(rows, column)) if some(rows, column) else None


def any_of(column: str) -> Result:
    return lambda rows: any(some(rows, column)) if some(rows, column) else None


def count_true(column: str) -> Result:
    return lambda rows: sum(some(rows, column))


def variance(column: str, less: int, root: bool = False) -> Result:
    """Of a population (`less` 0) or a sample (1), or the root of it."""

    def result(rows: list[dict]) -> float | None:
        values = [float(value) for value in some(rows, column)]
        if len(values) <= less:
            return None
        if not all(map(math.isfinite, values)):
            return math.nan
        middle = math.fsum(values) / len(values)
        squares = math.fsum((value - middle) ** 2 for value in values) / (len(values) - less)
        return math.sqrt(squares) if root else squares

    return result


def weighted(value: str, weight: str) -> Result:
    def result(rows: list[dict]) -> float | None:
        pairs = [(float(r[value]), float(r[weight])) for r in rows if r[value] is not None and r[weight] is not None]
        weights = math.fsum(w for _, w in pairs)
        return math.fsum(v * w for v, w in pairs) / weights if weights else None

    return result


def distinct(column: str) -> Result:
    return lambda rows: len(set(some(rows, column)))


def quantile(column: str, share: float) -> Result:
    """The exact quantile; a sketch's lies within 1 %."""

    def result(rows: list[dict]) -> float | None:
        values = sorted(float(value) for value in some(rows, column))
        return values[math.floor(share * (len(values) - 1))] if values else None

    return result


def wrapped(column: str) -> Result:
    """A sum of 64 bits that wraps around, as outside of ANSI mode."""
    return lambda rows: (sum(some(rows, column)) + 2**63) % 2**64 - 2**63 if some(rows, column) else None


def lost_if_too_large(column: str) -> Result:
    """A sum of decimal(38, 0): once it has 39 digits at the end of a batch, it is null for ever."""

    def result(rows: list[dict]) -> Decimal | None:
        before = _sum([Decimal(0), *some([row for row in rows if row["i"] < FIRST_COUNT], column)])
        now = _sum([Decimal(0), *some(rows, column)])
        too_large = max(abs(int(before)), abs(int(now))) >= 10**38
        return None if too_large or not some(rows, column) else now

    return result
