"""Record batches on the wire and at rest, with numbers no wider than their spread needs.

Counts, sums and most keys are small numbers in wide columns, and the times of a batch lie close together.
What leaves the process is copied many times on its way, so a look at the least and greatest value pays:
three counts, a long key and a timestamp take a third of the bytes. A column becomes the distance of each
value from the least, in the narrowest unsigned integers that hold it. A narrowed batch says in its schema's
metadata what it was, and each narrowed column in its field's what its values are counted from.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from .columns import array_of, column_of, fixed_values

WIDE_SCHEMA = b"millrace.wide"
BASE = b"millrace.base"
# Smaller batches would not win back the bytes of the metadata.
LEAST_ROWS = 512
_WIDTHS = (pa.uint8(), pa.uint16(), pa.uint32())


def narrow(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Give a batch with integers, times and decimals in the narrowest integers that hold their spread.

    Examples
    --------
    >>> narrow(pa.record_batch({"n": range(5000, 6000)})).schema.field("n").type
    DataType(uint16)
    """
    if batch.num_rows < LEAST_ROWS:
        return batch
    narrowed = [_narrowed(array, f) for array, f in zip(batch.columns, batch.schema, strict=True)]
    if all(array.type.equals(f.type) for (array, _), f in zip(narrowed, batch.schema, strict=True)):
        return batch
    schema = pa.schema([f for _, f in narrowed], {WIDE_SCHEMA: batch.schema.serialize().to_pybytes()})
    return pa.RecordBatch.from_arrays([array for array, _ in narrowed], schema=schema)


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
    fields = zip(batch.columns, batch.schema, schema, strict=True)
    return pa.RecordBatch.from_arrays([_widened(*parts) for parts in fields], schema=schema)


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


def _narrowed(array: pa.Array, field: pa.Field) -> tuple[pa.Array, pa.Field]:
    """Give a column's distances from its least value, and a field that says so; the field given, if it stays."""
    whole = _whole_numbers(array)
    if whole is None:
        return array, field
    bounds = pc.min_max(whole)
    least, greatest = bounds["min"].as_py() or 0, bounds["max"].as_py() or 0
    bits = whole.type.bit_width
    narrower = next((t for t in _WIDTHS if t.bit_width < bits and greatest - least < 2**t.bit_width), None)
    if narrower is None:
        return (whole, field.with_type(whole.type)) if pt.is_decimal(array.type) else (array, field)
    values = fixed_values(whole, np.dtype(f"i{bits // 8}"))
    distances = np.empty(len(values), narrower.to_pandas_dtype())
    # One pass, and no array between; what lies under nulls may wrap, here and on the way back.
    np.subtract(values, values.dtype.type(least), out=distances, casting="unsafe")
    # As signed numbers, of the same bits, `array_of` takes them without a copy.
    signed = distances.view(f"i{distances.itemsize}")
    return array_of(narrower, signed, _valid(whole)), field.with_type(narrower).with_metadata({BASE: str(least)})


def _widened(array: pa.Array, narrowed: pa.Field, wide: pa.Field) -> pa.Array:
    if array.type.equals(wide.type):
        return array
    distances = fixed_values(array, np.dtype(array.type.to_pandas_dtype()))
    values: np.ndarray = np.empty(len(array), np.int64 if wide.type.bit_width > 32 else np.int32)
    base = values.dtype.type(int((narrowed.metadata or {}).get(BASE, 0)))
    np.add(distances, base, out=values, dtype=values.dtype, casting="unsafe")
    if pt.is_decimal128(wide.type):
        values = np.column_stack((values, values >> 63))
    return array_of(wide.type, values, _valid(array))


def _whole_numbers(array: pa.Array) -> pa.Array | None:
    """View a column of a type that can be narrowed as 32- or 64-bit integers; None for any other."""
    t = array.type
    if pt.is_int32(t) or pt.is_int64(t):
        return array
    if pt.is_timestamp(t) or pt.is_duration(t) or pt.is_time64(t):
        return array.view(pa.int64())
    if pt.is_date32(t) or pt.is_time32(t):
        return array.view(pa.int32())
    if pt.is_decimal128(t):
        values = column_of(array).values
        if np.array_equal(values[:, 1], values[:, 0] >> 63):
            return array_of(pa.int64(), values[:, 0], _valid(array))
    return None


def _valid(array: pa.Array) -> np.ndarray | None:
    return array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None
