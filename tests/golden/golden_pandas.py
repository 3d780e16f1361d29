"""Golden states of unchanged pandas functions. Needs PySpark, but no session.

Each function stands here twice: as Spark would be given it, and as the model of Spark's operator takes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pandas as pd
import pyarrow as pa
from golden_cases import BUCKETS, Step
from golden_functions import CLOCK, EVENTS, FunctionCase, by_clock, by_event_time
from golden_rows import FIRST, SCHEMA, SECOND_ROWS, batch_of, rows_of
from millrace.kernels.state_format import SavedState
from millrace.spark_glue.operator import Clock
from millrace.spark_glue.pandas_state import PandasQuery, PandasState
from millrace.spark_glue.stored_state import seen_rows
from pyspark.sql import types as T
from spark_stateful_model import SparkStateful

EPOCH = datetime(1970, 1, 1)


def struct(**fields: T.DataType) -> T.StructType:
    return T.StructType([T.StructField(name, t) for name, t in fields.items()])


INPUT = struct(
    k=T.StringType(), i=T.IntegerType(), ts=T.TimestampNTZType(), boolean=T.BooleanType(), byte=T.ByteType(),
    short=T.ShortType(), int=T.IntegerType(), long=T.LongType(), float=T.FloatType(), double=T.DoubleType(),
    decimal=T.DecimalType(9, 2), wide=T.DecimalType(38, 18), date=T.DateType(), timestamp=T.TimestampType(),
    timestamp_ntz=T.TimestampNTZType(), string=T.StringType(), binary=T.BinaryType(),
)  # fmt: skip
ROWS = pa.schema([SCHEMA.field(f.name) for f in INPUT])


class Carried:
    """A state that is saved and loaded again after every batch, as on Spark."""

    def __init__(self, state: PandasState) -> None:
        self.state = state

    def to_bytes(self, version: int, buckets: int, name: str) -> bytes:
        return self.state.to_bytes(version, buckets, name)


@dataclass(frozen=True)
class PandasCase(FunctionCase):
    """A case whose `function` is the model's; `unchanged` is the same one for Spark."""

    operator = "stateful-pandas"

    unchanged: Callable[..., Iterator[pd.DataFrame]] = print
    # The state as Spark has it, and its columns at rest: dates and times as Spark's numbers.
    spark_state: T.StructType | None = None
    at_rest: pa.Schema | None = None

    def query(self) -> PandasQuery:
        output = struct(k=T.StringType(), n=T.LongType(), told=T.StringType())
        return PandasQuery(
            self.unchanged, tuple(self.keys), INPUT, ROWS, self.spark_state, self.at_rest, output,
            pa.schema({"k": pa.string(), "n": pa.int64(), "told": pa.string()}), self.timeout, "ts", None, "UTC",
        )  # fmt: skip

    def fresh(self) -> Carried:
        return Carried(PandasState(self.query()))

    def load(self, data: bytes) -> Carried:
        return Carried(PandasState.from_bytes(self.query(), data, BUCKETS))

    def run(self, state: Carried, step: Step) -> tuple[list[tuple], dict[str, int]]:
        clock = Clock(step.watermark, step.late, step.now)
        rows = [row for batch in state.state.run([batch_of(step.rows, ROWS)], clock) for row in rows_of(batch)]
        metrics = state.state.metrics.as_dict()
        state.state = self.load(state.to_bytes(2, BUCKETS, self.name)).state
        return rows, metrics

    def read(self, saved: SavedState) -> Iterator[pa.RecordBatch]:
        return seen_rows(saved)

    def run_model(self, model: SparkStateful, step: Step) -> tuple[list[tuple], dict[str, int]]:
        rows, metrics = super().run_model(model, step)
        return [(*row, *[None] * (3 - len(row))) for row in rows], metrics


# --- fields of every type ---------------------------------------------------------------------------

