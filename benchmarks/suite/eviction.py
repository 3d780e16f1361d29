"""Eviction must cost what it evicts, however much it leaves."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pyarrow as pa
from millrace.kernels import Aggregation, GroupState, window
from millrace.kernels import functions as F

from .inputs import SECOND, scaled, slowdown

SCHEMA = pa.schema({"k": pa.int64(), "ts": pa.timestamp("us")})
EXPIRING = 1000


def batch_at(first: int, seconds: np.ndarray) -> pa.RecordBatch:
    keys = np.arange(first, first + len(seconds))
    return pa.record_batch([pa.array(keys), pa.array(seconds * SECOND).cast(pa.timestamp("us"))], schema=SCHEMA)


@lru_cache(maxsize=1)  # asv sets up again before every sample; the state goes on where it was
def full_state(key: str, count: int) -> GroupState:
    """Groups of which a thousand expire every second, in the order of their times."""
    spec, keys = (window("ts", "1 second"), ["k"]) if key == "window" else (None, ["k", "ts"])
    query = Aggregation(SCHEMA, keys, {"n": F.count()}, spec, event_time="ts")
    state = GroupState(query, "append", expected=count)
    state.process(batch_at(0, np.arange(count) // EXPIRING), watermark_ms=0)
    return state


class Evict:
    """Of five million groups a thousand expire in every call; filling is not timed."""

    params = (["window", "event time"], [50_000, 5_000_000])
    param_names = ("key", "groups")
    # Every call evicts another second's groups, and only those.
    number, repeat, rounds, warmup_time = 1, 20, 1, 0

    def setup(self, key: str, groups: int) -> None:
        self.state = full_state(key, scaled(groups))
        self.time_a_thousand_groups(key, groups)

    def time_a_thousand_groups(self, key: str, groups: int) -> None:
        self.state.process(watermark_ms=self.state.watermark_ms + 1000)

    def time_nothing(self, key: str, groups: int) -> None:
        self.state.process(watermark_ms=self.state.watermark_ms)


class Churn:
    """Batches that make twenty thousand groups and evict as many."""

    GROUPS, CYCLES = 20_000, 200

    def setup(self) -> None:
        query = Aggregation(SCHEMA, ["k"], {"n": F.count()}, window("ts", "1 second"), event_time="ts")
        self.state, self.second = GroupState(query, "append"), 0
        self.cycle()
        self.cycle()  # the first that evicts

    def cycle(self) -> None:
        groups = scaled(self.GROUPS)
        self.state.process(batch_at(self.second * groups, np.full(groups, self.second)),
                           watermark_ms=self.second * 1000)  # fmt: skip
        self.second += 1

    def time_cycle(self) -> None:
        self.cycle()

    def track_slowdown(self) -> float:
        """Over four million evictions: 1 is flat."""
        return slowdown(self.cycle, self.CYCLES)

    def track_growth(self) -> float:
        """Memory after four million evictions over memory after a tenth of them: 1 is flat."""
        sizes = []
        for _ in range(self.CYCLES):
            self.cycle()
            sizes.append(self.state.nbytes)
        return sizes[-1] / sizes[self.CYCLES // 10]

    track_slowdown.unit = track_growth.unit = "ratio"  # type: ignore[attr-defined]
