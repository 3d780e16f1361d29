"""Conditions on rows: an expression tree, checked against schemas and evaluated over Arrow columns.

Logic is SQL's, with three values: a comparison with null is null, and ``false AND null`` is false.
Comparisons are Spark's: NaN equals NaN and is greater than every number, and −0.0 equals 0.0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .errors import ArithmeticOverflow, InvalidArgument, MillraceError
from .expression_types import as_type, cast_value, comparable_type, result_type
from .records import to_ordered
from .time_bounds import SIDES

COMPARISONS = {
    "=": pc.equal, "<>": pc.not_equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal,
}  # fmt: skip
ARITHMETIC = ("+", "-", "*", "/", "%")
SIGNS = ("negate", "abs")
Value = Any  # an Arrow array or scalar


class Expression:
    """Something that has a value for a pair of rows. Build with `column`, `literal` and `call`."""


@dataclass(frozen=True)
class ColumnOf(Expression):
    """A column of one side."""

    side: str
    name: str

    def __str__(self) -> str:
        return f"{self.side}.{self.name}"


@dataclass(frozen=True)
class Literal(Expression):
    """A constant; a `timedelta` is an interval."""

    value: object
    type: pa.DataType | None = None

    def __str__(self) -> str:
        return repr(self.value)


@dataclass(frozen=True)
class Call(Expression):
    """An operator applied to expressions; `type` is what a cast casts to."""

    operator: str
    arguments: tuple[Expression, ...]
    type: pa.DataType | None = None

    def __str__(self) -> str:
        if self.operator == "cast":
            return f"cast({self.arguments[0]} as {self.type})"
        if len(self.arguments) == 2:
            return f"({self.arguments[0]} {self.operator} {self.arguments[1]})"
        return f"{self.operator}({', '.join(map(str, self.arguments))})"


def column(side: str, name: str) -> ColumnOf:
    """A column of the ``"left"`` or the ``"right"`` side.

    Examples
    --------
    >>> print(column("left", "price"))
    left.price
    """
    if side not in SIDES:
        raise InvalidArgument.of("side", side, "'left' or 'right'")
    return ColumnOf(side, name)


def literal(value: object, data_type: pa.DataType | None = None) -> Literal:
    """A constant of a given type, or of the type that Arrow gives it.

    Examples
    --------
    >>> print(literal(5))
    5
    """
    return Literal(value, data_type)


def call(operator: str, *arguments: Expression, type: pa.DataType | None = None) -> Call:
    """Apply an operator.

    Comparisons ``= <> < <= > >= <=>``, arithmetic ``+ - * / %``, ``negate`` and ``abs``, logic
    ``and or not``, ``is null``, ``between`` (value, least, greatest), ``in`` (value, choices …) and ``cast``.

    Examples
    --------
    >>> print(call(">", call("+", column("left", "a"), literal(1)), column("right", "b")))
    ((left.a + 1) > right.b)
    """
    known = {*COMPARISONS, "<=>", *ARITHMETIC, *SIGNS, "and", "or", "not", "is null", "between", "in", "cast"}
    if operator not in known:
        raise InvalidArgument.of("operator", operator, ", ".join(sorted(known)))
    wanted = {"negate": 1, "abs": 1, "not": 1, "is null": 1, "cast": 1, "between": 3}.get(operator, 2)
    if len(arguments) < wanted or (len(arguments) > wanted and operator not in ("and", "or", "in")):
        raise InvalidArgument(f"operator {operator}: got {len(arguments)} arguments, accepted are {wanted}")
    return Call(operator, arguments, type)


@dataclass(frozen=True)
class Bound:
    """An expression whose types are settled."""

    type: pa.DataType
    evaluate: Callable[[dict[str, pa.RecordBatch]], Value]


class CompiledCondition:
    """A condition on pairs of rows of two schemas.

    Examples
    --------
    >>> schema = pa.schema({"v": pa.int64()})
    >>> condition = CompiledCondition(call("<", column("left", "v"), column("right", "v")), schema, schema)
    >>> condition.holds(pa.record_batch({"v": [1, 2, None]}), pa.record_batch({"v": [2, 2, 2]})).tolist()
    [True, False, False]
    """

    def __init__(self, expression: Expression, left: pa.Schema, right: pa.Schema, ansi: bool = True) -> None:
        binder = Binder({"left": left, "right": right}, ansi)
        self._bound = binder.condition(expression)
        self.reads = binder.reads

    def holds(self, left: pa.RecordBatch, right: pa.RecordBatch) -> np.ndarray:
        """Tell for each position whether the pair of rows there satisfies the condition."""
        return _truth(self._bound, {"left": left, "right": right}, left.num_rows)


class CompiledFilter:
    """A condition on rows of one side.

    Examples
    --------
    >>> passing = CompiledFilter(call(">", column("left", "v"), literal(1)), "left", pa.schema({"v": pa.int64()}))
    >>> passing.holds(pa.record_batch({"v": [1, 2, None]})).tolist()
    [False, True, False]
    """

    def __init__(self, expression: Expression, side: str, schema: pa.Schema, ansi: bool = True) -> None:
        self._side = side
        self._bound = Binder({side: schema}, ansi).condition(expression)

    def holds(self, rows: pa.RecordBatch) -> np.ndarray:
        """Tell for each row whether it passes."""
        return _truth(self._bound, {self._side: rows}, rows.num_rows)


def _truth(bound: Bound, batches: dict[str, pa.RecordBatch], rows: int) -> np.ndarray:
    try:
        value = bound.evaluate(batches)
    except pa.ArrowInvalid as error:
        raise ArithmeticOverflow(f"condition: {error}") from error
    if isinstance(value, pa.Scalar):
        return np.full(rows, value.as_py() is True)
    return pc.fill_null(value, False).to_numpy(zero_copy_only=False).astype(np.bool_)


class Binder:
    """Settles the types of expressions over the columns of some sides."""

    def __init__(self, schemas: dict[str, pa.Schema], ansi: bool) -> None:
        self.schemas = schemas
        self.ansi = ansi
        # Columns that the expressions bound so far look at, by side.
        self.reads: dict[str, set[str]] = {side: set() for side in schemas}

    def condition(self, expression: Expression) -> Bound:
        """Bind an expression that must be true or false."""
        bound = self.bind(expression)
        if not pa.types.is_boolean(bound.type) and not pa.types.is_null(bound.type):
            raise InvalidArgument(f"condition: {expression} is {bound.type}, accepted is bool")
        return bound

    def bind(self, expression: Expression) -> Bound:
        """Bind any expression."""
        if isinstance(expression, ColumnOf):
            return self._column(expression)
        if isinstance(expression, Literal):
            return _literal(expression)
        if isinstance(expression, Call):
            return self._call(expression, [self.bind(a) for a in expression.arguments])
        raise InvalidArgument.of("condition", expression, "an expression made with column, literal and call")

    def _column(self, expression: ColumnOf) -> Bound:
        side, name = expression.side, expression.name
        if side not in self.schemas:
            raise InvalidArgument(f"condition: {expression} is of the {side} side, accepted are {list(self.schemas)}")
        if name not in self.schemas[side].names:
            raise InvalidArgument.unknown_column(f"condition ({side})", name, self.schemas[side].names)
        self.reads[side].add(name)
        return Bound(self.schemas[side].field(name).type, lambda batches: batches[side].column(name))

    def _call(self, expression: Call, arguments: list[Bound]) -> Bound:
        operator, types = expression.operator, [a.type for a in arguments]
        if operator == "cast":
            target = as_type(expression, types[0], expression.type)
            return Bound(target, lambda b: cast_value(arguments[0].evaluate(b), target))
        if operator == "is null":
            return _boolean(lambda b: pc.is_null(arguments[0].evaluate(b)))
        if operator in ("and", "or", "not"):
            return _logic(expression, operator, arguments)
        if operator in ARITHMETIC or operator in SIGNS:
            return _arithmetic(expression, arguments, self.ansi)
        common = comparable_type(expression, types)
        values = [_comparable(a, common) for a in arguments]
        if operator == "between":
            value, least, greatest = values
            return _boolean(lambda b: _between(value(b), least(b), greatest(b)))
        if operator == "in":
            return _boolean(lambda b: _in(values[0](b), [v(b) for v in values[1:]]))
        if operator == "<=>":
            return _boolean(lambda b: _null_safe(values[0](b), values[1](b)))
        compare = COMPARISONS[operator]
        return _boolean(lambda b: compare(values[0](b), values[1](b)))


def _boolean(evaluate: Callable[[dict[str, pa.RecordBatch]], Value]) -> Bound:
    return Bound(pa.bool_(), evaluate)


def _literal(expression: Literal) -> Bound:
    try:
        scalar = pa.scalar(expression.value, expression.type)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidArgument(f"condition: the constant {expression} has no Arrow type ({error})") from error
    return Bound(scalar.type, lambda batches: scalar)


def _logic(expression: Call, operator: str, arguments: Sequence[Bound]) -> Bound:
    for argument, part in zip(arguments, expression.arguments, strict=True):
        if not pa.types.is_boolean(argument.type) and not pa.types.is_null(argument.type):
            raise InvalidArgument(f"condition: {part} in {expression} is {argument.type}, accepted is bool")
    values = [_cast(a, pa.bool_()) for a in arguments]
    if operator == "not":
        return _boolean(lambda b: pc.invert(values[0](b)))
    combine = pc.and_kleene if operator == "and" else pc.or_kleene
    settled = operator == "or"

    def evaluate(batches: dict[str, pa.RecordBatch]) -> Value:
        result = values[0](batches)
        for value in values[1:]:
            try:
                other = value(batches)
            except (pa.ArrowInvalid, ArithmeticOverflow):
                if isinstance(result, pa.Scalar):
                    if result.as_py() is settled:
                        return result
                    raise
                other = _where_open(value, batches, result, settled)
            result = combine(result, other)
        return result

    return _boolean(evaluate)


def _where_open(
    value: Callable[[dict[str, pa.RecordBatch]], Value],
    batches: dict[str, pa.RecordBatch],
    result: Value,
    settled: bool,
) -> Value:
    """Evaluate an operand, which fails on some row, only where the ones before it leave the result open.

    That is what Spark does with ``b = 0 OR a / b > 1``; doing so where nothing fails would cost time for nothing.
    """
    is_open = pc.invert(pc.fill_null(result if settled else pc.invert(result), False))
    some = value({side: batch.filter(is_open) for side, batch in batches.items()})
    return pc.replace_with_mask(result, is_open, some)


def _cast(bound: Bound, target: pa.DataType) -> Callable[[dict[str, pa.RecordBatch]], Value]:
    if bound.type.equals(target):
        return bound.evaluate
    return lambda batches: cast_value(bound.evaluate(batches), target)


def _comparable(bound: Bound, common: pa.DataType) -> Callable[[dict[str, pa.RecordBatch]], Value]:
    """Bring a value into the type that both sides of a comparison share; doubles into Spark's order."""
    cast = _cast(bound, common)
    if not pa.types.is_floating(common):
        return cast
    return lambda batches: _ordered(cast(batches))


