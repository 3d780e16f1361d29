"""A query's checkpoint as Spark's own sources of state tell of it: its batches and its stateful operators."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ..kernels.errors import InvalidArgument, MillraceError
from .pipeline import STATE
from .retained import first_retained

# What Spark calls the function that every operator of Millrace is to it.
SPARK_NAME = "applyInPandasWithState"
_RAISED = re.compile(r"millrace\.kernels\.errors\.\w+: (.*)")
_CONDITION = re.compile(r"\[[A-Z][A-Z0-9_.]+\] .+")
_PYTHON = re.compile(r"^(?:\w+\.)*\w+(?:Error|Exception): .+$", re.MULTILINE)


@dataclass(frozen=True)
class StoredOperator:
    """One stateful operator of a query, Millrace's or Spark's own."""

    number: int
    spark_name: str
    is_millrace: bool


@dataclass(frozen=True)
class Checkpoint:
    """A query's checkpoint: which batches' state it still has, and of which operators."""

    path: str
    first: int
    last: int
    operators: tuple[StoredOperator, ...]

    def batch(self, wanted: int | None) -> int:
        """The batch to read, the last committed one by default."""
        if wanted is None:
            return self.last
        if not isinstance(wanted, int) or isinstance(wanted, bool) or not self.first <= wanted <= self.last:
            accepted = f"a batch whose state is retained: {self.first} to {self.last}"
            raise InvalidArgument.of(
                "batch", wanted, accepted if self.first < self.last else f"{self.last}, the only one"
            )
        return wanted

    def operator(self, wanted: int | None) -> StoredOperator:
        """The operator to read: the only one of Millrace's by default."""
        ours = [operator for operator in self.operators if operator.is_millrace]
        known = ", ".join(f"{o.number} ({'Millrace' if o.is_millrace else o.spark_name})" for o in self.operators)
        if not ours:
            raise InvalidArgument(
                f"checkpoint: {self.path!r} has no operator of Millrace; its stateful operators are {known or 'none'}"
            )
        if wanted is None and len(ours) > 1:
            raise InvalidArgument(f"operator: none is chosen and there are several, accepted is one of {known}")
        found = [operator for operator in ours if wanted is None or operator.number == wanted]
        if not found or isinstance(wanted, bool):
            numbers = " or ".join(str(operator.number) for operator in ours)
            raise InvalidArgument.of("operator", wanted, f"{numbers}, the number of an operator of Millrace")
        return found[0]

    def stored(self, spark: SparkSession, operator: StoredOperator, batch: int) -> DataFrame:
        """What the state store held of an operator after a batch: bucket, its partition and its handle."""
        rows = _store(spark, self.path, operator.number, batch)
        return rows.select(
            F.col("key.bucket").alias("bucket"),
            F.col("partition_id").alias("partition"),
            F.col("value.groupState.handle").alias("handle"),
        )


def open_checkpoint(spark: SparkSession, path: str | os.PathLike[str]) -> Checkpoint:
    """Find out what a checkpoint holds; nothing is written."""
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise InvalidArgument.of("checkpoint", path, "the path of a query's checkpoint")
    path = str(os.fspath(path))
    _require_checkpoint(spark, path)
    rows = spark.read.format("state-metadata").load(path).collect()
    numbers = {row.operatorId: row.operatorName for row in rows}
    if not numbers:
        raise InvalidArgument(f"checkpoint: {path!r} has no stateful operator, accepted is that of a query with one")
    first, last = rows[0].minBatchId, rows[0].maxBatchId
    if last < 0:
        raise InvalidArgument(f"checkpoint: {path!r} has no finished batch yet, accepted is a query's that has run")
    operators = [
        StoredOperator(number, name, name == SPARK_NAME and _holds_handles(spark, path, number, last))
        for number, name in sorted(numbers.items())
    ]
    retained = [first_retained(_files(spark, path, o.number), first, last) for o in operators if o.is_millrace]
    return Checkpoint(path, max(retained, default=first), last, tuple(operators))


def _require_checkpoint(spark: SparkSession, path: str) -> None:
    """Refuse what is no checkpoint before Spark's sources look at it: they make the folders that they miss."""
    if _exists(spark, f"{path.rstrip('/')}/metadata"):
        return
    if not _exists(spark, path):
        raise InvalidArgument(f"checkpoint: there is no {path!r}, accepted is the path of a query's checkpoint")
    raise InvalidArgument(
        f"checkpoint: {path!r} is not that of a query, for it has no file 'metadata'; accepted is the path that was "
        "given as checkpointLocation"
    )


def _exists(spark: SparkSession, path: str) -> bool:
    try:
        return bool(_listing(spark, path).schema)
    except PySparkException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            return False
        raise MillraceError(f"checkpoint: {path!r} cannot be read: {first_line(error)}") from None


def _files(spark: SparkSession, path: str, number: int) -> list[str]:
    """Files of an operator's state; the first partition stands for all, for each writes in every batch."""
    try:
        return [row.path for row in _listing(spark, f"{path.rstrip('/')}/state/{number}/0").select("path").collect()]
    except PySparkException:
        return []


def _listing(spark: SparkSession, path: str) -> DataFrame:
    """Files as Spark lists them, unread."""
    # Spark takes some signs in a path for patterns.
    literal = re.sub(r"([\[\]{}*?\\])", r"\\\1", path)
    return spark.read.format("binaryFile").load(literal)


def _holds_handles(spark: SparkSession, path: str, number: int, batch: int) -> bool:
    """Whether an operator's state is what Millrace keeps there; a user's own function keeps something else."""
    schema = _store(spark, path, number, batch).schema
    value = {field.name: field.dataType for field in schema["value"].dataType}  # type: ignore[attr-defined]
    state = value.get("groupState")
    return state is not None and getattr(state, "names", None) == STATE.names


def _store(spark: SparkSession, path: str, number: int, batch: int) -> DataFrame:
    return spark.read.format("statestore").option("batchId", batch).option("operatorId", number).load(path)


def reason(error: BaseException) -> str:
    """Say in one line why Spark failed: in Millrace's words, if it was Millrace that raised on an executor."""
    message = str(error)
    raised = _RAISED.findall(message) or _PYTHON.findall(message)
    if raised:
        return raised[-1]
    condition = _CONDITION.search(message)
    return condition[0] if condition else first_line(error)


def first_line(error: BaseException) -> str:
    """The first line of a message."""
    lines: Sequence[str] = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0]
