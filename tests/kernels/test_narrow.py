"""Narrowing changes the bytes of a batch, never its values or types."""

import decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from millrace.kernels.narrow import LEAST_ROWS, WIDE_SCHEMA, narrow, read_stream, widen, write_stream

EDGES = [
    0,
    1,
    -1,
    255,
    256,
    65_535,
    65_536,
    2**32 - 1,
    2**32,
    -(2**63),
    127,
    128,
    -128,
    -129,
    2**15 - 1,
    2**15,
    -(2**15) - 1,
    2**31 - 1,
    2**31,
    -(2**31) - 1,
    2**63 - 1,
]


@given(st.lists(st.one_of(st.none(), st.sampled_from(EDGES)), min_size=1, max_size=6))
@settings(max_examples=80, deadline=None)
def test_every_value_comes_back(values):
    repeated = values * LEAST_ROWS
    numbers = [None if v is None else decimal.Decimal(v) for v in repeated]
    batch = pa.record_batch(
        {
            "long": pa.array(repeated, pa.int64()),
            "sum": pa.array(numbers, pa.decimal128(38, 0)),
            "price": pa.array([None if v is None else v.scaleb(-2) for v in numbers], pa.decimal128(30, 2)),
            "text": pa.array([str(v) for v in repeated]),
            "moment": pa.array(repeated, pa.timestamp("us", "UTC")),
            "taken": pa.array(repeated, pa.duration("us")),
            "int": pa.array([None if v is None else (v + 2**31) % 2**32 - 2**31 for v in repeated], pa.int32()),
            "day": pa.array([None if v is None else v % 2**31 for v in repeated], pa.int32()).cast(pa.date32()),
        }
    )
    assert widen(narrow(batch)).equals(batch)
    assert read_stream(write_stream(batch)).equals(batch)
    assert widen(narrow(batch.slice(3, 700))).equals(batch.slice(3, 700))


@pytest.mark.parametrize(("spread", "width"), [(0, 8), (255, 8), (256, 16), (65_535, 16), (65_536, 32), (2**32, 64)])
@pytest.mark.parametrize("least", [-(2**63), -1, 0, 1_767_225_600_000_000, 2**63 - 1 - 2**32])
@pytest.mark.parametrize("data_type", [pa.int64(), pa.timestamp("us"), pa.decimal128(20, 0)])
def test_the_narrowest_type_that_holds_the_spread_is_taken(spread, width, least, data_type):
    values = [least, least + spread] * LEAST_ROWS
    taken = [decimal.Decimal(v) for v in values] if pa.types.is_decimal(data_type) else values
    batch = pa.record_batch({"n": pa.array(taken, data_type)})
    assert narrow(batch).schema.field("n").type.bit_width == width
    assert widen(narrow(batch)).equals(batch)


def test_a_state_of_before_is_read():
    """Columns used to become narrow signed integers, counted from 0, without a word in their fields."""
    wide = pa.record_batch(
        {"n": pa.array([-3, None, 100], pa.int64()), "d": pa.array([1, -2, None], pa.decimal128(9, 0))}
    )
    schema = pa.schema([("n", pa.int8()), ("d", pa.int16())], {WIDE_SCHEMA: wide.schema.serialize().to_pybytes()})
    assert widen(
        pa.record_batch([pa.array([-3, None, 100], pa.int8()), pa.array([1, -2, None], pa.int16())], schema)
    ).equals(wide)


def test_wide_decimals_stay_as_they_are():
    batch = pa.record_batch({"d": pa.array([decimal.Decimal(2**70)] * LEAST_ROWS, pa.decimal128(38, 0))})
    assert narrow(batch) is batch
