"""Peak memory of a process that reads its input from a file, so that making the input does not count."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from millrace.kernels import GroupState, aggregate

from .inputs import KINDS, batch_of, query_for, scaled

ROWS, GROUPS = 2_000_000, 1_000_000


class PeakMemory:
    """Two million rows over a million keys; the input alone is what to subtract."""

    params = KINDS
    param_names = ("key",)

    def setup_cache(self) -> dict[str, str]:
        """Write every input to a file once; runs in a process of its own."""
        files = {}
        for kind in KINDS:
            batch = batch_of(kind, scaled(ROWS), scaled(GROUPS))
            path = Path(f"{kind}.arrow").absolute()
            with pa.ipc.new_file(path, batch.schema) as writer:
                writer.write_batch(batch)
            files[kind] = str(path)
        return files

    def setup(self, files: dict[str, str], kind: str) -> None:
        with pa.OSFile(files[kind]) as file:
            self.batch = pa.ipc.open_file(file).get_batch(0)
        self.query = query_for(self.batch)

    def peakmem_input_alone(self, files: dict[str, str], kind: str) -> None:
        aggregate(self.query, self.batch.slice(0, 100))

    def peakmem_bounded(self, files: dict[str, str], kind: str) -> None:
        aggregate(self.query, self.batch)

    def peakmem_state(self, files: dict[str, str], kind: str) -> None:
        GroupState(self.query, "update").process(self.batch)

    def peakmem_state_saved_and_loaded(self, files: dict[str, str], kind: str) -> None:
        state = GroupState(self.query, "update")
        state.process(self.batch)
        GroupState.from_bytes(self.query, "update", state.to_bytes())
