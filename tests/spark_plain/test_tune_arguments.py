"""`millrace tune` with wrong arguments: one line each, before anything is started."""

from __future__ import annotations

import subprocess
import sys

import pytest
from millrace.kernels.errors import InvalidArgument
from millrace.spark_glue.cli import app
from millrace.spark_glue.tuning.job import Job
from millrace.spark_glue.tuning.query_file import described, load_query
from millrace.spark_glue.tuning.workloads import WORKLOADS, generate
from typer.testing import CliRunner

GOOD = ["--workload", "aggregate"]


def message(*arguments):
    result = CliRunner().invoke(app, ["tune", *map(str, arguments)])
    assert isinstance(result.exception, InvalidArgument), result.output
    assert "\n" not in str(result.exception)
    return str(result.exception)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "--query, --workload: got neither"),
        ([*GOOD, "--query", "x.py"], "got both"),
        (["--workload", "sort"], "--workload: got 'sort', accepted is aggregate, windows, join, stateful"),
        ([*GOOD, "--data", "."], "--data: a built-in workload makes its own"),
        (["--query", "nowhere.py"], "--query: got 'nowhere.py'"),
        ([*GOOD, "--rows", "0"], "--rows: got 0"),
        ([*GOOD, "--keys", "-5"], "--keys: got -5"),
        ([*GOOD, "--batches", "0"], "--batches: got 0"),
        ([*GOOD, "--warm-up", "-1"], "--warm-up: got -1"),
        ([*GOOD, "--trials", "-1"], "--trials: got -1"),
        ([*GOOD, "--minutes", "0"], "--minutes: got 0.0"),
        ([*GOOD, "--minutes", "nan"], "--minutes: got nan"),
        ([*GOOD, "--patience", "-3"], "--patience: got -3.0"),
        ([*GOOD, "--cores", "two"], "--cores: got 'two', accepted is whole numbers"),
        ([*GOOD, "--cores", "0,1"], "--cores: got '0,1'"),
        ([*GOOD, "--expect", "8,,16"], "--expect: got '8,,16'"),
        ([*GOOD, "--memory", "lots"], "--memory: got 'lots'"),
        ([*GOOD, "--conf", "nonsense"], "--conf: got 'nonsense', accepted is key=value"),
        ([*GOOD, "--output-mode", "upsert"], "--output-mode: got 'upsert'"),
        ([*GOOD, "--out", __file__], "--out: got"),
    ],
)
def test_mistakes(arguments, words):
    assert words in message(*arguments)


@pytest.fixture
def folder(tmp_path):
    inputs = generate(WORKLOADS["aggregate"], tmp_path, 3, 10, 5)
    return inputs["events"]


@pytest.fixture
def query(tmp_path):
    def write(text):
        path = tmp_path / "clicks.py"
        path.write_text(text)
        return path

    return write


def test_folders(query, folder, tmp_path):
    file = query("def build(frame): return frame")
    assert "it is missing" in message("--query", file)
    assert "a folder of Parquet files that exists" in message("--query", file, "--data", tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    assert "with Parquet files (*.parquet) in it" in message("--query", file, "--data", tmp_path / "empty")
    assert "has 3 Parquet files, one a micro-batch, and --warm-up uses up 4" in message(
        "--query", file, "--data", folder
    )


def test_files_that_are_no_queries(query, folder):
    """Each is looked at in a process of its own, as far as it comes."""
    asked = ("--data", folder, "--warm-up", 1)
    file = query("import os\n\n\ndef total(frame): return frame\n")
    assert f"no function 'build' in {file}; it has total" in message("--query", file, *asked)
    query("x = 1\nraise KeyError('no such table')\n")
    assert f"{file}, line 2: KeyError: 'no such table'" in message("--query", file, *asked)
    query("def build(frame)\n    return frame\n")
    assert f"{file}, line 1: SyntaxError" in message("--query", f"{file}:build", *asked)
    query("def build(left, right): return left")
    assert "a folder for each of left, right" in message("--query", file, *asked)
    assert "a folder for each of left, right" in message(
        "--query", file, "--data", f"left={folder}", "--data", f"other={folder}", "--warm-up", 1
    )


@pytest.mark.parametrize("build", [lambda: None, lambda frame, *, colour: frame])
def test_functions_that_cannot_be_called(build):
    with pytest.raises(InvalidArgument, match="def build"):
        described(build)


def test_a_function_that_can(query):
    file = query("def totals(left, right, limit=3, *, buckets=None):\n    return left\n")
    found = load_query(f"{file}:totals")
    assert (found.inputs, found.accepted) == (("left", "right"), ("buckets",))
    assert Job(query=str(file)).name == str(file)


def test_the_exit_code_of_a_mistake():
    command = [sys.executable, "-m", "millrace.spark_glue.cli", "tune", "--workload", "sort"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert run.returncode == 2 and run.stdout == "" and "Traceback" not in run.stderr
    assert run.stderr.strip() == "error: --workload: got 'sort', accepted is aggregate, windows, join, stateful"


def test_help_has_examples():
    result = CliRunner().invoke(app, ["tune", "--help"])
    assert result.exit_code == 0 and "millrace tune --workload aggregate" in result.stdout
