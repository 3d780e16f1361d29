"""Every benchmark runs, on tiny inputs, so that none can rot."""

from __future__ import annotations

import importlib
import inspect
import itertools
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"


@pytest.fixture(scope="module", autouse=True)
def tiny():
    """Benchmarks read their scale when they are imported."""
    os.environ["MILLRACE_BENCH_SCALE"] = "0.0005"
    yield
    del os.environ["MILLRACE_BENCH_SCALE"]


def classes():
    sys.path.insert(0, str(BENCHMARKS))
    os.environ["MILLRACE_BENCH_SCALE"] = "0.0005"
    package = importlib.import_module("suite")
    for info in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"suite.{info.name}")
        for name, benchmark in inspect.getmembers(module, inspect.isclass):
            if benchmark.__module__ == module.__name__:
                yield pytest.param(benchmark, id=f"{info.name}.{name}")


@pytest.mark.parametrize("benchmark", list(classes()))
def test_suite(benchmark):
    choices = getattr(benchmark, "params", ())
    choices = choices if isinstance(choices, tuple) else (choices,)
    for arguments in itertools.islice(itertools.product(*choices), 0, None, 3):
        one = benchmark()
        if hasattr(one, "setup"):
            one.setup(*arguments)
        for name, method in inspect.getmembers(one, inspect.ismethod):
            if name.startswith(("time_", "track_", "peakmem_")) and name not in ("track_cold", "track_warm"):
                method(*arguments)


def test_the_first_result_of_a_new_process():
    from suite.compilation import FIRST_RESULT

    subprocess.run([sys.executable, "-c", FIRST_RESULT], check=True)


def test_ratios(tmp_path):
    command = [sys.executable, str(BENCHMARKS / "ratios.py"), "--scale", "0.001", "--rounds", "1"]
    printed = subprocess.run([*command, "--json", str(tmp_path / "out.json")], check=True, capture_output=True).stdout
    assert printed.count(b"string keys") == 1 and (tmp_path / "out.json").stat().st_size > 0
