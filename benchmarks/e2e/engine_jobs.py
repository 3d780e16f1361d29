"""The jobs of the comparison with other engines, as Spark and Millrace do them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from millrace import spark_glue as mr
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from .inputs import SECOND, START, Generator, clicks, events, impressions, moments, write_batch, write_inputs
from .joins import our_join, own_join
from .stateful import compiled, own_rows
from .workload import Pace, Side

# In files: the last windows end in the one after them.
BATCHES = 14
AGGS = {"n": mr.count(), "s": mr.sum("v")}
WINDOW = {"window": mr.window("ts", "10 minutes"), "watermark": ("ts", "1 minute")}
Frames = dict[str, DataFrame]


@dataclass(frozen=True)
class Job:
    """One job; `columns` are the whole numbers that its results are compared by."""

    name: str
    title: str
    mode: str
    store: str
    rows: int
    keys: int
    inputs: dict[str, Generator]
    sides: tuple[Side, ...]
    columns: tuple[str, ...]
    # Where a key's rows replace one another, only the last of each is compared.
    key: str | None = None

    def write(self, folder: Path, rows: int, keys: int) -> dict[str, Path]:
        """The files; for windows one more, whose only row is so late that all others end."""
        folders = write_inputs(self.inputs, folder, BATCHES, rows, keys)
        if self.name == "windows":
            last = {"k": [0], "ts": moments(np.array([LAST])), "v": [0]}
            write_batch(pa.table(last), folders["events"], BATCHES)
        return folders


LAST = START + 1440 * 60 * SECOND


def own_windows(frames: Frames) -> DataFrame:
    found = frames["events"].withWatermark("ts", "1 minute").groupBy(F.window("ts", "10 minutes").alias("window"), "k")
    return found.agg(F.count(F.lit(1)).alias("n"), F.sum("v").alias("s"))


def our_windows(frames: Frames) -> DataFrame:
    return mr.aggregate(frames["events"], ["k"], AGGS, output_mode="append", **WINDOW)


def own_running(frames: Frames) -> DataFrame:
    return frames["events"].groupBy("k").agg(F.count(F.lit(1)).alias("n"), F.sum("v").alias("s"))


def our_running(frames: Frames) -> DataFrame:
    return mr.aggregate(frames["events"], ["k"], AGGS, output_mode="update")


def job(name: str, title: str, mode: str, sides: tuple[Side, ...], columns: tuple[str, ...], **rest) -> Job:
    defaults = {"store": "hdfs", "rows": 500_000, "keys": 100_000, "inputs": {"events": events}}
    return Job(name, title, mode, sides=sides, columns=columns, **{**defaults, **rest})


JOBS = (
    job(
        "windows", "10-minute windows by key: count and sum, once each is over", "append",
        (Side("Spark", own_windows), Side("Millrace", our_windows)), ("start", "k", "n", "s"),
    ),
    job(
        "running", "running count and sum by key", "update",
        (Side("Spark", own_running), Side("Millrace", our_running)), ("k", "n", "s"), key="k",
    ),
    job(
        "counter", "counter by key, as a stateful function", "update",
        (Side("Spark, transformWithState", own_rows, pace=Pace(2, 3)), Side("Millrace", compiled)), ("k", "n"),
        key="k", store="rocksdb",
    ),
    job(
        "join", "inner join within twenty seconds", "append",
        (Side("Spark", partial(own_join, how="inner")), Side("Millrace", partial(our_join, how="inner"))),
        ("ad", "shown", "clicked", "user"), rows=250_000, keys=50_000,
        inputs={"impressions": impressions, "clicks": clicks},
    ),
)  # fmt: skip
