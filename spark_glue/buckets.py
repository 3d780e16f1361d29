"""Bucket keys that land evenly on Spark's shuffle partitions.

Keys are spread over a fixed number of buckets by their hash. Each bucket travels under an int of its
own, and Spark puts an int on partition ``pmod(murmur3(int, seed 42), partitions)``. Numbering buckets
0 … n − 1 would leave some partitions with several buckets and others with none; so the ints are chosen
by where they land.
"""

from __future__ import annotations

from functools import lru_cache

from ..kernels.errors import InvalidArgument

MAX_BUCKETS = 10_000
_SEED = 42
_MASK = 0xFFFFFFFF


@lru_cache
def bucket_keys(count: int) -> tuple[int, ...]:
    """Give one int per bucket, each on a partition of its own where there are as many partitions as buckets.

    They are as even where one of the two numbers divides the other. The first is always 0, so that a
    query with another number of buckets meets at least that one's state, and can be refused.

    Examples
    --------
    >>> keys = bucket_keys(4)
    >>> sorted(spark_partition(key, 4) for key in keys), keys[0]
    ([0, 1, 2, 3], 0)
    """
    taken = {spark_partition(0, count)}
    keys, key = [0], 0
    while len(keys) < count:
        key += 1
        partition = spark_partition(key, count)
        if partition not in taken:
            taken.add(partition)
            keys.append(key)
    return tuple(keys)


def check_buckets(buckets: object) -> int:
    """Refuse what is not a sensible number of buckets."""
    if not isinstance(buckets, int) or isinstance(buckets, bool) or not 1 <= buckets <= MAX_BUCKETS:
        raise InvalidArgument.of("buckets", buckets, f"an int from 1 to {MAX_BUCKETS}")
    return buckets


def spark_partition(key: int, partitions: int) -> int:
    """Tell which of `partitions` shuffle partitions Spark puts an int key on.

    Examples
    --------
    >>> spark_partition(1, 200)
    43
    """
    return _signed(murmur3(key)) % partitions


def murmur3(value: int) -> int:
    """Hash one 32-bit int as Spark's ``hash`` function does; gives an unsigned 32-bit number."""
    k = _rotated(value * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK
    h = (_rotated(_SEED ^ k, 13) * 5 + 0xE6546B64) & _MASK
    h ^= 4  # the number of bytes
    h = (h ^ (h >> 16)) * 0x85EBCA6B & _MASK
    h = (h ^ (h >> 13)) * 0xC2B2AE35 & _MASK
    return h ^ (h >> 16)


def _rotated(word: int, by: int) -> int:
    return (word << by | word >> (32 - by)) & _MASK


def _signed(word: int) -> int:
    return word - (1 << 32) if word >> 31 else word
