"""Before anything is timed: does every side of a workload give the same rows, batch by batch?"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pandas as pd
from pyspark.sql import DataFrame, SparkSession

from .inputs import write_inputs
from .spark_runs import run_query
from .workload import Side, Workload

ROWS, KEYS = 2_000, 200


class DifferentResults(SystemExit):
    """Two sides that do not do the same job."""


def collected(spark: SparkSession, side: Side, mode: str, folders: dict[str, Path]) -> list[pd.DataFrame]:
    """What reached the sink in each micro-batch that emitted anything, sorted."""
    batches: list[pd.DataFrame] = []

    def keep(frame: DataFrame, batch: int) -> None:
        rows = frame.select("window.start", *frame.columns[1:]) if "window" in frame.columns else frame
        batches.append(in_order(rows.toPandas()))

    run_query(spark, side.build, mode, folders, keep)
    return [batch for batch in batches if len(batch)]


def in_order(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.sort_values(list(rows.columns)).reset_index(drop=True)


def checksum(batches: list[pd.DataFrame]) -> str:
    """One number for all rows, whatever their order within a batch."""
    total = 0
    for number, batch in enumerate(batches, 1):
        total += number * int(pd.util.hash_pandas_object(batch, index=False).sum())
    return f"{total % 2**64:016x}"


def check(spark: SparkSession, workload: Workload, sides: list[Side]) -> dict[str, object]:
    """Rows and checksum of a small run, the same for all sides; otherwise say who differs from whom."""
    keys = ROWS if workload.keys == workload.rows else KEYS
    with tempfile.TemporaryDirectory(prefix="millrace-check-") as folder:
        folders = write_inputs(workload.inputs, Path(folder), workload.check_batches, ROWS, keys)
        wanted = collected(spark, sides[0], workload.mode, folders)
        for side in sides[1:]:
            given = collected(spark, side, workload.mode, folders)
            if not same(given, wanted):
                raise DifferentResults(
                    f"{workload.name}: {side.name} and {sides[0].name} do not give the same rows over the same files: "
                    f"{describe(given)} against {describe(wanted)}. They are not timed against each other."
                )
    return {
        "rows in": ROWS * workload.check_batches * len(workload.inputs),
        "rows out": sum(map(len, wanted)),
        "checksum": checksum(wanted),
        "sides": [side.name for side in sides],
    }


def same(given: list[pd.DataFrame], wanted: list[pd.DataFrame]) -> bool:
    return len(given) == len(wanted) and all(a.equals(b) for a, b in zip(given, wanted, strict=True))


def describe(batches: list[pd.DataFrame]) -> str:
    return f"{sum(map(len, batches)):,} rows in {len(batches)} batches (checksum {checksum(batches)})"
