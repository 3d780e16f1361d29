"""The join against the model of Spark's operator, over many batches."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from millrace.kernels.join_query import JOIN_TYPES, Join
from millrace.kernels.join_state import JoinState, join_bounded
from millrace.kernels.time_bounds import Bound, TimeBounds
from spark_join_model import LEFT, RIGHT, SparkJoin

SECOND = 1_000_000
LEFT_SCHEMA = pa.schema({"lk": pa.int64(), "ls": pa.string(), "lt": pa.timestamp("us"), "lv": pa.int32()})
RIGHT_SCHEMA = pa.schema({"rk": pa.int64(), "rs": pa.string(), "rt": pa.timestamp("us"), "rv": pa.list_(pa.int8())})

SCHEMAS = (LEFT_SCHEMA, RIGHT_SCHEMA)


@dataclass
class Pairs:
    """A condition on pairs of rows, said in Python."""

    test: object

    reads = {"left": LEFT_SCHEMA.names, "right": RIGHT_SCHEMA.names}  # noqa: RUF012

    def holds(self, left: pa.RecordBatch, right: pa.RecordBatch) -> np.ndarray:
        pairs = zip(rows_of(left), rows_of(right), strict=True)
        return np.array([self.test(a, b) is True for a, b in pairs], np.bool_)


@dataclass
class Rows:
    """A condition on the rows of one side."""

    test: object

    def holds(self, rows: pa.RecordBatch) -> np.ndarray:
        return np.array([self.test(row) is True for row in rows_of(rows)], np.bool_)


def rows_of(batch: pa.RecordBatch) -> list[dict]:
    """Rows with times as integers."""
    columns = [c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in batch.columns]
    values = [c.to_pylist() for c in columns]
    return [dict(zip(batch.schema.names, row, strict=True)) for row in zip(*values, strict=True)]


def batch_of(rows: list[dict], schema: pa.Schema) -> pa.RecordBatch:
    arrays = []
    for f in schema:
        values = [row[f.name] for row in rows]
        is_time = pa.types.is_timestamp(f.type)
        arrays.append(pa.array(values, pa.int64()).cast(f.type) if is_time else pa.array(values, f.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


TIME = st.none() | st.integers(-4, 40).map(lambda half: half * SECOND // 2)
KEY = st.sampled_from([1, 2, 3, None])
TEXT = st.sampled_from(["a", "", None])
LEFT_ROW = st.fixed_dictionaries({"lk": KEY, "ls": TEXT, "lt": TIME, "lv": st.integers(0, 3)})
RIGHT_ROW = st.fixed_dictionaries({"rk": KEY, "rs": TEXT, "rt": TIME, "rv": st.none() | st.just([1, 2])})
ENDS = st.none() | st.builds(Bound, st.integers(-6, 6).map(lambda n: n * SECOND // 2), st.booleans())


@st.composite
def joins(draw):
    """A join and its model, built from one choice of everything."""
    keys = draw(st.sampled_from([[("lk", "rk")], [("lk", "rk"), ("ls", "rs")], [("lk", "rk"), ("lt", "rt")]]))
    times = {LEFT: draw(st.sampled_from(["lt", "lt", None])), RIGHT: draw(st.sampled_from(["rt", "rt", None]))}
    bounds = draw(st.lists(st.builds(TimeBounds, ENDS, ENDS, st.booleans()), max_size=2))
    null_safe = frozenset(draw(st.sampled_from([[], [], [0]])))
    how = draw(st.sampled_from(JOIN_TYPES))
    filters = {
        LEFT: draw(st.sampled_from([lambda row: True, lambda row: row["lv"] > 0])),
        RIGHT: draw(st.sampled_from([lambda row: True, lambda row: row["rv"] is not None])),
    }
    odd = draw(st.booleans())

    def residual(left, right):
        if bounds and (left["lt"] is None or right["rt"] is None):
            return None
        return all(within(b, right["rt"] - left["lt"]) for b in bounds) and not (odd and left["lv"] == 2)

    model = SparkJoin(how, keys, times, evictions(keys, times, bounds), filters, residual, null_safe)
    join = Join(
        LEFT_SCHEMA, RIGHT_SCHEMA, keys, how, times[LEFT], times[RIGHT], bounds,
        Rows(filters[LEFT]), Rows(filters[RIGHT]), Pairs(residual), null_safe,
        only_bounds=not odd and all(one.exact for one in bounds),
    )  # fmt: skip
    return join, model


def within(bounds: TimeBounds, difference: int) -> bool:
    lower, upper = bounds.lower, bounds.upper
    above = lower is None or difference > lower.microseconds or (lower.closed and difference == lower.microseconds)
    below = upper is None or difference < upper.microseconds or (upper.closed and difference == upper.microseconds)
    return above and below


def evictions(keys, times, bounds):
    """Which stored rows go: by a key that carries a watermark, else by the range of times."""
    for left, right in keys:
        if left == times[LEFT] or right == times[RIGHT]:
            return {LEFT: (left, lambda w: w * 1000), RIGHT: (right, lambda w: w * 1000)}
    if times[LEFT] is None or times[RIGHT] is None:
        return {LEFT: None, RIGHT: None}
    uppers = [b.upper for b in bounds if b.upper is not None]
    lowers = [b.lower for b in bounds if b.lower is not None]
    by_upper = ("lt", lambda w: min(w * 1000 - b.microseconds - 1000 * b.closed for b in uppers))
    by_lower = ("rt", lambda w: min(w * 1000 + b.microseconds - 1000 * b.closed for b in lowers))
    return {LEFT: by_upper if uppers else None, RIGHT: by_lower if lowers else None}


BATCHES = st.lists(
    st.tuples(st.lists(LEFT_ROW, max_size=8), st.lists(RIGHT_ROW, max_size=8), st.integers(0, 12)),
    min_size=1,
    max_size=6,
)


def check(pair, batches, before_batch=lambda state: state):
    """Run batches through the model and the join, and compare after every one."""
    join, model = pair
    state, late, watermark = JoinState(join), 0, 0
    for left, right, halves in batches:
        state = before_batch(state)
        wanted, metrics = model.run({LEFT: left, RIGHT: right}, late, watermark)
        batch = (batch_of(left, LEFT_SCHEMA), batch_of(right, RIGHT_SCHEMA))
        output = list(state.process(*batch, watermark_ms=watermark, late_watermark_ms=late))
        assert Counter(plain(output, join)) == Counter(as_tuples(wanted, join))
        got = state.metrics.as_dict()
        assert {name: got[name] for name in metrics} == metrics
        late, watermark = watermark, watermark + 500 * halves


@settings(max_examples=500, deadline=None)
@given(joins(), BATCHES)
def test_every_batch_gives_what_spark_gives(pair, batches):
    check(pair, batches)


@settings(max_examples=250, deadline=None)
@given(joins(), BATCHES, st.data())
def test_saved_and_loaded_between_batches(pair, batches, data):
    def restart(state):
        version = data.draw(st.sampled_from([2, 1] if state.join.how == "inner" else [2]))
        return JoinState.from_bytes(state.join, state.to_bytes(version))

    check(pair, batches, restart)


@settings(max_examples=100, deadline=None)
@given(joins(), BATCHES)
def test_version_1_has_no_matched_flags_so_they_are_found_again(pair, batches):
    """An inner join's state of version 1, loaded: the flags are those that version 2 has saved."""
    join, _ = pair
    join.how = "inner"
    state = JoinState(join)
    for left, right, _ in batches:
        list(state.process(batch_of(left, LEFT_SCHEMA), batch_of(right, RIGHT_SCHEMA)))
    old, new = (JoinState.from_bytes(join, state.to_bytes(version)) for version in (1, 2))
    for side in (LEFT, RIGHT):
        assert flags(old, side) == flags(new, side)


