"""One function moved from Spark to Millrace in three steps, each timed over the same micro-batches in one run.

    python benchmarks/moving.py [--keys 10000] [--rows 500000] [--batches 3]

Prints the table of docs/moving.md.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

import pandas as pd
from e2e.inputs import events, write_inputs
from e2e.spark_runs import Surroundings, run_query
from millrace import spark_glue as mr
from pyspark import cloudpickle

# Workers cannot import this file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])
WARM_UP = 2
OUTPUT, STATE = "k long, n long, mean double", "n long, total double"


def running_mean(key, pdfs, state):
    n, total = state.get if state.exists else (0, 0.0)
    for pdf in pdfs:
        n += len(pdf)
        total += float(pdf["v"].sum())
    state.update((n, total))
    yield pd.DataFrame({"k": [key[0]], "n": [n], "mean": [total / n]})


@mr.stateful(keys=["k"], state=STATE, output=OUTPUT)
def compiled(key, rows, state, out):
    for i in range(len(rows)):
        state.n += 1
        state.total += rows.v[i]
    out.emit(key.k, state.n, state.total / state.n)


CALL = (running_mean, OUTPUT, STATE, "update", "NoTimeout")
STEPS = {
    "Spark's `applyInPandasWithState`": lambda frame: frame.groupBy("k").applyInPandasWithState(*CALL),
    "1. unchanged": lambda frame: mr.apply_in_pandas_with_state(frame, ["k"], *CALL),
    "2. compiled": compiled,
    "3. as an aggregate": lambda frame: mr.aggregate(
        frame, ["k"], {"n": mr.count(), "mean": mr.avg("v")}, output_mode="update"
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--batches", type=int, default=3, help="timed micro-batches, after two more")
    given = parser.parse_args()
    spark = Surroundings().session("hdfs")
    medians: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="millrace-data-") as folder:
        folders = write_inputs({"events": events}, Path(folder), WARM_UP + given.batches, given.rows, given.keys)
        for name, step in STEPS.items():
            taken = run_query(spark, lambda frames, step=step: step(frames["events"]), "update", folders)
            medians[name] = statistics.median(taken[WARM_UP:])
    slowest = max(medians.values())
    print(f"\n{given.rows:,} rows a batch, {given.keys:,} keys, medians of {given.batches} batches\n")
    print("| | seconds a batch | times as fast |\n| --- | ---: | ---: |")
    for name, ms in medians.items():
        print(f"| {name} | {ms / 1000:.2f} | {slowest / ms:.1f} |")


if __name__ == "__main__":
    main()
