"""The same aggregation through Millrace, Polars, DuckDB, pyarrow and pandas, one thread each, in one run.

    python benchmarks/ratios.py [--rounds 7] [--scale 1.0] [--shuffle] [--only TEXT] [--json FILE]

count(*), sum(v) and max(v) by key. Every engine has its input in its own native form and leaves the
result in its own. Where an engine has several ways, all must give the same answer, and the one that was
fastest in a trial is timed. Engines take turns, round after round, so that a slow moment of the machine
hits them all; figures are medians. The ratio is the best other engine's time over ours.

In a fixed order each engine always finds the caches and free pages as the same other one left them,
which can cost it a tenth; --shuffle draws the order of every round.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
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
from e2e.machine import processor
from millrace.kernels import Aggregation, aggregate
from millrace.kernels import functions as F

ENGINES = ("millrace", "polars", "duckdb", "pyarrow", "pandas")
TRIALS = 5

Keys = Callable[[np.random.Generator, int], dict[str, pa.Array]]
Ways = dict[str, Callable[[], object]]


@dataclass(frozen=True)
class Scenario:
    """Rows to group, and the ratio to reach."""

    name: str
    rows: int
    keys: Keys
    target: float

    def table(self, scale: float) -> pa.Table:
        rng, rows = np.random.default_rng(42), max(int(self.rows * scale), 1000)
        columns = {**self.keys(rng, rows), "v": pa.array(rng.integers(0, 1000, rows))}
        return pa.table(columns).combine_chunks()


def longs(limit: int, *names: str) -> Keys:
    return lambda rng, rows: {name: pa.array(rng.integers(0, limit, rows)) for name in names}


def texts(template: str) -> Keys:
    names = pa.array([template.format(i) for i in range(100_000)])
    return lambda rng, rows: {"k": names.take(pa.array(rng.integers(0, len(names), rows)))}


SCENARIOS = (
    Scenario("2 M rows, 1 M long keys", 2_000_000, longs(1_000_000, "k"), 1.5),
    Scenario("10 M rows, 100 k long keys", 10_000_000, longs(100_000, "k"), 1.0),
    Scenario("2 M rows, 1 M keys of two columns", 2_000_000, longs(1000, "k", "k2"), 1.5),
    Scenario("2 M rows, 100 k string keys", 2_000_000, texts("user-{:08d}"), 1.0),
    # Up to 12 bytes DuckDB and Polars keep a string inside its pointer.
    Scenario("2 M rows, 100 k short string keys", 2_000_000, texts("{:08d}"), 1.0),
)


def workloads(table: pa.Table) -> dict[str, Ways]:
    """Ways to aggregate the table, per engine."""
    pa.set_cpu_count(1)
    keys = [name for name in table.column_names if name != "v"]
    return {
        "millrace": millrace_ways(table, keys),
        "polars": polars_ways(table, keys),
        "duckdb": duckdb_ways(table, keys),
        "pyarrow": pyarrow_ways(table, keys),
        "pandas": pandas_ways(table, keys),
    }


def millrace_ways(table: pa.Table, keys: list[str]) -> Ways:
    query = Aggregation(table.schema, keys, {"n": F.count(), "s": F.sum("v"), "m": F.max("v")})
    batches = table.to_batches()
    return {"aggregate": lambda: aggregate(query, batches)}


def polars_ways(table: pa.Table, keys: list[str]) -> Ways:
    frame = pl.from_arrow(table)
    results = [pl.len().alias("n"), pl.col("v").sum().alias("s"), pl.col("v").max().alias("m")]
    return {
        "eager": lambda: frame.group_by(keys).agg(results),
        "lazy": lambda: frame.lazy().group_by(keys).agg(results).collect(),
        "streaming": lambda: frame.lazy().group_by(keys).agg(results).collect(engine="streaming"),
    }


def duckdb_ways(table: pa.Table, keys: list[str]) -> Ways:
    connection = duckdb.connect(config={"threads": 1, "preserve_insertion_order": False})
    connection.register("arrow_table", table)
    connection.execute("create table t as select * from arrow_table")
    names = ", ".join(keys)
    sql = f"select {names}, count(*) as n, sum(v)::bigint as s, max(v) as m from t group by {names}"

    def own_table() -> duckdb.DuckDBPyRelation:
        connection.execute(f"create or replace temp table result as {sql}")
        return connection.table("result")

    return {"to Arrow": lambda: connection.sql(sql).to_arrow_table(), "to table": own_table}


def pyarrow_ways(table: pa.Table, keys: list[str]) -> Ways:
    wanted = [([], "count_all"), ("v", "sum"), ("v", "max")]
    chunked = pa.Table.from_batches(table.to_batches(max_chunksize=32_768))
    return {
        "whole": lambda: table.group_by(keys, use_threads=False).aggregate(wanted),
        "chunked": lambda: chunked.group_by(keys, use_threads=False).aggregate(wanted),
    }


def pandas_ways(table: pa.Table, keys: list[str]) -> Ways:
    def way(frame: pd.DataFrame) -> Callable[[], pd.DataFrame]:
        return lambda: frame.groupby(keys, sort=False)["v"].agg(n="size", s="sum", m="max")

    ways = {"NumPy": way(table.to_pandas())}
    if pa.string() in table.schema.types:
        arrow_strings = {pa.string(): pd.ArrowDtype(pa.string())}
        ways["Arrow strings"] = way(table.to_pandas(types_mapper=arrow_strings.get))
    return ways


def as_rows(result: object, keys: int) -> pd.DataFrame:
    """Any engine's result as a sorted frame of the same columns."""
    if isinstance(result, duckdb.DuckDBPyRelation):
        result = result.to_arrow_table()
    frame = result.reset_index() if isinstance(result, pd.DataFrame) else result.to_pandas()
    frame.columns = [*(f"k{i}" for i in range(keys)), "n", "s", "m"]
    return frame.astype({"n": "int64"}).sort_values(list(frame.columns[:keys])).reset_index(drop=True)


