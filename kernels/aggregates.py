"""What each aggregate function keeps, and how it updates, merges and finishes.

A function is *bound* to the types of its columns and becomes a `BoundAggregate`: accumulator fields,
steps over raw rows (update), steps over exported fields (merge) and a finish. An aggregate's exported
fields are the inputs of its merge, in the same order. The table at the end of the file lists them all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from . import accumulate as acc
from .columns import Column, Form, array_of, column_of, form_of
from .decimals import MAX_PRECISION, decimals_to_doubles, finish_averages, finish_sums, pin_overflows, power_of_ten
from .errors import ArithmeticOverflow, UnsupportedType
from .fixed_arrays import array_column
from .functions import Aggregate
from .memory import freeze
from .records import Field, Records, Selection, to_ordered
from .steps import (
    AddChecked,
    AddWords,
    Assign,
    Contest,
    CountRows,
    CountValid,
    Fold,
    KeepGreatest,
    MarkSeen,
    MergeMoments,
    Step,
    WinAll,
    WinTrue,
    WinUnseen,
    WinValid,
)

INT64_MIN = -(2**63)
SUM_DIGITS = 58  # of 192 bits


class Lens(Enum):
    """How an aggregate wants to see an input column."""

    PLAIN = "as it is"
    DOUBLE = "as double"
    ORDER = "doubles as integers of the same order"
    ORDER_BY = "the same, with -0.0 equal to 0.0"


@dataclass(frozen=True)
class Input:
    """A raw column, and how to see it."""

    column: str
    lens: Lens = Lens.PLAIN


@dataclass
class BoundAggregate:
    """An aggregate function with its types settled."""

    type: pa.DataType
    fields: list[Field]
    inputs: list[Input]
    update: list[Step]
    merge: list[Step]
    finish: Callable[[Selection], pa.Array]
    merge_lenses: list[Lens] = field(default_factory=list)
    # Called at the end of each batch with the groups it touched.
    seal: Callable[[Records, np.ndarray], None] | None = None

    def lens_of(self, i: int) -> Lens:
        return self.merge_lenses[i] if self.merge_lenses else Lens.PLAIN


Types = Sequence[pa.DataType]
Binder = Callable[[Aggregate, Types, str, bool], BoundAggregate]


def look(array: pa.Array, lens: Lens) -> Column:
    """View an array as a column, the way an aggregate wants it."""
    if pt.is_fixed_size_list(array.type):
        return array_column(array)
    column = column_of(array)
    if lens is Lens.DOUBLE:
        return _reform(column, Form.FLOAT, _doubles(array, column))
    if column.form is Form.FLOAT and lens is not Lens.PLAIN:
        values = column.values + 0.0 if lens is Lens.ORDER_BY else column.values
        return _reform(column, Form.WORD, to_ordered(values))
    return column


def _reform(column: Column, form: Form, values: np.ndarray) -> Column:
    return Column(form, freeze(values), column.valid, column.offset, column.starts, column.ends, column.data)


def _doubles(array: pa.Array, column: Column) -> np.ndarray:
    if column.form is Form.DECIMAL:
        doubles = np.empty(len(array), np.float64)
        decimals_to_doubles(column.values, 10.0**array.type.scale, doubles)
        return doubles
    return column.values.astype(np.float64, copy=False)


def bind(aggregate: Aggregate, types: Types, where: str, ansi: bool) -> BoundAggregate:
    """Settle the types of an aggregate; `where` names it in messages."""
    if aggregate.definition is not None:
        return aggregate.definition.bind(aggregate, types, where)
    binder, accepted = FUNCTIONS[aggregate.function]
    for name, data_type in zip(aggregate.columns, types, strict=True):
        if not accepted(data_type):
            raise UnsupportedType(
                f"{where}: {aggregate.function} got column {name!r} of type {data_type}, "
                f"accepted are {ACCEPTED[accepted]}"
            )
    return binder(aggregate, types, where, ansi)


def _is_number(t: pa.DataType) -> bool:
    return pt.is_signed_integer(t) or pt.is_floating(t) or pt.is_decimal(t)


def _is_any(t: pa.DataType) -> bool:
    return True


ACCEPTED = {
    _is_number: "integers, floats and decimals",
    pt.is_boolean: "booleans",
    _is_any: "all key and value types",
}


def _keeping(
    f: Field, inputs: list[Input], update: list[Step], merge: list[Step], extra: Sequence[Field] = ()
) -> BoundAggregate:
    """An aggregate whose result is one of its accumulators as it stands."""
    return BoundAggregate(f.type, [*extra, f], inputs, update, merge, lambda rows: rows.array(f))


# --- counts -----------------------------------------------------------------------------------------


def _count(aggregate: Aggregate, types: Types, where: str, ansi: bool) -> BoundAggregate:
    f = Field("count", pa.int64(), nullable=False)
    step = CountValid(f, 0) if aggregate.columns else CountRows(f)
    return _keeping(f, [Input(name) for name in aggregate.columns], [step], [Fold(acc.add_int, f, 0)])


def _count_if(aggregate: Aggregate, types: Types, where: str, ansi: bool) -> BoundAggregate:
    f = Field("count", pa.int64(), nullable=False)
    return _keeping(f, [Input(aggregate.columns[0])], [Fold(acc.count_true, f, 0)], [Fold(acc.add_int, f, 0)])


# --- sums and averages ------------------------------------------------------------------------------


def _sum(aggregate: Aggregate, types: Types, where: str, ansi: bool) -> BoundAggregate:
    name, data_type = aggregate.columns[0], types[0]
    if pt.is_decimal(data_type):
        return _sum_decimal(name, data_type, where, ansi)
    if pt.is_floating(data_type):
        f, loop = Field("sum", pa.float64()), acc.add_float
    elif ansi:
        return _sum_checked(name, where)
    else:
        f, loop = Field("sum", pa.int64()), acc.add_int
    return _keeping(f, [Input(name)], [Fold(loop, f, 0)], [Fold(loop, f, 0)])


def _sum_checked(name: str, where: str) -> BoundAggregate:
    """Sum of integers that raises when the sum of all values does not fit, whatever their order."""
    f = Field("sum", pa.decimal128(MAX_PRECISION, 0))

    def check(wraps: np.ndarray | None) -> None:
        if wraps is not None and wraps.any():
            raise ArithmeticOverflow(f"{where}: the sum of a group does not fit int64 (ansi=False lets it wrap)")

    def finish(rows: Selection) -> pa.Array:
        check(rows.wraps(f))
        return array_of(pa.int64(), rows.values(f), rows.valid(f))

    def seal(records: Records, groups: np.ndarray) -> None:
        check(records.wraps(f, groups))

    add = AddChecked(f, 0)
    return BoundAggregate(pa.int64(), [f], [Input(name)], [add], [add], finish, seal=seal)


def _decimal_sum_field(data_type: pa.DataType) -> Field:
    return Field("sum", pa.decimal256(SUM_DIGITS, data_type.scale), words=3)


def _sum_type(data_type: pa.DataType) -> pa.DataType:
    return pa.decimal128(min(data_type.precision + 10, MAX_PRECISION), data_type.scale)


def _pin(f: Field, sum_type: pa.DataType) -> Callable[[Records, np.ndarray], None] | None:
    """Pin sums that have overflowed, where so few values as a stream can hold may make them overflow."""
    if sum_type.precision < MAX_PRECISION:
        return None
    limit = power_of_ten(sum_type.precision)
    return lambda records, groups: pin_overflows(records.words, f.word, groups, limit)


def _decimals(
    where: str, data_type: pa.DataType, out: np.ndarray, fitting: np.ndarray, valid: np.ndarray | None, ansi: bool
) -> pa.Array:
    """Give decimal results; those that do not fit raise (ANSI) or are null."""
    present = np.ones(len(out), np.bool_) if valid is None else valid
    if ansi and not fitting[present].all():
        raise ArithmeticOverflow(f"{where}: the result of a group does not fit {data_type} (ansi=False gives null)")
    return array_of(data_type, out, present & fitting)


def _sum_decimal(name: str, data_type: pa.DataType, where: str, ansi: bool) -> BoundAggregate:
    f, sum_type = _decimal_sum_field(data_type), _sum_type(data_type)
    limit = power_of_ten(sum_type.precision)

    def finish(rows: Selection) -> pa.Array:
        out, fitting = np.empty((len(rows), 2), np.int64), np.empty(len(rows), np.bool_)
        finish_sums(rows.values(f), limit, out, fitting)
        return _decimals(where, sum_type, out, fitting, rows.valid(f), ansi)

    add = AddWords(f, 0)
    return BoundAggregate(sum_type, [f], [Input(name)], [add], [add], finish, seal=_pin(f, sum_type))


def _avg(aggregate: Aggregate, types: Types, where: str, ansi: bool) -> BoundAggregate:
    name, data_type = aggregate.columns[0], types[0]
    if pt.is_decimal(data_type):
        return _avg_decimal(name, data_type, where, ansi)
    total = Field("sum", pa.float64())
    count = Field("count", pa.int64(), nullable=False)

    def finish(rows: Selection) -> pa.Array:
        counts = rows.values(count)
        some = counts > 0
        return array_of(pa.float64(), rows.values(total) / np.where(some, counts, 1), some)

    return BoundAggregate(
        pa.float64(), [total, count], [Input(name, Lens.DOUBLE)],
        [Fold(acc.add_float, total, 0), CountValid(count, 0)],
        [Fold(acc.add_float, total, 0), Fold(acc.add_int, count, 1)], finish,
    )  # fmt: skip


def _avg_decimal(name: str, data_type: pa.DataType, where: str, ansi: bool) -> BoundAggregate:
    total, sum_type = _decimal_sum_field(data_type), _sum_type(data_type)
    count = Field("count", pa.int64(), nullable=False)
    scale = min(data_type.scale + 4, MAX_PRECISION)
    result = pa.decimal128(min(data_type.precision + 4, MAX_PRECISION), scale)
    limits = (power_of_ten(sum_type.precision), power_of_ten(result.precision))
    scale_up = np.uint64(10 ** (scale - data_type.scale))

    def finish(rows: Selection) -> pa.Array:
        counts = rows.values(count)
        out, fitting = np.zeros((len(rows), 2), np.int64), np.empty(len(rows), np.bool_)
        sums = rows.values(total)
        finish_averages(sums, counts, limits, scale_up, MAX_PRECISION - scale, out, fitting)
        return _decimals(where, result, out, fitting, counts > 0, ansi)

    return BoundAggregate(
        result, [total, count], [Input(name)], [AddWords(total, 0), CountValid(count, 0)],
        [AddWords(total, 0), Fold(acc.add_int, count, 1)], finish, seal=_pin(total, sum_type),
    )  # fmt: skip


# --- variance and standard deviation ----------------------------------------------------------------


def _moments(
    aggregate: Aggregate, types: Types, result: Callable[[np.ndarray, np.ndarray], np.ndarray], least: int
) -> BoundAggregate:
    """`result` of (count, squares), for groups of at least `least` values; null below."""
    count = Field("count", pa.float64(), nullable=False)
    fields = [count, *(Field(name, pa.float64(), nullable=False) for name in ("mean", "squares"))]

    def finish(rows: Selection) -> pa.Array:
        counts = rows.values(count)
        enough = counts >= least
        safe = np.where(enough, counts, least)
        return array_of(pa.float64(), result(safe, rows.values(fields[2])), enough)

    return BoundAggregate(
        pa.float64(), fields, [Input(aggregate.columns[0], Lens.DOUBLE)],
        [Fold(acc.add_moments, count, 0)], [MergeMoments(count)], finish,
    )  # fmt: skip


def _var_pop(aggregate: Aggregate, types: Types, where: str, ansi: bool) -> BoundAggregate:
    return _moments(aggregate, types, lambda n, squares: squares / n, 1)


def _var_samp(aggregate: Aggregate, types: Types, where: str, ansi: bool) -> BoundAggregate:
    return _moments(aggregate, types, lambda n, squares: squares / (n - 1), 2)


def _stddev_pop(aggregate: Aggregate, types: Types, where: str, ansi: bool) -> BoundAggregate:
    return _moments(aggregate, types, lambda n, squares: np.sqrt(squares / n), 1)


def _stddev_samp(aggregate: Aggregate, types: Types, where: str, ansi: bool) -> BoundAggregate:
    return _moments(aggregate, types, lambda n, squares: np.sqrt(squares / (n - 1)), 2)


# --- kept values ------------------------------------------------------------------------------------


def _value_field(name: str, data_type: pa.DataType, **how: object) -> Field:
    words = 2 if form_of(data_type) in (Form.DECIMAL, Form.BYTES) else 1
    return Field(name, data_type, words=words, **how)  # type: ignore[arg-type]


def _greatest_field(name: str, data_type: pa.DataType, least: bool, initial: int = 0) -> Field:
    """A field for the greatest value, or the least: flipped, unless it is compared as bytes."""
    form = form_of(data_type)
    flip = -1 if least and form is not Form.BYTES else 0
    return _value_field(name, data_type, flip=flip, ordered=form is Form.FLOAT, initial=initial)


def _extreme(least: bool) -> Binder:
    def bound(aggregate: Aggregate, types: Types, where: str, ansi: bool) -> BoundAggregate:
        data_type = types[0]
        wide = form_of(data_type) in (Form.DECIMAL, Form.BYTES)
        # One word starts below every value, so that the loop need not ask whether it has one.
        f = _greatest_field("value", data_type, least, initial=0 if wide else INT64_MIN)
        step: Step = Contest(f, 0, least) if wide else KeepGreatest(f, 0)
        kept = _keeping(f, [Input(aggregate.columns[0], Lens.ORDER)], [step], [step])
        kept.merge_lenses = [Lens.ORDER]
        return kept

    return bound


def _extreme_by(least: bool) -> Binder:
    def bound(aggregate: Aggregate, types: Types, where: str, ansi: bool) -> BoundAggregate:
        value = _value_field("value", types[0])
        ordering = _greatest_field("ordering", types[1], least)
        inputs = [Input(aggregate.columns[1], Lens.ORDER_BY), Input(aggregate.columns[0])]
        steps: list[Step] = [Contest(ordering, 0, least), Assign(value, 1)]
        kept = _keeping(value, inputs, steps, steps, [ordering])
        kept.merge_lenses = [Lens.ORDER_BY, Lens.PLAIN]
        return kept

    return bound


def _first(aggregate: Aggregate, types: Types, where: str, ansi: bool) -> BoundAggregate:
    return _edge(aggregate, types, lambda seen: WinUnseen(seen))


def _last(aggregate: Aggregate, types: Types, where: str, ansi: bool) -> BoundAggregate:
    return _edge(aggregate, types, lambda seen: MarkSeen(seen))


def _edge(aggregate: Aggregate, types: Types, choose: Callable[[Field], Step]) -> BoundAggregate:
    """The value at one end of the rows. `seen` tells a group without such a row from a null value."""
    seen = Field("seen", pa.bool_(), words=0, nullable=False)
    value = _value_field("value", types[0])
    candidates: Step = WinValid(0) if aggregate.ignore_nulls else WinAll()
    update = [candidates, choose(seen), Assign(value, 0)]
    merge = [WinTrue(0), choose(seen), Assign(value, 1)]
    return _keeping(value, [Input(aggregate.columns[0])], update, merge, [seen])


FUNCTIONS: dict[str, tuple[Binder, Callable[[pa.DataType], bool]]] = {
    "count": (_count, _is_any),
    "count_if": (_count_if, pt.is_boolean),
    "sum": (_sum, _is_number),
    "avg": (_avg, _is_number),
    "min": (_extreme(least=True), _is_any),
    "max": (_extreme(least=False), _is_any),
    "first": (_first, _is_any),
    "last": (_last, _is_any),
    "bool_and": (_extreme(least=True), pt.is_boolean),
    "bool_or": (_extreme(least=False), pt.is_boolean),
    "var_pop": (_var_pop, _is_number),
    "var_samp": (_var_samp, _is_number),
    "stddev_pop": (_stddev_pop, _is_number),
    "stddev_samp": (_stddev_samp, _is_number),
    "min_by": (_extreme_by(least=True), _is_any),
    "max_by": (_extreme_by(least=False), _is_any),
}
