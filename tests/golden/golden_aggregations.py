"""Golden states of grouped aggregations: every function, every type, windows, modes, functions of users, sketches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import golden_results as R
import pyarrow as pa
from golden_cases import BUCKETS, Case, Step
from golden_rows import FIRST, NUMBERS, SCHEMA, SECOND, SECOND_ROWS, TYPES, batch_of, rows_of, some
from millrace.kernels import Aggregation, GroupState, aggregator, window
from millrace.kernels import functions as F
from millrace.kernels.sketches import approx_count_distinct, approx_quantile, weighted_mean
from spark_model import SparkAggregation


@dataclass(frozen=True)
class Agg:
    """An aggregate, what it gives, and of a user's function what a state shows: what it has accumulated."""

    function: Any
    result: R.Result
    tolerance: float = 0.0
    accumulated: Callable[[list[dict]], dict] | None = None


@dataclass(frozen=True)
class AggregationCase(Case):
    operator = "aggregate"

    keys: Sequence[str] = ("k",)
    aggs: Mapping[str, Agg] = field(default_factory=dict)
    window: tuple[str, int, int, int] | None = None
    watermark_on: str | None = None
    mode: str = "update"
    ansi: bool = True
    schema: pa.Schema = SCHEMA

    def query(self) -> Aggregation:
        functions = {name: agg.function for name, agg in self.aggs.items()}
        spec = window(*self.window) if self.window else None
        return Aggregation(self.schema, self.keys, functions, spec, self.watermark_on, self.ansi)

    def fresh(self) -> GroupState:
        return GroupState(self.query(), self.mode)

    def load(self, data: bytes) -> GroupState:
        return GroupState.from_bytes(self.query(), self.mode, data, BUCKETS)

    def run(self, state: GroupState, step: Step) -> tuple[list[tuple], dict[str, int]]:
        batch = batch_of(step.rows, self.schema)
        result = state.process(batch, watermark_ms=step.watermark, late_watermark_ms=step.late)
        return rows_of(result.rows), result.metrics.as_dict()

    def model(self) -> SparkAggregation:
        results = {name: agg.result for name, agg in self.aggs.items()}
        return SparkAggregation(list(self.keys), self.mode, results, self.window, self.watermark_on)

    def run_model(self, model: SparkAggregation, step: Step) -> tuple[list[tuple], dict[str, int]]:
        rows, metrics = model.run(list(map(self._with_normal_keys, step.rows)), step.late, step.watermark)
        return [self._with_window(row) for row in rows], metrics

    def _with_normal_keys(self, row: dict) -> dict:
        """Zeros of both signs are one key, as Spark's NormalizeFloatingNumbers has it."""
        return row | {name: 0.0 for name in self.keys if isinstance(row[name], float) and row[name] == 0}

    def _with_window(self, row: tuple) -> tuple:
        return (dict(zip(("start", "end"), row[0], strict=True)), *row[1:]) if self.window else row

    def stored(self, model: SparkAggregation, version: int) -> tuple[list[str], list[tuple]]:
        shown = {name: agg.accumulated or agg.result for name, agg in self.aggs.items()}
        rows = [replace(model, results=shown).result(key) for key in model.state]
        names = [*(["window"] if self.window else []), *self.keys, *self.aggs]
        return names, [self._with_window(row) for row in rows]

    @property
    def rough(self) -> Mapping[int, float]:
        first = len(self.keys) + (self.window is not None)
        return {first + i: agg.tolerance for i, agg in enumerate(self.aggs.values()) if agg.tolerance}


# What doubles may lose to another order of adding.
ROUNDED = 1e-9

# --- every function over every type -----------------------------------------------------------------


def any_type(t: str) -> dict[str, Agg]:
    return {
        "count": Agg(F.count(t), R.count(t)),
        "min": Agg(F.min(t), R.least(t)),
        "max": Agg(F.max(t), R.greatest(t)),
        "first": Agg(F.first(t), R.first(t)),
        "first_some": Agg(F.first(t, ignore_nulls=True), R.first(t, ignore_nulls=True)),
        "last": Agg(F.last(t), R.last(t)),
        "last_some": Agg(F.last(t, ignore_nulls=True), R.last(t, ignore_nulls=True)),
        "min_by": Agg(F.min_by(t, "i"), R.least_by(t, "i")),
        "max_by": Agg(F.max_by("i", t), R.greatest_by("i", t)),
        "least_by": Agg(F.min_by("i", t), R.least_by("i", t)),
    }


def numbers(t: str) -> dict[str, Agg]:
    return {
        "sum": Agg(F.sum(t), R.total(t), ROUNDED if t in ("float", "double") else 0.0),
        "avg": Agg(F.avg(t), R.mean(t), 0.0 if t in ("decimal", "wide") else ROUNDED),
        "var_pop": Agg(F.var_pop(t), R.variance(t, 0), ROUNDED),
        "var_samp": Agg(F.var_samp(t), R.variance(t, 1), ROUNDED),
        "stddev_pop": Agg(F.stddev_pop(t), R.variance(t, 0, root=True), ROUNDED),
        "stddev_samp": Agg(F.stddev_samp(t), R.variance(t, 1, root=True), ROUNDED),
    }


