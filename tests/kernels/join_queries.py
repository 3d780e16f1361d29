"""The queries that the worked join scenarios run, fed as Spark feeds them."""

from __future__ import annotations

import pyarrow as pa
from millrace.kernels import Watermark
from millrace.kernels.expressions import CompiledCondition, CompiledFilter, call, column, literal
from millrace.kernels.join_query import Join
from millrace.kernels.join_state import JoinState
from millrace.kernels.time_bounds import Bound, TimeBounds

SECOND = 1_000_000
N = None


class Query:
    """Feeds both sides as Spark does, with a batch without data whenever the watermark has moved on.

    `no_data` = False leaves those batches out. `below_watermark` has, by side, what Spark filters out before
    it looks at event times: a condition on the side whose rows may be missing.
    """

    def __init__(self, join, delays, to_row, event_second, no_data=True, below_watermark=()):
        self.join, self.state = join, JoinState(join)
        self.watermarks = {side: Watermark(f"{delay} seconds") for side, delay in delays.items() if delay is not None}
        self.to_row, self.event_second = to_row, event_second
        self.no_data, self.below_watermark = no_data, dict(below_watermark)
        self.current = self.previous = 0

    def add(self, left=(), right=()):
        """Run a batch with data and what follows it; gives the rows that come out, sorted."""
        self.updated = self.removed = self.late = 0
        inputs = {"left": list(left), "right": list(right)}
        out = self._batch(inputs)
        for side, watermark in self.watermarks.items():
            seen = self.below_watermark.get(side, lambda value: True)
            times = [self.event_second(value) * SECOND for value in inputs[side] if seen(value)]
            watermark.advance(max(times, default=None))
        self.previous = self.current
        self.current = max(self.current, min((w.current_ms for w in self.watermarks.values()), default=0))
        if self.current > self.previous and self.no_data:
            out += self._batch({"left": [], "right": []})
            self.previous = self.current
        return sorted(out, key=str)

    def _batch(self, inputs):
        batches = []
        for side, values in inputs.items():
            schema = self.join.schemas[side]
            rows = [self.to_row(side, value) for value in values]
            arrays = [
                pa.array([row[i] for row in rows], pa.int64()).cast(f.type) for i, f in enumerate(schema)
            ]  # fmt: skip
            batches.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
        pieces = self.state.process(*batches, watermark_ms=self.current, late_watermark_ms=self.previous)
        rows = [tuple(map(plain, row)) for piece in pieces for row in zip(*piece.columns, strict=True)]
        metrics = self.state.metrics
        self.updated += metrics.numUpdatedStateRows
        self.removed += metrics.numRemovedStateRows
        self.late += metrics.numRowsDroppedByWatermark
        return rows

    @property
    def total(self):
        return self.state.metrics.numTotalStateRows


def plain(scalar):
    if pa.types.is_timestamp(scalar.type):
        return None if not scalar.is_valid else scalar.value / SECOND
    return scalar.as_py()


# --- WIN: int v, key v, event second v, ten-second windows; left value 2v, right value 3v ---

WIN_LEFT = pa.schema({"lk": pa.int64(), "le": pa.timestamp("us"), "lv": pa.int64()})
WIN_RIGHT = pa.schema({"rk": pa.int64(), "re": pa.timestamp("us"), "rv": pa.int64()})


def win_row(side, v):
    return v, (v // 10 * 10 + 10) * SECOND, v * (2 if side == "left" else 3)


class Windows(Query):
    def __init__(self, how, left_filter=None, right_filter=None, delays=(10, 10), **feeding):
        filters = [
            condition and CompiledFilter(condition, side, schema)
            for side, schema, condition in (("left", WIN_LEFT, left_filter), ("right", WIN_RIGHT, right_filter))
        ]
        times = ["le" if delays[0] is not None else None, "re" if delays[1] is not None else None]
        join = Join(WIN_LEFT, WIN_RIGHT, [("lk", "rk"), ("le", "re")], how, *times, (), *filters)
        super().__init__(join, dict(zip(("left", "right"), delays, strict=True)), win_row, lambda v: v, **feeding)

    def add(self, left=(), right=()):
        """Rows as (key, window end, left value, right value)."""
        out = []
        for row in super().add(left, right):
            lk, le, lv, rk, re, rv = row if len(row) == 6 else (*row, None, None, None)
            out.append((rk if lk is None else lk, re if le is None else le, lv, rv))
        return sorted(out, key=str)


# --- RNG: pairs (key, second) joined by key and by a range of times ---

RNG_LEFT = pa.schema({"lk": pa.int64(), "lt": pa.timestamp("us")})
RNG_RIGHT = pa.schema({"rk": pa.int64(), "rt": pa.timestamp("us")})


def times_within(lower, upper):
    """A residual condition, and its bounds: ends in seconds of right time − left time, (end, closed)."""
    difference, ends, tests = call("-", column("right", "rt"), column("left", "lt")), [], []
    for end, operators in ((lower, (">", ">=")), (upper, ("<", "<="))):
        if end is None:
            ends.append(None)
            continue
        interval = literal(end[0] * SECOND, pa.duration("us"))
        tests.append(call(operators[end[1]], difference, interval))
        ends.append(Bound(end[0] * SECOND, end[1]))
    condition = tests[0] if len(tests) == 1 else call("and", *tests)
    return CompiledCondition(condition, RNG_LEFT, RNG_RIGHT), [TimeBounds(*ends)]


class Ranges(Query):
    def __init__(self, how, lower, upper, delays=(10, 10), null_safe=(), **feeding):
        residual, bounds = times_within(lower, upper)
        join = Join(
            RNG_LEFT, RNG_RIGHT, [("lk", "rk")], how, "lt", "rt", bounds, residual=residual, null_safe=null_safe
        )  # fmt: skip
        by_side = dict(zip(("left", "right"), delays, strict=True))
        super().__init__(join, by_side, lambda side, pair: (pair[0], pair[1] * SECOND), lambda pair: pair[1], **feeding)
