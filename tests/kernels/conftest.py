"""Lets tests import their helpers by name, and watches the number of compilations."""

import importlib
import pkgutil
import sys
from pathlib import Path

import millrace.kernels
import pytest
from numba.core.registry import CPUDispatcher

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "golden")]


@pytest.fixture(scope="session", autouse=True)
def every_kernel_is_compiled_once():
    """Whatever the tests feed in, no kernel may meet a second type of array: compiling costs users time."""
    yield
    for info in pkgutil.walk_packages(millrace.kernels.__path__, millrace.kernels.__name__ + "."):
        for name, kernel in vars(importlib.import_module(info.name)).items():
            if isinstance(kernel, CPUDispatcher):
                assert len(kernel.signatures) <= 1, f"{info.name}.{name}: {kernel.signatures}"
