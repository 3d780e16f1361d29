"""Worked scenarios of Spark's streaming aggregation, by name, with the results Spark gives."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa
import pytest
from millrace.kernels import Aggregation, GroupState, InvalidArgument, Watermark, window
from millrace.kernels import functions as F

SECOND = 1_000_000
EPOCH = datetime(1970, 1, 1)
SCHEMA = pa.schema({"value": pa.int64(), "ts": pa.timestamp("us")})
COUNT = {"n": F.count()}


class Query:
    """Feeds batches as Spark does, with a batch without data whenever the watermark has moved on.

    Values are ints that serve as value and as event second, unless pairs (value, seconds) are given.
    """

    def __init__(self, mode, delay="10 seconds", size="5 seconds", slide=None, keys=(), aggs=COUNT, watermark="ts",
                 no_data_batches=True):  # fmt: skip
        spec = window("ts", size, slide) if size else None
        self.query = Aggregation(SCHEMA, list(keys), aggs, spec, watermark)
        self.mode, self.no_data_batches = mode, no_data_batches
        self.state = GroupState(self.query, mode)
        self.watermark = Watermark(delay)
        self.metrics = []

    def add(self, *rows):
        """Run a batch with data and what follows it; gives the rows that come out."""
        pairs = [row if isinstance(row, tuple) else (row, row) for row in rows]
        out = self._batch(pairs)
        times = [int(time * SECOND) for _, time in pairs if time is not None]
        before = self.watermark.current_ms
        self.watermark.advance(max(times, default=None))
        moved = self.watermark.current_ms > before
        if moved and self.no_data_batches and self.mode != "complete" and self.query.event_time:
            out += self._batch([])
            self.watermark.advance(None)
        return out

    def _batch(self, pairs):
        columns = [[v for v, _ in pairs], [None if t is None else int(t * SECOND) for _, t in pairs]]
        arrays = [pa.array(columns[0], pa.int64()), pa.array(columns[1], pa.int64()).cast(pa.timestamp("us"))]
        marks = {"late_watermark_ms": self.watermark.previous_ms, "watermark_ms": self.watermark.current_ms}
        result = self.state.process(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA), **marks)
        self.metrics.append(result.metrics)
        return [self._plain(row) for row in result.rows.to_pylist()]

    def restart(self):
        self.state = GroupState.from_bytes(self.query, self.mode, self.state.to_bytes())

    @staticmethod
    def _plain(row):
        """A row as a tuple, a window or a time as the seconds at which it starts."""
        values = [v["start"] if isinstance(v, dict) else v for v in row.values()]
        return tuple(round((v - EPOCH).total_seconds()) if isinstance(v, datetime) else v for v in values)

    total = property(lambda self: self.metrics[-1].numTotalStateRows)
    updated = property(lambda self: self.metrics[-1].numUpdatedStateRows)
    removed = property(lambda self: self.metrics[-1].numRemovedStateRows)
    late = property(lambda self: self.metrics[-1].numRowsDroppedByWatermark)


def test_a1_append():
    q = Query("append")
    assert q.add(*range(10, 16)) == [] and q.total == 2
    assert q.add(25) == [(10, 5)] and (q.total, q.removed) == (2, 1)
    assert q.add(10, 25) == [] and (q.updated, q.late) == (1, 1)
    assert q.add(10) == [] and q.late == 1
    assert q.add(20) == [] and q.total == 3


def test_a2_update():
    q = Query("update")
    assert sorted(q.add(*range(10, 16))) == [(10, 5), (15, 1)]
    assert q.add(25) == [(25, 1)] and q.total == 2
    assert q.add(10, 25) == [(25, 2)] and q.late == 1
    assert q.add(10) == [] and q.late == 1
    assert q.add(20) == [(20, 1)] and q.total == 3


def test_a3_complete():
    q = Query("complete")
    wanted = [
        ([*range(10, 16)], [(10, 5), (15, 1)], 2),
        ([25], [(10, 5), (15, 1), (25, 1)], 3),
        ([10, 25], [(10, 6), (15, 1), (25, 2)], 3),
        ([10], [(10, 7), (15, 1), (25, 2)], 3),
        ([20], [(10, 7), (15, 1), (20, 1), (25, 2)], 4),
    ]
    for rows, out, total in wanted:
        assert sorted(q.add(*rows)) == out
        assert (q.total, q.late, q.removed) == (total, 0, 0)


def test_a4_a_window_that_ends_at_the_watermark_goes():
    q = Query("append")
    assert q.add(12) == [] and q.add(24) == [] and q.add(25) == [(10, 1)]


def test_a5_late_by_the_end_of_the_window():
    q = Query("append")
    q.add(26)
    out = q._batch([(14, 14), (15, 15)])
    assert out == [] and (q.late, q.updated) == (1, 1)


def test_a6_late_is_counted_by_group():
    q = Query("append")
    q.add(30)
    q.add(10, 11, 16)
    assert q.late == 2


def test_a7_sliding_windows():
    q = Query("append", size="10 seconds", slide="5 seconds")
    assert q.add(12) == [] and q.total == 2
    assert q.add(25) == [(5, 1)] and q.total == 3
    assert q.add(30) == [(10, 1)] and q.total == 3


def test_a8_null_event_time_as_key_is_never_late_nor_evicted():
    q = Query("append", size=None, keys=["ts"])
    assert q.add((0, None), (12, 12)) == [] and q.total == 2
    assert q.add(50) == [(12, 1)] and q.total == 2
    assert q.add((0, None)) == [] and (q.updated, q.late, q.total) == (1, 0, 2)


def test_a9_null_event_time_has_no_window():
    q = Query("append")
    q.add((0, None), (12, 12))
    assert q.total == 1 and q.late == 0


def test_a10_the_watermark_is_floored_to_milliseconds():
    q = Query("append", delay="1 second")
    assert q.add(1.0) == [] and q.watermark.current_ms == 0
    assert q.add(5.9999995) == [] and q.watermark.current_ms == 4999
    assert q.add(6.0009999) == [(0, 1)] and q.watermark.current_ms == 5000


def test_a11_without_no_data_batches():
    q = Query("append", no_data_batches=False)
    assert q.add(10, 25) == []
    assert q.add(12, 26) == [(10, 2)] and q.late == 0
    assert q.add(13, 27) == [] and q.late == 1


def test_a12_global_count_and_sum():
    aggs = {"n": F.count(), "sum": F.sum("value")}
    q = Query("update", size=None, aggs=aggs, watermark=None)
    assert q.add(1, 2) == [(2, 3)]
    assert q.add(3) == [(3, 6)]


def test_a13_append_that_would_never_emit_is_refused():
    for watermark, size in ((None, "5 seconds"), ("ts", None)):
        with pytest.raises(InvalidArgument, match="append"):
            Query("append", size=size, keys=["value"], watermark=watermark)


def test_a14_count_by_value_with_a_restart_in_update_mode():
    q = Query("update", size=None, keys=["value"], watermark=None)
    assert q.add(3) == [(3, 1)]
    assert sorted(q.add(3, 2)) == [(2, 1), (3, 2)]
    q.restart()
    assert sorted(q.add(3, 2, 1)) == [(1, 1), (2, 2), (3, 3)]
    assert q.add(4, 4, 4, 4) == [(4, 4)]


def test_a15_count_by_value_with_a_restart_in_complete_mode():
    q = Query("complete", size=None, keys=["value"], watermark=None)
    assert q.add(3) == [(3, 1)]
    assert sorted(q.add(2)) == [(2, 1), (3, 1)]
    q.restart()
    assert sorted(q.add(3, 2, 1)) == [(1, 1), (2, 2), (3, 2)]
    assert sorted(q.add(4, 4, 4, 4)) == [(1, 1), (2, 2), (3, 2), (4, 4)]


@pytest.mark.parametrize(("mode", "second_output"), [("update", 3), ("complete", 4)])
def test_a16_a17_metrics_when_every_row_counts_twice(mode, second_output):
    q = Query(mode, size=None, keys=["value"], watermark=None)
    q.add(1, 2)
    assert (q.metrics[-1].numOutputRows, q.updated, q.total) == (2, 2, 2)
    q.add(2, 3, 3, 4)
    assert (q.metrics[-1].numOutputRows, q.updated, q.total) == (second_output, 3, 4)


def test_a18_two_keys():
    schema = pa.schema({"v": pa.int64(), "w": pa.int64()})
    state = GroupState(Aggregation(schema, ["v", "w"], COUNT), "update")
    batch = pa.record_batch([[1, 2], [2, 3]], schema=schema)
    assert state.process(batch).rows["n"].to_pylist() == [1, 1]
    assert state.process(batch).rows["n"].to_pylist() == [2, 2]


def test_a20_global_count_and_empty_batches():
    q = Query("complete", size=None, watermark=None)
    assert [q.add(1), q.add(), q.add(2, 3), q.add()] == [[(1,)], [(1,)], [(3,)], [(3,)]]


def test_a21_event_time_as_key():
    q = Query("append", size=None, keys=["ts"])
    assert q.add(10) == []
    assert q.add(25) == [(10, 1)]


def test_p1_watermarks_as_reported():
    q = Query("append")
    q.add(15)
    assert q.watermark.current_ms == 5000
    q.add(10, 12, 14)
    assert q.watermark.current_ms == 5000
    assert q.add(25) == [(10, 3)]


def test_p2_one_batch_at_a_time_emits_a_batch_later():
    q = Query("append", no_data_batches=False)
    assert [q.add(15), q.add(10, 12, 14), q.add(25)] == [[], [], []]
    assert q.add(50) == [(10, 3)]
    assert sorted(q.add(50)) == [(15, 1), (25, 1)]


def test_p3_recovery_replays_a_batch_and_goes_on():
    q = Query("append")
    q.add(*range(10, 16))
    q._batch([(25, 25)])
    saved = q.state.to_bytes()
    q.watermark.advance(25 * SECOND)
    assert q._batch([]) == [(10, 5)]
    # The commit of that last batch is lost: it runs again from the state before, and gives the same.
    q.state = GroupState.from_bytes(q.query, "append", saved)
    assert q._batch([]) == [(10, 5)]
    q.watermark.advance(None)
    assert q.add(10, 27, 30) == [(15, 1)]
    q.restart()
    assert q.add(17) == []
    assert q.add(40) == [(25, 2)]
