"""Conditions against DuckDB, which has the same logic, order of NaN and time arithmetic."""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta
from decimal import Context, Decimal

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from millrace.kernels import ArithmeticOverflow, InvalidArgument, UnsupportedType
from millrace.kernels.expression_types import cast_value
from millrace.kernels.expressions import CompiledCondition, CompiledFilter, call, column, literal

SIDE = pa.schema(
    {
        "i": pa.int32(), "n": pa.int64(), "x": pa.float64(), "d": pa.decimal128(10, 2), "s": pa.string(),
        "b": pa.bool_(), "ts": pa.timestamp("us"), "day": pa.date32(), "raw": pa.binary(),
    }
)  # fmt: skip
ROW = st.fixed_dictionaries(
    {
        "i": st.none() | st.integers(-3, 3),
        "n": st.none() | st.integers(-3, 3),
        "x": st.none() | st.sampled_from([0.0, -0.0, 1.5, -2.0, math.nan, math.inf]),
        "d": st.none() | st.sampled_from([Decimal("1.50"), Decimal("-2.00"), Decimal(0)]),
        "s": st.none() | st.sampled_from(["", "a", "ab", "ż"]),
        "b": st.none() | st.booleans(),
        "ts": st.none() | st.integers(-4, 4).map(lambda n: datetime(2026, 1, 1) + timedelta(seconds=n * 3)),
        "day": st.none() | st.sampled_from([date(2026, 1, 1), date(2025, 12, 31)]),
        "raw": st.none() | st.sampled_from([b"", b"\0", b"a"]),
    }
)


def sql_literal(value) -> str:
    if value is None:
        return "null"
    if isinstance(value, timedelta):
        return f"interval '{round(value.total_seconds() * 1_000_000)} microseconds'"
    if isinstance(value, str):
        return f"'{value}'"
    if isinstance(value, float):
        return f"'{value}'::double"
    if isinstance(value, datetime):
        return f"timestamp '{value}'"
    return str(value)


def to_sql(e) -> str:
    """The same expression for DuckDB."""
    if not hasattr(e, "operator"):
        return f"{e.side[0]}.{e.name}" if hasattr(e, "side") else sql_literal(e.value)
    parts = [to_sql(a) for a in e.arguments]
    if e.operator == "between":
        return f"({parts[0]} between {parts[1]} and {parts[2]})"
    if e.operator == "in":
        return f"({parts[0]} in ({', '.join(parts[1:])}))"
    prefixes = {"not": "not", "negate": "-", "abs": "abs"}
    if e.operator in prefixes:
        return f"({prefixes[e.operator]} ({parts[0]}))"
    if e.operator == "is null":
        return f"({parts[0]} is null)"
    operator = {"<=>": "is not distinct from"}.get(e.operator, e.operator)
    return f"({f' {operator} '.join(parts)})"


def numbers(depth):
    leaves = st.builds(column, st.sampled_from(["left", "right"]), st.sampled_from(["i", "n", "x"]))
    leaves |= st.sampled_from([0, 2, -1, 1.5]).map(literal)
    if depth == 0:
        return leaves
    inner = numbers(depth - 1)
    return (
        leaves
        | st.builds(call, st.sampled_from("+-*"), inner, inner)
        | st.builds(call, st.sampled_from(["negate", "abs"]), leaves)
    )


def sided(name):
    return st.builds(column, st.sampled_from(["left", "right"]), st.just(name))


