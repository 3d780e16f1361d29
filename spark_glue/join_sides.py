"""The two inputs of a join, and the columns that the names in a condition mean."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from ..kernels.errors import InvalidArgument, UnsupportedType
from ..kernels.time_bounds import SIDES
from .join_sql import identifier, quote


@dataclass(frozen=True)
class SideInfo:
    """What is known of one input.

    Parameters
    ----------
    schema
        its columns, of any types.
    aliases
        names that qualify its columns, besides ``left`` or ``right``, which always do.
    event_time
        the column that carries its watermark, a timestamp or a window (then its end does); None if none.
    type_of
        gives the type of Spark SQL over this input's columns, as Spark would tell. Without it, conditions that
        need to know the type of a function are refused.

    Examples
    --------
    >>> SideInfo(pa.schema({"k": pa.int64()}), aliases=["a"], event_time="t")
    Traceback (most recent call last):
    ...
    millrace.kernels.errors.InvalidArgument: event_time: there is no column 't'; the columns are k
    """

    schema: pa.Schema
    aliases: Collection[str] = ()
    event_time: str | None = None
    type_of: Callable[[str], pa.DataType] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.schema, pa.Schema):
            raise InvalidArgument.of("schema", self.schema, "a pyarrow.Schema")
        if isinstance(self.aliases, str):
            raise InvalidArgument.of("aliases", self.aliases, "a collection of names")
        if self.event_time is None:
            return
        if self.event_time not in self.schema.names:
            raise InvalidArgument.unknown_column("event_time", self.event_time, self.schema.names)
        given = self.schema.field(self.event_time).type
        if not pt.is_timestamp(given) and not is_window(given):
            message = f"event_time: column {self.event_time!r} is {given}, accepted are timestamp and window"
            raise UnsupportedType(message)


def is_window(data_type: pa.DataType) -> bool:
    """Tell whether a type is that of Spark's ``window()``: a struct of the timestamps start and end.

    Examples
    --------
    >>> is_window(pa.struct({"start": pa.timestamp("us"), "end": pa.timestamp("us")}))
    True
    """
    if not pt.is_struct(data_type):
        return False
    fields = [data_type.field(i) for i in range(data_type.num_fields)]
    return [f.name for f in fields] == ["start", "end"] and all(pt.is_timestamp(f.type) for f in fields)


def reference(side: str, name: str, *fields: str) -> exp.Expr:
    """Make the resolved form of a name: a column qualified by its side, then fields of structs.

    Examples
    --------
    >>> quote(reference("left", "w", "end"))
    'left.w.end'
    """
    node: exp.Expr = exp.Column(this=identifier(name), table=exp.to_identifier(side))
    for field in fields:
        node = exp.Dot(this=node, expression=identifier(field))
    return node


def path_of(node: exp.Expr) -> tuple[str, str, list[str]] | None:
    """Take a resolved column, or field of one, apart again; None for anything else.

    Examples
    --------
    >>> path_of(reference("left", "w", "end"))
    ('left', 'w', ['end'])
    """
    fields: list[str] = []
    while isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
        fields.insert(0, node.expression.name)
        node = node.this.unnest()
    return (node.table, node.name, fields) if isinstance(node, exp.Column) else None


def resolved(tree: exp.Expr, sides: Mapping[str, SideInfo]) -> exp.Expr:
    """Find out for every name in a condition which side's column it means, as Spark would.

    Examples
    --------
    >>> from .join_sql import parse
    >>> sides = {side: SideInfo(pa.schema({"k": pa.int64(), name: pa.int64()})) for side, name in
    ...          (("left", "a"), ("right", "b"))}
    >>> quote(resolved(parse("LEFT.K = right.k AND a < B"), sides))
    'left.k = right.k AND left.a < right.b'
    >>> resolved(parse("k = b"), sides)
    Traceback (most recent call last):
    ...
    millrace.kernels.errors.InvalidArgument: on: column 'k' is in both inputs, accepted are left.k and right.k
    """
    root = exp.Paren(this=tree)
    for column in list(root.find_all(exp.Column)):
        node: exp.Expr = column
        names = [part.name for part in column.parts]
        while isinstance(node.parent, exp.Dot) and isinstance(node.parent.expression, exp.Identifier):
            if node.parent.this is not node:
                break
            node = node.parent
            names.append(node.expression.name)
        node.replace(_meaning(names, quote(node), sides))
    return root.this


def column_named(name: str, side: str, info: SideInfo) -> str:
    """Find a side's column by its name alone, whatever its case, for ``on=[…]``.

    Examples
    --------
    >>> column_named("ID", "left", SideInfo(pa.schema({"id": pa.int64()})))
    'id'
    """
    found = _named(name, info)
    if not found:
        raise InvalidArgument.unknown_column(f"on ({side})", name, info.schema.names)
    return _only(found, side)


def _meaning(names: list[str], text: str, sides: Mapping[str, SideInfo]) -> exp.Expr:
    """Qualified names come first, then names of columns and fields; the same order as in Spark."""
    qualified = [s for s in SIDES if len(names) > 1 and names[0].lower() in {s, *map(str.lower, sides[s].aliases)}]
    found = [(side, match, names[2:]) for side in qualified if (match := _named(names[1], sides[side]))]
    if not found:
        found = [(side, match, names[1:]) for side in SIDES if (match := _named(names[0], sides[side]))]
    if not found:
        _unknown(names, qualified, sides)
    if len(found) > 1:
        field = ".".join([quote(identifier(found[0][1][0])), *(quote(identifier(name)) for name in found[0][2])])
        message = f"on: column {text!r} is in both inputs, accepted are left.{field} and right.{field}"
        raise InvalidArgument(message)
    side, matches, fields = found[0]
    return _with_fields(side, _only(matches, side), fields, sides[side].schema)


def _unknown(names: list[str], qualified: list[str], sides: Mapping[str, SideInfo]) -> None:
    if len(qualified) == 1:
        raise InvalidArgument.unknown_column(f"on ({qualified[0]})", names[1], sides[qualified[0]].schema.names)
    known = [f"{side}.{name}" for side in SIDES for name in sides[side].schema.names]
    plain = [name for side in SIDES for name in sides[side].schema.names]
    raise InvalidArgument.unknown_column("on", ".".join(names), known if len(names) > 1 else plain)


def _named(name: str, info: SideInfo) -> list[str]:
    return [known for known in info.schema.names if known.lower() == name.lower()]


def _only(names: list[str], side: str) -> str:
    if len(names) > 1:
        listed = " and ".join(map(repr, names))
        raise InvalidArgument(f"on: the {side} input has {listed}, accepted are names that differ in more than case")
    return names[0]


def _with_fields(side: str, name: str, fields: list[str], schema: pa.Schema) -> exp.Expr:
    """Follow field names into structs; what is inside maps and arrays is Spark's to find."""
    exact: list[str] = []
    data_type = schema.field(name).type
    for position, field in enumerate(fields):
        where = ".".join([side, name, *exact])
        if not pt.is_struct(data_type):
            if not pt.is_nested(data_type):
                raise InvalidArgument(f"on: {where} is {data_type}, which has no field {field!r}")
            return reference(side, name, *exact, *fields[position:])
        known = [data_type.field(i).name for i in range(data_type.num_fields)]
        found = [other for other in known if other.lower() == field.lower()]
        if not found:
            raise InvalidArgument.unknown_column(f"on ({where})", field, known)
        exact.append(_only(found, f"{where} of the {side}"))
        data_type = data_type.field(exact[-1]).type
    return reference(side, name, *exact)
