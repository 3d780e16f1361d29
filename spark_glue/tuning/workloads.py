"""The built-in queries, and the data that is generated for them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from ...kernels import functions
from ...kernels.windows import window
from ..aggregate import aggregate
from ..join import join
from ..stateful import stateful
from .query_file import Query, described

START = 1_767_225_600_000_000  # 2026-01-01 in microseconds
SECOND = 1_000_000
MINUTE = 60 * SECOND
# Row groups are what Spark's tasks share out: enough of them for the cores of one machine.
ROW_GROUPS = 16
AGGS = {"n": functions.count(), "total": functions.sum("v"), "highest": functions.max("v")}
MATCH = "ad = click_ad AND clicked BETWEEN shown AND shown + interval 20 seconds"


def _times(rng: np.random.Generator, batch: int, rows: int) -> np.ndarray:
    """One minute of times, in microseconds."""
    return START + batch * MINUTE + rng.integers(0, MINUTE, rows)


def _timestamps(microseconds: np.ndarray) -> pa.Array:
    return pa.array(microseconds, pa.int64()).cast(pa.timestamp("us", "UTC"))


def events(batch: int, rows: int, keys: int) -> pa.Table:
    """One minute of events: a key, a time and an amount.

    Examples
    --------
    >>> events(0, 3, 2).column_names
    ['k', 'ts', 'v']
    """
    rng = np.random.default_rng(batch)
    times = _times(rng, batch, rows)
    return pa.table({"k": rng.integers(0, keys, rows), "ts": _timestamps(times), "v": rng.integers(0, 1000, rows)})


def impressions(batch: int, rows: int, keys: int) -> pa.Table:
    """One minute of impressions of so many ads."""
    rng = np.random.default_rng(batch)
    times = _times(rng, batch, rows)
    return pa.table({"ad": rng.integers(0, keys, rows), "shown": _timestamps(times), "cost": rng.random(rows)})


def clicks(batch: int, rows: int, keys: int) -> pa.Table:
    """As many clicks, each up to half a minute after the impression that it belongs to."""
    shown = impressions(batch, rows, keys)
    rng = np.random.default_rng(1_000_000 + batch)
    which = rng.integers(0, rows, rows)
    times = shown["shown"].cast(pa.int64()).to_numpy()[which] + rng.integers(0, 30 * SECOND, rows)
    return pa.table({"click_ad": shown["ad"].to_numpy()[which], "clicked": _timestamps(times), "user": which % 1000})


def build_aggregate(events: DataFrame, *, buckets: int | None = None, map_side: bool = True) -> DataFrame:
    """Count, sum and maximum of each key, for ever."""
    return aggregate(events, ["k"], AGGS, output_mode="update", buckets=buckets, map_side=map_side)


def build_windows(events: DataFrame, *, buckets: int | None = None, map_side: bool = True) -> DataFrame:
    """The same in windows of two minutes, which expire."""
    return aggregate(
        events, ["k"], AGGS, window=window("ts", "2 minutes"), watermark=("ts", "1 minute"), output_mode="append",
        buckets=buckets, map_side=map_side,
    )  # fmt: skip


def build_join(impressions: DataFrame, clicks: DataFrame, *, buckets: int | None = None) -> DataFrame:
    """Clicks within 20 seconds of their impression."""
    watermarks = (("shown", "10 seconds"), ("clicked", "10 seconds"))
    return join(impressions, clicks, MATCH, "inner", watermarks=watermarks, buckets=buckets)


def running_count(key, rows, state, out):
    state.n += len(rows)
    out.emit(key.k, state.n)


def build_stateful(events: DataFrame, *, buckets: int | None = None) -> DataFrame:
    """A compiled function that counts each key's rows."""
    counter = stateful(keys=["k"], state="n long", output="k long, n long", buckets=buckets)(running_count)
    return events.transform(counter)


@dataclass(frozen=True)
class Workload:
    """A built-in query, and what makes a micro-batch of each of its inputs."""

    build: Callable[..., Any]
    inputs: Mapping[str, Callable[[int, int, int], pa.Table]]

    @property
    def query(self) -> Query:
        return described(self.build)


WORKLOADS: dict[str, Workload] = {
    "aggregate": Workload(build_aggregate, {"events": events}),
    "windows": Workload(build_windows, {"events": events}),
    "join": Workload(build_join, {"impressions": impressions, "clicks": clicks}),
    "stateful": Workload(build_stateful, {"events": events}),
}


def generate(workload: Workload, folder: Path, batches: int, rows: int, keys: int) -> dict[str, str]:
    """Write a file per micro-batch and input; the rows of a batch are shared out over the inputs."""
    folders = {}
    each = max(1, rows // len(workload.inputs))
    for name, make in workload.inputs.items():
        (folder / name).mkdir(parents=True)
        for batch in range(batches):
            path = folder / name / f"{batch:05d}.parquet"
            pq.write_table(make(batch, each, keys), path, row_group_size=max(1, -(-each // ROW_GROUPS)))
            # Spark takes files in the order of their times.
            os.utime(path, (batch, batch))
        folders[name] = str(folder / name)
    return folders
