"""`watch` over real queries: one that runs, and one that fails."""

from __future__ import annotations

import re

from harness import Running, Source
from millrace import spark_glue as mr


def test_a_query_as_it_runs_and_ends(spark, capsys):
    source = Source(spark, "k long, v long")
    source.add([(1, 10), (2, 20), (1, 5)])
    totals = mr.aggregate(source.frame(), ["k"], {"s": mr.sum("v")}, output_mode="update", name="totals")
    running = Running(totals, "update").start()
    running.process()
    mr.watch(running.query, seconds=0.1, every=0.05)
    running.stop()
    mr.watch(running.query)
    lines = capsys.readouterr().out.splitlines()
    assert re.search(r", totals: batch 0, rows/s \d.*, state rows 2, updated 2, removed 0, late 0, memory ", lines[0])
    assert re.search(r"ms: addBatch \d.*; updates \d+, removals 0, commit \d+$", lines[0])
    assert lines[-1].endswith(" ended")


def test_a_failure_is_told_in_the_words_of_the_operator(spark, capsys):
    source = Source(spark, "v long")
    source.add([(2**63 - 1,), (1,)])
    running = Running(mr.aggregate(source.frame(), [], {"s": mr.sum("v")}, output_mode="update"), "update").start()
    mr.watch(running.query, every=0.1)
    assert re.search(
        r" failed: ArithmeticOverflow: aggregate 'aggregate', bucket 0, batch 0: ", capsys.readouterr().out
    )
