"""The process that Spark forks Python workers from, with Millrace imported beforehand.

Importing pyarrow, pandas and Numba takes a fresh worker about a second, and each task ends in a garbage
collection over all that they allocated. Here it is done once, before any worker is forked, and then
frozen. Set ``spark.python.daemon.module`` to this module's name; `configure` does.
"""

from __future__ import annotations

import gc
import os


def warm() -> None:
    """Import what workers need and load the kernels of the hottest cases.

    No thread may be running when workers are forked: Arrow is held to the calling thread.
    """
    import pyarrow as pa

    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    import pandas  # noqa: F401
    import pyspark.worker  # noqa: F401

    from ..kernels import Aggregation, GroupState, functions, window

    schema = pa.schema({"k": pa.int64(), "ts": pa.timestamp("us", "UTC"), "v": pa.int64()})
    aggs = {"n": functions.count(), "total": functions.sum("v"), "hi": functions.max("v")}
    rows = pa.RecordBatch.from_pydict({"k": [1], "ts": [1], "v": [1]}, schema)
    for time_window in (None, window("ts", "1 minute")):
        query = Aggregation(schema, ["k"], aggs, time_window, "ts" if time_window else None)
        state = GroupState(query, "update")
        state.process(rows)
        GroupState.from_bytes(query, "update", state.to_bytes())


def main() -> None:
    """Run Spark's own daemon, warmed up."""
    from pyspark import daemon

    os.environ.setdefault("OMP_NUM_THREADS", "1")
    warm()
    gc.collect()
    gc.freeze()
    daemon.manager()


if __name__ == "__main__":
    main()
