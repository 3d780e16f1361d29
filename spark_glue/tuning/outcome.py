"""What a run of `millrace tune` came to: the one thing that all reports are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from .job import Job
from .scaling import Fit, fit
from .search import BASELINE, START, Search
from .settings import Settings, conf_lines
from .trial import Trial, median_rate


@dataclass(frozen=True)
class Outcome:
    """Trials, the winner among them, and how it scales."""

    job: Job
    trials: Sequence[Trial]
    winner: Settings | None
    accepted: tuple[str, ...]
    points: Sequence[tuple[int, float]]
    expected_cores: Sequence[int] = ()
    interrupted: bool = False
    note: str = ""
    seconds: float = 0.0
    cores_here: int = 1
    versions: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, search: Search, unfinished: Trial | None, **values: Any) -> Outcome:
        """What a search found; a trial that it had not yet taken note of when it was interrupted counts, too."""
        if unfinished is not None and not any(trial is unfinished for trial in search.trials):
            search.trials.append(unfinished)
        return cls(trials=search.trials, winner=search.winner(), points=search.points(), **values)

    @property
    def scaling(self) -> Fit | None:
        return fit(self.points)

    @property
    def expected(self) -> dict[int, float]:
        """Throughput on the asked numbers of cores, by the fitted law."""
        scaling = self.scaling
        return {cores: scaling.at(cores) for cores in self.expected_cores} if scaling else {}

    def runs(self, settings: Settings | None) -> list[Trial]:
        return [trial for trial in self.trials if trial.settings == settings and trial.rows_per_second]

    @property
    def best(self) -> Trial | None:
        """A run of the winner's that tells the most."""
        runs = self.runs(self.winner)
        return max(runs, key=lambda trial: (trial.stages() is not None, trial.number), default=None)

    @property
    def best_rate(self) -> float | None:
        return median_rate(self.runs(self.winner))

    @property
    def baseline(self) -> Trial | None:
        """The run of Spark's defaults, if it measured anything."""
        return next((t for t in self.trials if t.purpose == BASELINE and t.rows_per_second), None)

    @property
    def gain(self) -> float | None:
        """How many times as fast as Spark's defaults the winner is."""
        baseline, rate = self.baseline, self.best_rate
        return rate / baseline.rows_per_second if rate and baseline and baseline.rows_per_second else None

    def stage_bars(self) -> list[tuple[str, Trial]]:
        """The trials whose stages are worth comparing, each once."""
        first = {trial.purpose: trial for trial in reversed(self.trials) if trial.stages()}
        chosen = {"best": self.best, START: first.get(START), BASELINE: first.get(BASELINE)}
        bars: list[tuple[str, Trial]] = []
        for name, trial in chosen.items():
            if trial is not None and trial.stages() and not any(trial is other for _, other in bars):
                bars.append((name, trial))
        return bars

    def conf(self) -> str:
        """The `spark-defaults.conf` fragment."""
        return "\n".join(conf_lines(self.winner, self.accepted)) + "\n" if self.winner else ""

    def as_dict(self) -> dict[str, Any]:
        """The whole as one document."""
        scaling = self.scaling
        return {
            "job": asdict(self.job),
            "cores_of_this_machine": self.cores_here,
            "versions": self.versions,
            "seconds": round(self.seconds, 1),
            "interrupted": self.interrupted,
            "note": self.note,
            "winner": self.winner and {
                "settings": self.winner.as_dict(),
                "spark_options": self.winner.spark_options(),
                "query_keywords": self.winner.keywords(self.accepted),
                "rows_per_second": self.best_rate,
                "times_as_fast_as_spark_defaults": self.gain,
            },
            "cores_curve": [{"cores": cores, "rows_per_second": rate} for cores, rate in self.points],
            "scaling": scaling and {
                "law": scaling.law,
                "rows_per_second_on_one_core": scaling.one,
                "serial": scaling.serial,
                "crosstalk": scaling.crosstalk,
                "r2": scaling.r2,
                "points": len(scaling.points),
                "residuals": scaling.residuals,
                "remark": scaling.remark,
                "peak_cores": scaling.peak,
            },
            "expected": [
                {"cores": cores, "rows_per_second": rate, "extrapolated": cores > max(n for n, _ in self.points)}
                for cores, rate in self.expected.items()
            ],
            "trials": [trial.as_dict() for trial in self.trials],
        }  # fmt: skip
