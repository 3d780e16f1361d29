"""A join condition of Spark SQL, split into what the kernel's `Join` and Spark need.

Nothing here runs Spark or needs it installed: inputs are known by their Arrow schemas, and what Spark has to
compute is given as SQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from ..kernels.errors import InvalidArgument, UnsupportedType
from ..kernels.expressions import CompiledCondition, CompiledFilter, Expression, call, column
from ..kernels.join_query import JOIN_TYPES, Join
from ..kernels.time_bounds import SIDES, TimeBounds
from .join_columns import Columns, SideColumns
from .join_conjuncts import conjuncts
from .join_keys import Keys
from .join_operands import UTC_NAMES
from .join_ranges import understood
from .join_residual import Residual
from .join_sides import SideInfo, column_named, is_window, reference, resolved
from .join_sql import parse, quote, sides_of

# What else PySpark accepts, without its underscores.
_SYNONYMS = {
    "inner": "inner", "left": "left_outer", "leftouter": "left_outer", "right": "right_outer",
    "rightouter": "right_outer", "full": "full_outer", "outer": "full_outer", "fullouter": "full_outer",
    "semi": "left_semi", "leftsemi": "left_semi",
}  # fmt: skip


@dataclass(frozen=True)
class JoinPlan:
    """What becomes of a condition.

    Parameters
    ----------
    how
        one of the kernel's `JOIN_TYPES`.
    left_columns, right_columns
        columns that Spark adds to each side, as names and SQL over the side's own columns.
    left_schema, right_schema
        the sides' schemas with those columns at their end: what reaches the kernel.
    left_time, right_time
        the column of each side that carries its watermark, which for a window is its end.
    keys
        pairs of a left and a right column, of one type.
    null_safe
        positions of key pairs for which null equals null.
    using
        pairs of a left and a right column of ``on=[…]``, which the output has once.
    left_filter, right_filter
        boolean column of each side that tells whether a row may match at all; null counts as false.
    bounds
        what the condition says about right time − left time.
    residual
        what else must hold of a pair of rows.
    only_bounds
        whether the residual says nothing beyond bounds that are exact.
    notes
        for each range of times that limits nothing, a sentence that says so and why: the user should know.

    Examples
    --------
    >>> info = SideInfo(pa.schema({"k": pa.int64(), "v": pa.int64()}))
    >>> plan = analyse("left.k = right.k AND left.v > 1 AND left.v < right.v", info, info, "inner")
    >>> plan.keys, plan.left_columns, plan.left_filter, str(plan.residual)
    ((('k', 'k'),), (('__millrace_0', '(`v` > 1)'),), '__millrace_0', '(left.v < right.v)')
    """

    how: str
    left_columns: tuple[tuple[str, str], ...]
    right_columns: tuple[tuple[str, str], ...]
    left_schema: pa.Schema
    right_schema: pa.Schema
    left_time: str | None
    right_time: str | None
    keys: tuple[tuple[str, str], ...]
    null_safe: tuple[int, ...]
    using: tuple[tuple[str, str], ...]
    left_filter: str | None
    right_filter: str | None
    bounds: tuple[TimeBounds, ...]
    residual: Expression | None
    only_bounds: bool
    notes: tuple[str, ...]

    def join(self, ansi: bool = True) -> Join:
        """Give the kernel's join.

        Examples
        --------
        >>> info = SideInfo(pa.schema({"k": pa.int64()}))
        >>> analyse("left.k = right.k", info, info, "inner").join().keys
        (('k', 'k'),)
        """
        left, right = self.left_schema, self.right_schema
        return Join(
            left, right, self.keys, self.how, self.left_time, self.right_time, self.bounds,
            left_filter=_filter("left", self.left_filter, left),
            right_filter=_filter("right", self.right_filter, right),
            residual=None if self.residual is None else CompiledCondition(self.residual, left, right, ansi),
            null_safe=self.null_safe,
            only_bounds=self.only_bounds,
        )  # fmt: skip


def _filter(side: str, name: str | None, schema: pa.Schema) -> CompiledFilter | None:
    return None if name is None else CompiledFilter(column(side, name), side, schema)


def analyse(
    on: str | Sequence[str], left: SideInfo, right: SideInfo, how: str, *, time_zone: str | None = None
) -> JoinPlan:
    """Split a join condition into keys, filters, ranges of time and the rest.

    Parameters
    ----------
    on
        a condition of Spark SQL, or names of columns that both sides have and that must be equal.
    how
        the type of join, in any of PySpark's spellings.
    time_zone
        the session's time zone. Where days may have other lengths than twenty-four hours, or if None, Spark
        does the arithmetic that depends on it.

    Examples
    --------
    >>> times = pa.timestamp("us", "UTC")
    >>> left = SideInfo(pa.schema({"ad": pa.int32(), "ts": times}), event_time="ts")
    >>> right = SideInfo(pa.schema({"ad_id": pa.int64(), "ct": times, "page": pa.string()}), event_time="ct")
    >>> on = "ad = ad_id AND page LIKE 'a%' AND ct BETWEEN ts AND ts + interval 20 seconds"
    >>> plan = analyse(on, left, right, "left_outer")
    >>> plan.keys, plan.left_columns
    ((('__millrace_0', 'ad_id'),), (('__millrace_0', 'CAST(`ad` AS BIGINT)'),))
    >>> plan.right_columns
    (('__millrace_1', "(`page` LIKE 'a%')"),)
    >>> plan.bounds[1]
    TimeBounds(lower=None, upper=Bound(microseconds=20000000, closed=True), exact=True)
    >>> print(plan.residual)
    ((right.ct >= left.ts) and (right.ct <= (left.ts + datetime.timedelta(seconds=20))))
    """
    how = join_type(how)
    sides = {"left": left, "right": right}
    parts, using = _conjuncts(on, sides)
    columns = Columns(sides, time_zone or "UTC")
    times = {side: _time_column(columns.sides[side]) for side in SIDES}
    keys, filters, rest = _sorted_out(parts, columns)
    if not keys.pairs:
        raise InvalidArgument(f"on: got {on!r}, but a stream-stream join needs at least one equality of the two inputs")
    translate = Residual(columns, utc=(time_zone or "").lower() in UTC_NAMES)
    conditions = [translate.condition(part) for part in rest]
    bounds, notes = understood(rest, {side: sides[side].event_time for side in SIDES})
    passing = {side: columns.sides[side].named_filter(filters[side]) for side in SIDES}
    computed = {side: columns.sides[side].computed(_guard(columns.sides[side], passing[side])) for side in SIDES}
    return JoinPlan(
        how=how,
        left_columns=tuple(computed["left"]),
        right_columns=tuple(computed["right"]),
        left_schema=columns.sides["left"].schema,
        right_schema=columns.sides["right"].schema,
        left_time=times["left"],
        right_time=times["right"],
        keys=tuple(keys.pairs),
        null_safe=tuple(keys.null_safe),
        using=using,
        left_filter=passing["left"],
        right_filter=passing["right"],
        bounds=tuple(bounds),
        residual=call("and", *conditions) if len(conditions) > 1 else next(iter(conditions), None),
        only_bounds=len(bounds) == len(rest) and all(one.exact for one in bounds),
        notes=tuple(notes),
    )


def join_type(how: str) -> str:
    """Give the kernel's name of a join type that is spelt in any of PySpark's ways.

    Examples
    --------
    >>> join_type("leftsemi"), join_type("outer")
    ('left_semi', 'full_outer')
    """
    known = _SYNONYMS.get(how.lower().replace("_", "")) if isinstance(how, str) else None
    if known is None:
        raise InvalidArgument.of("how", how, ", ".join(map(repr, JOIN_TYPES)))
    return known


def _conjuncts(
    on: str | Sequence[str], sides: dict[str, SideInfo]
) -> tuple[list[exp.Expr], tuple[tuple[str, str], ...]]:
    """Read the condition; a lone name means ``USING``, as in PySpark."""
    if isinstance(on, str):
        tree = parse(on)
        alone = tree.unnest()
        if not isinstance(alone, exp.Column) or len(alone.parts) > 1:
            return conjuncts(resolved(tree, sides)), ()
        on = [alone.name]
    if not isinstance(on, Sequence) or not on or not all(isinstance(name, str) for name in on):
        raise InvalidArgument.of("on", on, "a condition as text, or a list of names of columns that both inputs have")
    if len(set(on)) < len(on):
        raise InvalidArgument.of("on", list(on), "each name once")
    using = tuple((column_named(n, "left", sides["left"]), column_named(n, "right", sides["right"])) for n in on)
    return [exp.EQ(this=reference("left", a), expression=reference("right", b)) for a, b in using], using


def _time_column(side: SideColumns) -> str | None:
    """Find, or make, the column that carries a side's watermark."""
    name = side.info.event_time
    if name is None:
        return None
    data_type = side.info.schema.field(name).type
    if not is_window(data_type):
        return name
    return side.named(reference(side.side, name, "end"), data_type.field("end").type)


def _sorted_out(parts: list[exp.Expr], columns: Columns) -> tuple[Keys, dict[str, list[exp.Expr]], list[exp.Expr]]:
    """Tell keys, conditions on one side and the rest apart."""
    keys, rest = Keys(columns), []
    filters: dict[str, list[exp.Expr]] = {side: [] for side in SIDES}
    for part in parts:
        sides = sides_of(part)
        if len(sides) == 1:
            _require_condition(part, columns)
            filters[sides.pop()].append(part)
        elif not (isinstance(part, exp.Boolean) and part.this) and not keys.take(part):
            rest.append(part)
    return keys, filters, rest


def _require_condition(part: exp.Expr, columns: Columns) -> None:
    data_type = columns.type_of(part)
    if not pt.is_boolean(data_type) and not pt.is_null(data_type):
        raise UnsupportedType(f"on: {quote(part)} is {data_type}, accepted is a condition, which is true or false")


def _guard(side: SideColumns, passing: str | None) -> str | None:
    return None if passing is None else side.text_of(passing)