POINT = struct(x=T.IntegerType(), y=T.StringType())
STATE = struct(
    n=T.LongType(), ok=T.BooleanType(), b=T.ByteType(), s=T.ShortType(), m=T.IntegerType(), f=T.FloatType(),
    x=T.DoubleType(), price=T.DecimalType(9, 2), name=T.StringType(), data=T.BinaryType(), day=T.DateType(),
    at=T.TimestampType(), wall=T.TimestampNTZType(), tags=T.ArrayType(T.StringType()), counts=T.ArrayType(T.LongType()),
    points=T.ArrayType(POINT), last=POINT,
)  # fmt: skip
POINT_AT_REST = pa.struct({"x": pa.int32(), "y": pa.string()})
STATE_AT_REST = pa.schema(
    {
        "n": pa.int64(), "ok": pa.bool_(), "b": pa.int8(), "s": pa.int16(), "m": pa.int32(), "f": pa.float32(),
        "x": pa.float64(), "price": pa.decimal128(9, 2), "name": pa.string(), "data": pa.binary(), "day": pa.int32(),
        "at": pa.int64(), "wall": pa.int64(), "tags": pa.list_(pa.field("element", pa.string())),
        "counts": pa.list_(pa.field("element", pa.int64())), "points": pa.list_(pa.field("element", POINT_AT_REST)),
        "last": POINT_AT_REST,
    }
)  # fmt: skip


def noted(i: int, n: int) -> dict[str, Any]:
    """What the state holds after a key's row number i, its nth: with nulls here and there; times as numbers."""
    point = {"x": i, "y": f"p{i}"}
    values = {
        "n": n, "ok": i % 2 == 0, "b": i - 20, "s": -i, "m": 70_000 + i, "f": i / 4, "x": -i / 8,
        "price": Decimal(i).scaleb(-2), "name": f"row {i} żółw", "data": bytes([0, i, 255]), "day": 20_000 + i,
        "at": 1_767_225_600_000_000 + i, "wall": 1_767_225_600_000_000 - i, "tags": ["a", None, f"t{i}"][: i % 4],
        "counts": list(range(i % 3)), "points": [point, None][: i % 3], "last": point,
    }  # fmt: skip
    fields = list(values)
    missing = fields[1 + i % (len(fields) - 1)]
    return values | {missing: None}


def as_spark_has_it(values: dict[str, Any]) -> tuple:
    """The same with dates, times and tuples, as a function would write it."""
    made = dict(values)
    if made["day"] is not None:
        made["day"] = date(1970, 1, 1) + timedelta(made["day"])
    if made["at"] is not None:
        made["at"] = (EPOCH + timedelta(microseconds=made["at"])).replace(tzinfo=UTC)
    if made["wall"] is not None:
        made["wall"] = EPOCH + timedelta(microseconds=made["wall"])
    if made["points"] is not None:
        made["points"] = [None if point is None else tuple(point.values()) for point in made["points"]]
    made["last"] = None if made["last"] is None else tuple(made["last"].values())
    return tuple(made.values())


def told(values: Sequence | None) -> str:
    """A state in words that do not depend on the zone this runs in."""
    if values is None:
        return "nothing"
    plain = [value.astimezone(UTC) if i == 11 and value is not None else value for i, value in enumerate(values)]
    plain = [bytes(value) if isinstance(value, bytearray) else value for value in plain]
    points = plain[15] and [None if point is None else tuple(point) for point in plain[15]]
    return str([*plain[:15], points, plain[16] and tuple(plain[16])])


def remember_unchanged(key, frames, state):
    known = state.getOption
    n = 0 if known is None else known[0]
    for frame in frames:
        for i in frame["i"]:
            n += 1
            state.update(as_spark_has_it(noted(int(i), n)))
    yield pd.DataFrame({"k": [key[0]], "n": [n], "told": [told(known)]})


def remember(key, rows, state, out):
    fields = STATE.names if state.exists else []
    known = {name: None if state.is_null(name) else getattr(state, name) for name in fields}
    n = known.get("n", 0)
    for i in rows.i:
        n += 1
        for name, value in noted(i, n).items():
            setattr(state, name, value)
    out.emit(key.k, n, told(as_spark_has_it(known) if known else None))


