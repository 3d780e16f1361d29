"""What `millrace state` knows of a checkpoint: plain data, from which it prints tables or JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import types as T

from ..kernels.state_rows import COMPUTED
from ..kernels.time_bounds import SIDES
from .checkpoint import Checkpoint, StoredOperator
from .read_state import summaries

# Operators by what their states call them.
KINDS = {"stateful": "compiled function", "stateful-pandas": "unchanged function"}


@dataclass(frozen=True)
class BucketReport:
    """One bucket of an operator."""

    bucket: int
    partition: int
    rows: dict[str, int]
    bytes: int
    watermark: str | None
    format_version: int | None
    error: str | None


@dataclass(frozen=True)
class OperatorReport:
    """One stateful operator; of Spark's own no more than its name."""

    operator: int
    spark_name: str
    kind: str | None
    name: str | None
    does: str | None
    buckets: list[BucketReport]
    is_millrace: bool = True


def report_on(spark: SparkSession, checkpoint: Checkpoint, operator: StoredOperator, batch: int) -> OperatorReport:
    """Look at every bucket of an operator."""
    if not operator.is_millrace:
        return OperatorReport(operator.number, operator.spark_name, None, None, None, [], False)
    rows = sorted(summaries(spark, checkpoint, operator, batch), key=lambda row: row.bucket)
    headers = [json.loads(row.header) if row.header else {} for row in rows]
    header: dict[str, Any] = next(filter(None, headers), {})
    kind = header.get("operator")
    buckets = [_bucket(row, header) for row, header in zip(rows, headers, strict=True)]
    does = described(kind, header["query"], header.get("state_type")) if header else None
    return OperatorReport(
        operator.number, operator.spark_name, KINDS.get(kind or "", kind), header.get("name"), does, buckets
    )


def _bucket(row: Any, header: Mapping[str, Any]) -> BucketReport:
    names = SIDES if header.get("operator") == "join" else ("rows",)
    counts = dict(zip(names, header.get("rows", []), strict=False))
    watermark = utc_time(header.get("watermark_ms"))
    error = None if row.error is None else row.error.partition(": ")[2]
    return BucketReport(row.bucket, row.partition, counts, row.bytes or 0, watermark, row.version, error)


def utc_time(milliseconds: int | None) -> str | None:
    """A time as text.

    Examples
    --------
    >>> utc_time(1_500), utc_time(None)
    ('1970-01-01 00:00:01.500Z', None)
    """
    if milliseconds is None:
        return None
    time = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return time_text(time, "milliseconds" if milliseconds % 1000 else "seconds")


def time_text(time: datetime, precision: str = "auto") -> str:
    """A time with its zone, UTC as Z.

    Examples
    --------
    >>> time_text(datetime(2026, 1, 1, 12, tzinfo=UTC))
    '2026-01-01 12:00:00Z'
    """
    return time.isoformat(" ", precision).replace("+00:00", "Z")


def described(kind: str | None, query: Mapping[str, Any], state_type: Mapping[str, Any] | None = None) -> str | None:
    """Say what an operator does, as far as its state tells.

    Examples
    --------
    >>> described("aggregate", {"keys": [["user", "string"]], "aggs": [["n", "count(*)", []]], "window": None})
    'n = count(*) by user'
    >>> described("join", {"keys": [["ad", "click_ad"]], "how": "left_outer"})
    'left_outer on ad = click_ad'
    """
    if kind == "join":
        pairs = [[_said(column) for column in pair] for pair in query["keys"]]
        return f"{query['how']} on {' AND '.join(f'{left} = {right}' for left, right in pairs)}"
    keys = [name for name, _ in query["keys"]]
    if kind == "aggregate":
        window = query["window"]
        keys = [*([f"window({window[0]}, {seconds(window[1])})"] if window else []), *keys]
        return _by(keys, [f"{name} = {function}" for name, function, _ in query["aggs"]])
    fields = T.StructType.fromJson(state_type) if state_type else None  # type: ignore[arg-type]
    types = query["state"] if fields is None else [(f.name, f.dataType.simpleString()) for f in fields]
    return _by(keys, [f"{name} {data_type}" for name, data_type in types])


def _said(column: str) -> str:
    """A join's key; one that was computed has a name of no meaning."""
    return "(expression)" if column.startswith(COMPUTED) else column


def _by(keys: Sequence[str], values: Sequence[str]) -> str:
    return ", ".join(values) + (f" by {', '.join(keys)}" if keys else "")


def seconds(microseconds: int) -> str:
    """A window's size.

    Examples
    --------
    >>> seconds(600_000_000), seconds(1_500_000)
    ('600 s', '1.5 s')
    """
    return f"{microseconds / 1e6:g} s"
