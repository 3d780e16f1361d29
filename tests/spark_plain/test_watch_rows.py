"""What `watch` makes of progress objects, without Spark: dicts, Rows and objects alike."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace

import pytest
from millrace import spark_glue as mr
from millrace.spark_glue.watch import (
    Glance,
    batch_times,
    cells,
    count,
    glance_at,
    live_table,
    memory,
    operator_rows,
    operator_times,
    plain_line,
)
from pyspark.sql import Row
from rich.console import Console

METRICS = {
    "numOutputRows": 0,
    "numTotalStateRows": 1_200_000,
    "numUpdatedStateRows": 800,
    "numRemovedStateRows": 7,
    "numRowsDroppedByWatermark": 3,
    "allUpdatesTimeMs": 310,
    "allRemovalsTimeMs": 2,
    "commitTimeMs": 45,
    "stateMemory": 64 * 2**20,
}
PROGRESS = {
    "batchId": 4,
    "numInputRows": 500_000,
    "eventTime": {"watermark": "2026-01-01T00:05:00.000Z"},
    "durationMs": {"triggerExecution": 976, "addBatch": 900, "queryPlanning": 40, "walCommit": 20, "getBatch": 0},
    "observedMetrics": {"millrace:totals": METRICS, "mine": {"n": 1}},
    "stateOperators": [{"operatorName": "applyInPandasWithState", "numRowsTotal": 2}],
}
CELLS = [
    "clicks\ntotals", "4", "512 k", "2026-01-01 00:05:00", "1.20 M", "800", "7", "3", "64.0 MiB",
]  # fmt: skip


class Query:
    """Stands for a streaming query."""

    name = "clicks"
    id = "0123456789abcdef"

    def __init__(self, progress=None, lives=0, failure=None):
        self.progress, self.lives, self.failure = progress, lives, failure

    @property
    def isActive(self):
        self.lives -= 1
        return self.lives >= 0

    @property
    def lastProgress(self):
        return self.progress

    def exception(self):
        return self.failure


@pytest.mark.parametrize(
    "progress",
    [
        PROGRESS,
        {
            **PROGRESS,
            "numInputRows": None,
            "sources": [{"numInputRows": 300_000}, {"numInputRows": 200_000}, {}],
            "observedMetrics": {
                "millrace:totals": Row("values", "schema")(
                    list(METRICS.values()), {"fields": [{"name": name} for name in METRICS]}
                )
            },
        },
        {**PROGRESS, "observedMetrics": {"millrace:totals": Row(**METRICS)}},
        SimpleNamespace(**{**PROGRESS, "observedMetrics": {"millrace:totals": SimpleNamespace(**METRICS)}}),
    ],
    ids=["dict", "connect", "row", "attributes"],
)
def test_one_operator(progress):
    (row,) = operator_rows(Glance("clicks", progress=progress))
    assert cells(row) == CELLS
    assert batch_times(row) == "976 ms: addBatch 900, queryPlanning 40, walCommit 20"
    assert operator_times(row) == "updates 310, removals 2, commit 45"


def test_several_operators_of_one_query():
    progress = {**PROGRESS, "observedMetrics": {"millrace:b": METRICS, "millrace:a": METRICS}}
    assert [row.operator for row in operator_rows(Glance("clicks", progress=progress))] == ["a", "b"]


def test_spark_operators_where_there_are_none_of_ours():
    own = {"operatorName": "stateStoreSave", "numRowsTotal": 5, "numRowsUpdated": 4, "memoryUsedBytes": 2048}
    (row,) = operator_rows(Glance("own", progress={**PROGRESS, "observedMetrics": {}, "stateOperators": [own]}))
    assert (row.operator, row.state_rows, row.updated, row.memory) == ("stateStoreSave", 5, 4, 2048)


def test_a_query_without_state_without_batches_or_without_rows():
    assert operator_rows(Glance("new"))[0].batch is None
    (row,) = operator_rows(Glance("flat", progress={"batchId": 0}))
    assert (row.batch, row.rows_per_second, row.state_rows) == (0, None, None)
    (row,) = operator_rows(Glance("idle", progress={**PROGRESS, "numInputRows": 0}))
    assert row.rows_per_second is None
    # An aggregate over no rows at all is null.
    nulls = {"observedMetrics": {"millrace:totals": Row(**dict.fromkeys(METRICS))}}
    (row,) = operator_rows(Glance("empty", progress={**PROGRESS, **nulls}))
    assert row.state_rows is None and row.operator_ms == {}


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (99_999.4, "99,999"), (100_000, "100 k"), (999_600, "1.00 M"), (12_345_678, "12.3 M"), (3e12, "3.00 T")],
)
def test_counts(number, text):
    assert count(number) == text


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (1024, "1.00 KiB"), (1000 * 2**10, "0.98 MiB"), (5 * 2**50, "5,120 TiB")]
)
def test_memory(size, text):
    assert memory(size) == text


def test_what_a_glance_tells():
    assert glance_at(Query(PROGRESS, lives=1)).status == "running"
    assert glance_at(Query(PROGRESS)).status == "ended"
    failed = glance_at(Query(PROGRESS, failure=RuntimeError("[STREAM_FAILED] it broke\nat a.b.C(C.scala:1)")))
    assert (failed.status, failed.reason) == ("failed", "[STREAM_FAILED] it broke")


def test_a_query_that_cannot_be_asked_has_failed():
    class Gone(Query):
        @property
        def lastProgress(self):
            raise ConnectionError("the server is gone")

    assert glance_at(Gone(lives=5)).reason == "ConnectionError: the server is gone"


def test_the_table_fits_eighty_columns_and_keeps_all_numbers():
    console = Console(width=80, record=True, file=io.StringIO())
    failed = Glance("[bold]orders", "failed", PROGRESS, "it broke")
    console.print(live_table([Glance("clicks", progress=PROGRESS), failed]))
    text = console.export_text()
    for cell in [*CELLS[2:3], *CELLS[4:], "addBatch 900", "updates 310", "[bold]orders failed: it broke"]:
        assert cell in text
    assert max(map(len, text.splitlines())) <= 80


def test_plain_lines_tell_every_batch_once(capsys):
    mr.watch(Query(PROGRESS, lives=3), every=0.001)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["clicks, totals", "clicks ended"]
    assert "batch 4, rows/s 512 k, watermark 2026-01-01 00:05:00, state rows 1.20 M" in lines[0]


def test_a_failure_is_told_and_not_raised(capsys):
    mr.watch(Query(failure=RuntimeError("it broke")), Query(PROGRESS), every=0.001)
    assert "clicks failed: it broke" in capsys.readouterr().out


def test_seconds_end_it():
    mr.watch(Query(PROGRESS, lives=10**9), seconds=0)
    mr.watch(Query(PROGRESS, lives=10**9), seconds=0.05, every=10)


def test_a_terminal_gets_the_table(monkeypatch, capsys):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    mr.watch(Query(PROGRESS, lives=2), every=0.001)
    assert "the batch took" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "options", "named"),
    [
        ([], {}, "queries"),
        ([None], {}, "queries"),
        ([[Query()]], {}, "queries"),
        ([Query()], {"seconds": -1}, "seconds"),
        ([Query()], {"seconds": "60"}, "seconds"),
        ([Query()], {"seconds": float("nan")}, "seconds"),
        ([Query()], {"every": 0}, "every"),
        ([Query()], {"every": True}, "every"),
    ],
)
def test_arguments_are_checked(arguments, options, named):
    with pytest.raises(mr.InvalidArgument, match=rf"^{named}: got .*, accepted is "):
        mr.watch(*arguments, **options)


def test_a_join_shows_the_rows_of_each_side():
    sides = {**METRICS, "numTotalStateRows": 12, "numLeftStateRows": 5, "numRightStateRows": 7}
    (row,) = operator_rows(Glance("clicks", progress={**PROGRESS, "observedMetrics": {"millrace:join": sides}}))
    assert cells(row)[4] == "12\n5 + 7"
    assert "state rows 12 = 5 + 7," in plain_line(row)