SECONDS = st.sampled_from([timedelta(seconds=3), timedelta(seconds=-6), timedelta(microseconds=1)]).map(literal)
TIMES = sided("ts") | st.builds(call, st.sampled_from("+-"), sided("ts"), SECONDS)
OPERANDS = [
    numbers(2), TIMES, sided("s") | st.just(literal("a")), sided("raw"), sided("b"), sided("day"),
    sided("d") | sided("n") | st.just(literal(Decimal("1.5"))), st.builds(call, st.just("-"), TIMES, TIMES) | SECONDS,
]  # fmt: skip
NULL = literal(None)
COMPARISON = st.one_of(
    [st.builds(call, st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>"]), kind, kind) for kind in OPERANDS]
    + [st.builds(call, st.just("between"), kind, kind, kind) for kind in OPERANDS]
    + [st.builds(call, st.just("is null"), kind) for kind in OPERANDS]
    + [
        st.builds(
            call, st.just("in"), sided("s"), st.just(literal("a")), st.sampled_from([literal("ż"), literal(None)])
        )
    ]
)
CONDITION = st.recursive(
    COMPARISON | sided("b"),
    lambda inner: (
        st.builds(call, st.sampled_from(["and", "or"]), inner, inner) | st.builds(call, st.just("not"), inner)
    ),
    max_leaves=6,
)


@settings(max_examples=400, deadline=None)
@given(CONDITION, st.lists(st.tuples(ROW, ROW), min_size=1, max_size=8))
def test_conditions_hold_where_duckdb_says(condition, pairs):
    left, right = (pa.RecordBatch.from_pylist([p[i] for p in pairs], SIDE) for i in (0, 1))
    connection = duckdb.connect()
    for name, batch in (("l", left), ("r", right)):
        table = pa.Table.from_batches([batch]).append_column("row", pa.array(range(len(pairs))))
        connection.register(name, table)
    sql = f"select coalesce({to_sql(condition)}, false) from l join r on l.row = r.row order by l.row"
    wanted = [row[0] for row in connection.sql(sql).fetchall()]
    assert CompiledCondition(condition, SIDE, SIDE).holds(left, right).tolist() == wanted


def one(expression, row, ansi=True):
    batch = pa.RecordBatch.from_pylist([row], SIDE)
    return CompiledFilter(expression, "left", SIDE, ansi).holds(batch)[0]


def left(name):
    return column("left", name)


BEFORE, AFTER = datetime(1969, 12, 31, 23, 59, 59, 5), datetime(1970, 1, 1, 0, 0, 1, 500_000)


@pytest.mark.parametrize(
    ("expression", "row"),
    [
        (call("=", call("/", left("i"), literal(2)), literal(1.5)), {"i": 3}),
        (call("=", call("%", left("i"), literal(3)), literal(-2)), {"i": -5}),
        (call("=", call("%", left("x"), literal(2.0)), literal(1.5)), {"x": 3.5}),
        (call("=", call("cast", left("ts"), type=pa.int64()), literal(-1)), {"ts": BEFORE}),
        (call("=", call("cast", left("ts"), type=pa.float64()), literal(1.5)), {"ts": AFTER}),
        (call("=", call("cast", left("x"), type=pa.int32()), literal(-1)), {"x": -1.9}),
        (call("=", call("*", left("d"), left("d")), literal(Decimal("2.2500"))), {"d": Decimal("1.50")}),
        (call(">", left("ts"), left("day")), {"ts": datetime(2026, 1, 1, 1), "day": date(2026, 1, 1)}),
        (call("<", call("*", literal(timedelta(hours=1)), left("n")), literal(timedelta(days=1))), {"n": 23}),
        (call("=", left("x"), literal(math.nan)), {"x": math.nan}),
        (call("=", call("abs", left("d")), literal(Decimal("1.50"))), {"d": Decimal("-1.50")}),
        (call("<", call("abs", call("-", left("ts"), literal(AFTER))), literal(timedelta(seconds=9))), {"ts": BEFORE}),
        (call("=", left("n"), literal(2.0**60)), {"n": 2**60 + 1}),
    ],
)  # fmt: skip
def test_arithmetic_as_spark_has_it(expression, row):
    assert one(expression, row)


def test_a_null_is_compared_with_a_null():
    assert one(call("<=>", literal(None), literal(None)), {})
    assert not one(call("=", literal(None), literal(None)), {})


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 38), st.lists(st.none() | st.integers(-(10**38) + 1, 10**38 - 1), max_size=5), st.integers(0, 38))
def test_decimals_become_the_doubles_nearest_to_them(scale, units, digits):
    """Python rounds correctly, as Java does."""
    values = [None if n is None else Decimal(abs(n) % 10**digits * (1 if n > 0 else -1)) for n in units]
    exact = Context(prec=50)
    values = [None if v is None else v.scaleb(-scale, exact) for v in values]
    array = pa.array(values, pa.decimal128(38, scale))
    wanted = [None if v is None else float(v) for v in values]
    assert cast_value(array, pa.float64()).to_pylist() == wanted
    assert [cast_value(v, pa.float64()).as_py() for v in array] == wanted


