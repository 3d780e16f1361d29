"""Join conditions as text: read into sqlglot's tree, checked, and written again for Spark to run.

Spark itself runs parts of a condition, so what is written must mean what was read. Functions are therefore
kept by the name the user gave them, instead of being translated into sqlglot's own and back.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.parsers.spark import SparkParser

from ..kernels.errors import InvalidArgument
from .spark_functions import refusal

# Functions whose arguments are not a plain list, such as CAST(x AS t), need their own parsers.
_SYNTAX = ("CAST", "TRY_CAST", "EXTRACT", "TRIM", "SUBSTRING", "SUBSTR", "POSITION", "OVERLAY")
_UNIT_FIRST = ("dateadd", "date_add", "timestampadd", "datediff", "date_diff", "timestampdiff")
_PREDICATES = (exp.Is, exp.In, exp.Between, exp.Like, exp.ILike, exp.RegexpLike, exp.Escape)
COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)


class _Parser(SparkParser):
    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    # ARRAY[…] is no constructor in Spark; taken for one, array(a, b)[0] would lose a and b.
    ARRAY_CONSTRUCTORS: ClassVar[dict[str, Any]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {k: v for k, v in SparkParser.FUNCTION_PARSERS.items() if k in _SYNTAX}
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        k: v for k, v in SparkParser.NO_PAREN_FUNCTION_PARSERS.items() if k in ("CASE", "ANY")
    }


class Verbatim(Spark):
    """Spark's dialect of sqlglot, which leaves functions as they are written."""

    Parser = _Parser


def parse(text: str) -> exp.Expr:
    """Read a condition, refusing what no join condition can have.

    Examples
    --------
    >>> quote(parse("a = lower(b) AND t < u + interval 1 minute 30 seconds"))
    "a = lower(b) AND t < u + (INTERVAL '1' MINUTE + INTERVAL '30' SECONDS)"
    >>> parse("a = max(b)")
    Traceback (most recent call last):
    ...
    millrace.kernels.errors.InvalidArgument: on: max(b) is an aggregate function, accepted are functions of one row
    """
    try:
        tree = sqlglot.parse_one(text, read=Verbatim)
    except SqlglotError as error:
        raise InvalidArgument(f"on: {text!r} cannot be read as Spark SQL: {_reason(error)}") from error
    if not isinstance(tree, exp.Condition) or isinstance(tree, exp.Query | exp.Star):
        raise InvalidArgument.of("on", text, "one condition of Spark SQL, such as 'a = b AND t <= u'")
    tree = _mended(tree)
    for node in tree.walk():
        _check(node)
    return tree


def _reason(error: SqlglotError) -> str:
    if isinstance(error, ParseError) and error.errors:
        first = error.errors[0]
        near = f" near {first['highlight']!r}" if first.get("highlight") else ""
        return f"{first['description'].rstrip('.')}{near}"
    return str(error)


def _mended(tree: exp.Expr) -> exp.Expr:
    """Put right what the tree would be written wrongly, or read as a column, for."""
    root = exp.Paren(this=tree)
    for node in list(root.find_all(exp.Add)):
        # "INTERVAL 1 MINUTE 30 SECONDS" is read as a sum, which needs parentheses after a minus.
        if (
            _is_sum_of_intervals(node)
            and not isinstance(node.parent, exp.Paren)
            and not _is_sum_of_intervals(node.parent)
        ):
            node.replace(exp.Paren(this=node.copy()))
    for call in root.find_all(exp.Anonymous):
        # DATEADD(SECOND, 5, t): the unit is a word, not a column.
        if call.name.lower() in _UNIT_FIRST and len(call.expressions) == 3:
            unit = call.expressions[0]
            if isinstance(unit, exp.Column) and not unit.table:
                unit.replace(exp.Var(this=unit.name))
    return root.this


