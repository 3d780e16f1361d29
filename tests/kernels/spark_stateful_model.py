"""Spark's flatMapGroupsWithState as Scala has it, key by key, in plain Python: slow and obvious.

Written from Spark's rules (InputProcessor, GroupStateImpl) alone. It runs the very function that is
compiled elsewhere, on stand-ins for `key`, `rows`, `state` and `out`. Times of rows are microseconds,
everything else is milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

NO_TIMEOUT = -1


class Refused(Exception):
    """Spark refuses what the function asked for; the text is Spark's error class."""


class NullInt(int):
    """A null number that is read: zero, until it is handed on as it is."""


class NullText(str):
    """The same for text."""


def read(value, kind):
    """What a function gets to see of a value."""
    if value is not None:
        return value
    return NullText() if kind is str else NullInt()


def handed_on(value):
    """What is kept or emitted when a function hands a value on."""
    return None if isinstance(value, NullInt | NullText) else value


class Key:
    def __init__(self, values: dict, kinds: dict) -> None:
        self._values, self._kinds = values, kinds

    def __getattr__(self, name):
        return read(self._values[name], self._kinds[name])

    def is_null(self, name):
        return self._values[name] is None


class Rows:
    def __init__(self, rows: list[dict], kinds: dict) -> None:
        self._rows, self._kinds = rows, kinds

    def __len__(self):
        return len(self._rows)

    def __getattr__(self, name):
        return [read(row[name], self._kinds[name]) for row in self._rows]

    def is_null(self, name, i):
        return self._rows[i][name] is None


class Out:
    def __init__(self) -> None:
        self.rows: list[tuple] = []

    def emit(self, *values):
        self.rows.append(tuple(handed_on(value) for value in values))


class Array(list):
    """A fixed-size array of the state; writing an element writes the state."""

    def __init__(self, values, state) -> None:
        super().__init__(values)
        self._state = state

    def __setitem__(self, i, value):
        super().__setitem__(i, value)
        self._state._write()


class GroupState:
    """Spark's GroupStateImpl, with the state's fields as attributes."""

    def __init__(self, owner: SparkStateful, stored: tuple | None, timed_out: bool) -> None:
        set_own = super().__setattr__
        set_own("_owner", owner)
        set_own("_values", None if stored is None or stored[0] is None else dict(stored[0]))
        set_own("_timeout", NO_TIMEOUT)
        set_own("_updated", False)
        set_own("_removed", False)
        set_own("has_timed_out", timed_out)
        set_own("current_processing_time_ms", owner.batch_time)
        if self._values is not None:
            self._adopt()

    def _adopt(self):
        for name, value in self._values.items():
            if isinstance(value, list):
                self._values[name] = Array(value, self)

    def _write(self):
        set_own = super().__setattr__
        if self._values is None:
            set_own("_values", self._owner.empty())
            self._adopt()
        set_own("_updated", True)
        set_own("_removed", False)

    def __getattr__(self, name):
        if self._values is None:
            # An array that does not exist yet comes to be by writing to one of its elements.
            value = self._owner.empty()[name]
            return _Fresh(value, self, name) if isinstance(value, list) else value
        value = self._values[name]
        return value if isinstance(value, list) else read(value, self._owner.state_kinds[name])

    def __setattr__(self, name, value):
        self._write()
        self._values[name] = handed_on(value)

    @property
    def exists(self):
        return self._values is not None

    @property
    def current_watermark_ms(self):
        if self._owner.watermark is None:
            raise Refused("CANNOT_WITHOUT")
        return self._owner.watermark

    def is_null(self, name):
        return self._values is not None and self._values[name] is None

    def set_null(self, name):
        self._write()
        self._values[name] = None

    def remove(self):
        set_own = super().__setattr__
        set_own("_values", None)
        set_own("_updated", False)
        set_own("_removed", True)

    def set_timeout_duration(self, duration):
        if self._owner.timeout != "ProcessingTimeTimeout":
            raise Refused("CANNOT_WITHOUT")
        if duration <= 0:
            raise Refused("VALUE_NOT_POSITIVE")
        super().__setattr__("_timeout", duration + self._owner.batch_time)

    def set_timeout_timestamp(self, timestamp):
        if self._owner.timeout != "EventTimeTimeout":
            raise Refused("CANNOT_WITHOUT")
        if timestamp <= 0:
            raise Refused("VALUE_NOT_POSITIVE")
        if self._owner.watermark is not None and timestamp < self._owner.watermark:
            raise Refused("INVALID_TIMEOUT_TIMESTAMP")
        super().__setattr__("_timeout", timestamp)


