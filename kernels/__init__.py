"""Vectorised state for stream processing: Numba kernels over Arrow batches, without Spark.

Examples
--------
>>> import pyarrow as pa
>>> from millrace.kernels import Aggregation, GroupState, functions as F
>>> batch = pa.record_batch({"page": ["a", "b", "a"]})
>>> state = GroupState(Aggregation(batch.schema, ["page"], {"views": F.count()}), "complete")
>>> state.process(batch).rows.to_pylist()
[{'page': 'a', 'views': 2}, {'page': 'b', 'views': 1}]
"""

from . import functions
from .aggregation import Aggregation
from .errors import ArithmeticOverflow, InvalidArgument, MillraceError, StateFormatError, UnsupportedType
from .group_state import BatchResult, GroupState
from .groups import aggregate, partial_aggregate
from .metrics import Metrics
from .watermark import Watermark
from .windows import Window, window

__all__ = [
    "Aggregation",
    "ArithmeticOverflow",
    "BatchResult",
    "GroupState",
    "InvalidArgument",
    "Metrics",
    "MillraceError",
    "StateFormatError",
    "UnsupportedType",
    "Watermark",
    "Window",
    "aggregate",
    "functions",
    "partial_aggregate",
    "window",
]
