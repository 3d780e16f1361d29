"""The stream-stream join on executors: rows of both sides by key in, joined rows out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from ..kernels.errors import MillraceError
from ..kernels.join_query import Join
from ..kernels.join_state import JoinState, join_bounded
from ..kernels.metrics import JoinMetrics, Metrics
from ..kernels.time_bounds import SIDES
from .exchange import Parcel
from .join_condition import JoinPlan
from .join_needs import needed_columns
from .operator import Clock, Encoder
from .rows_encoder import RowsEncoder


@dataclass(frozen=True)
class JoinOperator:
    """One join, as plain data."""

    name: str
    buckets: int
    plan: JoinPlan
    ansi: bool
    state_format_version: int
    # Positions of the columns that come out, of left's and then right's, and what the step calls them.
    kept: tuple[int, ...]
    names: tuple[str, ...]

    kind = "join"
    metrics_type = JoinMetrics

    def __getstate__(self) -> dict[str, object]:
        # The bound join holds functions; executors bind it anew.
        return {k: v for k, v in self.__dict__.items() if k != "join"}

    @cached_property
    def join(self) -> Join:
        return self.plan.join(self.ansi)

    def encoder(self, side: int, buckets: Sequence[int]) -> Encoder:
        names = self.join.key_names(SIDES[side])
        schema = (self.plan.left_schema, self.plan.right_schema)[side]
        needed = needed_columns(SIDES[side], self.plan, self.join)
        return RowsEncoder(schema, names, self.join.key_types, buckets, kind_of(side), needed)

    def open(self, bucket: int, saved: bytes | memoryview | None) -> JoinBucket:
        state = JoinState(self.join) if saved is None else JoinState.from_bytes(self.join, saved, self.buckets)
        return JoinBucket(state, self)

    def run_bounded(self, bucket: int, parcels: Iterable[Parcel]) -> Iterator[pa.RecordBatch]:
        parcels = list(parcels)
        sides = [self.rows_of(side, parcels) for side in range(2)]
        for rows in join_bounded(self.join, *sides):
            yield self.output(rows)

    def rows_of(self, side: int, parcels: Sequence[Parcel]) -> pa.RecordBatch:
        """All rows of one side as one batch."""
        schema = (self.plan.left_schema, self.plan.right_schema)[side]
        batches = [p.rows for p in parcels if p.rows is not None and p.kind == kind_of(side)]
        whole = pa.Table.from_batches(batches, schema).combine_chunks().to_batches()
        if len(whole) > 1:
            raise MillraceError(
                f"the {SIDES[side]} rows of one batch hold more than 2 GiB of text in a column; take smaller batches, "
                "or more buckets in a new query"
            )
        return whole[0] if whole else pa.RecordBatch.from_pylist([], schema)

    def output(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The columns that come out; both sides may have used the same names."""
        return pa.RecordBatch.from_arrays([rows.column(i) for i in self.kept], names=list(self.names))


class JoinBucket:
    """The rows of one bucket that may still find a partner."""

    def __init__(self, state: JoinState, operator: JoinOperator) -> None:
        self._state = state
        self._operator = operator

    @property
    def watermark_ms(self) -> int | None:
        return self._state.watermark_ms

    @property
    def metrics(self) -> Metrics:
        return self._state.metrics

    def run(self, parcels: Sequence[Parcel], clock: Clock) -> Iterator[pa.RecordBatch]:
        left, right = (self._operator.rows_of(side, parcels) for side in range(2))
        pieces = self._state.process(
            left, right, watermark_ms=clock.watermark_ms, late_watermark_ms=clock.late_watermark_ms
        )
        # Few large pieces cost Spark less than many small ones; blobs are bounded by bytes later.
        for rows in pieces:
            yield self._operator.output(rows)

    def next_timeout_ms(self) -> int | None:
        return None

    def to_bytes(self) -> bytes:
        operator = self._operator
        return self._state.to_bytes(operator.state_format_version, operator.buckets, operator.name)


def kind_of(side: int) -> int:
    """The kind of a side's parcels."""
    return side + 1