class _Fresh(list):
    def __init__(self, values, state, name) -> None:
        super().__init__(values)
        self._state, self._name = state, name

    def __setitem__(self, i, value):
        self._state._write()
        self._state._values[self._name][i] = value


@dataclass
class SparkStateful:
    """One stateful operator. `state_kinds` gives each field's Python type, or a list for an array."""

    keys: list[str]
    row_kinds: dict
    state_kinds: dict
    function: Callable
    timeout: str = "NoTimeout"
    event_time: str | None = None
    order_by: str | None = None
    store: dict[tuple, tuple] = field(default_factory=dict)  # key → (state or None, timeout)
    initial: list[tuple] = field(default_factory=list)
    batch_time: int = 0
    watermark: int | None = None

    def empty(self) -> dict:
        return {n: list(kind) if isinstance(kind, list) else kind() for n, kind in self.state_kinds.items()}

    def load_initial(self, rows: list[tuple[tuple, dict]]):
        for key, values in rows:
            assert key not in self.store, "duplicate key"
            self.store[key] = (values, NO_TIMEOUT)
            self.initial.append(key)

    def run(self, rows: list[dict], batch_time: int, watermark: int | None = None, late_watermark: int | None = None):
        """One batch; gives what comes out, in order, and the metrics."""
        self.batch_time, self.watermark = batch_time, watermark
        self.metrics = {"numUpdatedStateRows": 0, "numRemovedStateRows": 0}
        out = Out()
        kept = [row for row in rows if not self.is_late(row, late_watermark)]
        groups: dict[tuple, list[dict]] = {}
        for row in kept:
            groups.setdefault(tuple(row[name] for name in self.keys), []).append(row)
        for key in self.initial:
            groups.setdefault(key, [])
        self.initial = []
        for key, members in groups.items():
            if self.order_by is not None:
                members.sort(key=lambda row: (row[self.order_by] is not None, row[self.order_by] or 0))
            self.call(key, members, out, timed_out=False)
        threshold = {"ProcessingTimeTimeout": batch_time, "EventTimeTimeout": watermark}.get(self.timeout)
        if threshold is not None:
            passed = [key for key, (_, t) in self.store.items() if t != NO_TIMEOUT and t < threshold]
            for key in passed:
                self.call(key, [], out, timed_out=True)
        return out.rows, {
            "numOutputRows": len(out.rows),
            "numTotalStateRows": len(self.store),
            "numRowsDroppedByWatermark": len(rows) - len(kept),
            **self.metrics,
        }

    def is_late(self, row: dict, late_watermark: int | None) -> bool:
        if self.timeout != "EventTimeTimeout" or late_watermark is None or row[self.event_time] is None:
            return False
        return row[self.event_time] <= late_watermark * 1000

    def call(self, key: tuple, rows: list[dict], out: Out, timed_out: bool) -> None:
        stored = self.store.get(key)
        state = GroupState(self, stored, timed_out)
        values = dict(zip(self.keys, key, strict=True))
        self.function(Key(values, self.row_kinds), Rows(rows, self.row_kinds), state, out)
        old_timeout = NO_TIMEOUT if stored is None else stored[1]
        if state._removed and state._timeout == NO_TIMEOUT:
            self.store.pop(key, None)
            self.metrics["numRemovedStateRows"] += 1
        elif state._updated or state._removed or state._timeout != old_timeout:
            saved = None if state._values is None else {
                n: list(v) if isinstance(v, list) else v for n, v in state._values.items()
            }  # fmt: skip
            self.store[key] = (saved, state._timeout)
            self.metrics["numUpdatedStateRows"] += 1
