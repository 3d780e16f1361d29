"""A key with many rows on both sides: the pairs are tried a bounded number at a time."""

from __future__ import annotations

import os
from pathlib import Path

from harness import Running, Source
from millrace import spark_glue as mr
from pyspark.sql import functions as F

# More under `make soak`.
ROWS = int(os.environ.get("MILLRACE_HOT_ROWS", "4000"))
LIMIT_KIB = 2**20


def status(pid: str) -> dict[str, str]:
    try:
        lines = Path("/proc", pid, "status").read_text().splitlines()
    except OSError:
        return {}
    return dict(line.split(":", 1) for line in lines)


def peak_of_workers() -> int:
    """The most memory, in KiB, that any Python worker of this process's Spark has had resident."""
    known = {pid: status(pid) for pid in os.listdir("/proc") if pid.isdigit()}
    mine, grown = {str(os.getpid())}, True
    while grown:
        found = {pid for pid, facts in known.items() if facts.get("PPid", "").strip() in mine} - mine
        mine, grown = mine | found, bool(found)
    workers = [known[pid] for pid in mine if "python" in known[pid].get("Name", "")]
    return max(int(facts["VmHWM"].split()[0]) for facts in workers if facts is not known[str(os.getpid())])


def test_a_hot_key_stays_below_a_gibibyte(spark):
    """Of all pairs as many match as there are rows on a side: those that add up to one number."""
    sources = [Source(spark, "k int, v long") for _ in range(2)]
    for source in sources:
        source.add([(1, v) for v in range(ROWS)])
    left, right = (s.frame().select(*(F.col(c).alias(p + c) for c in "kv")) for s, p in zip(sources, "lr", strict=True))
    running = Running(mr.join(left, right, f"lk = rk AND lv + rv = {ROWS - 1}"), "append")
    running.start().process()
    running.stop()
    (rows,) = (rows for rows in running.batches.values() if rows)
    assert sorted(row.lv for row in rows) == list(range(ROWS))
    assert peak_of_workers() < LIMIT_KIB
