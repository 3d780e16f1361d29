"""What Spark's Python workers do in a batch, without Spark: encode, the step of a bucket, and decode."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
from millrace.kernels import StatefulQuery
from millrace.kernels import functions as F
from millrace.spark_glue.aggregate_operator import AggregateOperator
from millrace.spark_glue.arrow_schema import arrow_schema
from millrace.spark_glue.buckets import bucket_keys
from millrace.spark_glue.configure import OPTIONS
from millrace.spark_glue.join_condition import analyse
from millrace.spark_glue.join_operator import JoinOperator
from millrace.spark_glue.join_sides import SideInfo
from millrace.spark_glue.operator import Operator
from millrace.spark_glue.pandas_operator import PandasOperator
from millrace.spark_glue.pandas_state import PandasQuery
from millrace.spark_glue.pipeline import numbered_names
from millrace.spark_glue.stateful_operator import StatefulOperator
from millrace.spark_glue.step import BucketStep, Decode, Encode
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

from .inputs import SECOND, SKEWS, ids_of, key_columns, scaled

ROWS = 500_000
BUCKETS = 2
OPERATORS = ("aggregate", "join", "stateful", "unchanged")
KINDS = ("long", "two longs", "string")
KEYS = (1_000, 100_000)
BATCH_ROWS = int(OPTIONS["spark.sql.execution.arrow.maxRecordsPerBatch"])


def rows_of(kind: str, keys: int, skew: str, second: int = 0) -> pa.Table:
    """One second's rows as Spark gives them: a key, a time in UTC and a value."""
    rows = scaled(ROWS)
    columns = key_columns(kind, ids_of(scaled(keys), skew, rows, second))
    times = pa.repeat(pa.scalar(second * SECOND, pa.int64()), rows).cast(pa.timestamp("us", "UTC"))
    return pa.table({**columns, "t": times, "v": pa.array(np.arange(rows))})


def running_count(key, rows, state, out):
    state.n += len(rows)
    out.emit(key.k, state.n)


def unchanged_count(key, pdfs, state):
    n = sum(map(len, pdfs)) + (state.get[0] if state.exists else 0)
    state.update((n,))
    yield pd.DataFrame({"k": [key[0]], "n": [n]})


def unchanged(schema: pa.Schema, keys: tuple[str, ...]) -> PandasOperator:
    """The operator of a function as `applyInPandasWithState` takes it."""
    read = from_arrow_schema(schema)
    state, output = T.StructType().add("n", "long"), T.StructType([read["k"]]).add("n", "long")
    query = PandasQuery(
        unchanged_count, keys, read, schema, state, arrow_schema(state, ["n"], "state"), output,
        arrow_schema(output, ["k", "n"], "output"), "NoTimeout", None, None, "UTC",
    )  # fmt: skip
    return PandasOperator("bench", BUCKETS, query, 2)


def operator_of(name: str, kind: str, schema: pa.Schema) -> Operator:
    """The operator that a query would send to the executors."""
    keys = tuple(column for column in schema.names if column not in ("t", "v"))
    if name == "aggregate":
        aggs = {"n": F.count(), "s": F.sum("v"), "m": F.max("v")}
        return AggregateOperator("bench", BUCKETS, schema, keys, aggs, None, None, True, "update", 2)
    if name == "join":
        sides = [SideInfo(schema, event_time="t")] * 2
        same = " AND ".join(f"left.{key} = right.{key}" for key in keys)
        # Rows meet those of their own second that have the same value: one each, whatever the keys.
        on = f"{same} AND right.t BETWEEN left.t AND left.t + interval 1 second AND left.v = right.v"
        plan = analyse(on, *sides, "inner", time_zone="UTC")
        columns = 2 * len(schema)
        return JoinOperator("bench", BUCKETS, plan, True, 2, tuple(range(columns)), tuple(numbered_names(columns)))
    if name == "unchanged":
        return unchanged(schema, keys)
    key_type = "string" if kind == "string" else "long"
    query = StatefulQuery(schema, keys, "n long", f"k {key_type}, n long", running_count)
    return StatefulOperator("bench", BUCKETS, query, (*keys, "v"), 2)


def sides_of(name: str, operator: Operator, table: pa.Table) -> list[list[pa.RecordBatch]]:
    """The batches that each encode stage gets; both sides of the join get the same rows."""
    if name == "join":
        # The columns that Spark adds for the condition are missing: this one needs none.
        return [table.to_batches(BATCH_ROWS)] * 2
    return [table.select(schema_of(operator).names).to_batches(BATCH_ROWS)]


