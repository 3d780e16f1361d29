"""A stateful function as the user asks for it: checked, bound to types, and compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from . import column_views, record_views
from .aggregation import checked_event_time, checked_keys, checked_schema
from .call_protocol import OWN_MARKS
from .captured import CapturedFunction, capture
from .columns import form_or_none, storage_type
from .ddl import parse_schema
from .emitting import OutType, marks_words
from .errors import InvalidArgument, UnsupportedType
from .generated import compile_or_explain, function_module, load_module
from .keys import KeyLayout
from .kinds import Slot, kind_or_none, slots_of

TIMEOUTS = ("NoTimeout", "ProcessingTimeTimeout", "EventTimeTimeout")
OUTPUT_MODES = ("update", "append")

# The loop over keys. Everything that it calls, but for the function, is the same for all queries.
LOOP = """
from numba import njit
from {function_module} import {function} as function
from millrace.kernels.call_protocol import begin_call, end_call
from millrace.kernels.column_views import KeyType, RowsType, key_view, rows_view
from millrace.kernels.emitting import OutType, out_view
from millrace.kernels.kinds import Slot
from millrace.kernels.raw_memory import address_of
from millrace.kernels.record_views import StateType, record_view
import millrace.kernels.state_methods

KEY = KeyType({key_columns!r}, {key_reads!r})
ROWS = RowsType({row_columns!r}, {row_reads!r})
STATE = StateType({state_slots!r}, {timeout!r})
OUT = OutType({out_slots!r})


@njit(cache=True, nogil=True)
def call_each(header, emitted, key_columns, row_columns, groups, starts, order, records, timeouts, earliest, dropped):
    for call in range(len(groups)):
        record = begin_call(header, call, records, groups[call])
        first, count = starts[call], starts[call + 1] - starts[call]
        function(
            key_view(KEY, address_of(key_columns), call),
            rows_view(ROWS, address_of(row_columns), address_of(order) + 8 * first, count),
            record_view(STATE, record, address_of(header)),
            out_view(OUT, address_of(emitted)),
        )
        end_call(header, groups[call], records, timeouts, earliest, dropped)
