"""Whole numbers of 256 bits within compiled functions: what decimals are computed with.

Sums, products and comparisons of two decimals, at whatever scales, never leave 256 bits. LLVM splits them
into words. It has no division this wide, so that is done a bit at a time, from the highest bit set.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_jitable, register_model

WIDE_BITS = 256
WIDE_INT = ir.IntType(WIDE_BITS)


class WideType(types.Type):
    """A signed whole number of 256 bits."""

    def __init__(self) -> None:
        super().__init__(name="WideNumber")


WIDE = WideType()


@register_model(WideType)
class WideModel(models.PrimitiveModel):
    def __init__(self, manager, wide_type):
        super().__init__(manager, wide_type, WIDE_INT)


@intrinsic
def wide_of(typing_context, value):
    """Make a wide number of an integer."""
    if not isinstance(value, types.Integer | types.Boolean):
        return None

    def generate(context, builder, signature, args):
        signed = isinstance(value, types.Integer) and value.signed
        return (builder.sext if signed else builder.zext)(args[0], WIDE_INT)

    return WIDE(value), generate


@intrinsic(prefer_literal=True)
def ten_to(typing_context, digits):
    """Give ten to a power that is known while compiling, 76 at most."""
    exponent = digits.literal_value

    def generate(context, builder, signature, args):
        return WIDE_INT(10**exponent)

    return WIDE(digits), generate


def _binary(instruction):
    def operation(typing_context, left, right):
        def generate(context, builder, signature, args):
            return getattr(builder, instruction)(*args)

        return WIDE(WIDE, WIDE), generate

    return intrinsic(operation)


def _comparison(sign):
    def operation(typing_context, left, right):
        def generate(context, builder, signature, args):
            return builder.icmp_signed(sign, *args)

        return types.boolean(WIDE, WIDE), generate

    return intrinsic(operation)


added, subtracted, multiplied = _binary("add"), _binary("sub"), _binary("mul")
below, equal = _comparison("<"), _comparison("==")


@intrinsic
def doubled(typing_context, value, low):
    """Shift left by one, and put a bit in."""

    def generate(context, builder, signature, args):
        return builder.or_(builder.shl(args[0], WIDE_INT(1)), builder.zext(args[1], WIDE_INT))

    return WIDE(WIDE, types.boolean), generate


@intrinsic
def bit_of(typing_context, value, position):
    """Give one bit."""

    def generate(context, builder, signature, args):
        shifted = builder.lshr(args[0], builder.zext(args[1], WIDE_INT))
        return builder.trunc(shifted, cgutils.bool_t)

    return types.boolean(WIDE, types.int64), generate


@intrinsic
def bits_of(typing_context, value):
    """Give how many bits a number that is not negative takes."""

    def generate(context, builder, signature, args):
        zeros = builder.ctlz(args[0], cgutils.false_bit)
        return builder.sub(ir.IntType(64)(WIDE_BITS), builder.trunc(zeros, ir.IntType(64)))

    return types.int64(WIDE), generate


@register_jitable
def absolute(value):
    """Give the number without its sign."""
    zero = wide_of(0)
    return subtracted(zero, value) if below(value, zero) else value


@register_jitable
def divided(dividend, divisor):
    """Divide numbers that are not negative: quotient and remainder."""
    quotient, rest = wide_of(0), wide_of(0)
    for position in range(bits_of(dividend) - 1, -1, -1):
        rest = doubled(rest, bit_of(dividend, position))
        reached = not below(rest, divisor)
        if reached:
            rest = subtracted(rest, divisor)
        quotient = doubled(quotient, reached)
    return quotient, rest


@register_jitable
def divided_half_up(dividend, divisor):
    """Divide with a sign, and round to the nearest whole number, halves away from zero."""
    zero = wide_of(0)
    negative = below(dividend, zero) != below(divisor, zero)
    size = absolute(divisor)
    quotient, rest = divided(absolute(dividend), size)
    if not below(added(rest, rest), size):
        quotient = added(quotient, wide_of(1))
    return subtracted(zero, quotient) if negative else quotient
