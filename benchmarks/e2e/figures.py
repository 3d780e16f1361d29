"""The figures of a measurement, kept in one JSON file: saved after every query, gone on with, rendered again."""

from __future__ import annotations

import json
import shlex
import statistics
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

FORMAT = 1


class Unusable(SystemExit):
    """A file of figures that cannot be read or gone on with."""


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


@dataclass
class Figures:
    """What was measured, where, when and how.

    `spark` has one entry per workload and store, with the runs of each side; `engines` one per job of the
    comparison with other engines, and `absent` says which of those did not run, and why.
    """

    machine: dict[str, str]
    settings: dict[str, object]
    commands: list[str] = field(default_factory=list)
    commits: list[str] = field(default_factory=list)
    started: str = field(default_factory=now)
    finished: str = field(default_factory=now)
    spark: list[dict] = field(default_factory=list)
    engines: list[dict] = field(default_factory=list)
    absent: dict[str, str] = field(default_factory=dict)
    engine_versions: dict[str, str] = field(default_factory=dict)
    path: Path | None = None

    @classmethod
    def load(cls, path: Path) -> Figures:
        """Read a file."""
        try:
            read = json.loads(path.read_text())
            if read.pop("format") != FORMAT:
                raise ValueError("of another format")
            return cls(**read, path=path)
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise Unusable(f"{path}: no figures of this benchmark ({error})") from error

    def goes_on_from(self, path: Path) -> Figures:
        """The figures of a file, if they come from the same machine and settings; ours where there is no file."""
        if not path.exists():
            return self
        before = Figures.load(path)
        for what in ("machine", "settings"):
            was, now_is = getattr(before, what), getattr(self, what)
            names = [name for name in {**was, **now_is} if was.get(name) != now_is.get(name)]
            differing = [f"{name}: {was.get(name)} then, {now_is.get(name)} now" for name in names]
            if differing:
                raise Unusable(f"--resume: {path} has another {what} ({'; '.join(differing)}). Choose another --json.")
        before.commands += [c for c in self.commands if c not in before.commands]
        before.commits += [c for c in self.commits if c not in before.commits]
        return before

    def save(self) -> None:
        """Write the file, whole or not at all."""
        self.finished = now()
        if self.path is None:
            return
        fields = {name: value for name, value in vars(self).items() if name != "path"}
        new = self.path.with_name(self.path.name + ".new")
        new.write_text(json.dumps({"format": FORMAT, **fields}, indent=1) + "\n")
        new.replace(self.path)

    def entry(self, section: str, **wanted: object) -> dict:
        """The entry of `spark` or `engines` that has these values; made where it is missing."""
        entries: list[dict] = getattr(self, section)
        for found in entries:
            if all(found.get(name) == value for name, value in wanted.items()):
                return found
        entries.append(dict(wanted))
        return entries[-1]


@dataclass(frozen=True)
class Spread:
    """Least, median and greatest of some figures, and how many there are."""

    least: float
    median: float
    greatest: float
    count: int

    @classmethod
    def of(cls, figures: list[float]) -> Spread:
        return cls(min(figures), statistics.median(figures), max(figures), len(figures))


@dataclass(frozen=True)
class Ratio:
    """Spark's side against ours, in milliseconds a micro-batch."""

    name: str
    store: str
    rows: int
    own_name: str
    ours_name: str
    own: Spread
    ours: Spread
    target: float | None

    @property
    def times(self) -> float:
        return self.own.median / self.ours.median

    @property
    def verdict(self) -> str:
        if self.target is None:
            return ""
        return "reached" if self.times >= self.target else "MISSED"


def timed(entry: dict, side: str) -> list[float]:
    """Milliseconds of all timed micro-batches of a side."""
    return [ms for run in entry["sides"].get(side, ()) for ms in run["timed"]]


def ratios_of(entry: dict) -> list[Ratio]:
    """The comparisons of an entry of which both sides were measured."""
    return [
        Ratio(
            c["name"], entry["store"], entry["rows"], c["own"], c["ours"],
            Spread.of(timed(entry, c["own"])), Spread.of(timed(entry, c["ours"])), c["target"],
        )
        for c in entry["comparisons"]
        if timed(entry, c["own"]) and timed(entry, c["ours"])
    ]  # fmt: skip


def command_line() -> str:
    """How this program was started."""
    return shlex.join(["python", "benchmarks/end_to_end.py", *sys.argv[1:]])
