"""`join`: the stream-stream join of two frames."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ..kernels.errors import InvalidArgument
from ..kernels.join_query import Join
from ..kernels.time_bounds import SIDES
from .aggregate import quoted
from .arrow_schema import arrow_schema, arrow_type, require_binary_text
from .join_condition import JoinPlan, analyse, join_type
from .join_needs import needed_columns
from .join_operator import JoinOperator
from .join_sides import SideInfo
from .options import Options, session_setting
from .pipeline import Settings, are_plain_names, numbered_names, run_bounded, run_streaming
from .static_join import join_static
from .watermarks import event_time_of, with_watermark

Watermarks = tuple[tuple[str, str] | None, tuple[str, str] | None]


def join(
    left: DataFrame,
    right: DataFrame,
    on: str | Sequence[str],
    how: str = "inner",
    *,
    watermarks: Watermarks | None = None,
    output_mode: str = "append",
    buckets: int | None = None,
    state_backend: str = "inline",
    state_format_version: int = 2,
    name: str = "join",
) -> DataFrame:
    """Join two frames, streaming or batch, with the results of Spark's own join.

    Parameters
    ----------
    left, right
        two streaming or batch frames. The join of a stream with a batch frame keeps no state, and is left
        to Spark.
    on
        a condition as Spark SQL text, as one would give it to `F.expr`; or names of columns that both sides
        have and that must be equal, which then come out once. ``left.`` and ``right.``, or the aliases that
        `DataFrame.alias` gave, tell columns of the same name apart.
    how
        ``"inner"``, ``"left_outer"``, ``"right_outer"``, ``"full_outer"`` or ``"left_semi"``, in any of
        Spark's spellings.
    watermarks
        column and delay for each side, or None for a side that has one or needs none.
    output_mode
        ``"append"``; ``"update"`` too for inner and left semi joins. The query must be written in the same.
    buckets, state_backend, state_format_version, name
        as for `aggregate`.

    Examples
    --------
    .. code-block:: python

        joined = mr.join(
            impressions, clicks, how="left_outer",
            on="ad_id = click_ad_id AND click_time BETWEEN ts AND ts + interval 20 seconds",
            watermarks=(("ts", "10 seconds"), ("click_time", "10 seconds")),
        )
    """
    for side, frame in zip(SIDES, (left, right), strict=True):
        if not hasattr(frame, "isStreaming"):
            raise InvalidArgument.of(side, frame, "a Spark DataFrame")
    options = Options.checked(left, buckets, state_backend, state_format_version, name)
    frames = _marked((left, right), watermarks)
    if left.isStreaming != right.isStreaming:
        return join_static(frames, on, join_type(how), output_mode, [bool(aliases_of(f)) for f in (left, right)])
    plan = _plan(on, (left, right), frames, how)
    ansi = session_setting(left, "spark.sql.ansi.enabled") == "true"
    sizes = [len(frame.columns) for frame in frames]
    kept = [*range(sizes[0])]
    if plan.how != "left_semi":
        kept += [len(plan.left_schema) + i for i in range(sizes[1])]
    fields = list(_output_fields(plan, left, right))
    final = not plan.using and are_plain_names([f.name for f in fields])
    schema = T.StructType(fields) if final else _numbered(fields)
    bound = plan.join(ansi)  # refuses what the kernel cannot do
    _require_binary_text(bound, frames)
    operator = JoinOperator(
        options.name,
        options.buckets,
        plan,
        ansi,
        options.state_format_version,
        tuple(kept),
        tuple(schema.names),
    )
    inputs = [_input(side, frame, plan, bound) for side, frame in zip(SIDES, frames, strict=True)]
    names = None if final else _named(plan, left, right)
    if not left.isStreaming:
        return _selected(run_bounded(inputs, operator, schema), names)
    _require_mode(plan, output_mode)
    _require_eviction(plan, bound)
    if plan.how != "inner" and options.state_format_version == 1:
        raise InvalidArgument.of("state_format_version", 1, f"2 for a {plan.how} join: 1 has no matched flags")
    for note in plan.notes:
        warnings.warn(f"join {name!r}: {note}", stacklevel=2)
    delays = [known[1] for known in map(event_time_of, frames) if known is not None]
    evicts = any(bound.expiry_column(side) is not None for side in SIDES)
    settings = Settings(
        state_backend=options.state_backend,
        output_mode=output_mode,
        delay_ms=max(delays, default=None),
        timeout="EventTimeTimeout" if evicts else "NoTimeout",
        late_is_current=options.late_is_current,
    )
    return _selected(run_streaming(inputs, operator, settings, schema), names)


def _marked(frames: tuple[DataFrame, DataFrame], watermarks: Watermarks | None) -> list[DataFrame]:
    if watermarks is None:
        return list(frames)
    if not isinstance(watermarks, tuple | list) or len(watermarks) != 2:
        accepted = 'one for each side, like (("ts", "10 seconds"), ("click_time", "10 seconds")), None for none'
        raise InvalidArgument.of("watermarks", watermarks, accepted)
    return [
        with_watermark(frame, f"watermarks[{i}]", watermark)
        for i, (frame, watermark) in enumerate(zip(frames, watermarks, strict=True))
    ]


def _plan(on: str | Sequence[str], named: Sequence[DataFrame], frames: Sequence[DataFrame], how: str) -> JoinPlan:
    infos = []
    for side, original, frame in zip(SIDES, named, frames, strict=True):
        known = event_time_of(frame)
        schema = arrow_schema(frame.schema, frame.columns, side)
        infos.append(SideInfo(schema, aliases_of(original), known[0] if known else None, _typist(frame)))
    zone = str(named[0].sparkSession.conf.get("spark.sql.session.timeZone"))
    return analyse(on, infos[0], infos[1], how, time_zone=zone)


def _input(side: str, frame: DataFrame, plan: JoinPlan, bound: Join) -> DataFrame:
    """Columns of one side as they travel, without the rows that can neither match nor come out.

    Spark's optimiser filters those away too, and moves the filters below the watermark: what they leave out
    does not move it. As filters of the frame they are moved there here as well.
    """
    extra = plan.left_columns if side == "left" else plan.right_columns
    rows = frame.select(*(F.col(quoted(c)) for c in frame.columns), *(F.expr(sql).alias(name) for name, sql in extra))
    if bound.is_outer(side):
        return rows
    timed = event_time_of(frame)
    for name in needed_columns(side, plan, bound):
        # A filter of the event time stays above the watermark and has Spark copy every row: encode does it.
        if timed is None or name != timed[0]:
            rows = rows.where(F.col(quoted(name)).isNotNull())
    passing = plan.left_filter if side == "left" else plan.right_filter
    return rows if passing is None else rows.where(F.col(quoted(passing)))


def _typist(frame: DataFrame) -> Callable[[str], pa.DataType]:
    """Ask Spark for the type of an expression over a frame."""

    def type_of(sql: str) -> pa.DataType:
        data_type = frame.selectExpr(f"{sql} AS x").schema["x"].dataType
        require_binary_text("on", sql, data_type)
        return arrow_type(data_type, "on", sql)

    return type_of


def aliases_of(frame: DataFrame) -> list[str]:
    """Names that `DataFrame.alias` gave, the outermost first."""
    return list(_connect_aliases(frame) if hasattr(frame, "_plan") else _classic_aliases(frame))


def _classic_aliases(frame: DataFrame) -> Iterator[str]:
    node = frame._jdf.queryExecution().analyzed()
    while node.nodeName() == "SubqueryAlias":
        yield node.alias()
        node = node.child()


def _connect_aliases(frame: DataFrame) -> Iterator[str]:
    node: Any = frame._plan
    while type(node).__name__ == "SubqueryAlias":
        yield node._alias
        node = node._child


def _require_binary_text(bound: Join, frames: Sequence[DataFrame]) -> None:
    """Refuse collated text wherever the kernel compares it; elsewhere it may travel along."""
    for side, frame in zip(SIDES, frames, strict=True):
        compared = {*bound.key_names(side), *(bound.residual.reads[side] if bound.residual else ())}
        for f in frame.schema:
            if f.name in compared:
                require_binary_text("on", f.name, f.dataType)


def _require_mode(plan: JoinPlan, output_mode: str) -> None:
    if output_mode not in ("append", "update"):
        raise InvalidArgument.of("output_mode", output_mode, "'append' or 'update'")
    if output_mode == "update" and plan.how not in ("inner", "left_semi"):
        raise InvalidArgument.of("output_mode", output_mode, f"'append' for a {plan.how} join")


def _require_eviction(plan: JoinPlan, bound: Join) -> None:
    """Spark's rule: rows of an outer side must some day be known to have found no partner."""
    if plan.how == "inner" or bound.expiry_key is not None:
        return
    needed = {"left_outer": ("right",), "left_semi": ("right",), "right_outer": ("left",), "full_outer": SIDES}[
        plan.how
    ]
    if plan.bounds and any(bound.times[side] is not None for side in needed):
        return
    raise InvalidArgument(
        f"how: got {plan.how!r}, but Stream-stream {plan.how} join between two streaming frames is not supported "
        "without a watermark in the join keys, or a watermark on the nullable side and an appropriate range condition"
    )


