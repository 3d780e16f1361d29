"""Where the kernel calculates with values just as Spark does, and where Spark must cast them first."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import reduce

import pyarrow as pa
import pyarrow.types as pt

from ..kernels.columns import plain_type
from ..kernels.expression_types import common_number, is_bytes, is_number, is_text
from ..kernels.expressions import Expression, Literal

_FAMILIES = (is_text, is_bytes, pt.is_boolean, pt.is_date32, pt.is_duration)
_DAY = timedelta(days=1)
# Zones in which every day has twenty-four hours and begins with a day of UTC.
UTC_NAMES = frozenset(["utc", "etc/utc", "z", "gmt", "etc/gmt", "+00:00", "utc+00:00", "gmt+00:00", "zulu", "etc/zulu"])


def alike_enough(types: Sequence[pa.DataType]) -> bool:
    """Tell whether the kernel compares values of these types as Spark does, without casts.

    Examples
    --------
    >>> alike_enough([pa.int32(), pa.float64()]), alike_enough([pa.date32(), pa.timestamp("us")])
    (True, False)
    """
    known = [plain_type(t) for t in types if not pt.is_null(t)]
    if any(all(map(family, known)) for family in _FAMILIES):
        return True
    if all(map(pt.is_timestamp, known)):
        return len({t.tz is None for t in known}) == 1
    if not all(map(is_number, known)):
        return False
    if any(map(pt.is_floating, known)):
        return True
    return reduce(lambda a, b: None if a is None else common_number(a, b), known[1:], known[0]) is not None


def kernel_casts(given: pa.DataType, target: pa.DataType, safe: bool) -> bool:
    """Tell whether the kernel casts as Spark does.

    Parameters
    ----------
    safe
        only casts that cannot fail.

    Examples
    --------
    >>> kernel_casts(pa.timestamp("us"), pa.int64(), safe=True), kernel_casts(pa.string(), pa.int64(), safe=False)
    (True, False)
    """
    if given.equals(target):
        return True
    if pt.is_signed_integer(given):
        widened = pt.is_signed_integer(target) and (target.bit_width >= given.bit_width or not safe)
        return widened or pt.is_floating(target)
    if pt.is_timestamp(given):
        return target.equals(pa.int64()) or target.equals(pa.float64())
    if pt.is_floating(given):
        return pt.is_floating(target) or (pt.is_signed_integer(target) and not safe)
    return pt.is_decimal(given) and target.equals(pa.float64())


def keeps_days(types: Sequence[pa.DataType], operands: Sequence[Expression], utc: bool) -> bool:
    """Tell whether a sum of a timestamp and an interval is free of days, or all days have twenty-four hours.

    Examples
    --------
    >>> from ..kernels.expressions import column, literal
    >>> zoned, day = pa.timestamp("us", "Europe/Berlin"), literal(timedelta(days=1))
    >>> keeps_days([zoned, pa.duration("us")], [column("left", "t"), day], utc=False)
    False
    """
    zoned = any(pt.is_timestamp(t) and t.tz is not None for t in types)
    if utc or not zoned:
        return True
    intervals = [e for e, t in zip(operands, types, strict=True) if pt.is_duration(t)]
    return all(isinstance(e, Literal) and isinstance(e.value, timedelta) and abs(e.value) < _DAY for e in intervals)
