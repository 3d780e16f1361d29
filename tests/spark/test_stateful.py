"""Stateful functions: Spark's `applyInPandasWithState` and ours, both engines, batch by batch."""

from __future__ import annotations

import sys

import pandas as pd
import pytest
from harness import Running, Source, at, duel
from millrace import spark_glue as mr
from pyspark import cloudpickle
from pyspark.sql.streaming.state import GroupState

# Workers cannot import this file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

EVENTS = "user string, ts timestamp, v long"


def counter(key, pdfs, state: GroupState):
    """Counts rows; forgets a key at three."""
    n = state.get[0] if state.exists else 0
    n += sum(len(pdf) for pdf in pdfs)
    if n >= 3:
        state.remove()
        yield pd.DataFrame({"user": [key[0]], "n": [-1]})
    else:
        state.update((n,))
        yield pd.DataFrame({"user": [key[0]], "n": [n]})


def session(key, pdfs, state: GroupState):
    """Keeps the latest second and times out five seconds after it, as the scenario G3 has it."""
    if state.hasTimedOut:
        state.remove()
        yield pd.DataFrame({"user": [key[0]], "n": [-1]})
        return
    latest = state.get[0] if state.exists else 0
    for pdf in pdfs:
        latest = max(latest, int(pdf["ts"].max().timestamp()))
    state.update((latest,))
    state.setTimeoutTimestamp(max(latest * 1000 + 5000, state.getCurrentWatermarkMs()))
    yield pd.DataFrame({"user": [key[0]], "n": [latest]})


def idle(key, pdfs, state: GroupState):
    """Sets a timeout once and then never touches its state again: Spark fires it in every batch."""
    if state.hasTimedOut:
        yield pd.DataFrame({"user": [key[0]], "n": [-1]})
    elif not state.exists:
        state.update((1,))
        state.setTimeoutTimestamp(max(15_000, state.getCurrentWatermarkMs()))


def rows(*named):
    return [(user, at(second), int(second)) for user, second in named]


def pair(frame, function, timeout, mode="update"):
    own = frame.groupBy("user").applyInPandasWithState(function, "user string, n long", "n long", mode, timeout)
    ours = mr.apply_in_pandas_with_state(frame, ["user"], function, "user string, n long", "n long", mode, timeout)
    return own, ours


G1 = [rows(("a", 1)), rows(("a", 1), ("b", 1)), rows(("a", 1), ("b", 1)), rows(("a", 1), ("c", 1), (None, 1))]


@pytest.mark.parametrize("mode", ["update", "append"])
def test_g1_unchanged_function(spark, mode):
    source = Source(spark, EVENTS)
    own, ours = pair(source.frame(), counter, "NoTimeout", mode)
    duel([source], own, ours, mode, [[step] for step in G1], restart_after=[1], metrics="counter")


def test_g3_event_time_timeout(spark):
    source = Source(spark, EVENTS)
    frame = source.frame().withWatermark("ts", "10 seconds")
    steps = [rows(("a", 11), ("a", 13), ("a", 15)), rows(("a", 4)), rows(("a", 10)), rows(("b", 30)), rows(("b", 31))]
    own, ours = pair(frame, session, "EventTimeTimeout")
    seen = duel([source], own, ours, "update", [[step] for step in steps], restart_after=[2], metrics="session")
    assert [sorted(batch) for batch in seen[-1].values()][-2:] == [[("b", 31)], [("a", -1)]]


def test_g6_a_timeout_that_nothing_answers_fires_again(spark):
    source = Source(spark, EVENTS)
    frame = source.frame().withWatermark("ts", "10 seconds")
    steps = [rows(("a", 11)), rows(("b", 30)), rows(("b", 31)), rows(("b", 40))]
    own, ours = pair(frame, idle, "EventTimeTimeout")
    duel([source], own, ours, "update", [[step] for step in steps], metrics="idle")


def test_batch_frames(spark):
    frame = spark.createDataFrame(rows(("a", 1), ("b", 2), ("a", 3)), EVENTS)
    # Spark refuses its own function on batch frames.
    ours = mr.apply_in_pandas_with_state(
        frame, ["user"], counter, "user string, n long", "n long", "update", "NoTimeout"
    )
    assert sorted(ours.collect()) == sorted(frame.groupBy("user").count().collect())


def test_a_compiled_function_gives_what_the_unchanged_one_gives(spark):
    @mr.stateful(keys=["user"], state="n long", output="user string, n long")
    def counted(key, rows, state, out):
        n = state.n + len(rows)
        if n >= 3:
            state.remove()
            out.emit(key.user, -1)
        else:
            state.n = n
            out.emit(key.user, n)

    source = Source(spark, EVENTS)
    frame = source.frame()
    own, _ = pair(frame, counter, "NoTimeout")
    duel(
        [source], own, frame.transform(counted), "update", [[step] for step in G1], restart_after=[1], metrics="counted"
    )


