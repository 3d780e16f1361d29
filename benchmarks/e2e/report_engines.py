"""The section of the report on other engines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from . import charts
from .engine_programs import LEFT_OUT
from .figures import Figures, Spread
from .markdown import picture, rounded, table

INTRODUCTION = """\
Other engines that a Python user can install from PyPI for such a job on one machine, each in a process of its own, over
the same Parquet files; two cores for all. Rows are read with pyarrow and handed over as fast as the engine takes them.
A second line shows what an engine does when pyarrow adds up each batch by key first, which a user would have to write;
Spark and Millrace do so by themselves. Where rows are handed over one by one in Python, and where an engine's time
grows faster than its keys, runs have a tenth of the rows and of the keys, so that each key has as many; the smaller
state is in favour of the others. So is that they keep it in memory alone: their persistence is off, while Spark and
Millrace commit all state in every micro-batch.

Before anything is timed, all run over the same small files, and what they give must be Spark's own results: the same
counts, sums and pairs, where rows are updated the last of each key. Start-up is not counted: Spark's and Millrace's
first micro-batches are left out, and the others' clocks start at the first batch that they ask for. The figures of
Spark and Millrace are of micro-batches, those of the others of whole runs, a few seconds each.
"""


def section(figures: Figures, folder: Path) -> Iterator[str]:
    """Tables, chart, and who is missing and why."""
    yield "## Other engines\n"
    yield INTRODUCTION
    entries = [entry for entry in figures.engines if entry.get("runs")]
    if entries:
        drawn = charts.engines(entries, folder / "charts" / "engines.png")
        yield picture(drawn, folder, "Rows a second of all engines")
    for entry in entries:
        title = entry["title"][0].upper() + entry["title"][1:]
        yield (
            f"**{title}.** {entry['batches']} batches of {entry['rows']:,} rows, "
            f"{entry['keys']:,} keys; {entry['checked rows']:,} rows of results compared.\n"
        )
        yield table(["", "share of rows", "min", "median", "max", "figures", "Millrace is"], list(rows_of(entry)))
    if figures.engine_versions:
        yield "Versions: " + ", ".join(f"{name} {is_at}" for name, is_at in figures.engine_versions.items()) + ".\n"
    yield "Not here:\n"
    for name, reason in {**figures.absent, **LEFT_OUT}.items():
        yield f"- {name}: {reason}."
    yield ""


def slower(entries: list[dict]) -> Iterator[str]:
    """Where another engine, or Spark, does more rows a second than Millrace."""
    for entry in entries:
        medians = {run["engine"]: Spread.of(run["rates"]).median for run in entry["runs"]}
        for name, median in medians.items():
            if median > medians.get("Millrace", median):
                times = median / medians["Millrace"]
                yield f"engines, {entry['job']}: {name}; Millrace takes {times:.2f} times as long"


def rows_of(entry: dict) -> Iterator[list[str]]:
    """Rows a second of every engine, the fastest first."""
    medians = {run["engine"]: Spread.of(run["rates"]).median for run in entry["runs"]}
    for run in sorted(entry["runs"], key=lambda run: -medians[run["engine"]]):
        rates = Spread.of(run["rates"])
        times = medians["Millrace"] / rates.median if "Millrace" in medians else None
        said = "" if times is None or run["engine"] == "Millrace" else f"{rounded(times)}× as fast"
        speeds = [f"{rate:,.0f}" for rate in (rates.least, rates.median, rates.greatest)]
        yield [run["engine"], f"{run['share']:g}", *speeds, str(rates.count), said]
