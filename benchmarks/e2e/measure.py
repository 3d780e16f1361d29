"""Workloads through all of their sides, taking turns, with every query saved as soon as it has run."""

from __future__ import annotations

import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

from millrace.spark_glue.command_session import parse_conf
from pyspark.sql import SparkSession

from . import aggregates, joins, stateful
from .checks import check
from .figures import Figures
from .inputs import first_batches, write_inputs
from .spark_runs import Surroundings, run_query
from .workload import Comparison, Pace, Side, Workload

WORKLOADS = (*aggregates.workloads(), *joins.workloads(), *stateful.workloads())


def surroundings(options: Namespace) -> Surroundings:
    conf = parse_conf(options.conf)
    return Surroundings(options.cores, options.partitions, options.sink, options.memory, options.daemon, conf)


def measure_all(figures: Figures, options: Namespace) -> Iterator[dict]:
    """Measure what the options choose and the figures lack; gives each entry once it is complete."""
    pace = Pace(options.warm_up, options.batches)
    for workload in WORKLOADS:
        for store in options.stores:
            comparisons = workload.compared(store, options.only, options.targets)
            if comparisons:
                entry = prepared(figures, workload, store, comparisons, options)
                measure(figures, entry, workload, workload.sides_of(comparisons), pace, options)
                yield entry


def prepared(
    figures: Figures, workload: Workload, store: str, comparisons: list[Comparison], options: Namespace
) -> dict:
    """The entry of a workload on a store, with the comparisons that it is to have besides those it has."""
    entry = figures.entry("spark", workload=workload.name, store=store)
    entry.setdefault("section", workload.section)
    entry.setdefault("rows", (options.rows or workload.rows) * len(workload.inputs))
    entry.setdefault("keys", options.keys or workload.keys)
    entry.setdefault("sides", {})
    known = {c["name"]: c for c in entry.setdefault("comparisons", [])}
    for c in comparisons:
        known[c.name] = {"name": c.name, "own": c.own, "ours": c.ours, "target": c.target(store)}
    entry["comparisons"] = [known[c.name] for c in workload.comparisons if c.name in known]
    return entry


def measure(
    figures: Figures, entry: dict, workload: Workload, sides: list[Side], pace: Pace, options: Namespace
) -> None:
    """Check the sides against each other, then run those that have fewer runs than wanted."""
    missing = [s for s in sides if len(entry["sides"].get(s.name, ())) < options.repeat]
    if not missing:
        return
    around = surroundings(options)
    spark = around.session(entry["store"])
    if options.check:
        entry["check"] = checked(figures, entry, workload, sides) or check(spark, workload, sides)
    longest = max((pace.at_most(side.pace) for side in missing), key=lambda p: p.batches)
    rows, keys = options.rows or workload.rows, options.keys or workload.keys
    with tempfile.TemporaryDirectory(prefix="millrace-data-") as folder:
        folders = write_inputs(workload.inputs, Path(folder), longest.batches, rows, keys)
        for turn in range(options.repeat):
            for side in missing:
                runs = entry["sides"].setdefault(side.name, [])
                if len(runs) <= turn:
                    runs.append(run(spark, workload, side, folders, pace.at_most(side.pace), around))
                    figures.save()
                    if options.verbose:
                        print(f"  {side.name}: {runs[-1]}", file=sys.stderr)


def checked(figures: Figures, entry: dict, workload: Workload, sides: list[Side]) -> dict | None:
    """A check of these sides that was made before, for this workload or one that differs in its sizes alone."""
    alike = {w.name for w in WORKLOADS if job_of(w) == job_of(workload)}
    for other in figures.spark:
        if other["workload"] in alike and other["store"] == entry["store"]:
            check_made = other.get("check", {"sides": ()})
            if {side.name for side in sides} <= set(check_made["sides"]):
                return check_made
    return None


def job_of(workload: Workload) -> tuple:
    """What a check looks at: all but the sizes, save that every row may have a key of its own."""
    return [(side.name, side.build) for side in workload.sides], workload.mode, workload.keys == workload.rows


def run(
    spark: SparkSession, workload: Workload, side: Side, folders: dict[str, Path], pace: Pace, around: Surroundings
) -> dict[str, list[int]]:
    taken = run_query(spark, side.build, workload.mode, first_batches(folders, pace.batches), around.sink)
    return {"warm-up": taken[: pace.warm_up], "timed": taken[pace.warm_up :]}
