"""The report's charts, as SVG that takes its colours from the page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from ..watch import count
from .scaling import Fit

# Drawn at a phone's width, so that text keeps its size there; wider pages enlarge it a little.
WIDTH, HEIGHT = 320, 220
LEFT, RIGHT, TOP, BOTTOM = 46, 10, 12, 34


def nice_step(top: float, steps: int = 4) -> float:
    """A round distance between an axis's marks.

    Examples
    --------
    >>> nice_step(870_000.0), nice_step(9.0)
    (250000.0, 2.5)
    """
    rough = max(top, 1e-9) / steps
    size = 10.0 ** np.floor(np.log10(rough))
    return float(next(factor * size for factor in (1, 2, 2.5, 5, 10) if factor * size >= rough * 0.999))


@dataclass(frozen=True)
class Axes:
    """Where numbers of cores and throughputs lie on the chart."""

    most_cores: float
    most_rows: float

    def x(self, cores: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * cores / self.most_cores

    def y(self, rate: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * rate / self.most_rows

    def curve(self, kind: str, fit: Fit, start: float, end: float) -> str:
        points = " ".join(f"{self.x(n):.1f},{self.y(fit.at(n)):.1f}" for n in np.linspace(start, end, 50))
        return f'<polyline class="{kind}" points="{points}"/>'

    def line(self, kind: str, start: tuple[float, float], end: tuple[float, float]) -> str:
        (n0, rate0), (n1, rate1) = start, end
        places = f'x1="{self.x(n0):.1f}" y1="{self.y(rate0):.1f}" x2="{self.x(n1):.1f}" y2="{self.y(rate1):.1f}"'
        return f'<line class="{kind}" {places}/>'

    def dot(self, kind: str, cores: float, rate: float, title: str) -> str:
        place = f'cx="{self.x(cores):.1f}" cy="{self.y(rate):.1f}" r="4.5"'
        return f'<circle class="{kind}" {place}><title>{escape(title)}</title></circle>'


def throughput_chart(points: Sequence[tuple[int, float]], fit: Fit | None, expected: Mapping[int, float]) -> str:
    """Throughput against cores: what was measured, the fitted law, and dashed what it promises."""
    measured = max(n for n, _ in points)
    last = max([measured, *expected])
    axes = Axes(last, max([rate for _, rate in points] + list(expected.values())) * 1.12)
    one = fit.one if fit else points[0][1] / points[0][0]
    reach = min(last, axes.most_rows / one)
    parts = [
        *_marks(axes, sorted({n for n, _ in points} | set(expected))),
        axes.line("ideal", (0, 0), (reach, one * reach)),
    ]
    if fit is not None:
        parts.append(axes.curve("fit", fit, points[0][0], measured))
        if last > measured:
            parts.append(axes.curve("fit beyond", fit, measured, last))
    parts += [
        axes.dot("promised", n, rate, f"{n} cores: {count(rate)} rows/s expected") for n, rate in expected.items()
    ]
    for n, rate in points:
        parts.append(axes.dot("measured", n, rate, f"{n} cores: {count(rate)} rows/s measured"))
        # Below and to the right of a rising curve there is room, but for the last point of all.
        x, y = axes.x(n), axes.y(rate) + 15
        at_edge = x + 8 > WIDTH - 50
        parts.append(_text("value", x if at_edge else x + 8, y, count(rate), "end" if at_edge else "start"))
    return _svg("Throughput against cores", HEIGHT, parts, "chart throughput")


def _marks(axes: Axes, cores: Sequence[int]) -> Iterator[str]:
    """The marks of both axes, with a line for each throughput."""
    step = nice_step(axes.most_rows)
    for i in range(int(axes.most_rows / step) + 1):
        yield axes.line("grid", (0, i * step), (axes.most_cores, i * step))
        yield _text("mark", LEFT - 6, axes.y(i * step) + 3.5, count(i * step), "end")
    yield from (_text("mark", axes.x(n), HEIGHT - 18, str(n), "middle") for n in cores)
    yield _text("mark", (LEFT + WIDTH) / 2, HEIGHT - 4, "cores", "middle")


def _text(kind: str, x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def stage_chart(bars: Sequence[tuple[str, Mapping[str, float]]], stages: Sequence[str]) -> str:
    """Core seconds per million rows, one stacked bar a trial."""
    longest = max(sum(bar.values()) for _, bar in bars)
    scale = (WIDTH - 12) / longest
    parts, y = [], 2.0
    for name, bar in bars:
        total = f"{sum(bar.values()):.2f} core s per million rows"
        parts.append(f'<text class="value" x="2" y="{y + 10:.1f}">{escape(name)}</text>')
        parts.append(f'<text class="mark" x="{WIDTH - 2}" y="{y + 10:.1f}" text-anchor="end">{total}</text>')
        x = 2.0
        for i, stage in enumerate(stages):
            width = bar.get(stage, 0.0) * scale
            if width > 0:
                title = f"{stage}: {bar[stage]:.3f} s"
                parts.append(
                    f'<rect class="s{i}" x="{x:.2f}" y="{y + 16:.1f}" width="{width:.2f}" height="20">'
                    f"<title>{escape(title)}</title></rect>"
                )
            x += width
        y += 50
    return _svg("Time by stage", int(y), parts, "chart stages")


def _svg(title: str, height: int, parts: Sequence[str], classes: str) -> str:
    return (
        f'<svg class="{classes}" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{title}">{"".join(parts)}</svg>'
    )
