"""How compiled functions see values: every Arrow type they can work with, by Spark's name for it.

====================  ======================  ==================================
kind                  Arrow types             what a function sees
====================  ======================  ==================================
boolean               bool                    a bool
byte … long           int8 … int64            an int64
float, double         float32, float64        a float64
date                  date32                  an int64: days since 1970
timestamp(_ntz)       timestamp               an int64: microseconds since 1970
decimal(p, s)         decimal128              an exact decimal, see `decimal_values`
string, binary        string, binary          text, see `text`
====================  ======================  ==================================
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numba import types

from .columns import plain_type
from .errors import UnsupportedType


class Kind(NamedTuple):
    """One kind: what a function sees, and how an element lies in a fixed-size array."""

    seen: types.Type | None  # None for text
    element: np.dtype | None


KINDS = {
    "boolean": Kind(types.boolean, np.dtype(np.uint8)),
    "byte": Kind(types.int64, np.dtype(np.int8)),
    "short": Kind(types.int64, np.dtype(np.int16)),
    "int": Kind(types.int64, np.dtype(np.int32)),
    "long": Kind(types.int64, np.dtype(np.int64)),
    "float": Kind(types.float64, np.dtype(np.float32)),
    "double": Kind(types.float64, np.dtype(np.float64)),
    "date": Kind(types.int64, np.dtype(np.int32)),
    "timestamp": Kind(types.int64, np.dtype(np.int64)),
    "timestamp_ntz": Kind(types.int64, np.dtype(np.int64)),
    "string": Kind(None, None),
    "binary": Kind(None, None),
}
TEXT_KINDS = ("string", "binary")
ACCEPTED = f"{', '.join(KINDS)} and decimal"
_DECIMAL = re.compile(r"decimal\((\d+), (\d+)\)$")
HINT = "cast it before, or use engine='pandas', whose functions see every type"


def kind_or_none(data_type: pa.DataType) -> str | None:
    """Give the kind of a type, None for a type that compiled functions cannot see."""
    data_type = plain_type(data_type)
    for check, kind in _CHECKS:
        if check(data_type):
            return kind
    if pt.is_timestamp(data_type):
        return "timestamp" if data_type.tz else "timestamp_ntz"
    # Spark has no negative scales.
    if pt.is_decimal128(data_type) and data_type.scale >= 0:
        return f"decimal({data_type.precision}, {data_type.scale})"
    return None


def decimal_digits(kind: str) -> tuple[int, int] | None:
    """Give the precision and scale of a decimal's kind, None for any other.

    Examples
    --------
    >>> decimal_digits("decimal(10, 2)"), decimal_digits("long")
    ((10, 2), None)
    """
    match = _DECIMAL.match(kind)
    return (int(match[1]), int(match[2])) if match else None


_CHECKS = (
    (pt.is_boolean, "boolean"),
    (pt.is_int8, "byte"),
    (pt.is_int16, "short"),
    (pt.is_int32, "int"),
    (pt.is_int64, "long"),
    (pt.is_float32, "float"),
    (pt.is_float64, "double"),
    (pt.is_date32, "date"),
    (pt.is_string, "string"),
    (pt.is_large_string, "string"),
    (pt.is_binary, "binary"),
    (pt.is_large_binary, "binary"),
    (pt.is_fixed_size_binary, "binary"),
)


def kind_of(data_type: pa.DataType, argument: str, name: str, hint: str = HINT) -> str:
    """Give the kind of a type, or refuse it in the name of an argument, with a hint at what to do.

    Examples
    --------
    >>> kind_of(pa.int32(), "state", "n")
    'int'
    >>> kind_of(pa.time64("us"), "output", "at")
    Traceback (most recent call last):
        ...
    millrace.kernels.errors.UnsupportedType: output: column 'at' is time64[us], accepted are \
boolean, byte, short, int, long, float, double, date, timestamp, timestamp_ntz, string, binary and decimal; \
cast it before, or use engine='pandas', whose functions see every type
    """
    kind = kind_or_none(data_type)
    if kind is None:
        raise UnsupportedType(f"{argument}: column {name!r} is {data_type}, accepted are {ACCEPTED}; {hint}")
    return kind


def element_of(kind: str) -> np.dtype:
    """Give how an element of a kind, which is not text, lies in an array."""
    element = KINDS[kind].element if kind in KINDS else None
    if element is None:
        raise UnsupportedType(f"arrays of {kind} are not accepted")
    return element


class Slot(NamedTuple):
    """A field of a record in memory: where it lies, in words of eight bytes.

    `length` is that of a fixed-size array, 0 for a single value; `bit` the field's null mark,
    counted from the record's first bit, −1 where a field is never null.
    """

    name: str
    kind: str
    length: int
    word: int
    bit: int

    @property
    def words(self) -> int:
        """Words that the field takes."""
        if self.kind in TEXT_KINDS or decimal_digits(self.kind):
            return 2
        return -(-self.length * element_of(self.kind).itemsize // 8) if self.length else 1


def slots_of(fields: pa.Schema, argument: str, first_word: int, first_bit: int | None) -> tuple[Slot, ...]:
    """Place fields one after another from `first_word` on; with null marks from `first_bit` on, or without."""
    slots, word = [], first_word
    for i, f in enumerate(fields):
        bit = -1 if first_bit is None else first_bit + i
        slots.append(Slot(f.name, *field_kind(f.type, argument, f.name), word, bit))
        word += slots[-1].words
    return tuple(slots)


def field_kind(data_type: pa.DataType, argument: str, name: str) -> tuple[str, int]:
    """Give a field's kind, and the length of a fixed-size array (0 for a single value)."""
    if not pt.is_fixed_size_list(data_type):
        return kind_of(data_type, argument, name), 0
    kind = kind_of(data_type.value_type, argument, name)
    if kind in TEXT_KINDS or decimal_digits(kind) or data_type.list_size < 1:
        raise UnsupportedType(
            f"{argument}: field {name!r} is {data_type}, accepted are arrays of at least one number, boolean or time"
        )
    return kind, data_type.list_size
