"""The loops around the functions of a user-defined aggregate, and the steps that run them.

Each loop lies in a generated module of its own and calls one function, so that two aggregates which
share a function share its compiled code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType

import numpy as np
import pyarrow as pa
from numba.extending import register_jitable

from . import null_passing, state_methods  # noqa: F401 (they say what views can do)
from .captured import CapturedFunction
from .column_views import ColumnAddresses
from .columns import Column, Form
from .emitting import emitted_arrays
from .errors import FunctionFailed
from .generated import compile_or_explain, function_module, load_module
from .kinds import Slot
from .native_memory import EmittedRows
from .raw_memory import address_of
from .record_views import record_view
from .records import Field, Records, Selection
from .steps import Chunk

HEADER = """
from numba import njit
from {module} import {name} as function
from millrace.kernels.column_views import KeyType, key_view
from millrace.kernels.emitting import OutType, out_view
from millrace.kernels.kinds import Slot
from millrace.kernels.null_passing import field_or_none
from millrace.kernels.raw_memory import address_of
from millrace.kernels.record_views import AccumulatorType
from millrace.kernels.user_loops import state_of

STATE = AccumulatorType({slots!r})
INPUT = KeyType({columns!r}, {used!r})
OUT = OutType({result!r})


@njit(cache=True, nogil=True)
"""
INIT = """
def loop(records):
    function(state_of(STATE, records, 0, 0))
"""
UPDATE = """
def loop(records, word, groups, base, columns):
    for i in range(len(groups)):
        row = key_view(INPUT, address_of(columns), base + i)
        if {wanted}:
            function({arguments})
"""
MERGE = """
def loop(records, word, groups, base, others):
    for i in range(len(groups)):
        function(state_of(STATE, records, word, groups[i]), state_of(STATE, others, 0, base + i))
"""
FINISH = """
def loop(records, word, groups, emitted):
    for group in groups:
        out_view(OUT, address_of(emitted)).emit(function(state_of(STATE, records, word, group)))
"""
SIGNATURES = {
    INIT: "void(int64[:, ::1])",
    UPDATE: "void(int64[:, ::1], int64, uint32[::1], int64, int64[::1])",
    MERGE: "void(int64[:, ::1], int64, uint32[::1], int64, int64[:, ::1])",
    FINISH: "void(int64[:, ::1], int64, uint32[::1], int64[::1])",
}


@register_jitable
def state_of(ref, records, word, group):
    """Give the view of a group's accumulators, which begin at a word of its record."""
    return record_view(ref, address_of(records) + 8 * (np.int64(group) * records.shape[1] + word), 0)


@dataclass(frozen=True)
class UserFunction:
    """One function of an aggregate, with what its loop has to know; `where` names it in messages."""

    function: CapturedFunction
    slots: tuple[Slot, ...]
    where: str
    columns: tuple[tuple[str, str], ...] = ()
    result: tuple[Slot, ...] = ()

    def compile(self, loop: str, views: Callable[[ModuleType], Sequence], **parts: str) -> Callable:
        """Compile the loop around the function; `views` gives the types with which it is called."""
        text = HEADER + loop.format(**parts)[1:]
        module = load_module(
            f"loop_{self.function.name}",
            text.format(
                module=function_module(self.function).__name__, name=self.function.name, slots=self.slots,
                columns=self.columns, used=tuple(name for name, _ in self.columns), result=self.result,
            ),
        )  # fmt: skip
        compile_or_explain(self.where, self.function, module.loop, SIGNATURES[loop], tuple(views(module)))
        return module.loop


def update_loop(function: UserFunction, nulls: bool, seen: Callable[[ModuleType], Sequence]) -> Callable:
    """Compile the loop over rows: those with a null are left out, or with `nulls` given as None."""
    names = [name for name, _ in function.columns]
    values = [f'field_or_none(row, "{name}", row.{name})' if nulls else f"row.{name}" for name in names]
    arguments = ", ".join(["state_of(STATE, records, word, groups[i])", *values])
    guards = [] if nulls else [f'not row.is_null("{name}")' for name in names]
    return function.compile(UPDATE, seen, wanted=" and ".join(guards) or "True", arguments=arguments)


# --- steps ------------------------------------------------------------------------------------------


class _OncePerBatch:
    """Prepares the inputs of a batch when its first chunk comes, and forgets them after its last."""

    def __init__(self) -> None:
        self._inputs: Sequence[Column] | None = None
        self._prepared: np.ndarray | ColumnAddresses | None = None

    def of(self, chunk: Chunk, prepare: Callable[[Sequence[Column], int], object]):
        if self._inputs is not chunk.inputs:
            self._inputs, self._prepared = chunk.inputs, prepare(chunk.inputs, _rows(chunk.inputs))  # type: ignore[assignment]
        prepared = self._prepared
        if not chunk.inputs or chunk.base + len(chunk.groups) >= _rows(chunk.inputs):
            self._inputs = self._prepared = None
        return prepared


def _rows(columns: Sequence[Column]) -> int:
    return max((len(c.starts) if c.form is Form.BYTES else len(c.values) for c in columns), default=0)


class UserUpdate:
    """Takes rows in."""

    def __init__(self, first: Field, loop: Callable, where: str) -> None:
        self.first, self.loop, self.where = first, loop, where
        self._once = _OncePerBatch()

    def __call__(self, records: Records, chunk: Chunk) -> None:
        addresses = self._once.of(chunk, lambda inputs, rows: ColumnAddresses(list(inputs), rows))
        run(self.where, self.loop, records.words, self.first.word, chunk.groups, chunk.base, addresses.table)


class UserMerge:
    """Takes exported states in."""

    def __init__(self, fields: Sequence[Field], loop: Callable, where: str) -> None:
        self.fields, self.loop, self.where = fields, loop, where
        self._once = _OncePerBatch()

    def __call__(self, records: Records, chunk: Chunk) -> None:
        others = self._once.of(chunk, self._records_of)
        run(self.where, self.loop, records.words, self.fields[0].word, chunk.groups, chunk.base, others)

    def _records_of(self, inputs: Sequence[Column], rows: int) -> np.ndarray:
        """Lay exported fields side by side again, as records of their own."""
        words = [np.asarray(column.values).view(np.int64).reshape(rows, -1) for column in inputs]
        return np.ascontiguousarray(np.concatenate(words, axis=1))


def finish_with(
    first: Field, loop: Callable, where: str, result: tuple[Slot, ...], schema: pa.Schema
) -> Callable[[Selection], pa.Array]:
    """Give the function that turns some groups' accumulators into results."""

    def finish(rows: Selection) -> pa.Array:
        emitted = EmittedRows(result[-1].word + result[-1].words, len(rows))
        # Groups may come from anywhere; one type of array means one compilation.
        run(where, loop, rows.records.words, first.word, np.array(rows.groups, np.uint32), emitted.header)
        return emitted_arrays(emitted, result, schema).column(0)

    return finish


def run(where: str, loop: Callable, *arguments) -> None:
    """Run a loop; what the user's function raises says where."""
    try:
        loop(*arguments)
    except Exception as error:
        raise FunctionFailed(f"{where} failed: {type(error).__name__}: {error}") from error


def initial_words(function: UserFunction | None, slots: tuple[Slot, ...]) -> np.ndarray:
    """Give the record of a group that has only begun."""
    words = np.zeros((1, slots[-1].word + slots[-1].words), np.int64)
    if function is not None:
        loop = function.compile(INIT, lambda module: (module.STATE,))
        run(function.where, loop, words)
    return words[0]
