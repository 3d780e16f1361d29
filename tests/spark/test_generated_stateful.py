"""Generated streams through stateful functions with event-time timeouts: Spark's own and both engines, by batch.

Every example runs two streaming queries, so there are few here; `make soak` runs many.
"""

from __future__ import annotations

import os
import sys

import pandas as pd
from harness import Source, at, duel
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from millrace import spark_glue as mr
from pyspark import cloudpickle

# Workers cannot import this file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

EXAMPLES = int(os.environ.get("MILLRACE_SPARK_EXAMPLES", "3"))
SLOW = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))

EVENTS, OUTPUT, STATE = "user string, ts timestamp, v long", "user string, n long", "n long"
TIMEOUT = "EventTimeTimeout"

# Times of all sizes, so that some rows are late and some timeouts fire.
SECONDS = st.one_of(st.none(), st.integers(0, 90), st.floats(0, 90, allow_nan=False).map(lambda x: round(x, 6)))
ROW = st.tuples(
    st.sampled_from([None, "", "a", "żółw"]),
    SECONDS.map(lambda second: None if second is None else at(second)),
    st.one_of(st.none(), st.integers(0, 40)),
)
STEPS = st.lists(st.lists(ROW, max_size=8), min_size=3, max_size=5)
RESTARTS = st.sampled_from([(), (0,), (1,)])
DELAYS = st.sampled_from(["0 seconds", "9 seconds"])


def taken_in(pdfs):
    """The sum of values and the latest millisecond, neither of which depends on the order of rows."""
    rows = pd.concat(pdfs)
    times = rows["ts"].dropna()
    return int(rows["v"].fillna(0).sum()), max((t.value // 1_000_000 for t in times), default=0)


def moody(key, pdfs, state):
    """Chooses by its values what it does to its state and its timeout, doing nothing included."""
    n, watermark = state.get[0] if state.exists else 0, state.getCurrentWatermarkMs()
    if state.hasTimedOut:
        if n % 3 == 0:
            state.remove()
        elif n % 3 == 1:
            state.update((n + 1,))
            state.setTimeoutTimestamp(watermark + 4000)
        yield pd.DataFrame({"user": [key[0]], "n": [-n - 1]})
        return
    total, latest = taken_in(pdfs)
    n, mood = n + total, total % 6
    if mood in (0, 1, 2):
        state.update((n,))
    if mood in (0, 1, 4):
        state.setTimeoutTimestamp(max(latest + 5000, watermark))
    if mood == 5:
        state.remove()
    yield pd.DataFrame({"user": [key[0]], "n": [n]})


def steady(key, pdfs, state):
    """Sets a timeout or forgets its state in every call: there the engines have the same rules."""
    n, watermark = state.get[0] if state.exists else 0, state.getCurrentWatermarkMs()
    if state.hasTimedOut:
        if n % 2 == 0:
            state.remove()
        else:
            state.update((n + 1,))
            state.setTimeoutTimestamp(watermark + 4000)
        yield pd.DataFrame({"user": [key[0]], "n": [-n - 1]})
        return
    total, latest = taken_in(pdfs)
    n += total
    if total % 5 == 4:
        state.remove()
    else:
        state.update((n,))
        state.setTimeoutTimestamp(max(latest + 5000, watermark))
    yield pd.DataFrame({"user": [key[0]], "n": [n]})


@mr.stateful(keys=["user"], state=STATE, output=OUTPUT, timeout=TIMEOUT, name="steady")
def compiled_steady(key, rows, state, out):
    n = state.n
    if state.has_timed_out:
        if n % 2 == 0:
            state.remove()
        else:
            state.n = n + 1
            state.set_timeout_timestamp(state.current_watermark_ms + 4000)
        out.emit(key.user, -n - 1)
        return
    total, latest = 0, 0
    for i in range(len(rows)):
        if rows.v[i] is not None:
            total += rows.v[i]
        if rows.ts[i] is not None:
            latest = max(latest, rows.ts[i] // 1000)
    n += total
    if total % 5 == 4:
        state.remove()
    else:
        state.n = n
        state.set_timeout_timestamp(max(latest + 5000, state.current_watermark_ms))
    out.emit(key.user, n)


def own_of(frame, function):
    return frame.groupBy("user").applyInPandasWithState(function, OUTPUT, STATE, "update", TIMEOUT)


@SLOW
@given(steps=STEPS, delay=DELAYS, restart=RESTARTS)
def test_unchanged_functions(spark, steps, delay, restart):
    source = Source(spark, EVENTS)
    frame = source.frame().withWatermark("ts", delay)
    ours = mr.apply_in_pandas_with_state(frame, ["user"], moody, OUTPUT, STATE, "update", TIMEOUT)
    duel([source], own_of(frame, moody), ours, "update", [[step] for step in steps], restart_after=restart)


@SLOW
@given(steps=STEPS, delay=DELAYS, restart=RESTARTS)
def test_compiled_functions(spark, steps, delay, restart):
    source = Source(spark, EVENTS)
    frame = source.frame().withWatermark("ts", delay)
    steps = [[step] for step in steps]
    duel([source], own_of(frame, steady), compiled_steady(frame), "update", steps, restart_after=restart)