def _ordered(value: Value) -> Value:
    if isinstance(value, pa.Scalar):
        if not value.is_valid:
            return pa.scalar(None, pa.int64())
        return pa.scalar(int(to_ordered(np.array([value.as_py()]) + 0.0)[0]))
    doubles = pc.fill_null(value, 0.0).to_numpy(zero_copy_only=False)
    mask = value.is_null().to_numpy(zero_copy_only=False) if value.null_count else None
    return pa.array(to_ordered(doubles + 0.0), mask=mask)


def _between(value: Value, least: Value, greatest: Value) -> Value:
    return pc.and_kleene(pc.greater_equal(value, least), pc.less_equal(value, greatest))


def _null_safe(left: Value, right: Value) -> Value:
    both = pc.and_(pc.is_null(left), pc.is_null(right))
    return pc.or_(both, pc.fill_null(pc.equal(left, right), False))


def _in(value: Value, choices: Sequence[Value]) -> Value:
    result = pc.equal(value, choices[0])
    for choice in choices[1:]:
        result = pc.or_kleene(result, pc.equal(value, choice))
    return result


def _arithmetic(expression: Call, arguments: Sequence[Bound], ansi: bool) -> Bound:
    operand_types, result = result_type(expression, [a.type for a in arguments])
    values = [_cast(a, t) for a, t in zip(arguments, operand_types, strict=True)]
    compute = _computation(expression.operator, result, ansi)
    return Bound(result, lambda b: compute(*(value(b) for value in values)))


