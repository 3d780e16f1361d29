"""Golden states of compiled stateful functions: fields and keys of every type, timeouts, keys that only wait."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
from golden_cases import BUCKETS, Case, Step
from golden_rows import FIRST, SCHEMA, SECOND_ROWS, TYPES, batch_of, rows_of
from millrace.kernels import KeyedState, StatefulQuery
from spark_stateful_model import NO_TIMEOUT, SparkStateful

PYTHON = {"string": str, "large_string": str, "binary": bytes, "large_binary": bytes}
ROW_KINDS = {f.name: PYTHON.get(f.name, int) for f in SCHEMA} | {"k": str}


@dataclass(frozen=True)
class FunctionCase(Case):
    operator = "stateful"

    function: Callable = print
    output: str = "k string, n long"
    # Each field of the state: its type, and what it begins with.
    state: dict[str, tuple[str, Any]] | None = None
    keys: Sequence[str] = ("k",)
    timeout: str = "NoTimeout"
    order_by: str | None = None
    # State to begin with: key and values.
    initial: Sequence[tuple[tuple, dict]] = ()

    def query(self) -> StatefulQuery:
        state = ", ".join(f"{name} {kind}" for name, (kind, _) in self.state.items())
        return StatefulQuery(SCHEMA, self.keys, state, self.output, self.function, self.timeout, "ts", self.order_by)

    def fresh(self) -> KeyedState:
        state = KeyedState(self.query())
        if self.initial:
            rows = [dict(zip(self.keys, key, strict=True)) | values for key, values in self.initial]
            fields = [*(SCHEMA.field(name) for name in self.keys), *state.query.state]
            state.load_initial(batch_of(rows, pa.schema(fields)))
        return state

    def load(self, data: bytes) -> KeyedState:
        return KeyedState.from_bytes(self.query(), data, BUCKETS)

    def run(self, state: KeyedState, step: Step) -> tuple[list[tuple], dict[str, int]]:
        result = state.process(
            batch_of(step.rows, SCHEMA), batch_time_ms=step.now, watermark_ms=step.watermark,
            late_watermark_ms=step.late,
        )  # fmt: skip
        return rows_of(result.rows), result.metrics.as_dict()

    def model(self) -> SparkStateful:
        # A list is an array's elements; anything else is made anew by a function.
        kinds = {
            name: begins if isinstance(begins, list) else lambda begins=begins: begins
            for name, (_, begins) in self.state.items()
        }
        model = SparkStateful(
            list(self.keys), ROW_KINDS, kinds, self.function, self.timeout, "ts", self.order_by
        )  # fmt: skip
        model.load_initial([(key, dict(values)) for key, values in self.initial])
        return model

    def run_model(self, model: SparkStateful, step: Step) -> tuple[list[tuple], dict[str, int]]:
        # Spark makes one key of the zeros of both signs.
        zeros = [{n: 0.0 for n in self.keys if isinstance(row[n], float) and row[n] == 0} for row in step.rows]
        rows = [row | zero for row, zero in zip(step.rows, zeros, strict=True)]
        return model.run(rows, step.now, step.watermark, step.late)

    def stored(self, model: SparkStateful, version: int) -> tuple[list[str], list[tuple]]:
        rows = [
            (*key, values, None if timeout == NO_TIMEOUT else timeout * 1000)
            for key, (values, timeout) in model.store.items()
        ]
        return [*self.keys, "state", "timeout"], rows


# --- a field of every kind --------------------------------------------------------------------------

FIELDS = {
    "n": ("long", 0), "total": ("long", 0), "ok": ("boolean", False), "b": ("byte", 0), "s": ("short", 0),
    "m": ("int", 0), "f": ("float", 0.0), "x": ("double", 0.0), "day": ("date", 0), "at": ("timestamp", 0),
    "wall": ("timestamp_ntz", 0), "price": ("decimal(9, 2)", Decimal("0.00")),
    "wide": ("decimal(38, 18)", Decimal(0).scaleb(-18)), "name": ("string", ""), "data": ("binary", b""),
    "flags": ("array<boolean, 3>", [False] * 3), "bytes": ("array<byte, 3>", [0] * 3),
    "shorts": ("array<short, 5>", [0] * 5), "ints": ("array<int, 3>", [0] * 3), "longs": ("array<long, 2>", [0] * 2),
    "halves": ("array<float, 3>", [0.0] * 3), "doubles": ("array<double, 2>", [0.0] * 2),
    "days": ("array<date, 1>", [0]), "times": ("array<timestamp, 2>", [0] * 2),
    "walls": ("array<timestamp_ntz, 1>", [0]),
}  # fmt: skip
TOLD = (
    "k string, n long, total long, ok boolean, b byte, s short, m int, f float, x double, day date, at timestamp, "
    "wall timestamp_ntz, price decimal(9, 2), wide decimal(38, 18), name string, data binary, flag boolean, byte1 "
    "byte, short1 short, int1 int, long1 long, half float, double1 double, day1 date, time1 timestamp, "
    "wall1 timestamp_ntz"
)


def remember(key, rows, state, out):
    """Tell what is known, then keep the last row, and of every array an element."""
    out.emit(
        key.k, state.n, state.total, state.ok, state.b, state.s, state.m, state.f, state.x, state.day, state.at,
        state.wall, state.price, state.wide, state.name, state.data, state.flags[1], state.bytes[2], state.shorts[4],
        state.ints[0], state.longs[1], state.halves[2], state.doubles[0], state.days[0], state.times[1], state.walls[0],
    )  # fmt: skip
    for i in range(len(rows)):
        state.n += 1
        state.total += rows.i[i]
        state.ok = rows.boolean[i]
        state.b = rows.byte[i]
        state.s = rows.short[i]
        state.m = rows.int[i]
        state.f = rows.float[i]
        state.x = rows.double[i]
        state.day = rows.date[i]
        state.at = rows.timestamp[i]
        state.wall = rows.timestamp_ntz[i]
        state.price = rows.decimal[i]
        state.wide = rows.wide[i]
        state.name = rows.string[i]
        state.data = rows.binary[i]
        if not rows.is_null("boolean", i):
            state.flags[1] = rows.boolean[i]
        if not rows.is_null("byte", i):
            state.bytes[2] = rows.byte[i]
        if not rows.is_null("short", i):
            state.shorts[4] = rows.short[i]
        if not rows.is_null("int", i):
            state.ints[0] = rows.int[i]
        if not rows.is_null("long", i):
            state.longs[1] = rows.long[i]
        if not rows.is_null("float", i):
            state.halves[2] = rows.float[i]
        if not rows.is_null("double", i):
            state.doubles[0] = rows.double[i]
        if not rows.is_null("date", i):
            state.days[0] = rows.date[i]
        if not rows.is_null("timestamp", i):
            state.times[1] = rows.timestamp[i]
        if not rows.is_null("timestamp_ntz", i):
            state.walls[0] = rows.timestamp_ntz[i]


TWO = [Step(FIRST)], [Step(SECOND_ROWS), Step(FIRST)]
EVERY_FIELD = FunctionCase("fields-of-every-type", *TWO, function=remember, output=TOLD, state=FIELDS)
ORDERED = FunctionCase(
    "fields-by-order", *TWO, function=remember, output=TOLD, state=FIELDS, keys=("k", "boolean"), order_by="long"
)


def count_keys(key, rows, state, out):
    """Tell the key and how often it came."""
    state.n += len(rows)
    out.emit(
        key.boolean, key.byte, key.short, key.int, key.long, key.float, key.double, key.decimal, key.wide, key.date,
        key.timestamp, key.tokyo, key.timestamp_ntz, key.string, key.large_string, key.binary, key.large_binary,
        state.n,
    )  # fmt: skip


DDL = {"wide": "decimal(38, 18)", "decimal": "decimal(9, 2)", "tokyo": "timestamp", "large_string": "string",
       "large_binary": "binary"}  # fmt: skip
COUNTED = {"n": ("long", 0)}
EVERY_KEY = FunctionCase(
    "keys-of-every-type", [Step(FIRST), Step(FIRST[:4])], [Step(FIRST[2:] + SECOND_ROWS)], function=count_keys,
    output=", ".join(f"{name} {DDL.get(name, name)}" for name in TYPES) + ", n long", state=COUNTED, keys=tuple(TYPES),
)  # fmt: skip

# --- timeouts ---------------------------------------------------------------------------------------


def by_event_time(key, rows, state, out):
    """Count, and time out some time after the watermark; every third key does not."""
    if state.has_timed_out:
        out.emit(key.k, -state.n)
        state.remove()
    else:
        state.n += len(rows)
        if state.n % 3 != 0:
            state.set_timeout_timestamp(state.current_watermark_ms + 1 + 1000 * (state.n % 7))
        out.emit(key.k, state.n)


def by_clock(key, rows, state, out):
    """The same by the clock; a timed-out key is called once more a second later."""
    if state.has_timed_out and state.n > 100:
        out.emit(key.k, -state.n)
        state.remove()
    elif state.has_timed_out:
        state.n += 100
        state.set_timeout_duration(1000)
        out.emit(key.k, state.n)
    else:
        state.n += len(rows)
        state.set_timeout_duration(500 + 1000 * (state.n % 7))
        out.emit(key.k, state.n)


def wait(key, rows, state, out):
    """Forget the state and wait; then tell whether there is one."""
    if state.has_timed_out:
        out.emit(key.k, 1 if state.exists else 0)
        state.remove()
    else:
        state.n += len(rows)
        if len(rows) > 1:
            state.remove()
        state.set_timeout_timestamp(state.current_watermark_ms + 5000)
        out.emit(key.k, len(rows))


# Late rows are those of the first twelve seconds.
EVENTS = (
    [Step(FIRST, watermark=1000, late=0), Step(watermark=3000, late=1000)],
    [
        Step(FIRST + SECOND_ROWS, watermark=12_000, late=12_000),
        Step(watermark=14_000, late=12_000),
        Step(watermark=60_000, late=14_000),
    ],
)
CLOCK = (
    [Step(FIRST, now=1_767_225_600_000), Step(SECOND_ROWS[:3], now=1_767_225_602_000)],
    [Step(SECOND_ROWS, now=1_767_225_604_000), Step(now=1_767_225_609_000), Step(now=1_767_225_612_000)],
)
TIMEOUTS = [
    FunctionCase("event-time", *EVENTS, function=by_event_time, state=COUNTED, timeout="EventTimeTimeout"),
    FunctionCase("clock", *CLOCK, function=by_clock, state=COUNTED, timeout="ProcessingTimeTimeout"),
    # Version 1 has no room for a key without state.
    FunctionCase("waiting", *EVENTS, function=wait, state=COUNTED, timeout="EventTimeTimeout", versions=(2,)),
]


def greet(key, rows, state, out):
    """Every key of an initial state is called in the first batch, with rows or without."""
    out.emit(key.k, state.n + len(rows))
    state.n += len(rows)
    state.name = key.k


PENDING = FunctionCase(
    "initial", [], [Step(FIRST), Step(FIRST[:2])], function=greet, state={"n": ("long", 0), "name": ("string", "")},
    initial=[
        (("ann",), {"n": 40, "name": "x"}), (("eve",), {"n": None, "name": None}), ((None,), {"n": 7, "name": ""}),
    ],
)  # fmt: skip

# --- many keys, whose numbers are narrowed at rest --------------------------------------------------


def many(i: int) -> dict:
    return FIRST[i % len(FIRST)] | {"long": 10**12 + i % 900, "k": f"key {i % 900}", "i": i}


MANY = FunctionCase(
    "many-keys", [Step([many(i) for i in range(1300)], watermark=1000, late=None)],
    [Step([many(i) for i in range(800, 1000)], watermark=1000, late=None), Step(watermark=4000, late=None)],
    function=by_event_time, keys=("k", "long"), state=COUNTED, timeout="EventTimeTimeout",
)  # fmt: skip

FUNCTIONS = [EVERY_FIELD, ORDERED, EVERY_KEY, *TIMEOUTS, PENDING, MANY]
