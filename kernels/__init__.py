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
from .decimal_values import divide
from .errors import (
    ArithmeticOverflow,
    FunctionFailed,
    InvalidArgument,
    MillraceError,
    StateFormatError,
    UnsupportedType,
)
from .expressions import CompiledCondition, CompiledFilter
from .group_state import BatchResult, GroupState
from .groups import aggregate, partial_aggregate
from .join_query import Join
from .join_state import JoinState, join_bounded
from .keyed_state import KeyedState
from .metrics import Metrics
from .stateful_query import StatefulQuery
from .time_bounds import TimeBounds
from .user_aggregates import aggregator
from .watermark import Watermark
from .windows import Window, window

__all__ = [
    "Aggregation",
    "ArithmeticOverflow",
    "BatchResult",
    "CompiledCondition",
    "CompiledFilter",
    "FunctionFailed",
    "GroupState",
    "InvalidArgument",
    "Join",
    "JoinState",
    "KeyedState",
    "Metrics",
    "MillraceError",
    "StateFormatError",
    "StatefulQuery",
    "TimeBounds",
    "UnsupportedType",
    "Watermark",
    "Window",
    "aggregate",
    "aggregator",
    "divide",
    "functions",
    "join_bounded",
    "partial_aggregate",
    "window",
]