def _computation(operator: str, result: pa.DataType, ansi: bool) -> Callable[..., Value]:
    checked = ansi or not pa.types.is_integer(result)
    if operator == "negate":
        return pc.negate_checked if checked else pc.negate
    if operator == "abs":
        compute = pc.abs_checked if checked else pc.abs
        # Arrow has no magnitude of an interval, which is its microseconds'.
        return (lambda a: compute(a.cast(pa.int64())).cast(result)) if pa.types.is_duration(result) else compute
    if operator == "/":
        return lambda a, b: pc.divide(a, _divisor(a, b, ansi))
    if operator == "%":
        return lambda a, b: _remainder(a, _divisor(a, b, ansi), result)
    names = {"+": "add", "-": "subtract", "*": "multiply"}
    return getattr(pc, names[operator] + ("_checked" if checked else ""))


def _divisor(dividend: Value, value: Value, ansi: bool) -> Value:
    """Refuse a zero divisor (ANSI; not of a null) or turn it into null, which the quotient then is too."""
    zero = pc.equal(value, pa.scalar(0, value.type))
    wrong = pc.and_kleene(zero, pc.is_valid(dividend))
    if ansi and (wrong.as_py() if isinstance(wrong, pa.Scalar) else pc.any(wrong).as_py()):
        raise ArithmeticOverflow("condition: division by zero (ansi=False gives null)")
    return pc.if_else(zero, pa.scalar(None, value.type), value)


def _remainder(value: Value, divisor: Value, result: pa.DataType) -> Value:
    """The remainder has the sign of the dividend, as in Java."""
    if isinstance(value, pa.Scalar) and isinstance(divisor, pa.Scalar):
        raise MillraceError("condition: a remainder of two constants is a constant; write its value")
    rows = len(divisor) if isinstance(value, pa.Scalar) else len(value)
    a, b = (pa.repeat(v, rows) if isinstance(v, pa.Scalar) else v for v in (value, divisor))
    mask = pc.or_(a.is_null(), b.is_null()).to_numpy(zero_copy_only=False)
    numbers = [pc.fill_null(v, pa.scalar(1, result)).to_numpy(zero_copy_only=False) for v in (a, b)]
    return pa.array(np.fmod(*numbers), result, mask=mask)
