"""What a user waits for before the first result: in a new process, with and without compiled kernels."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from time import perf_counter

FIRST_RESULT = """
import pyarrow as pa
from millrace.kernels import Aggregation, GroupState, functions as F, window
batch = pa.record_batch({"k": [1, 2, 1], "v": [1.0, 2.0, 3.0], "ts": pa.array([1, 2, 3], pa.timestamp("us"))})
aggs = {"n": F.count(), "s": F.sum("v"), "m": F.max("v")}
query = Aggregation(batch.schema, ["k"], aggs, window("ts", "1 minute"), "ts")
state = GroupState(query, "append")
state.process(batch, watermark_ms=0, late_watermark_ms=0)
state.process(watermark_ms=60_000, late_watermark_ms=0)
GroupState.from_bytes(query, "append", state.to_bytes())
"""


def seconds_to_first_result(cache: str) -> float:
    started = perf_counter()
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    subprocess.run([sys.executable, "-c", FIRST_RESULT], check=True, env=environment)
    return perf_counter() - started


class FirstResult:
    """Seconds from the start of Python to a window that has come out and a state that was saved and loaded."""

    timeout = 300

    def track_cold(self) -> float:
        with tempfile.TemporaryDirectory() as cache:
            return seconds_to_first_result(cache)

    def track_warm(self) -> float:
        with tempfile.TemporaryDirectory() as cache:
            seconds_to_first_result(cache)
            return seconds_to_first_result(cache)

    def track_import(self) -> float:
        started = perf_counter()
        subprocess.run([sys.executable, "-c", "import millrace.kernels"], check=True)
        return perf_counter() - started

    track_cold.unit = track_warm.unit = track_import.unit = "seconds"  # type: ignore[attr-defined]
