"""Narrowing changes the bytes of a batch, never its values or types."""

import decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from millrace.kernels.narrow import LEAST_ROWS, narrow, read_stream, widen, write_stream

EDGES = [0, 1, -1, 127, 128, -128, -129, 2**15 - 1, 2**15, -(2**15) - 1, 2**31 - 1, 2**31, -(2**31) - 1, 2**63 - 1]


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
        }
    )
    assert widen(narrow(batch)).equals(batch)
    assert read_stream(write_stream(batch)).equals(batch)
    assert widen(narrow(batch.slice(3, 700))).equals(batch.slice(3, 700))


@pytest.mark.parametrize(("value", "width"), [(127, 8), (128, 16), (-32_769, 32), (2**31, 64)])
def test_the_narrowest_type_is_taken(value, width):
    batch = pa.record_batch({"n": pa.array([value] * LEAST_ROWS, pa.int64())})
    assert narrow(batch).schema.field("n").type.bit_width == width


def test_wide_decimals_stay_as_they_are():
    batch = pa.record_batch({"d": pa.array([decimal.Decimal(2**70)] * LEAST_ROWS, pa.decimal128(38, 0))})
    assert narrow(batch) is batch
