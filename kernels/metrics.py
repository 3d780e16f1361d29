"""What a stateful operator did in one batch, by the names that Spark's operators use."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass
class Metrics:
    """Counts, times and memory of one batch.

    `numRowsDroppedByWatermark` counts late *groups* in an aggregation, since Spark drops rows after
    aggregating them, and late rows in a join and under stateful functions.

    Examples
    --------
    >>> Metrics(numOutputRows=3).as_dict()["numOutputRows"]
    3
    """

    numOutputRows: int = 0
    numTotalStateRows: int = 0
    numUpdatedStateRows: int = 0
    numRemovedStateRows: int = 0
    numRowsDroppedByWatermark: int = 0
    allUpdatesTimeMs: int = 0
    allRemovalsTimeMs: int = 0
    commitTimeMs: int = 0
    stateMemory: int = 0

    def as_dict(self) -> dict[str, int]:
        """Give the metrics by name."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


@dataclass
class JoinMetrics(Metrics):
    """The same of a join, with the stored rows of each side."""

    numLeftStateRows: int = 0
    numRightStateRows: int = 0


def milliseconds(start: float, end: float) -> int:
    """Give the time between two readings of `time.perf_counter` in whole milliseconds."""
    return round((end - start) * 1000)
