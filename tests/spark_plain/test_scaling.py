"""The scaling laws, on curves whose parameters are known."""

from __future__ import annotations

import numpy as np
import pytest
from millrace.kernels.errors import InvalidArgument
from millrace.spark_glue.tuning.scaling import AMDAHL, USL, fit


def amdahl(one, serial, cores):
    """The law as Amdahl wrote it: the serial part, and the rest divided."""
    return [(n, one / (serial + (1 - serial) / n)) for n in cores]


def usl(one, serial, crosstalk, cores):
    return [(n, one * n / (1 + serial * (n - 1) + crosstalk * n * (n - 1))) for n in cores]


@pytest.mark.parametrize("serial", [0.0, 0.05, 0.4, 1.0])
@pytest.mark.parametrize("cores", [(1, 2, 4), (1, 2, 4, 8, 16), (2, 3, 7)])
def test_points_on_amdahls_curve_give_its_parameters(serial, cores):
    found = fit(amdahl(250_000, serial, cores))
    assert found.law == AMDAHL and found.crosstalk == 0
    assert found.serial == pytest.approx(serial, abs=1e-6)
    assert found.one == pytest.approx(250_000, rel=1e-6)
    assert max(map(abs, found.residuals)) < 1
    if serial < 1:
        assert found.r2 == pytest.approx(1)


def test_what_is_expected_of_more_cores_by_hand():
    # Half of the work is serial: n cores take 1/2 + 1/(2n) of the time, so 8 give 16/9 and none more than 2.
    found = fit([(1, 900.0), (2, 1200.0), (4, 1440.0)])
    assert found.at(8) == pytest.approx(1600) and found.limit == pytest.approx(1800)


@pytest.mark.parametrize(("serial", "crosstalk"), [(0.05, 0.01), (0.0, 0.002), (0.2, 0.05)])
def test_points_on_the_universal_curve_give_its_parameters(serial, crosstalk):
    found = fit(usl(1e6, serial, crosstalk, (1, 2, 4, 8, 16)))
    assert found.law == USL
    assert (found.serial, found.crosstalk) == (pytest.approx(serial, abs=1e-6), pytest.approx(crosstalk, rel=1e-6))
    # Gunther's formula for the number of cores with the most throughput.
    assert found.peak == pytest.approx(np.sqrt((1 - serial) / crosstalk), rel=1e-5)


def test_noise_moves_the_parameters_little():
    rng = np.random.default_rng(5)
    noisy = [(n, x * rng.uniform(0.98, 1.02)) for n, x in amdahl(1e6, 0.1, (1, 2, 4, 8, 16, 32))]
    found = fit(noisy)
    assert found.at(1) == pytest.approx(1e6, rel=0.05) and found.at(32) == pytest.approx(noisy[-1][1], rel=0.05)
    assert 0.07 < found.serial < 0.13 and found.r2 > 0.99
    assert sum(abs(r) > 1 for r in found.residuals) >= 4


def test_no_better_curve_lies_nearby():
    """Least squares: whichever way the parameters are moved, the residuals grow."""
    rng = np.random.default_rng(8)
    points = [(n, x * rng.uniform(0.9, 1.1)) for n, x in usl(1e5, 0.1, 0.01, (1, 2, 3, 4, 6, 8, 12, 16))]
    found = fit(points)
    least = sum(r * r for r in found.residuals)
    for one, serial, crosstalk in rng.uniform(0.9, 1.1, (500, 3)):
        moved = usl(found.one * one, found.serial * serial, found.crosstalk * crosstalk, [n for n, _ in points])
        assert sum((x - y) ** 2 for (_, x), (_, y) in zip(points, moved, strict=True)) >= least * (1 - 1e-9)


def test_two_points_give_the_serial_fraction_alone():
    found = fit([(1, 100.0), (2, 160.0)])
    # 100/160 = s + (1 − s)/2
    assert found.law == AMDAHL and found.serial == pytest.approx(0.25)
    assert found.r2 is None and "two points" in found.remark


@pytest.mark.parametrize(("rate", "serial", "words"), [(250.0, 0, "more than the cores"), (90.0, 1, "fell")])
def test_two_points_that_amdahl_cannot_explain(rate, serial, words):
    found = fit([(1, 100.0), (2, rate)])
    assert found.serial == serial and words in found.remark


def test_three_points_that_fall_again_need_the_universal_law():
    found = fit(usl(1000, 0.1, 0.1, (1, 2, 8)))
    assert found.law == USL and found.r2 is None and "three parameters" in found.remark


def test_one_point_says_nothing():
    assert fit([(2, 100.0)]) is None and fit([]) is None


@pytest.mark.parametrize("points", [[(0, 1.0), (1, 2.0)], [(1, 0.0), (2, 1.0)], [(1, 1.0), (1, 2.0)]])
def test_points_that_make_no_sense(points):
    with pytest.raises(InvalidArgument, match="points"):
        fit(points)
