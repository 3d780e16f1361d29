"""Which rows share a group: any types, nulls, odd floats, odd strings, and keys built to collide."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from millrace.kernels import Aggregation, InvalidArgument, UnsupportedType, aggregate
from millrace.kernels import functions as F

VALUES = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-128, 127),
    pa.int16(): st.integers(-3, 3),
    pa.int32(): st.sampled_from([0, -1, 2**31 - 1, -(2**31)]),
    pa.int64(): st.sampled_from([0, 1, -1, 2**63 - 1, -(2**63), 1 << 32]),
    pa.float32(): st.sampled_from([0.0, -0.0, math.nan, -math.nan, math.inf, 1.5]),
    pa.float64(): st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, 5e-324]),
    pa.decimal128(38, 4): st.sampled_from([Decimal(0), Decimal("-0.0001"), Decimal("9" * 34), Decimal(1)]),
    pa.date32(): st.dates(date(1900, 1, 1), date(1900, 1, 4)),
    pa.timestamp("us"): st.datetimes(datetime(1969, 12, 31), datetime(1970, 1, 2)).map(lambda t: t.replace(minute=0)),
    pa.timestamp("us", "UTC"): st.sampled_from([datetime(2026, 1, 1), datetime(1583, 1, 1)]),
    pa.string(): st.sampled_from(["", "a", "a\0", "\0a", "żółw", "x" * 100, "x" * 99 + "y", "12345678", "123456789"]),
    pa.large_string(): st.text(max_size=3),
    pa.binary(): st.binary(max_size=20),
    pa.large_binary(): st.sampled_from([b"", b"\0", b"\0\0", b"\xff" * 8]),
}
TYPES = list(VALUES)


def canonical(value):
    """Tell apart exactly what Spark tells apart: one NaN, one zero."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    return value


@st.composite
def keyed_batches(draw):
    types = draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=4))
    rows = draw(st.integers(0, 60))
    columns = []
    for data_type in types:
        nulls = draw(st.sampled_from([True, False]))
        strategy = st.none() | VALUES[data_type] if nulls else VALUES[data_type]
        columns.append(pa.array(draw(st.lists(strategy, min_size=rows, max_size=rows)), data_type))
    return pa.record_batch(columns, names=[f"k{i}" for i in range(len(types))])


@settings(max_examples=300, deadline=None)
@given(keyed_batches(), st.integers(0, 5))
def test_rows_with_equal_keys_share_a_group(batch, offset):
    batch = batch.slice(offset)
    wanted: dict[tuple, int] = {}
    for row in batch.to_pylist():
        key = tuple(map(canonical, row.values()))
        wanted[key] = wanted.get(key, 0) + 1
    # Two calls, so that the second meets keys (and a null word) that the first has left.
    query = Aggregation(batch.schema, batch.schema.names, {"n": F.count()})
    rows = aggregate(query, [batch, batch]).to_pylist()
    got = {tuple(map(canonical, list(row.values())[:-1])): row["n"] for row in rows}
    assert got == {key: 2 * count for key, count in wanted.items()}
    assert len(rows) == len(wanted)


def count_by(*columns) -> list[tuple]:
    batch = pa.record_batch(list(columns), names=[f"k{i}" for i in range(len(columns))])
    result = aggregate(Aggregation(batch.schema, batch.schema.names, {"n": F.count()}), batch)
    return [tuple(row.values()) for row in result.to_pylist()]


def test_a_first_null_does_not_disturb_keys_seen_before():
    schema = pa.schema({"k": pa.int64()})
    query = Aggregation(schema, ["k"], {"n": F.count()})
    batches = [pa.record_batch([pa.array(v, pa.int64())], schema=schema) for v in ([0, 1, 2], [None, 0, None, 2])]
    assert aggregate(query, batches).to_pydict() == {"k": [0, 1, 2, None], "n": [2, 1, 2, 2]}


def test_strings_are_not_confused_across_columns():
    assert sorted(count_by(pa.array(["ab", "a", "", "abc"]), pa.array(["c", "bc", "abc", ""]))) == [
        ("", "abc", 1), ("a", "bc", 1), ("ab", "c", 1), ("abc", "", 1),
    ]  # fmt: skip


def test_null_and_zero_and_empty_are_three_keys():
    assert len(count_by(pa.array([None, 0], pa.int64()))) == 2
    assert len(count_by(pa.array([None, ""]), pa.array(["", None]))) == 2


