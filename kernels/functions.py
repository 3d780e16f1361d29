"""The aggregate functions a query can ask for, named as in Spark SQL.

Each call only describes; types are checked when an `Aggregation` is built.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .errors import InvalidArgument


@dataclass(frozen=True)
class Aggregate:
    """An aggregate function applied to columns."""

    function: str
    columns: tuple[str, ...] = ()
    ignore_nulls: bool = False
    # Of a function that is not one of this package's: whatever can bind it, see `user_aggregates`.
    definition: Any = None

    def __post_init__(self) -> None:
        for column in self.columns:
            if not isinstance(column, str):
                given = column if isinstance(column, str | int | float) else f"a {type(column).__name__}"
                raise InvalidArgument(f"{self.function}: got {given}, accepted is the name of a column, as text")

    def __str__(self) -> str:
        inside = ", ".join(self.columns) or "*"
        return f"{self.function}({inside}{', ignore_nulls' if self.ignore_nulls else ''})"


def count(column: str | None = None) -> Aggregate:
    """Count rows, or with a column its non-null values. Result: int64.

    Examples
    --------
    >>> print(count(), count("amount"))
    count(*) count(amount)
    """
    return Aggregate("count", () if column is None or column == "*" else (column,))


def count_if(column: str) -> Aggregate:
    """Count the rows whose boolean column is true. Result: int64.

    Examples
    --------
    >>> print(count_if("clicked"))
    count_if(clicked)
    """
    return Aggregate("count_if", (column,))


def sum(column: str) -> Aggregate:
    """Add up numbers: int64 for integers, float64 for floats, decimal(p + 10, s) for decimals.

    Null where a group has no non-null value.

    Examples
    --------
    >>> print(sum("amount"))
    sum(amount)
    """
    return Aggregate("sum", (column,))


def avg(column: str) -> Aggregate:
    """Average numbers: float64, or decimal(p + 4, s + 4) for decimals.

    Examples
    --------
    >>> print(avg("amount"))
    avg(amount)
    """
    return Aggregate("avg", (column,))


def min(column: str) -> Aggregate:
    """Keep the least value, of any type; NaN counts as the greatest number.

    Examples
    --------
    >>> print(min("name"))
    min(name)
    """
    return Aggregate("min", (column,))


def max(column: str) -> Aggregate:
    """Keep the greatest value, of any type; NaN counts as the greatest number.

    Examples
    --------
    >>> print(max("ts"))
    max(ts)
    """
    return Aggregate("max", (column,))


def first(column: str, ignore_nulls: bool = False) -> Aggregate:
    """Keep the first value met, or the first that is not null.

    Examples
    --------
    >>> print(first("page", ignore_nulls=True))
    first(page, ignore_nulls)
    """
    return Aggregate("first", (column,), ignore_nulls)


def last(column: str, ignore_nulls: bool = False) -> Aggregate:
    """Keep the last value met, or the last that is not null.

    Examples
    --------
    >>> print(last("page"))
    last(page)
    """
    return Aggregate("last", (column,), ignore_nulls)


def bool_and(column: str) -> Aggregate:
    """Tell whether every non-null boolean is true.

    Examples
    --------
    >>> print(bool_and("ok"))
    bool_and(ok)
    """
    return Aggregate("bool_and", (column,))


def bool_or(column: str) -> Aggregate:
    """Tell whether any boolean is true.

    Examples
    --------
    >>> print(bool_or("failed"))
    bool_or(failed)
    """
    return Aggregate("bool_or", (column,))


def var_pop(column: str) -> Aggregate:
    """Variance of a whole population. Result: float64.

    Examples
    --------
    >>> print(var_pop("latency"))
    var_pop(latency)
    """
    return Aggregate("var_pop", (column,))


def var_samp(column: str) -> Aggregate:
    """Variance estimated from a sample; null for a single value. Result: float64.

    Examples
    --------
    >>> print(var_samp("latency"))
    var_samp(latency)
    """
    return Aggregate("var_samp", (column,))


def stddev_pop(column: str) -> Aggregate:
    """Standard deviation of a whole population. Result: float64.

    Examples
    --------
    >>> print(stddev_pop("latency"))
    stddev_pop(latency)
    """
    return Aggregate("stddev_pop", (column,))


def stddev_samp(column: str) -> Aggregate:
    """Standard deviation estimated from a sample; null for a single value. Result: float64.

    Examples
    --------
    >>> print(stddev_samp("latency"))
    stddev_samp(latency)
    """
    return Aggregate("stddev_samp", (column,))


def min_by(value: str, ordering: str) -> Aggregate:
    """Keep the value of the row with the least `ordering`; among equals the later row's.

    Examples
    --------
    >>> print(min_by("page", "ts"))
    min_by(page, ts)
    """
    return Aggregate("min_by", (value, ordering))


def max_by(value: str, ordering: str) -> Aggregate:
    """Keep the value of the row with the greatest `ordering`; among equals the later row's.

    Examples
    --------
    >>> print(max_by("page", "ts"))
    max_by(page, ts)
    """
    return Aggregate("max_by", (value, ordering))
