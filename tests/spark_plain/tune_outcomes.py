"""Outcomes with made-up figures, for tests of the reports."""

from __future__ import annotations

from millrace.spark_glue.tuning.job import Job
from millrace.spark_glue.tuning.outcome import Outcome
from millrace.spark_glue.tuning.search import BASELINE, CURVE, START
from millrace.spark_glue.tuning.settings import Settings, advised, spark_defaults
from millrace.spark_glue.tuning.trial import DONE, FAILED, STOPPED, Batch, Trial

WINNER = Settings(2, 4, arrow_rows=262_144)


def trial(number, settings, purpose, ms, status=DONE, reason="", measured=True):
    """A trial of 100,000 rows a batch: one of warm-up, then those that took so many milliseconds."""
    made = Trial(number, settings, purpose, warm_up=1, status=status, reason=reason, seconds=12.0)
    made.batches = [Batch(100_000, 5000), *[Batch(100_000, t) for t in ms]] if ms else []
    if measured and ms:
        # Of 0.2 million rows, in seconds.
        stages = {"source → Arrow": 0.04, "encode": 0.02, "shuffle": 0.01, "step": 0.06, "state": 0.02, "decode": 0.01}
        tasks = {"run": 0.3, "gc": 0.0, "shuffle_write": 0.01, "shuffle_wait": 0.0, "shuffle_bytes": 1e6}
        made.totals = {
            "cpu": {"jvm": 0.2, "python": 0.1}, "memory": {"jvm": 2**30, "python": 2**29},
            "stages": stages, "commit": 0.02, "tasks": tasks,
        }  # fmt: skip
    return made


def outcome(**changes) -> Outcome:
    trials = [
        trial(1, advised(2), START, (200, 220)),
        trial(2, spark_defaults(2), BASELINE, (800, 820), STOPPED, "slower than trial 1", measured=False),
        trial(3, WINNER, "arrow_rows", (150, 170)),
        trial(4, Settings(2, 2, store="rocksdb"), "store", (), FAILED, "boom <script>alert(1)</script> & more"),
        trial(5, WINNER.on_cores(1), CURVE, (250, 270)),
    ]
    values = {
        "job": Job(workload="windows"), "trials": trials, "winner": WINNER, "accepted": ("buckets", "map_side"),
        "points": [(1, 384_615.0), (2, 625_000.0)], "expected_cores": (8, 16), "seconds": 61.0, "cores_here": 2,
        "versions": {"spark": "4.3.0"},
    }  # fmt: skip
    return Outcome(**{**values, **changes})