def schema_of(operator: Operator) -> pa.Schema:
    if isinstance(operator, PandasOperator):
        return operator.query.schema
    return operator.travelling if isinstance(operator, StatefulOperator) else operator.schema  # type: ignore[attr-defined]


def encode(operator: Operator, sides: Sequence[list[pa.RecordBatch]]) -> list[pa.RecordBatch]:
    return [wide for side, batches in enumerate(sides) for wide in Encode(operator, side)(iter(batches))]


class Held:
    """What the step sees of Spark's `GroupState`: a handle, a watermark and a clock."""

    def __init__(self) -> None:
        self.handle: str | None = None
        self.watermark_ms = 0

    @property
    def exists(self) -> bool:
        return self.handle is not None

    @property
    def get(self) -> tuple[str | None]:
        return (self.handle,)

    def update(self, value: tuple[str]) -> None:
        (self.handle,) = value

    def getCurrentWatermarkMs(self) -> int:
        return self.watermark_ms

    def getCurrentProcessingTimeMs(self) -> int:
        return 0

    def setTimeoutTimestamp(self, timestamp_ms: int) -> None:
        pass


class Scenario:
    """Half a million rows a side by operator, kind of key, number of keys and how evenly rows have them."""

    params = (OPERATORS, KINDS, KEYS, SKEWS)
    param_names = ("operator", "key", "keys", "skew")

    def setup(self, name: str, kind: str, keys: int, skew: str) -> None:
        table = rows_of(kind, keys, skew)
        if name == "join" and skew == "skewed":
            # A hot key pairs every row with every other one: that is the join's own benchmark.
            raise NotImplementedError
        if name == "unchanged" and (kind, skew) != ("long", "even"):
            # Python is called once a key, whatever the key is, and that is what takes the time.
            raise NotImplementedError
        self.operator = operator_of(name, kind, table.schema)
        self.sides = sides_of(name, self.operator, table)
        self.wide = encode(self.operator, self.sides)


class Encoding(Scenario):
    """Rows → blobs by bucket."""

    def time_encode(self, *scenario: object) -> None:
        encode(self.operator, self.sides)

    def peakmem_encode(self, *scenario: object) -> None:
        encode(self.operator, self.sides)

    def track_bytes_per_row(self, *scenario: object) -> float:
        """Bytes that cross the shuffle."""
        rows = sum(batch.num_rows for batches in self.sides for batch in batches)
        return sum(wide.nbytes for wide in self.wide) / rows

    track_bytes_per_row.unit = "bytes"  # type: ignore[attr-defined]


class Stepping(Scenario):
    """A steady batch of one bucket: its state loaded, its parcels worked in, the state written again."""

    def setup(self, *scenario) -> None:
        super().setup(*scenario)
        joins = isinstance(self.operator, JoinOperator)
        self.bucket = bucket_keys(BUCKETS)[0]
        self.step = BucketStep(self.operator, "inline", joins, "EventTimeTimeout" if joins else "NoTimeout")
        self.frames = [f[f["bucket"] == self.bucket] for f in (wide.to_pandas() for wide in self.wide)]
        self.begun = self.after_a_batch(Held())

    def after_a_batch(self, state: Held) -> str:
        self.results = list(self.step((self.bucket,), iter(self.frames), state))  # type: ignore[arg-type]
        assert state.handle is not None
        return state.handle

    def time_step(self, *scenario: object) -> None:
        state = Held()
        state.handle = self.begun
        self.after_a_batch(state)

    def peakmem_step(self, *scenario: object) -> None:
        """Of the process, inputs included: to compare between commits."""
        self.time_step()

    def track_handle_bytes(self, *scenario: object) -> int:
        """Bytes that Spark's state store holds for the bucket: its text is ASCII."""
        return len(self.begun)

    track_handle_bytes.unit = "bytes"  # type: ignore[attr-defined]


class Decoding(Stepping):
    """Blobs → result rows."""

    def setup(self, *scenario) -> None:
        super().setup(*scenario)
        blobs = pd.concat(self.results)["blob"].dropna()
        self.blobs = pa.record_batch({"blob": pa.array(blobs, pa.binary())})

    def time_decode(self, *scenario: object) -> None:
        for _ in self.decoded():
            pass

    def decoded(self) -> Iterator[pa.RecordBatch]:
        return Decode()(iter([self.blobs]))
