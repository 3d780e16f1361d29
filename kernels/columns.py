"""Arrow arrays as NumPy views that kernels can read, and NumPy arrays back as Arrow.

A kernel sees every column in one of these forms, whatever its Arrow type:

========  =====================================================  ==========================
form      Arrow types                                            arrays
========  =====================================================  ==========================
WORD      bool, int8 … int64, date32, timestamp                  `values` int64, one per row
FLOAT     float32, float64                                       `values` float64
DECIMAL   decimal128 (decimal256 in running sums)                `values` int64, (rows, 2 or 4), low word first
BYTES     string, binary                                         `starts`, `ends` int64 into `data`
ARRAY     fixed-size lists, in accumulators (`fixed_arrays`)     `values` int64, (rows, words)
========  =====================================================  ==========================

Validity stays an Arrow bitmap with its bit offset; an empty bitmap means that nothing is null.
All arrays are read-only: Arrow memory is, and Numba would compile a second version for writable ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from .errors import InvalidArgument, UnsupportedType
from .memory import freeze

Form = Enum("Form", ["WORD", "FLOAT", "DECIMAL", "BYTES", "ARRAY"])

SUPPORTED = "bool, int8 … int64, float32, float64, decimal128, date32, timestamp, string, binary"
INT32_LIMIT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a batch, as arrays for kernels (see the module's table)."""

    form: Form
    values: np.ndarray
    valid: np.ndarray
    offset: int
    starts: np.ndarray
    ends: np.ndarray
    data: np.ndarray

    @property
    def has_nulls(self) -> bool:
        return len(self.valid) > 0

    def valid_rows(self, base: int, rows: int) -> np.ndarray:
        """Validity as a boolean per row, for `rows` rows from row `base` on."""
        if not self.has_nulls:
            return np.ones(rows, np.bool_)
        first = self.offset + base
        bits = np.unpackbits(self.valid[first >> 3 : (first + rows + 7) >> 3], bitorder="little")
        return bits[first & 7 : (first & 7) + rows].view(np.bool_)

    def take(self, rows: np.ndarray) -> Column:
        """Give some rows, in the order asked for; byte strings stay where they are."""
        valid, offset = NO_BYTES, 0
        if self.has_nulls:
            positions = rows + self.offset
            bits = (self.valid[positions >> 3] >> (positions & 7).astype(np.uint8)) & np.uint8(1)
            valid = freeze(np.packbits(bits, bitorder="little"))
        if self.form is Form.BYTES:
            starts, ends = freeze(self.starts[rows]), freeze(self.ends[rows])
            return Column(self.form, self.values, valid, offset, starts, ends, self.data)
        return Column(self.form, freeze(self.values[rows]), valid, offset, self.starts, self.ends, self.data)


NO_BYTES = freeze(np.empty(0, np.uint8))
NO_WORDS = freeze(np.empty(0, np.int64))


def word_column(values: np.ndarray) -> Column:
    """Make a column without nulls out of int64 values."""
    return Column(Form.WORD, freeze(values), NO_BYTES, 0, NO_WORDS, NO_WORDS, NO_BYTES)


def storage_type(data_type: pa.DataType, argument: str, name: str) -> pa.DataType:
    """Give the plain type that a column of `data_type` is held and handed out in.

    Dictionaries become their values, views and fixed-size binaries plain strings and binaries,
    small decimals decimal128, timestamps of any unit microseconds (Spark's).

    Raises
    ------
    UnsupportedType
        for a type that can be neither key nor value.
    """
    data_type = plain_type(data_type)
    if pt.is_timestamp(data_type):
        return pa.timestamp("us", data_type.tz)
    if pt.is_decimal32(data_type) or pt.is_decimal64(data_type):
        return pa.decimal128(data_type.precision, data_type.scale)
    if pt.is_fixed_size_binary(data_type):
        return pa.binary()
    # 256 bits hold running sums of decimals; as an input type they have no counterpart in Spark.
    if form_or_none(data_type) is None or pt.is_decimal256(data_type):
        raise UnsupportedType(f"{argument}: column {name!r} is {data_type}, accepted are {SUPPORTED}")
    return data_type


