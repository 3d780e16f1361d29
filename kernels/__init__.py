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
from .errors import (
    ArithmeticOverflow,
    FunctionFailed,
    InvalidArgument,
    MillraceError,
    StateFormatError,
    UnsupportedType,
)
from .group_state import BatchResult, GroupState
from .groups import aggregate, partial_aggregate
from .keyed_state import KeyedState
from .metrics import Metrics
from .stateful_query import StatefulQuery
from .user_aggregates import aggregator
from .watermark import Watermark
from .windows import Window, window

__all__ = [
    "Aggregation",
    "ArithmeticOverflow",
    "BatchResult",
    "FunctionFailed",
    "GroupState",
    "InvalidArgument",
    "KeyedState",
    "Metrics",
    "MillraceError",
    "StateFormatError",
    "StatefulQuery",
    "UnsupportedType",
    "Watermark",
    "Window",
    "aggregate",
    "aggregator",
    "functions",
    "partial_aggregate",
    "window",
]
