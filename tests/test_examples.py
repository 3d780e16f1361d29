"""Every example in a docstring, in the README or in the docs runs and gives what it says."""

import doctest
import importlib
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import millrace.kernels
import millrace.spark_glue
import pytest

ROOT = Path(__file__).parent.parent
MODULES = [
    info.name
    for package in (millrace.kernels, millrace.spark_glue)
    for info in pkgutil.walk_packages(package.__path__, package.__name__ + ".")
] + [millrace.kernels.__name__, millrace.spark_glue.__name__]


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def code_blocks():
    """Every Python block of the README and the docs, each to be run by itself."""
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for i, block in enumerate(re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL)):
            yield pytest.param(block, id=f"{path.name}-{i}")


@pytest.mark.parametrize("block", list(code_blocks()))
def test_code_blocks(block, capsys, tmp_path):
    # In a file, since functions that are compiled must have a source.
    path = tmp_path / "example.py"
    path.write_text(block)
    if "import SparkSession" in block:
        # In a process of its own: it starts and stops a session.
        env = {**os.environ, "PYSPARK_PYTHON": sys.executable}
        run = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, env=env, cwd=tmp_path)
        assert run.returncode == 0, run.stderr
        printed = run.stdout
    else:
        exec(compile(block, str(path), "exec"), {})
        printed = capsys.readouterr().out
    assert printed.splitlines() == re.findall(r"^# prints: (.*)$", block, re.MULTILINE)
