"""Peak memory of a process that reads its input from a file, so that making the input does not count."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from millrace.kernels import GroupState, KeyedState, StatefulQuery, aggregate
from millrace.kernels.join_query import Join
from millrace.kernels.join_state import JoinState

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


def running_count(key, rows, state, out):
    state.n += len(rows)
    out.emit(key.k, state.n)


class PeakMemoryOfOthers:
    """The same rows as state of a compiled function, and of a join."""

    def setup_cache(self) -> str:
        return PeakMemory().setup_cache()["long"]

    def setup(self, file: str) -> None:
        with pa.OSFile(file) as opened:
            self.batch = pa.ipc.open_file(opened).get_batch(0)

    def peakmem_stateful(self, file: str) -> None:
        query = StatefulQuery(self.batch.schema, ["k"], "n long", "k long, n long", running_count)
        KeyedState(query).process(self.batch, batch_time_ms=0)

    def peakmem_join(self, file: str) -> None:
        state = JoinState(Join(self.batch.schema, self.batch.schema, [("k", "k")], "inner"))
        for _ in state.process(self.batch):
            pass
