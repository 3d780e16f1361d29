"""The worked scenarios G1 to G8 of Spark's stateful functions, and the rules around them, one by one."""

from __future__ import annotations

import pyarrow as pa
import pytest
from millrace.kernels.errors import FunctionFailed, InvalidArgument, MillraceError
from millrace.kernels.keyed_state import KeyedState
from millrace.kernels.stateful_query import StatefulQuery

SCHEMA = pa.schema({"user": pa.string(), "ts": pa.timestamp("us")})
TIMES = {"EventTimeTimeout": {"timeout": "EventTimeTimeout", "event_time": "ts"}}


def state_for(function, state="n long", output="user string, n long", timeout="NoTimeout") -> KeyedState:
    event_time = "ts" if timeout == "EventTimeTimeout" else None
    return KeyedState(StatefulQuery(SCHEMA, ["user"], state, output, function, timeout, event_time))


def rows_of(*rows: str | tuple[str, int]) -> pa.RecordBatch:
    """Users, or users with an event second."""
    users = [row if isinstance(row, str) else row[0] for row in rows]
    times = [None if isinstance(row, str) else row[1] * 1_000_000 for row in rows]
    return pa.record_batch({"user": users, "ts": pa.array(times, pa.timestamp("us"))}, schema=SCHEMA)


def run(state: KeyedState, *rows, **marks) -> list[tuple]:
    result = state.process(rows_of(*rows), **{"batch_time_ms": 0, **marks})
    return sorted((tuple(row.values()) for row in result.rows.to_pylist()), key=str)


def counts(state: KeyedState) -> tuple[int, int, int]:
    m = state.metrics
    return m.numTotalStateRows, m.numUpdatedStateRows, m.numRemovedStateRows


def test_g1_count_and_remove_at_three():
    def count(key, rows, state, out):
        state.n += len(rows)
        if state.n == 3:
            state.remove()
        else:
            out.emit(key.user, state.n)

    state = state_for(count)
    seen = []
    for users in (["a"], ["a", "b"], ["a", "b"], ["a", "c"]):
        rows = run(state, *users)
        seen.append((rows, counts(state)[:2]))
    assert seen == [
        ([("a", 1)], (1, 1)),
        ([("a", 2), ("b", 1)], (2, 2)),
        ([("b", 2)], (1, 1)),
        ([("a", 1), ("c", 1)], (3, 2)),
    ]


def test_g2_processing_time_timeout():
    def count(key, rows, state, out):
        if state.has_timed_out:
            state.remove()
            out.emit(key.user, -1)
        else:
            state.n += len(rows)
            state.set_timeout_duration(10_000)
            out.emit(key.user, state.n)

    state = state_for(count, timeout="ProcessingTimeTimeout")
    assert run(state, "a", batch_time_ms=1_000) == [("a", 1)]
    assert run(state, "b", batch_time_ms=2_000) == [("b", 1)]
    assert run(state, "b", batch_time_ms=12_000) == [("a", -1), ("b", 2)]


