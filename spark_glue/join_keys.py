"""Equalities of a condition as pairs of key columns of one type."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from ..kernels.columns import storage_type
from ..kernels.errors import UnsupportedType
from ..kernels.time_bounds import SIDES
from .join_columns import Columns, cast_node
from .join_sides import is_window, path_of
from .join_sql import identifier, quote, sides_of
from .spark_types import common_type


@dataclass
class Keys:
    """Key pairs as they are found.

    Examples
    --------
    >>> from .join_sides import SideInfo
    >>> from .join_sql import parse
    >>> left, right = SideInfo(pa.schema({"a": pa.int32()})), SideInfo(pa.schema({"b": pa.int64()}))
    >>> columns = Columns({"left": left, "right": right})
    >>> keys = Keys(columns)
    >>> keys.take(parse("right.b <=> left.a"))
    True
    >>> keys.pairs, keys.null_safe, columns.sides["left"].computed(None)
    ([('__millrace_0', 'b')], [0], [('__millrace_0', 'CAST(`a` AS BIGINT)')])
    """

    columns: Columns
    pairs: list[tuple[str, str]] = field(default_factory=list)
    null_safe: list[int] = field(default_factory=list)

    def take(self, node: exp.Expr) -> bool:
        """Make a conjunct a key if it is an equality of the two sides; tell whether it is one."""
        if not isinstance(node, exp.EQ | exp.NullSafeEQ):
            return False
        parts = {frozenset(sides_of(part)): part for part in (node.this, node.expression)}
        left, right = (parts.get(frozenset([side])) for side in SIDES)
        if left is None or right is None:
            return False
        self._equal(node, left, right, isinstance(node, exp.NullSafeEQ), *map(self.columns.type_of, (left, right)))
        return True

    def _equal(
        self, whole: exp.Expr, left: exp.Expr, right: exp.Expr, null_safe: bool,
        left_type: pa.DataType, right_type: pa.DataType,
    ) -> None:  # fmt: skip
        if pt.is_struct(left_type) and pt.is_struct(right_type):
            self._equal_structs(whole, left, right, null_safe, left_type, right_type)
            return
        common = common_type(left_type, right_type)
        if common is None or pt.is_nested(common):
            raise UnsupportedType(
                f"on: {quote(whole)} compares {left_type} with {right_type}, accepted are plain types that "
                "Spark casts to one another, and structs of them"
            )
        if pt.is_duration(common):
            # The kernels have no keys of intervals; equal ones have the same text.
            left, right, common = _interval_text(left), _interval_text(right), pa.string()
            left_type = right_type = common
        storage_type(common, "on", quote(whole))
        self._add(left, right, common, null_safe, left_type, right_type)

    def _add(
        self, left: exp.Expr, right: exp.Expr, common: pa.DataType, null_safe: bool,
        left_type: pa.DataType | None = None, right_type: pa.DataType | None = None,
    ) -> None:  # fmt: skip
        names = []
        for node, given in ((left, left_type), (right, right_type)):
            cast = node if given is None or given.equals(common) else cast_node(node, common)
            names.append(self.columns.side_of(node).named(cast, common))
        pair = (names[0], names[1])
        if pair not in self.pairs:
            self.pairs.append(pair)
            if null_safe:
                self.null_safe.append(len(self.pairs) - 1)
        elif not null_safe and self.pairs.index(pair) in self.null_safe:
            self.null_safe.remove(self.pairs.index(pair))

    def _equal_structs(
        self, whole: exp.Expr, left: exp.Expr, right: exp.Expr, null_safe: bool,
        left_type: pa.StructType, right_type: pa.StructType,
    ) -> None:  # fmt: skip
        """Structs are equal if their fields are; a null field equals a null field, but a null struct nothing."""
        fields = [[t.field(i) for i in range(t.num_fields)] for t in (left_type, right_type)]
        names, types = (
            [[get(f) for f in side] for side in fields] for get in (lambda f: f.name.lower(), lambda f: f.type)
        )
        if names[0] != names[1] and types[0] != types[1]:
            raise UnsupportedType(
                f"on: {quote(whole)} compares {left_type} with {right_type}, accepted are structs of the same fields"
            )
        # The ends of a window are null only if it is null itself.
        windows = is_window(left_type) and is_window(right_type)
        if not windows:
            present = exp.Case(ifs=[exp.If(this=_is_null(left, False), true=exp.true())])
            other = exp.Case(ifs=[exp.If(this=_is_null(right, False), true=exp.true())])
            markers = (_is_null(left), _is_null(right)) if null_safe else (present, other)
            self._add(*markers, pa.bool_(), False)
        for a, b in zip(*fields, strict=True):
            self._equal(whole, _field(left, a), _field(right, b), null_safe or not windows, a.type, b.type)


def _field(node: exp.Expr, field: pa.Field) -> exp.Expr:
    inner = node.copy() if path_of(node) is not None else exp.Paren(this=node.copy())
    return exp.Dot(this=inner, expression=identifier(field.name))


def _is_null(node: exp.Expr, null: bool = True) -> exp.Expr:
    test = exp.Is(this=node.copy(), expression=exp.Null())
    return test if null else exp.Not(this=test)


def _interval_text(node: exp.Expr) -> exp.Expr:
    span = exp.IntervalSpan(this=exp.Var(this="DAY"), expression=exp.Var(this="SECOND"))
    # Its text depends on the units of its type, so all are given the same.
    whole = exp.Cast(this=node.copy(), to=exp.DataType(this=exp.Interval(unit=span)))
    return cast_node(whole, pa.string())
