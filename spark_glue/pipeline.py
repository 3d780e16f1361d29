"""The plan that all operators share: encode → shuffle → step per bucket → decode."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ..kernels.errors import InvalidArgument
from .exchange import EVENT_TIME
from .operator import Operator
from .step import BoundedStep, BucketStep, Decode, Encode
from .watermarks import DELAY_KEY

_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
STATE = T.StructType([T.StructField("handle", T.StringType())])


@dataclass(frozen=True)
class Settings:
    """How an operator is run: everything that does not change its results."""

    state_backend: str
    output_mode: str
    # The delay of the watermark in milliseconds; None where there is none that matters.
    delay_ms: int | None
    timeout: str
    late_is_current: bool = False


@dataclass
class ExecutorFunctions:
    """What makes the functions that run on executors; `millrace tune` puts in others, which take the time."""

    encode: Callable[..., Any] = Encode
    step: Callable[..., Any] = BucketStep
    decode: Callable[..., Any] = Decode


FUNCTIONS = ExecutorFunctions()


def run_streaming(
    inputs: Sequence[DataFrame], operator: Operator, settings: Settings, schema: T.StructType
) -> DataFrame:
    """Build the plan of a streaming query."""
    _require_single(inputs)
    parcels = _encoded(inputs, operator, settings.delay_ms)
    step = FUNCTIONS.step(
        operator, settings.state_backend, settings.delay_ms is not None, settings.timeout, settings.late_is_current
    )
    metrics = list(operator.metrics_type().as_dict())
    result = T.StructType([T.StructField("blob", T.BinaryType()), *(T.StructField(n, T.LongType()) for n in metrics)])
    results = parcels.groupBy("bucket").applyInPandasWithState(
        step, result, STATE, settings.output_mode, settings.timeout
    )
    observed = results.observe(f"millrace:{operator.name}", *(F.sum(name).alias(name) for name in metrics))
    return _decoded(observed.where("blob is not null").select("blob"), schema)


# What Spark does not allow before an applyInPandasWithState, as plans name it.
NOT_BEFORE = {
    "FlatMapGroupsInPandasWithState": "another stateful function or operator",
    "Aggregate": "an aggregation of Spark's own",
}


def _require_single(inputs: Sequence[DataFrame]) -> None:
    """Refuse a second operator in one query. On Connect, where plans cannot be seen, Spark does when it starts."""
    for frame in inputs:
        plan = getattr(frame, "_jdf", None)
        for name in _streaming_nodes(plan.queryExecution().analyzed()) if plan is not None else ():
            if name in NOT_BEFORE:
                raise InvalidArgument(
                    f"frame: it comes out of {NOT_BEFORE[name]}, accepted is one stateful operator of Millrace a "
                    "query, as Spark allows one applyInPandasWithState and none after an aggregation; write the first "
                    "one's rows to a table or topic with foreachBatch, and read that in a query of its own"
                )


def _streaming_nodes(plan: Any) -> Iterator[str]:
    """Names of the parts of a plan that work on streams."""
    if plan.isStreaming():
        yield plan.nodeName()
        children = plan.children()
        for i in range(children.size()):
            yield from _streaming_nodes(children.apply(i))


def run_bounded(inputs: Sequence[DataFrame], operator: Operator, schema: T.StructType) -> DataFrame:
    """Build the plan of a batch query: the same encode, and all rows of a bucket at once."""
    parcels = _encoded(inputs, operator, None).repartition(operator.buckets, "bucket")
    return parcels.mapInArrow(BoundedStep(operator), schema)


def _encoded(inputs: Sequence[DataFrame], operator: Operator, delay_ms: int | None) -> DataFrame:
    frames = [
        _fitly_named(frame).mapInArrow(FUNCTIONS.encode(operator, side), _parcel_schema(delay_ms))
        for side, frame in enumerate(inputs)
    ]
    parcels = frames[0]
    for frame in frames[1:]:
        parcels = parcels.union(frame)
    return parcels


def _fitly_named(frame: DataFrame) -> DataFrame:
    """Columns under names that `mapInArrow` takes; only others are renamed, which has Spark copy every row."""
    return frame if are_plain_names(frame.columns) else frame.toDF(*numbered_names(len(frame.columns)))


def are_plain_names(names: Sequence[str]) -> bool:
    """Tell whether names are clear to `mapInArrow`, which reads a dot or a backquote in one as syntax.

    Examples
    --------
    >>> are_plain_names(["k", "v_1"]), are_plain_names(["a.b"]), are_plain_names(["k", "K"])
    (True, False, False)
    """
    return all(map(_PLAIN_NAME.fullmatch, names)) and len({name.lower() for name in names}) == len(names)


def numbered_names(count: int) -> list[str]:
    """Names for columns whose own ones are not plain.

    Examples
    --------
    >>> numbered_names(2)
    ['c0', 'c1']
    """
    return [f"c{i}" for i in range(count)]


def _parcel_schema(delay_ms: int | None) -> T.StructType:
    """Parcels as Spark sees them; the watermark's mark survives only in the schema that we declare."""
    mark = {} if delay_ms is None else {DELAY_KEY: delay_ms}
    return T.StructType(
        [
            T.StructField("bucket", T.IntegerType(), False),
            T.StructField("kind", T.IntegerType(), False),
            T.StructField("blob", T.BinaryType()),
            T.StructField(EVENT_TIME, T.TimestampType(), False, mark),
        ]
    )


def _decoded(blobs: DataFrame, schema: T.StructType) -> DataFrame:
    return blobs.mapInArrow(FUNCTIONS.decode(), schema)
