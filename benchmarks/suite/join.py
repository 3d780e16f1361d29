"""The symmetric join: building and probing an index, whole steps, eviction, storage and memory."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pyarrow as pa
from millrace.kernels.expressions import CompiledCondition, Expression, call, column, literal
from millrace.kernels.join_query import Join
from millrace.kernels.join_state import JoinState, join_bounded
from millrace.kernels.time_bounds import Bound, TimeBounds

from .inputs import SECOND, scaled

ROWS = 1_000_000
FIELDS = [("k", pa.int64()), ("v", pa.int64()), ("t", pa.timestamp("us")), ("x", pa.float64())]
LEFT = pa.schema([("l" + name, t) for name, t in FIELDS])
RIGHT = pa.schema([("r" + name, t) for name, t in FIELDS])


def rows_of(schema: pa.Schema, keys: np.ndarray, seconds: np.ndarray) -> pa.RecordBatch:
    times = pa.array(seconds * SECOND).cast(pa.timestamp("us"))
    return pa.record_batch([pa.array(keys), pa.array(keys), times, pa.array(keys * 1.0)], schema=schema)


def join(how: str = "inner", by_key: bool = False) -> Join:
    """Rows within ten seconds of each other, evicted by their own time or by their key's."""
    keys = [("lk", "rk"), ("lt", "rt")] if by_key else [("lk", "rk")]
    bounds = [TimeBounds(Bound(-10 * SECOND), Bound(10 * SECOND))]
    return Join(LEFT, RIGHT, keys, how, "lt", "rt", bounds)


def drain(pieces) -> int:
    return sum(piece.num_rows for piece in pieces)


class OneShot:
    """A million rows against as many, with one, four and a thousand matches a key on one side."""

    params = ((1, 4, 1000),)
    param_names = ("matches",)

    def setup(self, matches: int) -> None:
        rows, rng = scaled(ROWS), np.random.default_rng(0)
        keys = max(rows // matches, 1)
        zeros = np.zeros(rows, np.int64)
        self.left = rows_of(LEFT, rng.permutation(keys), zeros[:keys])
        self.right = rows_of(RIGHT, rng.permutation(rows) % keys, zeros)
        drain(join_bounded(join(), self.left, self.right))

    def time_build_and_probe(self, matches: int) -> None:
        drain(join_bounded(join(), self.left, self.right))

    def peakmem_build_and_probe(self, matches: int) -> None:
        drain(join_bounded(join(), self.left, self.right))


def condition(kind: str) -> Expression:
    """What must hold of a pair besides its keys."""
    left, right = (lambda name: column("left", name)), (lambda name: column("right", name))
    if kind == "compare":
        return call("<", left("lv"), right("rv"))
    if kind == "times":
        return call("between", right("rt"), left("lt"), call("+", left("lt"), literal(timedelta(seconds=10))))
    total = call("+", call("*", left("lx"), literal(2.0)), right("rx"))
    return call("or", call(">", total, literal(10.0)), call("=", left("lv"), right("rv")))


class Conditions:
    """A million pairs of equal keys, of which a condition is to be evaluated."""

    params = (["compare", "times", "arithmetic"],)
    param_names = ("condition",)

    def setup(self, kind: str) -> None:
        rows, rng = scaled(ROWS), np.random.default_rng(0)
        zeros = np.zeros(rows, np.int64)
        self.left, self.right = (rows_of(schema, rng.permutation(rows), zeros) for schema in (LEFT, RIGHT))
        self.join = Join(
            LEFT, RIGHT, [("lk", "rk")], "inner", "lt", "rt", residual=CompiledCondition(condition(kind), LEFT, RIGHT)
        )
        drain(join_bounded(self.join, self.left, self.right))

    def time_build_and_probe(self, kind: str) -> None:
        drain(join_bounded(self.join, self.left, self.right))


class Steady:
    """Batches of both sides into a state that evicts as much as it stores."""

    params = (["inner", "left_outer", "left_semi"], [False, True])
    param_names = ("how", "by_key")
    ROWS, CYCLES = 20_000, 200

    def setup(self, how: str, by_key: bool) -> None:
        self.state, self.second = JoinState(join(how, by_key)), 0
        for _ in range(25):
            self.step()

    def step(self) -> None:
        rows = scaled(self.ROWS)
        keys = np.arange(self.second * rows, (self.second + 1) * rows)
        seconds = np.full(rows, self.second)
        drain(self.state.process(rows_of(LEFT, keys, seconds), rows_of(RIGHT, keys[::-1], seconds),
                                 watermark_ms=self.second * 1000))  # fmt: skip
        self.second += 1

    def time_step(self, how: str, by_key: bool) -> None:
        self.step()

    def track_growth(self, how: str, by_key: bool) -> float:
        """Memory after two hundred cycles over memory after twenty: 1 is flat."""
        sizes = []
        for _ in range(self.CYCLES):
            self.step()
            sizes.append(self.state.nbytes)
        return sizes[-1] / sizes[self.CYCLES // 10]

    track_growth.unit = "ratio"  # type: ignore[attr-defined]


class Stored:
    """A million stored rows of two longs, a time and a double."""

    def setup(self) -> None:
        rows = scaled(ROWS)
        self.join = join()
        self.state = JoinState(self.join)
        drain(self.state.process(rows_of(LEFT, np.random.default_rng(0).permutation(rows), np.arange(rows) // 1000)))
        self.saved = self.state.to_bytes()
        self.watermark = 10_000

    def time_save(self) -> None:
        self.state.to_bytes()

    def time_load(self) -> None:
        JoinState.from_bytes(self.join, self.saved)

    def track_bytes_per_row(self) -> float:
        return self.state.nbytes / len(self.state)

    track_bytes_per_row.unit = "bytes"  # type: ignore[attr-defined]
