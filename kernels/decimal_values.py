"""Decimals within compiled functions: exact, as `decimal.Decimal` is, with a scale that the type knows.

A value is a whole number of 128 bits, in units of 10 to the power of −scale. Sums, differences and
products are exact; a product has the decimal places of both factors. Comparisons are exact at any scales.
What has more than 38 digits raises. Nothing becomes a float by itself, and a decimal is rounded only
when it is stored (half up, as Spark's cast does) or by `divide`.
"""

from __future__ import annotations

import operator
from decimal import Decimal

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.imputils import lower_constant
from numba.core.typeconv import Conversion
from numba.extending import (
    intrinsic,
    lower_cast,
    models,
    overload,
    register_jitable,
    register_model,
    typeof_impl,
)

from .decimals import MAX_PRECISION
from .raw_memory import WORD, pointer_at
from .refusals import refuse, require_literal
from .wide_numbers import (
    WIDE,
    WIDE_INT,
    absolute,
    added,
    below,
    divided,
    divided_half_up,
    equal,
    multiplied,
    subtracted,
    ten_to,
    wide_of,
)

INT128 = ir.IntType(128)
FLOATS_REFUSED = "a decimal and a float do not mix; write float(…) around the decimal, or Decimal('…') for the float"
DIVISION_REFUSED = "decimals are not divided with {}; accepted are divide(a, b, places) and float(a) / float(b)"
TOO_LARGE = "a decimal has more than 38 digits"


class DecimalType(types.Hashable):
    """A decimal with so many places behind the point."""

    def __init__(self, scale: int) -> None:
        self.scale = scale
        super().__init__(name=f"decimal with {scale} places")

    def can_convert_to(self, typing_context, other):
        """A decimal joins with one of more places, as in ``total = Decimal(0)`` and later ``total += price``."""
        more = isinstance(other, DecimalType) and other.scale > self.scale
        return Conversion.promote if more else None

    def can_convert_from(self, typing_context, other):
        """So does an integer."""
        return Conversion.promote if isinstance(other, types.Integer) else None

    def unify(self, typing_context, other):
        if isinstance(other, DecimalType):
            return DecimalType(max(self.scale, other.scale))
        return self if isinstance(other, types.Integer) else None


@register_model(DecimalType)
class DecimalModel(models.PrimitiveModel):
    def __init__(self, manager, decimal_type):
        super().__init__(manager, decimal_type, INT128)


# --- literals ---------------------------------------------------------------------------------------


def unscaled(value: Decimal) -> tuple[int, int]:
    """Give a decimal as a whole number and a scale.

    Examples
    --------
    >>> unscaled(Decimal("-1.50"))
    (-150, 2)
    """
    if not value.is_finite():
        raise refuse(f"Decimal({str(value)!r}) is not a number that a decimal can hold")
    sign, digits, exponent = value.as_tuple()
    scale = max(-int(exponent), 0)
    # Asked first, so that 1e999999 is not written out.
    if value.adjusted() < MAX_PRECISION and scale <= MAX_PRECISION:
        whole = int("".join(map(str, digits))) * 10 ** max(int(exponent), 0)
        if whole < 10**MAX_PRECISION:
            return -whole if sign else whole, scale
    raise refuse(f"Decimal({str(value)!r}) has more than {MAX_PRECISION} digits")


@typeof_impl.register(Decimal)
def type_of_decimal(value, context):
    """A `Decimal` from outside of the function is a constant."""
    return DecimalType(unscaled(value)[1])


@lower_constant(DecimalType)
def constant(context, builder, decimal_type, value):
    """Write a `Decimal` into the code."""
    return INT128(unscaled(value)[0])


def parsed(text: str) -> Decimal:
    """Read what ``Decimal("1.25")`` within a function says."""
    try:
        value = Decimal(text)
    except ArithmeticError:
        raise refuse(f"Decimal({text!r}) is not a number") from None
    unscaled(value)
    return value


