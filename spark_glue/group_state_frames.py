"""Arrow columns as the pandas frames that Spark hands to Python functions, and back.

Spark's own converters do the work, so that values look just as they do in `applyInPandasWithState`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql import types as T
from pyspark.sql.pandas.types import _create_converter_from_pandas, _create_converter_to_pandas

from ..kernels.errors import MillraceError


@dataclass(frozen=True)
class FrameSlices:
    """Some stretches of rows: their numbers, the frame they lie in, and where each begins and ends there."""

    calls: np.ndarray
    frame: pd.DataFrame
    firsts: np.ndarray
    ends: np.ndarray


def _minded_nulls(array: pa.Array) -> Iterator[np.ndarray]:
    """For each integer or boolean of a column, be it within lists, tell the rows that have a null of it."""
    if pt.is_integer(array.type) or pt.is_boolean(array.type):
        if array.null_count:
            yield array.is_null().to_numpy(zero_copy_only=False)
    elif pt.is_struct(array.type):
        for field in array.flatten():
            yield from _minded_nulls(field)
    elif pt.is_list(array.type) or pt.is_map(array.type):
        offsets = array.offsets.to_numpy()
        for elements in _minded_nulls(array.items if pt.is_map(array.type) else array.values):
            before = np.r_[0, np.cumsum(elements)]
            yield before[offsets[1:]] > before[offsets[:-1]]


def _alike(arrays: Sequence[pa.Array], firsts: np.ndarray) -> Iterator[np.ndarray]:
    """Part stretches by which of the columns that mind nulls have any in them, at any depth."""
    nulls = [np.logical_or.reduceat(rows, firsts) for array in arrays for rows in _minded_nulls(array) if rows.any()]
    if not nulls:
        yield np.arange(len(firsts))
        return
    _, pattern = np.unique(np.stack(nulls, axis=1), axis=0, return_inverse=True)
    order = np.argsort(pattern, kind="stable")
    yield from np.split(order, np.flatnonzero(np.diff(pattern[order])) + 1)


def _series_of(array: pa.Array) -> pd.Series:
    """One column as Spark converts it: integers within nested values stay integers beside nulls."""
    options = {"date_as_object": True, "coerce_temporal_nanoseconds": True}
    return array.to_pandas(integer_object_nulls=pt.is_nested(array.type), **options)


class FrameConverter:
    """Converts between Arrow and pandas for one schema, in the session's time zone."""

    def __init__(self, schema: T.StructType, arrow_schema: pa.Schema, time_zone: str) -> None:
        self._names = schema.names
        self._columns = pd.Index(schema.names)
        self._arrow_types = arrow_schema.types
        self._to_pandas = [
            _create_converter_to_pandas(f.dataType, f.nullable, timezone=time_zone, struct_in_pandas="dict")
            for f in schema
        ]
        self._from_pandas = [_create_converter_from_pandas(f.dataType, timezone=time_zone) for f in schema]

    def to_pandas(self, arrays: Sequence[pa.Array]) -> pd.DataFrame:
        """Give columns as a frame."""
        columns = [convert(_series_of(array)) for array, convert in zip(arrays, self._to_pandas, strict=True)]
        return pd.concat(columns, axis=1, keys=self._names)

    def slices(self, arrays: Sequence[pa.Array], firsts: np.ndarray) -> Iterator[FrameSlices]:
        """Give stretches of columns as slices of as few frames as may be, each as if it were converted alone.

        Whether integers and booleans keep their type in pandas depends on whether there are nulls among them. So
        stretches that agree in which columns have any share a frame.
        """
        rows = len(arrays[0])
        ends = np.r_[firsts[1:], rows]
        for calls in _alike(arrays, firsts):
            if len(calls) == len(firsts):
                yield FrameSlices(calls, self.to_pandas(arrays), firsts, ends)
                continue
            lengths = ends[calls] - firsts[calls]
            starts = np.cumsum(lengths) - lengths
            within = np.repeat(firsts[calls] - starts, lengths) + np.arange(lengths.sum())
            frame = self.to_pandas([array.take(pa.array(within)) for array in arrays])
            yield FrameSlices(calls, frame, starts, starts + lengths)

    def to_arrow(self, frames: Sequence[pd.DataFrame], where: str) -> pa.RecordBatch:
        """Put the frames that a function has given into one record batch, columns by name as Spark does."""
        for frame in frames:
            self._check(frame, where)
        whole = frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True)
        by_name = all(isinstance(name, str) for name in whole.columns)
        arrays = [
            self._array(name, self._from_pandas[i](whole[name] if by_name else whole.iloc[:, i]), data_type, where)
            for i, (name, data_type) in enumerate(zip(self._names, self._arrow_types, strict=True))
        ]
        return pa.RecordBatch.from_arrays(arrays, names=self._names)

    def _check(self, frame: Any, where: str) -> None:
        if not isinstance(frame, pd.DataFrame):
            raise MillraceError(f"{where}: the function gave {type(frame).__name__}, accepted are pandas frames")
        names = list(frame.columns)
        if names == self._names:
            # One index object for all frames: pandas else compares each with the next when it puts them together.
            frame.columns = self._columns
            return
        named = all(isinstance(name, str) for name in names)
        if len(names) != len(self._names) or (named and set(names) != set(self._names)):
            raise MillraceError(f"{where}: the function gave columns {names}, accepted are {self._names}")

    @staticmethod
    def _array(name: str, series: pd.Series, data_type: pa.DataType, where: str) -> pa.Array:
        try:
            return pa.Array.from_pandas(series, mask=series.isnull(), type=data_type)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise MillraceError(f"{where}: output column {name!r} is not {data_type}: {error}") from error
