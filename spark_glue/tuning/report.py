"""The HTML report: one file that needs nothing else, for phones and desktops, light and dark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources

from ..watch import NOTHING, count, memory
from .charts import stage_chart, throughput_chart
from .outcome import Outcome
from .settings import spark_defaults
from .trial import STAGES
from .wording import HEADINGS, expectation, figure_cells, fit_sentences, setting_cells, trial_cells, verdict

NUMBERS = {"#", "cores", "partitions", "Arrow rows", "rows/s", "batch ms", "longest", "CPU s/M rows", "memory"}


def html_report(outcome: Outcome) -> str:
    """Write the report."""
    style = resources.files(__package__).joinpath("report.css").read_text()
    parts = [
        _summary(outcome),
        _scaling(outcome),
        _stages(outcome),
        _settings(outcome),
        _conf(outcome),
        _trials(outcome),
    ]
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>millrace tune: {escape(outcome.job.name)}</title>
<link rel="icon" href="data:,">
<style>
{style}</style>
</head>
<body>
<main>
{"".join(filter(None, parts))}
</main>
</body>
</html>
"""


def _section(title: str, *parts: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{''.join(parts)}</section>\n"


def _beside(chart: str, legend: str, text: str) -> str:
    """A chart with its legend, and beside it, where there is room, what it says."""
    return f'<div class="beside"><div>{chart}<p class="legend">{legend}</p></div><div>{text}</div></div>'


def _paragraphs(lines: Iterable[str], kind: str = "") -> str:
    return "".join(f'<p class="{kind}">{escape(line)}</p>' if kind else f"<p>{escape(line)}</p>" for line in lines)


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "") -> str:
    """A table; each cell knows its heading, which narrow screens show beside it."""
    head = "".join(f"<th{_numeric(h)}>{escape(h)}</th>" for h in headings)
    body = "".join(f"<tr>{''.join(map(_cell, headings, row))}</tr>" for row in rows)
    return f'<table class="{kind}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _cell(heading: str, text: str) -> str:
    return f'<td data-label="{escape(heading)}"{_numeric(heading)}>{escape(text)}</td>'


def _numeric(heading: str) -> str:
    return ' class="number"' if heading in NUMBERS else ""


def _summary(outcome: Outcome) -> str:
    best = outcome.best
    notes = []
    if outcome.interrupted:
        notes.append("The run was interrupted: this is what had been measured by then.")
    if outcome.note:
        notes.append(f"{outcome.note[0].upper()}{outcome.note[1:]}.")
    tiles = []
    if best is not None:
        latency, cpu, peak = best.latency_ms, best.cpu_per_million(), best.peak_memory()
        tiles = [
            ("rows a second", count(outcome.best_rate)),
            ("against the defaults", f"{outcome.gain:.2f}×" if outcome.gain else NOTHING),
            ("batch, median", f"{latency[0]:,.0f} ms" if latency else NOTHING),
            ("batch, longest", f"{latency[1]:,.0f} ms" if latency else NOTHING),
            ("CPU per million rows", f"{sum(cpu.values()):.2f} s" if cpu else NOTHING),
            ("peak memory", memory(sum(peak.values())) if peak else NOTHING),
        ]
        if cpu and peak:
            notes.append(
                f"CPU: {cpu['jvm']:.2f} s in the JVM, {cpu['python']:.2f} s in Python workers. "
                f"Memory: {memory(peak['jvm'])} and {memory(peak['python'])}."
            )
    drawn = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in tiles)
    versions = "".join(f", {name.capitalize()} {version}" for name, version in outcome.versions.items())
    about = (
        f"{len(outcome.trials)} trials in {outcome.seconds / 60:.1f} minutes, on a machine with {outcome.cores_here} "
        f"core{'s' * (outcome.cores_here != 1)}{versions}. Each trial: {outcome.job.warm_up} batches of warm-up, then "
        f"up to {outcome.job.batches} that count."
    )
    return (
        f'<header><p class="kicker">millrace tune</p><h1>{escape(outcome.job.name)}</h1>'
        f'<p class="verdict">{escape(verdict(outcome))}</p></header>'
        + (f"<dl>{drawn}</dl>" if drawn else "")
        + _paragraphs(notes)
        + _paragraphs([about], "quiet")
    )


def _scaling(outcome: Outcome) -> str:
    if not outcome.points:
        return ""
    fit = outcome.scaling
    chart = throughput_chart(outcome.points, fit, outcome.expected)
    marks = {"dot measured": "measured", "bar ideal": "twice the cores, twice the rows"}
    marks |= {"bar fit": "fitted law"} if fit else {}
    marks |= {"dot promised": "expected by it"} if outcome.expected else {}
    legend = "".join(f'<span><i class="{kind}"></i>{text}</span>' for kind, text in marks.items())
    if fit is None:
        said = ["Measured on one number of cores only; two or more tell how it scales (--cores 1,2)."]
    else:
        said = fit_sentences(fit) + [expectation(outcome, cores, rate) for cores, rate in outcome.expected.items()]
    return _section("Throughput against cores", _beside(chart, legend, _paragraphs(said)))


def _stages(outcome: Outcome) -> str:
    bars = [(name, trial.stages() or {}) for name, trial in outcome.stage_bars()]
    if not bars:
        return ""
    legend = "".join(f'<span><i class="box s{i}"></i>{escape(stage)}</span>' for i, stage in enumerate(STAGES))
    rows = [[stage, *(f"{bar[stage]:.3f}" if stage in bar else NOTHING for _, bar in bars)] for stage in STAGES]
    note = (
        "Seconds of cores per million rows. The first six are timed in the Python workers (shuffle and state also "
        "in the JVM); “other in tasks” and “outside tasks” are what is left of the tasks' and of the cores' time."
    )
    table = _table(["stage", *(name for name, _ in bars)], rows, "narrow figures")
    return _section("Time by stage", _beside(stage_chart(bars, STAGES), legend, table), _paragraphs([note], "quiet"))


def _settings(outcome: Outcome) -> str:
    winner, baseline = outcome.winner, outcome.baseline
    if winner is None:
        return ""
    mine = setting_cells(winner)
    theirs = setting_cells(baseline.settings if baseline else spark_defaults(winner.cores))
    best = outcome.best
    if best is not None:
        nothing = dict.fromkeys(figure_cells(best), NOTHING)
        mine |= figure_cells(best) | {"rows/s": count(outcome.best_rate)}
        theirs |= figure_cells(baseline) if baseline else nothing
    rows = [[name, mine[name], theirs[name]] for name in mine]
    return _section("Best settings against Spark's defaults", _table(["", "best", "defaults"], rows, "narrow"))


def _conf(outcome: Outcome) -> str:
    return _section("To paste", f"<pre>{escape(outcome.conf())}</pre>") if outcome.winner else ""


def _trials(outcome: Outcome) -> str:
    return _section("All trials", _table(HEADINGS, map(trial_cells, outcome.trials), "cards"))
