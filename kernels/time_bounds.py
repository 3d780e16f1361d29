"""From a time range in a join condition to the watermark at which a stored row can match no more.

A condition bounds how far apart two times may lie: ``lower <= right time − left time <= upper``, each
bound optional, open or closed. Rows at or before the watermark never arrive any more. So a stored right
row can only be met by left rows later than the left watermark W, and is of no use once its own time is
at or before W + lower; a stored left row is of no use at or before W − upper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .errors import InvalidArgument
from .watermark import MICROSECONDS_PER_MS

SIDES = ("left", "right")
ENDLESS = 2**62


@dataclass(frozen=True)
class Bound:
    """One end of a range, in microseconds; `closed` if the end itself belongs to it."""

    microseconds: int
    closed: bool = True


@dataclass(frozen=True)
class TimeBounds:
    """Bounds on right time − left time. Several in one condition are several of these.

    Examples
    --------
    A click at most twenty seconds after its impression, in
    ``click_time >= ts AND click_time <= ts + interval 20 seconds``:

    >>> bounds = TimeBounds(lower=Bound(0), upper=Bound(20_000_000))
    >>> value_watermark([bounds], "left", watermark_ms=100_000)
    79999
    >>> value_watermark([bounds], "right", watermark_ms=100_000)
    99999
    """

    lower: Bound | None = None
    upper: Bound | None = None
    # Whether no pair of rows outside satisfies the condition. Casts and calendar days make bounds that only
    # tell how long rows are kept.
    exact: bool = False

    def __post_init__(self) -> None:
        for name, bound in (("lower", self.lower), ("upper", self.upper)):
            if bound is not None and not isinstance(bound, Bound):
                raise InvalidArgument.of(name, bound, "a Bound, or None")


def nearness(bounds: Sequence[TimeBounds]) -> tuple[int, int] | None:
    """Give the least and greatest right time − left time of pairs that may match; None where nothing limits it.

    Examples
    --------
    >>> nearness([TimeBounds(lower=Bound(0, closed=False), exact=True), TimeBounds(upper=Bound(20), exact=True)])
    (1, 20)
    """
    exact = [one for one in bounds if one.exact]
    lowers = [one.lower.microseconds + (not one.lower.closed) for one in exact if one.lower is not None]
    uppers = [one.upper.microseconds - (not one.upper.closed) for one in exact if one.upper is not None]
    if not lowers and not uppers:
        return None
    # Beyond any two times there are, and far from where numbers wrap around.
    return max(lowers, default=-ENDLESS), min(uppers, default=ENDLESS)


def value_watermark(bounds: Sequence[TimeBounds], side: str, watermark_ms: int) -> int | None:
    """Give the watermark, in milliseconds, at or before which rows stored on `side` can match no more.

    It is Spark's: the range's end is computed in microseconds and truncated to milliseconds, an open
    end keeps the value, a closed end lowers it by a millisecond, and of several the least counts. None
    where nothing bounds the side: its rows stay for ever.

    Parameters
    ----------
    side
        whose stored rows are asked about, ``"left"`` or ``"right"``.
    watermark_ms
        the watermark of the other side's times.
    """
    if side not in SIDES:
        raise InvalidArgument.of("side", side, "'left' or 'right'")
    limits = []
    for one in bounds:
        bound = one.lower if side == "right" else one.upper
        if bound is not None:
            shift = bound.microseconds if side == "right" else -bound.microseconds
            limits.append(_to_milliseconds(watermark_ms * MICROSECONDS_PER_MS + shift) - bound.closed)
    return min(limits, default=None)


def _to_milliseconds(microseconds: int) -> int:
    """Truncate towards zero, as Java divides."""
    quotient = abs(microseconds) // MICROSECONDS_PER_MS
    return quotient if microseconds >= 0 else -quotient
