"""Fixed-size arrays within records: Arrow lists of one length, and rows of words with the elements packed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from .columns import NO_BYTES, NO_WORDS, Column, Form, array_of, column_of
from .errors import InvalidArgument
from .kinds import element_of, field_kind
from .memory import freeze


def packed_to_lists(words: np.ndarray, data_type: pa.DataType, valid: np.ndarray | None = None) -> pa.Array:
    """Give arrays that lie packed in rows of words as Arrow lists; `valid` is a boolean per row, or None."""
    element = element_of(field_kind(data_type, "state", "")[0])
    flat = np.ascontiguousarray(words).view(element)[:, : data_type.list_size].reshape(-1)
    mask = None if valid is None or valid.all() else pa.array(~valid)
    return pa.FixedSizeListArray.from_arrays(array_of(data_type.value_type, flat), type=data_type, mask=mask)


def lists_to_packed(array: pa.Array, name: str) -> np.ndarray:
    """Give Arrow lists as rows of words, a null list as zeros; `name` says in messages whose they are."""
    kind, length = field_kind(array.type, "state", name)
    if array.drop_null().flatten().null_count:
        raise InvalidArgument(f"state: field {name!r} has an array with a null element, accepted are values")
    element = element_of(kind)
    words = -(-length * element.itemsize // 8)
    packed = np.zeros((len(array), words * 8 // element.itemsize), element)
    elements = column_of(array.values.slice(array.offset * length, len(array) * length)).values
    packed[:, :length] = elements.astype(element).reshape(len(array), length)
    if array.null_count:
        packed[array.is_null().to_numpy(zero_copy_only=False)] = 0
    return packed.view(np.int64)


def array_column(array: pa.Array) -> Column:
    """View Arrow lists as a column whose values are rows of words."""
    return Column(Form.ARRAY, freeze(lists_to_packed(array, "")), NO_BYTES, 0, NO_WORDS, NO_WORDS, NO_BYTES)
