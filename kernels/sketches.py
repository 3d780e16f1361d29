"""Aggregate functions whose answer is approximate, or needs two columns; made as any user could make them."""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Any

import numpy as np
from numba.extending import register_jitable

from .errors import InvalidArgument
from .functions import Aggregate
from .user_aggregates import Aggregator, aggregator
from .value_hash import hash64

REGISTER_BITS = 12
REGISTERS = 1 << REGISTER_BITS
RANKS = 64 - REGISTER_BITS  # bits of a hash behind those that choose the register

RELATIVE_ERROR = 0.01
LOG_GAMMA = math.log((1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR))
DEFAULT_BUCKETS = 512
_QUANTILE = re.compile(r"approx_quantile\(([^,]+), (\d+)\)")


# --- weighted mean ----------------------------------------------------------------------------------


class _WeightedMean:
    def update(state: Any, value, weight):
        # Times one, since Numba makes no float of a boolean.
        state.total += float(1 * value) * float(1 * weight)
        state.weight += float(1 * weight)

    def merge(state: Any, other):
        state.total += other.total
        state.weight += other.weight

    def finish(state: Any):
        return state.total / state.weight if state.weight != 0 else None


_weighted_mean = aggregator("total double, weight double", "double")(_WeightedMean).renamed("weighted_mean")


def weighted_mean(value: str, weight: str) -> Aggregate:
    """Average numbers by weight: float64, null where the weights add up to zero.

    Examples
    --------
    >>> print(weighted_mean("price", "volume"))
    weighted_mean(price, volume)
    """
    return _weighted_mean(value, weight)


# --- distinct count ---------------------------------------------------------------------------------


@register_jitable
def sigma(x):
    """Correct for registers that were never met (Ertl, arXiv:1702.01284, algorithm 6)."""
    if x == 1.0:
        return math.inf
    y, z, before = 1.0, x, -1.0
    while z != before:
        x *= x
        before = z
        z += x * y
        y += y
    return z


@register_jitable
def tau(x):
    """Correct for registers that are full (the same, algorithm 6)."""
    if x == 0.0 or x == 1.0:
        return 0.0
    y, z, before = 1.0, 1 - x, -1.0
    while z != before:
        x = math.sqrt(x)
        before = z
        y *= 0.5
        z -= (1 - x) ** 2 * y
    return z / 3


class _Distinct:
    def update(state: Any, value):
        h = hash64(value)
        register = np.int64(h >> np.uint64(64 - REGISTER_BITS))
        rest = h << np.uint64(REGISTER_BITS)
        rank = 1
        while rank <= RANKS and np.int64(rest) >= 0:
            rank += 1
            rest = rest << np.uint64(1)
        if rank > state.registers[register]:
            state.registers[register] = rank

    def merge(state: Any, other):
        for i in range(REGISTERS):
            if other.registers[i] > state.registers[i]:
                state.registers[i] = other.registers[i]

    def finish(state: Any):
        counts = np.zeros(RANKS + 2)
        for rank in state.registers:
            counts[rank] += 1
        z = REGISTERS * tau(1 - counts[RANKS + 1] / REGISTERS)
        for rank in range(RANKS, 0, -1):
            z = 0.5 * (z + counts[rank])
        z += REGISTERS * sigma(counts[0] / REGISTERS)
        return round(REGISTERS * REGISTERS / (2 * math.log(2.0) * z)) if z < math.inf else 0


_distinct = aggregator(f"registers array<byte, {REGISTERS}>", "long")(_Distinct).renamed("approx_count_distinct")


def approx_count_distinct(column: str) -> Aggregate:
    """Count different values, about: int64. Nulls do not count.

    HyperLogLog with 4096 registers of a byte, with Ertl's estimator: the standard error is 1.6 %, and
    small counts are nearly exact. A group takes 4 KiB.

    Examples
    --------
    >>> print(approx_count_distinct("user"))
    approx_count_distinct(user)
    """
    return _distinct(column)


# --- quantiles --------------------------------------------------------------------------------------


