"""Time slots against a plain list."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from millrace.kernels.expiry import TimeSlots


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from([1, 10]),
    st.lists(st.tuples(st.lists(st.integers(-100, 100), max_size=20), st.integers(-120, 120)), max_size=10),
    st.data(),
)
def test_entries_leave_when_their_slot_begins_at_or_before_the_limit(width, steps, data):
    slots, model, entry = TimeSlots(width), {}, 0
    for times, limit in steps:
        entries = list(range(entry, entry + len(times)))
        entry += len(times)
        slots.put(np.array(entries, np.uint32), np.array(times, np.int64))
        model |= dict(zip(entries, times, strict=True))
        gone = data.draw(st.lists(st.sampled_from(sorted(model)), unique=True)) if model else []
        slots.remove(np.array(gone, np.uint32), np.array([model.pop(e) for e in gone], np.int64))
        due = {e for e, time in model.items() if time // width * width <= limit}
        assert set(slots.take_until(limit).tolist()) == due
        model = {e: time for e, time in model.items() if e not in due}
