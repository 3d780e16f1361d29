"""What the programs of all engines share: their arguments, the input, the clock and the results."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

MINUTE = 60_000_000  # in microseconds
WINDOW = 10 * MINUTE
NOT_INSTALLED = 3


@dataclass
class Task:
    """What to do, and what it took: `seconds` from the first batch that the engine asks for to its last result."""

    job: str
    way: str
    folder: Path
    cores: int
    keep: bool
    begun: float = 0.0
    rows: int = 0
    rows_out: int = 0
    results: list[tuple] = field(default_factory=list)

    def batches(self, name: str = "events", part: int = 0, parts: int = 1) -> Iterator[pa.Table]:
        """The files of an input in order, with microseconds for times; of several parts each has its share of rows."""
        for path in sorted((self.folder / name).glob("*.parquet")):
            self.begun = self.begun or time.perf_counter()
            table = pq.read_table(path, use_threads=False)
            if parts > 1:
                first, last = (table.num_rows * p // parts for p in (part, part + 1))
                table = table.slice(first, last - first)
            self.rows += table.num_rows
            yield pa.table({n: microseconds(table[n]) for n in table.column_names})

    def counts(self, by_window: bool, **share: int) -> Iterator[pa.Table]:
        """Columns k, ts, n and s: a row for every row, or one for each key (and window) of a batch."""
        for table in self.batches(**share):
            ones = pa.repeat(pa.scalar(1, pa.int64()), table.num_rows)
            counted = pa.table({"k": table["k"], "ts": table["ts"], "n": ones, "s": table["v"]})
            yield merged(counted, by_window) if self.way == "partials" else counted


def microseconds(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column


def merged(counted: pa.Table, by_window: bool) -> pa.Table:
    """What pyarrow can add up before the engine sees it. The latest time stands for the group."""
    keys = ["k"]
    if by_window:
        ts = counted["ts"]
        starts = pc.multiply(pc.divide(ts, WINDOW), WINDOW)
        counted, keys = counted.append_column("start", starts), ["k", "start"]
    merged = counted.group_by(keys, use_threads=False).aggregate([("ts", "max"), ("n", "sum"), ("s", "sum")])
    return pa.table({"k": merged["k"], "ts": merged["ts_max"], "n": merged["n_sum"], "s": merged["s_sum"]})


def main(package: str, run: Callable[[Task], None]) -> None:
    """Run one job of an engine and print what it took as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--job", choices=("windows", "running", "counter", "join"))
    parser.add_argument("--way", default="rows")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--results", type=Path, help="write what comes out to this file")
    given = parser.parse_args()
    try:
        told = {"version": version(package)}
    except PackageNotFoundError:
        raise SystemExit(NOT_INSTALLED) from None
    if given.job:
        task = Task(given.job, given.way, given.folder, given.cores, given.results is not None)
        run(task)
        told |= {"seconds": time.perf_counter() - task.begun, "rows": task.rows, "rows out": task.rows_out}
        if given.results:
            pq.write_table(columns_of(task.results), given.results)
    print(json.dumps(told))


def columns_of(results: list[tuple]) -> pa.Table:
    """Results are whole numbers all through."""
    columns = list(zip(*results, strict=True))
    return pa.table([pa.array(column, pa.int64()) for column in columns], names=[f"c{i}" for i in range(len(columns))])
