"""`millrace tune` on a real Spark, from the command line, on little."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress

import pytest
from millrace.spark_glue.tuning.processes import PROC, fields_of
from millrace.spark_glue.tuning.trial import STAGES
from millrace.spark_glue.tuning.workloads import WORKLOADS, generate

COMMAND = [sys.executable, "-m", "millrace.spark_glue.cli", "tune"]
LITTLE = ["--batches", "2", "--warm-up", "1", "--no-defaults", "--memory", "1g", "--minutes", "10"]
QUERY = """
from millrace import spark_glue as mr
from neighbour import COLUMN


def totals(events, *, buckets=None, map_side=True):
    assert map_side in (True, False)
    print("what a query prints does not mix with JSON")
    return mr.aggregate(events, ["k"], {"s": mr.sum(COLUMN)}, output_mode="update", buckets=buckets, map_side=map_side)
"""


def processes_of(folder):
    """The processes whose environment or command names a folder."""
    found = []
    for entry in PROC.iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):
                named = str(folder).encode() in (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
                if named and fields_of((entry / "stat").read_text())[1][0] != "Z":
                    found.append(entry.name)
    return found


def test_a_query_of_the_users(tmp_path):
    data = generate(WORKLOADS["aggregate"], tmp_path / "data", 3, 5000, 100)["events"]
    (tmp_path / "clicks.py").write_text(QUERY)
    (tmp_path / "neighbour.py").write_text("COLUMN = 'v'\n")
    command = [*COMMAND, "--query", f"{tmp_path}/clicks.py:totals", "--data", data, *LITTLE]
    command += ["--cores", "1,2", "--trials", "2", "--expect", "8", "--json", "--out", str(tmp_path / "out")]
    run = subprocess.run(
        command, capture_output=True, text=True, timeout=580, env={**os.environ, "TMPDIR": str(tmp_path)}
    )
    assert run.returncode == 0, run.stderr
    told = json.loads(run.stdout)
    assert [trial["status"] for trial in told["trials"]] == ["done", "done"]
    assert [point["cores"] for point in told["cores_curve"]] == [1, 2] and told["scaling"]["law"] == "Amdahl"
    assert told["expected"][0]["extrapolated"] is True
    for trial in told["trials"]:
        assert [batch["rows"] for batch in trial["batches"]] == [5000] * 3
        stages = trial["stage_core_seconds_per_million_rows"]
        assert set(stages) == set(STAGES) and min(stages.values()) >= 0
        # Every stage does something, and all together they are the cores' time.
        assert min(stages[stage] for stage in STAGES[:6]) > 0
        wall = sum(batch["ms"] for batch in trial["batches"][1:]) / 1000 / 0.01
        assert sum(stages.values()) == pytest.approx(trial["settings"]["cores"] * wall, rel=0.2)
        assert min(trial["peak_memory_bytes"].values()) > 50 * 2**20
        assert min(trial["cpu_seconds_per_million_rows"].values()) > 0
    assert "rows/s" in run.stderr and (tmp_path / "out" / "report.html").is_file()
    assert "millrace.spark_glue.daemon" in (tmp_path / "out" / "spark-defaults.conf").read_text()
    assert processes_of(tmp_path) == [] and not list(tmp_path.glob("millrace-tune-*"))


def test_an_interrupt_keeps_what_was_measured(tmp_path):
    command = [
        *COMMAND,
        "--workload",
        "join",
        "--rows",
        "2000",
        *LITTLE,
        "--cores",
        "2",
        "--out",
        str(tmp_path / "out"),
    ]
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as process:
        first = next(line for line in process.stderr if not line.startswith("note:"))
        assert "rows/s" in first, first + process.stderr.read()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 130 and "Traceback" not in err
    assert "rows/s" in out and "interrupted" in (tmp_path / "out" / "report.html").read_text()
    assert processes_of(tmp_path) == [] and not list(tmp_path.glob("millrace-tune-*"))


def test_a_function_that_raises(tmp_path):
    data = generate(WORKLOADS["aggregate"], tmp_path / "data", 2, 10, 5)["events"]
    (tmp_path / "clicks.py").write_text("def build(events):\n    return events.select('usr')\n")
    command = [*COMMAND, "--query", f"{tmp_path}/clicks.py", "--data", data, *LITTLE, "--out", str(tmp_path / "out")]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert run.returncode == 2 and "Traceback" not in run.stderr
    lines = [line for line in run.stderr.strip().splitlines() if not line.startswith("note:")]
    assert len(lines) == 1, run.stderr
    assert f"{tmp_path}/clicks.py, line 2: AnalysisException: [UNRESOLVED_COLUMN" in lines[0]
