"""The package as such: what it needs, what it refuses, and how its loops are compiled."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
import time

import millrace.kernels
import pandas
import pyarrow as pa
import pytest
from millrace.kernels import Aggregation, GroupState, InvalidArgument, MillraceError, UnsupportedType, window
from millrace.kernels import functions as F
from numba.core.registry import CPUDispatcher

SCHEMA = pa.schema({"user": pa.string(), "ts": pa.timestamp("us"), "n": pa.int64(), "tags": pa.list_(pa.string())})


def test_kernels_import_where_pyspark_is_absent():
    code = """
import sys
sys.modules["pyspark"] = None  # importing it fails from here on
import pkgutil, importlib, millrace.kernels as k
for module in pkgutil.walk_packages(k.__path__, k.__name__ + "."):
    importlib.import_module(module.name)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_second_process_finds_compiled_kernels_on_disk():
    code = """
import pyarrow as pa
from millrace.kernels import Aggregation, aggregate, functions as F
batch = pa.record_batch({"k": [1, 2, 1], "v": [1, 2, 3]})
aggregate(Aggregation(batch.schema, ["k"], {"n": F.count(), "s": F.sum("v"), "hi": F.max("v")}), batch)
from millrace.kernels import accumulate, hash_table
for kernel in (hash_table.upsert_word, accumulate.add_int_checked, accumulate.keep_greatest):
    assert not kernel.stats.cache_misses, kernel
"""
    for _ in range(2):
        started = time.perf_counter()
        outcome = subprocess.run([sys.executable, "-c", code], check=False, stderr=subprocess.DEVNULL)
    assert outcome.returncode == 0 and time.perf_counter() - started < 20


def kernels() -> list[tuple[str, CPUDispatcher]]:
    found = []
    for info in pkgutil.walk_packages(millrace.kernels.__path__, millrace.kernels.__name__ + "."):
        module = importlib.import_module(info.name)
        found += [(n, k) for n, k in vars(module).items() if isinstance(k, CPUDispatcher)]
    return found


def test_every_kernel_is_cached_and_releases_the_interpreter():
    for name, kernel in kernels():
        options = kernel.targetoptions
        assert options.get("nogil") and not options.get("parallel") and not options.get("fastmath"), name
        assert type(kernel._cache).__name__ != "NullCache", name


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"keys": ["usr"]}, "keys: there is no column 'usr' .did you mean 'user'"),
        ({"keys": "user"}, "keys: got 'user', accepted is a list of column names"),
        ({"keys": ["tags"]}, "keys: column 'tags' is list.* accepted are"),
        ({"aggs": {}}, "aggs: got {}, accepted is a dict of at least one"),
        ({"aggs": [F.count()]}, "aggs: got .*, accepted is a dict"),
        ({"keys": 3}, "keys: got 3, accepted is a list of column names"),
        ({"aggs": {"x": "sum"}}, r"aggs\['x'\]: got 'sum', accepted is an aggregate function: count"),
        ({"aggs": {"x": F.sum("m")}}, r"aggs\['x'\]: there is no column 'm'"),
        ({"aggs": {"user": F.count()}}, "output names must differ, 'user' would come twice"),
        ({"aggs": {"window": F.count()}, "window": window("ts", 1)}, "'window' would come twice"),
        ({"keys": ["user", "user"]}, "'user' would come twice"),
        ({"window": window("n", 1)}, "window: column 'n' is int64, accepted is timestamp"),
        ({"window": window("tss", 1)}, "window: there is no column 'tss' .did you mean 'ts'"),
        ({"window": "1 minute"}, "window: got '1 minute', accepted is window"),
        ({"event_time": "n"}, "event_time: column 'n' is int64, accepted is timestamp"),
        ({"schema": {"a": "int"}}, "schema: got .* accepted is a pyarrow.Schema"),
        ({"schema": pa.schema([("a", pa.int8()), ("a", pa.int8())])}, "schema: column names must differ, 'a'"),
    ],
)
def test_queries_that_cannot_be(changes, message):
    wanted = {"schema": SCHEMA, "keys": ["user"], "aggs": {"n_rows": F.count()}} | changes
    with pytest.raises(InvalidArgument, match=message):
        Aggregation(**wanted)


