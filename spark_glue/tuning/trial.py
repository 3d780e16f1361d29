"""What a trial measured, and the figures that are made of it."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from .settings import Settings
from .stage_timers import DECODE, ENCODE, SHUFFLE, SOURCE, STATE, STEP

RUNNING, DONE, STOPPED, OUT_OF_TIME, INTERRUPTED, FAILED = (
    "running", "done", "stopped early", "out of time", "interrupted", "failed",
)  # fmt: skip
IN_TASKS, OUTSIDE = "other in tasks", "outside tasks"
STAGES = (SOURCE, ENCODE, SHUFFLE, STEP, STATE, DECODE, IN_TASKS, OUTSIDE)


@dataclass(frozen=True)
class Batch:
    """One micro-batch: rows, and milliseconds from trigger to commit."""

    rows: int
    ms: float

    @property
    def rate(self) -> float:
        return self.rows / max(self.ms, 1e-3) * 1000


@dataclass
class Trial:
    """One run of the query with one set of settings.

    Examples
    --------
    >>> trial = Trial(1, Settings(2, 2), "start", warm_up=1, batches=[Batch(10, 900), Batch(10, 20), Batch(10, 10)])
    >>> trial.rows_per_second, trial.latency_ms
    (750.0, (15.0, 20))
    """

    number: int
    settings: Settings
    purpose: str
    warm_up: int
    status: str = RUNNING
    reason: str = ""
    # Whether the user's query is at fault, rather than the settings.
    mistake: bool = False
    batches: list[Batch] = field(default_factory=list)
    totals: dict[str, Any] | None = None
    seconds: float = 0.0

    def cut(self, status: str, reason: str) -> None:
        """End it before its time; where it did not get past the warm-up, its last batch is what there is."""
        self.status, self.reason = status, reason
        if not self.steady and len(self.batches) > 1:
            self.warm_up = len(self.batches) - 1
            said = "only the last batch of the warm-up was measured"
            self.reason = f"{reason}; {said}" if reason else said

    @property
    def steady(self) -> list[Batch]:
        """The batches that count: those after the warm-up."""
        return self.batches[self.warm_up :]

    @property
    def rows_per_second(self) -> float | None:
        return median_rate([self])

    @property
    def latency_ms(self) -> tuple[float, float] | None:
        """Median and greatest time of a batch."""
        times = [batch.ms for batch in self.steady]
        return (statistics.median(times), max(times)) if times else None

    @property
    def _million_rows(self) -> float:
        return sum(batch.rows for batch in self.steady) / 1e6

    def cpu_per_million(self) -> dict[str, float] | None:
        """CPU seconds per million rows, of the JVM and of the Python workers."""
        cpu = self.totals and self.totals["cpu"]
        return {kind: seconds / self._million_rows for kind, seconds in cpu.items()} if cpu else None

    def peak_memory(self) -> dict[str, int] | None:
        """Bytes of the JVM and of the Python workers, when they were most together."""
        memory = self.totals and self.totals["memory"]
        return memory if memory and sum(memory.values()) else None

    def stages(self) -> dict[str, float] | None:
        """Core seconds per million rows, by stage; together they are the cores times the batches' time."""
        if not self.totals or not self.totals["stages"]:
            return None
        told, tasks = self.totals["stages"], self.totals["tasks"]
        seconds = {stage: max(0.0, told.get(stage, 0.0)) for stage in (SOURCE, ENCODE, SHUFFLE, STEP, STATE, DECODE)}
        seconds[STATE] += self.totals["commit"]
        if tasks:
            seconds[SHUFFLE] += tasks["shuffle_write"] + tasks["shuffle_wait"]
            seconds[IN_TASKS] = max(0.0, tasks["run"] - sum(seconds.values()))
            wall = sum(batch.ms for batch in self.steady) / 1000
            seconds[OUTSIDE] = max(0.0, self.settings.cores * wall - sum(seconds.values()))
        return {stage: value / self._million_rows for stage, value in seconds.items()}

    def as_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        latency = self.latency_ms
        return {
            "number": self.number,
            "purpose": self.purpose,
            "status": self.status,
            "reason": self.reason,
            "settings": self.settings.as_dict(),
            "rows_per_second": self.rows_per_second,
            "batch_ms": latency and {"median": latency[0], "max": latency[1]},
            "cpu_seconds_per_million_rows": self.cpu_per_million(),
            "peak_memory_bytes": self.peak_memory(),
            "stage_core_seconds_per_million_rows": self.stages(),
            "batches": [{"rows": batch.rows, "ms": batch.ms} for batch in self.batches],
            "warm_up_batches": min(self.warm_up, len(self.batches)),
            "seconds": round(self.seconds, 2),
        }


def median_rate(trials: Iterable[Trial]) -> float | None:
    """The median rows a second over the steady batches of one or several runs."""
    rates = [batch.rate for trial in trials for batch in trial.steady]
    return statistics.median(rates) if rates else None


def cannot_win(trial: Trial, rival: Trial | None) -> bool:
    """Whether a running trial is so far behind the best that the rest of it would be a waste.

    The same files are compared: after two batches it must be a quarter slower, later less.

    Examples
    --------
    >>> best, slow = (Trial(i, Settings(2, 2), "", 0, batches=[Batch(9, ms)] * 2) for i, ms in enumerate((100, 140)))
    >>> cannot_win(slow, best), cannot_win(best, slow)
    (True, False)
    """
    if rival is None:
        return False
    pairs = list(zip(trial.steady, rival.steady, strict=False))
    if len(pairs) < 2 or any(mine.ms <= best.ms for mine, best in pairs):
        return False
    mine, best = (sum(batch.ms for batch in batches) for batches in zip(*pairs, strict=True))
    return mine > best * (1 + 0.5 / len(pairs))