def test_what_is_settled_is_not_evaluated():
    """Spark divides only where the rest of the condition leaves the result open."""
    batch = pa.RecordBatch.from_pylist([{"i": i, "b": b} for i, b in ((0, True), (2, False), (2, None))], SIDE)
    many = call("<=", call("/", literal(4), left("i")), literal(2.0))
    either = CompiledFilter(call("or", call("=", left("i"), literal(0)), many), "left", SIDE)
    assert either.holds(batch).tolist() == [True, True, True]
    both = CompiledFilter(call("and", call("<>", left("i"), literal(0)), many, left("b")), "left", SIDE)
    assert both.holds(batch).tolist() == [False, False, False]
    constant = CompiledFilter(call("or", literal(True), many), "left", SIDE)
    assert constant.holds(batch).tolist() == [True, True, True]
    for expression in (call("or", literal(False), many), call("or", left("b"), call("not", many), many)):
        with pytest.raises(ArithmeticOverflow, match="division by zero"):
            CompiledFilter(expression, "left", SIDE).holds(batch.set_column(5, "b", pa.array([False] * 3)))


def test_division_by_zero_and_overflow():
    assert one(call("is null", call("/", left("n"), left("i"))), {"i": 0})
    by_zero = call("is null", call("/", left("i"), literal(0)))
    with pytest.raises(ArithmeticOverflow, match="division by zero"):
        one(by_zero, {"i": 1})
    assert one(by_zero, {"i": 1}, ansi=False)
    too_large = call("<", call("+", left("n"), literal(1)), literal(0))
    with pytest.raises(ArithmeticOverflow, match="overflow"):
        one(too_large, {"n": 2**63 - 1})
    assert one(too_large, {"n": 2**63 - 1}, ansi=False)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (left("i"), "condition: left.i is int32, accepted is bool"),
        (call("=", left("i"), left("s")), r"\(left.i = left.s\) got int32, string, accepted are two numbers"),
        (call("and", left("i"), left("b")), r"left.i in \(left.i and left.b\) is int32, accepted is bool"),
        (call("=", left("nope"), left("s")), r"condition \(left\): there is no column 'nope'"),
        (call("=", column("right", "i"), left("i")), "right.i is of the right side"),
        (call("+", left("s"), left("i")), r"\(left.s \+ left.i\) got string, int32, accepted are numbers"),
        (call("/", left("d"), left("i")), "cast decimals to double"),
        (call("cast", left("s"), type=pa.int64()), "accepted are casts among numbers"),
        (call("=", left("ts"), literal(datetime(2026, 1, 1), pa.timestamp("us", "UTC"))), "timestamps of one kind"),
        (call("=", literal(object()), left("i")), "has no Arrow type"),
    ],
)
def test_conditions_that_cannot_be(expression, message):
    with pytest.raises((InvalidArgument, UnsupportedType), match=message):
        CompiledFilter(expression, "left", SIDE)


def test_calls_that_cannot_be():
    with pytest.raises(InvalidArgument, match=r"operator: got 'xor', accepted is \%"):
        call("xor", left("b"), left("b"))
    with pytest.raises(InvalidArgument, match="operator between: got 2 arguments, accepted are 3"):
        call("between", left("i"), left("i"))
    with pytest.raises(InvalidArgument, match="side: got 'middle'"):
        column("middle", "i")