def plain_type(data_type: pa.DataType) -> pa.DataType:
    """Give the type of the values behind a dictionary or a view; any other type as it is."""
    if pt.is_dictionary(data_type):
        return plain_type(data_type.value_type)
    if pt.is_string_view(data_type):
        return pa.string()
    if pt.is_binary_view(data_type):
        return pa.binary()
    return data_type


def plain_array(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Give an array in a plain type, converting only where the type differs."""
    if isinstance(array, pa.DictionaryArray):
        array = array.dictionary_decode()
    return array if array.type.equals(wanted) else array.cast(wanted)


def form_of(data_type: pa.DataType) -> Form:
    """Give the form in which kernels see a storage type."""
    form = form_or_none(data_type)
    if form is None:
        raise UnsupportedType(f"type {data_type} is not one of {SUPPORTED}")
    return form


def form_or_none(t: pa.DataType) -> Form | None:
    """Give the form of a storage type, None for a type that kernels do not look into."""
    if pt.is_boolean(t) or pt.is_signed_integer(t) or pt.is_date32(t) or pt.is_timestamp(t):
        return Form.WORD
    if pt.is_float32(t) or pt.is_float64(t):
        return Form.FLOAT
    if pt.is_decimal128(t) or pt.is_decimal256(t):
        return Form.DECIMAL
    if pt.is_string(t) or pt.is_large_string(t) or pt.is_binary(t) or pt.is_large_binary(t):
        return Form.BYTES
    return None


def record_batches(data: pa.RecordBatch | pa.Table | Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Go through Arrow input of any shape batch by batch, without copying."""
    if isinstance(data, pa.RecordBatch):
        yield data
    elif isinstance(data, pa.Table):
        yield from data.to_batches()
    elif isinstance(data, Iterable) and not isinstance(data, str | bytes | dict) and not hasattr(data, "columns"):
        for part in data:
            yield from record_batches(part)
    else:
        accepted = "a pyarrow RecordBatch or Table, or an iterable of them"
        raise InvalidArgument(f"data: got {type(data).__name__}, accepted is {accepted}")


def storage_array(batch: pa.RecordBatch, name: str, wanted: pa.DataType) -> pa.Array:
    """Take a column out of a batch in its storage type, converting only where the type differs."""
    index = batch.schema.get_field_index(name)
    if index < 0:
        raise InvalidArgument.unknown_column("batch", name, batch.schema.names)
    array = batch.column(index)
    try:
        return plain_array(array, wanted)
    except pa.ArrowException as error:
        message = f"batch: column {name!r} is {array.type}, accepted is {wanted} ({error})"
        raise InvalidArgument(message) from error


def column_of(array: pa.Array) -> Column:
    """View an Arrow array of a storage type as a `Column`."""
    form = form_of(array.type)
    values, starts, ends, data = NO_WORDS, NO_WORDS, NO_WORDS, NO_BYTES
    if form is Form.BYTES:
        starts, ends, data = _spans(array)
    elif form is Form.DECIMAL:
        values = fixed_values(array, np.dtype((np.int64, array.type.bit_width // 64)))
    elif form is Form.FLOAT:
        values = _widen(fixed_values(array, np.dtype(array.type.to_pandas_dtype())), np.float64)
    elif pt.is_boolean(array.type):
        values = _bits(array).astype(np.int64)
    else:
        values = _widen(fixed_values(array, np.dtype(f"i{array.type.bit_width // 8}")), np.int64)
    valid, offset = validity_of(array)
    return Column(form, freeze(values), valid, offset, freeze(starts), freeze(ends), data)


def validity_of(array: pa.Array) -> tuple[np.ndarray, int]:
    """Give an array's validity bitmap and the bit at which its first row stands."""
    if array.null_count == 0:
        return NO_BYTES, 0
    return freeze(np.frombuffer(array.buffers()[0], np.uint8)), array.offset


def _bits(array: pa.BooleanArray) -> np.ndarray:
    packed = _whole_buffer(array, 1, np.dtype(np.uint8))
    return np.unpackbits(packed, bitorder="little")[array.offset : array.offset + len(array)]


def _whole_buffer(array: pa.Array, index: int, dtype: np.dtype) -> np.ndarray:
    buffer = array.buffers()[index]
    if buffer is None or buffer.size == 0:
        return np.empty(0, dtype.base)
    usable = buffer.size - buffer.size % dtype.base.itemsize
    return np.frombuffer(buffer[:usable], dtype.base)


def fixed_values(array: pa.Array, dtype: np.dtype) -> np.ndarray:
    """View the values of a fixed-width array, those of null rows being anything."""
    lanes = dtype.shape[0] if dtype.shape else 1
    whole = _whole_buffer(array, 1, dtype)
    rows = whole[array.offset * lanes : (array.offset + len(array)) * lanes]
    return rows.reshape(len(array), lanes) if dtype.shape else rows


def _widen(values: np.ndarray, dtype: type) -> np.ndarray:
    return values if values.dtype == dtype else values.astype(dtype)


def _spans(array: pa.Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    wide = pt.is_large_string(array.type) or pt.is_large_binary(array.type)
    offsets = _whole_buffer(array, 1, np.dtype(np.int64 if wide else np.int32))
    # One width of offsets means one compilation of every kernel that reads strings.
    offsets = _widen(offsets[array.offset : array.offset + len(array) + 1], np.int64)
    data = freeze(_whole_buffer(array, 2, np.dtype(np.uint8)))
    return offsets[:-1], offsets[1:], data


def array_of(data_type: pa.DataType, values: np.ndarray, valid: np.ndarray | None = None) -> pa.Array:
    """Build a fixed-width Arrow array from a form's values (int64, float64, or words, (rows, n)).

    `valid` is a boolean per row, or None where nothing is null.
    """
    rows = len(values)
    if pt.is_boolean(data_type):
        values = np.packbits(values.astype(np.bool_), bitorder="little")
    elif pt.is_floating(data_type):
        values = values.astype(data_type.to_pandas_dtype(), copy=False)
    elif not pt.is_decimal(data_type):
        values = values.astype(f"i{data_type.bit_width // 8}", copy=False)
    bitmap, nulls = bitmap_of(valid)
    return pa.Array.from_buffers(data_type, rows, [bitmap, pa.py_buffer(np.ascontiguousarray(values))], nulls)


def bytes_array(data_type: pa.DataType, lengths: np.ndarray, data: np.ndarray, valid: np.ndarray | None) -> pa.Array:
    """Build a string or binary array from the lengths of its values and their bytes in a row."""
    wide = pt.is_large_string(data_type) or pt.is_large_binary(data_type)
    if not wide and len(data) > INT32_LIMIT:
        raise InvalidArgument(
            f"a {data_type} column of one output batch holds {len(data)} bytes, accepted are {INT32_LIMIT}; "
            f"declare it as large_{data_type}"
        )
    offsets = np.zeros(len(lengths) + 1, np.int64 if wide else np.int32)
    np.cumsum(lengths, out=offsets[1:])
    bitmap, nulls = bitmap_of(valid)
    return pa.Array.from_buffers(data_type, len(lengths), [bitmap, pa.py_buffer(offsets), pa.py_buffer(data)], nulls)


def bitmap_of(valid: np.ndarray | None) -> tuple[pa.Buffer | None, int]:
    """Give the validity buffer for a boolean per row, and the number of nulls; no buffer where there are none."""
    if valid is None or valid.all():
        return None, 0
    return pa.py_buffer(np.packbits(valid, bitorder="little")), int(len(valid) - np.count_nonzero(valid))
