"""Golden states of stream-stream joins: every type of join, ranges, windows, conditions, columns of every type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import time
from decimal import Decimal

import numpy as np
import pyarrow as pa
from golden_cases import BUCKETS, Case, Step
from golden_rows import FIRST, NAN, SECOND, SECOND_ROWS, TYPES, batch_of, rows_of
from millrace.kernels import Join, JoinState, TimeBounds
from millrace.kernels.time_bounds import Bound
from spark_join_model import LEFT, RIGHT, SparkJoin

SIDES = (LEFT, RIGHT)
LEFT_SCHEMA = pa.schema({"k": pa.string(), "n": pa.int64(), "t": pa.timestamp("us"), "v": pa.int32()})
RIGHT_SCHEMA = pa.schema({"rk": pa.string(), "rn": pa.int64(), "rt": pa.timestamp("us"), "rv": pa.list_(pa.int8())})
Evicts = tuple[str, Callable[[int], int]]


@dataclass
class Pairs:
    """A condition on pairs of rows, said in Python."""

    test: Callable[[dict, dict], bool | None]
    reads: dict[str, list[str]]

    def holds(self, left: pa.RecordBatch, right: pa.RecordBatch) -> np.ndarray:
        pairs = zip(dicts_of(left), dicts_of(right), strict=True)
        return np.array([self.test(a, b) is True for a, b in pairs], np.bool_)


@dataclass
class Rows:
    """A condition on the rows of one side."""

    test: Callable[[dict], bool | None]

    def holds(self, rows: pa.RecordBatch) -> np.ndarray:
        return np.array([self.test(row) is True for row in dicts_of(rows)], np.bool_)


def dicts_of(batch: pa.RecordBatch) -> list[dict]:
    return [dict(zip(batch.schema.names, row, strict=True)) for row in rows_of(batch)]


def with_one_nan(rows: list[dict]) -> list[dict]:
    """NaN equals NaN in Spark, in Python only the same object does."""
    return [{name: NAN if value != value else value for name, value in row.items()} for row in rows]


def shown(row: dict) -> dict:
    """A row as `state_rows` shows it: decimals of 256 bits as text."""
    return {name: format(value, "f") if name.endswith("decimal256") and value else value for name, value in row.items()}


def always(*rows: dict) -> bool:
    return True


@dataclass(frozen=True)
class JoinCase(Case):
    operator = "join"

    how: str = "inner"
    keys: Sequence[tuple[str, str]] = (("k", "rk"),)
    schemas: tuple[pa.Schema, pa.Schema] = (LEFT_SCHEMA, RIGHT_SCHEMA)
    times: tuple[str | None, str | None] = (None, None)
    bounds: Sequence[TimeBounds] = ()
    # What goes when, said for the model: by side the column, and the time for a watermark.
    evicts: tuple[Evicts | None, Evicts | None] = (None, None)
    filters: tuple[Callable[[dict], bool | None], Callable[[dict], bool | None]] = (always, always)
    residual: Callable[[dict, dict], bool | None] = always
    null_safe: tuple[int, ...] = ()

    def join(self) -> Join:
        reads = dict(zip(SIDES, (schema.names for schema in self.schemas), strict=True))
        return Join(
            *self.schemas, self.keys, self.how, *self.times, self.bounds,
            *(None if test is always else Rows(test) for test in self.filters),
            None if self.residual is always else Pairs(self.residual, reads), self.null_safe,
        )  # fmt: skip

    def fresh(self) -> JoinState:
        return JoinState(self.join())

    def load(self, data: bytes) -> JoinState:
        return JoinState.from_bytes(self.join(), data, BUCKETS)

    def batches(self, step: Step) -> list[pa.RecordBatch]:
        return [batch_of(rows, schema) for rows, schema in zip((step.rows, step.right), self.schemas, strict=True)]

    def run(self, state: JoinState, step: Step) -> tuple[list[tuple], dict[str, int]]:
        pieces = state.process(*self.batches(step), watermark_ms=step.watermark, late_watermark_ms=step.late)
        return [row for piece in pieces for row in rows_of(piece)], state.metrics.as_dict()

    def model(self) -> SparkJoin:
        return SparkJoin(
            self.how, self.keys, dict(zip(SIDES, self.times, strict=True)), dict(zip(SIDES, self.evicts, strict=True)),
            dict(zip(SIDES, self.filters, strict=True)), self.residual, frozenset(self.null_safe),
        )  # fmt: skip

    def run_model(self, model: SparkJoin, step: Step) -> tuple[list[tuple], dict[str, int]]:
        # Through Arrow and back, so that values of every type look as those do that come out.
        inputs = {side: with_one_nan(dicts_of(b)) for side, b in zip(SIDES, self.batches(step), strict=True)}
        pairs, metrics = model.run(inputs, step.late, step.watermark)
        return [self._joined(*pair) for pair in pairs], metrics

    def _joined(self, left: dict | None, right: dict | None) -> tuple:
        sides = zip((left, right), self.schemas, strict=True)
        columns = [(row or dict.fromkeys(schema.names)).values() for row, schema in sides]
        return (*columns[0],) if self.how == "left_semi" else (*columns[0], *columns[1])

    def stored(self, model: SparkJoin, version: int) -> tuple[list[str], list[tuple]]:
        rows = [
            (side, one.matched if version > 1 else None, *(shown(one.row) if side == here else None for here in SIDES))
            for side in SIDES
            for one in model.state[side]
        ]
        return ["side", "matched", *SIDES], rows


# --- two streams ------------------------------------------------------------------------------------

KEYS = ("a", "b", "c", None, "żółw")


def left_row(i: int) -> dict:
    return {"k": KEYS[i % 5], "n": i % 3, "t": None if i % 9 == 7 else i * SECOND, "v": i % 4}


def right_row(i: int) -> dict:
    at = None if i % 8 == 3 else i * SECOND + SECOND // 2
    return {"rk": KEYS[i * 3 % 5], "rn": i % 2, "rt": at, "rv": None if i % 6 == 5 else [i, i + 1]}


LEFTS, RIGHTS = [left_row(i) for i in range(40)], [right_row(i) for i in range(40)]
UNTIMED = [Step(LEFTS[:18], RIGHTS[:16])], [Step(LEFTS[15:25], RIGHTS[10:24]), Step()]
TIMED = (
    [Step(LEFTS[:20], RIGHTS[:14], 0, 0), Step((), (), 6000, 0), Step(LEFTS[18:22], RIGHTS[12:18], 6000, 6000)],
    [Step(LEFTS[4:30], RIGHTS[2:26], 6000, 6000), Step((), (), 14_000, 6000), Step((), (), 60_000, 14_000)],
)
HOWS = ("inner", "left_outer", "right_outer", "full_outer", "left_semi")


def versions_of(how: str) -> tuple[int, ...]:
    """Version 1 has no matched flags, and is written for inner joins only."""
    return (1, 2) if how == "inner" else (2,)


def near(left: dict, right: dict) -> bool | None:
    """From 3 s before to 5 s after, open at the lower end; and not for every value."""
    if left["t"] is None or right["rt"] is None:
        return None
    return -3 * SECOND < right["rt"] - left["t"] <= 5 * SECOND and left["v"] != right["rn"]


NEAR = TimeBounds(Bound(-3 * SECOND, closed=False), Bound(5 * SECOND))
# Spark's rule: in milliseconds, a closed end one lower.
EVICTS = ("t", lambda w: w * 1000 - 5 * SECOND - 1000), ("rt", lambda w: w * 1000 - 3 * SECOND)

BY_KEY = [JoinCase(f"{how}-by-key", *UNTIMED, how=how, versions=versions_of(how)) for how in HOWS]
BY_RANGE = [
    JoinCase(
        f"{how}-by-range", *TIMED, how=how, times=("t", "rt"), bounds=(NEAR,), evicts=EVICTS, residual=near,
        filters=(lambda row: row["v"] > 0, lambda row: row["rv"] is not None), versions=versions_of(how),
    )
    for how in HOWS
]  # fmt: skip
# The right side half a second later, so that times meet.
MEETING = [
    [replace(step, right=[r | {"rt": r["rt"] and r["rt"] - SECOND // 2} for r in step.right]) for step in steps]
    for steps in TIMED
]
BY_TIME = [
    JoinCase(
        f"{how}-by-time", *MEETING, how=how, keys=(("k", "rk"), ("t", "rt")), times=("t", "rt"), null_safe=(0,),
        evicts=(("t", lambda w: w * 1000), ("rt", lambda w: w * 1000)), versions=versions_of(how),
    )
    for how in HOWS
]  # fmt: skip

# --- columns of every type --------------------------------------------------------------------------

# Beside the key and value types what only travels along.
TRAVELLING: dict[str, tuple[pa.DataType, list]] = {
    "null": (pa.null(), [None]),
    "uint8": (pa.uint8(), [0, 255, None]),
    "uint16": (pa.uint16(), [0, 2**16 - 1, None]),
    "uint32": (pa.uint32(), [0, 2**32 - 1, None]),
    "uint64": (pa.uint64(), [0, 2**64 - 1, None]),
    "half": (pa.float16(), [np.float16(0.5), None, np.float16(-2)]),
    "decimal32": (pa.decimal32(5, 2), [Decimal("-1.25"), None, Decimal("999.99")]),
    "decimal64": (pa.decimal64(18, 0), [Decimal(10**17), None]),
    "decimal256": (pa.decimal256(76, 10), [Decimal("1.0000000001"), None]),
    "date64": (pa.date64(), [0, 86_400_000, None]),
    "time32": (pa.time32("ms"), [time(1, 2, 3, 4000), None]),
    "seconds": (pa.time32("s"), [time(1, 2, 3), None]),
    "time64": (pa.time64("us"), [time(1, 2, 3, 4), None]),
    "nanoseconds": (pa.time64("ns"), [time(1, 2, 3, 4), None]),
    "timestamp_s": (pa.timestamp("s"), [0, 1_767_225_600, None]),
    "timestamp_ms": (pa.timestamp("ms", "Europe/Warsaw"), [0, 1_767_225_600_001, None]),
    "timestamp_ns": (pa.timestamp("ns", "+01:00"), [0, 1_767_225_600_000_000_000, None]),
    "duration": (pa.duration("us"), [0, -5, None]),
    "duration_ns": (pa.duration("ns"), [7, 10**15, None]),
    "interval": (pa.month_day_nano_interval(), [(1, 2, 3), None]),
    "fixed_binary": (pa.binary(3), [b"abc", None, b"\0\xff\0"]),
    "list": (pa.list_(pa.string()), [["a", None], [], None]),
    "large_list": (pa.large_list(pa.int16()), [[1], None, []]),
    "fixed_list": (pa.list_(pa.float32(), 2), [[0.5, 1.5], None]),
    "spark_list": (pa.list_(pa.field("element", pa.date32(), nullable=False)), [[1, 2], None]),
    # Names that read like types.
    "struct": (
        pa.struct([pa.field("a, b: int32>", pa.int8(), nullable=False), ("", pa.string()), ('"', pa.int8())]),
        [{"a, b: int32>": 1, "": "x", '"': None}, None],
    ),
    "empty_struct": (pa.struct([]), [{}, None]),
    "map": (pa.map_(pa.string(), pa.list_(pa.int64())), [[("a", [1]), ("b", None)], [], None]),
    "sorted_map": (pa.map_(pa.int8(), pa.bool_(), keys_sorted=True), [[(1, True)], None]),
    "nested": (
        pa.list_(pa.struct([("when", pa.timestamp("us", "UTC")), ("price", pa.decimal128(7, 3))])),
        [[{"when": 5, "price": Decimal("1.250")}, None], None],
    ),
    "dictionaries": (pa.list_(pa.dictionary(pa.int8(), pa.string())), [["a", "b", "a"], None]),
}  # fmt: skip
EVERY_TYPE = {name: t for name, (t, _) in (TYPES | TRAVELLING).items()}
WIDE = [
    pa.schema([("n", pa.int64()), *EVERY_TYPE.items()]),
    pa.schema([("rn", pa.int64()), *((f"r_{name}", t) for name, t in EVERY_TYPE.items())]),
]
OTHER = FIRST + SECOND_ROWS


def wide_row(i: int, prefix: str = "") -> dict:
    travelling = {name: values[i % len(values)] for name, (_, values) in TRAVELLING.items()}
    known = {name: OTHER[i][name] for name in TYPES} | travelling
    return {"rn" if prefix else "n": i % 7, **{prefix + name: value for name, value in known.items()}}


WIDE_STEPS = (
    [Step([wide_row(i) for i in range(8)], [wide_row(i, "r_") for i in range(3, 12)])],
    [Step([wide_row(i) for i in range(5, 16)], [wide_row(i, "r_") for i in range(14, 20)])],
)
EVERY = [
    JoinCase(
        f"{how}-of-every-type",
        *WIDE_STEPS,
        how=how,
        keys=(("n", "rn"),),
        schemas=tuple(WIDE),
        versions=versions_of(how),
    )
    for how in ("inner", "full_outer")
]
TYPED_KEYS = JoinCase(
    "keys-of-every-type", *WIDE_STEPS, keys=[(name, f"r_{name}") for name in TYPES], schemas=tuple(WIDE),
    null_safe=tuple(range(len(TYPES))),
)  # fmt: skip

# --- many rows, whose numbers are narrowed at rest --------------------------------------------------


def many(i: int, prefix: str = "") -> dict:
    key = "rk" if prefix else "k"
    return {key: f"key {i % 400}", f"{prefix}n": 10**12 + i, f"{prefix}t": i * SECOND, f"{prefix}v": i % 5}


MANY = JoinCase(
    "many-rows",
    [Step([many(i) for i in range(700)], [many(i, "r") | {"rv": [i % 100]} for i in range(600)], 0, 0)],
    [Step([many(i) for i in range(500, 800)], [many(i, "r") | {"rv": None} for i in range(600, 650)], 300_000, 0)],
    how="full_outer", times=("t", "rt"), bounds=(NEAR,), evicts=EVICTS, residual=near, versions=(2,),
)  # fmt: skip

JOINS = [*BY_KEY, *BY_RANGE, *BY_TIME, *EVERY, TYPED_KEYS, MANY]
