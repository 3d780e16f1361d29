"""Raw rows → parcels: each row goes to the bucket of its key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from ..kernels.columns import Column, column_of, plain_array, storage_array
from ..kernels.hashing import partition
from ..kernels.keys import KeyLayout
from .exchange import Parcel, scatter

# Rows are parted in lots of about this size: larger ones leave fewer and longer blobs.
LOT_BYTES = 32 * 2**20


class RowsEncoder:
    """Sends rows of one schema, by their keys.

    Parameters
    ----------
    schema
        of the rows, as they are to travel.
    keys, key_types
        the columns that the bucket is found by, and the types in which both sides of an operator hold
        them.
    kind
        of the parcels.
    needed
        columns; rows in which one of them is null are left out.
    """

    def __init__(
        self,
        schema: pa.Schema,
        keys: Sequence[str],
        key_types: Sequence[pa.DataType],
        buckets: Sequence[int],
        kind: int,
        needed: Sequence[str] = (),
    ) -> None:
        self._schema = schema
        self._keys = list(zip(keys, key_types, strict=True))
        self._layout = KeyLayout(key_types)
        self._buckets = buckets
        self._kind = kind
        self._needed = needed
        self._lot: list[pa.RecordBatch] = []
        self._lot_bytes = 0

    def feed(self, batch: pa.RecordBatch) -> Iterator[Parcel]:
        batch = in_schema(batch, self._schema)
        for name in self._needed:
            if batch.column(name).null_count:
                batch = batch.filter(batch.column(name).is_valid())
        self._lot.append(batch)
        self._lot_bytes += batch.nbytes
        if self._lot_bytes > LOT_BYTES:
            yield from self.finish()

    def finish(self) -> Iterator[Parcel]:
        lot, self._lot, self._lot_bytes = self._lot, [], 0
        for batch in pa.Table.from_batches(lot, self._schema).combine_chunks().to_batches():
            keys = [column_of(storage_array(batch, name, t)) for name, t in self._keys]
            parts = parts_of(self._layout, keys, batch.num_rows, len(self._buckets))
            yield from scatter(batch, parts, self._buckets, self._kind)


def parts_of(layout: KeyLayout, keys: Sequence[Column], rows: int, count: int) -> np.ndarray:
    """Give the bucket of each row, counted from 0."""
    parts = np.zeros(rows, np.int32)
    if count > 1:
        encoded = layout.encode(keys, 0, rows, any(column.has_nulls for column in keys))
        partition(encoded.hashes, count, parts)
    return parts


def in_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Bring a batch from Spark into the types that an operator expects; mostly they are the same already."""
    if batch.schema.equals(schema):
        return batch
    arrays = [plain_array(array, f.type) for array, f in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