def flags(state: JoinState, side: str) -> Counter:
    index = state.sides[side]
    rows = index.store.live()
    return Counter(zip(map(str, rows_of(index.store.gather(rows))), index.matched[rows].tolist(), strict=True))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.lists(LEFT_ROW, max_size=15), st.lists(RIGHT_ROW, max_size=15)), max_size=4),
       st.sampled_from(["inner", "left_outer", "right_outer", "full_outer", "left_semi"]))  # fmt: skip
def test_all_output_together_is_a_join_of_all_input(batches, how):
    """With the watermark at the end of time, at last, DuckDB and Polars give the same for the whole input."""
    residual = Pairs(lambda a, b: a["lt"] is not None and b["rt"] is not None and 0 <= b["rt"] - a["lt"] <= 5 * SECOND)
    bounds = [TimeBounds(Bound(0), Bound(5 * SECOND), exact=True)]
    join = Join(LEFT_SCHEMA, RIGHT_SCHEMA, [("lk", "rk")], how, "lt", "rt", bounds, residual=residual, only_bounds=True)
    state, output = JoinState(join), []
    timed = [([r for r in a if r["lt"] is not None], [r for r in b if r["rt"] is not None]) for a, b in batches]
    for left, right in timed:
        output += state.process(batch_of(left, LEFT_SCHEMA), batch_of(right, RIGHT_SCHEMA))
    output += state.process(watermark_ms=2**62)
    assert len(state) == 0
    whole = [pa.Table.from_batches(map(make, side)).combine_chunks().to_batches() for make, side in (
        (lambda rows: batch_of(rows, LEFT_SCHEMA), [a for a, _ in timed] or [[]]),
        (lambda rows: batch_of(rows, RIGHT_SCHEMA), [b for _, b in timed] or [[]]),
    )]  # fmt: skip
    left, right = (part[0] if part else batch_of([], schema) for part, schema in zip(whole, SCHEMAS, strict=True))
    assert Counter(plain(join_bounded(join, left, right), join)) == Counter(plain(output, join))
    tables = [pa.Table.from_batches([part]) for part in (left, right)]
    wanted = [joined_by_duckdb(*tables, how)]
    if how in ("inner", "left_outer"):
        wanted.append(joined_by_polars(*tables, how))
    for table in wanted:
        batches = table.cast(join.output_schema).to_batches()
        assert Counter(plain(output, join)) == Counter(plain(batches, join))