"""
SIGNATURE = (
    "void(int64[::1], int64[::1], int64[::1], int64[::1], uint32[::1], int64[::1], int64[::1], int64[:, ::1], "
    "int64[::1], int64[::1], uint32[::1])"
)


@dataclass(frozen=True)
class Views:
    """The Numba types in which a function sees its four arguments."""

    key: column_views.KeyType
    rows: column_views.RowsType
    state: record_views.StateType
    out: OutType


class StatefulQuery:
    """What a stateful function works on: everything about a query but its state.

    Parameters
    ----------
    schema
        of the input. Columns that the function does not use may have any type.
    keys
        names of the key columns.
    state
        fields of each key's state: a schema, or text like ``"n long, ring array<double, 16>"``.
    output
        columns of the rows that the function emits, likewise.
    function
        ``function(key, rows, state, out)``, called once for each key with all its rows of a batch, and
        once for each key whose timeout has passed. It is compiled here, by Numba.
    timeout
        ``"NoTimeout"``, ``"ProcessingTimeTimeout"`` or ``"EventTimeTimeout"``.
    event_time
        the column that carries the watermark; late rows are dropped by it if `timeout` is
        ``"EventTimeTimeout"``.
    order_by
        the column by which each key's rows are ordered, nulls first; else they come as they arrived.
    output_mode
        ``"update"`` or ``"append"``: the query's, which Spark wants to be told. It changes nothing here.

    Examples
    --------
    >>> def running_total(key, rows, state, out):
    ...     for i in range(len(rows)):
    ...         state.total += rows.amount[i]
    ...     out.emit(key.user, state.total)
    >>> schema = pa.schema({"user": pa.string(), "amount": pa.int64()})
    >>> query = StatefulQuery(schema, ["user"], "total long", "user string, total long", running_total)
    >>> query.output.names
    ['user', 'total']
    """

    def __init__(
        self,
        schema: pa.Schema,
        keys: Sequence[str],
        state: str | pa.Schema,
        output: str | pa.Schema,
        function: Callable,
        timeout: str = "NoTimeout",
        event_time: str | None = None,
        order_by: str | None = None,
        output_mode: str = "update",
    ) -> None:
        self.schema = checked_schema(schema)
        self.keys = checked_keys(keys, self.schema)
        self.key_types = [storage_type(self.schema.field(name).type, "keys", name) for name in self.keys]
        self.layout = KeyLayout(self.key_types)
        self.state = _fields("state", state, record_views.RESERVED)
        self.output = _fields("output", output, ())
        self.timeout = _one_of("timeout", timeout, TIMEOUTS)
        self.output_mode = _one_of("output_mode", output_mode, OUTPUT_MODES)
        self.event_time = checked_event_time(event_time, self.schema)
        self.order_by = self._checked_order(order_by)
        self._check()
        self.state_slots = slots_of(self.state, "state", self._marks(), OWN_MARKS)
        self.output_slots = slots_of(self.output, "output", marks_words(len(self.output)), 0)
        self.function = _captured(function)
        self.program  # noqa: B018 (compiles, so that a function that cannot be is refused here)

    def __getstate__(self) -> dict[str, Any]:
        # Compiled code stays behind; it is found on disk, or made anew, where the query arrives.
        return {name: value for name, value in self.__dict__.items() if name != "_program"}

    def __setstate__(self, facts: dict[str, Any]) -> None:
        self.__dict__.update(facts)

    @property
    def program(self) -> ModuleType:
        """The module with the compiled loop."""
        if "_program" not in self.__dict__:
            self._program = self._compile()
        return self._program

    @property
    def views(self) -> Views:
        """The types in which the function sees its arguments."""
        return Views(self.program.KEY, self.program.ROWS, self.program.STATE, self.program.OUT)

    def describe(self) -> dict[str, object]:
        """Everything that a saved state must agree with, as plain data. The function may change."""
        return {
            "keys": [[name, str(t)] for name, t in zip(self.keys, self.key_types, strict=True)],
            "state": [[f.name, str(f.type)] for f in self.state],
            "timeout": self.timeout,
        }

    def _marks(self) -> int:
        """Words of marks in a record: its own, and one for each field that says that it is null."""
        return -(-(OWN_MARKS + len(self.state)) // 64)

    def _compile(self) -> ModuleType:
        # A second module, so that the loop is compiled into the cache under the name of all it depends on.
        text = LOOP.format(
            function_module=function_module(self.function).__name__,
            function=self.function.name,
            key_columns=_seen(self.keys, self.key_types),
            row_columns=_seen(self.schema.names, self.schema.types),
            key_reads=self._reads(0, self.keys),
            row_reads=self._reads(1, self.schema.names),
            state_slots=self.state_slots,
            timeout=self.timeout,
            out_slots=self.output_slots,
        )
        program = load_module(f"each_{self.function.name}", text)
        views = (program.KEY, program.ROWS, program.STATE, program.OUT)
        compile_or_explain("function", self.function, program.call_each, SIGNATURE, views)
        return program

    def _reads(self, argument: int, names: Sequence[str]) -> tuple[str, ...]:
        """Give the columns that the function may read from one of its arguments."""
        reads = self.function.reads[self.function.arguments[argument]]
        return tuple(name for name in names if name in reads)

    def _checked_order(self, order_by: str | None) -> str | None:
        if order_by is None:
            return None
        if order_by not in self.schema.names:
            raise InvalidArgument.unknown_column("order_by", order_by, self.schema.names)
        storage_type(self.schema.field(order_by).type, "order_by", order_by)
        return order_by

    def _check(self) -> None:
        if self.timeout == "EventTimeTimeout" and self.event_time is None:
            raise InvalidArgument(
                "event_time: got None with timeout='EventTimeTimeout', accepted is the column with the watermark"
            )
        for argument, fields in (("state", self.state), ("output", self.output)):
            if not len(fields):
                raise InvalidArgument.of(argument, "", "at least one column, like 'n long'")
        if len(set(self.keys)) < len(self.keys):
            raise InvalidArgument.of("keys", list(self.keys), "different columns")
        for argument, names in (("keys", self.keys), ("schema", self.schema.names)):
            clash = [name for name in names if name in column_views.RESERVED]
            if clash:
                raise InvalidArgument(f"{argument}: column {clash[0]!r} has the name of a method; rename it")


def _one_of(argument: str, given: str, accepted: tuple[str, ...]) -> str:
    if given not in accepted:
        raise InvalidArgument.of(argument, given, ", ".join(map(repr, accepted)))
    return given


def _fields(argument: str, given: str | pa.Schema, reserved: Sequence[str]) -> pa.Schema:
    """Read a schema, with every type as it is held; arrays only within state."""
    fields = []
    for f in parse_schema(argument, given):
        if f.name in reserved:
            raise InvalidArgument(
                f"{argument}: field {f.name!r} has a reserved name; reserved are {', '.join(reserved)}"
            )
        data_type = f.type
        if not pt.is_fixed_size_list(data_type):
            if form_or_none(data_type) is not None:
                data_type = storage_type(data_type, argument, f.name)
        elif argument != "state":
            raise UnsupportedType(f"{argument}: column {f.name!r} is {data_type}, accepted are flat types")
        fields.append(pa.field(f.name, data_type))
    return pa.schema(fields)


def _captured(function: Callable) -> CapturedFunction:
    captured = capture(function, "function")
    if len(captured.arguments) != 4:
        given = f"{captured.name}({', '.join(captured.arguments)})"
        raise InvalidArgument(f"function: got {given}, accepted is a function of (key, rows, state, out)")
    said = captured.gives_out()
    if said is not None:
        raise InvalidArgument(
            f"function: {captured.name} {said} ({captured.where}), accepted is out.emit(…) for each row that comes out"
        )
    return captured


def _seen(names: Sequence[str], types: Sequence[pa.DataType]) -> tuple[tuple[str, str], ...]:
    """Give the kind of each column; a type without one is named, to be refused if the function reads it."""
    return tuple((name, kind_or_none(t) or f"?{t}") for name, t in zip(names, types, strict=True))


__all__ = ["OUTPUT_MODES", "TIMEOUTS", "Slot", "StatefulQuery", "Views"]
