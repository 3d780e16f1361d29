"""Programs of other engines, each started in a process, and where possible an environment, of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

BENCHMARKS = Path(__file__).parents[1]
ENVIRONMENTS = BENCHMARKS.parent / ".venv-engines"
NOT_INSTALLED = 3
MINUTES = 5


@dataclass(frozen=True)
class Way:
    """How an engine gets its rows, and which share of the rows and keys it gets in the timed runs."""

    name: str
    share: float
    label: str = ""


ROWS = Way("rows", 0.1)
PARTIALS = Way("partials", 1.0, "batches added up by pyarrow first")
# Bytewax's time for windows grows with the square of the keys: 3 s with 10,000, 21 s with 25,000, a quarter of an hour
# with all of them.
FEWER_PARTIALS = replace(PARTIALS, share=0.1)


@dataclass(frozen=True)
class Engine:
    """An engine, and the ways that it does each job in."""

    name: str
    title: str
    jobs: dict[str, tuple[Way, ...]]

    @property
    def python(self) -> str:
        own = ENVIRONMENTS / self.name / "bin" / "python"
        return str(own) if own.exists() else sys.executable

    def run(self, *arguments: str) -> dict:
        """Start the program; gives what it tells, or raises `Absent` with the reason."""
        command = [self.python, "-m", f"engines.{self.name}_engine", *arguments]
        try:
            ended = subprocess.run(command, capture_output=True, text=True, cwd=BENCHMARKS, timeout=MINUTES * 60)
        except subprocess.TimeoutExpired:
            raise Absent(f"not done after {MINUTES} minutes") from None
        if ended.returncode == NOT_INSTALLED:
            raise Absent(f"not installed; `make .venv-engines/{self.name}` installs it")
        if ended.returncode:
            raise Absent(f"failed: {(ended.stderr.strip() or 'without a word').splitlines()[-1]}")
        return json.loads(ended.stdout.strip().splitlines()[-1])

    def label(self, way: Way) -> str:
        return f"{self.title}, {way.label}" if way.label else self.title


class Absent(Exception):
    """Why an engine does not take part."""


ENGINES = (
    Engine(
        "bytewax", "Bytewax",
        {"windows": (ROWS, FEWER_PARTIALS), "running": (ROWS, PARTIALS), "counter": (ROWS,)},
    ),
    Engine(
        "pathway", "Pathway",
        {"windows": (ROWS, PARTIALS), "running": (ROWS, PARTIALS), "counter": (ROWS,), "join": (ROWS,)},
    ),
)  # fmt: skip

# What else a user may think of, and why it is not here.
LEFT_OUT = {
    "PyFlink": "installs and runs, but takes no batches from Python one after the other: `from_pandas` wants the whole "
    "input at once, and its own Parquet reader is on Maven alone, so that there is nothing comparable to time",
    "Quix Streams": "reads from and writes to a Kafka broker, another program that is not on PyPI",
    "Faust": "likewise needs Kafka",
    "Polars, DuckDB": "keep no state from one batch to the next, nor watermarks: what they compare with is the kernels "
    "alone, in `benchmarks/ratios.py`",
}
