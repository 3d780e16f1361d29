"""Sentences and cells that the terminal and the HTML report share."""

from __future__ import annotations

from ..watch import NOTHING, count, memory
from .outcome import Outcome
from .scaling import AMDAHL, Fit
from .settings import Settings, on_off
from .trial import Trial

HEADINGS = ("#", "for", "cores", "partitions", "buckets", "Arrow rows", "store", "daemon", "map side", "rows/s",
            "batch ms", "longest", "CPU s/M rows", "memory", "status")  # fmt: skip


def setting_cells(settings: Settings) -> dict[str, str]:
    """Settings by name, as texts.

    Examples
    --------
    >>> setting_cells(Settings(2, 4))["buckets"]
    'default'
    """
    return {
        "cores": str(settings.cores),
        "partitions": str(settings.partitions),
        "buckets": str(settings.buckets or "default"),
        "Arrow rows": f"{settings.arrow_rows:,}",
        "store": settings.store,
        "daemon": on_off(settings.daemon),
        "map side": on_off(settings.map_side),
    }


def figure_cells(trial: Trial) -> dict[str, str]:
    """What a trial measured, as texts."""
    latency, cpu, peak = trial.latency_ms, trial.cpu_per_million(), trial.peak_memory()
    return {
        "rows/s": count(trial.rows_per_second),
        "batch ms": f"{latency[0]:,.0f}" if latency else NOTHING,
        "longest": f"{latency[1]:,.0f}" if latency else NOTHING,
        "CPU s/M rows": f"{sum(cpu.values()):.2f}" if cpu else NOTHING,
        "memory": memory(sum(peak.values())) if peak else NOTHING,
    }


def trial_cells(trial: Trial) -> list[str]:
    """A trial's texts, in the order of `HEADINGS`."""
    status = f"{trial.status}: {trial.reason}" if trial.reason else trial.status
    cells = setting_cells(trial.settings) | figure_cells(trial)
    return [str(trial.number), trial.purpose, *cells.values(), status]


def verdict(outcome: Outcome) -> str:
    """The result in a sentence."""
    if outcome.winner is None:
        return "No trial was measured to its end."
    said = f"{count(outcome.best_rate)} rows/s with {outcome.winner}"
    gain = outcome.gain
    if gain is None:
        return f"{said}."
    theirs = count(outcome.baseline.rows_per_second if outcome.baseline else None)
    return f"{said}: {gain:.2f} times Spark's defaults ({theirs})."


def fit_sentences(fit: Fit) -> list[str]:
    """What the law says, and how far to trust it."""
    said = f"{fit.serial:.1%} of the work is serial"
    lines = [f"{fit.law}: {count(fit.one)} rows/s on one core, {said}" + (
        "." if fit.law == AMDAHL else f", crosstalk {fit.crosstalk:.2g} a pair of cores."
    )]  # fmt: skip
    if fit.peak is not None:
        lines.append(f"Beyond about {fit.peak:.0f} cores, more of them would be slower.")
    elif fit.limit is not None:
        lines.append(f"No number of cores would exceed {count(fit.limit)} rows/s.")
    how = "no R²" if fit.r2 is None else f"R² {fit.r2:.3f}"
    off = [
        f"{'−' if r < 0 else '+'}{count(abs(r))} on {n}" for (n, _), r in zip(fit.points, fit.residuals, strict=True)
    ]
    lines.append(f"Fit: {len(fit.points)} points, {how}; measured less expected, by cores: {', '.join(off)} rows/s.")
    if fit.remark:
        lines.append(f"{fit.remark[0].upper()}{fit.remark[1:]}.")
    return lines


def expectation(outcome: Outcome, cores: int, rate: float) -> str:
    """One expected throughput, with what it rests on."""
    most = max(n for n, _ in outcome.points)
    kind = f"extrapolated from at most {most} cores, not measured" if cores > most else "by the fitted law"
    return f"{cores} cores: {count(rate)} rows/s ({kind})"
