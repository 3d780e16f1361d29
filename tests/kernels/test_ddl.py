"""Schemas as text."""

from __future__ import annotations

import pyarrow as pa
import pytest
from millrace.kernels.ddl import parse_schema
from millrace.kernels.errors import InvalidArgument


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        ("n long, total double", {"n": pa.int64(), "total": pa.float64()}),
        ("a TINYINT, b Short,c int ,d INTEGER", {"a": pa.int8(), "b": pa.int16(), "c": pa.int32(), "d": pa.int32()}),
        ("a boolean, b bool, c float, d real", dict.fromkeys("ab", pa.bool_()) | dict.fromkeys("cd", pa.float32())),
        ("a date, b timestamp_ntz", {"a": pa.date32(), "b": pa.timestamp("us")}),
        ("a timestamp, b timestamp_ltz", dict.fromkeys("ab", pa.timestamp("us", "UTC"))),
        ("a string, b binary", {"a": pa.string(), "b": pa.binary()}),
        ("a decimal(10, 2), b dec(5), c numeric", {"a": pa.decimal128(10, 2), "b": pa.decimal128(5, 0),
                                                  "c": pa.decimal128(10, 0)}),
        ("ring array<double, 16>, n bigint", {"ring": pa.list_(pa.float64(), 16), "n": pa.int64()}),
        ("r ARRAY < decimal(4, 1) , 3 >", {"r": pa.list_(pa.decimal128(4, 1), 3)}),
        ("`a, b` long, `c``d` int", {"a, b": pa.int64(), "c`d": pa.int32()}),
        ("a: long, b:int", {"a": pa.int64(), "b": pa.int32()}),
        ("", {}),
    ],
)  # fmt: skip
def test_texts(text, schema):
    assert parse_schema("state", text).equals(pa.schema(schema))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n", "state: got type '' of 'n', accepted are boolean"),
        ("n lnog", "got type 'lnog' of 'n'"),
        ("n long, ", "state: got '', accepted is a name and a type"),
        ("n long not null", "got type 'long not null'"),
        ("n array<long>", "got type 'array<long>' of 'n'.* fixed-size arrays like array<double, 16>"),
        ("n array<long, 0>", "got type 'array<long, 0>'"),
        ("n map<int, int>", "got type 'map<int, int>'"),
        ("n decimal(39, 2)", "got type"),
        ("n decimal(3, 4)", "got type"),
        ("n long, n int", "names must differ, 'n' comes twice"),
        ("-", "got '-', accepted is a name and a type"),
        (None, "state: got None, accepted is a pyarrow.Schema, or text"),
    ],
)
def test_texts_that_are_none(text, message):
    with pytest.raises(InvalidArgument, match=message):
        parse_schema("state", text)
