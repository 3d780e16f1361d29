"""State as bytes: what comes back, and what bad bytes of every kind do."""

from __future__ import annotations

import contextlib
import json
import struct
import zlib
from datetime import datetime
from decimal import Decimal

import pyarrow as pa
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st
from millrace.kernels import Aggregation, GroupState, InvalidArgument, StateFormatError, window
from millrace.kernels import functions as F
from millrace.kernels.state_format import dump_state, load_state

SCHEMA = pa.schema(
    {"user": pa.string(), "ts": pa.timestamp("us"), "n": pa.int64(), "price": pa.decimal128(12, 2), "note": pa.string()}
)
AGGS = {
    "rows": F.count(), "total": F.sum("n"), "mean": F.avg("price"), "spread": F.stddev_samp("n"),
    "lowest": F.min("note"), "first": F.first("note"), "best": F.max_by("note", "price"),
}  # fmt: skip


def query(**changes) -> Aggregation:
    wanted = {"keys": ["user"], "aggs": AGGS, "window": window("ts", "1 minute"), "event_time": "ts"} | changes
    return Aggregation(SCHEMA, **wanted)


def batch(*minutes: int) -> pa.RecordBatch:
    rows = [
        {"user": user, "ts": datetime(2026, 1, 1, 0, m), "n": m, "price": Decimal(m), "note": note}
        for m in minutes
        for user, note in (("ann", "x" * m), (None, None), ("żółw", "y"))
    ]
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


def state() -> GroupState:
    started = GroupState(query(), "update")
    started.process(batch(1, 2, 3), watermark_ms=5, late_watermark_ms=0)
    return started


SAVED = state().to_bytes()


@pytest.mark.parametrize("version", [1, 2])
def test_a_loaded_state_goes_on_as_if_nothing_had_happened(version):
    kept = state()
    loaded = GroupState.from_bytes(query(), "update", kept.to_bytes(version))
    assert len(loaded) == len(kept) == 9 and loaded.watermark_ms == 5
    minute = int(datetime(2026, 1, 1, 0, 3).timestamp() - datetime(1970, 1, 1).timestamp()) * 1000
    for step in ({"data": batch(2, 4)}, {"watermark_ms": minute}, {"data": batch(3, 9), "late_watermark_ms": minute}):
        mine, other = loaded.process(**step), kept.process(**step)
        assert sorted(map(str, mine.rows.to_pylist())) == sorted(map(str, other.rows.to_pylist()))
        for name in ("numTotalStateRows", "numRemovedStateRows", "numRowsDroppedByWatermark"):
            assert getattr(mine.metrics, name) == getattr(other.metrics, name)


def test_version_1_repeats_the_keys_and_is_upgraded_when_it_is_saved_again():
    old = state().to_bytes(version=1)
    names = load_state(old, "aggregate").bodies[0].schema.names
    assert names[:4] == ["key:window:start", "key:user", "value:window:start", "value:user"]
    again = GroupState.from_bytes(query(), "update", old).to_bytes()
    assert load_state(again, "aggregate").version == 2 and len(again) < len(old)


def test_the_header_describes_the_state():
    header = load_state(state().to_bytes(buckets=8), "aggregate").header
    assert header["rows"] == [9] and header["buckets"] == 8 and header["watermark_ms"] == 5
    assert header["query"]["keys"] == [["user", "string"]]
    assert header["query"]["aggs"][1] == ["total", "sum(n)", ["int64"]]


def test_an_empty_state():
    empty = GroupState(query(), "append").to_bytes()
    assert len(GroupState.from_bytes(query(), "append", empty)) == 0


def load(data: bytes) -> GroupState:
    return GroupState.from_bytes(query(), "update", data)


