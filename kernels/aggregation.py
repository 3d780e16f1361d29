"""A grouped aggregation as the user asks for it, checked and bound to types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.types as pt

from .aggregates import FUNCTIONS, BoundAggregate, bind
from .columns import storage_type
from .errors import InvalidArgument, UnsupportedType
from .functions import Aggregate
from .keys import KeyLayout
from .windows import Window

WINDOW = "window"
OUTPUT_MODES = ("append", "update", "complete")
EVENT_KEY_SLOT = 1_000_000


class Aggregation:
    """What to group by and what to compute: everything about a query but its output mode.

    Parameters
    ----------
    schema
        of the input. Columns that are neither keys nor aggregated may have any type.
    keys
        names of the key columns.
    aggs
        output name → aggregate function.
    window
        groups by time windows as well; the output then begins with a ``window`` struct.
    event_time
        the column that carries the watermark. It has an effect if it is the window's column or one of
        the keys; otherwise nothing is ever late and nothing is evicted, as in Spark.
    ansi
        whether sums that overflow raise (Spark's default) or wrap around and give null.

    Examples
    --------
    >>> from millrace.kernels import Aggregation, functions as F, window
    >>> schema = pa.schema({"user": pa.int64(), "ts": pa.timestamp("us"), "amount": pa.float64()})
    >>> query = Aggregation(
    ...     schema, keys=["user"], aggs={"n": F.count(), "total": F.sum("amount")},
    ...     window=window("ts", "10 minutes"), event_time="ts",
    ... )
    >>> query.output_schema.names
    ['window', 'user', 'n', 'total']
    """

    def __init__(
        self,
        schema: pa.Schema,
        keys: Sequence[str],
        aggs: Mapping[str, Aggregate],
        window: Window | None = None,
        event_time: str | None = None,
        ansi: bool = True,
    ) -> None:
        self.schema = checked_schema(schema)
        self.keys = checked_keys(keys, self.schema)
        self.window = _checked_window(window, self.schema)
        self.aggs = _checked_aggs(aggs)
        self.ansi = ansi
        self.event_time = checked_event_time(event_time, self.schema)
        self._check_names()
        self.key_types = [self.column_type("keys", name) for name in self.keys]
        self.bound = [self._bind(name, aggregate) for name, aggregate in self.aggs.items()]
        window_types = [self.column_type("window", self.window.column)] if self.window else []
        self.layout = KeyLayout([*window_types, *self.key_types])
        self.output_schema = self._output_schema()
        self.partial_schema = pa.schema([*self.key_fields("key"), *self._accumulator_fields()])

    @property
    def fields(self) -> list:
        """Every accumulator field, aggregate by aggregate."""
        return [f for bound in self.bound for f in bound.fields]

    @property
    def is_global(self) -> bool:
        """Whether there is nothing to group by: then there is always exactly one group."""
        return not self.keys and self.window is None

    @property
    def expiry_key(self) -> int | None:
        """Position of the key that the watermark evicts by (the window's is 0); None if there is none."""
        if self.event_time is None:
            return None
        if self.window and self.window.column == self.event_time:
            return 0
        if self.event_time in self.keys:
            return self.keys.index(self.event_time) + (self.window is not None)
        return None

    @property
    def expiry_delay(self) -> int:
        """How long after its key's time a group expires: a window lasts, a time itself does not."""
        by_window = self.window is not None and self.expiry_key == 0
        return self.window.size if by_window and self.window else 0

    @property
    def slot_width(self) -> int:
        """Time per expiry slot: windows end at few distinct times, event times are all different."""
        return 1 if self.window is not None and self.expiry_key == 0 else EVENT_KEY_SLOT

    def key_fields(self, prefix: str) -> list[pa.Field]:
        """Columns of the keys at rest, the window as its start."""
        fields = [pa.field(f"{prefix}:{name}", t) for name, t in zip(self.keys, self.key_types, strict=True)]
        if self.window:
            fields.insert(0, pa.field(f"{prefix}:{WINDOW}:start", self.layout.types[0]))
        return fields

    def describe(self) -> dict[str, object]:
        """Everything that a saved state must agree with, as plain data."""
        window = self.window
        return {
            "keys": [[name, str(t)] for name, t in zip(self.keys, self.key_types, strict=True)],
            "aggs": [
                [name, str(aggregate), [str(self.column_type("aggs", c)) for c in aggregate.columns]]
                for name, aggregate in self.aggs.items()
            ],
            "window": [window.column, window.size, window.slide, window.start] if window else None,
            "event_time": self.event_time,
            "ansi": self.ansi,
        }

    def require_mode(self, output_mode: str) -> None:
        """Refuse an output mode that is unknown, or append where nothing would ever come out."""
        if output_mode not in OUTPUT_MODES:
            raise InvalidArgument.of("output_mode", output_mode, "'append', 'update' or 'complete'")
        if output_mode == "append" and self.expiry_key is None:
            raise InvalidArgument(
                f"output_mode: got 'append' with event_time={self.event_time!r}, accepted is append only if the "
                "event_time column is the window's column or one of the keys; else nothing would ever come out"
            )

    def column_type(self, argument: str, name: str) -> pa.DataType:
        """Give the storage type of an input column, or refuse it in the name of `argument`."""
        return storage_type(self.schema.field(name).type, argument, name)

    def _bind(self, name: str, aggregate: Aggregate) -> BoundAggregate:
        where = f"aggs[{name!r}]"
        for column in aggregate.columns:
            if column not in self.schema.names:
                raise InvalidArgument.unknown_column(where, column, self.schema.names)
        return bind(aggregate, [self.column_type(where, c) for c in aggregate.columns], where, self.ansi)

    def _check_names(self) -> None:
        names = [*([WINDOW] if self.window else []), *self.keys, *self.aggs]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise InvalidArgument(f"aggs: output names must differ, {', '.join(map(repr, twice))} would come twice")

    def _output_schema(self) -> pa.Schema:
        fields = [pa.field(name, t) for name, t in zip(self.keys, self.key_types, strict=True)]
        fields += [pa.field(name, bound.type) for name, bound in zip(self.aggs, self.bound, strict=True)]
        if self.window:
            ends = self.layout.types[0]
            fields.insert(0, pa.field(WINDOW, pa.struct([("start", ends), ("end", ends)])))
        return pa.schema(fields)

    def _accumulator_fields(self) -> list[pa.Field]:
        return [
            pa.field(f"{name}:{f.name}", f.type)
            for name, bound in zip(self.aggs, self.bound, strict=True)
            for f in bound.fields
        ]


def checked_schema(schema: pa.Schema) -> pa.Schema:
    if not isinstance(schema, pa.Schema):
        raise InvalidArgument.of("schema", schema, "a pyarrow.Schema")
    twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
    if twice:
        raise InvalidArgument(f"schema: column names must differ, {', '.join(map(repr, twice))} comes twice")
    return schema


def checked_keys(keys: Sequence[str], schema: pa.Schema) -> tuple[str, ...]:
    if isinstance(keys, str) or not isinstance(keys, Iterable):
        raise InvalidArgument.of("keys", keys, "a list of column names, like ['user']")
    names = tuple(keys)
    for name in names:
        if name not in schema.names:
            raise InvalidArgument.unknown_column("keys", name, schema.names)
    return names


def _checked_aggs(aggs: Mapping[str, Aggregate]) -> dict[str, Aggregate]:
    if not isinstance(aggs, Mapping) or not aggs:
        raise InvalidArgument.of("aggs", aggs, "a dict of at least one output name to an aggregate function")
    for name, aggregate in aggs.items():
        if not isinstance(name, str) or not isinstance(aggregate, Aggregate):
            accepted = f"an aggregate function: {', '.join(FUNCTIONS)}"
            raise InvalidArgument.of(f"aggs[{name!r}]", aggregate, accepted)
    return dict(aggs)


def _checked_window(window: Window | None, schema: pa.Schema) -> Window | None:
    if window is None:
        return None
    if not isinstance(window, Window):
        raise InvalidArgument.of("window", window, 'window("column", "10 minutes")')
    _require_timestamp("window", window.column, schema)
    return window


def checked_event_time(event_time: str | None, schema: pa.Schema) -> str | None:
    if event_time is not None:
        _require_timestamp("event_time", event_time, schema)
    return event_time


def _require_timestamp(argument: str, name: str, schema: pa.Schema) -> None:
    if name not in schema.names:
        raise InvalidArgument.unknown_column(argument, name, schema.names)
    if not pt.is_timestamp(schema.field(name).type):
        raise UnsupportedType(f"{argument}: column {name!r} is {schema.field(name).type}, accepted is timestamp")


__all__ = ["EVENT_KEY_SLOT", "OUTPUT_MODES", "WINDOW", "Aggregation"]
