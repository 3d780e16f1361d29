"""Every benchmark runs, on tiny inputs, so that none can rot."""

from __future__ import annotations

import importlib
import inspect
import itertools
import json
import os
import pkgutil
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
KINDS_OF_BENCHMARK = ("time_", "track_", "peakmem_")
SLOW = ("track_cold", "track_warm")  # what they run is run once below


def classes():
    # The suite reads its scale when it is imported.
    with (
        mock.patch.dict(os.environ, MILLRACE_BENCH_SCALE="0.0005"),
        mock.patch.object(sys, "path", [str(BENCHMARKS), *sys.path]),
    ):
        package = importlib.import_module("suite")
        modules = [importlib.import_module(f"suite.{info.name}") for info in pkgutil.iter_modules(package.__path__)]
    for module in modules:
        for name, benchmark in inspect.getmembers(module, inspect.isclass):
            methods = [m for m in dir(benchmark) if m.startswith(KINDS_OF_BENCHMARK) and m not in SLOW]
            if benchmark.__module__ == module.__name__ and methods:
                yield pytest.param(benchmark, methods, id=f"{module.__name__}.{name}")


def parameters(benchmark):
    """Every combination of a benchmark's parameters, written in either of asv's two ways."""
    choices = getattr(benchmark, "params", ())
    if choices and not isinstance(choices[0], list | tuple):
        choices = (choices,)
    return itertools.product(*choices)


# Not called benchmark: that is pytest-benchmark's fixture, where it is installed.
@pytest.mark.parametrize(("measured", "methods"), list(classes()))
def test_suite(measured, methods, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cache = (measured().setup_cache(),) if hasattr(measured, "setup_cache") else ()
    for chosen in parameters(measured):
        for method in methods:
            one = measured()
            try:
                if hasattr(one, "setup"):
                    one.setup(*cache, *chosen)
            except NotImplementedError:
                # How a benchmark tells asv that it leaves a combination out.
                continue
            result = getattr(one, method)(*cache, *chosen)
            assert not method.startswith("track_") or result > 0


def test_the_first_result_of_a_new_process():
    compilation = importlib.import_module("suite.compilation")
    subprocess.run([sys.executable, "-c", compilation.FIRST_RESULT], check=True)


def test_ratios(tmp_path):
    command = [sys.executable, str(BENCHMARKS / "ratios.py"), "--scale", "0.001", "--rounds", "1", "--shuffle"]
    printed = subprocess.run([*command, "--json", str(tmp_path / "out.json")], check=True, capture_output=True).stdout
    rows = json.loads((tmp_path / "out.json").read_text())["scenarios"]
    assert rows and all(row["ratio"] > 0 and row["scenario"].encode() in printed for row in rows)


def test_join_ratios():
    command = [sys.executable, str(BENCHMARKS / "join_ratios.py"), "--scale", "0.001", "--rounds", "1"]
    assert b"ratio" in subprocess.run(command, check=True, capture_output=True).stdout