@intrinsic(prefer_literal=True)
def decimal_literal(typing_context, text):
    """Give the decimal that text spelled out stands for."""
    require_literal(text)
    whole, places = unscaled(parsed(text.literal_value))

    def generate(context, builder, signature, args):
        return INT128(whole)

    return DecimalType(places)(text), generate


@overload(Decimal, prefer_literal=True)
def make_decimal(value):
    """``Decimal("1.25")``, ``Decimal(n)``"""
    if isinstance(value, types.StringLiteral):
        parsed(value.literal_value)
        return lambda value: decimal_literal(value)
    if isinstance(value, DecimalType):
        return lambda value: value
    if isinstance(value, types.Integer):
        return decimal_with(value, 0)
    raise refuse(f"Decimal(…) got {value}, accepted are an integer, and a number as text that is spelled out")


# --- to and from wide numbers -----------------------------------------------------------------------


def present(value: types.Type) -> types.Type:
    """Give the type of what is there when a value is not null."""
    return value.type if isinstance(value, types.Optional) else value


def is_exact(value: types.Type) -> bool:
    """Tell whether a type is a decimal or an integer."""
    return isinstance(present(value), DecimalType | types.Integer | types.Boolean)


def places_of(value: types.Type) -> int:
    """Give the places of a decimal, 0 for an integer."""
    inner = present(value)
    return inner.scale if isinstance(inner, DecimalType) else 0


@intrinsic
def widened(typing_context, value):
    """Make a wide number of a decimal's units, or of an integer; a null raises."""
    inner = types.unliteral(present(value))

    def generate(context, builder, signature, args):
        plain = context.cast(builder, args[0], value, inner)
        if isinstance(inner, DecimalType):
            return builder.sext(plain, WIDE_INT)
        return context.compile_internal(builder, _wide_integer, WIDE(inner), (plain,))

    return WIDE(value), generate


def _wide_integer(value):
    return wide_of(value)


def units_at(value: types.Type, places: int):
    """Give the function that tells a value's units at so many places, rounded half up if it has more."""
    more = places - places_of(value)
    fewer = -more
    if more >= 0:
        return lambda value: multiplied(widened(value), ten_to(more))
    return lambda value: divided_half_up(widened(value), ten_to(fewer))


@register_jitable
def require_digits(units):
    """Refuse units of more than 38 digits."""
    if not below(absolute(units), ten_to(MAX_PRECISION)):
        raise OverflowError(TOO_LARGE)
    return units


@intrinsic(prefer_literal=True)
def decimal_of(typing_context, units, places):
    """Make a decimal of units that have no more than 38 digits."""

    def generate(context, builder, signature, args):
        return builder.trunc(args[0], INT128)

    return DecimalType(places.literal_value)(WIDE, places), generate


def decimal_with(value: types.Type, places: int):
    """Give the function that turns a value into a decimal of so many places."""
    units = register_jitable(units_at(value, places))
    return lambda value: decimal_of(require_digits(units(value)), places)


@lower_cast(DecimalType, DecimalType)
@lower_cast(types.Integer, DecimalType)
@lower_cast(types.IntegerLiteral, DecimalType)
def cast_to_decimal(context, builder, from_type, to_type, value):
    """Give a decimal more places, or an integer some."""
    if from_type == to_type:
        return value
    from_type = types.unliteral(from_type)
    return context.compile_internal(builder, decimal_with(from_type, to_type.scale), to_type(from_type), (value,))


# --- operators --------------------------------------------------------------------------------------


def _meet(left: types.Type, right: types.Type) -> bool:
    """Tell whether an operation is between decimals, or a decimal and an integer; refuse it with a float."""
    inner = [present(left), present(right)]
    if not any(isinstance(t, DecimalType) for t in inner):
        return False
    if any(isinstance(t, types.Float) for t in inner):
        raise refuse(FLOATS_REFUSED)
    return is_exact(left) and is_exact(right)


def _at_the_same_places(left: types.Type, right: types.Type, turned):
    """Give the places of whichever operand has more, and for each the function that brings it there."""
    places = max(places_of(left), places_of(right))
    return places, *(register_jitable(turned(side, places)) for side in (left, right))


