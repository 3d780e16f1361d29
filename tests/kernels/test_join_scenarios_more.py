"""More worked scenarios of Spark's stream-stream join: without event time, null-safe, restarted, out of order."""

from __future__ import annotations

import pyarrow as pa
import pytest
from join_queries import RNG_LEFT, RNG_RIGHT, SECOND, N, Query, Ranges, Windows
from millrace.kernels import Join, JoinState, StateFormatError
from millrace.kernels.expressions import call, column, literal


def pairs(left, right, key, to_row):
    """An inner join on one key, with no event time."""
    join = Join(pa.schema(dict.fromkeys(left, pa.int64())), pa.schema(dict.fromkeys(right, pa.int64())), [key], "inner")
    return Query(join, {}, to_row, event_second=None)


def test_j1_without_event_time_everything_is_kept():
    q = pairs(["lk", "lv"], ["rk", "rv"], ("lk", "rk"), lambda side, v: (v, v * (2 if side == "left" else 3)))
    one, ten = (1, 2, 1, 3), (10, 20, 10, 30)
    assert q.add([1]) == []
    assert q.add([], [1, 10]) == [one]
    assert q.add([10]) == [ten]
    assert q.add([], [1]) == [one]
    assert q.add([1]) == [one, one]
    assert (q.total, q.removed, q.late) == (6, 0, 0)


def test_j6_the_same_rows_on_both_sides():
    q = pairs(["lk", "lv"], ["rk", "rv"], ("lk", "rk"), lambda side, v: (v % 5, v))
    assert q.add([1, 2], [1, 2]) == [(1, 1, 1, 1), (2, 2, 2, 2)]
    q.state = JoinState.from_bytes(q.join, q.state.to_bytes())
    assert q.add([3, 6], [3, 6]) == [(1, 1, 1, 6), (1, 6, 1, 1), (1, 6, 1, 6), (3, 3, 3, 3)]


LEFT_ALONE, RIGHT_ALONE = (1, 5, N, N), (N, N, 2, 6)


@pytest.mark.parametrize(
    ("how", "total", "alone"),
    [
        ("inner", 4, []),
        ("left_outer", 4, [LEFT_ALONE]),
        ("right_outer", 4, [RIGHT_ALONE]),
        ("full_outer", 4, [LEFT_ALONE, RIGHT_ALONE]),
        ("left_semi", 3, []),
    ],
)
def test_j7_null_joins_null_where_keys_are_compared_null_safely(how, total, alone):
    q = Ranges(how, (-5, True), (5, True), null_safe=[0])
    matched = (N, 5, N, 6)
    assert q.add([(N, 5), (1, 5)], [(N, 6), (2, 6)]) == [matched[:2] if how == "left_semi" else matched]
    assert (q.total, q.updated) == (total, total)
    assert q.add([(9, 40)], [(8, 40)]) == alone and (q.current, q.total) == (30_000, 2)


def test_j24_a_condition_that_fails_on_either_side_alone():
    """Spark filters right rows before the watermark sees them: 101 to 103 do not move it."""
    value = column("right", "rv")
    right = call("or", call("<", value, literal(300)), call(">", value, literal(1000)))
    below = {"right": lambda v: 3 * v < 300 or 3 * v > 1000}
    q = Windows("left_outer", call(">", column("left", "lv"), literal(10)), right, below_watermark=below)
    assert q.add([1, 2, 3], [1, 2, 3]) == [(v, 10, 2 * v, N) for v in (1, 2, 3)] and q.total == 3
    assert q.add([20], [21]) == [] and (q.current, q.total) == (10_000, 2)
    assert q.add([], [20]) == [(20, 30, 40, 60)] and q.total == 3
    assert q.add([40, 41], [40, 41]) == [(40, 50, 80, 120), (41, 50, 82, 123)] and (q.current, q.total) == (31_000, 4)
    assert q.add([70], [71]) == [] and (q.current, q.total) == (60_000, 2)
    assert q.add([], [70]) == [(70, 80, 140, 210)] and q.total == 3
    assert q.add([101, 102, 103], [101, 102, 103]) == [] and (q.updated, q.total) == (3, 6)
    assert q.add([1000], [1001]) == [(v, 110, 2 * v, N) for v in (101, 102, 103)]
    assert (q.current, q.total) == (990_000, 2)


