"""Every example in a docstring, in the README or in the docs runs and gives what it says."""

import doctest
import importlib
import pkgutil
import re
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
    exec(compile(block, str(path), "exec"), {})
    assert capsys.readouterr().out.splitlines() == re.findall(r"^# prints: (.*)$", block, re.MULTILINE)
