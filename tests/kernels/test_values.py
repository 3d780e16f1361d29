"""Every aggregate over every type against DuckDB (or Python's decimal module), whole and in partials."""

from __future__ import annotations

import decimal
import itertools
import math
from decimal import Decimal

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from millrace.kernels import (
    Aggregation,
    ArithmeticOverflow,
    GroupState,
    UnsupportedType,
    aggregate,
    partial_aggregate,
)
from millrace.kernels import functions as F

# More rows than two chunks of the kernels hold.
ROWS, KEYS = 9000, 60
EPOCH = 1_767_225_600_000_000


def with_nulls(values, data_type, rng, share=0.15):
    mask = rng.random(len(values)) < share
    return pa.array([None if gone else v for v, gone in zip(values, mask, strict=True)], type=data_type)


def make_column(kind: str, rng: np.random.Generator) -> pa.Array:
    """Draw a column of one type, with nulls and with the type's awkward values."""
    n = ROWS
    if kind == "bool":
        return with_nulls([bool(b) for b in rng.integers(0, 2, n)], pa.bool_(), rng)
    if kind in ("int8", "int16", "int32", "int64"):
        bits = int(kind[3:])
        bound = 2 ** (bits - 1) if bits < 64 else 2**40
        return with_nulls(rng.integers(-bound, bound, n).tolist(), getattr(pa, kind)(), rng)
    if kind in ("float32", "float64"):
        values = rng.normal(1000, 5, n).astype(kind).tolist()
        return with_nulls(values, getattr(pa, kind)(), rng)
    if kind.startswith("decimal"):
        precision, scale = map(int, kind[8:-1].split(","))
        digits = min(precision, 18)
        values = [Decimal(int(v)).scaleb(-scale) for v in rng.integers(-(10**digits) + 1, 10**digits, n)]
        return with_nulls(values, pa.decimal128(precision, scale), rng)
    if kind == "date32":
        return with_nulls(rng.integers(-30_000, 30_000, n).tolist(), pa.int32(), rng).cast(pa.date32())
    if kind == "timestamp":
        return with_nulls((EPOCH + rng.integers(-(10**15), 10**15, n)).tolist(), pa.int64(), rng).cast(
            pa.timestamp("us")
        )
    text = ["", "a", "b\0c", "b", "żółw", "żó", "z" * 9, "z" * 200, "naïve"]
    words = [text[i] + str(j) for i, j in zip(rng.integers(0, len(text), n), rng.integers(0, 40, n), strict=True)]
    if kind == "string":
        return with_nulls(words, pa.string(), rng)
    return with_nulls([w.encode() + b"\xff\0" for w in words], pa.binary(), rng)


INTEGERS = ["int8", "int16", "int32", "int64"]
FLOATS = ["float32", "float64"]
DECIMALS = ["decimal(5,2)", "decimal(18,6)", "decimal(38,10)"]
NUMBERS = INTEGERS + FLOATS + DECIMALS
ALL = [*NUMBERS, "bool", "date32", "timestamp", "string", "binary"]


def table_of(kind: str, seed: int = 0, **more: str) -> pa.Table:
    rng = np.random.default_rng(seed)
    columns = {"k": with_nulls(rng.integers(0, KEYS, ROWS).tolist(), pa.int64(), rng), "v": make_column(kind, rng)}
    columns |= {name: make_column(other, rng) for name, other in more.items()}
    return pa.table(columns)


def awkward(table: pa.Table) -> list[pa.RecordBatch]:
    """The same rows as uneven slices, so that offsets are not zero and a slice may hold nothing."""
    cuts = [0, 1, 8, 8, 500, 4777, table.num_rows]
    batch = pa.concat_tables([table.slice(0, 5), table]).combine_chunks().to_batches()[0].slice(5)
    return [batch.slice(a, b - a) for a, b in itertools.pairwise(cuts)]


def ours(table: pa.Table, how: str, split: bool, **aggs) -> dict:
    query = Aggregation(table.schema, ["k"], aggs)
    if split:
        partials = [partial_aggregate(query, batch) for batch in awkward(table)]
        rows = GroupState(query, "update").process(partials=partials).rows
    elif how == "state":
        state = GroupState(query, "complete")
        rows = [state.process(batch).rows for batch in awkward(table)][-1]
    else:
        rows = aggregate(query, awkward(table))
    return {row.pop("k"): tuple(row.values()) for row in rows.to_pylist()}


