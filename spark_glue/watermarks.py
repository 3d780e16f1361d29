"""Watermarks of frames: finding the one a frame carries, and giving it one."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from ..kernels.durations import MICROSECONDS, sum_of_terms
from ..kernels.errors import InvalidArgument
from .arrow_schema import require_columns

DELAY_KEY = "spark.watermarkDelayMs"
# Spark counts the months of a delay as 31 days.
_UNITS = {**MICROSECONDS, "month": 31 * MICROSECONDS["day"], "year": 12 * 31 * MICROSECONDS["day"]}
_ACCEPTED = 'a column and a delay of zero or more, like ("ts", "10 minutes")'


def event_time_of(frame: DataFrame) -> tuple[str, int] | None:
    """Give the column that carries a frame's watermark, and its delay in milliseconds."""
    marked = [(f.name, int(f.metadata[DELAY_KEY])) for f in frame.schema if DELAY_KEY in (f.metadata or {})]
    if len(marked) > 1:
        names = ", ".join(repr(name) for name, _ in marked)
        raise InvalidArgument(f"More than one event time columns are available: {names}; keep one of them")
    return marked[0] if marked else None


def with_watermark(frame: DataFrame, argument: str, watermark: object) -> DataFrame:
    """Give a frame the watermark that the user asked for, if any."""
    if watermark is None:
        return frame
    if not (isinstance(watermark, tuple | list) and len(watermark) == 2 and all(isinstance(w, str) for w in watermark)):
        raise InvalidArgument.of(argument, watermark, _ACCEPTED)
    column, delay = watermark
    require_columns(argument, [column], frame.schema)
    data_type = frame.schema[column].dataType
    if not isinstance(data_type, T.TimestampType):
        given = data_type.simpleString()
        hint = f"; cast it with withColumn({column!r}, …) first" if isinstance(data_type, T.TimestampNTZType) else ""
        raise InvalidArgument(f"{argument}: column {column!r} is {given}, accepted is timestamp{hint}")
    known = event_time_of(frame)
    if known is not None:
        raise InvalidArgument(
            f"{argument}: got {watermark!r}, but the frame already has a watermark on {known[0]!r}; leave this one out"
        )
    check_delay(argument, delay)
    return frame.withWatermark(column, delay)


def check_delay(argument: str, delay: str) -> int:
    """Read a delay as Spark does, in milliseconds; refuse a negative one.

    Examples
    --------
    >>> check_delay("watermark", "1 hour 30 minutes")
    5400000
    """
    total = sum_of_terms(delay, _UNITS)
    if total is None or total < 0:
        raise InvalidArgument.of(argument, delay, _ACCEPTED)
    return total // 1000
