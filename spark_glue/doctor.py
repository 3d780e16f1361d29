"""`millrace doctor`: is everything there that makes Millrace run, and run fast?"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from .. import kernels
from .command_output import print_json
from .command_session import parse_conf, start_session
from .configure import OPTIONS

OK, WARN, FIX = "ok", "warn", "fix"
COLOURS = {OK: "green", WARN: "yellow", FIX: "red"}
LOWEST_JAVA = 17
# Lowest version, and the first that does not fit any more, as in the project's own requirements.
PACKAGES: dict[str, tuple[tuple[int, ...], tuple[int, ...] | None]] = {
    "pyspark": ((4, 0), None),
    "pandas": ((2, 2), (3,)),
    "pyarrow": ((18,), None),
    "numba": ((0, 61), None),
    "numpy": ((2, 0), None),
    "sqlglot": ((30,), (31,)),
    "xxhash": ((3, 0), None),
}
DAEMON = OPTIONS["spark.python.daemon.module"]
STORE = "spark.sql.streaming.stateStore.providerClass"


@dataclass(frozen=True)
class Finding:
    """What one check found, and what to do about it."""

    check: str
    status: str
    found: str
    advice: str = ""


def version_numbers(text: str) -> tuple[int, ...]:
    """The leading numbers of a version.

    Examples
    --------
    >>> version_numbers("2.3.0rc1")
    (2, 3, 0)
    """
    return tuple(int(number) for number in re.findall(r"\d+", text)[:3])


def installed(package: str) -> str | None:
    """The version of a package in this Python, None if it is missing."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def check_packages() -> Iterator[Finding]:
    """Python and the packages that Millrace stands on."""
    python = platform.python_version()
    fits = version_numbers(python) >= (3, 11)
    yield Finding("Python", OK if fits else FIX, python, "" if fits else "use Python 3.11 or newer")
    for package, (lowest, beyond) in PACKAGES.items():
        wanted = f"{package}>={'.'.join(map(str, lowest))}" + (f",<{'.'.join(map(str, beyond))}" if beyond else "")
        found = installed(package)
        fits = (
            found is not None and version_numbers(found) >= lowest and not (beyond and version_numbers(found) >= beyond)
        )
        yield Finding(package, OK if fits else FIX, found or "missing", "" if fits else f'pip install "{wanted}"')


def java_version(printed: str) -> int | None:
    """The major version in what ``java -version`` prints.

    Examples
    --------
    >>> java_version('openjdk version "17.0.12" 2024-07-16'), java_version('java version "1.8.0_202"')
    (17, 8)
    """
    numbers = re.search(r'version "(\d+)(?:\.(\d+))?', printed)
    if numbers is None:
        return None
    major = int(numbers[1])
    return int(numbers[2]) if major == 1 and numbers[2] else major


def check_java() -> Finding:
    """Java, where Spark would look for it."""
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home, "bin", "java")) if home else shutil.which("java")
    advice = f"install Java {LOWEST_JAVA} or newer, or let JAVA_HOME point to it"
    if program is None or not shutil.which(program):
        return Finding("Java", FIX, f"JAVA_HOME is {home!r}, which has no Java" if home else "missing", advice)
    run = subprocess.run([program, "-version"], capture_output=True, text=True)
    version = java_version(run.stderr + run.stdout)
    if version is None or version < LOWEST_JAVA:
        return Finding("Java", FIX, "unknown" if version is None else str(version), advice)
    return Finding("Java", OK, str(version))


def cache_problem() -> str | None:
    """Why Numba cannot keep compiled kernels on disk here; None if it can."""
    wanted = os.environ.get("NUMBA_CACHE_DIR")
    folders = [Path(wanted)] if wanted else [Path(kernels.__file__).parent, Path.home() / ".cache"]
    if any(os.access(_existing(folder), os.W_OK) for folder in folders):
        return None
    return f"not writable: {', '.join(map(str, folders))}"


def _existing(folder: Path) -> Path:
    """The folder itself, or the nearest one above it that exists."""
    return next(path for path in (folder, *folder.parents) if path.exists())


def check_cache(where: str, problem: str | None) -> Finding:
    """Where kernels cannot be cached, every new process compiles them again, for seconds."""
    if problem is None:
        return Finding(f"kernel cache, {where}", OK, "writable")
    return Finding(f"kernel cache, {where}", FIX, problem, "set NUMBA_CACHE_DIR to a writable folder there")