def test_a_compiled_function_with_event_time_timeouts(spark):
    @mr.stateful(
        keys=["user"], state="latest long", output="user string, n long", timeout="EventTimeTimeout",
        watermark=("ts", "10 seconds"),
    )  # fmt: skip
    def latest(key, rows, state, out):
        if state.has_timed_out:
            state.remove()
            out.emit(key.user, -1)
        else:
            for i in range(len(rows)):
                state.latest = max(state.latest, rows.ts[i] // 1_000_000)
            state.set_timeout_timestamp(max(state.latest * 1000 + 5000, state.current_watermark_ms))
            out.emit(key.user, state.latest)

    source = Source(spark, EVENTS)
    frame = source.frame()
    own, _ = pair(frame.withWatermark("ts", "10 seconds"), session, "EventTimeTimeout")
    steps = [rows(("a", 11), ("a", 15)), rows(("a", 4)), rows(("a", 10)), rows(("b", 30)), rows(("b", 31))]
    duel([source], own, latest(frame), "update", [[step] for step in steps], restart_after=[2], metrics="latest")


def total(key, pdfs, state: GroupState):
    n = (state.get[0] if state.exists else 0) + sum(len(pdf) for pdf in pdfs)
    state.update((n,))
    yield pd.DataFrame({"user": [key[0]], "n": [n]})


@pytest.mark.parametrize("engine", ["jit", "pandas"])
def test_initial_state(spark, engine):
    def counted(key, rows, state, out):
        state.n += len(rows)
        out.emit(key.user, state.n)

    begin = spark.createDataFrame([("a", 5), ("z", 7), (None, 3)], "user string, n long")
    make = mr.stateful(
        keys=["user"], state="n long", output="user string, n long", engine=engine, initial_state=begin
    )  # fmt: skip
    source = Source(spark, EVENTS)
    running = Running(make(counted if engine == "jit" else total)(source.frame()), "update").start()
    for step in (rows(("a", 1), ("b", 1)), rows(("z", 1), (None, 1), (None, 2))):
        source.add(step)
        running.process()
        running.restart()
    running.stop()
    # Keys of the initial state have a call in the first batch, with rows or without.
    assert [sorted(map(tuple, batch), key=repr) for batch in running.batches.values()] == [
        [("a", 6), ("b", 1), ("z", 7), (None, 3)], [("z", 8), (None, 5)],
    ]  # fmt: skip


def test_initial_state_with_a_key_twice_is_refused(spark):
    begin = spark.createDataFrame([("a", 5), ("a", 7)], "user string, n long")
    make = mr.stateful(
        keys=["user"], state="n long", output="user string, n long", engine="pandas", initial_state=begin
    )
    frame = spark.createDataFrame(rows(("a", 1)), EVENTS)
    with pytest.raises(Exception, match="initial_state: a key comes twice"):
        make(total)(frame).collect()


def test_processing_time_timeouts(spark):
    def patient(key, pdfs, state):
        if state.hasTimedOut:
            state.remove()
            yield pd.DataFrame({"user": [key[0]], "n": [-1]})
        else:
            state.update((1,))
            state.setTimeoutDuration(1500)

    @mr.stateful(
        keys=["user"], state="n long", output="user string, n long", timeout="ProcessingTimeTimeout",
    )  # fmt: skip
    def compiled(key, rows, state, out):
        if state.has_timed_out:
            state.remove()
            out.emit(key.user, -1)
        else:
            state.n = 1
            state.set_timeout_duration(1500)

    source = Source(spark, EVENTS)
    frame = source.frame()
    for ours in (pair(frame, patient, "ProcessingTimeTimeout")[1], compiled(frame)):
        source.add(rows(("a", 1)))
        running = Running(ours, "update").start()
        for _ in range(100):
            if any(running.batches.values()):
                break
            running.query.awaitTermination(0.2)
        running.stop()
        assert [row for batch in running.batches.values() for row in batch] == [("a", -1)]


def test_user_defined_aggregates_beside_built_in_ones(spark):
    frame = spark.createDataFrame([(1, 2.0, 1.0), (1, 4.0, 3.0), (2, 5.0, 0.5)], "k int, v double, w double")
    aggs = {"mean": mr.weighted_mean("v", "w"), "n": mr.count(), "d": mr.approx_count_distinct("v")}
    assert sorted(mr.aggregate(frame, ["k"], aggs).collect()) == [(1, 3.5, 2, 2), (2, 5.0, 1, 1)]


def test_mistakes_are_refused_on_the_driver(spark):
    frame = spark.createDataFrame(rows(("a", 1)), EVENTS)
    make = {"keys": ["user"], "state": "n long", "output": "n long"}
    with pytest.raises(mr.InvalidArgument, match="engine: got 'cython', accepted is 'jit', 'pandas'"):
        mr.stateful(**make, engine="cython")
    with pytest.raises(mr.InvalidArgument, match="output_mode: got 'complete'"):
        mr.stateful(**make, output_mode="complete")
    with pytest.raises(mr.InvalidArgument, match="there is no column 'usr'"):
        mr.stateful(**{**make, "keys": ["usr"]})(counter)(frame)

    def wrong(key, rows, state, out):
        out.emit(rows.vv[0])

    with pytest.raises(mr.MillraceError, match="vv"):
        mr.stateful(**make)(wrong)(frame)
    streaming = Source(spark, EVENTS).frame()
    with pytest.raises(mr.InvalidArgument, match="EventTimeTimeout"):
        mr.stateful(**make, timeout="EventTimeTimeout", engine="pandas")(counter)(streaming)
