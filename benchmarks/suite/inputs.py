"""The keys, batches and queries that benchmarks share."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable
from functools import lru_cache
from time import perf_counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from millrace.kernels import Aggregation, window
from millrace.kernels import functions as F

SCALE = float(os.environ.get("MILLRACE_BENCH_SCALE", "1"))
KINDS = ("long", "two longs", "long and window", "string")
CARDINALITIES = (1_000, 100_000, 1_000_000, 10_000_000)
SKEWS = ("even", "skewed")
SECOND = 1_000_000


def scaled(count: int) -> int:
    """A size, smaller in a trial run."""
    return max(int(count * SCALE), 64)


def ids_of(keys: int, skew: str, rows: int, seed: int = 0) -> np.ndarray:
    """Keys of rows: all as frequent, or a few that most rows have (Zipf's law)."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, keys, rows) if skew == "even" else rng.zipf(1.2, rows) % keys


def key_columns(kind: str, ids: np.ndarray) -> dict[str, pa.Array]:
    """Key columns of a kind in which equal ids are equal keys."""
    if kind == "two longs":
        return {"k": pa.array(ids // 1000), "k2": pa.array(ids % 1000)}
    if kind == "long and window":
        times = pa.array((ids % 10) * 60 * SECOND).cast(pa.timestamp("us"))
        return {"k": pa.array(ids // 10), "ts": times}
    if kind == "string":
        return {"k": pc.binary_join_element_wise("user", pa.array(ids).cast(pa.string()), "-")}
    return {"k": pa.array(ids)}


@lru_cache(maxsize=1)  # asv sets up again before every sample
def batch_of(kind: str, rows: int, groups: int, seed: int = 0) -> pa.RecordBatch:
    """Random rows over `groups` keys, with a value column."""
    rng = np.random.default_rng(seed)
    columns = key_columns(kind, rng.integers(0, groups, rows))
    return pa.record_batch({**columns, "v": pa.array(rng.integers(0, 1000, rows))})


def every_key(kind: str, groups: int) -> pa.RecordBatch:
    """One row for each of `groups` keys, in no order, with a value column."""
    rng = np.random.default_rng(0)
    columns = key_columns(kind, rng.permutation(groups))
    return pa.record_batch({**columns, "v": pa.array(rng.integers(0, 1000, groups))})


def query_for(batch: pa.RecordBatch) -> Aggregation:
    """count(*), sum(v) and max(v) by all other columns, a time column as one-minute windows."""
    spec = window("ts", "1 minute") if "ts" in batch.schema.names else None
    keys = [name for name in batch.schema.names if name not in ("v", "ts")]
    return Aggregation(batch.schema, keys, {"n": F.count(), "s": F.sum("v"), "m": F.max("v")}, spec)


def slowdown(cycle: Callable[[], object], cycles: int) -> float:
    """Time of the last tenth of many cycles over that of the first, warmed up: 1 is flat."""
    tenth, taken = cycles // 10, []
    for _ in range(tenth + cycles):
        started = perf_counter()
        cycle()
        taken.append(perf_counter() - started)
    return statistics.median(taken[-tenth:]) / statistics.median(taken[tenth : 2 * tenth])