BOOLEANS = {
    "bool_and": Agg(F.bool_and("boolean"), R.every("boolean")),
    "bool_or": Agg(F.bool_or("boolean"), R.any_of("boolean")),
    "count_if": Agg(F.count_if("boolean"), R.count_true("boolean")),
}
COUNTS = {"n": Agg(F.count(), R.count()), "total": Agg(F.sum("i"), R.total("i"))}


def functions_of(t: str) -> dict[str, Agg]:
    return any_type(t) | (numbers(t) if t in NUMBERS else {}) | (BOOLEANS if t == "boolean" else {})


# Some of the groups meet rows again, then all of them.
TWO = [Step(FIRST)], [Step(SECOND_ROWS), Step(), Step(FIRST)]
OF_EVERY_TYPE = [AggregationCase(f"of-{t}", *TWO, aggs=functions_of(t)) for t in TYPES]

# --- keys, windows and modes ------------------------------------------------------------------------

# Keys come again, in the first batch with the other zero.
OTHER_ZERO = [row | {"double": 0.0} for row in FIRST if row["double"] == 0]
KEYS = AggregationCase(
    "keys-of-every-type", [Step(FIRST + OTHER_ZERO)], [Step(FIRST[5:] + SECOND_ROWS)], keys=tuple(TYPES), aggs=COUNTS,
    mode="complete",
)  # fmt: skip

# The watermark follows the greatest time, ten seconds behind; 21 of the rows of the first batch have a time.
WATERMARKS = (
    [Step(FIRST, watermark=0, late=0), Step(watermark=11_000, late=0)],
    [Step(SECOND_ROWS + FIRST[:12], watermark=11_000, late=11_000), Step(watermark=24_000, late=11_000)],
)
SLIDING = ("ts", 10 * SECOND, 4 * SECOND, SECOND)
TUMBLING = ("ts", 5 * SECOND, 5 * SECOND, 0)
MOST = {
    **COUNTS,
    "top": Agg(F.max("string"), R.greatest("string")),
    "price": Agg(F.sum("decimal"), R.total("decimal")),
}
TIMED = {"aggs": MOST, "watermark_on": "ts"}
WINDOWS = [
    AggregationCase("windows-append", *WATERMARKS, keys=("k",), window=SLIDING, mode="append", **TIMED),
    AggregationCase("windows-update", *WATERMARKS, keys=("k", "boolean"), window=TUMBLING, mode="update", **TIMED),
    AggregationCase("windows-complete", *WATERMARKS, keys=(), window=TUMBLING, mode="complete", **TIMED),
    AggregationCase("windows-without-watermark", *TWO, aggs=MOST, window=SLIDING),
]
TIMES = [
    AggregationCase(f"times-{mode}", *WATERMARKS, keys=("ts", "k"), mode=mode, **TIMED)
    for mode in ("append", "update", "complete")
]
GLOBAL = [AggregationCase(f"global-{mode}", *TWO, keys=(), aggs=MOST, mode=mode) for mode in ("update", "complete")]

# --- sums out of range ------------------------------------------------------------------------------

LARGEST = 2**63 - 1
NINES = Decimal("9" * 38)
LARGE_SCHEMA = pa.schema({"k": pa.string(), "i": pa.int32(), "n": pa.int64(), "d": pa.decimal128(38, 0)})


