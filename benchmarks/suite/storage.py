"""State to bytes and back."""

from __future__ import annotations

import numpy as np
from millrace.kernels import GroupState
from millrace.kernels.ascii_text import from_text, to_text

from .inputs import KINDS, every_key, query_for, scaled


class SaveAndLoad:
    """A million groups with three aggregates."""

    params = (KINDS, [1, 2])
    param_names = ("key", "version")
    GROUPS = 1_000_000

    def setup(self, kind: str, version: int) -> None:
        batch = every_key(kind, scaled(self.GROUPS))
        self.query = query_for(batch)
        self.state = GroupState(self.query, "update")
        self.state.process(batch)
        self.saved = self.state.to_bytes(version)
        self.time_load(kind, version)

    def time_save(self, kind: str, version: int) -> None:
        self.state.to_bytes(version)

    def time_load(self, kind: str, version: int) -> None:
        GroupState.from_bytes(self.query, "update", self.saved)

    def track_bytes_per_group(self, kind: str, version: int) -> float:
        return len(self.saved) / len(self.state)

    track_bytes_per_group.unit = "bytes"  # type: ignore[attr-defined]


class Text:
    """Thirty megabytes of state as the ASCII text that Spark keeps, and back."""

    BYTES = 30_000_000

    def setup(self) -> None:
        self.saved = np.random.default_rng(0).bytes(scaled(self.BYTES))
        self.text = to_text(self.saved)
        self.time_from_text()

    def time_to_text(self) -> None:
        to_text(self.saved)

    def time_from_text(self) -> None:
        from_text(self.text)