def _is_sum_of_intervals(node: exp.Expr | None) -> bool:
    return (
        isinstance(node, exp.Add)
        and isinstance(node.this, exp.Interval)
        and (isinstance(node.expression, exp.Interval) or _is_sum_of_intervals(node.expression))
    )


def _check(node: exp.Expr) -> None:
    kind = None
    if isinstance(node, exp.Query | exp.Exists):
        raise InvalidArgument(f"on: {quote(node)} is a subquery, accepted are conditions on the two inputs")
    if isinstance(node, exp.Placeholder | exp.Parameter):
        raise InvalidArgument(f"on: {quote(node)} is a parameter, accepted are columns and constants")
    if isinstance(node, exp.Star):
        raise InvalidArgument(f"on: {quote(node.parent or node)} has a star, accepted are columns by name")
    if isinstance(node, exp.Window):
        kind = "a window function"
    elif isinstance(node, exp.Filter) or (
        isinstance(node, exp.Any) and not isinstance(node.parent, exp.Like | exp.ILike)
    ):
        kind = "an aggregate function"
    elif isinstance(node, exp.CurrentTimestamp | exp.CurrentDate | exp.CurrentDatetime | exp.CurrentTime):
        kind = "a non-deterministic function"
    elif isinstance(node, exp.Anonymous):
        kind = refusal(node.name, len(node.expressions))
    if kind is not None:
        raise InvalidArgument(f"on: {quote(node)} is {kind}, accepted are functions of one row")
    if isinstance(node, COMPARISONS) and isinstance(node.expression, (*COMPARISONS, *_PREDICATES, exp.Not)):
        # Spark and sqlglot disagree about "a = b IS NULL" and "a = b < c".
        raise InvalidArgument(f"on: {quote(node)} can be read in two ways, accepted is one with parentheses")


def quote(node: exp.Expr) -> str:
    """Write a part of a condition for a message.

    Examples
    --------
    >>> quote(parse("left . K=Lower( `odd name` )"))
    'left.K = Lower(`odd name`)'
    """
    return node.sql(dialect=Verbatim, normalize_functions=False, comments=False)


def spark_text(node: exp.Expr) -> str:
    """Write a resolved part of one side for Spark to compute from that side's own columns.

    Examples
    --------
    >>> from .join_sides import reference
    >>> spark_text(exp.EQ(this=reference("left", "w", "end"), expression=reference("left", "t")))
    '(`w`).`end` = `t`'
    """
    root = exp.Paren(this=node.copy())
    for name in list(root.find_all(exp.Column)):
        plain: exp.Expr = exp.Column(this=exp.to_identifier(name.name, quoted=True))
        # A name with a dot could be taken for an alias and its column.
        name.replace(exp.Paren(this=plain) if isinstance(name.parent, exp.Dot) else plain)
    for dot in root.find_all(exp.Dot):
        if isinstance(dot.expression, exp.Identifier):
            dot.expression.set("quoted", True)
    return quote(root.this)


def identifier(name: str) -> exp.Identifier:
    """Make a name, in backquotes where it needs them to be read.

    Examples
    --------
    >>> quote(identifier("k")), quote(identifier("odd name"))
    ('k', '`odd name`')
    """
    return exp.to_identifier(name, quoted=re.fullmatch(r"[A-Za-z_]\w*", name) is None)


def columns_of(node: exp.Expr) -> set[tuple[str, str]]:
    """Give the sides and names of the columns that a resolved part looks at.

    Examples
    --------
    >>> from .join_sides import reference
    >>> columns_of(reference("left", "w", "end"))
    {('left', 'w')}
    """
    return {(found.table, found.name) for found in node.find_all(exp.Column)}


def sides_of(node: exp.Expr) -> set[str]:
    """Give the sides that a resolved part looks at.

    Examples
    --------
    >>> sides_of(parse("left.a + 1"))
    {'left'}
    """
    return {side for side, _ in columns_of(node)}
