"""What the terminal shows: progress while trials run, and the table at the end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from ..watch import count
from .outcome import Outcome
from .trial import DONE, FAILED, STAGES, Trial
from .wording import expectation, figure_cells, fit_sentences, verdict

COLUMNS = ("#", "rows/s", "batch ms", "longest", "CPU s/M", "memory", "settings")
STYLES = {DONE: "", FAILED: "red"}


class Display:
    """A bar that fills with the time budget, and a line for each trial that ended."""

    def __init__(self, console: Console, seconds: float, batches: int) -> None:
        self._console = console
        self._seconds = seconds
        self._batches = batches
        self._started = time.monotonic()
        self._progress = Progress(
            TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), console=console, transient=True
        )
        self._task = self._progress.add_task("starting", total=seconds)

    @contextmanager
    def shown(self) -> Iterator[Display]:
        if not self._console.is_terminal:
            yield self
            return
        with self._progress:
            yield self

    def watch(self, trial: Trial) -> None:
        """Called while a trial runs."""
        what = f"trial {trial.number} ({trial.purpose}), batch {len(trial.batches)} of {self._batches}"
        self._progress.update(self._task, description=what, completed=time.monotonic() - self._started)

    def ended(self, trial: Trial) -> None:
        """Called when a trial is over."""
        told = f"{count(trial.rows_per_second)} rows/s" if trial.rows_per_second else "nothing measured"
        status = "" if trial.status == DONE else f" ({trial.status}: {trial.reason})"
        line = f"{trial.number:>2}  {told:<16} {trial.purpose}: {trial.settings}{status}"
        self._console.print(Text(line, style=STYLES.get(trial.status, "dim")), soft_wrap=True)


def print_outcome(outcome: Outcome, console: Console) -> None:
    """Print the table of trials, where the time went, and what was found."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in COLUMNS:
        table.add_column(heading, justify="left" if heading == COLUMNS[-1] else "right", overflow="fold")
    for trial in outcome.trials:
        style = "bold green" if trial.settings == outcome.winner else STYLES.get(trial.status, "dim")
        status = f" ({trial.status})" if trial.status != DONE else ""
        cells = [str(trial.number), *figure_cells(trial).values(), f"{trial.settings}{status}"]
        table.add_row(*map(Text, cells), style=style)
    console.print(table)
    stages = _stage_table(outcome)
    if stages is not None:
        console.print("\ncore seconds per million rows, by stage", stages, sep="\n")
    console.print()
    console.print(Text(verdict(outcome), style="bold"), soft_wrap=True)
    if outcome.scaling is not None:
        console.print(Text(" ".join(fit_sentences(outcome.scaling))), soft_wrap=True)
    for cores, rate in outcome.expected.items():
        console.print(Text(expectation(outcome, cores, rate)), soft_wrap=True)


def _stage_table(outcome: Outcome) -> Table | None:
    bars = outcome.stage_bars()
    if not bars:
        return None
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for stage in STAGES:
        table.add_column(stage, justify="right")
    for name, trial in bars:
        stages = trial.stages() or {}
        table.add_row(name, *(f"{stages[stage]:.3f}" if stage in stages else "–" for stage in STAGES))
    return table
