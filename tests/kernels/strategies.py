"""What hypothesis draws streams from."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from hypothesis import strategies as st

SECOND = 1_000_000

SCHEMA = pa.schema(
    {
        "user": pa.string(), "n": pa.int64(), "flag": pa.bool_(), "ratio": pa.float64(),
        "ts": pa.timestamp("us"), "other": pa.timestamp("us"), "value": pa.int32(),
    }
)  # fmt: skip

# Few different values, so that groups meet again; nulls everywhere. NaN and −0.0 have tests of their own.
ROW = st.fixed_dictionaries(
    {
        "user": st.sampled_from(["ann", "bob", "", "żółw", None]),
        "n": st.sampled_from([0, 1, -1, 2**63 - 1, None]),
        "flag": st.sampled_from([True, False, None]),
        "ratio": st.sampled_from([0.5, -1.0, None]),
        "ts": st.none() | st.integers(-20, 60).map(lambda s: s * SECOND // 2),
        "other": st.none() | st.integers(0, 3).map(lambda s: s * SECOND),
        "value": st.none() | st.integers(-100, 100),
    }
)


@dataclass
class Stream:
    """A query and its batches: rows, or none, with the watermark after each in milliseconds."""

    keys: list[str]
    window: tuple[str, int, int, int] | None
    watermark_on: str | None
    output_mode: str
    batches: list[list[dict]]
    watermarks: list[int]


@st.composite
def windows(draw):
    size = draw(st.sampled_from([2, 5, 10])) * SECOND
    slide = draw(st.sampled_from([size, size // 2, SECOND, size - SECOND // 2]))
    slide = min(max(slide, 1), size)
    start = draw(st.sampled_from([0, slide // 3, -(slide // 2)]))
    return draw(st.sampled_from(["ts", "ts", "other"])), size, slide, start


@st.composite
def streams(draw):
    window = draw(st.none() | windows())
    keys = draw(st.lists(st.sampled_from(["user", "n", "flag", "ratio", "ts"]), max_size=3, unique=True))
    watermark_on = draw(st.sampled_from(["ts", "ts", None]))
    by_time = watermark_on is not None and ("ts" in keys or (window is not None and window[0] == "ts"))
    output_mode = draw(st.sampled_from(["append", "update", "complete"] if by_time else ["update", "complete"]))
    batches = draw(st.lists(st.lists(ROW, max_size=12), min_size=1, max_size=6))
    # Half seconds, so that watermarks often hit a time exactly, and milliseconds beside them.
    step = st.integers(0, 30).map(lambda half: half * 500) | st.integers(0, 15_000)
    steps = draw(st.lists(step, min_size=len(batches), max_size=len(batches)))
    watermarks, now = [], draw(st.sampled_from([0, 0, -8000]))
    for step in steps:
        watermarks.append(now)
        now += step
    return Stream(keys, window, watermark_on, output_mode, batches, watermarks)


def to_batch(rows: list[dict]) -> pa.RecordBatch:
    """Rows with integer times as a record batch."""
    columns = [pa.array([row[f.name] for row in rows], pa.int64() if pa.types.is_timestamp(f.type) else f.type)
               for f in SCHEMA]  # fmt: skip
    return pa.RecordBatch.from_arrays([c.cast(f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)
