"""Stateful functions on executors, compiled: rows by key in, what the function emits out."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from ..kernels.keyed_state import KeyedState
from ..kernels.metrics import Metrics
from ..kernels.narrow import read_stream
from ..kernels.stateful_query import StatefulQuery
from .exchange import Parcel
from .operator import Clock, Encoder
from .rows_encoder import RowsEncoder

ROWS = 1
# The watermark that functions see in a batch query, as in Spark.
BOUNDED_WATERMARK = -1


@dataclass(frozen=True)
class StatefulOperator:
    """One compiled stateful function, as plain data."""

    name: str
    buckets: int
    query: StatefulQuery
    # The columns that travel: keys, and what the function, the order and the watermark read.
    columns: tuple[str, ...]
    state_format_version: int
    # State to begin with, by bucket, as it travels.
    initial: dict[int, bytes] = field(default_factory=dict)

    kind = "stateful"
    metrics_type = Metrics

    @property
    def travelling(self) -> pa.Schema:
        """Schema of the rows that travel."""
        return pa.schema([self.query.schema.field(name) for name in self.columns])

    def encoder(self, side: int, buckets: Sequence[int]) -> Encoder:
        return RowsEncoder(self.travelling, self.query.keys, self.query.key_types, buckets, ROWS)

    def open(self, bucket: int, saved: bytes | memoryview | None) -> StatefulBucket:
        if saved is not None:
            return StatefulBucket(KeyedState.from_bytes(self.query, saved, self.buckets), self)
        state = KeyedState(self.query)
        if bucket in self.initial:
            state.load_initial(read_stream(self.initial[bucket]))
        return StatefulBucket(state, self)

    def run_bounded(self, bucket: int, parcels: Iterable[Parcel]) -> Iterator[pa.RecordBatch]:
        state = self.open(bucket, None)
        yield from state.run(list(parcels), Clock(BOUNDED_WATERMARK, None, int(time.time() * 1000)))


class StatefulBucket:
    """The keys of one bucket."""

    def __init__(self, state: KeyedState, operator: StatefulOperator) -> None:
        self._state = state
        self._operator = operator

    @property
    def watermark_ms(self) -> int | None:
        return self._state.watermark_ms

    @property
    def metrics(self) -> Metrics:
        return self._state.metrics

    def run(self, parcels: Sequence[Parcel], clock: Clock) -> Iterator[pa.RecordBatch]:
        result = self._state.process(
            [parcel.rows for parcel in parcels if parcel.rows is not None],
            batch_time_ms=clock.processing_time_ms,
            watermark_ms=clock.watermark_ms,
            late_watermark_ms=clock.late_watermark_ms,
        )
        yield result.rows

    def next_timeout_ms(self) -> int | None:
        return self._state.next_timeout_ms

    def to_bytes(self) -> bytes:
        operator = self._operator
        return self._state.to_bytes(operator.state_format_version, operator.buckets, operator.name)