def joined_by_duckdb(left: pa.Table, right: pa.Table, how: str) -> pa.Table:
    connection = duckdb.connect()
    connection.register("l", left)
    connection.register("r", right)
    kind = how.removeprefix("left_") if how == "left_semi" else how.replace("_", " ")
    sql = f"select * from l {kind} join r on lk = rk and rt >= lt and rt <= lt + interval 5 seconds"
    return connection.sql(sql).to_arrow_table()


def joined_by_polars(left: pa.Table, right: pa.Table, how: str) -> pa.Table:
    """The condition first, as an inner join; then, where wanted, each left row beside what it has met."""
    rows = pl.from_arrow(left).with_row_index("row")
    met = rows.join(pl.from_arrow(right), left_on="lk", right_on="rk", how="inner", coalesce=False)
    met = met.filter((pl.col("rt") - pl.col("lt")).is_between(pl.duration(), pl.duration(seconds=5)))
    if how == "left_outer":
        met = rows.join(met.drop(left.column_names), on="row", how="left")
    return met.drop("row").to_arrow()


def test_a_hot_key_comes_out_in_pieces():
    """Ten thousand rows a side of one key: a hundred million pairs, never more than a few of them at once."""
    side = pa.schema({"k": pa.int64(), "v": pa.int64()})
    rows = pa.record_batch([np.ones(10_000, np.int64), np.arange(10_000)], schema=side)
    state = JoinState(Join(side, side, [("k", "k")], "inner"))
    assert list(state.process(rows)) == []
    before, count, largest = pa.total_allocated_bytes(), 0, 0
    for piece in state.process(right=rows):
        count += piece.num_rows
        largest = max(largest, pa.total_allocated_bytes() - before)
        if count > 5_000_000:
            break
    assert count > 5_000_000 and largest < 32 * 2**20


def plain(output: list[pa.RecordBatch], join: Join) -> list[tuple]:
    rows = []
    for batch in output:
        assert batch.num_rows and batch.schema.equals(join.output_schema)
        rows += [tuple(map(str, row.values())) for row in rows_of(batch)]
    return rows


def as_tuples(pairs, join: Join) -> list[tuple]:
    rows = []
    for left, right in pairs:
        values = [left and left[name] for name in LEFT_SCHEMA.names]
        if not join.is_left_semi:
            values += [right and right[name] for name in RIGHT_SCHEMA.names]
        rows.append(tuple(map(str, values)))
    return rows
