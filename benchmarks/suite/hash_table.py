"""The table alone: keys to group numbers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from millrace.kernels.columns import column_of
from millrace.kernels.hash_table import HashTable
from millrace.kernels.keys import KeyLayout

from .inputs import CARDINALITIES, KINDS, key_columns, scaled

ROWS = 2_000_000
CHUNK = 4096


def fill(table: HashTable, arrays: list[pa.Array]) -> None:
    columns = [column_of(a) for a in arrays]
    for base in range(0, len(arrays[0]), CHUNK):
        table.upsert(table.encode(columns, base, min(CHUNK, len(arrays[0]) - base)))


class Upsert:
    """Two million rows: into an empty table, and into one that knows every key."""

    params = (KINDS, CARDINALITIES)
    param_names = ("key", "groups")

    def setup(self, kind: str, groups: int) -> None:
        ids = np.random.default_rng(0).integers(0, scaled(groups), scaled(ROWS))
        self.arrays = list(key_columns(kind, ids).values())
        self.layout = KeyLayout([a.type for a in self.arrays])
        self.table = HashTable(self.layout)
        fill(self.table, self.arrays)

    def time_new(self, kind: str, groups: int) -> None:
        fill(HashTable(self.layout), self.arrays)

    def time_known(self, kind: str, groups: int) -> None:
        fill(self.table, self.arrays)

    def track_bytes_per_group(self, kind: str, groups: int) -> float:
        return self.table.nbytes / len(self.table)

    track_bytes_per_group.unit = "bytes"  # type: ignore[attr-defined]


class Churn:
    """Delete and insert, over and over: what tombstones would make slower and slower."""

    LIVE, STEP, CYCLES = 200_000, 20_000, 200

    def setup(self) -> None:
        self.live, self.step = scaled(self.LIVE), scaled(self.STEP)
        self.table = HashTable(KeyLayout([pa.int64()]))
        self.next = 0
        self.cycle(self.live)

    def cycle(self, count: int) -> None:
        """Insert new keys and delete as many of the oldest, once the table is full."""
        fill(self.table, [pa.array(np.arange(self.next, self.next + count))])
        self.next += count
        if len(self.table) > self.live:
            oldest = pa.array(np.arange(self.next - self.live - count, self.next - self.live))
            self.table.delete(self.table.find(self.table.encode([column_of(oldest)], 0, count)))

    def time_cycle(self) -> None:
        self.cycle(self.step)

    def track_slowdown(self) -> float:
        """Time of the last tenth of four million replacements over that of the first: 1 is flat."""
        from time import perf_counter

        taken = []
        for _ in range(self.CYCLES):
            started = perf_counter()
            self.cycle(self.step)
            taken.append(perf_counter() - started)
        tenth = self.CYCLES // 10
        return float(np.median(taken[-tenth:]) / np.median(taken[:tenth]))

    track_slowdown.unit = "ratio"  # type: ignore[attr-defined]
