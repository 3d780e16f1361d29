"""Where the time of a batch goes: timers around what runs on executors, in tuning runs only.

Each timed function tells its seconds by batch and stage through a Spark accumulator. The clock is read a
few times an Arrow batch, not a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import Any, TypeVar

import pyarrow as pa
from pyspark import AccumulatorParam, SparkContext

from .. import pipeline
from ..exchange import Parcel
from ..step import BucketStep, Decode, Encode, batch_number

SOURCE, ENCODE, SHUFFLE, STEP, STATE, DECODE = "source → Arrow", "encode", "shuffle", "step", "state", "decode"
# Seconds by (batch, stage).
Times = dict[tuple[str, str], float]
Item = TypeVar("Item")


class TimesParam(AccumulatorParam):
    """Adds up seconds by batch and stage."""

    def zero(self, value: Times) -> Times:
        return {}

    def addInPlace(self, value1: Times, value2: Times) -> Times:
        for key, seconds in value2.items():
            value1[key] = value1.get(key, 0.0) + seconds
        return value1


class Stopwatch:
    """The seconds of one task or of one bucket, by stage.

    Examples
    --------
    >>> watch = Stopwatch()
    >>> list(watch.each("step", iter([1, 2]))), sorted(watch.seconds)
    ([1, 2], ['step'])
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def add(self, stage: str, seconds: float) -> None:
        self.seconds[stage] = self.seconds.get(stage, 0.0) + seconds

    def call(self, stage: str, function: Callable[..., Item], *args: Any) -> Item:
        started = perf_counter()
        try:
            return function(*args)
        finally:
            self.add(stage, perf_counter() - started)

    def each(self, stage: str, items: Iterable[Item]) -> Iterator[Item]:
        """Pass items on; only what it takes to get them counts, not what is done with them."""
        iterator = iter(items)
        while True:
            started = perf_counter()
            try:
                item = next(iterator)
            except StopIteration:
                return
            finally:
                self.add(stage, perf_counter() - started)
            yield item

    def take_from(self, stage: str, others: Iterable[str]) -> None:
        """Leave to a stage what was not spent in others, which ran inside it."""
        self.add(stage, -sum(self.seconds.get(other, 0.0) for other in others))

    def tell(self, accumulator: Any) -> None:
        batch = batch_number() or ""
        accumulator.add({(batch, stage): seconds for stage, seconds in self.seconds.items()})


class TimedEncode:
    """`Encode`, with the time spent waiting for rows apart from its own."""

    def __init__(self, accumulator: Any, *args: Any) -> None:
        self._encode = Encode(*args)
        self._accumulator = accumulator

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        watch = Stopwatch()
        yield from watch.each(ENCODE, self._encode(watch.each(SOURCE, batches)))
        watch.take_from(ENCODE, [SOURCE])
        watch.tell(self._accumulator)


@dataclass(frozen=True)
class TimedStep(BucketStep):
    """`BucketStep`, with the times for blobs and for state apart from those of the operator."""

    accumulator: Any = None
    watch: Stopwatch = field(default_factory=Stopwatch)

    def __call__(self, key: Any, frames: Any, state: Any) -> Iterator[Any]:
        # One object serves all buckets of a task, one after the other.
        self.watch.seconds.clear()
        yield from self.watch.each(STEP, super().__call__(key, frames, state))
        self.watch.take_from(STEP, [SHUFFLE, STATE])
        self.watch.tell(self.accumulator)

    def _parcels(self, frames: Any) -> list[Parcel]:
        return self.watch.call(SHUFFLE, super()._parcels, frames)

    def _load(self, number: int, state: Any) -> Any:
        return self.watch.call(STATE, super()._load, number, state)

    def _save(self, bucket: Any, state: Any) -> None:
        self.watch.call(STATE, super()._save, bucket, state)


class TimedDecode:
    """`Decode`; waiting for blobs is not its time, handing rows to the JVM is."""

    def __init__(self, accumulator: Any) -> None:
        self._accumulator = accumulator

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        watch = Stopwatch()
        started = perf_counter()
        yield from Decode()(watch.each("waiting", batches))
        watch.add(DECODE, perf_counter() - started - watch.seconds.pop("waiting"))
        watch.tell(self._accumulator)


def install(context: SparkContext) -> Any:
    """Have queries that are built from now on take their times; returns the accumulator that collects them."""
    accumulator = context.accumulator({}, TimesParam())
    pipeline.FUNCTIONS.encode = partial(TimedEncode, accumulator)
    pipeline.FUNCTIONS.step = partial(TimedStep, accumulator=accumulator)
    pipeline.FUNCTIONS.decode = partial(TimedDecode, accumulator)
    return accumulator
