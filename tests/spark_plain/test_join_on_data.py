"""Conditions all the way: extra columns computed by DuckDB, the kernel's join, and DuckDB's join by the same SQL."""

from __future__ import annotations

import random
from collections import Counter
from datetime import datetime, timedelta

import duckdb
import pyarrow as pa
import pytest
import sqlglot
from millrace.kernels.join_query import JOIN_TYPES
from millrace.kernels.join_state import JoinState, join_bounded
from millrace.spark_glue.join_condition import SideInfo, analyse
from sqlglot import exp

SCHEMA = pa.schema(
    {
        "id": pa.int32(), "k": pa.int32(), "n": pa.int64(), "s": pa.string(), "x": pa.float64(),
        "d": pa.decimal128(8, 2), "t": pa.timestamp("us"), "day": pa.date32(), "flag": pa.bool_(),
        "p": pa.struct({"a": pa.int32(), "b": pa.string()}),
    }
)  # fmt: skip


def rows(seed, count=30):
    """Few values, so that many rows meet, and nulls among them."""
    draw = random.Random(seed)
    times = [datetime(2026, 1, 1) + timedelta(seconds=n) for n in (0, 1, 2.5, 5, 7, 86_400)]
    values = {
        "k": [1, 2, None], "n": [1, 2, 2**60 + 1, None], "s": ["1", "2", "20", None], "x": [0.5, 1.0, 2.0, None],
        "d": [1, 2, None], "t": [*times, None], "day": [times[0].date(), times[5].date(), None],
        "flag": [True, False, None], "p": [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}],
    }  # fmt: skip
    return [{"id": i, **{name: draw.choice(choices) for name, choices in values.items()}} for i in range(count)]


class Duck:
    """Both inputs as tables of DuckDB, which computes what Spark would."""

    def __init__(self):
        self.connection = duckdb.connect()
        for name, seed in (("l", 1), ("r", 2)):
            self.connection.register(name, pa.Table.from_pylist(rows(seed), SCHEMA))

    def query(self, sql):
        return self.connection.sql(sql).to_arrow_table()

    def side(self, table, columns, schema):
        """A table with its extra columns, as one batch."""
        extra = "".join(f", {duck(sql)} AS {name}" for name, sql in columns)
        return self.query(f"SELECT *{extra} FROM {table}").cast(schema).combine_chunks().to_batches()[0]

    def type_of(self, table):
        return lambda sql: self.query(f"SELECT {duck(sql)} AS x FROM {table} LIMIT 0").schema.field("x").type


def duck(sql):
    """Spark's SQL as DuckDB's: both have 'a / b' as a double and regular expressions that search."""
    tree = sqlglot.parse_one(sql, read="spark")
    return tree.transform(lambda node: exp.Cast(**node.args) if type(node) is exp.TryCast else node).sql(
        dialect="duckdb"
    )


CONDITIONS = [
    "a.k = c.k",
    "a.k <=> c.k",
    "a.k = c.n AND a.s <> c.s",
    "a.s = c.k",
    "a.k = c.d",
    "a.d = c.x",
    "a.day = c.t",
    "a.p = c.p AND a.k < c.n",
    "a.p.b = c.p.b AND a.x + 1 > c.x * 2",
    "a.k = c.k AND c.t BETWEEN a.t AND a.t + INTERVAL 5 SECONDS",
    "a.k = c.k AND c.t - a.t > INTERVAL '1.5' SECOND AND a.flag",
    "a.k = c.k AND a.t + INTERVAL 1 DAY >= c.t AND NOT (a.day > c.t OR c.flag IS NULL)",
    "a.k = c.k AND length(a.s) = 1 AND c.s LIKE '2%' AND a.n > 1",
    "concat(a.s, 'x') = concat(c.s, 'x') AND length(a.s) + a.k < c.k + 3",
    "a.k = c.k AND (a.flag OR c.flag AND a.n <= c.n)",
    "a.k = c.k AND (a.flag <=> c.flag OR CASE WHEN a.k > 1 THEN a.n = 1 ELSE c.x > 1 END)".replace(
        "c.x > 1", "a.x > 1"
    ),
    "(a.k = c.k AND a.n = 1) OR (a.k = c.k AND c.d > 1.5)",
    "a.k + 1 = c.n AND a.n IN (c.n, c.k, 7)",
    "a.k = c.k AND a.n NOT BETWEEN c.n AND 2 AND abs(a.x - c.x) < 1.2",
    "a.k = c.k AND a.s RLIKE '^[0-9]$' AND CAST(a.s AS INT) >= c.n",
    "a.k = c.k AND (a.d + c.d > 2.5 OR a.d < c.x)",
    "a.k = c.k AND a.n < c.x",
    "a.k = c.k AND (a.k IS NULL OR 6 / a.k > c.n)",
    "a.k = c.k AND FALSE",
]


def same(wanted, output, how):
    got = Counter(
        (left, right)
        for batch in output
        for left, right in zip(batch.column(0).to_pylist(), other_ids(batch, how), strict=True)
    )
    assert got == wanted


def other_ids(batch, how):
    if how == "left_semi":
        return [None] * batch.num_rows
    (position,) = [i for i, name in enumerate(batch.schema.names) if name == "id" and i > 0]
    return batch.column(position).to_pylist()


def expected(base, on, how):
    kind = {"left_semi": "SEMI"}.get(how, how.replace("_", " "))
    ids = "a.id, NULL" if how == "left_semi" else "a.id, c.id"
    return Counter(base.connection.sql(f"SELECT {ids} FROM l AS a {kind} JOIN r AS c ON {duck(on)}").fetchall())


@pytest.fixture(scope="module")
def base():
    return Duck()


def planned(base, on, how):
    sides = [SideInfo(SCHEMA, [alias], "t", base.type_of(table)) for alias, table in (("a", "l"), ("c", "r"))]
    plan = analyse(on, *sides, how, time_zone="UTC")
    left = base.side("l", plan.left_columns, plan.left_schema)
    return plan, left, base.side("r", plan.right_columns, plan.right_schema)


@pytest.mark.parametrize("how", JOIN_TYPES)
@pytest.mark.parametrize("on", CONDITIONS)
def test_bounded_inputs(base, on, how):
    plan, left, right = planned(base, on, how)
    same(expected(base, on, how), join_bounded(plan.join(), left, right), how)


@pytest.mark.parametrize("on", CONDITIONS)
def test_batch_by_batch(base, on):
    plan, left, right = planned(base, on, "inner")
    state, output = JoinState(plan.join()), []
    for start in range(0, 30, 10):
        output += state.process(left.slice(start, 10), right.slice(start, 10))
    same(expected(base, on, "inner"), output, "inner")


def test_using(base):
    plan, left, right = planned(base, ["k", "s"], "left_outer")
    assert plan.using == (("k", "k"), ("s", "s"))
    same(expected(base, "a.k = c.k AND a.s = c.s", "left_outer"), join_bounded(plan.join(), left, right), "left_outer")
