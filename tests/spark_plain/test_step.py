"""The step of a bucket without Spark: what it says of a state that it cannot go on from; it leaves that alone."""

from __future__ import annotations

import struct
import zlib

import pandas as pd
import pyarrow as pa
import pytest
import xxhash
from millrace.kernels import StateFormatError
from millrace.kernels import functions as F
from millrace.spark_glue.aggregate_operator import AggregateOperator
from millrace.spark_glue.buckets import bucket_keys
from millrace.spark_glue.state_backend import InlineBackend
from millrace.spark_glue.step import BucketStep, Encode

SCHEMA = pa.schema({"k": pa.int64()})


class Held:
    """What the step sees of Spark's `GroupState`."""

    def __init__(self) -> None:
        self.value: tuple[str] | None = None

    @property
    def exists(self) -> bool:
        return self.value is not None

    @property
    def get(self) -> tuple[str] | None:
        return self.value

    def update(self, value: tuple[str]) -> None:
        self.value = value

    def getCurrentProcessingTimeMs(self) -> int:
        return 0


def operator(buckets: int = 1) -> AggregateOperator:
    aggs = {"n": F.count()}
    return AggregateOperator("counts", buckets, SCHEMA, ("k",), aggs, None, None, True, "update", 2)


def run(held: Held, given: AggregateOperator) -> pd.DataFrame:
    rows = pa.record_batch([[1, 2, 1]], schema=SCHEMA)
    frames = [wide.to_pandas() for wide in Encode(given)(iter([rows]))]
    bucket = bucket_keys(given.buckets)[0]
    return pd.concat(BucketStep(given, "inline", False, "NoTimeout")((bucket,), iter(frames), held))


def with_version(state: bytes, version: int) -> bytes:
    """The same state as a later version would write it: all checksums are right."""
    preamble = state[:8] + struct.pack("<H", version) + state[10:24]
    body = preamble + struct.pack("<I", zlib.crc32(preamble)) + state[28:-8]
    return body + struct.pack("<Q", xxhash.xxh3_64_intdigest(body))


def test_a_newer_format_is_refused_by_name_and_kept():
    held, backend = Held(), InlineBackend()
    run(held, operator())
    newer = (backend.commit(with_version(bytes(backend.open(held.get[0])), 3)),)
    held.update(newer)
    with pytest.raises(StateFormatError, match=r"aggregate 'counts', bucket \d+: .*format version 3"):
        run(held, operator())
    assert held.get == newer


def test_damage_is_found_before_anything_is_done():
    held, backend = Held(), InlineBackend()
    run(held, operator())
    state = bytearray(backend.open(held.get[0]))
    state[len(state) // 2] ^= 1
    damaged = (backend.commit(bytes(state)),)
    held.update(damaged)
    with pytest.raises(StateFormatError, match=r"aggregate 'counts', bucket \d+: .*damaged"):
        run(held, operator())
    assert held.get == damaged
