"""Bytewax: rows as tuples through its keyed operators, in one process: its workers share Python's lock."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from .feed import WINDOW, Task, main

CHUNK = 10_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def chunks(task: Task) -> Iterator[list[tuple[str, tuple]]]:
    """Rows by their key, which Bytewax wants as text."""
    windows = task.job == "windows"
    for table in task.counts(by_window=windows):
        for batch in table.to_batches(CHUNK):
            keys = map(str, batch["k"].to_pylist())
            values = zip(*(batch[name].to_pylist() for name in ("ts", "n", "s")), strict=True)
            yield list(zip(keys, values, strict=True))


def run(task: Task) -> None:
    from bytewax import operators as op
    from bytewax.dataflow import Dataflow
    from bytewax.inputs import DynamicSource, StatelessSourcePartition
    from bytewax.operators import windowing
    from bytewax.outputs import DynamicSink, StatelessSinkPartition
    from bytewax.testing import run_main

    class Part(StatelessSourcePartition):
        def __init__(self) -> None:
            self.chunks = chunks(task)

        def next_batch(self) -> list:
            return next(self.chunks)  # whose end is the end of the stream

    class Source(DynamicSource):
        def build(self, step_id: str, worker_index: int, worker_count: int) -> Part:
            return Part()

    class Out(StatelessSinkPartition):
        def write_batch(self, items: list) -> None:
            task.rows_out += len(items)
            if task.keep:
                task.results += items

    class Sink(DynamicSink):
        def build(self, step_id: str, worker_index: int, worker_count: int) -> Out:
            return Out()

    class Running(op.StatefulBatchLogic):
        """Called with all rows that a key has in a batch."""

        def __init__(self, state: tuple[int, int] | None) -> None:
            self.n, self.s = state or (0, 0)

        def on_batch(self, values: list) -> tuple[list, bool]:
            for _, n, s in values:
                self.n += n
                self.s += s
            return [(self.n, self.s)], False

        def snapshot(self) -> tuple[int, int]:
            return self.n, self.s

    class Counter(Running):
        def on_batch(self, values: list) -> tuple[list, bool]:
            self.n += sum(n for _, n, _ in values)
            return [(self.n,)], False

    def fold(total: tuple[int, int], value: tuple) -> tuple[int, int]:
        return total[0] + value[1], total[1] + value[2]

    def merge(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
        return one[0] + other[0], one[1] + other[1]

    flow = Dataflow("bench")
    rows: Any = op.input("rows", flow, Source())
    if task.job == "windows":
        clock: Any = windowing.EventClock(lambda value: EPOCH + timedelta(microseconds=value[0]), timedelta(minutes=1))
        windower = windowing.TumblingWindower(align_to=EPOCH, length=timedelta(microseconds=WINDOW))
        out = windowing.fold_window("windows", rows, clock, windower, lambda: (0, 0), fold, merge)
        found: Any = op.map("flat", out.down, lambda o: (o[1][0] * WINDOW, int(o[0]), *o[1][1]))
    else:
        states = op.stateful_batch("running", rows, Running if task.job == "running" else Counter)
        found = op.map("flat", states, lambda o: (int(o[0]), *o[1]))
    op.output("out", found, Sink())
    run_main(flow)


if __name__ == "__main__":
    main("bytewax", run)