def _quantile_aggregator(quantile: float, buckets: int) -> Aggregator:
    """A bucket of level 0 covers (γ^(i−1), γ^i]; a level up, two neighbours are one.

    A sign's buckets lie in an array, bucket i at place i modulo `buckets`, and span from its lowest to its
    highest; when they span more, every pair of neighbours is joined, on both sides. The level is thus
    the least at which all values seen fit, whatever came first.
    """
    state = (
        "level int, zeros long, positive_count long, negative_count long, positive_low long, positive_high long, "
        f"negative_low long, negative_high long, positives array<long, {buckets}>, negatives array<long, {buckets}>"
    )

    def update(state, value):
        if value != value:
            return
        if value == 0:
            state.zeros += 1
            return
        # The least and greatest doubles stand in for what has no logarithm to put it into a bucket.
        magnitude = min(max(abs(float(value)), 2.0**-1022), 2.0**1023)
        index = math.ceil(math.log(magnitude) / LOG_GAMMA)
        add(state, value > 0, index, 0, 1)

    def merge(state, other):
        while state.level < other.level:
            collapse(state)
        state.zeros += other.zeros
        if other.positive_count > 0:
            for index in range(other.positive_low, other.positive_high + 1):
                count = other.positives[index % buckets]
                if count > 0:
                    add(state, True, index, other.level, count)
        if other.negative_count > 0:
            for index in range(other.negative_low, other.negative_high + 1):
                count = other.negatives[index % buckets]
                if count > 0:
                    add(state, False, index, other.level, count)

    def finish(state):
        total = state.positive_count + state.negative_count + state.zeros
        if total == 0:
            return None
        rank = math.floor(quantile * (total - 1))
        if rank < state.negative_count:
            seen = 0
            for index in range(state.negative_high, state.negative_low - 1, -1):
                seen += state.negatives[index % buckets]
                if seen > rank:
                    return -middle(index, state.level)
        rank -= state.negative_count + state.zeros
        if rank < 0:
            return 0.0
        seen = 0
        for index in range(state.positive_low, state.positive_high + 1):
            seen += state.positives[index % buckets]
            if seen > rank:
                return middle(index, state.level)
        return middle(state.positive_high, state.level)

    def add(state, positive, index, level, count):
        # An index of an older level moves up with the state.
        while level < state.level:
            index = (index + 1) // 2
            level += 1
        if positive:
            low = min(state.positive_low, index) if state.positive_count > 0 else index
            high = max(state.positive_high, index) if state.positive_count > 0 else index
        else:
            low = min(state.negative_low, index) if state.negative_count > 0 else index
            high = max(state.negative_high, index) if state.negative_count > 0 else index
        while high - low >= buckets:
            collapse(state)
            index, low, high = (index + 1) // 2, (low + 1) // 2, (high + 1) // 2
        if positive:
            state.positive_low, state.positive_high = low, high
            state.positive_count += count
            state.positives[index % buckets] += count
        else:
            state.negative_low, state.negative_high = low, high
            state.negative_count += count
            state.negatives[index % buckets] += count

    def collapse(state):
        joined = np.zeros(buckets, np.int64)
        if state.positive_count > 0:
            join(state.positives, state.positive_low, state.positive_high, joined)
            state.positive_low, state.positive_high = (state.positive_low + 1) // 2, (state.positive_high + 1) // 2
        if state.negative_count > 0:
            join(state.negatives, state.negative_low, state.negative_high, joined)
            state.negative_low, state.negative_high = (state.negative_low + 1) // 2, (state.negative_high + 1) // 2
        state.level += 1

    def join(counts, low, high, joined):
        joined[:] = 0
        for index in range(low, high + 1):
            joined[((index + 1) // 2) % len(joined)] += counts[index % len(joined)]
        for place in range(len(joined)):
            counts[place] = joined[place]

    def middle(index, level):
        # The value whose relative distance to both ends of the bucket is the same.
        gamma = math.exp(LOG_GAMMA * 2.0**level)
        return 2.0 * math.exp(LOG_GAMMA * 2.0**level * index) / (gamma + 1.0)

    functions = {"update": update, "merge": merge, "finish": finish}
    made = aggregator(state=state, returns="double")(type("approx_quantile", (), functions))
    return made.renamed(f"approx_quantile({quantile:g}, {buckets})")


def approx_quantile(column: str, quantile: float, buckets: int = DEFAULT_BUCKETS) -> Aggregate:
    """Give a value below which about a share `quantile` of the numbers lie: float64. Nulls and NaN do not count.

    A histogram of logarithmic buckets (DDSketch with uniform collapse). The result lies within 1 % of
    the exact quantile as long as a group's greatest and smallest magnitude, of either sign, are at most a
    factor of ``1.0202 ** buckets`` apart (28,000 for 512 buckets). Each time the factor squares, the error
    doubles. The result does not depend on the order of rows, nor on how they were split and merged.
    A group takes 16 bytes for each bucket.

    Parameters
    ----------
    quantile
        from 0 to 1; of n numbers in order it means number floor(quantile × (n − 1)), counted from zero.
    buckets
        for each sign.

    Examples
    --------
    >>> print(approx_quantile("latency", 0.99))
    approx_quantile(0.99, 512)(latency)
    """
    if not isinstance(quantile, int | float) or isinstance(quantile, bool) or not 0 <= quantile <= 1:
        raise InvalidArgument.of("quantile", quantile, "a number from 0 to 1")
    if not isinstance(buckets, int) or isinstance(buckets, bool) or not 16 <= buckets <= 65536:
        raise InvalidArgument.of("buckets", buckets, "an int from 16 to 65536")
    return _quantile_aggregator(float(quantile), buckets)(column)


# --- by name ----------------------------------------------------------------------------------------


@lru_cache
def shipped(name: str) -> Aggregator | None:
    """Find one of these functions by the name that an aggregate has in a saved state.

    Examples
    --------
    >>> print(shipped("approx_quantile(0.5, 512)")("latency"), shipped("median"))
    approx_quantile(0.5, 512)(latency) None
    """
    if match := _QUANTILE.fullmatch(name):
        return _quantile_aggregator(float(match[1]), int(match[2]))
    return {"weighted_mean": _weighted_mean, "approx_count_distinct": _distinct}.get(name)


def is_shipped(definition: Aggregator) -> bool:
    """Whether a function is the one that `shipped` finds under its name, and not another of that name.

    Examples
    --------
    >>> is_shipped(approx_quantile("latency", 0.5).definition), is_shipped(approx_quantile("latency", 1 / 3).definition)
    (True, False)
    """
    known = shipped(definition.name)
    return known is not None and all(
        known.functions.get(name) is not None and function.same_code(known.functions[name])
        for name, function in definition.functions.items()
    )
