"""Memory that groups and texts leave behind is given back, and nothing is lost by that."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from millrace.kernels import Aggregation, GroupState, window
from millrace.kernels import functions as F

SCHEMA = pa.schema({"user": pa.string(), "ts": pa.timestamp("us"), "n": pa.int64()})
SECOND = 1_000_000


def batch(users: list[str], second: int) -> pa.RecordBatch:
    times = pa.array(np.full(len(users), second * SECOND)).cast(pa.timestamp("us"))
    return pa.record_batch([pa.array(users), times, pa.array(np.arange(len(users)))], schema=SCHEMA)


def test_a_wave_of_groups_that_has_passed():
    aggs = {"n": F.count(), "who": F.max("user")}
    state = GroupState(Aggregation(SCHEMA, ["user"], aggs, window("ts", "1 second"), "ts"), "append")
    lasting = [f"lasting-{i}" for i in range(1000)]
    state.process(batch(lasting, 1000), watermark_ms=0)
    state.process(batch([f"passing-{i}" for i in range(200_000)], 1), watermark_ms=0)
    large = state.nbytes
    assert state.process(watermark_ms=500_000).metrics.numRemovedStateRows == 200_000
    assert state.nbytes < large / 10
    state.process(batch(lasting[:10], 1000), watermark_ms=500_000, late_watermark_ms=500_000)
    rows = state.process(watermark_ms=2_000_000).rows
    assert sorted(zip(rows["user"].to_pylist(), rows["n"].to_pylist(), rows["who"].to_pylist(), strict=True)) == sorted(
        (user, 2 if i < 10 else 1, user) for i, user in enumerate(lasting)
    )
    assert len(state) == 0


def test_texts_that_are_replaced_again_and_again():
    state = GroupState(Aggregation(SCHEMA, ["n"], {"latest": F.last("user")}), "update")
    sizes = []
    for length in [*range(1, 120)] * 3:
        rows = state.process(batch([chr(97 + length % 26) * length] * 1000, 0)).rows
        sizes.append(state.nbytes)
    assert rows["latest"].to_pylist() == ["p" * 119] * 1000
    assert max(sizes) < 8 * 2**20