def _output_fields(plan: JoinPlan, left: DataFrame, right: DataFrame) -> Iterator[T.StructField]:
    """Fields that come out of the step: nullable where the join pads."""
    left_padded = plan.how in ("right_outer", "full_outer")
    right_padded = plan.how in ("left_outer", "full_outer")
    for f in left.schema:
        yield T.StructField(f.name, f.dataType, f.nullable or left_padded)
    if plan.how != "left_semi":
        for f in right.schema:
            yield T.StructField(f.name, f.dataType, f.nullable or right_padded)


def _numbered(fields: Sequence[T.StructField]) -> T.StructType:
    """The fields under names of their own, for those that both sides may have."""
    names = numbered_names(len(fields))
    return T.StructType([T.StructField(name, f.dataType, f.nullable) for name, f in zip(names, fields, strict=True)])


def _selected(joined: DataFrame, columns: Sequence[Column] | None) -> DataFrame:
    """The columns that come out; None where they have come out of the step so."""
    return joined if columns is None else joined.select(*columns)


def _named(plan: JoinPlan, left: DataFrame, right: DataFrame) -> list[Column]:
    """The output columns under their own names; columns of ``on=[…]`` first and once, as in Spark."""
    names = numbered_names(len(left.columns) + len(right.columns))
    lefts = dict(zip(left.columns, names, strict=False))
    rights = dict(zip(right.columns, names[len(left.columns) :], strict=False))
    if not plan.using:
        pairs = [*lefts.items(), *(() if plan.how == "left_semi" else rights.items())]
        return [F.col(column).alias(name) for name, column in pairs]
    shared = []
    for a, b in plan.using:
        if plan.how == "full_outer":
            shared.append(F.coalesce(F.col(lefts.pop(a)), F.col(rights.pop(b))).alias(a))
        else:
            mine, theirs = lefts.pop(a), rights.pop(b)
            shared.append(F.col(theirs).alias(b) if plan.how == "right_outer" else F.col(mine).alias(a))
    rest = [*lefts.items(), *(() if plan.how == "left_semi" else rights.items())]
    return [*shared, *(F.col(column).alias(name) for name, column in rest)]
