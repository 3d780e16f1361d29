"""`aggregate`: grouped aggregation of a streaming or batch frame."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_type

from ..kernels.aggregation import OUTPUT_MODES, WINDOW, Aggregation
from ..kernels.errors import InvalidArgument, UnsupportedType
from ..kernels.functions import Aggregate
from ..kernels.windows import Window
from .aggregate_operator import AggregateOperator
from .arrow_schema import arrow_type, require_binary_text, require_columns
from .options import Options, session_setting
from .pipeline import Settings, run_bounded, run_streaming
from .watermarks import event_time_of, with_watermark

# Rows that nothing is asked of but their number still need a column to cross over in.
ROW_MARK = pa.field("row", pa.int8())


def aggregate(
    frame: DataFrame,
    keys: Iterable[str] = (),
    aggs: Mapping[str, Aggregate] | None = None,
    *,
    window: Window | None = None,
    watermark: tuple[str, str] | None = None,
    output_mode: str = "append",
    buckets: int | None = None,
    state_backend: str = "inline",
    state_format_version: int = 2,
    name: str = "aggregate",
    map_side: bool = True,
) -> DataFrame:
    """Group a frame and aggregate it, with the results of Spark's ``groupBy(…).agg(…)``.

    Parameters
    ----------
    frame
        a streaming or batch frame.
    keys
        names of the columns to group by.
    aggs
        output name → aggregate function, such as ``mr.count()`` or ``mr.sum("amount")``.
    window
        ``mr.window("ts", "10 minutes")`` groups by time windows as well; the result then begins with
        a ``window`` struct of start and end.
    watermark
        column and delay, as `DataFrame.withWatermark` takes them; leave it out where the frame has one.
    output_mode
        ``"append"`` emits a group once, when the watermark has passed it; ``"update"`` emits the groups
        that a micro-batch touched; ``"complete"`` emits all groups in every micro-batch, and is written
        by a query in update mode (Spark has no complete mode for functions). Without effect on a batch
        frame, which gives all groups.
    buckets
        how many parts the keys are spread over, by default ``spark.sql.shuffle.partitions``. Like that
        setting it belongs to a query for good once it has a checkpoint.
    state_backend
        where state lives between batches: ``"inline"``, in Spark's own state store.
    state_format_version
        2, or 1.
    name
        what metrics and messages call the operator; give one where a query has several.
    map_side
        whether to aggregate before the shuffle, as far as it pays.

    Examples
    --------
    .. code-block:: python

        from millrace import spark_glue as mr

        counts = mr.aggregate(
            events, keys=["user"], aggs={"n": mr.count(), "total": mr.sum("amount")},
            window=mr.window("ts", "10 minutes"), watermark=("ts", "1 minute"), output_mode="append",
        )
    """
    options = Options.checked(frame, buckets, state_backend, state_format_version, name)
    if output_mode not in OUTPUT_MODES:
        raise InvalidArgument.of("output_mode", output_mode, "'append', 'update' or 'complete'")
    query = _checked_query(frame, keys, aggs or {}, window)
    marked = with_watermark(frame, "watermark", watermark)
    known = event_time_of(marked)
    needed = _needed_columns(query)
    event_time, delay_ms = known if known and known[0] in needed else (None, None)
    operator = AggregateOperator(
        name=options.name,
        # Without keys there is one group, and one place for it.
        buckets=1 if query.is_global else options.buckets,
        schema=pa.schema([query.schema.field(column) for column in needed] or [ROW_MARK]),
        keys=query.keys,
        aggs=query.aggs,
        window=window,
        event_time=event_time,
        ansi=query.ansi,
        output_mode=output_mode,
        state_format_version=options.state_format_version,
        map_side=bool(map_side),
    )
    columns = [F.col(quoted(column)) for column in needed] or [F.lit(1).cast("byte").alias(ROW_MARK.name)]
    schema = _result_schema(frame, operator.query)
    if not frame.isStreaming:
        return run_bounded([marked.select(*columns)], operator, schema)
    if output_mode == "append" and operator.query.expiry_key is None:
        raise InvalidArgument(
            f"output_mode: got 'append' with {_described(known)}, accepted is append only with a watermark on the "
            "window's column or on one of the keys; else nothing would ever come out"
        )
    expires = operator.query.expiry_key is not None and output_mode != "complete"
    settings = Settings(
        state_backend=options.state_backend,
        output_mode="append" if output_mode == "append" else "update",
        delay_ms=delay_ms if expires else None,
        timeout="EventTimeTimeout" if expires else "NoTimeout",
        late_is_current=options.late_is_current,
    )
    return run_streaming([marked.select(*columns)], operator, settings, schema)


def _described(known: tuple[str, int] | None) -> str:
    return f"a watermark on {known[0]!r}" if known else "no watermark"


def _checked_query(
    frame: DataFrame, keys: Iterable[str], aggs: Mapping[str, Aggregate], window: Window | None
) -> Aggregation:
    """Check all arguments against the frame."""
    if isinstance(aggs, Mapping):
        for output, agg in aggs.items():
            columns = agg.columns if isinstance(agg, Aggregate) else ()
            _require_usable(f"aggs[{output!r}]", columns, frame.schema)
    if not isinstance(keys, str) and isinstance(keys, Iterable):
        keys = list(keys)
        for key in keys:
            if not isinstance(key, str):
                raise InvalidArgument.of("keys", keys, "names of columns; give an expression a name with withColumn")
        _require_usable("keys", keys, frame.schema)
    if isinstance(window, Window):
        _require_usable("window", [window.column], frame.schema)
    ansi = session_setting(frame, "spark.sql.ansi.enabled") == "true"
    return Aggregation(usable_columns(frame.schema), keys, aggs, window, ansi=ansi)


def _require_usable(argument: str, columns: Iterable[str], schema: T.StructType) -> None:
    for column in columns:
        require_columns(argument, [column], schema)
        arrow_type(schema[column].dataType, argument, column)
        require_binary_text(argument, column, schema[column].dataType)


def usable_columns(schema: T.StructType) -> pa.Schema:
    """The columns that Arrow has a type for and whose names are clear; whatever is asked for is among them."""
    fields = []
    for f in schema:
        with suppress(UnsupportedType):
            if schema.names.count(f.name) == 1:
                fields.append(pa.field(f.name, arrow_type(f.dataType, "frame", f.name)))
    return pa.schema(fields)


def _needed_columns(query: Aggregation) -> list[str]:
    """The columns that keys, window and aggregates read, each once."""
    window = [query.window.column] if query.window else []
    return list(dict.fromkeys([*query.keys, *window, *(c for agg in query.aggs.values() for c in agg.columns)]))


def _result_schema(frame: DataFrame, query: Aggregation) -> T.StructType:
    """The schema that Spark's own aggregation would have, types and nullability, asked of Spark itself."""
    keys: list[Column] = [F.col(quoted(key)) for key in query.keys]
    if query.window:
        w = query.window
        times = [f"{us} microseconds" for us in (w.size, w.slide, w.start)]
        keys.insert(0, F.window(quoted(w.column), *times).alias(WINDOW))
    results = [
        _stand_in(bound.type).alias(name) if agg.definition else spark_twin(agg).alias(name)
        for (name, agg), bound in zip(query.aggs.items(), query.bound, strict=True)
    ]
    return frame.groupBy(*keys).agg(*results).schema


def _stand_in(data_type: pa.DataType) -> Column:
    """An aggregate of Spark's with the type of a user-defined one, which Spark does not know."""
    return F.max(F.lit(None).cast(from_arrow_type(data_type, prefer_timestamp_ntz=True)))


def spark_twin(aggregate: Aggregate) -> Column:
    """The same function of Spark's own."""
    columns = [F.col(quoted(column)) for column in aggregate.columns]
    if aggregate.function == "count":
        return F.count(*columns) if columns else F.count(F.lit(1))
    if aggregate.function in ("first", "last"):
        return getattr(F, aggregate.function)(*columns, ignorenulls=aggregate.ignore_nulls)
    return getattr(F, aggregate.function)(*columns)


def quoted(name: str) -> str:
    """Write a column's name so that Spark takes it as it is.

    Examples
    --------
    >>> quoted("a.b")
    '`a.b`'
    """
    return "`" + name.replace("`", "``") + "`"
