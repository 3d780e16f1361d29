"""`stateful`: arbitrary stateful functions, compiled or unchanged, as functions of frames."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

from ..kernels.columns import column_of, storage_array
from ..kernels.errors import InvalidArgument, UnsupportedType
from ..kernels.keyed_state import KeyedState
from ..kernels.keys import KeyLayout
from ..kernels.narrow import write_stream
from ..kernels.stateful_query import OUTPUT_MODES, TIMEOUTS, StatefulQuery
from .aggregate import quoted, usable_columns
from .arrow_schema import arrow_schema, arrow_type, require_binary_text, require_columns
from .buckets import bucket_keys
from .exchange import scatter
from .options import Options
from .pandas_operator import PandasOperator
from .pandas_state import PandasQuery, PandasState, name_of
from .pipeline import Settings, run_bounded, run_streaming
from .rows_encoder import parts_of
from .stateful_operator import StatefulOperator
from .watermarks import event_time_of, with_watermark

ENGINES = ("jit", "pandas")
# State fields that Python sees as dates and times lie in state as the numbers that Spark keeps for them.
INTERNAL: dict[type[T.DataType], pa.DataType] = {
    T.DateType: pa.int32(),
    T.TimestampType: pa.int64(),
    T.TimestampNTZType: pa.int64(),
}


@dataclass(frozen=True)
class StatefulFunction:
    """A stateful function that maps a frame to a frame; `stateful` makes it."""

    function: Callable
    keys: tuple[str, ...]
    state: str | T.StructType
    output: str | T.StructType
    output_mode: str
    timeout: str
    engine: str
    order_by: str | None
    watermark: tuple[str, str] | None
    initial_state: DataFrame | None
    options: dict[str, Any]

    def __post_init__(self) -> None:
        # What `functools.update_wrapper` does, on a frozen object.
        self.__dict__.update(__name__=name_of(self.function), __doc__=self.function.__doc__, __wrapped__=self.function)

    def __call__(self, frame: DataFrame) -> DataFrame:
        """Apply the function to a streaming or batch frame."""
        settings = {"name": name_of(self.function), **self.options}
        options = Options.checked(frame, **settings)
        if frame.isStreaming and self.timeout == "EventTimeTimeout" and self.watermark is None:
            self._require_watermark(frame)
        for argument, names in (("keys", self.keys), ("order_by", [self.order_by] if self.order_by else [])):
            require_columns(argument, names, frame.schema)
            for name in names:
                arrow_type(frame.schema[name].dataType, argument, name)
                require_binary_text(argument, name, frame.schema[name].dataType)
        marked = with_watermark(frame, "watermark", self.watermark)
        known = event_time_of(marked)
        build = self._compiled if self.engine == "jit" else self._unchanged
        operator, columns, schema = build(frame, options, known[0] if known else None)
        rows = marked.select(*(F.col(quoted(name)) for name in columns))
        if not frame.isStreaming:
            return run_bounded([rows], operator, schema)
        plan = Settings(
            state_backend=options.state_backend,
            output_mode=self.output_mode,
            delay_ms=known[1] if known else None,
            timeout=self.timeout,
            late_is_current=options.late_is_current,
        )
        return run_streaming([rows], operator, plan, schema)

    def _require_watermark(self, frame: DataFrame) -> None:
        if event_time_of(frame) is None:
            raise InvalidArgument(
                "timeout: got 'EventTimeTimeout' on a frame without a watermark; give the frame one with "
                'withWatermark, or this function watermark=("ts", "10 minutes")'
            )

    def _compiled(
        self, frame: DataFrame, options: Options, event_time: str | None
    ) -> tuple[StatefulOperator, Sequence[str], T.StructType]:
        event_time = event_time or self._time_of_bounded(frame)
        schema = usable_columns(frame.schema)
        query = StatefulQuery(
            schema, self.keys, _fields("state", self.state), _fields("output", self.output), self.function,
            self.timeout, event_time, self.order_by, self.output_mode,
        )  # fmt: skip
        read = [*self.keys, *query.program.ROWS.used, self.order_by, event_time]
        columns = tuple(name for name in frame.columns if name in read)
        initial = _initial_state(self.initial_state, query, options.buckets)
        operator = StatefulOperator(
            options.name, options.buckets, query, columns, options.state_format_version, initial
        )
        return operator, columns, from_arrow_schema(query.output, prefer_timestamp_ntz=True)

    def _time_of_bounded(self, frame: DataFrame) -> str | None:
        """In a batch query nothing is late, so any time column will do for a function with timeouts."""
        if frame.isStreaming or self.timeout != "EventTimeTimeout":
            return None
        times = [f.name for f in frame.schema if isinstance(f.dataType, T.TimestampType | T.TimestampNTZType)]
        if not times:
            raise InvalidArgument("timeout: got 'EventTimeTimeout' on a frame without a timestamp column")
        return times[0]

    def _unchanged(
        self, frame: DataFrame, options: Options, event_time: str | None
    ) -> tuple[PandasOperator, Sequence[str], T.StructType]:
        if options.state_format_version != 2:
            raise InvalidArgument.of("state_format_version", options.state_format_version, "2 for engine='pandas'")
        output, state = _struct("output", self.output), _struct("state", self.state)
        query = PandasQuery(
            function=self.function,
            keys=self.keys,
            input=frame.schema,
            schema=arrow_schema(frame.schema, frame.columns, "frame"),
            state=state,
            state_schema=_internal_schema(state),
            output=output,
            output_schema=arrow_schema(output, output.names, "output"),
            timeout=self.timeout,
            event_time=event_time,
            order_by=self.order_by,
            time_zone=str(frame.sparkSession.conf.get("spark.sql.session.timeZone")),
        )
        KeyLayout(query.key_types)
        initial = _initial_state(self.initial_state, query, options.buckets)
        return PandasOperator(options.name, options.buckets, query, 2, initial), frame.columns, output


def stateful(
    *,
    keys: Iterable[str],
    output: str | T.StructType,
    state: str | T.StructType,
    output_mode: str = "update",
    timeout: str = "NoTimeout",
    engine: str = "jit",
    order_by: str | None = None,
    watermark: tuple[str, str] | None = None,
    initial_state: DataFrame | None = None,
    buckets: int | None = None,
    state_backend: str = "inline",
    state_format_version: int = 2,
    name: str | None = None,
) -> Callable[[Callable], StatefulFunction]:
    """Make a function of a key, its rows and its state into a function of frames.

    Parameters
    ----------
    keys
        names of the columns that state is kept by.
    output, state
        columns of the rows that the function gives, and fields of a key's state, as Spark DDL text or a
        `StructType`. With ``engine="jit"`` state may have arrays of one size, ``array<double, 16>``.
    output_mode
        ``"update"`` or ``"append"``, and the query must be written in the same mode.
    timeout
        ``"NoTimeout"``, ``"ProcessingTimeTimeout"`` or ``"EventTimeTimeout"``.
    engine
        ``"jit"`` compiles ``function(key, rows, state, out)`` and runs it over all keys of a bucket in one
        call; ``"pandas"`` takes an unchanged `applyInPandasWithState` function ``(key, pdfs, state)``.
    order_by
        the column that each key's rows are ordered by, nulls first.
    watermark
        column and delay; leave it out where the frame has one.
    initial_state
        a batch frame of the keys and the state's fields to begin with; it is collected to the driver.
        Every one of its keys is called in the first micro-batch.
    buckets, state_backend, state_format_version, name
        as for `aggregate`; `name` is the function's by default.

    Examples
    --------
    .. code-block:: python

        @mr.stateful(keys=["user"], state="n long, total double", output="user long, n long, mean double")
        def running_mean(key, rows, state, out):
            for i in range(len(rows)):
                state.n += 1
                state.total += rows.amount[i]
            out.emit(key.user, state.n, state.total / state.n)

        means = events.transform(running_mean)
    """
    if isinstance(keys, str) or not isinstance(keys, Iterable):
        raise InvalidArgument.of("keys", keys, "a list of column names, like ['user']")
    names = tuple(keys)
    if not names or not all(isinstance(key, str) for key in names):
        raise InvalidArgument.of("keys", list(names), "at least one column name")
    for argument, given, accepted in (
        ("output_mode", output_mode, OUTPUT_MODES), ("timeout", timeout, TIMEOUTS), ("engine", engine, ENGINES),
    ):  # fmt: skip
        if given not in accepted:
            raise InvalidArgument.of(argument, given, ", ".join(map(repr, accepted)))
    options = {
        "buckets": buckets, "state_backend": state_backend, "state_format_version": state_format_version,
        **({} if name is None else {"name": name}),
    }  # fmt: skip

    def decorate(function: Callable) -> StatefulFunction:
        if not callable(function):
            raise InvalidArgument.of("function", function, "a Python function")
        return StatefulFunction(
            function, names, state, output, output_mode, timeout, engine, order_by, watermark, initial_state, options
        )  # fmt: skip

    return decorate


def apply_in_pandas_with_state(
    frame: DataFrame,
    keys: Iterable[str],
    func: Callable,
    outputStructType: str | T.StructType,
    stateStructType: str | T.StructType,
    outputMode: str,
    timeoutConf: str,
    **options: Any,
) -> DataFrame:
    """`GroupedData.applyInPandasWithState`, with its arguments in its order, many keys at a time.

    Examples
    --------
    .. code-block:: python

        # events.groupBy("user").applyInPandasWithState(func, output, state, "update", "NoTimeout")
        mr.apply_in_pandas_with_state(events, ["user"], func, output, state, "update", "NoTimeout")
    """
    decorate = stateful(
        keys=keys, output=outputStructType, state=stateStructType,
        output_mode=outputMode.lower() if isinstance(outputMode, str) else outputMode,
        timeout=timeoutConf, engine="pandas", **options,
    )  # fmt: skip
    return decorate(func)(frame)


def _struct(argument: str, given: str | T.StructType) -> T.StructType:
    if isinstance(given, T.StructType):
        return given
    if not isinstance(given, str):
        raise InvalidArgument.of(argument, given, 'a schema as text, like "n long, total double", or a StructType')
    try:
        parsed = T._parse_datatype_string(given)
    except Exception as error:
        raise InvalidArgument(f"{argument}: {given!r} is no schema: {error}") from error
    if not isinstance(parsed, T.StructType):
        raise InvalidArgument.of(argument, given, 'a schema as text, like "n long, total double"')
    return parsed


def _fields(argument: str, given: str | T.StructType) -> str | pa.Schema:
    return arrow_schema(given, given.names, argument) if isinstance(given, T.StructType) else given


def _internal_schema(state: T.StructType) -> pa.Schema:
    fields = []
    for f in state:
        if isinstance(f.dataType, T.MapType):
            raise UnsupportedType(f"state: field {f.name!r} is {f.dataType.simpleString()}; use arrays, or a string")
        data_type = INTERNAL.get(type(f.dataType)) or arrow_type(f.dataType, "state", f.name)
        fields.append(pa.field(f.name, data_type))
    return pa.schema(fields)


def _require_loads(query: StatefulQuery | PandasQuery, rows: pa.RecordBatch) -> None:
    """Refuse here an initial state that workers could not begin with."""
    try:
        if isinstance(query, StatefulQuery):
            KeyedState(query).load_initial(rows)
        else:
            PandasState.initial(query, rows)
    except InvalidArgument as error:
        text = str(error)
        raise InvalidArgument(text if text.startswith("initial_state") else f"initial_state: {text}") from error


def _initial_state(frame: DataFrame | None, query: StatefulQuery | PandasQuery, buckets: int) -> dict[int, bytes]:
    """Collect an initial state, parted by bucket."""
    if frame is None:
        return {}
    if not isinstance(frame, DataFrame) or frame.isStreaming:
        raise InvalidArgument.of("initial_state", frame, "a batch frame of the keys and the state's fields")
    wanted = [*query.keys, *query.state.names]
    require_columns("initial_state", wanted, frame.schema)
    rows = frame.select(*(F.col(quoted(name)) for name in wanted)).toArrow().combine_chunks().to_batches()
    parts: dict[int, bytes] = {}
    for batch in rows:
        keys = [column_of(storage_array(batch, n, t)) for n, t in zip(query.keys, query.key_types, strict=True)]
        _require_loads(query, batch)
        numbers = parts_of(KeyLayout(query.key_types), keys, batch.num_rows, buckets)
        for parcel in scatter(batch, numbers, bucket_keys(buckets), 0):
            parts[parcel.bucket] = write_stream(parcel.rows).to_pybytes()
    return parts
