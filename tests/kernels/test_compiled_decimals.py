"""Decimals in compiled functions and user-defined aggregates, against Python's own `decimal`."""

from __future__ import annotations

import decimal
from decimal import Decimal

import pyarrow as pa
import pytest
from compiled_queries import batch_of, query_for, run
from hypothesis import given, settings
from hypothesis import strategies as st
from millrace.kernels import Aggregation, GroupState, aggregate, partial_aggregate
from millrace.kernels.decimal_values import divide
from millrace.kernels.errors import FunctionFailed, InvalidArgument, StateFormatError
from millrace.kernels.keyed_state import KeyedState
from millrace.kernels.sketches import approx_count_distinct, approx_quantile, weighted_mean
from millrace.kernels.stateful_query import StatefulQuery
from millrace.kernels.user_aggregates import aggregator

EXACT = decimal.Context(prec=200, rounding=decimal.ROUND_HALF_UP)
FEE = Decimal("0.015")
PAIRS = pa.schema({"k": pa.int64(), "a": pa.decimal128(38, 6), "b": pa.decimal128(20, 3), "n": pa.int64()})


def decimals(precision: int, places: int) -> st.SearchStrategy[Decimal]:
    """Decimals of a type, its edges and numbers near them included."""
    most = 10**precision - 1
    units = st.integers(-most, most) | st.sampled_from([0, 1, -1, 5, -5, most, -most, 2**63, 2**64, -(2**64)])
    return units.map(lambda n: Decimal(max(-most, min(most, n))).scaleb(-places, EXACT))


def places(value: Decimal, scale: int) -> Decimal:
    """Half up, as Spark casts."""
    return value.quantize(Decimal(1).scaleb(-scale), context=EXACT)


def computed(key, rows, state, out):
    for i in range(len(rows)):
        a, b, n = rows.a[i], rows.b[i], rows.n[i]
        out.emit(a < b, a <= b, a == b, a != b, a > b, a >= b, a < n, n == b, float(a), -a, abs(b), bool(b), a, a)


COMPUTED = StatefulQuery(
    PAIRS, ["k"], "n long",
    "lt boolean, le boolean, eq boolean, ne boolean, gt boolean, ge boolean, less boolean, same boolean, f double, "
    "neg decimal(38, 6), size decimal(20, 3), some boolean, wide decimal(38, 6), back decimal(38, 6)",
    computed,
)  # fmt: skip


