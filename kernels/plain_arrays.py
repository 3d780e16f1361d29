"""Arrays of few and common types, which any reader of Arrow understands."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt


def plain(array: pa.Array) -> pa.Array:
    """Give an array with lists of one size as lists, and sums of 256 bits as text.

    Examples
    --------
    >>> plain(pa.array([[1, 2]], pa.list_(pa.int8(), 2))).type
    ListType(list<item: int8>)
    """
    if pt.is_struct(array.type):
        names = [field.name for field in array.type]
        return struct_of(dict(zip(names, map(plain, array.flatten()), strict=True)), len(array), array.is_null())
    if pt.is_fixed_size_list(array.type):
        return array.cast(pa.list_(array.type.value_type))
    return array.cast(pa.string()) if pt.is_decimal256(array.type) else array


def struct_of(fields: dict[str, pa.Array], rows: int, nulls: pa.Array | None = None) -> pa.StructArray:
    """Put columns into one struct, which is null where `nulls` says so.

    Examples
    --------
    >>> struct_of({"n": pa.array([1, 2])}, 2).to_pylist()
    [{'n': 1}, {'n': 2}]
    """
    if not fields:
        gone = [False] * rows if nulls is None else nulls.to_pylist()
        return pa.array([None if is_null else {} for is_null in gone], pa.struct([]))
    types = [pa.field(name, array.type) for name, array in fields.items()]
    return pa.StructArray.from_arrays(list(fields.values()), fields=types, mask=nulls)
