"""A stream-stream join as the user asks for it, checked."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from .columns import plain_type, storage_type
from .errors import InvalidArgument, UnsupportedType
from .keys import KeyLayout
from .time_bounds import SIDES, TimeBounds, nearness, value_watermark
from .watermark import limit_of

JOIN_TYPES = ("inner", "left_outer", "right_outer", "full_outer", "left_semi")
ROW_SLOT = 1_000_000


class Condition(Protocol):
    """Something that holds or not for pairs of a left and a right row."""

    @property
    def reads(self) -> Mapping[str, Collection[str]]:
        """The columns of each side that it looks at; it is given no others."""

    def holds(self, left: pa.RecordBatch, right: pa.RecordBatch) -> np.ndarray:
        """Tell for each position whether the two rows there satisfy the condition; null counts as no."""


class Filter(Protocol):
    """Something that holds or not for rows of one side."""

    def holds(self, rows: pa.RecordBatch) -> np.ndarray:
        """Tell for each row whether it passes; null counts as no."""


class Join:
    """Everything about a join but its state.

    Parameters
    ----------
    left, right
        schemas of the two inputs.
    keys
        pairs of a left and a right column that must be equal.
    how
        one of `JOIN_TYPES`.
    left_time, right_time
        the column of each side that carries its watermark (the end, for a window); None if the side
        has no watermark.
    bounds
        what the condition says about right time − left time.
    only_bounds
        whether the residual says nothing beyond bounds that are exact.
    left_filter, right_filter
        the parts of the condition that look at one side only.
    residual
        the rest of it, beyond keys and filters. It must include what `bounds` says: bounds only tell
        how long rows are kept.
    null_safe
        positions of key pairs for which null equals null (``<=>``).

    Examples
    --------
    >>> side = pa.schema({"k": pa.int64(), "t": pa.timestamp("us")})
    >>> join = Join(side, side, [("k", "k")], "inner", left_time="t", right_time="t")
    >>> join.output_schema.names
    ['k', 't', 'k', 't']
    """

    def __init__(
        self,
        left: pa.Schema,
        right: pa.Schema,
        keys: Sequence[tuple[str, str]],
        how: str,
        left_time: str | None = None,
        right_time: str | None = None,
        bounds: Sequence[TimeBounds] = (),
        left_filter: Filter | None = None,
        right_filter: Filter | None = None,
        residual: Condition | None = None,
        null_safe: Collection[int] = (),
        only_bounds: bool = False,
    ) -> None:
        # Dictionaries and views are kept, and come out, as the plain values they stand for.
        self.schemas = {
            side: pa.schema([pa.field(f.name, plain_type(f.type)) for f in schema])
            for side, schema in (("left", left), ("right", right))
        }
        self.times = {"left": left_time, "right": right_time}
        self.filters = {"left": left_filter, "right": right_filter}
        self.keys = tuple((str(a), str(b)) for a, b in keys)
        self.how = how
        self.bounds = tuple(bounds)
        self.residual = residual
        self.null_safe = frozenset(null_safe)
        self.only_bounds = only_bounds
        self._check()
        self.key_types = [self._key_type(a, b) for a, b in self.keys]
        self.layout = KeyLayout(self.key_types)

    @property
    def output_schema(self) -> pa.Schema:
        """Left columns, then right ones; of a left semi join left ones only."""
        left, right = self.schemas["left"], self.schemas["right"]
        return left if self.how == "left_semi" else pa.schema([*left, *right])

    @property
    def is_left_semi(self) -> bool:
        return self.how == "left_semi"

    def is_outer(self, side: str) -> bool:
        """Whether rows of a side that match nothing come out, padded with nulls."""
        return self.how in (f"{side}_outer", "full_outer")

    def key_names(self, side: str) -> list[str]:
        """Names of a side's key columns."""
        return [pair[SIDES.index(side)] for pair in self.keys]

    def shared_columns(self, side: str) -> dict[int, int]:
        """Key columns of the other side that are the same, bit for bit, in a row of this side it matches.

        Gives the position there and here. Equal floats may differ in bits, so they are left out.
        """
        here, there = self.schemas[side], self.schemas[SIDES[1 - SIDES.index(side)]]
        pairs = [pair if side == "left" else pair[::-1] for pair in self.keys]
        return {
            there.get_field_index(other): here.get_field_index(mine)
            for mine, other in pairs
            if here.field(mine).type.equals(there.field(other).type) and not pt.is_floating(here.field(mine).type)
        }

    def nearness(self, side: str) -> tuple[int, int] | None:
        """Least and greatest time, in microseconds, from a row of a side to one of the other that it may match."""
        limits = nearness(self.bounds)
        types = [self.schemas[s].field(time).type for s, time in self.times.items() if time is not None]
        # Clock readings and points in time are not compared as numbers.
        alike = len(types) == 2 and all(t.unit == "us" and (t.tz is None) == (types[0].tz is None) for t in types)
        if limits is None or not alike:
            return None
        return limits if side == "left" else (-limits[1], -limits[0])

    @property
    def expiry_key(self) -> int | None:
        """Position of the key pair that carries a watermark on either side; both sides evict by it."""
        for position, (left, right) in enumerate(self.keys):
            if left == self.times["left"] or right == self.times["right"]:
                return position
        return None

    def expiry_column(self, side: str) -> str | None:
        """The column whose time tells when a stored row of a side goes; None if never."""
        if self.expiry_key is not None:
            return self.key_names(side)[self.expiry_key]
        if self.times["left"] is None or self.times["right"] is None:
            return None
        return self.times[side] if value_watermark(self.bounds, side, 0) is not None else None

    def expiry_limit(self, side: str, watermark_ms: int | None) -> int | None:
        """The time, in microseconds, at or before which stored rows of a side go; None if none do."""
        if watermark_ms is None or self.expiry_column(side) is None:
            return None
        if self.expiry_key is not None:
            return limit_of(watermark_ms)
        return limit_of(value_watermark(self.bounds, side, watermark_ms))

    def describe(self) -> dict[str, object]:
        """Everything that a saved state must agree with, as plain data."""
        return {
            **{side: [[f.name, str(f.type)] for f in self.schemas[side]] for side in SIDES},
            "keys": [list(pair) for pair in self.keys],
            "how": self.how,
            "times": dict(self.times),
            "null_safe": sorted(self.null_safe),
        }

    def _check(self) -> None:
        if self.how not in JOIN_TYPES:
            raise InvalidArgument.of("how", self.how, ", ".join(map(repr, JOIN_TYPES)))
        if not self.keys:
            raise InvalidArgument.of("keys", self.keys, "at least one pair of columns that must be equal")
        for side in SIDES:
            names = self.schemas[side].names
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise InvalidArgument(f"{side}: column names must differ, {', '.join(map(repr, twice))} comes twice")
            for name in self.key_names(side):
                if name not in names:
                    raise InvalidArgument.unknown_column(f"keys ({side})", name, names)
            time = self.times[side]
            if time is not None and time not in names:
                raise InvalidArgument.unknown_column(f"{side}_time", time, names)
            if time is not None and not pt.is_timestamp(self.schemas[side].field(time).type):
                given = self.schemas[side].field(time).type
                raise UnsupportedType(f"{side}_time: column {time!r} is {given}, accepted is timestamp")
        if not all(0 <= position < len(self.keys) for position in self.null_safe):
            raise InvalidArgument.of("null_safe", sorted(self.null_safe), "positions within keys")

    def _key_type(self, left: str, right: str) -> pa.DataType:
        types = [
            storage_type(self.schemas[side].field(name).type, "keys", name)
            for side, name in zip(SIDES, (left, right), strict=True)
        ]
        if not types[0].equals(types[1]):
            raise UnsupportedType(
                f"keys: {left!r} is {types[0]} and {right!r} is {types[1]}, accepted are pairs of one type"
            )
        return types[0]
