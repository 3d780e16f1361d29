"""The report of the end-to-end benchmark: rendered from made-up figures, and gone on with."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
PNG = b"\x89PNG"

with mock.patch.object(sys, "path", [str(BENCHMARKS), *sys.path]):
    charts, engine_programs, figures, options, report, report_engines, workload = (
        importlib.import_module(f"e2e.{name}")
        for name in ("charts", "engine_programs", "figures", "options", "report", "report_engines", "workload")
    )


def entry(name, store, own, ours, target=None, section="aggregate", keys=10):
    """Two timed micro-batches a side."""
    return {
        "workload": name, "section": section, "store": store, "rows": 1000, "keys": keys,
        "sides": {"Spark": [{"warm-up": [9], "timed": own}], "Millrace": [{"warm-up": [9], "timed": ours}]},
        "comparisons": [{"name": name, "own": "Spark", "ours": "Millrace", "target": target}],
        "check": {"rows in": 8, "rows out": 4, "checksum": "0123456789abcdef", "sides": ["Spark", "Millrace"]},
    }  # fmt: skip


def made_up(**rest):
    spark = [
        entry("sums", "hdfs", [400, 500, 900], [100, 100, 200], 2.0),
        entry("sums", "rocksdb", [300, 300, 300], [100, 100, 100], 5.0),
        entry("few keys", "hdfs", [100], [200]),
        entry("counter, few", "hdfs", [100], [100], section="stateful", keys=10),
        entry("counter, many", "hdfs", [1000], [100], section="stateful", keys=100),
    ]
    runs = [
        {"engine": "Millrace", "share": 1.0, "rates": [3000.0, 1000.0, 2000.0]},
        {"engine": "Slowpoke", "share": 0.1, "rates": [100.0]},
    ]
    job = {"job": "sums", "title": "sums by key", "rows": 10, "keys": 2, "batches": 3, "checked rows": 4, "runs": runs}
    given = {
        "machine": {"cores": "2", "numba": "0.99"}, "settings": {"batches": 3, "rows": None},
        "commands": ["python benchmarks/end_to_end.py --only sums"], "commits": ["abc123"],
        "started": "2026-01-01 10:00 UTC", "finished": "2026-01-01 11:00 UTC",
        "spark": spark, "engines": [job], "absent": {"Tortoise": "not installed"},
    }  # fmt: skip
    return figures.Figures(**{**given, **rest})


@pytest.fixture
def page(tmp_path):
    """The page, rendered by the command line from a file."""
    made = made_up(path=tmp_path / "figures.json")
    made.save()
    command = [sys.executable, str(BENCHMARKS / "end_to_end.py"), "--from-json", str(made.path)]
    subprocess.run([*command, "--report", str(tmp_path / "out" / "REPORT.md")], check=True)
    return tmp_path / "out" / "REPORT.md"


def test_tables_and_verdicts(page):
    text = page.read_text()
    assert "| sums | hdfs | 0.50 s | 0.10 s | **5.00** | 2 | reached |" in text
    assert "| sums | rocksdb | 0.30 s | 0.10 s | **3.00** | 5 | **missed** |" in text
    assert "**1 of 2 ratios to reach were reached.**" in text
    assert "- **Missed:** sums on rocksdb: 3.00 of 5." in text
    # Least, median, greatest, number of batches, and a thousand rows in half a second.
    assert "| sums | hdfs | Spark | 400 | 500 | 900 | 3 after 1 | 0.002 |" in text


def test_where_spark_is_faster_is_said(page):
    assert "- few keys on hdfs: Spark's own; Millrace takes 2.00 times as long." in page.read_text()


def test_where_another_engine_is_faster_is_said():
    rates = {"Hare": 300, "Millrace": 200, "Slowpoke": 10}
    entry = {"job": "sums", "runs": [{"engine": name, "rates": [rate]} for name, rate in rates.items()]}
    assert list(report_engines.slower([entry])) == ["engines, sums: Hare; Millrace takes 1.50 times as long"]


def test_machine_commands_and_checks_are_told(page):
    text = page.read_text()
    for told in ("| numba | 0.99 |", "abc123", "2026-01-01 10:00 UTC", "--only sums", "`0123456789abcdef`"):
        assert told in text


def test_other_engines(page):
    text = page.read_text()
    assert "| Slowpoke | 0.1 | 100 | 100 | 100 | 1 | 20.0× as fast |" in text
    assert "- Tortoise: not installed." in text
    assert "- Quix Streams: " in text


def test_every_chart_is_there(page):
    linked = {line.split("(")[1].rstrip(")") for line in page.read_text().splitlines() if line.startswith("![")}
    written = {str(path.relative_to(page.parent)) for path in (page.parent / "charts").iterdir()}
    assert linked == written
    assert {path.rsplit("/")[-1] for path in written} == {
        "aggregate.png", "stateful.png", "stateful-hdfs.png", "engines.png",
    }  # fmt: skip
    assert all((page.parent / path).read_bytes().startswith(PNG) for path in written)


def test_without_engines_and_checks(tmp_path):
    only = entry("sums", "hdfs", [2], [1])
    del only["check"]
    report.write(made_up(spark=[only], engines=[], absent={}), tmp_path / "REPORT.md")
    text = (tmp_path / "REPORT.md").read_text()
    assert "## Other engines" not in text and "not compared" in text and "## Join" not in text


def test_names_in_a_chart_keep_apart():
    assert charts.apart({"a": 1.0, "b": 1.05, "c": 3.0}, least=0.5) == {"a": 1.0, "b": 1.5, "c": 3.0}


def test_figures_are_gone_on_with(tmp_path):
    saved = made_up(path=tmp_path / "figures.json")
    saved.save()
    again = made_up(commands=["another"], spark=[]).goes_on_from(saved.path)
    assert len(again.spark) == 5
    assert again.commands == [*saved.commands, "another"]


@pytest.mark.parametrize(
    ("other", "said"), [({"machine": {"cores": "64"}}, "cores: 2 then, 64 now"), ({"settings": {"rows": 7}}, "rows: ")]
)
def test_figures_of_another_measurement_are_refused(tmp_path, other, said):
    made_up(path=tmp_path / "figures.json").save()
    with pytest.raises(SystemExit, match=said):
        made_up(**other).goes_on_from(tmp_path / "figures.json")


@pytest.mark.parametrize("content", ["no json", "[]", '{"format": 99}', json.dumps({"format": 1, "unknown": 1})])
def test_a_file_that_is_no_figures_is_refused(tmp_path, content):
    path = tmp_path / "figures.json"
    path.write_text(content)
    with pytest.raises(SystemExit, match="no figures of this benchmark"):
        figures.Figures.load(path)


def test_slow_sides_have_fewer_batches():
    assert workload.Pace(6, 6).at_most(workload.Pace(1, 2)) == workload.Pace(1, 2)
    assert workload.Pace(0, 1).at_most(workload.Pace(1, 2)) == workload.Pace(0, 1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--stores", "redis"], "'redis'; accepted are hdfs, rocksdb, rocksdb-snapshots"),
        (["--rows", "0"], "at least 1"),
        (["--conf", "spark.x"], "'spark.x'; accepted is KEY=VALUE"),
        (["--resume"], "--json FILE"),
    ],
)
def test_wrong_options_are_refused(arguments, said, capsys):
    with pytest.raises(SystemExit):
        options.parsed(None, arguments)
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("engine", engine_programs.ENGINES, ids=lambda engine: engine.name)
def test_an_engine_runs_or_says_that_it_is_not_installed(engine):
    try:
        assert engine.run()["version"][0].isdigit()
    except engine_programs.Absent as reason:
        assert str(reason) == f"not installed; `make .venv-engines/{engine.name}` installs it"


def test_a_tiny_measurement(tmp_path):
    """Checked, measured, saved and reported, in a Spark of its own."""
    made = tmp_path / "figures.json"
    command = [sys.executable, str(BENCHMARKS / "end_to_end.py"), "--only", "stateful, compiled, 1,000 keys"]
    sizes = ["--stores", "hdfs", "--rows", "300", "--keys", "20", "--batches", "1", "--warm-up", "1", "--memory", "1g"]
    subprocess.run([*command, *sizes, "--json", str(made), "--report", str(tmp_path / "REPORT.md")], check=True)
    (only,) = json.loads(made.read_text())["spark"]
    # Each of four micro-batches of the check has rows of all of its two hundred keys.
    assert (only["check"]["rows in"], only["check"]["rows out"]) == (8000, 800)
    assert {side: [len(run["timed"]) for run in runs] for side, runs in only["sides"].items()} == {
        "applyInPandasWithState": [1], "Millrace, compiled": [1],
    }  # fmt: skip
    assert "| stateful, compiled, 1,000 keys | hdfs |" in (tmp_path / "REPORT.md").read_text()
