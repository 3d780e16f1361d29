"""The table against a dict, and how far it makes keys probe."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from millrace.kernels.columns import column_of
from millrace.kernels.hash_table import ABSENT, HashTable
from millrace.kernels.keys import KeyLayout

LAYOUTS = {
    "one word": ([pa.int64()], lambda k: [pa.array(k, pa.int64())]),
    "two words": ([pa.int64(), pa.int32()], lambda k: [pa.array(k, pa.int64()), pa.array([x % 7 for x in k])]),
    "text": ([pa.string()], lambda k: [pa.array([str(x) * (x % 5) for x in k], pa.string())]),
    "words and text": (
        [pa.int64(), pa.string(), pa.binary()],
        lambda k: [pa.array(k, pa.int64()), pa.array(["ü" * (x % 9) for x in k]), pa.array([b"\0"] * len(k))],
    ),
}


def encode(table: HashTable, arrays: list[pa.Array]):
    return table.encode([column_of(a) for a in arrays], 0, len(arrays[0]))


@pytest.mark.parametrize("kind", LAYOUTS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_upsert_find_and_delete_do_what_a_dict_does(kind, data):
    types, make = LAYOUTS[kind]
    table, model = HashTable(KeyLayout(types)), {}
    for _ in range(data.draw(st.integers(1, 8))):
        arrays = make(data.draw(st.lists(st.integers(0, 40), min_size=1, max_size=60)))
        keys = list(zip(*(a.to_pylist() for a in arrays), strict=True))
        groups, new = table.upsert(encode(table, arrays))
        for key, group in zip(keys, groups.tolist(), strict=True):
            assert model.setdefault(key, group) == group
        assert len(set(model.values())) == len(model) == len(table)
        assert set(new.tolist()) <= set(model.values())
        gone = data.draw(st.lists(st.sampled_from(sorted(model)), unique=True, max_size=len(model)))
        table.delete(np.array([model.pop(key) for key in gone], np.uint32))
        found = table.find(encode(table, arrays)).tolist()
        assert found == [model.get(key, int(ABSENT)) for key in keys]
        assert table.live().tolist() == sorted(model.values())


def probe_lengths(table: HashTable) -> np.ndarray:
    """How far from its home each key stands."""
    slots = table._slots
    taken = np.flatnonzero(slots)
    homes = (slots[taken] >> np.uint64(32)) >> np.uint64(32 - table._bits)
    return (taken.astype(np.uint64) - homes) % np.uint64(len(slots))


N = 200_000
PATTERNS = {
    "sequential": np.arange(N),
    "negative": -np.arange(N),
    "stride of 1000": np.arange(N) * 1000,
    "stride of a power of two": np.arange(N) << 20,
    "equal low bits": (np.arange(N) << 40) | 12345,
    "minutes in microseconds": 1_767_225_600_000_000 + np.arange(N) * 60_000_000,
    "whole doubles": np.arange(N).astype(np.float64).view(np.int64),
    "random": np.random.default_rng(0).integers(-(2**63), 2**63 - 1, N),
}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_no_pattern_of_keys_crowds_the_table(pattern):
    table = HashTable(KeyLayout([pa.int64()]))
    arrays = [pa.array(PATTERNS[pattern].astype(np.int64))]
    for base in range(0, N, 4096):
        table.upsert(encode(table, [a.slice(base, 4096) for a in arrays]))
    lengths = probe_lengths(table)
    assert lengths.mean() < 0.6 and lengths.max() < 64


def test_reading_groups_back_into_another_table_does_not_crowd_it():
    first = HashTable(KeyLayout([pa.int64()]))
    first.upsert(encode(first, [pa.array(PATTERNS["random"])]))
    words = first.key_columns(first.live())
    second = HashTable(KeyLayout([pa.int64()]))
    for base in range(0, N, 4096):
        second.upsert(encode(second, [pa.array(words[0, base : base + 4096].view(np.int64))]))
    assert probe_lengths(second).max() < 64


def test_deleting_leaves_nothing_behind():
    table, rng, sizes = HashTable(KeyLayout([pa.int64()])), np.random.default_rng(1), []
    for cycle in range(100):
        keys = pa.array(rng.integers(cycle * 10**6, (cycle + 1) * 10**6, 5000))
        groups, _ = table.upsert(encode(table, [keys]))
        live = np.unique(groups)
        sizes.append(len(table._slots))
        if cycle < 99:
            table.delete(live)
            assert len(table) == 0 and not table._slots.any()
    assert table.high_water <= 5000
    assert sizes[-1] == sizes[0]
    assert probe_lengths(table).max() < 32


def test_freed_numbers_are_used_again():
    table = HashTable(KeyLayout([pa.int64()]))
    table.upsert(encode(table, [pa.array([1, 2, 3])]))
    table.delete(np.array([1, 0], np.uint32))
    groups, new = table.upsert(encode(table, [pa.array([9, 3, 8, 7])]))
    assert groups.tolist() == [0, 2, 1, 3] and new.tolist() == [0, 1, 3]
