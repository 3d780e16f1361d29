"""Columns that Spark computes on a side before its rows reach the kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from ..kernels.columns import plain_type
from ..kernels.errors import InvalidArgument
from ..kernels.time_bounds import SIDES
from .join_sides import SideInfo, path_of
from .join_sql import COMPARISONS, quote, sides_of, spark_text
from .spark_types import cast_target, sql_name

PREFIX = "__millrace_"
_BOOLEAN = (*COMPARISONS, exp.And, exp.Or, exp.Not, exp.Is, exp.In, exp.Between, exp.Like, exp.ILike, exp.RegexpLike,
            exp.Boolean)  # fmt: skip


@dataclass(frozen=True)
class Computed:
    """One extra column: its type, and whether rows that fail the side's filter must not compute it."""

    name: str
    type: pa.DataType
    guarded: bool


class SideColumns:
    """The columns of one side, its own and the extra ones.

    Examples
    --------
    >>> from .join_sql import parse
    >>> columns = SideColumns("left", SideInfo(pa.schema({"a": pa.string()})), fresh_names([]))
    >>> columns.named(parse("left.a"), pa.string()), columns.named(parse("lower(left.a)"), pa.string())
    ('a', '__millrace_0')
    >>> columns.computed(guard="`a` <> ''")
    [('__millrace_0', "CASE WHEN `a` <> '' THEN lower(`a`) END")]
    """

    def __init__(self, side: str, info: SideInfo, names: Iterator[str]) -> None:
        self.side = side
        self.info = info
        self._names = names
        self._extra: dict[str, Computed] = {}

    def named(self, node: exp.Expr, data_type: pa.DataType, guards: Sequence[str] = ()) -> str:
        """Give the name of the column that holds a part of the condition, making it if need be.

        Parameters
        ----------
        guards
            SQL that must hold for the part to be computed at all; it is null elsewhere.
        """
        path = path_of(node.unnest())
        if path is not None and not path[2]:
            return path[1]
        text = spark_text(node)
        if guards and path is None:
            text = f"CASE WHEN {' AND '.join(guards)} THEN {text} END"
        # Only taking fields out of structs is sure never to fail.
        return self._add(text, data_type, guarded=path is None)

    def named_filter(self, conjuncts: Sequence[exp.Expr]) -> str | None:
        """Give the name of the column that tells whether a row passes all conditions on its side alone."""
        if not conjuncts:
            return None
        path = path_of(conjuncts[0].unnest())
        if len(conjuncts) == 1 and path is not None and not path[2]:
            return path[1]
        text = " AND ".join(f"({spark_text(node)})" for node in conjuncts)
        return self._add(text, pa.bool_(), guarded=False)

    def _add(self, text: str, data_type: pa.DataType, guarded: bool) -> str:
        if text not in self._extra:
            self._extra[text] = Computed(next(self._names), data_type, guarded)
        return self._extra[text].name

    def type_of(self, node: exp.Expr, zone: str) -> pa.DataType:
        """Give the type of a part of the condition: from the schema, from Spark, or from its own form."""
        node = node.unnest()
        found = self._schema_type(node)
        if found is None and self.info.type_of is not None:
            found = self.info.type_of(spark_text(node))
        if found is None and isinstance(node, exp.Cast | exp.TryCast):
            found = cast_target(node.args["to"], zone)
        if found is None and isinstance(node, _BOOLEAN):
            found = pa.bool_()
        if found is None:
            raise InvalidArgument(
                f"{self.side}: the type of {quote(node)} is not known, accepted are an input with type_of, or a cast"
            )
        return found

    def _schema_type(self, node: exp.Expr) -> pa.DataType | None:
        path = path_of(node)
        if path is None:
            return None
        found = plain_type(self.info.schema.field(path[1]).type)
        for field in path[2]:
            if not pt.is_struct(found):
                return None
            found = found.field(field).type
        return found

    def computed(self, guard: str | None) -> list[tuple[str, str]]:
        """Give the extra columns as names and Spark SQL.

        Parameters
        ----------
        guard
            the side's filter. Where it fails a row matches nothing, and Spark would not look at the rest of
            the condition; so nothing that could fail (a cast, a division) is computed there.
        """
        return [
            (one.name, f"CASE WHEN {guard} THEN {text} END" if guard and one.guarded else text)
            for text, one in self._extra.items()
        ]

    def text_of(self, name: str) -> str:
        """Give the SQL of a column, extra or not."""
        return next((text for text, one in self._extra.items() if one.name == name), f"`{name.replace('`', '``')}`")

    @property
    def schema(self) -> pa.Schema:
        """The side's own columns, then the extra ones."""
        return pa.schema([*self.info.schema, *(pa.field(one.name, one.type) for one in self._extra.values())])


class Columns:
    """The columns of both sides.

    Examples
    --------
    >>> from .join_sql import parse
    >>> info = SideInfo(pa.schema({"a": pa.string()}))
    >>> Columns({"left": info, "right": info}).type_of(parse("right.a"))
    DataType(string)
    """

    def __init__(self, sides: Mapping[str, SideInfo], zone: str = "UTC") -> None:
        names = fresh_names([name for side in SIDES for name in sides[side].schema.names])
        self.sides = {side: SideColumns(side, sides[side], names) for side in SIDES}
        self.zone = zone

    def side_of(self, node: exp.Expr) -> SideColumns:
        """Give the side that computes a part; constants are the left's."""
        return self.sides["right" if sides_of(node) == {"right"} else "left"]

    def type_of(self, node: exp.Expr) -> pa.DataType:
        """Give the type of a part of the condition that looks at one side."""
        return self.side_of(node).type_of(node, self.zone)


def cast_node(node: exp.Expr, data_type: pa.DataType) -> exp.Expr:
    """Wrap a part in a cast.

    Examples
    --------
    >>> from .join_sql import parse
    >>> spark_text(cast_node(parse("left.a"), pa.int64()))
    'CAST(`a` AS BIGINT)'
    """
    return exp.Cast(this=node.copy(), to=exp.DataType.build(sql_name(data_type), dialect="spark"))


def fresh_names(taken: Sequence[str]) -> Iterator[str]:
    """Count names for extra columns, leaving out those that are taken, in any case.

    Examples
    --------
    >>> names = fresh_names(["__MILLRACE_0"])
    >>> next(names), next(names)
    ('__millrace_1', '__millrace_2')
    """
    lower = {name.lower() for name in taken}
    return (name for i in count() if (name := f"{PREFIX}{i}") not in lower)