def test_j32_the_event_time_is_part_of_the_key():
    join = Join(RNG_LEFT, RNG_RIGHT, [("lk", "rk"), ("lt", "rt")], "inner", "lt", "rt")
    q = Query(join, {"left": 10, "right": 10}, lambda side, pair: (pair[0], pair[1] * SECOND), lambda pair: pair[1])
    assert q.add([(1, 20), (2, 21)], [(1, 20)]) == [(1, 20, 1, 20)] and q.total == 3
    assert q.add([(3, 40)], [(3, 40)]) == [(3, 40, 3, 40)]
    assert (q.current, q.removed, q.total) == (30_000, 3, 2)
    assert q.add([(3, 30), (3, 31)]) == [] and (q.late, q.updated, q.total) == (1, 1, 3)


def at(hours, minutes=0, seconds=0):
    """A row of key 1 at some time of the second day: the watermark starts at zero, the first day's beginning."""
    return 1, 86_400 + 3600 * hours + 60 * minutes + seconds


def test_j33_without_no_data_batches_rows_come_out_with_the_next_data():
    q = Ranges("left_outer", (-30, True), (30, True), delays=(0, 0), no_data=False)
    assert q.add([at(0)], [at(0, 1)]) == []
    assert q.add([at(1)], [at(1, 1)]) == []
    assert q.add([at(1, 30)]) == [(*at(0), N, N)]
    assert q.add([], [at(1, 30, 10)]) == sorted([(*at(1), N, N), (*at(1, 30), *at(1, 30, 10))], key=str)


def test_j34_a_first_batch_of_old_and_new_rows():
    q = Ranges("left_outer", (-30, True), (30, True), delays=(0, 0))
    old, edge, new, right = at(0), at(0, 59, 40), at(1), at(1, 0, 10)
    assert q.add([old, edge, new], [right]) == sorted([(*old, N, N), (*edge, *right), (*new, *right)], key=str)
    assert (q.late, q.updated, q.removed, q.total) == (0, 4, 1, 3)


SIDE = {"k": pa.int64(), "k2": pa.int64(), "v": pa.int64()}


def restarted(keys=(("k", "k"),), **changed):
    left, right = (SIDE | changed.get(side, {}) for side in ("left", "right"))
    return Join(pa.schema(left), pa.schema(right), keys, "left_outer")


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"keys": [("k2", "k")]}, r'query: keys was \[\["k", "k"\]\], now is \[\["k2", "k"\]\]$'),
        ({"keys": [("k", "k"), ("k2", "k2")]}, r'query: keys was \[\["k", "k"\]\], now is .*"k2"'),
        (
            {"left": {"k": pa.string()}, "right": {"k": pa.string()}},
            r'query: left was \[\["k", "int64"\].*, now is \[\["k", "string"\].*; right was .*"string"',
        ),
        ({"left": {"v": pa.string()}}, r'query: left was .*\["v", "int64"\]\], now is .*\["v", "string"\]\]$'),
        ({"right": {"more": pa.int8()}}, r'query: right was .*\["v", "int64"\]\], now is .*\["more", "int8"\]\]$'),
    ],
)
def test_j35_a_restart_with_another_key_or_value_schema_is_refused(changed, named):
    state = JoinState(restarted())
    rows = pa.record_batch([[1, 2], [3, 4], [5, 6]], schema=pa.schema(SIDE))
    assert sum(piece.num_rows for piece in state.process(rows, rows)) == 2
    saved = state.to_bytes()
    assert len(JoinState.from_bytes(restarted(), saved)) == 4
    with pytest.raises(StateFormatError, match=named):
        JoinState.from_bytes(restarted(**changed), saved)
