"""A join's state as bytes: what bad bytes and other queries do, and what a join refuses."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from millrace.kernels import InvalidArgument, MillraceError, StateFormatError, UnsupportedType
from millrace.kernels.join_query import Join
from millrace.kernels.join_state import JoinState
from millrace.kernels.state_format import load_state

LEFT = pa.schema({"k": pa.int64(), "t": pa.timestamp("us"), "note": pa.string()})
RIGHT = pa.schema({"rk": pa.int64(), "rt": pa.timestamp("us"), "tags": pa.list_(pa.string())})


def join(**changes) -> Join:
    wanted = {"left": LEFT, "right": RIGHT, "keys": [("k", "rk")], "how": "left_outer"} | changes
    return Join(**wanted)


def state(how: str = "left_outer") -> JoinState:
    started = JoinState(join(how=how))
    left = pa.record_batch([[1, 1, 2], pa.array([1, 2, 3], pa.timestamp("us")), ["a", None, "ü"]], schema=LEFT)
    right = pa.record_batch([[1, 5], pa.array([1, None], pa.timestamp("us")), [["x"], None]], schema=RIGHT)
    assert sum(piece.num_rows for piece in started.process(left, right)) == 2
    return started


SAVED = state().to_bytes(buckets=4)


def load(data: bytes) -> JoinState:
    return JoinState.from_bytes(join(), data, buckets=4)


def test_rows_are_saved_with_their_number_and_flag():
    loaded = load_state(SAVED, "join")
    assert loaded.header["rows"] == [3, 2] and loaded.version == 2
    left = loaded.bodies[0].to_pylist()
    assert sorted((r["value:k"], r["index"], r["matched"]) for r in left) == [(1, 0, True), (1, 1, True), (2, 0, False)]
    assert len(load(SAVED)) == 5


def test_version_1_has_no_flags_and_is_for_inner_joins_only():
    old = load_state(state("inner").to_bytes(version=1), "join")
    assert "matched" not in old.bodies[0].schema.names
    with pytest.raises(InvalidArgument, match="state_format_version: got 1, accepted is 2 for a left_outer join"):
        state().to_bytes(version=1)


@pytest.mark.parametrize("size", [*range(0, 200, 7), len(SAVED) // 2, len(SAVED) - 1])
def test_a_state_cut_short(size):
    with pytest.raises(StateFormatError, match=r"cut short|not a Millrace state"):
        load(SAVED[:size])


@settings(max_examples=200, deadline=None)
@given(st.integers(0, len(SAVED) * 8 - 1))
def test_a_flipped_bit_anywhere(bit):
    damaged = bytearray(SAVED)
    damaged[bit // 8] ^= 1 << (bit % 8)
    with pytest.raises(StateFormatError, match=r"damaged|not a Millrace state"):
        load(bytes(damaged))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"how": "inner"}, 'how was "left_outer", now is "inner"'),
        ({"right": RIGHT.append(pa.field("more", pa.int8()))}, "right was .*, now is .*more"),
        ({"left_time": "t"}, 'times was .* now is {"left": "t"'),
        ({"null_safe": [0]}, r"null_safe was \[\], now is \[0\]"),
    ],
)
def test_another_join_is_refused_with_what_differs(changes, message):
    with pytest.raises(StateFormatError, match=message):
        JoinState.from_bytes(join(**changes), SAVED, buckets=4)
    with pytest.raises(StateFormatError, match="buckets was 4, now is 8"):
        JoinState.from_bytes(join(), SAVED, buckets=8)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"how": "cross"}, "how: got 'cross', accepted is 'inner', 'left_outer'"),
        ({"keys": []}, "keys: got .*, accepted is at least one pair"),
        ({"keys": [("k", "rkk")]}, r"keys \(right\): there is no column 'rkk' \(did you mean 'rk'"),
        ({"keys": [("note", "rk")]}, "'note' is string and 'rk' is int64, accepted are pairs of one type"),
        ({"keys": [("k", "tags")]}, "keys: column 'tags' is list"),
        ({"left_time": "k"}, "left_time: column 'k' is int64, accepted is timestamp"),
        ({"right_time": "t"}, "right_time: there is no column 't'"),
        ({"null_safe": [1]}, r"null_safe: got \[1\], accepted is positions within keys"),
        ({"left": pa.schema([("k", pa.int64()), ("k", pa.int64())])}, "left: column names must differ"),
    ],
)
def test_joins_that_cannot_be(changes, message):
    with pytest.raises((InvalidArgument, UnsupportedType), match=message):
        join(**changes)


def test_a_batch_whose_output_was_not_read_to_the_end():
    started = state()
    pieces = started.process(pa.record_batch([[1], pa.array([1], pa.timestamp("us")), ["b"]], schema=LEFT))
    next(pieces)
    for call in (started.process, started.to_bytes):
        with pytest.raises(MillraceError, match="left in the middle of a batch; load it again"):
            call()


def test_a_batch_that_does_not_fit_leaves_the_state_as_it_was():
    started = state()
    with pytest.raises(InvalidArgument, match="batch: there is no column 'note'"):
        started.process(pa.record_batch({"k": [1], "t": pa.array([1], pa.timestamp("us"))}))
    assert len(load(started.to_bytes(buckets=4))) == 5
