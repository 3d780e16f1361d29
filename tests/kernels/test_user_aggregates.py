"""Aggregate functions that users define, beside built-in ones, in every mode; and the three made with them."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from millrace.kernels import Aggregation, GroupState, InvalidArgument, aggregate, partial_aggregate
from millrace.kernels import functions as F
from millrace.kernels.errors import FunctionFailed, StateFormatError, UnsupportedType
from millrace.kernels.sketches import approx_count_distinct, approx_quantile, weighted_mean
from millrace.kernels.user_aggregates import aggregator


@aggregator(
    state="total long, greatest int, ring array<short, 5>, hot boolean, any boolean", returns="string", nulls=True
)
class everything:
    """A bit of everything: several inputs, nulls, an array, a text result."""

    def init(state):
        state.greatest = -1000
        state.ring[4] = 7

    def update(state, value, name):
        if value is None:
            state.total += 100
        else:
            state.total += value
            state.greatest = max(state.greatest, value)
            state.ring[value % 4] += 1
        if name is not None and name == "ann":
            state.hot = True
        state.any = True

    def merge(state, other):
        state.total += other.total
        state.greatest = max(state.greatest, other.greatest)
        for i in range(4):
            state.ring[i] += other.ring[i]
        state.hot = state.hot or other.hot
        state.any = state.any or other.any

    def finish(state):
        if not state.any or state.total == 0:
            return None
        if state.hot:
            return "hot " + str(state.total) + " " + str(state.greatest) + " " + str(state.ring[1])
        return "cold " + str(state.total) + " " + str(state.greatest) + " " + str(state.ring[4])


def expected_everything(rows: list[tuple]) -> str | None:
    values = [v for v, _ in rows if v is not None]
    total = sum(100 if v is None else v for v, _ in rows)
    greatest = max([-1000, *values])
    if total == 0:
        return None
    if any(name == "ann" for _, name in rows):
        return f"hot {total} {greatest} {sum(v % 4 == 1 for v in values)}"
    return f"cold {total} {greatest} 7"


ROWS = st.lists(
    st.tuples(st.sampled_from([1, 2, None]), st.none() | st.integers(-50, 50), st.sampled_from(["ann", "bob", None])),
    max_size=20,
)
SCHEMA = pa.schema({"k": pa.int64(), "v": pa.int32(), "name": pa.string()})


def to_batch(rows) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) if rows else [(), (), ()]
    return pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def query() -> Aggregation:
    aggs = {"x": everything("v", "name"), "n": F.count(), "s": F.sum("v"), "d": approx_count_distinct("v")}
    return Aggregation(SCHEMA, ["k"], aggs)


@settings(max_examples=100, deadline=None)
@given(st.lists(ROWS, min_size=1, max_size=4), st.data())
def test_beside_built_in_ones(batches, data):
    state, seen = GroupState(query(), "complete"), []
    for rows in batches:
        cut = data.draw(st.integers(0, len(rows)))
        if data.draw(st.booleans()):
            parts = [partial_aggregate(state.query, to_batch(part)) for part in (rows[:cut], rows[cut:])]
            result = state.process(partials=parts)
        else:
            result = state.process([to_batch(rows[:cut]), to_batch(rows[cut:])])
        version = data.draw(st.sampled_from([None, 1, 2]))
        if version:
            state = GroupState.from_bytes(state.query, "complete", state.to_bytes(version))
        seen += rows
        got = {row["k"]: (row["x"], row["n"], row["s"], row["d"]) for row in result.rows.to_pylist()}
        groups = {k: [(v, name) for key, v, name in seen if key == k] for k, *_ in seen}
        wanted = {
            k: (
                expected_everything(members),
                len(members),
                sum(v for v, _ in members if v is not None) if any(v is not None for v, _ in members) else None,
                len({v for v, _ in members if v is not None}),
            )
            for k, members in groups.items()
        }
        assert got == wanted


def test_append_and_update_mode():
    schema = pa.schema({"ts": pa.timestamp("us"), "v": pa.float64(), "w": pa.float64()})
    grouped = Aggregation(schema, ["ts"], {"mean": weighted_mean("v", "w")}, event_time="ts")
    times = pa.array([1_000_000, 1_000_000, 5_000_000], pa.timestamp("us"))
    batch = pa.record_batch([times, pa.array([1.0, 4.0, 9.0]), pa.array([2.0, 1.0, 1.0])], schema=schema)
    state = GroupState(grouped, "append")
    assert state.process(batch, watermark_ms=0).rows.num_rows == 0
    assert state.process(watermark_ms=2000).rows.column(1).to_pylist() == [2.0]
    state = GroupState(grouped, "update")
    assert state.process(batch, watermark_ms=0).rows.column(1).to_pylist() == [2.0, 9.0]


def test_weighted_mean_against_pandas():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"k": rng.integers(0, 50, 5000), "v": rng.normal(size=5000), "w": rng.random(5000)})
    frame.loc[rng.random(5000) < 0.1, "v"] = None
    batch = pa.RecordBatch.from_pandas(frame, preserve_index=False)
    got = aggregate(Aggregation(batch.schema, ["k"], {"mean": weighted_mean("v", "w")}), batch).to_pandas()
    known = frame.dropna()
    wanted = (known.v * known.w).groupby(known.k).sum() / known.w.groupby(known.k).sum()
    np.testing.assert_allclose(got.set_index("k")["mean"].sort_index(), wanted, rtol=1e-12)


def test_booleans_for_weights():
    batch = pa.record_batch({"v": [1, 2, 5], "w": [True, False, True]})
    assert aggregate(Aggregation(batch.schema, [], {"mean": weighted_mean("v", "w")}), batch).to_pylist() == [
        {"mean": 3.0}
    ]


def test_weights_that_add_up_to_nothing():
    batch = pa.record_batch({"k": [1, 1, 2], "v": [1.0, 2.0, None], "w": [1.0, -1.0, 1.0]})
    got = aggregate(Aggregation(batch.schema, ["k"], {"mean": weighted_mean("v", "w")}), batch)
    assert got.to_pylist() == [{"k": 1, "mean": None}, {"k": 2, "mean": None}]


# --- approximate distinct count ---------------------------------------------------------------------


def distinct(array: pa.Array, parts: int = 1) -> int:
    batch = pa.record_batch({"v": array})
    grouped = Aggregation(batch.schema, [], {"d": approx_count_distinct("v")})
    size = -(-len(batch) // parts)
    partials = [partial_aggregate(grouped, batch.slice(i * size, size)) for i in range(parts)]
    return GroupState(grouped, "update").process(partials=partials).rows.column(0)[0].as_py()


def test_the_standard_error_of_the_distinct_count():
    """Over many independent sets the error is 1.6 % on the average (root mean square), and not biased."""
    for count in (1_000, 20_000, 200_000):
        errors = []
        for seed in range(40):
            values = np.random.default_rng(seed).integers(-(2**63), 2**63 - 1, count)
            errors.append(distinct(pa.array(values)) / count - 1)
        assert np.sqrt(np.mean(np.square(errors))) < 0.0163 * 1.35
        assert abs(np.mean(errors)) < 0.0163 / np.sqrt(40) * 4


def test_few_distinct_values_of_every_type():
    floats = pa.array([0.0, -0.0, float("nan"), -float("nan"), 1.5])
    assert distinct(floats) == 3
    assert distinct(pa.array([-1, -2, -1])) == 2
    assert distinct(pa.array(["", "a", "żółw", "a", None, "aa", "a longer piece of text"])) == 5
    assert distinct(pa.array([True, False, True, None])) == 2
    assert distinct(pa.array([b"\x00", b"\x00\x00", b""])) == 3
    assert distinct(pa.array([1, 1, 2], pa.timestamp("us"))) == 2
    assert distinct(pa.array([None], pa.int64())) == 0


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(), max_size=300), st.integers(1, 6))
def test_the_distinct_count_does_not_depend_on_order_or_splits(values, parts):
    array = pa.array([v % 2**63 for v in values], pa.int64())
    assert distinct(array, parts) == distinct(array) == distinct(array[::-1])


# --- approximate quantiles --------------------------------------------------------------------------


def quantile(array: pa.Array, q: float, parts: int = 1, buckets: int = 512) -> float | None:
    batch = pa.record_batch({"v": array})
    grouped = Aggregation(batch.schema, [], {"q": approx_quantile("v", q, buckets)})
    size = max(-(-len(batch) // parts), 1)
    partials = [partial_aggregate(grouped, batch.slice(i * size, size)) for i in range(parts)]
    return GroupState(grouped, "update").process(partials=partials).rows.column(0)[0].as_py()


def exact(values: np.ndarray, q: float) -> float:
    return float(np.sort(values)[int(np.floor(q * (len(values) - 1)))])


@pytest.mark.parametrize("q", [0.0, 0.01, 0.5, 0.9, 0.99, 1.0])
def test_quantiles_within_one_percent(q):
    rng = np.random.default_rng(3)
    for values in (rng.random(50_000) + 0.001, rng.lognormal(0, 1, 50_000), -rng.gamma(9, 2, 50_000)):
        assert abs(values).max() / abs(values).min() < 1.0202**512
        wanted = exact(values, q)
        assert abs(quantile(pa.array(values), q) - wanted) <= 0.01 * abs(wanted) * (1 + 1e-9)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(1e-200, 1e200) | st.floats(-1e200, -1e-200) | st.just(0.0) | st.integers(-20, 20), min_size=1),
    st.sampled_from([0.0, 0.25, 0.5, 0.99, 1.0]),
    st.integers(1, 5),
    st.sampled_from([16, 512]),
)
def test_quantiles_keep_their_error_and_do_not_depend_on_order(values, q, parts, buckets):
    array = pa.array([float(v) for v in values])
    got = quantile(array, q, parts, buckets)
    assert got == quantile(array, q, 1, buckets) == quantile(array[::-1], q, parts, buckets)
    numbers = array.to_numpy()
    wanted = exact(numbers, q)
    # What the documentation promises: 1 %, doubled each time the factor squares.
    factor, error, reach = 1.0, 0.01, 1.0202**buckets
    for side in (numbers[numbers > 0], -numbers[numbers < 0]):
        if len(side):
            factor = max(factor, float(np.log(side.max()) - np.log(side.min())))
    reach = np.log(1.0202) * buckets
    while factor > reach * (1 - 2 / buckets):
        reach, error = 2 * reach, 2 * error / (1 + error**2)
    assert abs(got - wanted) <= error * abs(wanted) * (1 + 1e-6)


def test_quantiles_of_odd_numbers():
    assert quantile(pa.array([float("nan"), None, 3.0]), 0.5) == pytest.approx(3, rel=0.01)
    assert quantile(pa.array([None], pa.float64()), 0.5) is None
    assert quantile(pa.array([float("inf"), 1.0, 5e-324]), 0.5) == pytest.approx(1, rel=1)
    assert quantile(pa.array([-5, 0, 0, 7], pa.int32()), 0.4) == 0.0
    for array in (pa.array([False, True]), pa.array(["a"])):
        with pytest.raises(InvalidArgument, match=r"approx_quantile\(1, 512\).update: .* cannot be compiled"):
            quantile(array, 1.0)
    for bad, message in (({"quantile": 1.5}, "quantile: got 1.5"), ({"quantile": 0.5, "buckets": 3}, "buckets: got 3")):
        with pytest.raises(InvalidArgument, match=message):
            approx_quantile("v", **bad)


# --- definitions ------------------------------------------------------------------------------------


def test_an_aggregate_travels_pickled():
    again = pickle.loads(pickle.dumps(everything("v", "name")))
    batch = to_batch([(1, 1, "ann")])
    assert aggregate(Aggregation(SCHEMA, ["k"], {"x": again}), batch).to_pylist() == [{"k": 1, "x": "hot 1 1 1"}]


def test_a_state_of_other_fields_is_refused():
    def made(state):
        @aggregator(state=state, returns="long")
        class total:
            def update(state, value):
                state.n += value

            def merge(state, other):
                state.n += other.n

            def finish(state):
                return state.n

        return Aggregation(SCHEMA, ["k"], {"x": total("v")})

    saved = GroupState(made("n long"), "update").to_bytes()
    GroupState.from_bytes(made("n long"), "update", saved)
    with pytest.raises(StateFormatError, match="columns"):
        GroupState.from_bytes(made("n long, m long"), "update", saved)


def define(state="n long", returns="long", **functions):
    def update(state, value):
        state.n += 1

    def merge(state, other):
        state.n += other.n

    def finish(state):
        return state.n

    given = {"update": update, "merge": merge, "finish": finish} | functions
    return aggregator(state, returns)(type("counted", (), {k: f for k, f in given.items() if f}))


def bad_update(state, value):
    state.m += value


def bad_finish(state):
    return "many"


def bad_null(state, value):
    state.n = None


def bad_method(state, value):
    state.remove()


def two_arguments(state, other):
    return 1


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: define(state="name string"), "counted: state: field 'name' is string, accepted are numbers"),
        (lambda: define(state=""), "counted: state: got '', accepted is at least one field"),
        (
            lambda: define(state="d array<decimal(10, 2), 2>"),
            r"counted: state: field 'd' is fixed_size_list<item: decimal",
        ),
        (lambda: define(returns="array<int, 3>"), "returns"),
        (lambda: define(returns="lnog"), "counted: got type 'lnog' of 'returns'"),
        (lambda: define(merge=None), "counted: 'merge' is missing; it needs update, merge, finish"),
        (lambda: define(extra=bad_update), "counted: it has 'extra', accepted are init, update"),
        (lambda: define(finish=two_arguments), r"counted.finish: got '\(state, other\)', accepted is 1 arguments"),
        (lambda: aggregator("n long", "long")(3), "aggregator: got 3, accepted is a class"),
        (lambda: define()("a", "b"), r"counted: got \('a', 'b'\), accepted is the names of 1 columns: value"),
        (lambda: define()(3), r"counted: got \(3,\), accepted"),
    ],
)
def test_definitions_that_cannot_be(build, message):
    with pytest.raises(InvalidArgument, match=message):
        build()


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        (
            {"update": bad_update},
            r"aggs\['x'\]: counted.update: bad_update .* state has no field 'm'.*state.m \+= value",
        ),
        ({"finish": bad_finish}, r"counted.finish: .*out.emit: counted is long, got"),
        ({"update": bad_null}, "state.n: got None, accepted is a value; what an aggregate accumulates is never null"),
        ({"update": bad_method}, "state has no field 'remove'"),
    ],
)
def test_functions_that_cannot_be_compiled(functions, message):
    with pytest.raises(InvalidArgument, match=message):
        Aggregation(SCHEMA, ["k"], {"x": define(**functions)("v")})


def test_columns_that_cannot_be_seen():
    schema = pa.schema({"k": pa.int64(), "at": pa.time32("s")})
    with pytest.raises(UnsupportedType, match=r"aggs\['x'\]: column 'at' is time32\[s\], accepted"):
        Aggregation(schema, ["k"], {"x": define()("at")})


def test_what_a_function_raises():
    def fussy(state, value):
        if value < 0:
            raise ValueError("negative")

    grouped = Aggregation(SCHEMA, ["k"], {"x": define(update=fussy)("v")})
    state = GroupState(grouped, "update")
    state.process(to_batch([(1, 1, None)]))
    with pytest.raises(FunctionFailed, match=r"aggs\['x'\]: counted.update failed: ValueError: negative"):
        state.process(to_batch([(1, -1, None)]))
