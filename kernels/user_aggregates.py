"""Aggregate functions that users define: four small functions over a record, compiled into loops over rows.

The record's fields become accumulator fields like those of built-in functions, so partial aggregation,
merging, eviction and storage need to know nothing about them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import ModuleType

import pyarrow as pa
from numba import types as numba_types

from .aggregates import BoundAggregate, Input
from .captured import CapturedFunction, capture
from .column_views import seen_type
from .columns import storage_type
from .ddl import parse_schema, parse_type
from .emitting import marks_words
from .errors import InvalidArgument, UnsupportedType
from .functions import Aggregate
from .kinds import TEXT_KINDS, Slot, kind_of, slots_of
from .records import Field, Selection
from .user_loops import (
    FINISH,
    MERGE,
    UserFunction,
    UserMerge,
    UserUpdate,
    finish_with,
    initial_words,
    update_loop,
)

REQUIRED = ("update", "merge", "finish")
ARGUMENTS = {"init": 1, "merge": 2, "finish": 1}
HINT = "cast it before"


def aggregator(state: str | pa.Schema, returns: str | pa.DataType, nulls: bool = False) -> Callable[[type], Aggregator]:
    """Turn a class of four functions into an aggregate function.

    - ``init(state)``, which may be left out, begins a group; every field is zero before.
    - ``update(state, value, …)`` takes in a row, with one argument for each input column.
    - ``merge(state, other)`` takes in another state. Merging into a state that has only begun must give
      the other state.
    - ``finish(state)`` gives the result, or None for null.

    Parameters
    ----------
    state
        fields: numbers, booleans, times, and fixed-size arrays of them; a schema, or text like
        ``"total double, seen array<long, 8>"``.
    returns
        type of the result, likewise.
    nulls
        whether `update` is called for rows where an input is null, with None for it.

    Examples
    --------
    >>> from millrace.kernels import Aggregation, aggregate
    >>> @aggregator(state="total double, weight double", returns="double")
    ... class weighted_mean:
    ...     def update(state, value, weight):
    ...         state.total += value * weight
    ...         state.weight += weight
    ...     def merge(state, other):
    ...         state.total += other.total
    ...         state.weight += other.weight
    ...     def finish(state):
    ...         return state.total / state.weight if state.weight != 0 else None
    >>> batch = pa.record_batch({"k": [1, 1], "v": [1.0, 4.0], "w": [2, 1]})
    >>> aggregate(Aggregation(batch.schema, ["k"], {"mean": weighted_mean("v", "w")}), batch).to_pylist()
    [{'k': 1, 'mean': 2.0}]
    """

    def decorate(cls: type) -> Aggregator:
        if not isinstance(cls, type):
            raise InvalidArgument.of("aggregator", cls, "a class of the functions init, update, merge and finish")
        name = cls.__name__
        fields = _fields(name, state)
        functions = _functions(cls)
        result = returns if isinstance(returns, pa.DataType) else parse_type(name, "returns", returns)
        kind_of(result, name, "returns", "choose another")
        result = storage_type(result, name, "returns")
        return Aggregator(name, fields, slots_of(fields, f"{name}: state", 0, None), result, nulls, functions)

    return decorate


@dataclass(frozen=True, eq=False)
class Aggregator:
    """An aggregate function that a user has defined; call it with names of columns to use it.

    Made by `aggregator`. It holds nothing but text and types, so that it can be pickled.

    Examples
    --------
    >>> from millrace.kernels.sketches import approx_count_distinct
    >>> print(approx_count_distinct("user"))
    approx_count_distinct(user)
    """

    name: str
    fields: pa.Schema
    slots: tuple[Slot, ...]
    type: pa.DataType
    nulls: bool
    functions: dict[str, CapturedFunction]

    def __call__(self, *columns: str) -> Aggregate:
        """Apply it to columns."""
        wanted = self.functions["update"].arguments[1:]
        if len(columns) != len(wanted) or not all(isinstance(column, str) for column in columns):
            names = f": {', '.join(wanted)}" if wanted else ""
            raise InvalidArgument.of(self.name, columns, f"the names of {len(wanted)} columns{names}")
        return Aggregate(self.name, columns, definition=self)

    def renamed(self, name: str) -> Aggregator:
        """Give the same function under another name, as for one that was made with parameters."""
        return replace(self, name=name)

    def bind(self, aggregate: Aggregate, types: Sequence[pa.DataType], where: str) -> BoundAggregate:
        """Settle the types of the inputs, and compile."""
        kinds = [kind_of(t, where, c, HINT) for c, t in zip(aggregate.columns, types, strict=True)]
        fields = self._record_fields(where)
        update, merge = self._function("update", where, kinds), self._function("merge", where)

        def updated(module: ModuleType) -> list:
            seen = [seen_type(kind) for kind in kinds]
            return [module.STATE, *(numba_types.Optional(t) if self.nulls else t for t in seen)]

        merged = merge.compile(MERGE, lambda module: (module.STATE, module.STATE))
        return BoundAggregate(
            self.type,
            fields,
            [Input(name) for name in aggregate.columns],
            [UserUpdate(fields[0], update_loop(update, self.nulls, updated), update.where)],
            [UserMerge(fields, merged, merge.where)],
            self._finish(fields[0], where),
        )

    def _function(
        self, name: str, where: str, kinds: Sequence[str] = (), result: tuple[Slot, ...] = ()
    ) -> UserFunction:
        columns = tuple((f"c{i}", kind) for i, kind in enumerate(kinds))
        return UserFunction(self.functions[name], self.slots, f"{where}: {self.name}.{name}", columns, result)

    def _record_fields(self, where: str) -> list[Field]:
        init = self._function("init", where) if "init" in self.functions else None
        words = initial_words(init, self.slots)
        return [
            Field(slot.name, f.type, slot.words, nullable=False, initial=words[slot.word : slot.word + slot.words])
            for slot, f in zip(self.slots, self.fields, strict=True)
        ]

    def _finish(self, first: Field, where: str) -> Callable[[Selection], pa.Array]:
        schema = pa.schema([pa.field(self.name, self.type)])
        result = slots_of(schema, where, marks_words(1), 0)
        function = self._function("finish", where, result=result)
        loop = function.compile(FINISH, lambda module: (module.STATE,))
        return finish_with(first, loop, function.where, result, schema)


def _fields(name: str, state: str | pa.Schema) -> pa.Schema:
    fields = parse_schema(f"{name}: state", state)
    if not len(fields):
        raise InvalidArgument.of(f"{name}: state", "", "at least one field, like 'total double'")
    for slot in slots_of(fields, f"{name}: state", 0, None):
        if slot.kind in TEXT_KINDS:
            raise UnsupportedType(
                f"{name}: state: field {slot.name!r} is {slot.kind}, accepted are numbers, booleans, times, and "
                "fixed-size arrays of them"
            )
    return fields


def _functions(cls: type) -> dict[str, CapturedFunction]:
    known = (*ARGUMENTS, "update")
    plain = {name: getattr(value, "__func__", value) for name, value in vars(cls).items() if not name.startswith("__")}
    strange = [name for name in plain if name not in known]
    if strange:
        raise InvalidArgument(f"{cls.__name__}: it has {strange[0]!r}, accepted are init, update, merge and finish")
    missing = [name for name in REQUIRED if name not in plain]
    if missing:
        raise InvalidArgument(f"{cls.__name__}: {missing[0]!r} is missing; it needs {', '.join(REQUIRED)}")
    functions = {name: capture(value, f"{cls.__name__}.{name}") for name, value in plain.items()}
    for name, function in functions.items():
        wanted = ARGUMENTS.get(name)
        given = len(function.arguments)
        if given != (wanted or max(given, 1)):
            arguments = ", ".join(function.arguments)
            raise InvalidArgument.of(f"{cls.__name__}.{name}", f"({arguments})", f"{wanted or 'at least 1'} arguments")
    return functions
