"""The report: figures as a page of Markdown, with charts beside it. Measures nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from . import charts, report_engines, report_texts
from .figures import Figures, Ratio, Spread, ratios_of, timed
from .markdown import picture, rounded, table

SECTIONS = (("aggregate", "Aggregate"), ("join", "Join"), ("stateful", "Stateful functions"))


def write(figures: Figures, path: Path) -> None:
    """Write the page, and its charts into `charts/` beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(page(figures, path.parent)).rstrip() + "\n")


def page(figures: Figures, folder: Path) -> Iterator[str]:
    """The lines of the page."""
    yield "# Benchmark report\n"
    yield report_texts.INTRODUCTION
    ratios = [ratio for entry in figures.spark for ratio in ratios_of(entry)]
    yield from summary(ratios, list(report_engines.slower(figures.engines)))
    for section, title in SECTIONS:
        entries = [entry for entry in figures.spark if entry["section"] == section]
        if any(ratios_of(entry) for entry in entries):
            yield f"## {title}\n"
            yield report_texts.SECTIONS[section]
            yield from section_of(section, title, entries, folder)
    if figures.engines or figures.absent:
        yield from report_engines.section(figures, folder)
    yield from how(figures)
    yield "## What to mind\n"
    yield report_texts.TO_MIND


def summary(ratios: list[Ratio], slower_engines: list[str]) -> Iterator[str]:
    """Which ratios were reached, which were missed, and where another than Millrace is faster."""
    wanted = [ratio for ratio in ratios if ratio.target is not None]
    missed = [ratio for ratio in wanted if ratio.verdict == "MISSED"]
    slower = [
        f"{ratio.name} on {ratio.store}: Spark's own; Millrace takes {1 / ratio.times:.2f} times as long"
        for ratio in ratios
        if ratio.times < 1
    ]
    slower += slower_engines
    if wanted:
        yield f"**{len(wanted) - len(missed)} of {len(wanted)} ratios to reach were reached.**\n"
    for ratio in missed:
        yield f"- **Missed:** {ratio.name} on {ratio.store}: {ratio.times:.2f} of {ratio.target:g}."
    if missed:
        yield ""
    if slower:
        yield "\nMillrace is **not the fastest** in:\n"
        for line in slower:
            yield f"- {line}."
        yield ""
        yield report_texts.WHY_SLOWER
    elif ratios:
        yield "\nIn none of the comparisons below is another than Millrace faster.\n"


def section_of(section: str, title: str, entries: list[dict], folder: Path) -> Iterator[str]:
    ratios = [ratio for entry in entries for ratio in ratios_of(entry)]
    yield table(["", "store", "Spark's", "Millrace", "ratio", "to reach", ""], [ratio_row(r) for r in ratios], left=2)
    drawn = charts.ratios(ratios, folder / "charts" / f"{section}.png", f"{title}: times as fast as Spark's own")
    yield picture(drawn, folder, f"Ratios of {title.lower()}")
    if section == "stateful":
        for store in dict.fromkeys(entry["store"] for entry in entries):
            there = [entry for entry in entries if entry["store"] == store]
            if len({entry["keys"] for entry in there}) > 1:
                drawn = charts.by_keys(there, folder / "charts" / f"stateful-{store}.png", store)
                yield picture(drawn, folder, f"Seconds a micro-batch by number of keys, {store}")
    yield "Milliseconds a micro-batch:\n"
    heading = ["", "store", "", "min", "median", "max", "batches", "M rows/s"]
    yield table(heading, [row for entry in entries for row in side_rows(entry)], left=3)


def ratio_row(ratio: Ratio) -> list[str]:
    verdict = {"": "", "reached": "reached", "MISSED": "**missed**"}[ratio.verdict]
    seconds = [f"{side.median / 1000:.2f} s" for side in (ratio.own, ratio.ours)]
    target = "" if ratio.target is None else f"{ratio.target:g}"
    return [ratio.name, ratio.store, *seconds, f"**{rounded(ratio.times)}**", target, verdict]


def side_rows(entry: dict) -> Iterator[list[str]]:
    """A row for each side that was measured."""
    for name in entry["sides"]:
        if taken := timed(entry, name):
            side = Spread.of(taken)
            warm_up = len(entry["sides"][name][0]["warm-up"])
            yield [
                entry["workload"], entry["store"], name, f"{side.least:,.0f}", f"{side.median:,.0f}",
                f"{side.greatest:,.0f}", f"{side.count} after {warm_up}", f"{entry['rows'] / side.median / 1000:.3f}",
            ]  # fmt: skip


def how(figures: Figures) -> Iterator[str]:
    """Machine, versions, commands and checks."""
    yield "## How it was measured\n"
    yield report_texts.METHOD
    facts = {
        **figures.machine,
        "commit": ", ".join(filter(None, figures.commits)),
        "measured": f"{figures.started} to {figures.finished}",
    }
    yield table(["", ""], [[name, value] for name, value in facts.items() if value], left=2)
    yield "The command:\n"
    yield "```sh\n" + "\n".join(figures.commands) + "\n```\n"
    chosen = {name.replace("_", "-"): value for name, value in figures.settings.items() if value is not None}
    yield "Settings: " + ", ".join(f"{name} {value}" for name, value in chosen.items()) + ".\n"
    yield from checks(figures.spark)


def checks(entries: list[dict]) -> Iterator[str]:
    """What the small runs before the measurement gave on all sides."""
    checked = [entry for entry in entries if "check" in entry]
    if not checked:
        yield "The results of the sides were not compared with each other (`--no-check`).\n"
        return
    yield report_texts.CHECKED
    heading = ["", "store", "sides", "rows in", "rows out", "checksum"]
    rows = [
        [e["workload"], e["store"], str(len(e["check"]["sides"])), f"{e['check']['rows in']:,}",
         f"{e['check']['rows out']:,}", f"`{e['check']['checksum']}`"]
        for e in checked
    ]  # fmt: skip
    yield table(heading, rows, left=2)
    unchecked = [f"{e['workload']} on {e['store']}" for e in entries if "check" not in e]
    if unchecked:
        yield f"Not compared: {'; '.join(unchecked)}.\n"
