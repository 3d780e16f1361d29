"""Rows into groups with count, sum and max: in one go, as partials, and into kept state."""

from __future__ import annotations

from millrace.kernels import GroupState, aggregate, partial_aggregate

from .inputs import CARDINALITIES, KINDS, batch_of, query_for, scaled

ROWS = 2_000_000


class Aggregate:
    params = (KINDS, CARDINALITIES)
    param_names = ("key", "groups")

    def setup(self, kind: str, groups: int) -> None:
        self.batch = batch_of(kind, scaled(ROWS), scaled(groups))
        self.query = query_for(self.batch)
        self.partials = partial_aggregate(self.query, self.batch)
        self.state = GroupState(self.query, "update")
        self.state.process(self.batch)

    def time_bounded(self, kind: str, groups: int) -> None:
        aggregate(self.query, self.batch)

    def time_partials(self, kind: str, groups: int) -> None:
        partial_aggregate(self.query, self.batch)

    def time_update_of_known_groups(self, kind: str, groups: int) -> None:
        self.state.process(self.batch)

    def time_merge_of_partials(self, kind: str, groups: int) -> None:
        self.state.process(self.partials, partial=True)

    def peakmem_bounded(self, kind: str, groups: int) -> None:
        aggregate(self.query, self.batch)

    def track_state_bytes_per_group(self, kind: str, groups: int) -> float:
        return self.state.nbytes / len(self.state)

    track_state_bytes_per_group.unit = "bytes"  # type: ignore[attr-defined]
