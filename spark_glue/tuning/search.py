"""What to try next: one setting at a time, from the advised ones on, within a time budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from .settings import Settings, advised, alternatives, spark_defaults
from .trial import DONE, Trial, median_rate

# Runs settings for a purpose; a running trial that cannot beat the rival is stopped, as is one that takes
# more seconds than the limit.
Run = Callable[[Settings, str, Trial | None, float], Trial]
# Spark's defaults can be very slow, and all that is wanted of them is a figure to compare with.
BASELINE_SHARE = 0.2
# What is less than this better is taken for noise.
NOISE = 0.03
BASELINE, START, CURVE, AGAIN = "Spark's defaults", "advised settings", "cores", "confirm"


class Search:
    """A coordinate search on the most cores, then the winner on the other numbers of cores.

    Parameters
    ----------
    run
        runs one trial.
    cores
        the numbers of cores to measure.
    accepted
        the keywords that the query takes.
    seconds_left
        tells what is left of the time budget.
    most_trials
        how many trials to run at most.
    defaults
        whether to measure Spark's defaults too, to compare with.
    """

    def __init__(
        self,
        run: Run,
        cores: Sequence[int],
        accepted: tuple[str, ...],
        seconds_left: Callable[[], float],
        most_trials: float = inf,
        defaults: bool = True,
    ) -> None:
        self._run = run
        self._cores = sorted(set(cores))
        self._accepted = accepted
        self._seconds_left = seconds_left
        self._most_trials = most_trials
        self._defaults = defaults
        self.trials: list[Trial] = []

    def go(self) -> None:
        """Run all trials that there is time for."""
        top = self._cores[-1]
        self._try(advised(top), START, None)
        if self._defaults:
            self._try(spark_defaults(top), BASELINE, advised(top), BASELINE_SHARE * self._seconds_left())
        if self.winner() is None:
            return
        while self._climb():
            pass
        self._confirm()
        self._curve()

    def of(self, settings: Settings) -> list[Trial]:
        """The runs of the same settings that measured something worth comparing."""
        return [trial for trial in self.trials if trial.settings == settings and trial.status == DONE]

    def score(self, settings: Settings) -> float:
        return median_rate(self.of(settings)) or 0.0

    def ranking(self) -> list[Settings]:
        """Settings on the most cores that ran to the end, the best first."""
        top = self._cores[-1]
        finished = {trial.settings: None for trial in self.trials if trial.status == DONE}
        return sorted((s for s in finished if s.cores == top), key=self.score, reverse=True)

    def winner(self) -> Settings | None:
        ranking = self.ranking()
        return ranking[0] if ranking else None

    def _try(self, settings: Settings, purpose: str, rival: Settings | None, limit: float = inf) -> Trial | None:
        """Run a trial if there is time left for it."""
        if self._seconds_left() <= 0 or len(self.trials) >= self._most_trials:
            return None
        runs = self.of(rival) if rival else []
        trial = self._run(settings, purpose, runs[-1] if runs else None, limit)
        self.trials.append(trial)
        return trial

    def _climb(self) -> bool:
        """Try each axis once; tells whether one of them gave something better."""
        improved = False
        best = self.winner()
        assert best is not None
        tried = {trial.settings for trial in self.trials}
        for axis in alternatives(best, self._accepted):
            # The options of an axis, with what the axes before it found.
            for settings in alternatives(best, self._accepted)[axis]:
                if settings in tried:
                    continue
                if not self._room_before_the_curve():
                    return False
                tried.add(settings)
                self._try(settings, axis, best)
            found = max((s for s in self.ranking() if s in tried), key=self.score)
            if self.score(found) > self.score(best) * (1 + NOISE):
                best, improved = found, True
        return improved

    def _confirm(self) -> None:
        """Run the two best again, since one run may have been lucky."""
        for settings in self.ranking()[:2] if len(self.ranking()) > 1 else []:
            if self._room_before_the_curve():
                self._try(settings, AGAIN, None)

    def _curve(self) -> None:
        """Run the winner on the other numbers of cores, the most first."""
        winner = self.winner()
        assert winner is not None
        for cores in reversed(self._cores[:-1]):
            self._try(winner.on_cores(cores), CURVE, None)

    def points(self) -> list[tuple[int, float]]:
        """Throughput by number of cores, of the winner."""
        winner = self.winner()
        if winner is None:
            return []
        on = {cores: median_rate(self.of(winner.on_cores(cores))) for cores in self._cores}
        return [(cores, rate) for cores, rate in on.items() if rate]

    def _seconds_of_a_trial(self) -> float:
        return max((t.seconds for t in self.trials if t.status == DONE), default=0.0)

    def _room_before_the_curve(self) -> bool:
        """Whether one more trial leaves enough for the curve, where fewer cores take longer."""
        top, usual = self._cores[-1], self._seconds_of_a_trial()
        reserved = sum(usual * min(top / cores, 3) for cores in self._cores[:-1])
        trials_left = self._most_trials - len(self.trials)
        return self._seconds_left() >= reserved + usual and trials_left >= len(self._cores)
