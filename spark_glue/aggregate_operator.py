"""Grouped aggregation on executors: encode with map-side partial aggregation, and the step of a bucket."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from ..kernels.aggregation import Aggregation
from ..kernels.columns import column_of
from ..kernels.functions import Aggregate
from ..kernels.group_state import GroupState
from ..kernels.groups import Groups, read_partials, read_rows
from ..kernels.keys import KeyLayout
from ..kernels.metrics import Metrics
from ..kernels.windows import Window
from .exchange import Parcel, scatter
from .operator import Clock, Encoder
from .rows_encoder import RowsEncoder, in_schema, parts_of

ROWS, PARTIALS = 1, 2
# Map-side aggregation is judged by its first rows, and given up where it leaves more than this share:
# then the step meets nearly as many groups as there were rows, and the work here was for nothing.
JUDGED_ROWS = 50_000
WORTHWHILE_SHARE = 0.5


@dataclass(frozen=True)
class AggregateOperator:
    """One grouped aggregation, as plain data."""

    name: str
    buckets: int
    schema: pa.Schema
    keys: tuple[str, ...]
    aggs: Mapping[str, Aggregate]
    window: Window | None
    event_time: str | None
    ansi: bool
    output_mode: str
    state_format_version: int
    map_side: bool = True

    kind = "aggregate"
    metrics_type = Metrics

    def __getstate__(self) -> dict[str, object]:
        # The bound query holds functions; executors bind it anew.
        return {k: v for k, v in self.__dict__.items() if k != "query"}

    @cached_property
    def query(self) -> Aggregation:
        return Aggregation(self.schema, self.keys, self.aggs, self.window, self.event_time, self.ansi)

    def encoder(self, side: int, buckets: Sequence[int]) -> Encoder:
        return AggregateEncoder(self.query, buckets, self.map_side)

    def open(self, bucket: int, saved: bytes | memoryview | None) -> AggregateBucket:
        if saved is None:
            state = GroupState(self.query, self.output_mode)
        else:
            state = GroupState.from_bytes(self.query, self.output_mode, saved, self.buckets)
        return AggregateBucket(state, self)

    def run_bounded(self, bucket: int, parcels: Iterable[Parcel]) -> Iterator[pa.RecordBatch]:
        groups = Groups(self.query)
        for parcel in parcels:
            if parcel.rows is not None:
                read = read_rows if parcel.kind == ROWS else read_partials
                groups.absorb(read(self.query, parcel.rows), touch=False)
        if self.query.is_global:
            groups.ensure_global()
        live = groups.table.live()
        if len(live):
            yield groups.finish(live)


class AggregateBucket:
    """The groups of one bucket."""

    def __init__(self, state: GroupState, operator: AggregateOperator) -> None:
        self._state = state
        self._operator = operator

    @property
    def watermark_ms(self) -> int | None:
        return self._state.watermark_ms

    @property
    def metrics(self) -> Metrics:
        return self._state.metrics

    def run(self, parcels: Sequence[Parcel], clock: Clock) -> Iterator[pa.RecordBatch]:
        rows, partials = ([p.rows for p in parcels if p.kind == kind] for kind in (ROWS, PARTIALS))
        result = self._state.process(
            rows, partials=partials, watermark_ms=clock.watermark_ms, late_watermark_ms=clock.late_watermark_ms
        )
        yield result.rows

    def next_timeout_ms(self) -> int | None:
        return None

    def to_bytes(self) -> bytes:
        operator = self._operator
        return self._state.to_bytes(operator.state_format_version, operator.buckets, operator.name)


class AggregateEncoder:
    """One task's rows: aggregated here as far as that makes them fewer, then parted by bucket."""

    def __init__(self, query: Aggregation, buckets: Sequence[int], map_side: bool) -> None:
        self._query = query
        self._buckets = buckets
        self._rows = RowsEncoder(query.schema, query.keys, query.key_types, buckets, ROWS)
        # A row cannot be routed by its windows while it lies in several; few windows reduce well anyway.
        self._always = not query.keys
        self._groups = Groups(query) if map_side or self._always else None
        self._absorbed = 0
        self._judged = False

    def feed(self, batch: pa.RecordBatch) -> Iterator[Parcel]:
        if self._groups is None:
            yield from self._rows.feed(batch)
            return
        self._groups.absorb(read_rows(self._query, in_schema(batch, self._query.schema)), touch=False)
        self._absorbed += batch.num_rows
        if not self._judged and self._absorbed >= JUDGED_ROWS:
            self._judged = True
            if not self._always and len(self._groups) > WORTHWHILE_SHARE * self._absorbed:
                yield from self._flush_groups()

    def finish(self) -> Iterator[Parcel]:
        yield from self._flush_groups()
        yield from self._rows.finish()

    def _flush_groups(self) -> Iterator[Parcel]:
        """Send the partials, and aggregate no further."""
        groups, self._groups = self._groups, None
        if groups is not None and len(groups):
            partials = groups.export(groups.table.live())
            yield from scatter(partials, self._parts_of_partials(partials), self._buckets, PARTIALS)

    def _parts_of_partials(self, partials: pa.RecordBatch) -> np.ndarray:
        """Find buckets by all keys but the window, as for rows; where the window is the only key, by its start."""
        skipped = 1 if self._query.window is not None and self._query.keys else 0
        types = self._query.layout.types[skipped:]
        keys = [column_of(partials.column(i)) for i in range(skipped, skipped + len(types))]
        return parts_of(KeyLayout(types), keys, partials.num_rows, len(self._buckets))
