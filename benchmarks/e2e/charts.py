"""Charts of the figures, as PNG."""

from __future__ import annotations

from collections.abc import Sequence
from math import log10
from pathlib import Path

from .figures import Ratio, Spread, timed
from .markdown import rounded

OURS, THEIRS, WANTED, FAINT = "#2f6db5", "#8a8f98", "#c0392b", "#d7dade"
DOTS = 110


def canvas(height: float, title: str):
    """A figure without a screen."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, height), layout="constrained")
    axes.set_title(title, loc="left", fontsize=11)
    for edge in ("top", "right"):
        axes.spines[edge].set_visible(False)
    return figure, axes


def saved(figure, path: Path) -> Path:
    from matplotlib import pyplot

    path.parent.mkdir(parents=True, exist_ok=True)
    # No version of matplotlib in the file: the same figures give the same bytes.
    figure.savefig(path, dpi=DOTS, metadata={"Software": None})
    pyplot.close(figure)
    return path


def ratios(rows: Sequence[Ratio], path: Path, title: str = "How many times as fast as Spark's own") -> Path:
    """Bars of the ratios, with a mark where each should reach."""
    figure, axes = canvas(1.3 + 0.36 * len(rows), title)
    names = [f"{row.name.partition(', ')[2]}, {row.store}" for row in rows]
    colours = [OURS if row.times >= 1 else THEIRS for row in rows]
    bars = axes.barh(names, [row.times - 1 for row in rows], left=1, color=colours, height=0.62)
    for row, bar in zip(rows, bars, strict=True):
        middle = bar.get_y() + bar.get_height() / 2
        end = max(row.times, 1, row.target or 0)
        axes.annotate(f"{rounded(row.times)}×", (end, middle), xytext=(6, 0), textcoords="offset points", va="center")
        if row.target is not None:
            axes.plot([row.target] * 2, [middle - 0.42, middle + 0.42], color=WANTED, linewidth=2)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xscale("log")
    greatest = max(max(row.times, row.target or 1) for row in rows)
    axes.set_xlim(min(0.5, 0.8 * min(row.times for row in rows)), 1.8 * max(greatest, 2))
    plain_ticks(axes.xaxis)
    axes.set_xlabel("time of Spark's own ÷ time of Millrace (red: to reach)")
    axes.invert_yaxis()
    return saved(figure, path)


def plain_ticks(axis) -> None:
    """1, 2, 5, 10 … rather than powers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axis.set_minor_formatter(NullFormatter())


def by_keys(entries: Sequence[dict], path: Path, store: str) -> Path:
    """Seconds a micro-batch of every stateful API over the number of keys."""
    figure, axes = canvas(4.2, f"Stateful counter, {entries[0]['rows']:,} rows a micro-batch, {store} store")
    names = list(dict.fromkeys(name for entry in entries for name in entry["sides"]))
    shades = iter(["#4d525a", "#7d838d", "#a9aeb6", "#c9ccd1"])
    ours = iter([OURS, "#7db0e8"])
    ends = {}
    for name in names:
        mine = name.startswith("Millrace")
        points = sorted((e["keys"], Spread.of(timed(e, name)).median / 1000) for e in entries if timed(e, name))
        keys, seconds = zip(*points, strict=True)
        axes.plot(keys, seconds, marker="o", color=next(ours if mine else shades), linewidth=2.4 if mine else 1.6)
        ends[name] = keys[-1], seconds[-1]
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(sorted({e["keys"] for e in entries}))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.xaxis.minorticks_off()
    plain_ticks(axes.yaxis)
    axes.grid(axis="y", color=FAINT, linewidth=0.6)
    axes.margins(x=0.05)
    for name, height in apart({name: log10(end[1]) for name, end in ends.items()}).items():
        axes.annotate(name, ends[name], xytext=(ends[name][0] * 1.12, 10**height), va="center", fontsize=9)
    # Room for the names.
    left, right = axes.get_xlim()
    axes.set_xlim(left, right * (right / left) ** 0.42)
    axes.set_xlabel("keys")
    axes.set_ylabel("seconds a micro-batch (log)")
    return saved(figure, path)


def apart(heights: dict[str, float], least: float = 0.13) -> dict[str, float]:
    """Heights of names, moved up where one would cover the one below it."""
    moved: dict[str, float] = {}
    for name in sorted(heights, key=heights.__getitem__):
        below = max(moved.values(), default=-float("inf"))
        moved[name] = max(heights[name], below + least)
    return moved


def engines(entries: Sequence[dict], path: Path) -> Path:
    """Rows a second of every engine, a group of bars for each job."""
    rates = [Spread.of(run["rates"]).median for entry in entries for run in entry["runs"]]
    figure, axes = canvas(1.4 + 0.3 * len(rates) + 0.3 * len(entries), "Rows a second, two cores")
    place, ticks, labels = 0.0, [], []
    for entry in entries:
        axes.annotate(entry["title"], (0, place), (8, 0), axes.get_yaxis_transform(), "offset points", va="center")
        for run in sorted(entry["runs"], key=lambda r: -Spread.of(r["rates"]).median):
            place += 1
            rate = Spread.of(run["rates"]).median
            # Dots: bars would have to begin at nought, which a logarithmic scale does not have.
            axes.plot(rate, place, marker="o", markersize=8, color=OURS if run["engine"] == "Millrace" else THEIRS)
            axes.annotate(f"{rate:,.0f}", (rate, place), xytext=(9, 0), textcoords="offset points", va="center",
                          fontsize=9)  # fmt: skip
            ticks.append(place)
            labels.append(run["engine"])
        place += 1.5
    axes.set_yticks(ticks, labels)
    axes.set_xscale("log")
    axes.set_xlim(min(rates) / 4, max(rates) * 4)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_ylim(place - 0.6, -0.9)
    axes.grid(axis="x", color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_xlabel("rows a second (log)")
    return saved(figure, path)