def _linear(combine):
    """A sum or a difference: at the places of whichever operand has more."""

    def typed(left, right):
        if not _meet(left, right):
            return None
        places, mine, theirs = _at_the_same_places(left, right, units_at)
        return lambda left, right: decimal_of(require_digits(combine(mine(left), theirs(right))), places)

    return typed


def times(left, right):
    """A product has the places of both factors."""
    if not _meet(left, right):
        return None
    places = places_of(left) + places_of(right)
    if places > MAX_PRECISION:
        raise refuse(
            f"the product of decimals has {places} places, accepted are {MAX_PRECISION}; round one with "
            "divide(x, 1, places)"
        )
    # Two numbers of 38 digits have a product of 76, and 256 bits hold those.
    return lambda left, right: decimal_of(require_digits(multiplied(widened(left), widened(right))), places)


def _compared(compare):
    def typed(left, right):
        if not _meet(left, right):
            return None
        _, mine, theirs = _at_the_same_places(left, right, units_at)
        return lambda left, right: compare(mine(left), theirs(right))

    return typed


def _undivided(sign):
    def typed(left, right):
        if any(isinstance(t, DecimalType) for t in (left, right)):
            raise refuse(DIVISION_REFUSED.format(sign))

    return typed


_OPERATORS = (
    ((operator.add, operator.iadd), _linear(added)),
    ((operator.sub, operator.isub), _linear(subtracted)),
    ((operator.mul, operator.imul), times),
    ((operator.truediv, operator.itruediv), _undivided("/")),
    ((operator.floordiv, operator.ifloordiv), _undivided("//")),
    ((operator.mod, operator.imod), _undivided("%")),
    ((operator.eq,), _compared(register_jitable(lambda a, b: equal(a, b)))),
    ((operator.ne,), _compared(register_jitable(lambda a, b: not equal(a, b)))),
    ((operator.lt,), _compared(register_jitable(lambda a, b: below(a, b)))),
    ((operator.gt,), _compared(register_jitable(lambda a, b: below(b, a)))),
    ((operator.le,), _compared(register_jitable(lambda a, b: not below(b, a)))),
    ((operator.ge,), _compared(register_jitable(lambda a, b: not below(a, b)))),
)
for _functions, _typed in _OPERATORS:
    for _function in _functions:
        overload(_function)(_typed)


@overload(operator.neg)
def negative(value):
    """``-price``"""
    if isinstance(value, DecimalType):
        places = value.scale
        return lambda value: decimal_of(subtracted(wide_of(0), widened(value)), places)


@overload(abs)
def size(value):
    """``abs(price)``"""
    if isinstance(value, DecimalType):
        places = value.scale
        return lambda value: decimal_of(absolute(widened(value)), places)


@overload(bool)
def truth(value):
    """``if price:``"""
    if isinstance(value, DecimalType):
        return lambda value: not equal(widened(value), wide_of(0))


def _extreme(better):
    """The lesser or greater of two, at the places of whichever has more."""

    def typed(left, right):
        if not _meet(left, right):
            return None
        _, mine, theirs = _at_the_same_places(left, right, decimal_with)

        def chosen(left, right):
            first, second = mine(left), theirs(right)
            return second if better(second, first) else first

        return chosen

    return typed


overload(min)(_extreme(register_jitable(lambda a, b: a < b)))
overload(max)(_extreme(register_jitable(lambda a, b: a > b)))


# --- to other numbers -------------------------------------------------------------------------------


@intrinsic
def low_words(typing_context, units):
    """Give the two lowest words of a wide number, unsigned."""

    def generate(context, builder, signature, args):
        words = [builder.trunc(builder.lshr(args[0], WIDE_INT(64 * i)), WORD) for i in range(2)]
        return context.make_tuple(builder, signature.return_type, words)

    return types.UniTuple(types.uint64, 2)(WIDE), generate


