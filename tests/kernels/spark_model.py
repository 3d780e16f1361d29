"""Spark's streaming aggregation, row by row, in plain Python: slow and obvious.

Written from Spark's rules alone. Times are microseconds, watermarks milliseconds. A group keeps every
value it has seen, in order; what is computed from them is a plain function of the list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field


@dataclass
class SparkAggregation:
    """One stateful aggregation.

    `keys` names the grouping columns; `window` is (time column, size, slide, start); `watermark_on` is
    the column that carries the watermark. `results` computes the output columns of a group's rows.
    """

    keys: list[str]
    output_mode: str
    results: dict[str, Callable[[list[dict]], object]]
    window: tuple[str, int, int, int] | None = None
    watermark_on: str | None = None
    state: dict[tuple, list[dict]] = field(default_factory=dict)

    def windows_of(self, row: dict) -> Iterable[tuple[int, int]]:
        """Every window [start, end) that the row's time falls into; none if it has no time."""
        column, size, slide, start = self.window
        time = row[column]
        if time is None:
            return
        begin = start + (time - start) // slide * slide
        while begin + size > time:
            yield begin, begin + size
            begin -= slide

    def groups_of(self, row: dict) -> Iterable[tuple]:
        """The grouping keys of a row: once, or once per window."""
        rest = tuple(row[name] for name in self.keys)
        if self.window is None:
            yield rest
        else:
            for window in self.windows_of(row):
                yield (window, *rest)

    def time_of(self, key: tuple) -> int | None:
        """What the watermark is compared with: a window's end or the event time; None if never."""
        if self.watermark_on is None:
            return None
        if self.window is not None and self.window[0] == self.watermark_on:
            return key[0][1]
        if self.watermark_on not in self.keys:
            return None
        return key[self.keys.index(self.watermark_on) + (self.window is not None)]

    def is_behind(self, key: tuple, watermark_ms: int | None) -> bool:
        time = self.time_of(key)
        return watermark_ms is not None and time is not None and time <= watermark_ms * 1000

    def run(self, rows: list[dict], late_watermark_ms: int | None, watermark_ms: int | None):
        """One batch; gives the rows that come out and the metrics."""
        merged: dict[tuple, list[dict]] = {}
        for row in rows:
            for key in self.groups_of(row):
                merged.setdefault(key, []).append(row)
        if not self.keys and self.window is None:
            merged.setdefault((), [])  # without grouping there is always one row

        late = set()
        if self.output_mode != "complete":
            late = {key for key in merged if self.is_behind(key, late_watermark_ms)}
        put = [key for key in merged if key not in late]
        for key in put:
            self.state.setdefault(key, []).extend(merged[key])

        emitted = put
        if self.output_mode == "complete":
            emitted = list(self.state)
        expired = []
        if self.output_mode != "complete":
            expired = [key for key in self.state if self.is_behind(key, watermark_ms)]
        if self.output_mode == "append":
            emitted = expired
        output = [self.result(key) for key in emitted]
        for key in expired:
            del self.state[key]
        return output, {
            "numOutputRows": len(output),
            "numTotalStateRows": len(self.state),
            "numUpdatedStateRows": len(put),
            "numRemovedStateRows": len(expired),
            "numRowsDroppedByWatermark": len(late),
        }

    def result(self, key: tuple) -> tuple:
        return (*key, *(compute(self.state[key]) for compute in self.results.values()))
