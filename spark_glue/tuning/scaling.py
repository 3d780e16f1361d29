"""How throughput grows with cores: Amdahl's law and the universal scalability law, fitted by least squares.

Both say what `n` cores give as a multiple of what one gives::

    X(n) = one × n / (1 + serial × (n − 1) + crosstalk × n × (n − 1))

Amdahl's law has no `crosstalk`: a share of the work is serial, and that is all that limits. With it (Gunther's
law) each core also costs the others something, so that there is a number of cores beyond which more are slower.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...kernels.errors import InvalidArgument

AMDAHL, USL = "Amdahl", "USL"
STEPS = 200
# A misfit of Amdahl's law that is worth a third parameter where there are only three points.
MISFIT = 0.05


@dataclass(frozen=True)
class Fit:
    """A fitted law; `r2` is None where the curve must pass through all points, so that it says nothing."""

    law: str
    one: float
    serial: float
    crosstalk: float
    points: tuple[tuple[int, float], ...]
    r2: float | None
    residuals: tuple[float, ...]
    remark: str = ""

    def at(self, cores: float) -> float:
        """The throughput to expect on so many cores."""
        return float(self.one * multiple(np.array([cores], float), self.serial, self.crosstalk)[0])

    @property
    def peak(self) -> float | None:
        """The number of cores beyond which more are slower, if there is one."""
        return float(np.sqrt((1 - self.serial) / self.crosstalk)) if self.crosstalk > 0 else None

    @property
    def limit(self) -> float | None:
        """What no number of cores can exceed, by Amdahl's law."""
        return self.one / self.serial if self.serial > 0 and not self.crosstalk else None


def multiple(cores: np.ndarray, serial: float, crosstalk: float) -> np.ndarray:
    """What cores give, as a multiple of one.

    Examples
    --------
    >>> multiple(np.array([1.0, 2.0, 4.0]), 0.0, 0.0)
    array([1., 2., 4.])
    """
    return cores / (1 + serial * (cores - 1) + crosstalk * cores * (cores - 1))


def fit(points: Sequence[tuple[int, float]]) -> Fit | None:
    """Fit both laws to throughputs by number of cores and give the one that suits; None below two points.

    Examples
    --------
    >>> found = fit([(1, 100.0), (2, 160.0)])
    >>> found.law, round(found.serial, 6), round(found.at(4))
    ('Amdahl', 0.25, 229)
    """
    points = tuple(sorted((int(n), float(x)) for n, x in points))
    if any(n < 1 or not x > 0 for n, x in points) or len({n for n, _ in points}) != len(points):
        raise InvalidArgument.of("points", points, "different numbers of cores of 1 or more, with throughputs above 0")
    if len(points) < 2:
        return None
    amdahl = _fitted(AMDAHL, points)
    if len(points) == 2:
        return replace(amdahl, r2=None, remark=_remark_on_two(points))
    usl = _fitted(USL, points)
    if len(points) == 3:
        mean = sum(x for _, x in points) / 3
        if max(map(abs, amdahl.residuals)) <= MISFIT * mean or not usl.crosstalk:
            return amdahl
        return replace(usl, r2=None, remark="three points always lie on a curve of three parameters: measure more")
    return usl if usl.crosstalk and _error(usl) < _error(amdahl) else amdahl


def _remark_on_two(points: Sequence[tuple[int, float]]) -> str:
    (few, low), (many, high) = points
    said = "two points give Amdahl's serial fraction alone, and no measure of how well the law holds"
    if high / low > many / few:
        return f"{said}; throughput grew by more than the cores did, so the fraction is taken as 0"
    if high < low:
        return f"{said}; throughput fell, which the law cannot say, so the fraction is taken as 1"
    return said


def _error(fitted: Fit) -> float:
    """The squared residuals by degrees of freedom: what a further parameter must lower."""
    parameters = 3 if fitted.law == USL else 2
    return sum(r * r for r in fitted.residuals) / (len(fitted.points) - parameters)


def _fitted(law: str, points: Sequence[tuple[int, float]]) -> Fit:
    cores, measured = (np.array(column, float) for column in zip(*points, strict=True))
    one, serial, crosstalk = _least_squares(cores, measured, law == USL)
    residuals = measured - one * multiple(cores, serial, crosstalk)
    spread = float(np.sum((measured - measured.mean()) ** 2))
    r2 = 1 - float(np.sum(residuals**2)) / spread if spread else None
    return Fit(law, one, serial, crosstalk, tuple(points), r2, tuple(map(float, residuals)))


def _least_squares(cores: np.ndarray, measured: np.ndarray, crosstalk_too: bool) -> tuple[float, float, float]:
    """Levenberg-Marquardt with the parameters held within bounds.

    It begins at the solution of the linear problem that n / X(n) makes, which is exact where the points lie
    on a curve.
    """
    terms = [np.ones_like(cores), cores - 1] + [cores * (cores - 1)] * crosstalk_too
    linear = np.linalg.lstsq(np.column_stack(terms), cores / measured, rcond=None)[0]
    scale = float(measured.max())
    unit = linear[0] if linear[0] > 0 else float(np.median(cores / measured))
    values = _bounded(np.array([1 / unit / scale, *(linear[1:] / unit)]))
    damping, error = 1e-3, _squares(values, cores, measured / scale)
    for _ in range(STEPS):
        residuals = measured / scale - _curve(values, cores)
        slopes = _slopes(values, cores)
        normal = slopes.T @ slopes
        step = np.linalg.lstsq(normal + damping * np.diag(np.diag(normal) + 1e-12), slopes.T @ residuals, rcond=None)[0]
        tried = _bounded(values + step)
        better = _squares(tried, cores, measured / scale)
        if better < error:
            values, error, damping = tried, better, damping / 4
        else:
            damping *= 4
    one, serial, *rest = map(float, values)
    return one * scale, serial, rest[0] if rest else 0.0


def _bounded(values: np.ndarray) -> np.ndarray:
    """Throughput is positive, the serial share between 0 and 1, crosstalk not negative; rounding errors are nothing."""
    low, high = np.array([1e-12, 0.0, 0.0]), np.array([np.inf, 1.0, np.inf])
    values = np.clip(values, low[: len(values)], high[: len(values)])
    values[1:][values[1:] < 1e-12] = 0.0
    return values


def _curve(values: np.ndarray, cores: np.ndarray) -> np.ndarray:
    return values[0] * multiple(cores, values[1], values[2] if len(values) > 2 else 0.0)


def _squares(values: np.ndarray, cores: np.ndarray, measured: np.ndarray) -> float:
    return float(np.sum((measured - _curve(values, cores)) ** 2))


def _slopes(values: np.ndarray, cores: np.ndarray) -> np.ndarray:
    """The derivatives of the curve by each parameter."""
    curve = _curve(values, cores)
    by_serial = -curve * curve * (cores - 1) / cores / values[0]
    columns = [curve / values[0], by_serial] + [by_serial * cores] * (len(values) > 2)
    return np.column_stack(columns)
