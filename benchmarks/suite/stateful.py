"""Stateful functions: keys called per batch, by what the function does and how many keys there are."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from millrace.kernels import Aggregation, KeyedState, StatefulQuery, aggregate
from millrace.kernels.sketches import approx_count_distinct, approx_quantile, weighted_mean

from .inputs import batch_of, scaled

ROWS = 1_000_000
KINDS = ("long", "string")
KEYS = (1_000, 100_000, 1_000_000)


def running_count(key, rows, state, out):
    """Look at no row, only at how many there are."""
    state.n += len(rows)
    out.emit(key.k, state.n)


def running_mean(key, rows, state, out):
    """Read one column."""
    for v in rows.v:
        state.n += 1
        state.total += v
    out.emit(key.k, state.n, state.total / state.n)


def session(key, rows, state, out):
    """Set a timeout in every call, and keep text."""
    if state.has_timed_out:
        out.emit(key.k, state.n)
        state.remove()
    else:
        state.n += len(rows)
        state.label = "busy" if state.n > 10 else "quiet"
        state.set_timeout_duration(1000)


def key_type(kind: str) -> str:
    return "string" if kind == "string" else "long"


class Process:
    """A million rows into keys that all have state already: what a steady batch does."""

    params = (KINDS, KEYS)
    param_names = ("key", "keys")

    def setup(self, kind: str, keys: int) -> None:
        self.batch = batch_of(kind, scaled(ROWS), scaled(keys))
        schema, k = self.batch.schema, key_type(kind)
        count = StatefulQuery(schema, ["k"], "n long", f"k {k}, n long", running_count)
        mean = StatefulQuery(schema, ["k"], "n long, total double", f"k {k}, n long, m double", running_mean)
        self.count, self.mean = KeyedState(count), KeyedState(mean)
        for state in (self.count, self.mean):
            state.process(self.batch, batch_time_ms=0)
        self.saved = self.mean.to_bytes()

    def time_running_count(self, kind: str, keys: int) -> None:
        self.count.process(self.batch, batch_time_ms=0)

    def time_running_mean(self, kind: str, keys: int) -> None:
        self.mean.process(self.batch, batch_time_ms=0)

    def time_save(self, kind: str, keys: int) -> None:
        self.mean.to_bytes()

    def time_load(self, kind: str, keys: int) -> None:
        KeyedState.from_bytes(self.mean.query, self.saved)

    def track_state_bytes_per_key(self, kind: str, keys: int) -> float:
        return self.mean.nbytes / len(self.mean)

    track_state_bytes_per_key.unit = "bytes"  # type: ignore[attr-defined]


class TimeOut:
    """Sessions that begin and time out; of a million that wait, few time out at once."""

    WAITING, LEAVING = 1_000_000, 1_000
    number, repeat, rounds, warmup_time = 1, 20, 1, 0

    def setup(self) -> None:
        schema = pa.schema({"k": pa.int64()})
        state = "n long, label string"
        query = StatefulQuery(schema, ["k"], state, "k long, n long", session, "ProcessingTimeTimeout")
        self.state, self.now, self.next_key = KeyedState(query), 0, 0
        self.begin(scaled(self.WAITING), 10**9)
        self.begin(scaled(self.LEAVING), self.now)

    def begin(self, count: int, when: int) -> None:
        keys = np.arange(self.next_key, self.next_key + count)
        self.next_key += count
        self.state.process(pa.record_batch({"k": keys}), batch_time_ms=when)

    def time_a_thousand_come_and_go(self) -> None:
        self.now += 2000
        self.begin(scaled(self.LEAVING), self.now)

    def time_nothing(self) -> None:
        self.state.process(batch_time_ms=self.now)


class Sketches:
    """User-defined aggregates over a million rows."""

    params = (["weighted_mean", "approx_count_distinct", "approx_quantile"], [10, 10_000])
    param_names = ("aggregate", "groups")

    def setup(self, name: str, groups: int) -> None:
        self.batch = batch_of("long", scaled(ROWS), scaled(groups))
        aggs = {
            "weighted_mean": weighted_mean("v", "v"),
            "approx_count_distinct": approx_count_distinct("v"),
            "approx_quantile": approx_quantile("v", 0.5),
        }
        self.query = Aggregation(self.batch.schema, ["k"], {"x": aggs[name]})
        aggregate(self.query, self.batch)

    def time_bounded(self, name: str, groups: int) -> None:
        aggregate(self.query, self.batch)
