"""One Spark session for all tests of this folder, small and quiet."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable

sys.path.insert(0, str(Path(__file__).parent))

from harness import build_session


@pytest.fixture(scope="session")
def spark():
    session = build_session("local[2]")
    yield session
    session.stop()