@given(st.lists(st.tuples(decimals(38, 6), decimals(20, 3), st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=8))
@settings(max_examples=60)
def test_comparisons_and_signs(rows):
    # Equal values at different scales, and neighbours of them.
    rows += [(b.quantize(Decimal("1.000000"), context=EXACT), b, n) for _, b, n in rows]
    batch = pa.record_batch([[1] * len(rows), *map(list, zip(*rows, strict=True))], schema=PAIRS)
    found = KeyedState(COMPUTED).process(batch, batch_time_ms=0).rows.to_pylist()
    for (a, b, n), row in zip(rows, found, strict=True):
        compared = (a < b, a <= b, a == b, a != b, a > b, a >= b, a < n, n == b)
        *truths, number, negative, size, some, wide, back = row.values()
        assert tuple(truths) == compared
        assert number == pytest.approx(float(a), rel=1e-15)
        assert (negative, size, some) == (EXACT.minus(a), EXACT.abs(b), bool(b))
        assert wide == back == a


def arithmetic(key, rows, state, out):
    for i in range(len(rows)):
        a, b, n = rows.a[i], rows.b[i], rows.n[i]
        out.emit(a + b, a - b, b + n, n - b, a * b, b * n, a * FEE, divide(a, 7, 4), divide(n, 3, 2), int(a), min(a, n),
                 max(a, b))  # fmt: skip


SMALL = pa.schema({"k": pa.int64(), "a": pa.decimal128(14, 4), "b": pa.decimal128(12, 2), "n": pa.int64()})
ARITHMETIC = StatefulQuery(
    SMALL, ["k"], "n long",
    "sum decimal(38, 4), less decimal(38, 4), plus decimal(38, 2), minus decimal(38, 2), product decimal(38, 6), "
    "times decimal(38, 2), fee decimal(38, 7), seventh decimal(38, 4), third decimal(38, 2), whole long, "
    "least decimal(38, 4), most decimal(38, 4)",
    arithmetic,
)  # fmt: skip


@given(st.lists(st.tuples(decimals(14, 4), decimals(12, 2), st.integers(-(10**12), 10**12)), min_size=1, max_size=8))
@settings(max_examples=60)
def test_arithmetic_is_exact(rows):
    batch = pa.record_batch([[1] * len(rows), *map(list, zip(*rows, strict=True))], schema=SMALL)
    found = KeyedState(ARITHMETIC).process(batch, batch_time_ms=0).rows.to_pylist()
    with decimal.localcontext(EXACT):
        for (a, b, n), row in zip(rows, found, strict=True):
            exact = (a + b, a - b, b + n, n - b, a * b, b * n, a * FEE, places(a / 7, 4), places(Decimal(n) / 3, 2))
            assert tuple(row.values()) == (*exact, int(a), min(a, Decimal(n)), max(a, b))


def rounded(key, rows, state, out):
    for i in range(len(rows)):
        state.kept = rows.a[i]
        out.emit(state.kept, rows.a[i], divide(rows.a[i], 1, 3))


ROUNDED = StatefulQuery(PAIRS, ["k"], "kept decimal(36, 2)", "kept decimal(36, 2), x decimal(33, 0), y decimal(38, 3)",
                        rounded)  # fmt: skip


HALVES = st.sampled_from(["0.005", "-0.005", "0.0049", "0.5", "-2.5"]).map(Decimal)


@given(st.lists(decimals(32, 6) | HALVES, min_size=1, max_size=8))
@settings(max_examples=40)
def test_what_is_stored_is_rounded_half_up(values):
    batch = pa.record_batch([[1] * len(values), values, [None] * len(values), [0] * len(values)], schema=PAIRS)
    found = KeyedState(ROUNDED).process(batch, batch_time_ms=0).rows.to_pylist()
    expected = [(places(v, 2), places(v, 0), places(v, 3)) for v in values]
    assert [tuple(row.values()) for row in found] == expected


def spend(key, rows, state, out):
    total = Decimal(0) if state.is_null("spent") else state.spent
    for price in rows.price:
        total += price
    state.spent = total
    state.dearest = max(state.dearest, rows.price[0])
    state.last = rows.price[-1]
    out.emit(key.k, total, state.last, state.dearest)


def test_state_survives_restarts():
    query = query_for(spend, "spent decimal(18, 2), dearest decimal(10, 2), last decimal(12, 3)",
                      "k string, spent decimal(18, 2), last decimal(12, 3), dearest decimal(10, 2)")  # fmt: skip
    state = KeyedState(query)
    first = batch_of(k=["a", "b", "a"], price=[Decimal("1.10"), Decimal("-7.00"), None])
    rows = [*state.process(first, batch_time_ms=0).rows.to_pylist()]
    assert [tuple(row.values()) for row in rows] == [
        ("a", Decimal("1.10"), None, Decimal("1.10")), ("b", Decimal("-7.00"), Decimal("-7.000"), Decimal("0.00")),
    ]  # fmt: skip
    state = KeyedState.from_bytes(query, state.to_bytes())
    second = batch_of(k=["b", "a", "a"], price=[None, Decimal("99999999.99"), Decimal("0.01")])
    rows = state.process(second, batch_time_ms=0).rows.to_pylist()
    assert {row["k"]: row["spent"] for row in rows} == {"b": Decimal("-7.00"), "a": Decimal("100000001.10")}
    assert {row["k"]: row["last"] for row in rows} == {"b": None, "a": Decimal("0.010")}
    other = query_for(spend, "spent decimal(18, 3), dearest decimal(10, 2), last decimal(12, 3)",
                      "k string, spent decimal(18, 2), last decimal(12, 3), dearest decimal(10, 2)")  # fmt: skip
    with pytest.raises(StateFormatError, match="decimal"):
        KeyedState.from_bytes(other, state.to_bytes())


def test_decimal_keys_are_read():
    def by_price(key, rows, state, out):
        out.emit(key.price * 2, key.is_null("price"))

    batch = batch_of(price=[Decimal("1.25"), None, Decimal("1.25")])
    found = run(by_price, batch, output="twice decimal(11, 2), missing boolean", keys=["price"])
    assert found == [(Decimal("2.50"), False), (Decimal("0.00"), True)]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("state.p = rows.price[0] * 10**8", r"state.p: the value does not fit decimal\(10, 2\)"),
        ("out.emit(rows.price[0] * 10**8)", r"out.emit: x: the value does not fit decimal\(10, 2\)"),
        ("x = rows.price[0]\nfor i in range(3): x *= 10**15\nout.emit(x)", "a decimal has more than 38 digits"),
        ("out.emit(divide(rows.price[0], rows.n[0], 2))", "ZeroDivisionError"),
        ("out.emit(int(rows.price[0] * 10**18))", "does not fit 64 bits"),
    ],
)
def test_what_does_not_fit_raises(body, message, tmp_path):
    with pytest.raises(FunctionFailed, match=message):
        run(defined(body, tmp_path), batch_of(price=[Decimal("12345678.90")], n=[0]), "p decimal(10, 2)",
            "x decimal(10, 2)")  # fmt: skip


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("out.emit(rows.price[0] * 1.5)", "a decimal and a float do not mix"),
        ("out.emit(1 if rows.price[0] > 1.5 else 0)", "a decimal and a float do not mix"),
        ("out.emit(rows.price[0] / 2)", "decimals are not divided with /; accepted are divide"),
        ("out.emit(rows.price[0] % 2)", "decimals are not divided with %"),
        ("out.emit(1.5)", r"out.emit: x is decimal\(10, 2\), got float64; accepted is a decimal or an integer"),
        ("state.d = rows.price[0]", r"state.d is double, got decimal with 2 places; accepted is a number; float\(…\)"),
        ("state.n = rows.price[0]", r"state.n is long, got decimal with 2 places; accepted is an integer; int\(…\)"),
        ("out.emit(Decimal('1.x'))", "Decimal('1.x') is not a number"),
        ("out.emit(Decimal('NaN'))", "is not a number that a decimal can hold"),
        ("out.emit(Decimal('1e999999'))", "has more than 38 digits"),
        ("out.emit(Decimal('1e-39'))", "Decimal('1E-39') has more than 38 digits"),
        ("out.emit(Decimal(1.5))", r"Decimal\(…\) got float64"),
        ("out.emit(divide(1, 2, len(rows)))", "accepted is a literal from 0 to 38"),
        ("out.emit(divide(1.0, 2, 2))", "accepted are decimals and integers"),
        ("out.emit(divide(1, Decimal('1e-38'), 30))", "accepted are at most 0 places"),
        ("out.emit(Decimal('1e-30') * Decimal('1e-30'))", "the product of decimals has 60 places, accepted are 38"),
    ],
)
def test_what_is_refused(body, message, tmp_path):
    with pytest.raises(InvalidArgument, match=message.replace("('", r"\('").replace("')", r"'\)")):
        query_for(defined(body, tmp_path), "n long, d double", "x decimal(10, 2)")


