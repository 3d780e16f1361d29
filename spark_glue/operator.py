"""What the pipeline asks of an operator, and what it tells one about a batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from ..kernels.metrics import Metrics
from .exchange import Parcel


@dataclass(frozen=True)
class Clock:
    """The times of one batch, in milliseconds; None where there is no watermark."""

    watermark_ms: int | None = None
    late_watermark_ms: int | None = None
    processing_time_ms: int = 0


class Encoder(Protocol):
    """Turns one task's rows into parcels."""

    def feed(self, batch: pa.RecordBatch) -> Iterator[Parcel]:
        """Take a batch in; gives the parcels that are ready."""

    def finish(self) -> Iterator[Parcel]:
        """Give what is left."""


class BucketState(Protocol):
    """The state of one bucket, while a batch runs."""

    @property
    def watermark_ms(self) -> int | None:
        """The watermark of the batch before."""

    @property
    def metrics(self) -> Metrics:
        """What the batch did, once it is over."""

    def run(self, parcels: Sequence[Parcel], clock: Clock) -> Iterator[pa.RecordBatch]:
        """Run one batch; gives the result rows piece by piece."""

    def next_timeout_ms(self) -> int | None:
        """The processing time at which the bucket wants to be called again, if it counts by that."""

    def to_bytes(self) -> bytes:
        """Write the state."""


class Operator(Protocol):
    """One stateful operator of a query: plain data that is sent to the executors."""

    @property
    def kind(self) -> str:
        """What it is called in messages."""

    @property
    def name(self) -> str:
        """Which one it is."""

    @property
    def metrics_type(self) -> type[Metrics]:
        """What its buckets report of a batch."""

    @property
    def buckets(self) -> int:
        """How many parts its keys are spread over."""

    def encoder(self, side: int, buckets: Sequence[int]) -> Encoder:
        """Make what encodes one task's rows of an input."""

    def open(self, bucket: int, saved: bytes | memoryview | None) -> BucketState:
        """Load a bucket's state, or begin one."""

    def run_bounded(self, bucket: int, parcels: Iterable[Parcel]) -> Iterator[pa.RecordBatch]:
        """Run over all of a bucket's rows at once, as a batch query does."""
