"""`millrace doctor`: what it finds, what it advises, and how it exits."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from millrace.spark_glue import doctor as module
from millrace.spark_glue.cli import app
from millrace.spark_glue.doctor import FIX, OK, check_cache, check_java, check_packages, java_version
from typer.testing import CliRunner


def test_packages_that_are_missing_too_old_or_too_new(monkeypatch):
    versions = {"pandas": "3.0.1", "numba": "0.59.1", "sqlglot": None}
    real = module.installed
    monkeypatch.setattr(module, "installed", lambda package: versions.get(package, real(package)))
    told = {finding.check: (finding.status, finding.found, finding.advice) for finding in check_packages()}
    assert told["pandas"] == (FIX, "3.0.1", 'pip install "pandas>=2.2,<3"')
    assert told["numba"] == (FIX, "0.59.1", 'pip install "numba>=0.61"')
    assert told["sqlglot"] == (FIX, "missing", 'pip install "sqlglot>=30,<31"')
    assert told["pyarrow"][0] == OK


@pytest.mark.parametrize(
    ("printed", "version"),
    [('openjdk version "21" 2023-09-19', 21), ('java version "1.8.0_202"', 8), ("no such thing", None)],
)
def test_java_versions(printed, version):
    assert java_version(printed) == version


def test_java_is_missing(monkeypatch, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert (check_java().status, check_java().found) == (FIX, "missing")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert "which has no Java" in check_java().found
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'java version \"1.8.0_202\"' >&2\n")
    program.chmod(0o755)
    assert (check_java().found, check_java().advice[:24]) == ("8", "install Java 17 or newer")


def test_a_cache_that_cannot_be_written():
    assert check_cache("driver", None).status == OK
    assert "NUMBA_CACHE_DIR" in check_cache("driver", "not writable: /x").advice


def test_without_java_no_session_is_started(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    result = CliRunner().invoke(app, ["doctor", "--json"])
    findings = {finding["check"]: finding for finding in json.loads(result.stdout)}
    assert result.exit_code == 1 and findings["session"]["found"] == "not checked"


def test_the_whole_command():
    command = [sys.executable, "-m", "millrace.spark_glue.cli", "doctor", "--json"]
    env = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    command += ["--conf", "spark.sql.shuffle.partitions=99", "--conf", "spark.python.daemon.module=pyspark.daemon"]
    run = subprocess.run(command, capture_output=True, text=True, env=env, timeout=300)
    findings = {finding["check"].split(" on ")[0]: finding for finding in json.loads(run.stdout)}
    assert run.returncode == 0, run.stdout
    assert findings["shuffle partitions"]["status"] == "warn" and findings["shuffle partitions"]["found"][:5] == "99 on"
    assert findings["worker daemon"]["found"] == "Spark's own"
    assert findings["packages"]["found"] == "the same as on the driver"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["doctor", "--conf", "nonsense"], "--conf: got 'nonsense', accepted is key=value"),
        (["operate"], "No such command"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(arguments, words):
    command = [sys.executable, "-m", "millrace.spark_glue.cli", *arguments]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert run.returncode == 2 and words in run.stderr and "Traceback" not in run.stderr


def test_help_has_examples():
    result = CliRunner().invoke(app, ["doctor", "--help"])
    assert result.exit_code == 0 and "millrace doctor --master" in result.stdout
