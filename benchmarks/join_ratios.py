"""A one-shot inner join through Millrace, Polars, DuckDB, pyarrow and pandas, one thread each, in one run.

    python benchmarks/join_ratios.py [--rounds 7] [--scale 1.0]

Two tables of two columns, joined by a key that is unique in both. How the engines take turns and what
the ratio means is as in `ratios.py`.
"""

from __future__ import annotations

import argparse

import numpy as np
import pyarrow as pa
from millrace.kernels.join_query import Join
from millrace.kernels.join_state import join_bounded
from ratios import ENGINES, Ways, duckdb, fastest, measure, pd, pl  # which keeps Polars to one thread

ROWS, TARGET = 1_000_000, 1.2


def workloads(rows: int) -> dict[str, Ways]:
    """Ways to join, per engine."""
    rng = np.random.default_rng(42)
    # Identifiers as they come: keys from a dense range would let an engine index by them directly.
    keys = np.unique(rng.integers(0, 2**62, rows + rows // 100))[:rows]
    left = pa.table({"k": rng.permutation(keys), "a": np.arange(len(keys))})
    right = pa.table({"k": rng.permutation(keys), "b": np.arange(len(keys))})
    pa.set_cpu_count(1)
    join = Join(left.schema, right.schema, [("k", "k")], "inner")
    batches = left.to_batches()[0], right.to_batches()[0]
    frames, tables = (pl.from_arrow(left), pl.from_arrow(right)), (left.to_pandas(), right.to_pandas())
    return {
        "millrace": {"bounded": lambda: list(join_bounded(join, *batches))},
        "polars": {
            "eager": lambda: frames[0].join(frames[1], on="k"),
            "streaming": lambda: frames[0].lazy().join(frames[1].lazy(), on="k").collect(engine="streaming"),
        },
        "duckdb": duckdb_ways(left, right),
        "pyarrow": {"whole": lambda: left.join(right, "k", join_type="inner", use_threads=False)},
        "pandas": {"merge": lambda: tables[0].merge(tables[1], on="k")},
    }


def duckdb_ways(left: pa.Table, right: pa.Table) -> Ways:
    connection = duckdb.connect(config={"threads": 1, "preserve_insertion_order": False})
    for name, table in (("l", left), ("r", right)):
        connection.register("arrow_table", table)
        connection.execute(f"create table {name} as select * from arrow_table")
        connection.unregister("arrow_table")
    sql = "select l.k, a, b from l join r on l.k = r.k"

    def own_table() -> duckdb.DuckDBPyRelation:
        connection.execute(f"create or replace temp table result as {sql}")
        return connection.table("result")

    return {"to Arrow": lambda: connection.sql(sql).to_arrow_table(), "to table": own_table}


def as_rows(result: object) -> pd.DataFrame:
    """Any engine's result as a sorted frame of key, left and right value."""
    if isinstance(result, list):
        # Ours has the key of both sides.
        columns = pa.Table.from_batches(result).columns
        result = pa.table([columns[0], columns[1], columns[3]], names=["k", "a", "b"])
    if isinstance(result, duckdb.DuckDBPyRelation):
        result = result.to_arrow_table()
    frame = result if isinstance(result, pd.DataFrame) else result.to_pandas()  # type: ignore[attr-defined]
    return frame[["k", "a", "b"]].sort_values("k").reset_index(drop=True)


def check_equal(engines: dict[str, Ways]) -> None:
    """Refuse to compare engines that do not give the same answer. Also the warm-up."""
    wanted = as_rows(engines["duckdb"]["to Arrow"]())
    for engine, ways in engines.items():
        for way, call in ways.items():
            pd.testing.assert_frame_equal(as_rows(call()), wanted, check_dtype=False, obj=f"{engine}, {way}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="timed rounds (default 7)")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the rows to use (default 1.0)")
    options = parser.parse_args()
    rows = max(int(ROWS * options.scale), 1000)
    engines = workloads(rows)
    check_equal(engines)
    ways = {engine: fastest(engines[engine]) for engine in engines}
    taken = measure({engine: engines[engine][way] for engine, way in ways.items()}, options.rounds, shuffle=False)
    best = min((name for name in taken if name != "millrace"), key=taken.__getitem__)
    ratio = taken[best] / taken["millrace"]
    print(f"inner join of {rows:,} × {rows:,} rows, one thread each, medians of {options.rounds} rounds\n")
    print("  ".join(f"{name} {taken[name]:.1f} ms" for name in ENGINES))
    print(f"best other: {best}, {ways[best]}; ratio {ratio:.2f}, target {TARGET}", end="  ")
    print("ok" if ratio >= TARGET else "MISSED")


if __name__ == "__main__":
    main()
