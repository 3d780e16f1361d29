"""The columns without which a row of a join can neither match nor come out."""

from __future__ import annotations

from ..kernels.expressions import COMPARISONS, Call, ColumnOf, Expression
from ..kernels.join_query import Join
from .join_condition import JoinPlan


def needed_columns(side: str, plan: JoinPlan, join: Join) -> list[str]:
    """Give the columns of a side whose nulls leave a row out: none of an outer side, whose rows all come out."""
    if join.is_outer(side):
        return []
    keys = [name for position, name in enumerate(join.key_names(side)) if position not in join.null_safe]
    return list(dict.fromkeys([*keys, *sorted(never_null(plan.residual, side))]))


def never_null(condition: Expression | None, side: str) -> set[str]:
    """Columns of a side without which a condition cannot be true.

    Examples
    --------
    >>> from millrace.kernels.expressions import call, column
    >>> a, b = column("left", "a"), column("right", "b")
    >>> never_null(call("and", call("<", a, b), call("is null", column("left", "c"))), "left")
    {'a'}
    """
    if isinstance(condition, ColumnOf):
        return {condition.name} if condition.side == side else set()
    if not isinstance(condition, Call) or condition.operator in ("or", "is null", "<=>", "in"):
        return set()
    if condition.operator == "not" and not _is_comparison(condition.arguments[0]):
        return set()
    return set().union(*(never_null(argument, side) for argument in condition.arguments))


def _is_comparison(expression: Expression) -> bool:
    return isinstance(expression, Call) and expression.operator in COMPARISONS
