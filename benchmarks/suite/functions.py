"""Every aggregate function, and the types that take a path of their own."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from millrace.kernels import Aggregation, GroupState, aggregate, window
from millrace.kernels import functions as F

from .inputs import SECOND, scaled

ROWS = 1_000_000
FUNCTIONS = {
    "count": F.count("v"),
    "count_if": F.count_if("flag"),
    "sum": F.sum("v"),
    "sum of decimals": F.sum("price"),
    "avg": F.avg("x"),
    "min": F.min("v"),
    "max of text": F.max("name"),
    "first": F.first("v", ignore_nulls=True),
    "last": F.last("name"),
    "bool_and": F.bool_and("flag"),
    "stddev_samp": F.stddev_samp("x"),
    "max_by": F.max_by("name", "v"),
}


def values(groups: int) -> pa.RecordBatch:
    """Columns of every type that has a loop of its own, one value in ten of `v` missing."""
    rng, rows = np.random.default_rng(0), scaled(ROWS)
    v = rng.integers(0, 1000, rows)
    columns = {
        "k": pa.array(rng.integers(0, scaled(groups), rows)),
        "v": pa.array(v, mask=v % 10 == 0),
        "x": pa.array(rng.random(rows)),
        "flag": pa.array(v % 2 == 0),
        "price": pa.array(v.astype(np.int32)).cast(pa.decimal128(18, 2)),
        "name": pc.binary_join_element_wise("name", pa.array(v).cast(pa.string()), "-"),
    }
    return pa.record_batch(columns)


class Function:
    """A million rows through one function."""

    params = (list(FUNCTIONS), [1_000, 100_000])
    param_names = ("function", "groups")

    def setup(self, function: str, groups: int) -> None:
        self.batch = values(groups)
        self.query = Aggregation(self.batch.schema, ["k"], {"r": FUNCTIONS[function]})
        aggregate(self.query, self.batch)
        self.state = GroupState(self.query, "update")
        self.state.process(self.batch)

    def time_bounded(self, function: str, groups: int) -> None:
        aggregate(self.query, self.batch)

    def track_state_bytes_per_group(self, function: str, groups: int) -> float:
        return self.state.nbytes / len(self.state)

    track_state_bytes_per_group.unit = "bytes"  # type: ignore[attr-defined]


class Windows:
    """A million rows of ten minutes into windows of one minute that overlap so many times."""

    params = ([1, 2, 6], [1_000, 100_000])
    param_names = ("windows a row", "keys")

    def setup(self, overlap: int, keys: int) -> None:
        rng, rows = np.random.default_rng(0), scaled(ROWS)
        times = pa.array(rng.integers(0, 600 * SECOND, rows)).cast(pa.timestamp("us"))
        self.batch = pa.record_batch({"k": pa.array(rng.integers(0, scaled(keys), rows)), "ts": times})
        spec = window("ts", "1 minute", slide=f"{60 // overlap} seconds")
        self.query = Aggregation(self.batch.schema, ["k"], {"n": F.count()}, spec)
        aggregate(self.query, self.batch)

    def time_bounded(self, overlap: int, keys: int) -> None:
        aggregate(self.query, self.batch)