def large(i: int) -> dict:
    # Bob's sums come back into range within a batch, ann's leave it for good.
    k = ("ann", "bob", "cid")[i % 3]
    sign = {"ann": 1, "bob": (-1) ** (i // 3), "cid": 0}[k]
    # Negating with a minus sign would round to 28 digits.
    return {"k": k, "i": i, "n": sign * (LARGEST - i), "d": {1: NINES, -1: NINES.copy_negate(), 0: Decimal(0)}[sign]}


WRAPPING = AggregationCase(
    "without-ansi", [Step([large(i) for i in range(6)])], [Step([large(i) for i in range(30, 36)])],
    aggs={"n": Agg(F.sum("n"), R.wrapped("n")), "d": Agg(F.sum("d"), R.lost_if_too_large("d"))},
    ansi=False, schema=LARGE_SCHEMA,
)  # fmt: skip

# --- functions of users and sketches ----------------------------------------------------------------


@aggregator(
    state="seen boolean, low double, high double, rows array<short, 3>, small byte, middle short, more int, "
    "half float, flags array<boolean, 2>, times array<timestamp, 1>, day date, wall timestamp_ntz",
    returns="double",
)
class spread:
    """The distance of the greatest from the least, and a field of every kind."""

    def init(state):
        state.low = 1e300
        state.high = -1e300
        state.small = 7

    def update(state, value):
        state.seen = True
        state.low = min(state.low, value)
        state.high = max(state.high, value)
        state.rows[2] += 1
        state.flags[1] = True
        state.more += 1
        state.half = 0.5

    def merge(state, other):
        state.seen = state.seen or other.seen
        state.low = min(state.low, other.low)
        state.high = max(state.high, other.high)
        state.rows[2] += other.rows[2]
        state.flags[1] = state.flags[1] or other.flags[1]
        state.more += other.more
        state.half = max(state.half, other.half)

    def finish(state):
        return state.high - state.low + 10 * state.rows[2] + state.more if state.seen else None


def spread_of(rows: list[dict]) -> float | None:
    values = some(rows, "double")
    return max(values) - min(values) + 11 * len(values) if values else None


def spread_accumulated(rows: list[dict]) -> dict:
    values = some(rows, "double")
    n = len(values)
    return {
        "seen": n > 0, "low": min(values, default=1e300), "high": max(values, default=-1e300), "rows": [0, 0, n],
        "small": 7, "middle": 0, "more": n, "half": 0.5 if n else 0.0, "flags": [False, n > 0], "times": [0],
        "day": 0, "wall": 0,
    }  # fmt: skip


@aggregator(state="total decimal(38, 2), latest timestamp, missing long", returns="decimal(38, 2)", nulls=True)
class latest_price:
    """The sum of prices, less one for each that is missing, if there was a time."""

    def update(state, price, at):
        if price is None:
            state.missing += 1
        else:
            state.total += price
        if at is not None:
            state.latest = max(state.latest, at)

    def merge(state, other):
        state.total += other.total
        state.missing += other.missing
        state.latest = max(state.latest, other.latest)

    def finish(state):
        return state.total - state.missing if state.latest > 0 else None


def latest_accumulated(rows: list[dict]) -> dict:
    missing = sum(row["decimal"] is None for row in rows)
    total = R._sum([Decimal("0.00"), *some(rows, "decimal")])
    return {"total": total, "latest": max([0, *some(rows, "timestamp")]), "missing": missing}


def latest_price_of(rows: list[dict]) -> Decimal | None:
    kept = latest_accumulated(rows)
    return kept["total"] - kept["missing"] if kept["latest"] > 0 else None


OWN = {
    "spread": Agg(spread("double"), spread_of, accumulated=spread_accumulated),
    "price": Agg(latest_price("decimal", "timestamp"), latest_price_of, accumulated=latest_accumulated),
    **COUNTS,
}
SKETCHES = {
    "mean": Agg(weighted_mean("double", "i"), R.weighted("double", "i"), ROUNDED),
    "distinct": Agg(approx_count_distinct("string"), R.distinct("string")),
    # Within 1 % of the exact one, as its documentation promises.
    "high": Agg(approx_quantile("i", 0.9, 256), R.quantile("i", 0.9), 0.01),
    "middle": Agg(approx_quantile("i", 0.5), R.quantile("i", 0.5), 0.01),
}
USERS = AggregationCase("user-defined", *TWO, aggs=OWN)
SHIPPED = AggregationCase("sketches", *TWO, keys=("boolean",), aggs=SKETCHES)


# --- many groups, whose numbers are narrowed at rest ------------------------------------------------

MANY_SCHEMA = pa.schema(
    {"day": pa.date32(), "ts": pa.timestamp("us", "UTC"), "n": pa.int64(), "d": pa.decimal128(12, 2), "s": pa.string()}
)


def many(i: int) -> dict:
    at = 1_767_225_600 * SECOND + i * SECOND
    return {
        "day": None if i == 77 else 20_000 + i % 700, "ts": at, "n": None if i % 50 == 3 else 10**12 + i,
        "d": Decimal(i).scaleb(-2), "s": f"text {i % 9}",
    }  # fmt: skip


MANY = AggregationCase(
    "many-groups", [Step([many(i) for i in range(1500)])], [Step([many(i) for i in range(1000, 2000)])],
    keys=("day",),
    aggs={
        "n": Agg(F.count("n"), R.count("n")), "total": Agg(F.sum("n"), R.total("n")),
        "least": Agg(F.min("ts"), R.least("ts")), "d": Agg(F.sum("d"), R.total("d")),
        "dear": Agg(F.max("d"), R.greatest("d")), "s": Agg(F.last("s"), R.last("s")),
        "low": Agg(F.min("n"), R.least("n")),
    },
    schema=MANY_SCHEMA,
)  # fmt: skip

AGGREGATIONS = [*OF_EVERY_TYPE, KEYS, *WINDOWS, *TIMES, *GLOBAL, WRAPPING, USERS, SHIPPED, MANY]
