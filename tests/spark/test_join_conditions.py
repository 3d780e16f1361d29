"""Join conditions against Spark itself: the types it compares in, the ranges it understands, the rows it joins."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import combinations_with_replacement

import pytest
from millrace.kernels.join_state import join_bounded
from millrace.kernels.time_bounds import value_watermark
from millrace.spark_glue.arrow_schema import arrow_schema, arrow_type
from millrace.spark_glue.join_condition import SideInfo, analyse
from millrace.spark_glue.spark_types import common_type
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

TYPES = [
    "boolean", "tinyint", "int", "bigint", "float", "double", "decimal(10,2)", "decimal(38,10)", "decimal(38,30)",
    "string", "binary", "date", "timestamp", "timestamp_ntz", "interval day to second",
]  # fmt: skip


@pytest.mark.parametrize(("a", "b"), list(combinations_with_replacement(TYPES, 2)))
def test_types_are_compared_in_the_type_that_spark_casts_them_to(spark, a, b):
    frame = spark.sql(f"SELECT CAST(NULL AS {a}) AS a, CAST(NULL AS {b}) AS b")
    left, right = (arrow_type(field.dataType, "", "") for field in frame.schema)
    try:
        compared = frame.filter("a = b")._jdf.queryExecution().analyzed().condition()
    except AnalysisException:
        assert common_type(left, right) is None
        return
    wanted = spark.sql(f"SELECT CAST(NULL AS {compared.left().dataType().sql()}) AS c").schema[0].dataType
    assert common_type(left, right).equals(arrow_type(wanted, "", ""))


RANGES = [
    "lt < rt - interval 5 seconds",
    "lt <= rt - interval 5 seconds",
    "rt between lt and lt + interval 5 seconds",
    "not (rt < lt or rt > lt + interval 5 seconds)",
    "cast(rt as long) > cast(lt as long) + 5",
    "cast(rt as double) >= cast(lt as double) + 0.5",
    "-cast(rt as long) < -cast(lt as long) - 5",
    "rt > cast(cast(lt as long) + 5 as timestamp)",
    "rt > lt + interval 5 seconds * 2 and rt > lt - interval '20.0015' second",
    "rt > lt + make_dt_interval(1, 2, 3, 4.5)",
    "rt > lt + interval '1 00:00:05' day to second",
    "rt > lt - interval 1 minute 30 seconds",
    "rt - lt > interval 5 seconds",
    "unix_timestamp(rt) > unix_timestamp(lt) + 5",
    "lt < rt - interval 1 month",
    "cast(rt as long) > cast(lt as long) + ln",
    "rt > cast(lt as date)",
    "rt > date_trunc('hour', lt)",
    "rt not between lt and lt + interval 5 seconds",
]


@pytest.mark.parametrize("on", RANGES)
def test_ranges_are_understood_as_spark_understands_them(spark, on):
    """W is large, for Java to be given a long."""
    watermark = 20_000_000_000
    rates = spark.readStream.format("rate").load()
    left = rates.selectExpr("value lk", "timestamp lt", "value ln").withWatermark("lt", "1 second")
    right = rates.selectExpr("value rk", "timestamp rt").withWatermark("rt", "1 second")
    on = f"lk = rk AND {on}"
    plan = analyse(on, side(left, "lt"), side(right, "rt"), "inner")
    joined = left.join(right, F.expr(on))._jdf.queryExecution().analyzed()
    node = spark._jsparkSession.sessionState().optimizer().execute(joined)
    while node.getClass().getSimpleName() != "Join":
        node = node.children().head()
    helper, option = spark._jvm.org.apache.spark.sql.catalyst.analysis.StreamingJoinHelper, spark._jvm.scala.Option
    for name, mine, other in (("left", node.left(), node.right()), ("right", node.right(), node.left())):
        sides = mine.outputSet(), other.outputSet()
        wanted = helper.getStateValueWatermark(*sides, node.condition(), option.apply(watermark))
        assert value_watermark(plan.bounds, name, watermark) == (wanted.get() if wanted.isDefined() else None)


def side(frame, event_time=None, aliases=()):
    """What the analysis may know of a frame."""
    names = frame.schema.names

    def type_of(sql):
        return arrow_type(frame.selectExpr(f"{sql} AS x").schema[0].dataType, "on", sql)

    return SideInfo(arrow_schema(frame.schema, names, "frame"), aliases, event_time, type_of)


COLUMNS = {
    "id": "int", "k": "int", "n": "bigint", "x": "double", "f": "float", "d": "decimal(10,2)", "s": "string",
    "t": "timestamp", "local": "timestamp_ntz", "day": "date", "gap": "interval day to second",
    "w": "struct<p: bigint, q: string>", "flag": "boolean", "tags": "array<int>",
}  # fmt: skip
# The night in which Zurich's clocks go forward.
NIGHT = datetime(2026, 3, 28, 23, 59, 58, tzinfo=UTC)
VALUES = {
    "k": [1, 2, None], "n": [0, 2, 2**60 + 1, None], "x": [0.0, -0.0, 2.5, float("nan"), float(2**60), None],
    "f": [0.1, 1.0, 1.5, None], "d": [Decimal("1.00"), Decimal("0.10"), Decimal("-2.50"), None],
    "s": ["1", "2", "abc", "ABC", None],
    "t": [*(NIGHT + timedelta(seconds=n) for n in (-3598, 0, 2, 3600, 7200, 86_400, 90_000)), None],
    "day": [date(2026, 3, 28), date(2026, 3, 29), None], "gap": [timedelta(seconds=5), timedelta(days=1), None],
    "w": [(1, "a"), (1, None), (None, None), None], "flag": [True, False, None], "tags": [[1, 2], [2], None],
}  # fmt: skip


@pytest.fixture(scope="module")
def frames(spark):
    made = []
    for seed in (1, 2):
        draw = random.Random(seed)
        drawn = [{name: draw.choice(choices) for name, choices in VALUES.items()} for _ in range(40)]
        for i, row in enumerate(drawn):
            row |= {"id": i, "local": row["t"] and row["t"].replace(tzinfo=None)}
        schema = ", ".join(" ".join(column) for column in COLUMNS.items())
        made.append(spark.createDataFrame([tuple(row[name] for name in COLUMNS) for row in drawn], schema).cache())
    return made


CONDITIONS = [
    "a.n = c.x",
    "a.d = c.f",
    "a.t = c.local",
    "a.t = c.day",
    "a.gap <=> c.gap",
    "a.w = c.w",
    "a.w <=> c.w",
    "lower(a.s) = lower(c.s) AND a.flag",
    "date_trunc('DAY', a.t) = date_trunc('day', c.local)",
    "a.s RLIKE '^[0-9]+$' AND CAST(a.s AS INT) = c.k",
    "a.k = c.k AND a.n < c.x AND a.x <= c.f + 1000",
    "a.k = c.k AND a.f + c.f > 1.6 AND a.d < c.f * 20",
    "a.k = c.k AND (c.n = 0 OR a.k / c.n >= 0.5)",
    "a.k = c.k AND (a.s IS NULL OR NOT a.s RLIKE '^[0-9]$' OR CAST(a.s AS INT) > c.n)",
    "a.k = c.k AND a.t + INTERVAL 1 DAY > c.t",
    "a.k = c.k AND c.t - a.t > INTERVAL 1 DAY",
    "a.k = c.k AND a.t - c.local > INTERVAL 3 SECONDS",
    "a.k = c.k AND c.day - a.day >= INTERVAL 1 DAY",
    "a.k = c.k AND a.t - c.day > INTERVAL 3 HOURS",
    "a.k = c.k AND a.t NOT BETWEEN c.t - INTERVAL 1 HOUR AND c.t + INTERVAL '1 00:00:05' DAY TO SECOND",
    "a.k = c.k AND abs(a.t - c.t) < INTERVAL 5 SECONDS",
    "a.k = c.k AND dateadd(HOUR, 2, a.t) > c.t AND exists(a.tags, v -> v > a.k) AND array(a.k, 1)[0] <= c.n",
    "a.k = c.k AND a.w.p IN (c.w.p, c.n) AND NOT (a.flag <=> c.flag)",
    "(a.k = c.k AND a.n > 1) OR (a.k = c.k AND c.n IS NULL)",
]


ZONED = [on for on in CONDITIONS if any(word in on for word in ("INTERVAL", "a.t =", "DAY", "HOUR"))]


@pytest.mark.parametrize(
    ("zone", "on"), [*(("UTC", on) for on in CONDITIONS), *(("Europe/Zurich", on) for on in ZONED)]
)
def test_the_rows_that_spark_joins(spark, frames, on, zone):
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        left, right = frames
        plan = analyse(on, side(left, aliases=["a"]), side(right, aliases=["c"]), "inner", time_zone=zone)
        batches = [
            batch(left, plan.left_columns, plan.left_schema), batch(right, plan.right_columns, plan.right_schema),
        ]  # fmt: skip
        joined = left.alias("a").join(right.alias("c"), F.expr(on)).select(F.col("a.id"), F.col("c.id"))
        wanted = Counter(tuple(row) for row in joined.collect())
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    other = len(plan.left_schema) + plan.right_schema.get_field_index("id")
    output = [
        zip(*(rows.column(i).to_pylist() for i in (0, other)), strict=True)
        for rows in join_bounded(plan.join(), *batches)
    ]
    assert Counter(pair for rows in output for pair in rows) == wanted and wanted


def batch(frame, columns, schema):
    """A frame's rows with the extra columns, of just the types that the plan says."""
    added = frame.selectExpr("*", *(f"{sql} AS {name}" for name, sql in columns))
    assert arrow_schema(added.schema, added.schema.names, "frame").equals(schema)
    (rows,) = added.toArrow().cast(schema).combine_chunks().to_batches()
    return rows
