"""Two inputs to join, and types of what Spark would compute from them."""

from __future__ import annotations

import pyarrow as pa
from millrace.spark_glue.join_condition import SideInfo, analyse

TIME = pa.timestamp("us", "UTC")
WINDOW = pa.struct({"start": TIME, "end": TIME})
POINT = pa.struct({"x": pa.int32(), "y": pa.struct({"z": pa.string()})})
LEFT = pa.schema(
    {
        "k": pa.int32(), "n": pa.int64(), "s": pa.string(), "x": pa.float64(), "d": pa.decimal128(10, 2),
        "flag": pa.bool_(), "lt": TIME, "day": pa.date32(), "local": pa.timestamp("us"), "gap": pa.duration("us"),
        "w": WINDOW, "p": POINT, "tags": pa.list_(pa.int32()), "odd name": pa.int32(), "a.b": pa.int32(),
        "both": pa.int32(),
    }
)  # fmt: skip
RIGHT = pa.schema(
    {
        "rk": pa.int32(), "rn": pa.int64(), "rs": pa.string(), "rx": pa.float64(), "rd": pa.decimal128(12, 1),
        "rflag": pa.bool_(), "rt": TIME, "rday": pa.date32(), "rlocal": pa.timestamp("us"), "rgap": pa.duration("us"),
        "rw": WINDOW, "rp": POINT, "both": pa.int64(),
    }
)  # fmt: skip
STARTS = {
    "lower": pa.string(), "TRIM": pa.string(), "length": pa.int32(), "date_trunc": TIME, "element_at": pa.int32(),
    "array": pa.int32(),
    "`k` + 1": pa.int32(), "`lt` + INTERVAL": TIME, "`lt` + make_dt_interval": TIME, "unix_timestamp": pa.int64(),
    "`rt` - INTERVAL": TIME, "explode": pa.int32(),
}  # fmt: skip
ENDS = {
    "AS INT)": pa.int32(), "AS BIGINT)": pa.int64(), "AS DATE)": pa.date32(),
    "AS TIMESTAMP)": TIME, "AS TIMESTAMP_NTZ)": pa.timestamp("us"),
}  # fmt: skip


def type_of(sql: str) -> pa.DataType:
    """The types that Spark tells of the expressions in these tests; those not listed are conditions."""
    known = [t for start, t in STARTS.items() if sql.startswith(start)]
    return next(
        iter(known + [t for end, t in ENDS.items() if sql.startswith("CAST(") and sql.endswith(end)]), pa.bool_()
    )


def plan(on, how="inner", left_time=None, right_time=None, **options):
    left = SideInfo(LEFT, ["a", "clicks"], left_time, type_of)
    return analyse(on, left, SideInfo(RIGHT, ["b"], right_time, type_of), how, **options)
