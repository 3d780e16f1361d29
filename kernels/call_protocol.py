"""What happens around each call of a stateful function: Spark's InputProcessor, one key at a time.

A short array of words, the *call header*, carries what the function may ask and what it has done. The
views hold its address; `begin_call` and `end_call` stand around every call. The first word of every
record has two marks of its own: whether the key is stored, and whether its state exists (a stored key
without state has a timeout that waits, or had one).
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numba.extending import register_jitable

from .raw_memory import address_of, load_word_at, store_word_at
from .timeouts import BLOCK_SHIFT

CALL_WORDS = 16
(CALL, DONE, TIMEOUT, TIMED_OUT, BATCH_TIME, WATERMARK, HAS_WATERMARK, ARENA,
 FAILURE, FAILED_VALUE, UPDATED_COUNT, REMOVED_COUNT, DROPPED_COUNT) = range(13)  # fmt: skip

STORED, EXISTS = 1, 2  # marks of a record
OWN_MARKS = 2
UPDATED, REMOVED = 1, 2  # what a call has done
NO_TIMEOUT = -1
NOT_POSITIVE, BEFORE_WATERMARK, WITHOUT_WATERMARK = 1, 2, 3  # failures that Spark has a message for


@register_jitable
def fail(header, failure, value):
    """Raise one of Spark's errors; Python finds out from the header which one."""
    store_word_at(header, FAILURE, failure)
    store_word_at(header, FAILED_VALUE, value)
    raise ValueError("refused by Spark's rules")


@register_jitable
def set_duration(header, duration_ms):
    """setTimeoutDuration"""
    if duration_ms <= 0:
        fail(header, NOT_POSITIVE, duration_ms)
    store_word_at(header, TIMEOUT, load_word_at(header, BATCH_TIME) + duration_ms)


@register_jitable
def set_timestamp(header, timestamp_ms):
    """setTimeoutTimestamp"""
    if timestamp_ms <= 0:
        fail(header, NOT_POSITIVE, timestamp_ms)
    if load_word_at(header, HAS_WATERMARK) != 0 and timestamp_ms < load_word_at(header, WATERMARK):
        fail(header, BEFORE_WATERMARK, timestamp_ms)
    store_word_at(header, TIMEOUT, timestamp_ms)


@register_jitable
def current_watermark(header):
    """getCurrentWatermarkMs"""
    if load_word_at(header, HAS_WATERMARK) == 0:
        fail(header, WITHOUT_WATERMARK, 0)
    return load_word_at(header, WATERMARK)


@njit(cache=True, nogil=True)
def begin_call(header, call, records, group):
    """Set the header up for a call; gives the address of the key's record."""
    header[CALL] = call
    header[DONE] = 0
    header[TIMEOUT] = NO_TIMEOUT
    return address_of(records) + np.int64(group) * records.shape[1] * 8


@njit(cache=True, nogil=True)
def end_call(header, group, records, timeouts, earliest, dropped):
    """Store, or forget, what a call has left; `dropped` collects the keys that are not stored now."""
    done, timeout = header[DONE], header[TIMEOUT]
    if done == REMOVED and timeout == NO_TIMEOUT:
        records[group, 0] = 0
        timeouts[group] = NO_TIMEOUT
        header[REMOVED_COUNT] += 1
    elif done != 0 or timeout != timeouts[group]:
        records[group, 0] |= STORED
        timeouts[group] = timeout
        header[UPDATED_COUNT] += 1
        if timeout != NO_TIMEOUT:
            block = group >> BLOCK_SHIFT
            earliest[block] = min(earliest[block], timeout)
    if records[group, 0] & STORED == 0:
        dropped[header[DROPPED_COUNT]] = group
        header[DROPPED_COUNT] += 1
