"""What golden states are made of: rows of every type, the same in every run and for ever.

Nothing here may change, or the files would no longer be what these rows give. New rows get new names.
Times are microseconds and dates days, both as plain integers, as the models in tests/kernels count them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal

import pyarrow as pa
import pyarrow.types as pt

SECOND = 1_000_000
# One object, so that the models' dictionaries find it again.
NAN = math.nan

# Of each key and value type its Arrow type and seven values, a null and the awkward ones among them. Sums stay
# in range, and no column has zeros of both signs.
TYPES: dict[str, tuple[pa.DataType, list]] = {
    "boolean": (pa.bool_(), [True, False, None, True, True, False, None]),
    "byte": (pa.int8(), [0, -128, 127, None, 1, -1, 5]),
    "short": (pa.int16(), [0, -(2**15), 2**15 - 1, None, 300, -1, 7]),
    "int": (pa.int32(), [0, -(2**31), 2**31 - 1, None, 70_000, -1, 12]),
    "long": (pa.int64(), [0, -(2**40), 2**52, None, 3, -1, 2**33 + 1]),
    "float": (pa.float32(), [0.5, -0.0, NAN, None, math.inf, -2.25, 1.5]),
    "double": (pa.float64(), [0.25, -0.0, 1e15, None, -7.5, 5e-324, 2.0]),
    "decimal": (
        pa.decimal128(9, 2),
        [t and Decimal(t) for t in ("0.00", "-9999999.99", "9999999.99", None, "1.10", "-0.01", "7.25")],
    ),
    "wide": (
        pa.decimal128(38, 18),
        [
            t and Decimal(t).quantize(Decimal("1e-18"))
            for t in ("0", "-9999999999.999999999999999999", "1e-18", None, "12345.678", "-0.5", "9999999999.9")
        ],
    ),
    "date": (pa.date32(), [0, -30_000, 20_454, None, 1, -1, 365]),
    "timestamp": (pa.timestamp("us", "UTC"), [0, -(10**15), 1_767_225_600_000_001, None, 1, -1, 10**15]),
    "tokyo": (pa.timestamp("us", "Asia/Tokyo"), [5, -(10**14), 1_767_225_600_000_002, None, 2, -2, 10**14]),
    "timestamp_ntz": (pa.timestamp("us"), [7, -(10**13), 1_767_225_600_000_003, None, 3, -3, 10**13]),
    "string": (pa.string(), ["", "a", "żółw", None, "b\0c", "z" * 40, "naïve"]),
    "large_string": (pa.large_string(), ["", "A", "ŻÓŁW", None, "B\0C", "Z" * 30, "12345678"]),
    "binary": (pa.binary(), [b"", b"\xff\0", b"\0", None, b"abc", b"y" * 40, b"\x80"]),
    "large_binary": (pa.large_binary(), [b"", b"\xfe\0", b"\0\0", None, b"ABC", b"Y" * 30, b"\x81"]),
}  # fmt: skip
NUMBERS = ("byte", "short", "int", "long", "float", "double", "decimal", "wide")

# A key that repeats, a number that does not, a time, and a column of every type.
SCHEMA = pa.schema(
    [("k", pa.string()), ("i", pa.int32()), ("ts", pa.timestamp("us")), *((n, t) for n, (t, _) in TYPES.items())]
)
FIRST_KEYS = ["ann", "bob", "", None, "żółw"]
SECOND_KEYS = ["ann", None, "zoe", "żółw"]
FIRST_COUNT, SECOND_COUNT = 22, 13


def row(i: int, keys: Sequence[str | None]) -> dict:
    """Row number i. Every type goes through its values at a pace of its own."""
    values = {
        name: values[(i * (1 + place % 6) + place) % len(values)]
        for place, (name, (_, values)) in enumerate(TYPES.items())
    }
    return {"k": keys[i % len(keys)], "i": i, "ts": None if i % 11 == 10 else i * SECOND, **values}


FIRST = [row(i, FIRST_KEYS) for i in range(FIRST_COUNT)]
SECOND_ROWS = [row(i, SECOND_KEYS) for i in range(FIRST_COUNT, FIRST_COUNT + SECOND_COUNT)]


def array_of(values: Sequence, data_type: pa.DataType) -> pa.Array:
    """Values as an array, times and dates from integers."""
    if pt.is_timestamp(data_type):
        return pa.array(values, pa.int64()).cast(data_type)
    if pt.is_date32(data_type):
        return pa.array(values, pa.int32()).cast(data_type)
    return pa.array(values, data_type)


def batch_of(rows: Sequence[dict], schema: pa.Schema) -> pa.RecordBatch:
    """Rows as a record batch of some columns."""
    return pa.RecordBatch.from_arrays([array_of([r[f.name] for r in rows], f.type) for f in schema], schema=schema)


def values_of(array: pa.Array) -> list:
    """The way back of `array_of`, with nested times and dates as integers too."""
    t = array.type
    if pt.is_timestamp(t) or pt.is_duration(t):
        return array.cast(pa.int64()).to_pylist()
    if pt.is_date32(t):
        return array.cast(pa.int32()).to_pylist()
    if pt.is_struct(t):
        columns = zip(*map(values_of, array.flatten()), strict=True) if t.num_fields else ((),) * len(array)
        fields = [dict(zip((f.name for f in t), values, strict=True)) for values in columns]
        return [fields if valid else None for fields, valid in zip(fields, array.is_valid().to_pylist(), strict=True)]
    if pt.is_list(t) or pt.is_fixed_size_list(t):
        return [values_of(value.values) if value.is_valid else None for value in array]
    return array.to_pylist()


def rows_of(batch: pa.RecordBatch) -> list[tuple]:
    """A batch's rows as tuples of plain values."""
    return list(zip(*map(values_of, batch.columns), strict=True))


def exact(value: object) -> object:
    """What tells a value from every other: NaN is itself, zeros have a sign, true is not one."""
    if isinstance(value, dict):
        return tuple((name, exact(inner)) for name, inner in value.items())
    if isinstance(value, list | tuple):
        return tuple(exact(inner) for inner in value)
    if isinstance(value, Decimal):
        return "decimal", value.as_tuple()
    return type(value).__name__, repr(value)


def assert_same_rows(got: Sequence[tuple], wanted: Sequence[tuple], rough: Mapping[int, float] | None = None) -> None:
    """Compare rows in any order, exactly but for the columns in `rough`, which have a relative tolerance."""
    rough = rough or {}

    def sharp(row: tuple) -> str:
        return str([exact(value) for i, value in enumerate(row) if i not in rough])

    got, wanted = sorted(got, key=sharp), sorted(wanted, key=sharp)
    assert list(map(sharp, got)) == list(map(sharp, wanted))
    for mine, other in zip(got, wanted, strict=True):
        for i, tolerance in rough.items():
            assert close(mine[i], other[i], tolerance), (i, mine, other)


def close(a: float | None, b: float | None, tolerance: float) -> bool:
    if a is None or b is None:
        return a is b
    return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=tolerance, abs_tol=1e-300)


def order(value: object) -> object:
    """What Spark orders values by: NaN above all numbers, text by its bytes."""
    if isinstance(value, float):
        return (True, 0.0) if math.isnan(value) else (False, value)
    return value.encode() if isinstance(value, str) else value


def some(rows: Sequence[dict], column: str) -> list:
    """A column's values that are not null."""
    return [row[column] for row in rows if row[column] is not None]
