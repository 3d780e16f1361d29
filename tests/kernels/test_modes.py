"""Modes, lateness, eviction and metrics against the model of Spark's operator, over many batches."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from millrace.kernels import Aggregation, GroupState, partial_aggregate, window
from millrace.kernels import functions as F
from spark_model import SparkAggregation
from strategies import SCHEMA, Stream, streams, to_batch


def values(rows: list[dict]) -> list[int]:
    return [row["value"] for row in rows if row["value"] is not None]


RESULTS = {
    "rows": (F.count(), len),
    "some": (F.count("value"), lambda rows: len(values(rows))),
    "total": (F.sum("value"), lambda rows: sum(values(rows)) if values(rows) else None),
    "mean": (F.avg("value"), lambda rows: sum(values(rows)) / len(values(rows)) if values(rows) else None),
    "low": (F.min("value"), lambda rows: min(values(rows), default=None)),
    "high": (F.max("value"), lambda rows: max(values(rows), default=None)),
    "first": (F.first("value", ignore_nulls=True), lambda rows: next(iter(values(rows)), None)),
    "last": (F.last("user"), lambda rows: rows[-1]["user"] if rows else None),
    "top": (F.max("user"), lambda rows: max((r["user"] for r in rows if r["user"] is not None), default=None)),
}


def model_of(stream: Stream) -> SparkAggregation:
    results = {name: compute for name, (_, compute) in RESULTS.items()}
    return SparkAggregation(stream.keys, stream.output_mode, results, stream.window, stream.watermark_on)


def query_of(stream: Stream) -> Aggregation:
    aggs = {name: aggregate for name, (aggregate, _) in RESULTS.items()}
    spec = window(*stream.window) if stream.window else None
    return Aggregation(SCHEMA, stream.keys, aggs, spec, stream.watermark_on)


def plain(rows: pa.RecordBatch) -> Counter:
    """Output rows with times as integers, as a multiset."""
    columns = [
        list(zip(*(_times(part) for part in column.flatten()), strict=True))
        if pa.types.is_struct(column.type)
        else _times(column)
        for column in rows.columns
    ]
    return Counter(zip(*columns, strict=True))


def _times(column: pa.Array) -> list:
    return (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()


def check(stream: Stream, step) -> None:
    """Run the stream through the model and through `step` (state, rows, **watermarks), batch by batch."""
    model, state = model_of(stream), GroupState(query_of(stream), stream.output_mode)
    late = stream.watermarks[0]
    for rows, watermark in zip(stream.batches, stream.watermarks, strict=True):
        wanted, metrics = model.run(rows, late, watermark)
        state, result = step(state, rows, late_watermark_ms=late, watermark_ms=watermark)
        assert plain(result.rows) == Counter(wanted)
        got = result.metrics.as_dict()
        assert {name: got[name] for name in metrics} == metrics
        assert got["stateMemory"] > 0
        late = watermark


@settings(max_examples=400, deadline=None)
@given(streams())
def test_rows(stream):
    check(stream, lambda state, rows, **marks: (state, state.process(to_batch(rows), **marks)))


@settings(max_examples=200, deadline=None)
@given(streams(), st.data())
def test_partials_of_any_split(stream, data):
    def step(state, rows, **marks):
        cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=3)))
        parts = [rows[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
        partials = [partial_aggregate(state.query, to_batch(part)) for part in parts]
        return state, state.process(partials=partials, **marks)

    check(stream, step)


@settings(max_examples=200, deadline=None)
@given(streams(), st.data())
def test_saved_and_loaded_between_batches(stream, data):
    def step(state, rows, **marks):
        version = data.draw(st.sampled_from([None, 1, 2]))
        if version is not None:
            state = GroupState.from_bytes(state.query, state.output_mode, state.to_bytes(version))
        return state, state.process(to_batch(rows), **marks)

    check(stream, step)


def test_times_of_work_are_measured():
    query = Aggregation(SCHEMA, ["n"], {"rows": F.count()})
    state = GroupState(query, "complete")
    metrics = state.process(to_batch([])).metrics
    assert metrics.allRemovalsTimeMs == 0 and metrics.allUpdatesTimeMs >= 0
    state.to_bytes()
    assert state.metrics.commitTimeMs >= 0


def test_without_keys_there_is_a_row_in_every_batch():
    state = GroupState(Aggregation(SCHEMA, [], {"rows": F.count(), "total": F.sum("value")}), "update")
    assert state.process().rows.to_pylist() == [{"rows": 0, "total": None}]
    assert state.process().metrics.numUpdatedStateRows == 1
