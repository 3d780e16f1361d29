"""Handles of stored state on executors → what they are, and the rows that they hold."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import types as T

from ..kernels.errors import MillraceError, StateFormatError
from ..kernels.plain_arrays import struct_of
from ..kernels.state_format import SavedState, load_state
from ..kernels.state_rows import state_rows, without_rows
from .arrow_schema import arrow_type
from .exchange import MAX_BLOB_BYTES
from .state_backend import InlineBackend

SUMMARY = T.StructType(
    [
        T.StructField("bucket", T.IntegerType()),
        T.StructField("partition", T.IntegerType()),
        T.StructField("bytes", T.LongType()),
        T.StructField("version", T.IntegerType()),
        T.StructField("header", T.StringType()),
        # Columns of the rows, as Arrow writes a schema.
        T.StructField("columns", T.BinaryType()),
        T.StructField("error", T.StringType()),
    ]
)


@dataclass(frozen=True)
class Summarise:
    """Buckets' handles → one row for each: its header, the columns of its rows, or what is wrong with it."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for bucket, partition, handle in _handles(batch):
                yield pa.RecordBatch.from_pylist([self._row(bucket, partition, handle)], schema=_SUMMARY)

    def _row(self, bucket: int, partition: int, handle: str) -> dict[str, Any]:
        row: dict[str, Any] = {"bucket": bucket, "partition": partition}
        try:
            data = _opened(handle)
            saved = load_state(data)
            columns = seen_schema(saved)
        except MillraceError as error:
            return {**row, "error": f"bucket {bucket}: {error}"}
        header = json.dumps(saved.header)
        return {
            **row,
            "bytes": len(data),
            "version": saved.version,
            "header": header,
            "columns": columns.serialize().to_pybytes(),
        }


_SUMMARY = pa.schema([(f.name, arrow_type(f.dataType, "state", f.name)) for f in SUMMARY])


@dataclass(frozen=True)
class DecodeState:
    """Buckets' handles → the rows that they hold."""

    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for bucket, _, handle in _handles(batch):
                try:
                    yield from self._rows(load_state(_opened(handle)))
                except MillraceError as error:
                    raise type(error)(f"bucket {bucket}: {error}") from error

    def _rows(self, saved: SavedState) -> Iterator[pa.RecordBatch]:
        for rows in seen_rows(saved):
            if not rows.schema.equals(self.schema):
                raise StateFormatError(f"its rows have the columns {rows.schema}, another bucket's {self.schema}")
            pieces = max(1, -(-rows.nbytes // MAX_BLOB_BYTES))
            length = -(-rows.num_rows // pieces)
            for start in range(0, rows.num_rows, max(length, 1)):
                yield rows.slice(start, length)


def _handles(batch: pa.RecordBatch) -> Iterator[tuple[int, int, str]]:
    """Bucket, partition and handle, one handle in memory at a time."""
    for row in zip(*batch.columns, strict=True):
        bucket, partition, handle = (value.as_py() for value in row)
        if handle is not None:
            yield bucket, partition, handle


def _opened(handle: str) -> memoryview:
    try:
        return InlineBackend().open(handle)
    except UnicodeEncodeError as error:
        raise StateFormatError("this text is not a Millrace state: it is not ASCII") from error


def seen_rows(saved: SavedState) -> Iterator[pa.RecordBatch]:
    """The rows of a state, dates and times of unchanged functions' state as such."""
    for rows in state_rows(saved):
        yield _with_times(rows, saved)


def seen_schema(saved: SavedState) -> pa.Schema:
    """The columns of these rows."""
    return next(seen_rows(without_rows(saved))).schema


def _with_times(rows: pa.RecordBatch, saved: SavedState) -> pa.RecordBatch:
    """Spark's numbers for dates and times, of which older states do not tell, as dates and times."""
    told = saved.header.get("state_type")
    if told is None:
        return rows
    # The state comes behind the keys.
    position = len(saved.header["query"]["keys"])
    state: pa.StructArray = rows.column(position)
    types = [arrow_type(field.dataType, "state", field.name) for field in T.StructType.fromJson(told)]
    fields = {f.name: array.cast(t) for f, array, t in zip(state.type, state.flatten(), types, strict=True)}
    typed = struct_of(fields, rows.num_rows, state.is_null())
    return rows.set_column(position, rows.schema.names[position], typed)
