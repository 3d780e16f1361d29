"""The same aggregation through Millrace, Polars, DuckDB, pyarrow and pandas, one thread each, in one run.

    python benchmarks/ratios.py [--rounds 7] [--scale 1.0] [--json FILE]

count(*), sum(v) and max(v) by key. Every engine has its input in its own native form and leaves the
result in its own. Engines take turns, round after round, so that a slow moment of the machine hits them
all; figures are medians. The ratio is the best other engine's time over ours.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version

os.environ["POLARS_MAX_THREADS"] = "1"

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from millrace.kernels import Aggregation, aggregate
from millrace.kernels import functions as F

ENGINES = ("millrace", "polars", "duckdb", "pyarrow", "pandas")


@dataclass(frozen=True)
class Scenario:
    """Rows to group, and the ratio to reach."""

    name: str
    rows: int
    keys: Callable[[np.random.Generator, int], dict[str, pa.Array]]
    target: float

    def table(self, scale: float) -> pa.Table:
        rng, rows = np.random.default_rng(42), max(int(self.rows * scale), 1000)
        columns = {**self.keys(rng, rows), "v": pa.array(rng.integers(0, 1000, rows))}
        return pa.table(columns).combine_chunks()


def texts(rng: np.random.Generator, rows: int) -> dict[str, pa.Array]:
    names = pa.array([f"user-{i:08d}" for i in range(100_000)])
    return {"k": names.take(pa.array(rng.integers(0, 100_000, rows)))}


SCENARIOS = (
    Scenario("2 M rows, 1 M long keys", 2_000_000, lambda r, n: {"k": pa.array(r.integers(0, 1_000_000, n))}, 1.5),
    Scenario("10 M rows, 100 k long keys", 10_000_000, lambda r, n: {"k": pa.array(r.integers(0, 100_000, n))}, 1.0),
    Scenario(
        "2 M rows, 1 M keys of two columns",
        2_000_000,
        lambda r, n: {"k": pa.array(r.integers(0, 1000, n)), "k2": pa.array(r.integers(0, 1000, n))},
        1.5,
    ),
    Scenario("2 M rows, 100 k string keys", 2_000_000, texts, 1.0),
)


def workloads(table: pa.Table) -> dict[str, Callable[[], object]]:
    """One call per engine that aggregates the table."""
    keys = [name for name in table.column_names if name != "v"]
    names = ", ".join(keys)
    query = Aggregation(table.schema, keys, {"n": F.count(), "s": F.sum("v"), "m": F.max("v")})
    batches = table.to_batches()
    pandas, polars = table.to_pandas(), pl.from_arrow(table)
    connection = duckdb.connect(config={"threads": 1})
    connection.register("arrow_table", table)
    connection.execute("create table t as select * from arrow_table")
    sql = f"select {names}, count(*) as n, sum(v)::bigint as s, max(v) as m from t group by {names}"
    pa.set_cpu_count(1)
    arrow = [([], "count_all"), ("v", "sum"), ("v", "max")]
    return {
        "millrace": lambda: aggregate(query, batches),
        "polars": lambda: polars.group_by(keys).agg(pl.len().alias("n"), s=pl.col("v").sum(), m=pl.col("v").max()),
        "duckdb": lambda: connection.sql(sql).to_arrow_table(),
        "pyarrow": lambda: table.group_by(keys, use_threads=False).aggregate(arrow),
        "pandas": lambda: pandas.groupby(keys, sort=False)["v"].agg(n="size", s="sum", m="max"),
    }


def as_rows(result: object, keys: int) -> pd.DataFrame:
    """Any engine's result as a sorted frame of the same columns."""
    foreign = isinstance(result, pa.Table | pa.RecordBatch | pl.DataFrame)
    frame = result.to_pandas() if foreign else result.reset_index()
    frame.columns = [*(f"k{i}" for i in range(keys)), "n", "s", "m"]
    return frame.astype({"n": "int64"}).sort_values(list(frame.columns[:keys])).reset_index(drop=True)


def check_equal(calls: dict[str, Callable[[], object]], keys: int) -> None:
    """Refuse to compare engines that do not give the same answer. Also the warm-up."""
    wanted = as_rows(calls["duckdb"](), keys)
    for name, call in calls.items():
        pd.testing.assert_frame_equal(as_rows(call(), keys), wanted, check_dtype=False, obj=name)


def measure(calls: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median milliseconds per engine, engines taking turns."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            started = time.perf_counter()
            result = call()
            times[name].append((time.perf_counter() - started) * 1000)
            del result
    return {name: statistics.median(taken) for name, taken in times.items()}


def run(scenario: Scenario, scale: float, rounds: int) -> dict[str, object]:
    table = scenario.table(scale)
    calls = workloads(table)
    check_equal(calls, table.num_columns - 1)
    taken = measure(calls, rounds)
    best = min((name for name in taken if name != "millrace"), key=taken.__getitem__)
    ratio = taken[best] / taken["millrace"]
    rate = table.num_rows / taken["millrace"] / 1000
    return {"scenario": scenario.name, "ms": taken, "best other": best, "ratio": ratio, "target": scenario.target,
            "million rows/s": rate}  # fmt: skip


def report(row: dict) -> str:
    times = "  ".join(f"{row['ms'][name]:>8.1f}" for name in ENGINES)
    verdict = "ok" if row["ratio"] >= row["target"] else "MISSED"
    return (
        f"{row['scenario']:<34}  {times}  {row['million rows/s']:>8.1f}  {row['best other']:>9}  "
        f"{row['ratio']:>5.2f}  {row['target']:>6.1f}  {verdict}"
    )


def processor() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="timed rounds, after one to warm up (default 7)")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the rows to use (default 1.0)")
    parser.add_argument("--json", help="also write the figures to this file")
    options = parser.parse_args()
    packages = ("numba", "numpy", "polars", "duckdb", "pyarrow", "pandas")
    print(f"{processor()}, Python {platform.python_version()}, " + ", ".join(f"{p} {version(p)}" for p in packages))
    print(f"one thread each, medians of {options.rounds} rounds in milliseconds\n")
    print(f"{'':<34}  {'  '.join(f'{name:>8}' for name in ENGINES)}  {'M rows/s':>8}  best other  ratio  target")
    rows = []
    for scenario in SCENARIOS:
        rows.append(run(scenario, options.scale, options.rounds))
        print(report(rows[-1]), flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=2)


if __name__ == "__main__":
    main()
