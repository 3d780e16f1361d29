"""The keys of a stateful query and their records: the table and the records together, and as Arrow.

At rest in version 2 the state is one nullable struct, as Spark's second format has it: null for a key
that only waits for a timeout. Version 1 has the state's fields side by side, so that such a key cannot
be written.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from .call_protocol import NO_TIMEOUT
from .columns import column_of
from .errors import InvalidArgument, StateFormatError
from .hash_table import HashTable
from .keys import Keys
from .state_records import StateRecords
from .stateful_query import StatefulQuery

CHUNK_ROWS = 4096


class KeyedGroups:
    """Groups, one per key, and their records.

    Parameters
    ----------
    query
        keys and state.
    expected
        number of groups to make room for at once.
    """

    def __init__(self, query: StatefulQuery, expected: int = 0) -> None:
        self.query = query
        self.table = HashTable(query.layout, expected)
        self.records = StateRecords(query.state, query.state_slots, expected)

    def __len__(self) -> int:
        return len(self.table)

    @property
    def nbytes(self) -> int:
        return self.table.nbytes + self.records.nbytes

    def find_or_make(self, arrays: list[pa.Array], rows: int) -> tuple[np.ndarray, int]:
        """Give the group of each row by its key columns, and how many groups are new."""
        columns = [column_of(array) for array in arrays]
        groups = np.empty(rows, np.uint32)
        made = 0
        for base in range(0, rows, CHUNK_ROWS):
            count = min(CHUNK_ROWS, rows - base)
            keys: Keys = self.table.encode(columns, base, count)
            found, new = self.table.upsert(keys)
            groups[base : base + count] = found
            if len(new):
                self.records.start(new, self.table.capacity)
                made += len(new)
        return groups, made

    def forget(self, groups: np.ndarray) -> None:
        """Take groups out; their records are empty already."""
        if len(groups):
            self.table.delete(groups)

    def keys(self, groups: np.ndarray) -> list[pa.Array]:
        """Give the key columns of some groups."""
        return self.query.layout.decode(self.table.key_columns(groups), self.table.arena.data)

    def key_text(self, group: int) -> str:
        """Name a key in a message."""
        values = [array[0].as_py() for array in self.keys(np.array([group], np.uint32))]
        return ", ".join(f"{name}={value!r}" for name, value in zip(self.query.keys, values, strict=True)) or "()"

    def fill(
        self, keys: list[pa.Array], fields: list[pa.Array], exists: np.ndarray, timeouts: np.ndarray
    ) -> np.ndarray:
        """Fill empty groups with stored state; returns the groups. A key that comes twice is an error."""
        groups, made = self.find_or_make(keys, len(exists))
        if made < len(groups):
            counts = np.bincount(groups)
            raise InvalidArgument(f"the key {self.key_text(int(counts.argmax()))} comes {counts.max()} times")
        self.records.load(groups, fields, exists, timeouts)
        return groups

    def export(self, version: int) -> pa.RecordBatch:
        """Give everything that is stored."""
        groups, query = self.table.live(), self.query
        fields = self.records.arrays(groups)
        exists = self.records.exists(groups)
        if version == 1:
            self._require_state(groups, exists)
            state = fields
        else:
            mask = None if exists.all() else pa.array(~exists)
            state = [pa.StructArray.from_arrays(fields, fields=list(query.state), mask=mask)]
        timeouts = pa.array(self.records.timeouts.times[groups])
        return pa.RecordBatch.from_arrays([*self.keys(groups), *state, timeouts], schema=saved_schema(query, version))

    def _require_state(self, groups: np.ndarray, exists: np.ndarray) -> None:
        if not exists.all():
            key = self.key_text(int(groups[~exists][0]))
            raise InvalidArgument(
                f"state_format_version: got 1, accepted is 2 here: the key {key} has a timeout without state, "
                "which version 1 cannot hold"
            )

    def restore(self, body: pa.RecordBatch, version: int) -> None:
        """Take in what `export` gave."""
        keys, width = len(self.query.keys), len(self.query.state)
        timeouts = body.column(body.num_columns - 1)
        if timeouts.null_count or (timeouts.to_numpy() < NO_TIMEOUT).any():
            raise StateFormatError("the state has timeouts that no function can set")
        if version == 1:
            fields, exists = body.columns[keys : keys + width], np.ones(body.num_rows, np.bool_)
        else:
            struct = body.column(keys)
            fields = [struct.field(i) for i in range(width)]
            exists = struct.is_valid().to_numpy(zero_copy_only=False)
        try:
            self.fill(body.columns[:keys], fields, exists, timeouts.to_numpy())
        except InvalidArgument as error:
            raise StateFormatError(f"the state's rows cannot be: {error}") from error


def saved_schema(query: StatefulQuery, version: int) -> pa.Schema:
    """Give the columns of a state at rest: keys, state, timeout in milliseconds (−1 for none)."""
    keys = [pa.field(f"key:{name}", t) for name, t in zip(query.keys, query.key_types, strict=True)]
    flat = [pa.field(f"state:{f.name}", f.type) for f in query.state]
    state = flat if version == 1 else [pa.field("state", pa.struct(list(query.state)))]
    return pa.schema([*keys, *state, pa.field("timeout", pa.int64())])
