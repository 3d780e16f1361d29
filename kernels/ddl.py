"""Schemas as text, the way Spark writes them: ``n long, total double, ring array<double, 16>``."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa

from .errors import InvalidArgument

TYPES = {
    "boolean": pa.bool_(), "bool": pa.bool_(),
    "byte": pa.int8(), "tinyint": pa.int8(),
    "short": pa.int16(), "smallint": pa.int16(),
    "int": pa.int32(), "integer": pa.int32(),
    "long": pa.int64(), "bigint": pa.int64(),
    "float": pa.float32(), "real": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"), "timestamp_ltz": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "string": pa.string(), "binary": pa.binary(),
}  # fmt: skip
ACCEPTED = "boolean, byte, short, int, long, float, double, date, timestamp, timestamp_ntz, string and binary"
ARRAYS = ", and in state fixed-size arrays like array<double, 16>"
_NAME = re.compile(r"\s*(?:`((?:[^`]|``)+)`|(\w+))\s*:?\s*")
_ARRAY = re.compile(r"array\s*<\s*(.+?)\s*,\s*(\d+)\s*>$", re.IGNORECASE | re.DOTALL)
_DECIMAL = re.compile(r"(?:decimal|dec|numeric)(?:\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?$", re.IGNORECASE)


def parse_schema(argument: str, text: str | pa.Schema) -> pa.Schema:
    """Turn a schema's text into a `pyarrow.Schema`; a schema is given back as it is.

    Examples
    --------
    >>> parse_schema("state", "n long, ring array<double, 4>").field("ring").type
    FixedSizeListType(fixed_size_list<item: double>[4])
    >>> parse_schema("state", "n lnog")
    Traceback (most recent call last):
        ...
    millrace.kernels.errors.InvalidArgument: state: got type 'lnog' of 'n', accepted are boolean, byte, short, \
int, long, float, double, date, timestamp, timestamp_ntz, string and binary, and in state fixed-size arrays like \
array<double, 16>
    """
    if isinstance(text, pa.Schema):
        schema = text
    elif isinstance(text, str):
        schema = pa.schema([_field(argument, part) for part in _parts(text)])
    else:
        raise InvalidArgument.of(argument, text, "a pyarrow.Schema, or text like 'n long, total double'")
    twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
    if twice:
        raise InvalidArgument(f"{argument}: names must differ, {', '.join(map(repr, twice))} comes twice")
    return schema


def _parts(text: str) -> Iterator[str]:
    """Split at the commas that stand outside of all brackets and quotes."""
    depth, quoted, start = 0, False, 0
    for i, character in enumerate(text):
        if character == "`":
            quoted = not quoted
        elif not quoted:
            depth += (character in "<(") - (character in ">)")
            if character == "," and depth == 0:
                yield text[start:i]
                start = i + 1
    if text.strip():
        yield text[start:]


def _field(argument: str, text: str) -> pa.Field:
    name = _NAME.match(text)
    if name is None:
        raise InvalidArgument.of(argument, text.strip(), "a name and a type, like 'n long'")
    plain = name[1].replace("``", "`") if name[1] else name[2]
    return pa.field(plain, parse_type(argument, plain, text[name.end() :].strip()))


def parse_type(argument: str, name: str, text: str) -> pa.DataType:
    """Turn a type's text into an Arrow type; `argument` and `name` say in messages whose it is.

    Examples
    --------
    >>> parse_type("output", "price", "decimal(10, 2)")
    Decimal128Type(decimal128(10, 2))
    """
    plain = TYPES.get(text.lower())
    if plain is not None:
        return plain
    array = _ARRAY.match(text)
    if array and int(array[2]):
        return pa.list_(parse_type(argument, name, array[1]), int(array[2]))
    decimal = _DECIMAL.match(text)
    if decimal:
        precision, scale = int(decimal[1] or 10), int(decimal[2] or 0)
        if 1 <= precision <= 38 and scale <= precision:
            return pa.decimal128(precision, scale)
    raise InvalidArgument(f"{argument}: got type {text!r} of {name!r}, accepted are {ACCEPTED}{ARRAYS}")