def test_modes_that_cannot_be():
    plain = Aggregation(SCHEMA, ["user"], {"rows": F.count()})
    with pytest.raises(InvalidArgument, match="output_mode: got 'upsert', accepted is 'append', 'update' or 'comp"):
        GroupState(plain, "upsert")
    with pytest.raises(InvalidArgument, match=r"append.* accepted is append only if the event_time"):
        GroupState(plain, "append")
    with pytest.raises(InvalidArgument, match="append"):
        GroupState(Aggregation(SCHEMA, ["user"], {"rows": F.count()}, event_time="ts"), "append")


def test_a_batch_that_does_not_fit_the_schema():
    query = Aggregation(SCHEMA, ["user"], {"total": F.sum("n")})
    state = GroupState(query, "update")
    with pytest.raises(InvalidArgument, match="batch: there is no column 'n'; the columns are user"):
        state.process(pa.record_batch({"user": ["a"]}))


def test_a_batch_of_the_wrong_type():
    state = GroupState(Aggregation(SCHEMA, ["user"], {"total": F.sum("n")}), "update")
    with pytest.raises(InvalidArgument, match="batch: column 'n' is string, accepted is int64"):
        state.process(pa.record_batch({"user": ["a"], "n": ["many"]}))
    # Nothing of it was taken in, so the state goes on.
    rows = state.process(pa.record_batch({"user": ["a"], "n": [2]})).rows
    assert rows.to_pylist() == [{"user": "a", "total": 2}]


def test_a_batch_that_failed_halfway_spoils_the_state():
    state = GroupState(Aggregation(SCHEMA, ["user"], {"total": F.sum("n")}), "update")
    good, bad = pa.record_batch({"user": ["a"], "n": [1]}), pa.record_batch({"user": ["a"]})
    with pytest.raises(InvalidArgument):
        state.process([good, bad])
    for call in (state.process, state.to_bytes):
        with pytest.raises(MillraceError, match="failed in the middle of a batch; load it again"):
            call()


def test_partials_of_another_query():
    query = Aggregation(SCHEMA, ["user"], {"total": F.sum("n")})
    state = GroupState(query, "update")
    with pytest.raises(InvalidArgument, match="not partials of this query"):
        state.process(partials=pa.record_batch({"user": ["a"]}))


def test_a_refused_type_is_an_invalid_argument_and_a_value_error():
    assert issubclass(UnsupportedType, InvalidArgument) and issubclass(InvalidArgument, ValueError)


@pytest.mark.parametrize("data", ["abc", 7, {"user": ["a"]}, [1], [None], pandas.DataFrame({"user": ["a"]})])
def test_data_that_is_not_arrow(data):
    state = GroupState(Aggregation(SCHEMA, ["user"], {"rows": F.count()}), "update")
    with pytest.raises(InvalidArgument, match=r"data: got .*, accepted is a pyarrow RecordBatch or Table"):
        state.process(data)


@pytest.mark.parametrize("watermark", [1.5, "10 seconds", True])
def test_a_watermark_that_is_none(watermark):
    state = GroupState(Aggregation(SCHEMA, ["ts"], {"rows": F.count()}, event_time="ts"), "append")
    with pytest.raises(InvalidArgument, match=r"watermark_ms: got .* accepted is milliseconds as an int"):
        state.process(watermark_ms=watermark)


def test_the_end_of_all_time_evicts_everything_that_has_a_time():
    state = GroupState(Aggregation(SCHEMA, ["ts"], {"rows": F.count()}, event_time="ts"), "append")
    state.process(pa.record_batch({"ts": pa.array([2**62, -(2**62), None], pa.timestamp("us"))}))
    assert state.process(watermark_ms=2**63 - 1).metrics.numRemovedStateRows == 2 and len(state) == 1