def theirs(table: pa.Table, *expressions: str) -> dict:
    connection = duckdb.connect()
    connection.register("t", table.append_column("i", pa.array(range(table.num_rows))))
    rows = connection.execute(f"select k, {', '.join(expressions)} from t group by k").fetchall()
    return {row[0]: row[1:] for row in rows}


def assert_same(got: dict, wanted: dict) -> None:
    assert got.keys() == wanted.keys()
    for key, values in wanted.items():
        for mine, other in zip(got[key], values, strict=True):
            if isinstance(other, float) and mine is not None:
                assert math.isclose(mine, other, rel_tol=1e-9, abs_tol=1e-9), key
            else:
                assert mine == other, key


WAYS = pytest.mark.parametrize(("how", "split"), [("whole", False), ("whole", True), ("state", False)])


@WAYS
@pytest.mark.parametrize("kind", ALL)
def test_counts_and_extremes(kind, how, split):
    table = table_of(kind)
    got = ours(table, how, split, n=F.count(), c=F.count("v"), lo=F.min("v"), hi=F.max("v"))
    # Grouped as binary, DuckDB compares text by bytes, as Spark does.
    assert_same(got, theirs(table, "count(*)", "count(v)", "min(v)", "max(v)"))


@WAYS
@pytest.mark.parametrize("kind", INTEGERS + FLOATS)
def test_sums_and_averages(kind, how, split):
    table = table_of(kind)
    got = ours(table, how, split, s=F.sum("v"), a=F.avg("v"))
    assert_same(got, theirs(table, f"sum(v::{'hugeint' if kind in INTEGERS else 'double'})", "avg(v)"))


@WAYS
@pytest.mark.parametrize("kind", DECIMALS)
def test_decimal_sums_and_averages(kind, how, split):
    table = table_of(kind)
    scale = table.schema.field("v").type.scale
    with decimal.localcontext(prec=200, rounding=decimal.ROUND_HALF_UP):
        wanted = {}
        for key in set(table["k"].to_pylist()):
            rows = zip(table["k"].to_pylist(), table["v"].to_pylist(), strict=True)
            values = [v for k, v in rows if k == key and v is not None]
            mean = (sum(values) / len(values)).quantize(Decimal(1).scaleb(-38))
            wanted[key] = (sum(values), mean.quantize(Decimal(1).scaleb(-scale - 4)))
    assert_same(ours(table, how, split, s=F.sum("v"), a=F.avg("v")), wanted)


@WAYS
@pytest.mark.parametrize("kind", NUMBERS)
def test_variances(kind, how, split):
    table = table_of(kind)
    names = ["var_pop", "var_samp", "stddev_pop", "stddev_samp"]
    got = ours(table, how, split, **{name: getattr(F, name)("v") for name in names})
    for mine, other in zip(got.values(), (theirs(table, *(f"{n}(v::double)" for n in names))[k] for k in got),
                           strict=True):  # fmt: skip
        assert mine == pytest.approx(other, rel=1e-6)


@WAYS
def test_booleans(how, split):
    table = table_of("bool")
    got = ours(table, how, split, every=F.bool_and("v"), some=F.bool_or("v"), n=F.count_if("v"))
    assert_same(got, theirs(table, "bool_and(v)", "bool_or(v)", "count_if(v)"))


@WAYS
@pytest.mark.parametrize("kind", ALL)
def test_first_and_last(kind, how, split):
    table = table_of(kind)
    got = ours(
        table, how, split, f=F.first("v"), l=F.last("v"),
        fn=F.first("v", ignore_nulls=True), ln=F.last("v", ignore_nulls=True),
    )  # fmt: skip
    wanted = theirs(
        table, "first(v order by i)", "last(v order by i)",
        "first(v order by i) filter (v is not null)", "last(v order by i) filter (v is not null)",
    )  # fmt: skip
    assert_same(got, wanted)


