"""The report's charts, as SVG that takes its colours from the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


def throughput_chart(points: Sequence[tuple[int, float]], fit: Fit | None, expected: Mapping[int, float]) -> str:
    """Throughput against cores: what was measured, the fitted law, and dashed what it promises."""
    measured = max(n for n, _ in points)
    last = max([measured, *expected])
    rates = [rate for _, rate in points] + list(expected.values())
    one = fit.one if fit else points[0][1] / points[0][0]
    top = max(rates) * 1.12
    across = lambda n: LEFT + (WIDTH - LEFT - RIGHT) * n / last  # noqa: E731
    up = lambda rate: HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * rate / top  # noqa: E731
    parts = []
    step = nice_step(top)
    for i in range(int(top / step) + 1):
        y = up(i * step)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="mark" x="{LEFT - 6}" y="{y + 3.5:.1f}" text-anchor="end">{count(i * step)}</text>')
    marked = sorted({n for n, _ in points} | set(expected))
    parts += [_text("mark", across(n), HEIGHT - 18, str(n), "middle") for n in marked]
    parts.append(f'<text class="mark" x="{(LEFT + WIDTH) / 2}" y="{HEIGHT - 4}" text-anchor="middle">cores</text>')
    reach = min(last, top / one)
    parts.append(
        f'<line class="ideal" x1="{across(0)}" y1="{up(0)}" x2="{across(reach):.1f}" y2="{up(one * reach):.1f}"/>'
    )
    if fit is not None:
        curve = lambda cores: " ".join(f"{across(n):.1f},{up(fit.at(n)):.1f}" for n in cores)  # noqa: E731
        first = points[0][0]
        parts.append(f'<polyline class="fit" points="{curve(np.linspace(first, measured, 40))}"/>')
        if last > measured:
            parts.append(f'<polyline class="fit beyond" points="{curve(np.linspace(measured, last, 60))}"/>')
    for n, rate in expected.items():
        parts.append(_dot("promised", across(n), up(rate), f"expected on {n} cores: {count(rate)} rows/s"))
    for n, rate in points:
        parts.append(_dot("measured", across(n), up(rate), f"measured on {n} cores: {count(rate)} rows/s"))
        # Below and to the right of a rising curve there is room, but for the last point of all.
        beyond = across(n) + 8 > WIDTH - 50
        parts.append(
            _text("value", across(n) + (0 if beyond else 8), up(rate) + 15, count(rate), "end" if beyond else "start")
        )
    return _svg("Throughput against cores", HEIGHT, parts, "chart throughput")


def _dot(kind: str, x: float, y: float, title: str) -> str:
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="4.5"><title>{escape(title)}</title></circle>'


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
