"""Rows into groups with count, sum and max: in one go, as partials, and into kept state.

`groups` is how many keys the rows are drawn from: of ten million, two million rows meet 1.8 million.
"""

from __future__ import annotations

import pyarrow as pa
from millrace.kernels import GroupState, aggregate, partial_aggregate

from .inputs import CARDINALITIES, KINDS, SKEWS, batch_of, ids_of, key_columns, query_for, scaled

ROWS = 2_000_000


class Scenario:
    """Two million rows by kind of key and number of keys."""

    params = (KINDS, CARDINALITIES)
    param_names = ("key", "groups")

    def setup(self, kind: str, groups: int) -> None:
        self.batch = batch_of(kind, scaled(ROWS), scaled(groups))
        self.query = query_for(self.batch)


class Aggregate(Scenario):
    """Without state, in one go."""

    def setup(self, kind: str, groups: int) -> None:
        super().setup(kind, groups)
        # Compiles, and leaves warm pages to the memory pool, as any batch but the first finds them.
        partial_aggregate(self.query, self.batch)
        aggregate(self.query, self.batch.slice(0, 100))

    def time_bounded(self, kind: str, groups: int) -> None:
        aggregate(self.query, self.batch)

    def time_partials(self, kind: str, groups: int) -> None:
        partial_aggregate(self.query, self.batch)


class Skewed:
    """Keys of which a few have most rows: hot slots of the table, and fewer groups."""

    params = (KINDS, SKEWS)
    param_names = ("key", "skew")
    GROUPS = 1_000_000

    def setup(self, kind: str, skew: str) -> None:
        ids = ids_of(scaled(self.GROUPS), skew, scaled(ROWS))
        self.batch = pa.record_batch({**key_columns(kind, ids), "v": pa.array(ids % 1000)})
        self.query = query_for(self.batch)
        partial_aggregate(self.query, self.batch)
        aggregate(self.query, self.batch.slice(0, 100))

    def time_bounded(self, kind: str, skew: str) -> None:
        aggregate(self.query, self.batch)

    def time_partials(self, kind: str, skew: str) -> None:
        partial_aggregate(self.query, self.batch)


class KnownGroups(Scenario):
    """Into a state that has every group already: what a steady batch does."""

    def setup(self, kind: str, groups: int) -> None:
        super().setup(kind, groups)
        self.partials = partial_aggregate(self.query, self.batch)
        self.state = GroupState(self.query, "update")
        self.state.process(self.batch)
        self.state.process(partials=self.partials.slice(0, 100))

    def time_update(self, kind: str, groups: int) -> None:
        self.state.process(self.batch)

    def time_merge_of_partials(self, kind: str, groups: int) -> None:
        self.state.process(partials=self.partials)

    def track_state_bytes_per_group(self, kind: str, groups: int) -> float:
        return self.state.nbytes / len(self.state)

    track_state_bytes_per_group.unit = "bytes"  # type: ignore[attr-defined]