def check_equal(engines: dict[str, Ways], keys: int) -> None:
    """Refuse to compare engines that do not give the same answer. Also the warm-up."""
    wanted = as_rows(engines["duckdb"]["to Arrow"](), keys)
    for engine, ways in engines.items():
        for way, call in ways.items():
            rows = as_rows(call(), keys)
            pd.testing.assert_frame_equal(rows, wanted, check_dtype=False, obj=f"{engine}, {way}")


def milliseconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    result = call()
    taken = (time.perf_counter() - started) * 1000
    del result  # freeing is not timed
    return taken


def measure(calls: dict[str, Callable[[], object]], rounds: int, shuffle: bool) -> dict[str, float]:
    """Median milliseconds per call, calls taking turns."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    order, draw = list(calls), random.Random(0)
    for _ in range(rounds):
        if shuffle:
            draw.shuffle(order)
        for name in order:
            times[name].append(milliseconds(calls[name]))
    return {name: statistics.median(taken) for name, taken in times.items()}


def fastest(ways: Ways) -> str:
    """The way that is to stand for its engine: tried out in turns and by medians, as engines are measured."""
    if len(ways) == 1:
        return next(iter(ways))
    taken = measure(ways, TRIALS, shuffle=True)
    return min(ways, key=taken.__getitem__)


def run(scenario: Scenario, options: argparse.Namespace) -> dict[str, object]:
    table = scenario.table(options.scale)
    engines = workloads(table)
    check_equal(engines, table.num_columns - 1)
    ways = {engine: fastest(engines[engine]) for engine in engines}
    taken = measure({engine: engines[engine][way] for engine, way in ways.items()}, options.rounds, options.shuffle)
    best = min((name for name in taken if name != "millrace"), key=taken.__getitem__)
    ratio = taken[best] / taken["millrace"]
    rate = table.num_rows / taken["millrace"] / 1000
    return {"scenario": scenario.name, "ms": taken, "ways": ways, "best other": f"{best}, {ways[best]}",
            "ratio": ratio, "target": scenario.target, "million rows/s": rate}  # fmt: skip


def report(row: dict) -> str:
    times = "  ".join(f"{row['ms'][name]:>8.1f}" for name in ENGINES)
    verdict = "ok" if row["ratio"] >= row["target"] else "MISSED"
    return (
        f"{row['scenario']:<34}  {times}  {row['million rows/s']:>8.1f}  {row['best other']:<21}  "
        f"{row['ratio']:>5.2f}  {row['target']:>6.1f}  {verdict}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="timed rounds (default 7)")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the rows to use (default 1.0)")
    parser.add_argument("--shuffle", action="store_true", help="draw the engines' order anew every round")
    parser.add_argument("--only", default="", metavar="TEXT", help="only scenarios whose name has this text")
    parser.add_argument("--json", help="also write the figures to this file")
    options = parser.parse_args()
    packages = ("numba", "numpy", "polars", "duckdb", "pyarrow", "pandas")
    machine = ", ".join([processor(), f"Python {platform.python_version()}", *(f"{p} {version(p)}" for p in packages)])
    print(machine)
    print(f"one thread each, medians of {options.rounds} rounds in milliseconds\n")
    print(
        f"{'':<34}  {'  '.join(f'{name:>8}' for name in ENGINES)}  {'M rows/s':>8}  {'best other':<21}  ratio  target"
    )
    rows = []
    for scenario in (s for s in SCENARIOS if options.only in s.name):
        rows.append(run(scenario, options))
        print(report(rows[-1]), flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"machine": machine, "rounds": options.rounds, "scenarios": rows}, file, indent=2)


if __name__ == "__main__":
    main()
