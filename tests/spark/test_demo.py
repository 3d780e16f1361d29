"""The demo runs, on little, and finds the results to be the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

DEMO = Path(__file__).parents[2] / "examples" / "demo.py"


def test_the_demo():
    env = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    run = subprocess.run([sys.executable, str(DEMO), "2000", "2"], capture_output=True, text=True, env=env)
    assert run.returncode == 0, run.stderr
    assert "\nthe same results\n" in run.stdout and "ratio: " in run.stdout
    assert " 0 differ" in run.stdout and "\n0 windows" not in run.stdout
