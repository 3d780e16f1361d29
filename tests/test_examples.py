"""Every example in a docstring or in the README runs and gives what it says."""

import doctest
import importlib
import pkgutil
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


def test_readme():
    assert doctest.testfile(str(ROOT / "README.md"), module_relative=False).failed == 0
