"""Rows as blobs: how record batches cross Spark's shuffle, many rows in one wide row.

A *parcel* is a record batch for one bucket; its kind tells the operator what it holds. A *tick* is a
parcel without rows: it makes sure that every bucket is called in every batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa

from ..kernels.columns import bytes_array
from ..kernels.narrow import write_stream

TICK = 0
MAX_BLOB_BYTES = 64 * 2**20
# Late enough that Spark never takes a blob for late; within the nanoseconds of pandas.
FAR_FUTURE = datetime(2255, 1, 1, tzinfo=UTC)
EVENT_TIME = "event_time"
PARCELS = pa.schema(
    [("bucket", pa.int32()), ("kind", pa.int32()), ("blob", pa.binary()), (EVENT_TIME, pa.timestamp("us", "UTC"))]
)


@dataclass(frozen=True)
class Parcel:
    """Rows of one bucket, or a tick."""

    bucket: int
    kind: int
    rows: pa.RecordBatch | None = None


def ticks(buckets: Sequence[int]) -> Iterator[Parcel]:
    """Give a tick for every bucket."""
    return (Parcel(bucket, TICK) for bucket in buckets)


def pack(parcels: Iterable[Parcel]) -> Iterator[pa.RecordBatch]:
    """Turn parcels into wide rows, not too many bytes at once."""
    rows: list[tuple[int, int, pa.Buffer | None]] = []
    size = 0
    for parcel in parcels:
        for blob in [None] if parcel.rows is None else to_blobs(parcel.rows):
            length = 0 if blob is None else blob.size
            if rows and size + length > MAX_BLOB_BYTES:
                yield _wide_rows(rows)
                rows, size = [], 0
            rows.append((parcel.bucket, parcel.kind, blob))
            size += length
    if rows:
        yield _wide_rows(rows)


def _wide_rows(rows: Sequence[tuple[int, int, pa.Buffer | None]]) -> pa.RecordBatch:
    buckets, kinds, blobs = zip(*rows, strict=True)
    columns = [pa.array(buckets, pa.int32()), pa.array(kinds, pa.int32()), blob_array(blobs)]
    always = pa.repeat(pa.scalar(FAR_FUTURE, PARCELS.field(EVENT_TIME).type), len(rows))
    return pa.RecordBatch.from_arrays([*columns, always], schema=PARCELS)


def blob_array(blobs: Sequence[pa.Buffer | None]) -> pa.Array:
    """Put blobs into one binary array, copying each once."""
    pieces = [np.empty(0, np.uint8) if blob is None else np.frombuffer(blob, np.uint8) for blob in blobs]
    lengths = np.array([len(piece) for piece in pieces], np.int64)
    return bytes_array(pa.binary(), lengths, np.concatenate(pieces), np.array([blob is not None for blob in blobs]))


def to_blobs(batch: pa.RecordBatch) -> Iterator[pa.Buffer]:
    """Write a record batch, in several pieces if it is large; `read_stream` reads each."""
    pieces = max(1, -(-batch.nbytes // MAX_BLOB_BYTES))
    rows = -(-batch.num_rows // pieces) if batch.num_rows else 0
    for piece in range(pieces):
        yield write_stream(batch.slice(piece * rows, rows))


def scatter(batch: pa.RecordBatch, parts: np.ndarray, buckets: Sequence[int], kind: int) -> Iterator[Parcel]:
    """Part the rows of a batch by bucket; `parts` has each row's bucket, counted from 0."""
    if len(buckets) == 1:
        yield Parcel(buckets[0], kind, batch)
        return
    order = np.argsort(parts, kind="stable")
    sorted_rows = batch.take(pa.array(order))
    ends = np.cumsum(np.bincount(parts, minlength=len(buckets)))
    start = 0
    for bucket, end in zip(buckets, ends, strict=True):
        if end > start:
            yield Parcel(bucket, kind, sorted_rows.slice(start, end - start))
        start = int(end)