@WAYS
@pytest.mark.parametrize("ordering", [*INTEGERS[2:], "float64", "decimal(38,10)", "timestamp", "string", "binary"])
@pytest.mark.parametrize("kind", ["int32", "float32", "decimal(18,6)", "bool", "string"])
def test_min_by_and_max_by(kind, ordering, how, split):
    table = table_of(kind, o=ordering)
    got = ours(table, how, split, lo=F.min_by("v", "o"), hi=F.max_by("v", "o"))
    # Among equals the later row wins; a null value is kept like any other.
    wanted = theirs(
        table, "last(v order by o desc, i) filter (o is not null)", "last(v order by o, i) filter (o is not null)"
    )
    assert_same(got, wanted)


@pytest.mark.parametrize(
    ("function", "given", "wanted"),
    [
        ("count", pa.string(), pa.int64()),
        ("sum", pa.int8(), pa.int64()),
        ("sum", pa.float32(), pa.float64()),
        ("sum", pa.decimal128(10, 2), pa.decimal128(20, 2)),
        ("sum", pa.decimal128(35, 2), pa.decimal128(38, 2)),
        ("avg", pa.int32(), pa.float64()),
        ("avg", pa.decimal128(10, 2), pa.decimal128(14, 6)),
        ("avg", pa.decimal128(38, 36), pa.decimal128(38, 38)),
        ("min", pa.float32(), pa.float32()),
        ("max", pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC")),
        ("first", pa.dictionary(pa.int8(), pa.string()), pa.string()),
        ("var_samp", pa.int64(), pa.float64()),
    ],
)
def test_result_types_are_sparks(function, given, wanted):
    query = Aggregation(pa.schema({"v": given}), [], {"r": getattr(F, function)("v")})
    assert query.output_schema.field("r").type == wanted


@pytest.mark.parametrize(
    ("function", "given"),
    [("sum", pa.string()), ("avg", pa.bool_()), ("var_pop", pa.date32()), ("count_if", pa.int64()),
     ("bool_and", pa.int8()), ("min", pa.list_(pa.int8())), ("max", pa.uint8()), ("first", pa.decimal256(50, 2))],
)  # fmt: skip
def test_types_without_meaning_are_refused(function, given):
    with pytest.raises(UnsupportedType, match=r"aggs\['r'\].*'v'.*accepted are"):
        Aggregation(pa.schema({"v": given}), [], {"r": getattr(F, function)("v")})


def one_group(values, data_type, aggregate_function, ansi=True):
    batch = pa.record_batch({"v": pa.array(values, data_type)})
    return aggregate(Aggregation(batch.schema, [], {"r": aggregate_function}, ansi=ansi), batch)["r"][0].as_py()


def test_nothing_but_nulls_gives_null_and_zero_counts():
    for function in ("sum", "avg", "min", "max", "first", "last", "var_pop", "var_samp", "stddev_pop", "stddev_samp"):
        assert one_group([None, None], pa.int32(), getattr(F, function)("v")) is None
    assert one_group([None, None], pa.int32(), F.count("v")) == 0
    assert one_group([None], pa.bool_(), F.count_if("v")) == 0
    assert one_group([None], pa.bool_(), F.bool_and("v")) is None


def test_a_single_value_has_no_sample_variance():
    assert one_group([5], pa.int32(), F.var_samp("v")) is None
    assert one_group([5], pa.int32(), F.stddev_samp("v")) is None
    assert one_group([5], pa.int32(), F.var_pop("v")) == 0


def test_variance_is_stable_far_from_zero():
    values = [1e9 + x for x in (4.0, 7.0, 13.0, 16.0)] * 1000
    assert one_group(values, pa.float64(), F.var_pop("v")) == pytest.approx(22.5, rel=1e-9)


def test_nan_is_the_greatest_number():
    values = [1.0, math.nan, math.inf, -math.inf]
    assert math.isnan(one_group(values, pa.float64(), F.max("v")))
    assert one_group(values, pa.float64(), F.min("v")) == -math.inf
    assert math.isnan(one_group([math.nan], pa.float32(), F.min("v")))


def test_a_lone_negative_zero_keeps_its_sign():
    assert math.copysign(1, one_group([-0.0], pa.float64(), F.max("v"))) == -1


def test_zeros_tie_in_max_by_so_the_later_wins():
    batch = pa.record_batch({"v": ["first", "second"], "o": [0.0, -0.0]})
    assert aggregate(Aggregation(batch.schema, [], {"r": F.max_by("v", "o")}), batch)["r"][0].as_py() == "second"


LARGEST = 2**63 - 1


def test_integer_sum_overflow_raises_in_ansi_mode():
    with pytest.raises(ArithmeticOverflow, match=r"aggs\['r'\].*does not fit int64"):
        one_group([LARGEST, 1], pa.int64(), F.sum("v"))
    with pytest.raises(ArithmeticOverflow):
        one_group([-LARGEST, -2], pa.int64(), F.sum("v"))


def test_integer_sum_wraps_otherwise():
    assert one_group([LARGEST, 1], pa.int64(), F.sum("v"), ansi=False) == -(2**63)


def test_integer_sum_that_comes_back_into_range_is_exact():
    assert one_group([LARGEST, 10, -20], pa.int64(), F.sum("v")) == LARGEST - 10
    query = Aggregation(pa.schema({"v": pa.int64()}), [], {"r": F.sum("v")})
    partials = [
        partial_aggregate(query, pa.record_batch({"v": pa.array(values, pa.int64())}))
        for values in ([LARGEST, LARGEST, 3], [-LARGEST], [-LARGEST, -5])
    ]
    for order in (partials, partials[::-1]):
        assert GroupState(query, "update").process(partials=order).rows["r"][0].as_py() == -2


def test_overflow_is_noticed_in_the_batch_that_causes_it_even_if_nothing_comes_out():
    schema = pa.schema({"ts": pa.timestamp("us"), "v": pa.int64()})
    query = Aggregation(schema, ["ts"], {"r": F.sum("v")}, event_time="ts")
    state = GroupState(query, "append")
    state.process(pa.record_batch([[5], [LARGEST]], schema=schema), watermark_ms=0)
    saved = state.to_bytes()
    with pytest.raises(ArithmeticOverflow):
        state.process(pa.record_batch([[5], [1]], schema=schema), watermark_ms=0)
    with pytest.raises(Exception, match="load it again"):
        state.process(watermark_ms=10)
    again = GroupState.from_bytes(query, "append", saved)
    assert again.process(watermark_ms=10).rows["r"].to_pylist() == [LARGEST]


NINES = Decimal("9" * 38)
MINUS_NINES = NINES.copy_negate()  # negating with a minus sign would round to 28 digits


def test_decimal_sum_overflow_is_null_or_raises():
    assert one_group([NINES, 1], pa.decimal128(38, 0), F.sum("v"), ansi=False) is None
    assert one_group([NINES, NINES, MINUS_NINES], pa.decimal128(38, 0), F.sum("v"), ansi=False) == NINES
    with pytest.raises(ArithmeticOverflow, match="decimal128"):
        one_group([NINES, 1], pa.decimal128(38, 0), F.sum("v"))


def test_a_decimal_sum_that_overflowed_in_one_batch_stays_null():
    schema = pa.schema({"v": pa.decimal128(38, 0)})
    state = GroupState(Aggregation(schema, [], {"r": F.sum("v")}, ansi=False), "update")
    for value, wanted in ((NINES, NINES), (Decimal(1), None), (MINUS_NINES, None)):
        rows = state.process(pa.record_batch([pa.array([value], schema.field("v").type)], schema=schema)).rows
        assert rows["r"].to_pylist() == [wanted]


def test_decimal_average_rounds_twice_as_spark_does():
    # 0.45 units of the last place: at 38 places it becomes 0.5, and that rounds up to 1.
    values = [Decimal(9).scaleb(-33)] + [Decimal(0)] * 199_999
    got = one_group(values, pa.decimal128(38, 33), F.avg("v"))
    with decimal.localcontext(prec=200, rounding=decimal.ROUND_HALF_UP):
        wanted = (Decimal(9).scaleb(-33) / 200_000).quantize(Decimal(1).scaleb(-38)).quantize(Decimal(1).scaleb(-37))
    assert got == wanted == Decimal(1).scaleb(-37)