def latest_time(key, rows, state, out):
    """Follow the greatest event second, and time out five seconds later."""
    if state.has_timed_out:
        state.remove()
        out.emit(key.user, -1)
    else:
        for i in range(len(rows)):
            state.n = max(state.n, rows.ts[i] // 1_000_000)
        state.set_timeout_timestamp((state.n + 5) * 1000)
        out.emit(key.user, state.n)


def test_g3_event_time_timeout():
    state = state_for(latest_time, timeout="EventTimeTimeout")

    def step(late, watermark, *rows):
        return run(state, *rows, late_watermark_ms=late * 1000, watermark_ms=watermark * 1000)

    assert step(0, 0, ("a", 11), ("a", 13), ("a", 15)) == [("a", 15)]
    assert step(0, 5) == []  # Spark's batch without data, after which 5 s is the watermark of the batch before
    assert step(5, 5, ("a", 4)) == [] and state.metrics.numRowsDroppedByWatermark == 1
    assert step(5, 5, ("a", 10)) == [("a", 15)]
    assert step(5, 5, ("b", 30)) == [("b", 30)]
    assert step(5, 20) == []  # at 20 s exactly, a's timeout of 20 s does not fire
    assert step(20, 20, ("b", 31)) == [("b", 31)]
    assert step(20, 21) == [("a", -1)]


@pytest.mark.parametrize(("timeout", "fires"), [(999, True), (1000, False), (1001, False)])
def test_g4_the_threshold_is_strict(timeout, fires):
    def set_once(key, rows, state, out):
        if state.has_timed_out:
            out.emit(key.user, state.n)
        else:
            state.n = 1
            state.set_timeout_timestamp(timeout)

    state = state_for(set_once, timeout="EventTimeTimeout")
    run(state, "a", watermark_ms=0)
    assert (run(state, watermark_ms=1000) == [("a", 1)]) == fires


def set_first(key, rows, state, out):
    """Set state and timeout for a fresh key, and do nothing in any other call."""
    out.emit(key.user, state.n)
    if not state.exists:
        state.n = 5
        state.set_timeout_timestamp(1000)


def test_g5_a_call_that_does_nothing_clears_the_timeout():
    state = state_for(set_first, timeout="EventTimeTimeout")
    run(state, "a", watermark_ms=0)
    assert run(state, "a", watermark_ms=0) == [("a", 5)] and counts(state) == (1, 1, 0)
    assert run(state, watermark_ms=2000) == [] and len(state) == 1


def test_g6_a_timed_out_call_that_does_nothing_clears_the_timeout():
    state = state_for(set_first, timeout="EventTimeTimeout")
    run(state, "a", watermark_ms=0)
    assert run(state, watermark_ms=2000) == [("a", 5)] and counts(state) == (1, 1, 0)
    assert run(state, watermark_ms=3000) == []


def test_g7_remove_and_set_a_timeout():
    def leave(key, rows, state, out):
        out.emit(key.user, 1 if state.exists else 0)
        if not state.has_timed_out:
            state.n = 7
            state.remove()
            state.set_timeout_timestamp(1000)

    state = state_for(leave, timeout="EventTimeTimeout")
    assert run(state, "a", watermark_ms=0) == [("a", 0)] and counts(state) == (1, 1, 0)
    with pytest.raises(InvalidArgument, match="state_format_version: got 1, accepted is 2 here: the key user='a' has"):
        state.to_bytes(version=1)
    state = KeyedState.from_bytes(state.query, state.to_bytes())
    assert run(state, watermark_ms=2000) == [("a", 0)]
    # Nothing was done in that call but clearing the timeout, so the row stays, as in Spark.
    assert counts(state) == (1, 1, 0)


def test_g8_a_timeout_before_the_watermark():
    def too_early(key, rows, state, out):
        state.n = 5
        if state.current_watermark_ms > 0:
            state.set_timeout_timestamp(state.current_watermark_ms - 1)

    state = state_for(too_early, timeout="EventTimeTimeout")
    run(state, "a", watermark_ms=0)
    message = (
        r"too_early failed for key user='b': \[INVALID_TIMEOUT_TIMESTAMP\] Timeout timestamp \(999\) cannot be "
        r"earlier than the current watermark \(1000\)"
    )
    with pytest.raises(FunctionFailed, match=message):
        run(state, "b", watermark_ms=1000)
    for call in (state.to_bytes, lambda: run(state, "a", watermark_ms=0)):
        with pytest.raises(MillraceError, match="failed in the middle of a batch; load it again"):
            call()


def test_g9_a_batch_that_is_run_again():
    def count(key, rows, state, out):
        state.n += len(rows)
        if len(rows) == 2:
            raise ValueError("the task fails")
        out.emit(key.user, state.n)

    state, counted = state_for(count), []
    for users in (["a"], ["a", "a"], ["a"], ["a"]):
        saved = state.to_bytes()
        try:
            counted += run(state, *users)
        except FunctionFailed:
            state = KeyedState.from_bytes(state.query, saved)
    assert counted == [("a", 1), ("a", 2), ("a", 3)]


def test_a_timeout_at_the_watermark_is_allowed():
    def now(key, rows, state, out):
        state.set_timeout_timestamp(state.current_watermark_ms)

    run(state_for(now, timeout="EventTimeTimeout"), "a", watermark_ms=1000)


@pytest.mark.parametrize(
    ("duration", "watermark", "message"),
    [
        (0, 0, r"\[VALUE_NOT_POSITIVE\] Value for the timeout must be positive, got '0'"),
        (-3, 0, r"\[VALUE_NOT_POSITIVE\] .* got '-3'"),
    ],
)
def test_timeouts_that_are_not_positive(duration, watermark, message):
    def by_clock(key, rows, state, out):
        state.set_timeout_duration(duration)

    def by_event_time(key, rows, state, out):
        state.set_timeout_timestamp(duration)

    with pytest.raises(FunctionFailed, match=message):
        run(state_for(by_clock, timeout="ProcessingTimeTimeout"), "a")
    with pytest.raises(FunctionFailed, match=message):
        run(state_for(by_event_time, timeout="EventTimeTimeout"), "a", watermark_ms=watermark)


def test_the_wrong_kind_of_timeout_is_refused_when_the_query_is_built():
    def by_clock(key, rows, state, out):
        state.set_timeout_duration(10)

    def by_event_time(key, rows, state, out):
        state.set_timeout_timestamp(10)

    for function, timeout, what in [
        (by_clock, "EventTimeTimeout", "set timeout duration without enabling processing time timeout"),
        (by_clock, "NoTimeout", "set timeout duration without enabling processing time timeout"),
        (by_event_time, "ProcessingTimeTimeout", "set timeout timestamp without enabling event time timeout"),
    ]:
        with pytest.raises(InvalidArgument, match=rf"\[CANNOT_WITHOUT\] Cannot {what}; this query has {timeout}"):
            state_for(function, timeout=timeout)


def test_the_watermark_and_the_clock_that_a_function_sees():
    def look(key, rows, state, out):
        out.emit(key.user, state.current_watermark_ms + 10 * state.current_processing_time_ms)

    state = state_for(look)
    assert run(state, "a", watermark_ms=0, batch_time_ms=3) == [("a", 30)]
    assert run(state, "a", watermark_ms=-1, batch_time_ms=0) == [("a", -1)]  # a query over bounded data
    with pytest.raises(FunctionFailed, match=r"\[CANNOT_WITHOUT\] Cannot get event time watermark"):
        run(state, "a")


def test_without_event_time_timeouts_nothing_is_late():
    def count(key, rows, state, out):
        state.n += len(rows)
        out.emit(key.user, state.n)

    assert run(state_for(count), ("a", 1), late_watermark_ms=9000, watermark_ms=9000) == [("a", 1)]
    state = state_for(count, timeout="EventTimeTimeout")
    # At the late watermark is late; a null time never is.
    assert run(state, ("a", 9), ("a", 10), "a", late_watermark_ms=9000, watermark_ms=9000) == [("a", 2)]
    assert state.metrics.numRowsDroppedByWatermark == 1


def test_a_fresh_key_that_is_removed_counts_as_removed():
    def leave(key, rows, state, out):
        state.remove()

    state = state_for(leave)
    run(state, "a")
    assert counts(state) == (0, 0, 1)


def test_a_call_that_only_looks_stores_nothing():
    def look(key, rows, state, out):
        out.emit(key.user, state.n + len(rows))

    state = state_for(look)
    assert run(state, "a", "a") == [("a", 2)] and counts(state) == (0, 0, 0)
    assert len(state) == 0


def test_what_the_user_raises_names_the_key():
    def fussy(key, rows, state, out):
        state.n += 1
        if key.user == "bob":
            raise ValueError("no bobs here")
        out.emit(key.user, 10 // (3 - state.n))

    state = state_for(fussy)
    with pytest.raises(FunctionFailed, match="fussy failed for key user='bob': ValueError: no bobs here"):
        run(state, "ann", "bob")
    state = state_for(fussy)
    run(state, "ann"), run(state, "ann")
    with pytest.raises(FunctionFailed, match="failed for key user='ann': ZeroDivisionError"):
        run(state, "ann")


@pytest.mark.parametrize("bad", [1.5, "now", True, None])
def test_times_that_are_none(bad):
    state = state_for(latest_time, timeout="EventTimeTimeout")
    with pytest.raises(InvalidArgument, match=r"batch_time_ms: got .*, accepted is milliseconds as an int"):
        state.process(batch_time_ms=bad)
    if bad is not None:
        with pytest.raises(InvalidArgument, match=r"watermark_ms: got .*, accepted is milliseconds"):
            state.process(batch_time_ms=0, watermark_ms=bad)
    run(state, ("a", 1))  # nothing has been taken in


def test_many_keys_come_and_go():
    """Memory follows the keys that are there, and keys whose numbers are used again start afresh."""

    def once(key, rows, state, out):
        if state.n == 0:
            out.emit(key.user, len(state.name))
        state.n += 1
        state.name = key.user
        if state.n == 2:
            state.remove()

    state = state_for(once, state="n long, name string")
    for wave in range(4):
        users = [f"user {wave} {i}" for i in range(40_000)]
        assert len(run(state, *users)) == 40_000 and len(state) == 40_000
        assert run(state, *users) == [] and len(state) == 0
    assert state.nbytes < 40_000_000
