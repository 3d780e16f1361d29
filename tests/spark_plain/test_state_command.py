"""`millrace state` without a session: what it prints, what it refuses and how it exits."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import pytest
from millrace.kernels import InvalidArgument
from millrace.spark_glue.checkpoint import Checkpoint, StoredOperator, reason
from millrace.spark_glue.cli import app
from millrace.spark_glue.state_command import print_report, text
from millrace.spark_glue.state_report import BucketReport, OperatorReport, described
from pyspark.errors import PySparkException
from rich.console import Console
from typer.testing import CliRunner

OURS, OTHER = "applyInPandasWithState", "dedupe"
OPERATORS = (StoredOperator(0, OURS, True), StoredOperator(1, OTHER, False), StoredOperator(2, OURS, True))
CHECKPOINT = Checkpoint("/data/[counts]", 3, 9, OPERATORS)


def bucket(number, rows, watermark="2026-01-01 12:00:00Z", error=None):
    return BucketReport(number, number + 1, {"rows": rows}, 1000 * rows, watermark, 2, error)


def printed(buckets, rows=None, width=100):
    console = Console(width=width, file=io.StringIO(), highlight=False)
    ours = OperatorReport(0, OURS, "aggregate", "[totals]", "n = count(*) by k", buckets)
    own = OperatorReport(1, OTHER, None, None, None, [], is_millrace=False)
    print_report(console, CHECKPOINT, 4, [ours, own], rows)
    return console.file.getvalue().splitlines()


def test_an_operator_and_its_buckets():
    assert [line.rstrip() for line in printed([bucket(0, 1234), bucket(4, 6)], [])] == [
        "/data/[counts] after batch 4; 3 to 9 are retained",
        "",
        "operator 0: aggregate '[totals]'",
        "n = count(*) by k",
        "1,240 rows, 1,240,000 bytes in 2 buckets, watermark 2026-01-01 12:00:00Z, format 2",
        "bucket  partition   rows      bytes",
        "     0          1  1,234  1,234,000",
        "     4          5      6      6,000",
        "",
        "operator 1: dedupe, Spark's own",
        "",
        "no rows",
    ]


def test_what_differs_between_buckets_is_shown_for_each_and_damage_below():
    lines = printed([bucket(0, 1), bucket(2, 1, None), bucket(3, 0, error="cut short: it has [3] bytes")])
    assert lines[5].split() == ["bucket", "partition", "rows", "bytes", "watermark"]
    assert lines[7].split() == ["2", "3", "1", "1,000", "none"]
    assert lines[8] == "damaged: bucket 3, partition 4: cut short: it has [3] bytes"
    assert printed([])[4] == "no state yet"


def test_rows_too_wide_for_the_terminal_stand_below_each_other():
    row = {"user": "ann", "window": {"start": 1, "end": 2}, "note": "[x]" * 8}
    assert printed([], [row], 60)[-1].split() == ["ann", "start=1", "end=2", "[x]" * 8]
    assert printed([], [row], 30)[-3:] == ["user: ann", "window: start=1 end=2", "note: " + "[x]" * 8]


def test_choosing_an_operator_and_a_batch():
    assert CHECKPOINT.operator(2).number == 2 and CHECKPOINT.batch(None) == 9 and CHECKPOINT.batch(3) == 3
    for wanted, words in [(None, r"one of 0 \(Millrace\), 1 \(dedupe\), 2"), (1, "got 1, accepted is 0 or 2")]:
        with pytest.raises(InvalidArgument, match=words):
            CHECKPOINT.operator(wanted)
    for batch in (2, 10, True, "4"):
        with pytest.raises(InvalidArgument, match="batch whose state is retained: 3 to 9"):
            CHECKPOINT.batch(batch)


def test_descriptions_of_operators():
    query = {"keys": [["k", "int64"]], "aggs": [["n", "count(*)", []]], "window": ["t", 600_000_000, 600_000_000, 0]}
    assert described("aggregate", query) == "n = count(*) by window(t, 600 s), k"
    assert described("stateful", {"keys": [["k", "int64"]], "state": [["n", "int64"]]}) == "n int64 by k"
    days = {"type": "struct", "fields": [{"name": "day", "type": "date", "nullable": True, "metadata": {}}]}
    assert described("stateful-pandas", {"keys": [], "state": [["day", "int32"]]}, days) == "day date"
    assert described("join", {"how": "inner", "keys": [["__millrace_0", "k"]]}) == "inner on (expression) = k"
    assert text([b"\x01\xff", None, float("inf")]) == "[01ff, null, inf]"


def test_reasons_are_one_line():
    raised = "An exception was thrown:\nTraceback …\n  File\nmillrace.kernels.errors.StateFormatError: bucket 3: cut\n"
    assert reason(PySparkException(message=raised)) == "bucket 3: cut"
    assert reason(PySparkException(message="Traceback …\npkg.OddError: what\n")) == "pkg.OddError: what"
    assert reason(PySparkException(message="no such\nthing")) == "no such"
    failed = "An error occurred while calling o12.collect.\n: org.x.SparkException: [A_B.C] it is gone.\n\tat org.x"
    assert reason(RuntimeError(failed)) == "[A_B.C] it is gone."


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["/x", "--rows", "-1"], "--rows: got -1, accepted is 0 or more"),
        (["/x", "--conf", "nonsense"], "--conf: got 'nonsense', accepted is key=value"),
        (["/x"], "Spark does not start"),
        ([], "Missing argument"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(arguments, words, tmp_path):
    command = [sys.executable, "-m", "millrace.spark_glue.cli", "state", *arguments]
    # No Java is found there.
    env = {**os.environ, "JAVA_HOME": str(tmp_path)}
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, env=env)
    assert run.returncode == 2 and words in run.stderr and "Traceback" not in run.stderr and not run.stdout


def test_help_has_examples():
    result = CliRunner().invoke(app, ["state", "--help"])
    assert result.exit_code == 0 and "millrace state /checkpoints/counts --batch 41" in result.stdout
