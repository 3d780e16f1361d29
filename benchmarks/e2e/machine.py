"""The machine and the versions that figures come from."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("millrace", "pyspark", "pyarrow", "numba", "numpy", "pandas")


def described() -> dict[str, str]:
    """What the report says about where it was measured."""
    return {
        "processor": processor(),
        "cores": str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()),
        "memory": memory(),
        "system": platform.system() + " " + platform.release().split("-")[0],
        "Python": platform.python_version(),
        "Java": java(),
        **{package: installed(package) for package in PACKAGES},
    }


def installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def processor() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown"


def memory() -> str:
    try:
        return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB"
    except (ValueError, OSError):
        return "unknown"


def java() -> str:
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home, "bin", "java")) if home else "java"
    try:
        printed = subprocess.run([command, "-version"], capture_output=True, text=True, check=True).stderr
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    found = re.search(r'version "([^"]+)"', printed)
    return found[1] if found else "unknown"


def commit() -> str:
    """The commit of this checkout, marked where files differ from it; empty outside of one."""
    try:
        here = Path(__file__).parent
        command = ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=10", "--exclude=*"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
