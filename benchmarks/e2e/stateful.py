"""Stateful functions: a counter by key in every API that Spark has for Python, and in Millrace."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
from millrace import spark_glue as mr
from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming import StatefulProcessor

from .inputs import events
from .workload import ROCKSDB, STORES, Comparison, Pace, Side, Workload

OUTPUT = "k long, n long"
Frames = dict[str, DataFrame]

FRAMES = "applyInPandasWithState"
ROWS = "transformWithState, Rows"
IN_PANDAS = "transformWithStateInPandas"
COMPILED = "Millrace, compiled"
UNCHANGED = "Millrace, unchanged"


def own_counter(key, pdfs, state):
    n = state.get[0] if state.exists else 0
    for pdf in pdfs:
        n += len(pdf)
    state.update((n,))
    yield pd.DataFrame({"k": [key[0]], "n": [n]})


class Counter(StatefulProcessor):
    """Where the count is kept."""

    def init(self, handle):
        self.count = handle.getValueState("n", "n long")

    def counted(self, rows: int) -> int:
        n = (self.count.get()[0] if self.count.exists() else 0) + rows
        self.count.update((n,))
        return n

    def close(self):
        pass


class RowCounter(Counter):
    """Over Rows: Spark's fastest from Python."""

    def handleInputRows(self, key, rows, timerValues):
        yield Row(k=key[0], n=self.counted(sum(1 for _ in rows)))


class FrameCounter(Counter):
    """Over pandas frames."""

    def handleInputRows(self, key, rows, timerValues):
        yield pd.DataFrame({"k": [key[0]], "n": [self.counted(sum(map(len, rows)))]})


@mr.stateful(keys=["k"], state="n long", output=OUTPUT)
def compiled_counter(key, rows, state, out):
    state.n += len(rows)
    out.emit(key.k, state.n)


CALL = (own_counter, OUTPUT, "n long", "update", "NoTimeout")


def own_frames(frames: Frames) -> DataFrame:
    return frames["events"].groupBy("k").applyInPandasWithState(*CALL)


def own_rows(frames: Frames) -> DataFrame:
    return frames["events"].groupBy("k").transformWithState(RowCounter(), OUTPUT, "update", "None")


def own_in_pandas(frames: Frames) -> DataFrame:
    return frames["events"].groupBy("k").transformWithStateInPandas(FrameCounter(), OUTPUT, "update", "None")


def unchanged(frames: Frames) -> DataFrame:
    return mr.apply_in_pandas_with_state(frames["events"], ["k"], *CALL)


def compiled(frames: Frames) -> DataFrame:
    return compiled_counter(frames["events"])


# Spark calls Python once a key, for a millisecond or two: where a batch takes half a minute and more, two
# of them must do. Nothing is compiled there that would need more to warm up.
MINUTES, SECONDS = Pace(1, 2), Pace(2, 3)
SLOW = {
    (FRAMES, 10_000): SECONDS,
    (FRAMES, 100_000): MINUTES,
    (IN_PANDAS, 10_000): SECONDS,
    (IN_PANDAS, 100_000): MINUTES,
    (ROWS, 100_000): SECONDS,
    (UNCHANGED, 100_000): SECONDS,
}


BUILDS = {
    FRAMES: own_frames,
    ROWS: own_rows,
    IN_PANDAS: own_in_pandas,
    UNCHANGED: unchanged,
    COMPILED: compiled,
}


def stores_of(name: str) -> tuple[str, ...]:
    """Spark runs transformWithState on RocksDB alone."""
    return ROCKSDB if name in (ROWS, IN_PANDAS) else STORES


def comparisons(keys: int) -> tuple[Comparison, ...]:
    """Targets hold at the number of keys that they are stated for."""

    def of(name: str, own: str, ours: str, stated_for: int = 0, **targets: float) -> Comparison:
        return Comparison(f"stateful, {name}, {keys:,} keys", own, ours, targets if keys == stated_for else {})

    return (
        of("compiled", FRAMES, COMPILED, 100_000, hdfs=100.0),
        of("compiled against Rows", ROWS, COMPILED, 100_000, rocksdb=10.0),
        of("compiled against InPandas", IN_PANDAS, COMPILED),
        of("unchanged", FRAMES, UNCHANGED, 10_000, hdfs=4.0),
    )


def workloads() -> Iterator[Workload]:
    """Half a million rows over several numbers of keys."""
    for keys in (1_000, 10_000, 100_000):
        sides = tuple(Side(name, build, stores_of(name), SLOW.get((name, keys))) for name, build in BUILDS.items())
        name, inputs = f"stateful, {keys:,} keys", {"events": events}
        yield Workload(name, "stateful", "update", 500_000, keys, inputs, sides, comparisons(keys))
