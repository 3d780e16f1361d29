"""Ten-minute windows per user over a stream of generated events, with a moving watermark.

Every batch is a minute of events, some of them minutes late. The state emits a window once, when the
watermark has passed its end, and forgets it; what comes later than that is dropped and counted.
"""

import time

import numpy as np
import pyarrow as pa
from millrace.kernels import Aggregation, GroupState, Watermark, window
from millrace.kernels import functions as F

ROWS, BATCHES, USERS = 500_000, 30, 20_000
MINUTE = 60_000_000
START = 1_767_225_600_000_000  # 2026-01-01 in microseconds
SCHEMA = pa.schema({"user": pa.int64(), "ts": pa.timestamp("us", "UTC"), "amount": pa.float64()})


def events(batch: int, rng: np.random.Generator) -> pa.RecordBatch:
    """Generate one minute of events; every twentieth comes up to half an hour late."""
    times = START + batch * MINUTE + rng.integers(0, MINUTE, ROWS)
    late = rng.random(ROWS) < 0.05
    times[late] -= rng.integers(0, 30 * MINUTE, int(late.sum()))
    columns = [rng.integers(0, USERS, ROWS), times, rng.gamma(2.0, 10.0, ROWS)]
    return pa.record_batch([pa.array(c).cast(t) for c, t in zip(columns, SCHEMA.types, strict=True)], schema=SCHEMA)


def main() -> None:
    query = Aggregation(
        SCHEMA,
        keys=["user"],
        aggs={"n": F.count(), "total": F.sum("amount"), "highest": F.max("amount")},
        window=window("ts", "10 minutes"),
        event_time="ts",
    )
    state, watermark, rng = GroupState(query, "append"), Watermark("5 minutes"), np.random.default_rng(7)
    print(f"{BATCHES} batches of {ROWS:,} events from {USERS:,} users; windows of 10 minutes, watermark 5 minutes\n")
    print("batch  watermark  windows out  late groups  groups kept  state MiB    ms  rows/s")
    seconds, last = [], None
    for batch in range(BATCHES):
        data = events(batch, rng)
        started = time.perf_counter()
        result = state.process(data, watermark_ms=watermark.current_ms, late_watermark_ms=watermark.previous_ms)
        seconds.append(time.perf_counter() - started)
        watermark.advance(START + (batch + 1) * MINUTE - 1)
        report(batch, result.metrics, watermark.previous_ms, seconds[-1])
        last = result.rows if result.rows.num_rows else last
    steady = sorted(seconds[len(seconds) // 3 :])
    print(f"\nmedian of the last {len(steady)} batches: {ROWS / steady[len(steady) // 2]:,.0f} rows/s on one core")
    print("\nthe first of the windows that came out last:")
    for row in last.slice(0, 3).to_pylist() if last is not None else []:
        start, end = row["window"]["start"], row["window"]["end"]
        print(f"  {start:%H:%M}-{end:%H:%M}  user {row['user']:>6}  n {row['n']:>3}  total {row['total']:>8.2f}")


def report(batch: int, metrics, watermark_ms: int, seconds: float) -> None:
    """Print what one batch did."""
    clock = time.strftime("%H:%M:%S", time.gmtime(watermark_ms / 1000)) if watermark_ms else "none yet"
    print(
        f"{batch:>5}  {clock:>9}  {metrics.numOutputRows:>11,}  {metrics.numRowsDroppedByWatermark:>11,}  "
        f"{metrics.numTotalStateRows:>11,}  {metrics.stateMemory / 2**20:>9.1f}  {seconds * 1000:>4.0f}  "
        f"{ROWS / seconds:>10,.0f}"
    )


if __name__ == "__main__":
    main()
