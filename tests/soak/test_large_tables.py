"""What only shows at size: run with `make soak`."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
from millrace.kernels import Aggregation, GroupState, window
from millrace.kernels import functions as F

SCHEMA = pa.schema({"k": pa.int64(), "ts": pa.timestamp("us"), "v": pa.int64()})
BATCH = 2_000_000


def batch(first: int, time_us: int) -> pa.RecordBatch:
    keys = np.arange(first, first + BATCH)
    times = pa.array(np.full(BATCH, time_us)).cast(pa.timestamp("us"))
    return pa.record_batch([pa.array(keys), times, pa.array(keys % 1000)], schema=SCHEMA)


def test_fifty_million_keys():
    """All keys are found again, and filling stays linear."""
    state = GroupState(Aggregation(SCHEMA, ["k"], {"n": F.count(), "total": F.sum("v")}), "update")
    seconds = []
    for i in range(25):
        started = time.perf_counter()
        assert state.process(batch(i * BATCH, 0)).metrics.numUpdatedStateRows == BATCH
        seconds.append(time.perf_counter() - started)
    assert len(state) == 25 * BATCH
    again = state.process(batch(0, 0)).rows
    assert again["n"].to_pylist() == [2] * BATCH
    # Growing is paid for now and then, so compare medians.
    assert np.median(seconds[-8:]) < 4 * np.median(seconds[:8])


def test_evicting_and_inserting_a_hundred_million_groups_stays_flat():
    """Each batch makes two million groups and evicts as many; neither time nor memory creeps up."""
    query = Aggregation(SCHEMA, ["k"], {"n": F.count()}, window=window("ts", "1 second"), event_time="ts")
    state, seconds, sizes = GroupState(query, "append"), [], []
    for i in range(50):
        data = batch(i * BATCH, i * 1_000_000)
        started = time.perf_counter()
        result = state.process(data, watermark_ms=i * 1000, late_watermark_ms=0)
        seconds.append(time.perf_counter() - started)
        sizes.append(state.nbytes)
        assert result.metrics.numRemovedStateRows == (BATCH if i else 0)
    assert sizes[-1] <= 2 * sizes[5]
    assert np.median(seconds[-10:]) < 1.5 * np.median(seconds[5:15])