def defined(body: str, tmp_path):
    """Define a function in a file, as compiled functions must have a source."""
    path = tmp_path / "defined.py"
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    path.write_text(f"def defined(key, rows, state, out):\n{lines}")
    scope = {"Decimal": Decimal, "divide": divide}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    return scope["defined"]


# --- aggregates -------------------------------------------------------------------------------------


@aggregator(state="total decimal(38, 4), n long, least decimal(12, 2)", returns="decimal(20, 4)", nulls=True)
class net_mean:
    """The mean of price less fee; rows without a price count as zero."""

    def init(state):
        state.least = Decimal("9999999999.99")

    def update(state, price, n):
        state.n += 1
        if price is not None:
            state.total += price - price * FEE
            state.least = min(state.least, price)

    def merge(state, other):
        state.total += other.total
        state.n += other.n
        state.least = min(state.least, other.least)

    def finish(state):
        return divide(state.total, state.n, 4) if state.least > -1 else None


GROUPED = pa.schema({"k": pa.int64(), "price": pa.decimal128(12, 2), "n": pa.int64()})
CENTS = st.integers(-300, 10**6).map(lambda n: Decimal(n).scaleb(-2))


@given(st.lists(st.tuples(st.sampled_from([1, 2]), st.none() | CENTS), min_size=1, max_size=30), st.integers(1, 30))
@settings(max_examples=50)
def test_an_aggregate_of_decimals(rows, at):
    expected = {}
    for k in {k for k, _ in rows}:
        prices = [p for key, p in rows if key == k]
        # Every row's net price is rounded to the places of the field it is kept in.
        total = Decimal(0)
        for p in prices:
            total = total if p is None else places(total + p - p * FEE, 4)
        least = min([p for p in prices if p is not None], default=Decimal(1))
        expected[k] = places(total / len(prices), 4) if least > -1 else None
    query = Aggregation(GROUPED, ["k"], {"net": net_mean("price", "n")})
    batch = pa.record_batch([[k for k, _ in rows], [p for _, p in rows], [1] * len(rows)], schema=GROUPED)
    state = GroupState(query, "update")
    state.process(batch.slice(0, at))
    state = GroupState.from_bytes(query, "update", state.to_bytes())
    state.process(batch.slice(at))
    whole = aggregate(query, batch)
    assert dict(zip(*whole.to_pydict().values(), strict=True)) == expected
    assert partial_aggregate(query, batch).num_rows == len(expected)


def test_sketches_take_decimals():
    prices = [Decimal(n).scaleb(-2) for n in range(1, 1001)] * 2
    batch = pa.record_batch([[1] * 2000, prices, [2] * 2000], schema=GROUPED)
    aggs = {
        "different": approx_count_distinct("price"), "median": approx_quantile("price", 0.5),
        "mean": weighted_mean("price", "n"),
    }  # fmt: skip
    [row] = aggregate(Aggregation(GROUPED, ["k"], aggs), batch).to_pylist()
    assert row["different"] == pytest.approx(1000, rel=0.05)
    assert row["median"] == pytest.approx(5.0, rel=0.02)
    assert row["mean"] == pytest.approx(5.005)
