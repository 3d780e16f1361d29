"""Windows against Spark's formula, spelled out with Python integers."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from millrace.kernels import InvalidArgument, window
from millrace.kernels.columns import column_of
from millrace.kernels.windows import assign


def spark_windows(time: int, size: int, slide: int, start: int) -> list[int]:
    """Starts of the windows that hold `time`, as Spark's analyzer rewrites `window`."""
    remainder = int(abs(time - start) % slide) * (1 if time >= start else -1)  # Java's %: the dividend's sign
    last = time - (remainder + slide if remainder < 0 else remainder)
    candidates = [last - i * slide for i in range(-(-size // slide))]
    return [begin for begin in candidates if begin <= time < begin + size]


SIZES = st.integers(1, 50).flatmap(
    lambda size: st.integers(1, size).flatmap(
        lambda slide: st.tuples(st.just(size), st.just(slide), st.integers(-slide + 1, slide - 1))
    )
)


@settings(max_examples=400, deadline=None)
@given(SIZES, st.lists(st.none() | st.integers(-200, 200), max_size=30), st.integers(0, 3))
def test_every_time_falls_into_sparks_windows(shape, times, offset):
    size, slide, start = shape
    array = pa.array(times, pa.timestamp("us")).slice(offset)
    rows, starts = assign(column_of(array), len(array), window("t", size, slide, start))
    rows = list(range(len(array))) if rows is None else rows.tolist()
    got = sorted(zip(rows, starts.tolist(), strict=True))
    wanted = [
        (row, begin)
        for row, time in enumerate(times[offset:])
        if time is not None
        for begin in spark_windows(time, size, slide, start)
    ]
    assert got == sorted(wanted)


def test_durations_are_read_as_people_write_them():
    hour = 3_600_000_000
    assert window("t", "1 hour").size == window("t", timedelta(hours=1)).size == window("t", hour).size == hour
    assert window("t", "INTERVAL 1 hours  30 Minutes").size == 5_400_000_000
    assert window("t", "2 weeks", "1 day", "-3 seconds").start == -3_000_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("t", "1 month"), "window.size: got '1 month', accepted is .*no months"),
        (("t", "soon"), "window.size: got 'soon'"),
        (("t", ""), "window.size: got ''"),
        (("t", 1.5), "window.size: got 1.5"),
        (("t", True), "window.size: got True"),
        (("t", "0 seconds"), "window.size: got '0 seconds', accepted is a positive duration"),
        (("t", "1 minute", "2 minutes"), "window.slide: got '2 minutes', .* at most the size"),
        (("t", "1 minute", "0 minutes"), "window.slide"),
        (("t", "1 minute", "10 seconds", "10 seconds"), "window.start: .* less than the slide"),
    ],
)
def test_windows_that_cannot_be(arguments, message):
    with pytest.raises(InvalidArgument, match=message):
        window(*arguments)
