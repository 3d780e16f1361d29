"""Unchanged `applyInPandasWithState` functions on executors: rows by key in, what they give out."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from ..kernels.metrics import Metrics
from ..kernels.narrow import read_stream
from .exchange import Parcel
from .operator import Clock, Encoder
from .pandas_state import PandasQuery, PandasState
from .rows_encoder import RowsEncoder
from .stateful_operator import BOUNDED_WATERMARK, ROWS


@dataclass(frozen=True)
class PandasOperator:
    """One unchanged function, as plain data."""

    name: str
    buckets: int
    query: PandasQuery
    state_format_version: int
    # State to begin with, by bucket, as it travels.
    initial: dict[int, bytes] = field(default_factory=dict)

    kind = "stateful"
    metrics_type = Metrics

    def encoder(self, side: int, buckets: Sequence[int]) -> Encoder:
        return RowsEncoder(self.query.schema, self.query.keys, self.query.key_types, buckets, ROWS)

    def open(self, bucket: int, saved: bytes | memoryview | None) -> PandasBucket:
        if saved is not None:
            state = PandasState.from_bytes(self.query, saved, self.buckets)
        elif bucket in self.initial:
            state = PandasState.initial(self.query, read_stream(self.initial[bucket]))
        else:
            state = PandasState(self.query)
        return PandasBucket(state, self)

    def run_bounded(self, bucket: int, parcels: Iterable[Parcel]) -> Iterator[pa.RecordBatch]:
        state = self.open(bucket, None)
        yield from state.run(list(parcels), Clock(BOUNDED_WATERMARK, None, int(time.time() * 1000)))


class PandasBucket:
    """The keys of one bucket."""

    def __init__(self, state: PandasState, operator: PandasOperator) -> None:
        self._state = state
        self._operator = operator
        self.metrics = state.metrics

    @property
    def watermark_ms(self) -> int | None:
        return self._state.watermark_ms

    def run(self, parcels: Sequence[Parcel], clock: Clock) -> Iterator[pa.RecordBatch]:
        return self._state.run([parcel.rows for parcel in parcels if parcel.rows is not None], clock)

    def next_timeout_ms(self) -> int | None:
        return self._state.next_timeout_ms()

    def to_bytes(self) -> bytes:
        operator = self._operator
        return self._state.to_bytes(operator.state_format_version, operator.buckets, operator.name)
