"""The functions that run on executors: encode, the step of one bucket, decode.

They are small classes rather than closures, so that what travels to the executors is plain data and a
reader sees what it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
from pyspark import TaskContext

from ..kernels.errors import MillraceError
from ..kernels.metrics import Metrics
from ..kernels.narrow import read_stream
from .buckets import bucket_keys
from .exchange import TICK, Parcel, pack, ticks, to_blobs
from .operator import BucketState, Clock, Operator
from .state_backend import backend_named

if TYPE_CHECKING:
    from pyspark.sql.streaming.state import GroupState

# A timeout cannot be taken back in Python, only put off: by a hundred years.
NEVER_MS = 100 * 366 * 24 * 3600 * 1000


@dataclass(frozen=True)
class Encode:
    """Rows of one input → wide rows. The first task adds a tick for every bucket."""

    operator: Operator
    side: int = 0

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with named(self.operator, "map task"):
            yield from pack(self._parcels(batches))

    def _parcels(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Parcel]:
        buckets = bucket_keys(self.operator.buckets)
        task = TaskContext.get()
        if task is None or task.partitionId() == 0:
            yield from ticks(buckets)
        encoder = self.operator.encoder(self.side, buckets)
        for batch in batches:
            yield from encoder.feed(batch)
        yield from encoder.finish()


@dataclass(frozen=True)
class BucketStep:
    """One bucket's micro-batch: its parcels and its state in, result blobs and the next state out."""

    operator: Operator
    backend: str
    has_watermark: bool
    timeout: str
    late_is_current: bool = False

    def __call__(
        self, key: tuple[Any, ...], frames: Iterable[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        with named(self.operator, f"bucket {key[0]}"):
            yield from self._run(key[0], frames, state)

    def _run(self, number: int, frames: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        bucket = self._load(number, state)
        for rows in bucket.run(self._parcels(frames), self._clock(bucket, state)):
            yield from (self._result(blob) for blob in to_blobs(rows) if rows.num_rows)
        self._save(bucket, state)
        self._call_again(bucket, state)
        yield self._result(None, bucket.metrics)

    def _load(self, number: int, state: GroupState) -> BucketState:
        saved = backend_named(self.backend).open(state.get[0]) if state.exists else None
        return self.operator.open(number, saved)

    def _save(self, bucket: BucketState, state: GroupState) -> None:
        state.update((backend_named(self.backend).commit(bucket.to_bytes()),))

    def _parcels(self, frames: Iterable[pd.DataFrame]) -> list[Parcel]:
        return [
            Parcel(bucket, kind, read_stream(blob))
            for frame in frames
            for bucket, kind, blob in zip(frame["bucket"], frame["kind"], frame["blob"], strict=True)
            if kind != TICK
        ]

    def _clock(self, bucket: BucketState, state: GroupState) -> Clock:
        now = state.getCurrentProcessingTimeMs()
        if not self.has_watermark:
            return Clock(processing_time_ms=now)
        current = state.getCurrentWatermarkMs()
        # Before the first batch the watermark is 0, in Spark too.
        late = current if self.late_is_current else bucket.watermark_ms or 0
        return Clock(current, late, now)

    def _call_again(self, bucket: BucketState, state: GroupState) -> None:
        """Have Spark call the bucket when time moves on, even if no rows come."""
        if self.timeout == "EventTimeTimeout":
            # Spark fires when the timeout lies below the watermark, and refuses 0.
            state.setTimeoutTimestamp(max(state.getCurrentWatermarkMs(), 1))
        elif self.timeout == "ProcessingTimeTimeout":
            due, now = bucket.next_timeout_ms(), state.getCurrentProcessingTimeMs()
            state.setTimeoutDuration(NEVER_MS if due is None else max(due - now, 1))

    def _result(self, blob: pa.Buffer | None, metrics: Metrics | None = None) -> pd.DataFrame:
        """One row of the step's output: a blob of result rows, or the metrics."""
        counts = (metrics or self.operator.metrics_type()).as_dict()
        row = {"blob": pd.Series([None if blob is None else blob.to_pybytes()], dtype=object)}
        return pd.DataFrame({**row, **{name: [value] for name, value in counts.items()}})


@contextmanager
def named(operator: Operator, part: str) -> Iterator[None]:
    """Let errors say where they happened: in which operator, bucket and micro-batch."""
    try:
        yield
    except Exception as error:
        batch = batch_number()
        place = f"{operator.kind} {operator.name!r}, {part}" + (f", batch {batch}" if batch else "")
        if isinstance(error, MillraceError):
            raise type(error)(f"{place}: {error}") from error
        raise MillraceError(f"{place}: {type(error).__name__}: {error}") from error


def batch_number() -> str | None:
    """Tell which micro-batch the task belongs to; None in a batch query."""
    task = TaskContext.get()
    return task.getLocalProperty("streaming.sql.batchId") if task else None


@dataclass(frozen=True)
class BoundedStep:
    """The parcels of some buckets of a batch frame → result blobs."""

    operator: Operator

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        by_bucket: dict[int, list[Parcel]] = {}
        for batch in batches:
            for bucket, kind, blob in zip(*(batch.column(i).to_pylist() for i in range(3)), strict=True):
                rows = None if kind == TICK else read_stream(blob)
                by_bucket.setdefault(bucket, []).append(Parcel(bucket, kind, rows))
        for bucket, parcels in by_bucket.items():
            with named(self.operator, f"bucket {bucket}"):
                yield from self.operator.run_bounded(bucket, parcels)


@dataclass(frozen=True)
class Decode:
    """Result blobs → result rows."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for blob in batch.column(0):
                yield read_stream(blob.as_buffer())
