"""Joins of two streams: impressions and clicks, half of the rows of a micro-batch each."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from millrace import spark_glue as mr
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from .inputs import clicks, impressions
from .workload import Workload, pair

MATCH = "ad = click_ad AND clicked BETWEEN shown AND shown + interval 20 seconds"
Frames = dict[str, DataFrame]


def own_join(frames: Frames, how: str) -> DataFrame:
    left = frames["impressions"].withWatermark("shown", "10 seconds")
    return left.join(frames["clicks"].withWatermark("clicked", "10 seconds"), F.expr(MATCH), how)


def our_join(frames: Frames, how: str) -> DataFrame:
    watermarks = (("shown", "10 seconds"), ("clicked", "10 seconds"))
    return mr.join(frames["impressions"], frames["clicks"], MATCH, how, watermarks=watermarks)


def workloads() -> Iterator[Workload]:
    """A quarter of a million rows of each side a micro-batch."""
    targets = {"hdfs": 5.0, "rocksdb": 20.0}
    for name, how, ads, wanted in (
        ("join, inner", "inner", 50_000, targets),
        ("join, left outer", "left_outer", 50_000, targets),
        # Little work for either side: most of what is measured is moving rows.
        ("join, inner, a key a row", "inner", 250_000, {}),
    ):
        compared = pair(name, partial(own_join, how=how), partial(our_join, how=how), wanted)
        inputs = {"impressions": impressions, "clicks": clicks}
        yield Workload(name, "join", "append", 250_000, ads, inputs, **compared)
