"""Record batches on the wire and at rest, with numbers no wider than their values need.

Counts, sums and most keys are small numbers in wide columns. What leaves the process is copied many
times on its way, so a look at the least and greatest value pays: three counts and a long key take a
quarter of the bytes. A narrowed batch says in its schema's metadata what it was.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from .columns import array_of, column_of

WIDE_SCHEMA = b"millrace.wide"
# Smaller batches would not win back the bytes of the metadata.
LEAST_ROWS = 512
_WIDTHS = ((pa.int8(), 2**7), (pa.int16(), 2**15), (pa.int32(), 2**31))


def narrow(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Give a batch with integers and decimals in the narrowest integers that hold them.

    Examples
    --------
    >>> narrow(pa.record_batch({"n": range(1000)})).schema.field("n").type
    DataType(int16)
    """
    if batch.num_rows < LEAST_ROWS:
        return batch
    arrays = [_narrow_array(array) for array in batch.columns]
    if all(array.type.equals(f.type) for array, f in zip(arrays, batch.schema, strict=True)):
        return batch
    fields = [f.with_type(array.type) for array, f in zip(arrays, batch.schema, strict=True)]
    schema = pa.schema(fields, {WIDE_SCHEMA: batch.schema.serialize().to_pybytes()})
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def widen(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Undo `narrow`.

    Examples
    --------
    >>> batch = pa.record_batch({"n": range(1000)})
    >>> widen(narrow(batch)).equals(batch)
    True
    """
    wide = (batch.schema.metadata or {}).get(WIDE_SCHEMA)
    if wide is None:
        return batch
    schema = pa.ipc.read_schema(pa.py_buffer(wide))
    arrays = [_widen_array(array, f.type) for array, f in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def write_stream(batch: pa.RecordBatch) -> pa.Buffer:
    """Write a batch, narrowed, as an Arrow IPC stream that describes itself."""
    batch = narrow(batch)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def read_stream(data: pa.Buffer | memoryview | bytes) -> pa.RecordBatch:
    """Read what `write_stream` wrote."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return widen(reader.read_next_batch())


def _narrow_array(array: pa.Array) -> pa.Array:
    if pt.is_decimal128(array.type):
        values = column_of(array).values
        if not np.array_equal(values[:, 1], values[:, 0] >> 63):
            return array
        return _narrow_array(array_of(pa.int64(), values[:, 0], _valid(array)))
    if not pt.is_int64(array.type) and not pt.is_int32(array.type):
        return array
    bounds = pc.min_max(array)
    least, greatest = bounds["min"].as_py() or 0, bounds["max"].as_py() or 0
    for narrower, limit in _WIDTHS:
        if -limit <= least and greatest < limit and narrower.bit_width < array.type.bit_width:
            return array.cast(narrower, safe=False)
    return array


def _widen_array(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    if pt.is_decimal128(wanted) and not pt.is_decimal128(array.type):
        low = column_of(array.cast(pa.int64())).values
        return array_of(wanted, np.column_stack((low, low >> 63)), _valid(array))
    return array if array.type.equals(wanted) else array.cast(wanted)


def _valid(array: pa.Array) -> np.ndarray | None:
    return array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None