@overload(float)
def as_float(value):
    """``float(price)``"""
    if not isinstance(value, DecimalType):
        return None
    divisor = 10.0**value.scale

    def convert(value):
        units = widened(value)
        low, high = low_words(absolute(units))
        # From the magnitude, so that small negatives stay exact.
        number = (np.float64(high) * 18446744073709551616.0 + np.float64(low)) / divisor
        return -number if below(units, wide_of(0)) else number

    return convert


@overload(int)
def as_integer(value):
    """``int(price)``: without what stands behind the point."""
    if not isinstance(value, DecimalType):
        return None
    places = value.scale

    def convert(value):
        units = widened(value)
        whole, _ = divided(absolute(units), ten_to(places))
        low, high = low_words(whole)
        if high or low >> np.uint64(63):
            raise OverflowError("int(…) of a decimal that does not fit 64 bits")
        return -np.int64(low) if below(units, wide_of(0)) else np.int64(low)

    return convert


@intrinsic(prefer_literal=True)
def divide(typing_context, dividend, divisor, places):
    """Divide decimals or integers, to so many places, rounded half up.

    Examples
    --------
    >>> from decimal import Decimal
    >>> from numba import njit
    >>> njit(lambda: float(divide(Decimal("10.00"), 3, 4)))()
    3.3333
    """
    if not isinstance(places, types.IntegerLiteral) or not 0 <= places.literal_value <= MAX_PRECISION:
        raise refuse(f"divide(a, b, places) got {places} places, accepted is a literal from 0 to {MAX_PRECISION}")
    if not (is_exact(dividend) and is_exact(divisor)):
        raise refuse(f"divide(a, b, places) got {dividend} and {divisor}, accepted are decimals and integers")
    function = _division(dividend, divisor, places.literal_value)

    def generate(context, builder, signature, args):
        inner = signature.return_type(*signature.args[:2])
        return context.compile_internal(builder, function, inner, args[:2])

    return DecimalType(places.literal_value)(dividend, divisor, places), generate


def _division(dividend: types.Type, divisor: types.Type, places: int):
    more = places + places_of(divisor) - places_of(dividend)
    if more > MAX_PRECISION:
        most = MAX_PRECISION - places_of(divisor) + places_of(dividend)
        raise refuse(f"divide(a, b, {places}): accepted are at most {most} places for a divisor of that many")
    up, down = max(more, 0), max(-more, 0)

    def quotient(dividend, divisor):
        by = multiplied(widened(divisor), ten_to(down))
        if equal(by, wide_of(0)):
            raise ZeroDivisionError("divide(a, b, places) by zero")
        return decimal_of(require_digits(divided_half_up(multiplied(widened(dividend), ten_to(up)), by)), places)

    return quotient


# --- in memory --------------------------------------------------------------------------------------


def _two_words(builder, address, word):
    """Give pointers to the words of a decimal, low word first, which begins at a word from an address."""
    return [pointer_at(builder, address, builder.add(word, WORD(i)), WORD) for i in range(2)]


def load_decimal(builder, address, word):
    """Read a decimal."""
    low, high = (builder.zext(builder.load(pointer), INT128) for pointer in _two_words(builder, address, word))
    return builder.or_(low, builder.shl(high, INT128(64)))


def store_decimal(context, builder, message: str, kind: tuple[int, int], value_type, value, address, word) -> None:
    """Write a value as a decimal of a precision and scale; one that does not fit raises, with a message."""
    precision, places = kind
    value_type = types.unliteral(value_type)
    units = context.compile_internal(builder, units_at(value_type, places), WIDE(value_type), (value,))
    limit = WIDE_INT(10**precision)
    inside = builder.and_(
        builder.icmp_signed("<", units, limit), builder.icmp_signed(">", units, WIDE_INT(-(10**precision)))
    )
    with builder.if_then(builder.not_(inside), likely=False):
        context.call_conv.return_user_exc(builder, OverflowError, (message,))
    for i, pointer in enumerate(_two_words(builder, address, word)):
        builder.store(builder.trunc(builder.lshr(units, WIDE_INT(64 * i)), WORD), pointer)
