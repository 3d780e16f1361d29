"""The table alone: keys to group numbers."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pyarrow as pa
from millrace.kernels.columns import column_of
from millrace.kernels.hash_table import HashTable
from millrace.kernels.keys import KeyLayout

from .inputs import CARDINALITIES, KINDS, key_columns, scaled, slowdown

ROWS = 2_000_000
CHUNK = 4096


def fill(table: HashTable, arrays: list[pa.Array]) -> None:
    columns = [column_of(a) for a in arrays]
    for base in range(0, len(arrays[0]), CHUNK):
        table.upsert(table.encode(columns, base, min(CHUNK, len(arrays[0]) - base)))


@lru_cache(maxsize=1)  # asv sets up again before every sample
def filled(kind: str, groups: int) -> tuple[list[pa.Array], HashTable]:
    """Every key once, in no order, and a table that holds them."""
    arrays = list(key_columns(kind, np.random.default_rng(0).permutation(groups)).values())
    table = HashTable(KeyLayout([a.type for a in arrays]))
    fill(table, arrays)
    return arrays, table


class Upsert:
    """Every key into an empty table, and two million rows into a table that knows every key."""

    params = (KINDS, CARDINALITIES)
    param_names = ("key", "groups")

    def setup(self, kind: str, groups: int) -> None:
        self.keys, self.table = filled(kind, scaled(groups))
        ids = np.random.default_rng(1).integers(0, scaled(groups), scaled(ROWS))
        self.rows = list(key_columns(kind, ids).values())

    def time_new(self, kind: str, groups: int) -> None:
        fill(HashTable(self.table.layout), self.keys)

    def time_known(self, kind: str, groups: int) -> None:
        fill(self.table, self.rows)

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
        self.cycle(self.step)

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
        """Over four million replacements: 1 is flat."""
        return slowdown(lambda: self.cycle(self.step), self.CYCLES)

    track_slowdown.unit = "ratio"  # type: ignore[attr-defined]