@pytest.mark.parametrize("size", [*range(0, 300), len(SAVED) // 2, len(SAVED) - 9, len(SAVED) - 8, len(SAVED) - 1])
def test_a_state_cut_short(size):
    with pytest.raises(StateFormatError, match=r"cut short|not a Millrace state"):
        load(SAVED[:size])


def test_a_state_with_something_behind_it():
    with pytest.raises(StateFormatError, match="too long"):
        load(SAVED + b"\0")


@settings(max_examples=500, deadline=None)
@given(st.integers(0, len(SAVED) * 8 - 1))
def test_a_flipped_bit_anywhere(bit):
    damaged = bytearray(SAVED)
    damaged[bit // 8] ^= 1 << (bit % 8)
    with pytest.raises(StateFormatError, match=r"damaged|not a Millrace state"):
        load(bytes(damaged))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_bytes_that_are_anything_at_all(data):
    with pytest.raises(StateFormatError):
        load(data)
    with pytest.raises(StateFormatError):
        load(SAVED[:32] + data)


def resealed(version: int = 2, header: bytes | None = None, body: bytes | None = None) -> bytes:
    """A state with parts exchanged and every checksum right: what a newer or foreign writer might leave."""
    _, _, head_size, _ = struct.unpack("<8sHxxIQ", SAVED[:24])
    header = SAVED[28 : 28 + head_size] if header is None else header
    body = SAVED[28 + head_size : -8] if body is None else body
    preamble = struct.pack("<8sHxxIQ", b"MILLRACE", version, len(header), len(body))
    whole = preamble + struct.pack("<I", zlib.crc32(preamble)) + header + body
    return whole + struct.pack("<Q", xxhash.xxh3_64_intdigest(whole))


def test_a_newer_version_is_named():
    with pytest.raises(StateFormatError, match=r"format version 3, this Millrace reads 1 and 2; .* newer Millrace"):
        load(resealed(version=3))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300), st.integers(0, 10**6), st.integers(0, 255))
def test_rows_that_are_not_arrow(data, at, byte):
    with pytest.raises(StateFormatError):
        load(resealed(body=data))
    body = bytearray(load_body())
    body[at % len(body)] = byte
    # The checksum is right here: whatever Arrow makes of the rows, nothing but our error may come out.
    with contextlib.suppress(StateFormatError):
        load(resealed(body=bytes(body)))


def load_body() -> bytes:
    _, _, head_size, _ = struct.unpack("<8sHxxIQ", SAVED[:24])
    return SAVED[28 + head_size : -8]


@pytest.mark.parametrize("header", [b"", b"{", b"[]", b"null", b'"x"', b'{"operator": "aggregate"}', b"\xff"])
def test_headers_that_are_none(header):
    with pytest.raises(StateFormatError):
        load(resealed(header=header))
    with pytest.raises(StateFormatError):
        load(resealed(header=json.dumps({"operator": "aggregate", "query": 7, "rows": [9]}).encode()))


def test_another_operator_is_named():
    other = dump_state(2, "join", {}, {}, pa.record_batch({"a": [1]}))
    with pytest.raises(StateFormatError, match="operator 'join', not 'aggregate'"):
        load(other)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"keys": []}, r'keys was \[\["user", "string"\]\], now is \[\]'),
        ({"keys": ["note"]}, r'keys was .*"user".* now is .*"note"'),
        ({"aggs": {"rows": F.count()}}, "aggs was .* now is"),
        ({"window": window("ts", "2 minutes")}, r'window was \["ts", 60000000, .*now is \["ts", 120000000'),
        ({"event_time": None}, 'event_time was "ts", now is null'),
        ({"ansi": False}, "ansi was true, now is false"),
    ],
)
def test_another_query_is_refused_with_what_differs(changes, message):
    with pytest.raises(StateFormatError, match=message):
        GroupState.from_bytes(query(**changes), "update", SAVED)


def test_another_number_of_buckets_is_refused():
    with pytest.raises(StateFormatError, match="buckets was 8, now is 16"):
        GroupState.from_bytes(query(), "update", state().to_bytes(buckets=8), buckets=16)


def test_an_unknown_version_is_not_written():
    with pytest.raises(InvalidArgument, match="state_format_version: got 3, accepted is 1 or 2"):
        state().to_bytes(version=3)
