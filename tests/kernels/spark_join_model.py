"""Spark's stream-stream join, row by row, in plain Python: slow and obvious.

Written from Spark's rules alone. Times are microseconds, watermarks milliseconds. Rows are dicts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

LEFT, RIGHT = "left", "right"


@dataclass
class Stored:
    row: dict
    matched: bool


@dataclass
class SparkJoin:
    """`keys` pairs a left and a right column; `evicts` gives per side the column and a function from the
    watermark to the time in microseconds at or before which stored rows go."""

    how: str
    keys: Sequence[tuple[str, str]]
    times: dict[str, str | None]
    evicts: dict[str, tuple[str, Callable[[int], int]] | None]
    filters: dict[str, Callable[[dict], bool | None]]
    residual: Callable[[dict, dict], bool | None]
    null_safe: frozenset[int] = frozenset()
    state: dict[str, list[Stored]] = field(default_factory=lambda: {LEFT: [], RIGHT: []})

    def outer(self, side: str) -> bool:
        return self.how in (side + "_outer", "full_outer")

    def key(self, side: str, row: dict) -> tuple:
        return tuple(row[pair[0 if side == LEFT else 1]] for pair in self.keys)

    def can_match(self, side: str, row: dict) -> bool:
        return all(v is not None or i in self.null_safe for i, v in enumerate(self.key(side, row)))

    def evictable(self, side: str, row: dict, watermark: int | None) -> bool:
        if self.evicts[side] is None or watermark is None:
            return False
        column, limit = self.evicts[side]
        return row[column] is not None and row[column] <= limit(watermark)

    def run(self, inputs: dict[str, list[dict]], late: int | None, watermark: int | None):
        """One batch; gives pairs (left row or None, right row or None) and the metrics."""
        out: list[tuple[dict | None, dict | None]] = []
        self.updated = self.removed = self.late = 0
        for side in (RIGHT, LEFT) if self.how == "left_semi" else (LEFT, RIGHT):
            for row in inputs[side]:
                out += self.arrive(side, row, late, watermark)
        sides = [s for s in (LEFT, RIGHT) if self.outer(s)] + [s for s in (LEFT, RIGHT) if not self.outer(s)]
        for side in sides:
            out += self.evict(side, watermark)
        return out, {
            "numOutputRows": len(out),
            "numTotalStateRows": len(self.state[LEFT]) + len(self.state[RIGHT]),
            "numUpdatedStateRows": self.updated,
            "numRemovedStateRows": self.removed,
            "numRowsDroppedByWatermark": self.late,
        }

    def arrive(self, side: str, row: dict, late: int | None, watermark: int | None):
        time = self.times[side] and row[self.times[side]]
        if late is not None and time is not None and time <= late * 1000:
            self.late += 1
            return []
        if self.filters[side](row) is not True:
            return [self.padded(side, row)] if self.outer(side) else []
        other = RIGHT if side == LEFT else LEFT
        partners = []
        if self.can_match(side, row):
            for stored in self.state[other]:
                left, right = (row, stored.row) if side == LEFT else (stored.row, row)
                if self.key(side, row) == self.key(other, stored.row) and self.residual(left, right) is True:
                    partners.append(stored)
        out = []
        if self.how != "left_semi":
            out = [(row, p.row) if side == LEFT else (p.row, row) for p in partners]
        elif side == LEFT:
            out = [(row, None)] if partners else []
        else:
            out = [(p.row, None) for p in partners]
            self.state[LEFT] = [s for s in self.state[LEFT] if not any(s is p for p in partners)]
            self.removed += len(partners)
        for partner in partners:
            partner.matched = True
        self.store(side, row, bool(partners), watermark)
        return out

    def store(self, side: str, row: dict, matched: bool, watermark: int | None) -> None:
        if not self.can_match(side, row) and not self.outer(side):
            return
        if side == LEFT and self.how == "left_semi" and matched:
            return
        if side == RIGHT and self.evictable(side, row, watermark) and not (self.outer(RIGHT) and not matched):
            return
        self.state[side].append(Stored(row, matched))
        self.updated += 1

    def evict(self, side: str, watermark: int | None):
        gone = [s for s in self.state[side] if self.evictable(side, s.row, watermark)]
        self.state[side] = [s for s in self.state[side] if not any(s is g for g in gone)]
        self.removed += len(gone)
        return [self.padded(side, s.row) for s in gone if not s.matched] if self.outer(side) else []

    @staticmethod
    def padded(side: str, row: dict):
        return (row, None) if side == LEFT else (None, row)
