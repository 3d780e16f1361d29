"""The part of a condition that looks at both sides, as an expression that the kernel evaluates.

What looks at one side only and is more than the kernel can do becomes a column that Spark computes; what looks
at both and is more than the kernel can do is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from ..kernels.errors import InvalidArgument, UnsupportedType
from ..kernels.expression_types import is_number, is_text, result_type
from ..kernels.expressions import Expression, Literal, call, column, literal
from .join_columns import Columns, cast_node
from .join_conjuncts import flattened
from .join_literals import literal_of
from .join_operands import alike_enough, keeps_days, kernel_casts
from .join_sql import quote, sides_of, spark_text
from .spark_types import cast_target, common_type

_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.NullSafeEQ: "<=>",
}  # fmt: skip
_ARITHMETIC: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}


class Beyond(Exception):
    """The kernel cannot evaluate this part."""


@dataclass(frozen=True)
class Term:
    """A part of a condition as the kernel has it, with its type and what it came from."""

    expression: Expression
    type: pa.DataType
    node: exp.Expr


class Residual:
    """Turns parts of a condition into kernel expressions over the columns of both sides.

    Examples
    --------
    >>> from .join_sides import SideInfo
    >>> from .join_sql import parse
    >>> info = SideInfo(pa.schema({"a": pa.int32(), "s": pa.string()}))
    >>> columns = Columns({"left": info, "right": info})
    >>> print(Residual(columns).condition(parse("left.a + 1 < right.a AND CAST(left.s AS INT) < right.a")))
    (((left.a + 1) < right.a) and (left.__millrace_0 < right.a))
    """

    def __init__(self, columns: Columns, utc: bool = False) -> None:
        self._columns = columns
        self._utc = utc
        self._guards: dict[str, list[str]] = {"left": [], "right": []}
        # Inside a part that looks at one side, the kernel does all or nothing.
        self._whole = False
        self._handlers: dict[type[exp.Expr], Callable[[Any], Term]] = {
            exp.And: self._and, exp.Or: self._or, exp.Not: self._not, exp.Is: self._is, exp.In: self._in,
            exp.Between: self._between, exp.NullSafeNEQ: self._differ, exp.Neg: self._negate,
            exp.Anonymous: self._function, exp.Cast: self._user_cast, exp.TryCast: self._user_cast,
        }  # fmt: skip

    def condition(self, node: exp.Expr) -> Expression:
        """Translate a condition."""
        term = self._part(node)
        if not pt.is_boolean(term.type) and not pt.is_null(term.type):
            raise UnsupportedType(f"on: {quote(node)} is {term.type}, accepted is a condition, which is true or false")
        return term.expression

    def _part(self, node: exp.Expr) -> Term:
        node = node.unnest()
        if self._whole:
            return self._translated(node)
        if len(sides_of(node)) == 2:
            try:
                return self._translated(node)
            except Beyond as beyond:
                raise InvalidArgument(
                    f"on: {quote(node)} looks at both inputs{beyond}, accepted there are comparisons, + - * / %, abs, "
                    "AND, OR, NOT, IN, BETWEEN, IS NULL and casts among numbers; with one input at a time, anything is"
                ) from beyond
        self._whole = True
        try:
            return self._translated(node)
        except Beyond:
            return self._by_spark(node)
        finally:
            self._whole = False

    def _by_spark(self, node: exp.Expr) -> Term:
        data_type = self._columns.type_of(node)
        side = self._columns.side_of(node)
        name = side.named(node, data_type, self._guards[side.side])
        return Term(column(side.side, name), data_type, node)

    def _translated(self, node: exp.Expr) -> Term:
        if not sides_of(node) and (constant := literal_of(node)) is not None:
            return Term(constant, constant.type or pa.null(), node)
        if isinstance(node, exp.Column):
            data_type = self._columns.type_of(node)
            return Term(column(node.table, node.name), data_type, node)
        if type(node) in _COMPARISONS:
            operands = self._alike(node, [self._part(node.this), self._part(node.expression)])
            return _true_or_false(node, _COMPARISONS[type(node)], operands)
        if type(node) in _ARITHMETIC:
            return self._arithmetic(node, _ARITHMETIC[type(node)], self._part(node.this), self._part(node.expression))
        if type(node) not in self._handlers:
            raise Beyond
        return self._handlers[type(node)](node)

    # --- logic ---

    def _and(self, node: exp.Expr) -> Term:
        return self._logic(node, exp.And, "and", "IS NOT FALSE")

    def _or(self, node: exp.Expr) -> Term:
        return self._logic(node, exp.Or, "or", "IS NOT TRUE")

    def _logic(self, node: exp.Expr, kind: type[exp.Expr], operator: str, still_open: str) -> Term:
        """Spark does not evaluate what the operands before settle, which may be there to guard it."""
        terms = []
        before = {side: len(guards) for side, guards in self._guards.items()}
        try:
            for operand in flattened(node, kind):
                terms.append(Term(self.condition(operand), pa.bool_(), operand))
                if len(sides := sides_of(operand)) == 1:
                    self._guards[sides.pop()].append(f"({spark_text(operand)}) {still_open}")
        finally:
            for side, length in before.items():
                del self._guards[side][length:]
        return _true_or_false(node, operator, terms)

    def _not(self, node: exp.Expr) -> Term:
        return _true_or_false(node, "not", [Term(self.condition(node.this), pa.bool_(), node.this)])

    def _differ(self, node: exp.Expr) -> Term:
        return self._not(exp.Not(this=exp.NullSafeEQ(this=node.this, expression=node.expression)))

    def _is(self, node: exp.Expr) -> Term:
        if isinstance(node.expression, exp.Null):
            return _true_or_false(node, "is null", [self._part(node.this)])
        if isinstance(node.expression, exp.Boolean):
            value = Term(self.condition(node.this), pa.bool_(), node.this)
            return _true_or_false(node, "<=>", [value, self._part(node.expression)])
        raise Beyond

    def _between(self, node: exp.Expr) -> Term:
        # Each end may need another type, as in Spark, where it is two comparisons.
        ends = [
            exp.GTE(this=node.this, expression=node.args["low"]),
            exp.LTE(this=node.this, expression=node.args["high"]),
        ]
        return _true_or_false(node, "and", [self._part(end) for end in ends])

    def _in(self, node: exp.Expr) -> Term:
        if not node.expressions:
            raise Beyond
        return _true_or_false(node, "in", self._alike(node, [self._part(n) for n in (node.this, *node.expressions)]))

    # --- values ---

    def _arithmetic(self, node: exp.Expr, operator: str, *operands: Term) -> Term:
        terms = self._operands(operator, operands)
        types = [term.type for term in terms]
        result = call(operator, *(term.expression for term in terms))
        if not keeps_days(types, [term.expression for term in terms], self._utc):
            raise Beyond(" and adds days, whose length depends on the time zone,")
        try:
            data_type = result_type(result, types)[1]
        except UnsupportedType:
            raise Beyond from None
        if operator != "/" and all(pt.is_float32(t) for t in types):
            # Spark adds floats as floats; so does rounding the sum of doubles.
            return Term(call("cast", result, type=pa.float32()), pa.float32(), node)
        return Term(result, data_type, node)

    def _operands(self, operator: str, terms: Sequence[Term]) -> list[Term]:
        types = [term.type for term in terms]
        if operator == "-" and all(map(_is_time, types)) and not all(map(pt.is_date32, types)):
            return self._subtracted_times(terms)
        if any(map(pt.is_date32, types)) and not all(map(pt.is_date32, types)):
            # What a date and something else give is a date or a timestamp in the session's zone.
            raise Beyond
        if sum(map(is_text, types)) == 1 and any(map(is_number, types)):
            common = common_type(*types)
            assert common is not None
            return [self._cast(term, common) if is_text(term.type) else term for term in terms]
        if any(map(pt.is_floating, types)) and any(map(pt.is_decimal, types)):
            return [self._cast(term, pa.float64()) for term in terms]
        return list(terms)

    def _subtracted_times(self, terms: Sequence[Term]) -> list[Term]:
        zones = [term.type.tz for term in terms if pt.is_timestamp(term.type) and term.type.tz is not None]
        common = pa.timestamp("us", zones[0] if zones else None)
        if not zones or self._utc:
            return [self._cast(term, common) for term in terms]
        # Spark subtracts what clocks in the session's zone show.
        clocks = [t if t.type.equals(common) else Term(t.expression, t.type, cast_node(t.node, common)) for t in terms]
        return [self._cast(term, pa.timestamp("us"), always=True) for term in clocks]

    def _negate(self, node: exp.Expr) -> Term:
        return self._arithmetic(node, "negate", self._part(node.this))

    def _function(self, node: exp.Expr) -> Term:
        if node.name.lower() != "abs" or len(node.expressions) != 1:
            raise Beyond
        return self._arithmetic(node, "abs", self._part(node.expressions[0]))

    def _user_cast(self, node: exp.Expr) -> Term:
        target = cast_target(node.args["to"], self._columns.zone)
        term = self._part(node.this)
        if target is None or not kernel_casts(term.type, target, safe=bool(node.args.get("safe"))):
            raise Beyond
        return Term(call("cast", term.expression, type=target), target, node)

    # --- types that meet ---

    def _alike(self, node: exp.Expr, terms: Sequence[Term]) -> list[Term]:
        """Cast what is compared to one type, where the kernel would not compare it just as Spark does."""
        types = [term.type for term in terms]
        if alike_enough(types):
            return list(terms)
        common = reduce(lambda a, b: None if a is None else common_type(a, b), types[1:], types[0])
        if common is None or pt.is_nested(common):
            if self._whole:
                raise Beyond
            given = ", ".join(map(str, types))
            raise UnsupportedType(
                f"on: {quote(node)} compares {given}, accepted are plain types that Spark casts to one another"
            )
        return [self._cast(term, common) for term in terms]

    def _cast(self, term: Term, target: pa.DataType, always: bool = False) -> Term:
        if (term.type.equals(target) and not always) or pt.is_null(term.type):
            return term
        expression = term.expression
        if isinstance(expression, Literal) and is_number(term.type) and pt.is_floating(target):
            return Term(literal(float(str(expression.value)), target), target, term.node)
        if kernel_casts(term.type, target, safe=True) and not always:
            return Term(call("cast", expression, type=target), target, term.node)
        if self._whole:
            raise Beyond
        if len(sides_of(term.node)) == 2:
            raise Beyond(f" and is {term.type}, which would have to be cast to {target}")
        cast = cast_node(term.node, target)
        side = self._columns.side_of(cast)
        return Term(column(side.side, side.named(cast, target, self._guards[side.side])), target, cast)


def _is_time(data_type: pa.DataType) -> bool:
    return pt.is_timestamp(data_type) or pt.is_date32(data_type)


def _true_or_false(node: exp.Expr, operator: str, terms: Sequence[Term]) -> Term:
    return Term(call(operator, *(term.expression for term in terms)), pa.bool_(), node)
