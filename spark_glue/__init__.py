"""Millrace on Spark: stateful operators for streaming and batch frames.

.. code-block:: python

    from millrace import spark_glue as mr
"""

from ..kernels.decimal_values import divide
from ..kernels.errors import ArithmeticOverflow, InvalidArgument, MillraceError, StateFormatError, UnsupportedType
from ..kernels.functions import (
    avg,
    bool_and,
    bool_or,
    count,
    count_if,
    first,
    last,
    max,
    max_by,
    min,
    min_by,
    stddev_pop,
    stddev_samp,
    sum,
    var_pop,
    var_samp,
)  # fmt: skip
from ..kernels.sketches import approx_count_distinct, approx_quantile, weighted_mean
from ..kernels.user_aggregates import aggregator
from ..kernels.windows import window
from .aggregate import aggregate
from .configure import configure
from .join import join
from .read_state import read_state
from .stateful import apply_in_pandas_with_state, stateful
from .watch import watch

__all__ = [
    "ArithmeticOverflow",
    "InvalidArgument",
    "MillraceError",
    "StateFormatError",
    "UnsupportedType",
    "aggregate",
    "aggregator",
    "apply_in_pandas_with_state",
    "approx_count_distinct",
    "approx_quantile",
    "avg",
    "bool_and",
    "bool_or",
    "configure",
    "count",
    "count_if",
    "divide",
    "first",
    "join",
    "last",
    "max",
    "max_by",
    "min",
    "min_by",
    "read_state",
    "stateful",
    "stddev_pop",
    "stddev_samp",
    "sum",
    "var_pop",
    "var_samp",
    "watch",
    "weighted_mean",
    "window",
]  # fmt: skip
