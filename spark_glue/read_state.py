"""`read_state`: what an operator knows after a batch, as a frame."""

from __future__ import annotations

import os

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from ..kernels.errors import InvalidArgument, StateFormatError
from .checkpoint import Checkpoint, StoredOperator, open_checkpoint, reason
from .stored_state import SUMMARY, DecodeState, Summarise


def read_state(
    spark: SparkSession, checkpoint: str | os.PathLike[str], *, operator: int | None = None, batch: int | None = None
) -> DataFrame:
    """Read the state of an operator out of a query's checkpoint, decoded: its keys and values.

    The query may be running or stopped, and its code is not needed. Spark's own ``statestore`` source reads the
    checkpoint, so that every state store works, and executors decode the buckets.

    Parameters
    ----------
    checkpoint
        the path that the query was given as ``checkpointLocation``.
    operator
        number of the stateful operator, which ``millrace state`` lists; the only one of Millrace's by default.
    batch
        the state after this batch, of those that Spark retains; the last one by default.

    Returns
    -------
    DataFrame
        - of an aggregation a row per group, as complete mode would give it: window, keys and results. A
          user-defined aggregate, whose functions the state does not have, shows its accumulators in a struct;
        - of a join a row per stored row: ``side``, ``matched`` and the structs ``left`` and ``right``, of which
          one is null. ``matched`` is null in state format version 1;
        - of a stateful function a row per key: the key's columns, the struct ``state`` and ``timeout``. The
          state is null for a key that only waits for its timeout.

    Raises
    ------
    InvalidArgument
        there is no such checkpoint, operator or retained batch.
    StateFormatError
        the state is damaged.

    Examples
    --------
    .. code-block:: python

        from millrace import spark_glue as mr

        groups = mr.read_state(spark, "/checkpoints/counts")
        groups.where("user = 'ann'").show()
        before = mr.read_state(spark, "/checkpoints/counts", batch=41)
        groups.exceptAll(before).show()
    """
    if not hasattr(spark, "createDataFrame"):
        raise InvalidArgument.of("spark", spark, "a SparkSession")
    opened = open_checkpoint(spark, checkpoint)
    chosen = opened.operator(operator)
    return decoded(spark, opened, chosen, opened.batch(batch))


def decoded(spark: SparkSession, checkpoint: Checkpoint, operator: StoredOperator, batch: int) -> DataFrame:
    """The rows of an operator's state after a batch."""
    rows = summaries(spark, checkpoint, operator, batch, limit=1)
    if not rows:
        raise InvalidArgument(
            f"checkpoint: operator {operator.number} of {checkpoint.path!r} has no state after batch {batch}"
        )
    if rows[0].error is not None:
        raise StateFormatError(f"operator {operator.number}, batch {batch}, {rows[0].error}")
    schema = pa.ipc.read_schema(pa.py_buffer(bytes(rows[0].columns)))
    stored = checkpoint.stored(spark, operator, batch)
    return stored.mapInArrow(DecodeState(schema), from_arrow_schema(schema, prefer_timestamp_ntz=True))


def summaries(
    spark: SparkSession, checkpoint: Checkpoint, operator: StoredOperator, batch: int, limit: int | None = None
) -> list:
    """What each bucket holds, or what is wrong with it (see `SUMMARY`)."""
    stored = checkpoint.stored(spark, operator, batch).mapInArrow(Summarise(), SUMMARY)
    try:
        return (stored if limit is None else stored.limit(limit)).collect()
    except Exception as error:  # Py4J's own, where Spark's Python does not know the error
        raise StateFormatError(
            f"operator {operator.number}, batch {batch}: the state cannot be read: {reason(error)}"
        ) from error
