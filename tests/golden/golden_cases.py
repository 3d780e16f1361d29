"""What a golden state is: a query, the batches before it was written, and those that come after it is loaded.

A case knows its operator, how to run it, and the slow model of Spark's operator that says what must come out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from golden_rows import assert_same_rows, rows_of
from millrace.kernels.state_format import SavedState, load_state
from millrace.kernels.state_rows import state_rows

FOLDER = Path(__file__).parent
BUCKETS = 4
SUMS = FOLDER / "SHA256SUMS"
# Folders of files, by the format version that is in them. What a later format or a later way of writing gives
# comes into a folder of its own; the files of the others stay as they are.
GENERATIONS = {"v1": 1, "v2": 2}
# The folders that today's code writes.
NEWEST = ("v1", "v2")


@dataclass(frozen=True)
class Step:
    """One micro-batch: the rows of each input, and what the clock and the watermarks say."""

    rows: Sequence[dict] = ()
    right: Sequence[dict] = ()
    watermark: int | None = None
    late: int | None = None
    now: int = 0


@dataclass(frozen=True)
class Case:
    """One state of an operator. Subclasses say how it is made, loaded and run."""

    operator: ClassVar[str]

    name: str
    before: Sequence[Step]
    after: Sequence[Step]
    versions: tuple[int, ...] = field(default=(1, 2), kw_only=True)

    def fresh(self) -> Any:
        """A state of the query that has seen nothing."""
        raise NotImplementedError

    def load(self, data: bytes) -> Any:
        """The state that bytes hold."""
        raise NotImplementedError

    def run(self, state: Any, step: Step) -> tuple[list[tuple], dict[str, int]]:
        """Run a micro-batch; gives the rows that come out, and the metrics."""
        raise NotImplementedError

    def model(self) -> Any:
        """Spark's operator, slow and obvious."""
        raise NotImplementedError

    def run_model(self, model: Any, step: Step) -> tuple[list[tuple], dict[str, int]]:
        """The same of the model."""
        raise NotImplementedError

    def stored(self, model: Any, version: int) -> tuple[list[str], list[tuple]]:
        """Columns and rows of what the model has stored, as people read a state of a version."""
        raise NotImplementedError

    def read(self, saved: SavedState) -> Iterator[pa.RecordBatch]:
        """A state's rows, without its query."""
        return state_rows(saved)

    @property
    def rough(self) -> Mapping[int, float]:
        """The relative tolerance of columns, by position, that hold more or less rounded doubles."""
        return {}

    def write(self, version: int) -> bytes:
        """The bytes of the state after the batches before."""
        state = self.fresh()
        for step in self.before:
            self.run(state, step)
        return state.to_bytes(version, BUCKETS, self.name)

    def generations(self) -> Iterator[str]:
        """The folders in which this case has a file."""
        return (folder for folder, version in GENERATIONS.items() if version in self.versions)

    def path(self, generation: str) -> Path:
        return FOLDER / generation / f"{self.operator}-{self.name}.state"

    def check_goes_on(self, data: bytes) -> None:
        """A loaded state gives, batch by batch, what the model gives that has seen all batches."""
        state, model = self.load(data), self.model()
        for step in self.before:
            self.run_model(model, step)
        for step in self.after:
            rows, metrics = self.run(state, step)
            wanted, wanted_metrics = self.run_model(model, step)
            assert_same_rows(rows, wanted, self.rough)
            assert {name: metrics[name] for name in wanted_metrics} == wanted_metrics

    def check_is_read(self, data: bytes) -> None:
        """Without its query, a state shows what the model has stored."""
        saved, model = load_state(data, self.operator), self.model()
        for step in self.before:
            self.run_model(model, step)
        names, wanted = self.stored(model, saved.version)
        batches = list(self.read(saved))
        assert all(batch.schema.names == names for batch in batches)
        assert_same_rows([row for batch in batches for row in rows_of(batch)], wanted, self.rough)