EVERY_FIELD = PandasCase(
    "fields-of-every-type", [Step(FIRST), Step(FIRST[:3])], [Step(SECOND_ROWS), Step(FIRST)], versions=(2,),
    function=remember, unchanged=remember_unchanged, state=dict.fromkeys(STATE.names, ("", None)), spark_state=STATE,
    at_rest=STATE_AT_REST,
)  # fmt: skip

# --- keys and timeouts ------------------------------------------------------------------------------

COUNT = {"state": {"n": ("long", 0)}, "spark_state": struct(n=T.LongType()), "at_rest": pa.schema({"n": pa.int64()})}


def count_unchanged(key, frames, state):
    n = (state.getOption or (0,))[0] + sum(map(len, frames))
    state.update((n,))
    yield pd.DataFrame({"k": [None], "n": [n], "told": [None]})


def count(key, rows, state, out):
    state.n += len(rows)
    out.emit(None, state.n, None)


def by_event_time_unchanged(key, frames, state):
    n = (state.getOption or (0,))[0]
    if state.hasTimedOut:
        state.remove()
        n = -n
    else:
        n += sum(map(len, frames))
        state.update((n,))
        if n % 3 != 0:
            state.setTimeoutTimestamp(state.getCurrentWatermarkMs() + 1 + 1000 * (n % 7))
    yield pd.DataFrame({"k": [key[0]], "n": [n], "told": [None]})


def by_clock_unchanged(key, frames, state):
    n = (state.getOption or (0,))[0]
    if state.hasTimedOut and n > 100:
        state.remove()
        n = -n
    elif state.hasTimedOut:
        n += 100
        state.update((n,))
        state.setTimeoutDuration(1000)
    else:
        n += sum(map(len, frames))
        state.update((n,))
        state.setTimeoutDuration(500 + 1000 * (n % 7))
    yield pd.DataFrame({"k": [key[0]], "n": [n], "told": [None]})


def wait_unchanged(key, frames, state):
    existed = state.exists
    if state.hasTimedOut:
        state.remove()
        yield pd.DataFrame({"k": [key[0]], "n": [int(existed)], "told": [None]})
        return
    rows = sum(map(len, frames))
    state.update((rows,))
    if rows > 1:
        state.remove()
    state.setTimeoutTimestamp(state.getCurrentWatermarkMs() + 5000)
    yield pd.DataFrame({"k": [key[0]], "n": [rows], "told": [None]})


def wait(key, rows, state, out):
    if state.has_timed_out:
        out.emit(key.k, int(state.exists))
        state.remove()
        return
    state.n = len(rows)
    if len(rows) > 1:
        state.remove()
    state.set_timeout_timestamp(state.current_watermark_ms + 5000)
    out.emit(key.k, len(rows))


KEYS = tuple(f.name for f in INPUT if f.name not in ("k", "i", "ts"))
PANDAS_FUNCTIONS = [
    EVERY_FIELD,
    PandasCase(
        "keys-of-every-type", [Step(FIRST)], [Step(FIRST[2:] + SECOND_ROWS)], keys=KEYS, function=count,
        unchanged=count_unchanged, versions=(2,), **COUNT,
    ),
    PandasCase(
        "event-time", *EVENTS, timeout="EventTimeTimeout", function=by_event_time, unchanged=by_event_time_unchanged,
        versions=(2,), **COUNT,
    ),
    PandasCase(
        "clock", *CLOCK, timeout="ProcessingTimeTimeout", function=by_clock, unchanged=by_clock_unchanged,
        versions=(2,), **COUNT,
    ),
    PandasCase(
        "waiting", *EVENTS, timeout="EventTimeTimeout", function=wait, unchanged=wait_unchanged, versions=(2,), **COUNT,
    ),
]  # fmt: skip
