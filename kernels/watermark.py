"""The watermark: how it moves, and the predicate that tells what lies behind it."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Integral

from .durations import Duration, to_microseconds
from .errors import InvalidArgument

INT64_MAX = 2**63 - 1
MICROSECONDS_PER_MS = 1000


def limit_of(watermark_ms: int | None) -> int | None:
    """Give the latest time, in microseconds, that a watermark has passed: times up to it are behind.

    Examples
    --------
    >>> limit_of(4999)
    4999000
    """
    if watermark_ms is None:
        return None
    if not isinstance(watermark_ms, Integral) or isinstance(watermark_ms, bool):
        raise InvalidArgument.of("watermark_ms", watermark_ms, "milliseconds as an int, or None")
    return max(-INT64_MAX, min(int(watermark_ms) * MICROSECONDS_PER_MS, INT64_MAX))


@dataclass
class Watermark:
    """Follow the greatest event time at a distance, as Spark does for one source.

    Examples
    --------
    >>> watermark = Watermark("1 second")
    >>> watermark.current_ms, watermark.previous_ms
    (0, 0)
    >>> watermark.advance(5_999_999)
    4999
    >>> watermark.advance(1_000_000)
    4999
    >>> watermark.previous_ms
    4999
    """

    delay: Duration
    current_ms: int = 0
    previous_ms: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._delay_ms = to_microseconds("delay", self.delay) // MICROSECONDS_PER_MS
        if self._delay_ms < 0:
            raise InvalidArgument.of("delay", self.delay, "a duration of zero or more")

    def advance(self, greatest_time_us: int | None) -> int:
        """End a batch whose greatest event time is given (None: it had none); returns the new watermark.

        Late rows of the next batch are judged by `previous_ms`, evictions by `current_ms`.
        """
        self.previous_ms = self.current_ms
        if greatest_time_us is not None:
            self.current_ms = max(self.current_ms, greatest_time_us // MICROSECONDS_PER_MS - self._delay_ms)
        return self.current_ms
