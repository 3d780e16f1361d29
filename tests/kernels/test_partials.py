"""Merging partials: any order and any split, merged at once or by stages, give the same answer."""

from __future__ import annotations

import decimal
import math
import statistics
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from millrace.kernels import Aggregation, GroupState, partial_aggregate
from millrace.kernels import functions as F
from millrace.kernels.groups import Groups, read_partials

SCHEMA = pa.schema(
    {"k": pa.int8(), "i": pa.int64(), "x": pa.float64(), "d": pa.decimal128(38, 2), "t": pa.string(), "b": pa.bool_()}
)
ROW = st.fixed_dictionaries(
    {
        "k": st.integers(0, 2),
        "i": st.none() | st.integers(-(2**63), 2**63 - 1),
        "x": st.none() | st.floats(-1e6, 1e6),
        "d": st.none() | st.decimals(-(10**35), 10**35, places=2),
        "t": st.none() | st.text(max_size=12),
        "b": st.none() | st.booleans(),
    }
)


def present(rows, name):
    return [row[name] for row in rows if row[name] is not None]


def wrapped(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63


def exact_sum(values: list[Decimal]) -> Decimal:
    with decimal.localcontext(prec=60):
        return sum(values, Decimal(0))


def spread(values, compute, least):
    return compute(values) if len(values) >= least else None


# What each aggregate is, said with Python's own functions of the group's rows.
REFERENCES = {
    "rows": (F.count(), len),
    "some": (F.count("i"), lambda rows: len(present(rows, "i"))),
    "yes": (F.count_if("b"), lambda rows: sum(present(rows, "b"))),
    "wrapped": (F.sum("i"), lambda rows: wrapped(sum(present(rows, "i"))) if present(rows, "i") else None),
    "exact": (F.sum("d"), lambda rows: exact_sum(present(rows, "d")) if present(rows, "d") else None),
    "total": (F.sum("x"), lambda rows: math.fsum(present(rows, "x")) if present(rows, "x") else None),
    "mean": (F.avg("x"), lambda rows: statistics.fmean(present(rows, "x")) if present(rows, "x") else None),
    "low": (F.min("i"), lambda rows: min(present(rows, "i"), default=None)),
    "high": (F.max("x"), lambda rows: max(present(rows, "x"), default=None)),
    "cheap": (F.min("d"), lambda rows: min(present(rows, "d"), default=None)),
    "text": (F.max("t"), lambda rows: max(present(rows, "t"), key=str.encode, default=None)),
    "early": (F.min("t"), lambda rows: min(present(rows, "t"), key=str.encode, default=None)),
    "all": (F.bool_and("b"), lambda rows: all(present(rows, "b")) if present(rows, "b") else None),
    "any": (F.bool_or("b"), lambda rows: any(present(rows, "b")) if present(rows, "b") else None),
    "vp": (F.var_pop("x"), lambda rows: spread(present(rows, "x"), statistics.pvariance, 1)),
    "vs": (F.var_samp("x"), lambda rows: spread(present(rows, "x"), statistics.variance, 2)),
    "sp": (F.stddev_pop("x"), lambda rows: spread(present(rows, "x"), statistics.pstdev, 1)),
    "ss": (F.stddev_samp("x"), lambda rows: spread(present(rows, "x"), statistics.stdev, 2)),
}
QUERY = Aggregation(SCHEMA, ["k"], {name: aggregate for name, (aggregate, _) in REFERENCES.items()}, ansi=False)


@settings(max_examples=250, deadline=None)
@given(st.lists(ROW, max_size=25), st.data())
def test_any_order_and_any_split(rows, data):
    order = data.draw(st.permutations(rows))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=4)))
    parts = [order[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
    partials = [partial_aggregate(QUERY, pa.RecordBatch.from_pylist(part, SCHEMA)) for part in parts]
    if data.draw(st.booleans()):
        partials = [merged(partials[: len(partials) // 2]), *partials[len(partials) // 2 :]]
    result = GroupState(QUERY, "update").process(partials=partials).rows.to_pylist()
    got = {row.pop("k"): row for row in result}
    groups = {row["k"] for row in rows}
    assert got.keys() == groups
    for key in groups:
        mine = [row for row in rows if row["k"] == key]
        for name, (_, compute) in REFERENCES.items():
            wanted = compute(mine)
            if isinstance(wanted, float):
                assert got[key][name] == pytest.approx(wanted, rel=1e-9, abs=1e-3), name
            else:
                assert got[key][name] == wanted, name


def merged(partials: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Partials of partials, as a stage between map and reduce would make them."""
    groups = Groups(QUERY)
    for partial in partials:
        groups.absorb(read_partials(QUERY, partial))
    return groups.export(groups.table.live())