def probe(frames: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """Runs in a worker: tells what is installed there and what forked it."""
    for _ in frames:
        spec = getattr(sys.modules["__main__"], "__spec__", None)
        versions = {package: installed(package) or "missing" for package in ("millrace", *PACKAGES)}
        yield pd.DataFrame(
            {
                "host": [platform.node()],
                "python": [platform.python_version()],
                "versions": [" ".join(f"{name}={version}" for name, version in versions.items())],
                "cache": [cache_problem()],
                "daemon": [getattr(spec, "name", "") == DAEMON],
            }
        )


def check_workers(spark: SparkSession) -> Iterator[Finding]:
    """What the executors' Python is like, compared with the driver's."""
    schema = "host string, python string, versions string, cache string, daemon boolean"
    tasks = max(2, int(spark.conf.get("spark.default.parallelism", "2") or 2))
    try:
        told = spark.range(0, tasks, 1, tasks).mapInPandas(probe, schema).distinct().collect()
    except Exception as error:
        reason = str(error).strip().splitlines()[-1][:200]
        advice = "install the same millrace on every executor, and let PYSPARK_PYTHON name the Python that has it"
        yield Finding("executors", FIX, f"a task failed: {reason}", advice)
        return
    (mine,) = (frame.iloc[0] for frame in probe([pd.DataFrame()]))
    for row in told:
        same = row.versions == mine.versions and row.python.split(".")[:2] == mine.python.split(".")[:2]
        differs = "the same as on the driver" if same else f"Python {row.python}, {row.versions}"
        advice = "" if same else f"install what the driver has: Python {mine.python}, {mine.versions}"
        yield Finding(f"packages on {row.host}", OK if same else FIX, differs, advice)
        yield check_cache(row.host, row.cache)
        active = "Millrace's" if row.daemon else "Spark's own"
        advice = "" if row.daemon else "build the session with mr.configure(builder): workers start a second sooner"
        yield Finding(f"worker daemon on {row.host}", OK if row.daemon else WARN, active, advice)


def check_settings(spark: SparkSession) -> Iterator[Finding]:
    """Session options that change speed, or what times mean."""
    yield Finding("Spark", OK, f"{spark.version}")
    zone = spark.conf.get("spark.sql.session.timeZone")
    yield Finding("time zone", OK, str(zone), "windows of whole days begin at midnight UTC whatever it is")
    store = str(spark.conf.get(STORE)).rsplit(".", 1)[-1].removesuffix("Provider")
    yield Finding("state store", OK, store, "Millrace is about as fast on either; a checkpoint cannot change it")
    for key in ("spark.sql.execution.arrow.maxRecordsPerBatch", "spark.sql.execution.arrow.maxBytesPerBatch"):
        found, wanted = str(spark.conf.get(key, "unset")), OPTIONS[key]
        advice = "" if found == wanted else f"mr.configure sets it to {wanted}"
        yield Finding(key.rsplit(".", 1)[-1], OK if found == wanted else WARN, found, advice)
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions") or 200)
    cores = spark.sparkContext.defaultParallelism
    crowded = partitions > 4 * cores
    advice = f"{partitions} small tasks a batch: try {2 * cores}. It is fixed by a query's first run" if crowded else ""
    yield Finding("shuffle partitions", WARN if crowded else OK, f"{partitions} on {cores} cores", advice)


def examine(master: str, settings: dict[str, str]) -> list[Finding]:
    """Run all checks."""
    findings = [*check_packages(), check_java(), check_cache("driver", cache_problem())]
    if any(f.status == FIX and f.check in ("Java", "pyspark", "pandas", "pyarrow") for f in findings):
        return [*findings, Finding("session", WARN, "not checked", "mend the above first")]
    try:
        spark = start_session("millrace doctor", master, settings)
    except Exception as error:
        return [*findings, Finding("session", FIX, str(error).strip().splitlines()[0][:200], f"is {master!r} right?")]
    try:
        return [*findings, *check_settings(spark), *check_workers(spark)]
    finally:
        spark.stop()


def doctor(
    master: Annotated[str, typer.Option(help="Spark master to look at.")] = "local[2]",
    conf: Annotated[list[str] | None, typer.Option(help="A session option as key=value; may be repeated.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Check the environment and say what to fix.

    Exits with 1 if something must be fixed.

    Examples:

        millrace doctor

        millrace doctor --master spark://host:7077 --conf spark.sql.shuffle.partitions=8 --json
    """
    findings = examine(master, parse_conf(conf))
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        Console().print(as_table(findings))
    raise typer.Exit(int(any(finding.status == FIX for finding in findings)))


def as_table(findings: list[Finding]) -> Table:
    """Findings as a table for the terminal."""
    table = Table(box=None, pad_edge=False)
    for heading in ("", "check", "found", "advice"):
        table.add_column(heading, overflow="fold")
    for finding in findings:
        status = f"[{COLOURS[finding.status]}]{finding.status}[/]"
        table.add_row(status, finding.check, finding.found, finding.advice)
    return table
