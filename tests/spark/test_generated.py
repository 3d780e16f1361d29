"""Generated streams, keys, windows and join conditions: Spark's own operators and ours, batch by batch.

Every example runs two streaming queries, so there are few here; `make soak` runs many.
"""

from __future__ import annotations

import os

from harness import Source, at, duel
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from millrace import spark_glue as mr
from millrace.spark_glue.aggregate import spark_twin
from pyspark.sql import functions as F

EXAMPLES = int(os.environ.get("MILLRACE_SPARK_EXAMPLES", "3"))
SLOW = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))

SECONDS = st.one_of(st.none(), st.integers(0, 60), st.floats(0, 60, allow_nan=False).map(lambda x: round(x, 6)))
ROW = st.tuples(
    st.sampled_from([None, 1, 2, 3]),
    SECONDS.map(lambda second: None if second is None else at(second)),
    st.one_of(st.none(), st.integers(-(10**6), 10**6)),
)
STEPS = st.lists(st.lists(ROW, min_size=1, max_size=12), min_size=2, max_size=4)
SIDE = st.one_of(st.none(), st.lists(ROW, min_size=1, max_size=8))
AGGS = {
    "n": mr.count(), "c": mr.count("v"), "s": mr.sum("v"), "a": mr.avg("v"), "lo": mr.min("v"), "hi": mr.max("v"),
    "d": mr.stddev_pop("v"),
}  # fmt: skip


@SLOW
@given(
    steps=STEPS,
    mode=st.sampled_from(["append", "update", "complete"]),
    window=st.sampled_from([("7 seconds",), ("10 seconds", "4 seconds"), None]),
    by_key=st.booleans(),
    delay=st.sampled_from(["0 seconds", "9 seconds"]),
    restart=st.sampled_from([(), (0,)]),
)
def test_aggregation(spark, steps, mode, window, by_key, delay, restart):
    source = Source(spark, "k int, ts timestamp, v bigint")
    frame = source.frame().withWatermark("ts", delay)
    keys = ["k"] if by_key else []
    grouping = [F.window("ts", *window).alias("window"), *keys] if window else [*keys, "ts"]
    own = frame.groupBy(*grouping).agg(*(spark_twin(agg).alias(name) for name, agg in AGGS.items()))
    ours = mr.aggregate(
        frame, keys if window else [*keys, "ts"], AGGS,
        window=mr.window("ts", *window) if window else None, output_mode=mode,
    )  # fmt: skip
    written = "update" if mode == "complete" else mode
    duel([source], own, ours, written, [[s] for s in steps], own_mode=mode, restart_after=restart, metrics="aggregate")


@SLOW
@given(
    steps=st.lists(
        st.tuples(*[st.one_of(st.none(), st.lists(ROW, min_size=1, max_size=8))] * 2), min_size=2, max_size=4
    ),
    how=st.sampled_from(["inner", "left_outer", "right_outer", "left_semi"]),
    rest=st.sampled_from(["", " AND lv < rv", " AND lv > 0", " AND rv IS NOT NULL AND lv + rv > 0"]),
    restart=st.sampled_from([(), (0,)]),
)
def test_join(spark, steps, how, rest, restart):
    sources = [Source(spark, "k int, t timestamp, v bigint") for _ in range(2)]
    left, right = (
        source.frame().withWatermark("t", "5 seconds").select(*(F.col(c).alias(side + c) for c in "ktv"))
        for source, side in zip(sources, "lr", strict=True)
    )
    on = "lk = rk AND lt >= rt - interval 4 seconds AND lt < rt + interval 6 seconds" + rest
    own, ours = left.join(right, F.expr(on), how), mr.join(left, right, on, how)
    duel(sources, own, ours, "append", [s for s in steps if any(s)] or [(None, None)], restart_after=restart)