@pytest.mark.parametrize(
    "given",
    [
        pa.chunked_array([["a", "b"], [], ["a"]]),
        pa.array(["a", "b", "a"]).dictionary_encode(),
        pa.array(["a", "b", "a"], pa.large_string()),
        pa.array(["a", "b", "a"], pa.string_view()),
        pa.array([b"a", b"b", b"a"], pa.binary_view()),
        pa.array([b"a", b"b", b"a"], pa.binary(1)),
        pa.chunked_array([pa.array(["a"]).dictionary_encode(), pa.array(["b", "a"]).dictionary_encode()]),
    ],
    ids=lambda a: f"{a.type}",
)
def test_every_layout_of_strings(given):
    table = pa.table({"k": given})
    result = aggregate(Aggregation(table.schema, ["k"], {"n": F.count(), "hi": F.max("k")}), table)
    plain = [v if isinstance(v, str) else v.decode() for v in result["k"].to_pylist()]
    assert dict(zip(plain, result["n"].to_pylist(), strict=True)) == {"a": 2, "b": 1}


@pytest.mark.parametrize("unit", ["s", "ms", "ns"])
def test_timestamps_of_other_units_become_microseconds(unit):
    table = pa.table({"k": pa.array([1_000_000_000] * 2, pa.timestamp(unit))})
    result = aggregate(Aggregation(table.schema, ["k"], {"n": F.count()}), table)
    assert result.schema.field("k").type == pa.timestamp("us") and result["n"].to_pylist() == [2]


def test_a_timestamp_that_microseconds_cannot_hold_is_refused():
    table = pa.table({"k": pa.array([1], pa.timestamp("ns"))})
    with pytest.raises(InvalidArgument, match="'k' is timestamp\\[ns\\]"):
        aggregate(Aggregation(table.schema, ["k"], {"n": F.count()}), table)


def test_all_null_and_empty_columns():
    assert count_by(pa.array([None, None], pa.string())) == [(None, 2)]
    assert count_by(pa.array([], pa.string())) == []
    declared = Aggregation(pa.schema({"k": pa.int32()}), ["k"], {"n": F.count()})
    assert aggregate(declared, pa.record_batch({"k": pa.nulls(3)})).to_pylist() == [{"k": None, "n": 3}]


@pytest.mark.parametrize("given", [pa.uint8(), pa.uint64(), pa.list_(pa.int8()), pa.float16(), pa.time32("s")])
def test_types_that_cannot_be_keys_are_refused(given):
    with pytest.raises(UnsupportedType, match=r"keys: column 'k' is .* accepted are"):
        Aggregation(pa.schema({"k": given}), ["k"], {"n": F.count()})


def unmix(h: int) -> int:
    """Find the word that the hash function maps to `h`: it is a bijection, so keys can be built to collide."""
    mask = 2**64 - 1

    def unshift(x: int, by: int) -> int:
        y = x
        for _ in range(64 // by):
            y = x ^ (y >> by)
        return y

    h = unshift(h, 31)
    h = unshift(h * pow(0x94D049BB133111EB, -1, 2**64) & mask, 27)
    return unshift(h * pow(0xBF58476D1CE4E5B9, -1, 2**64) & mask, 30)


@pytest.mark.parametrize("top", [0, 0xDEADBEEF, 0xFFFFFFFF])
def test_integers_built_to_share_slot_and_tag(top):
    words = [unmix((top << 32) | low) for low in range(2000)]
    keys = np.array(words, np.uint64).view(np.int64)
    result = count_by(pa.array(np.tile(keys, 3)))
    assert sorted(result) == sorted((int(k), 3) for k in keys)


def test_strings_built_to_share_slot_and_tag():
    mask, multiplier, seed = 2**64 - 1, 0xBF58476D1CE4E5B9, 8 * 0x9E3779B97F4A7C15 & (2**64 - 1)
    keys = []
    for low in range(1000):
        span = unmix((0x1234 << 32) | low)
        mixed = span ^ (span >> 32)
        word = (mixed * pow(multiplier, -1, 2**64) & mask) ^ seed
        keys.append(word.to_bytes(8, "little"))
    assert sorted(count_by(pa.array(keys * 2, pa.binary()))) == sorted((k, 2) for k in keys)
