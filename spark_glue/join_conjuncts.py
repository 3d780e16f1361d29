"""A condition as the conditions that must all hold, found as Spark's optimiser finds them."""

from __future__ import annotations

from sqlglot import exp

_OPPOSITES = {
    exp.EQ: exp.NEQ, exp.LT: exp.GTE, exp.LTE: exp.GT, exp.NullSafeEQ: exp.NullSafeNEQ,
    exp.NEQ: exp.EQ, exp.GTE: exp.LT, exp.GT: exp.LTE, exp.NullSafeNEQ: exp.NullSafeEQ,
}  # fmt: skip


def conjuncts(node: exp.Expr) -> list[exp.Expr]:
    """Split a condition at its ANDs, also those behind BETWEEN, NOT and what all sides of an OR share.

    Examples
    --------
    >>> from .join_sql import parse, quote
    >>> [quote(part) for part in conjuncts(parse("a = b AND NOT (c < d OR e BETWEEN f AND g)"))]
    ['a = b', 'c >= d', 'NOT e BETWEEN f AND g']
    >>> [quote(part) for part in conjuncts(parse("(a = b AND c > 1) OR (a = b AND d BETWEEN 2 AND 3)"))]
    ['a = b', 'c > 1 OR (d >= 2 AND d <= 3)']
    """
    return list(dict.fromkeys(_split(node)))


def _split(node: exp.Expr) -> list[exp.Expr]:
    node = node.unnest()
    if isinstance(node, exp.And):
        return _split(node.this) + _split(node.expression)
    if isinstance(node, exp.Between):
        return [
            exp.GTE(this=node.this, expression=node.args["low"]),
            exp.LTE(this=node.this, expression=node.args["high"]),
        ]
    if isinstance(node, exp.Or):
        return _shared(node)
    if isinstance(node, exp.Not):
        return _negated(node)
    return [node]


def _negated(node: exp.Expr) -> list[exp.Expr]:
    inner = node.this.unnest()
    if isinstance(inner, exp.Not):
        return _split(inner.this)
    if isinstance(inner, exp.Or):
        return _negated(exp.Not(this=inner.this)) + _negated(exp.Not(this=inner.expression))
    if type(inner) in _OPPOSITES:
        # True of NaN and null as well: NaN has its place in Spark's order, and null stays null.
        return [_OPPOSITES[type(inner)](this=inner.this, expression=inner.expression)]
    return [node]


def _shared(node: exp.Expr) -> list[exp.Expr]:
    """``(a AND b) OR (a AND c)`` is ``a AND (b OR c)``: the equality of a join may stand in each side of an OR."""
    choices = [list(dict.fromkeys(_split(choice))) for choice in flattened(node, exp.Or)]
    shared = [part for part in choices[0] if all(part in choice for choice in choices[1:])]
    if not shared:
        return [node]
    rest = [[part for part in choice if part not in shared] for choice in choices]
    return shared if not all(rest) else [*shared, exp.or_(*(exp.and_(*parts) for parts in rest))]


def flattened(node: exp.Expr, kind: type[exp.Expr]) -> list[exp.Expr]:
    """Give the operands of a chain of ANDs, or of ORs.

    Examples
    --------
    >>> from .join_sql import parse, quote
    >>> [quote(part) for part in flattened(parse("a OR (b OR c AND d)"), exp.Or)]
    ['a', 'b', 'c AND d']
    """
    node = node.unnest()
    if not isinstance(node, kind):
        return [node]
    return flattened(node.this, kind) + flattened(node.expression, kind)
