"""What is measured: a job, the ways to write it, and which of them are compared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame

from .inputs import Generator

# Spark's RocksDB store writes changes at a commit (`mr.configure` sees to it), or, as by default, a whole snapshot.
ROCKSDB = ("rocksdb", "rocksdb-snapshots")
STORES = ("hdfs", *ROCKSDB)
Build = Callable[[dict[str, DataFrame]], DataFrame]


@dataclass(frozen=True)
class Pace:
    """How many micro-batches warm a query up, and how many are timed after them."""

    warm_up: int
    timed: int

    def at_most(self, other: Pace | None) -> Pace:
        """The lesser of both, for queries whose batches take long."""
        return self if other is None else Pace(min(self.warm_up, other.warm_up), min(self.timed, other.timed))

    @property
    def batches(self) -> int:
        return self.warm_up + self.timed


@dataclass(frozen=True)
class Side:
    """One way to write the job."""

    name: str
    build: Build
    # Where the API exists.
    stores: tuple[str, ...] = STORES
    pace: Pace | None = None

    @property
    def ours(self) -> bool:
        return self.name.startswith("Millrace")


@dataclass(frozen=True)
class Comparison:
    """Spark's side over ours, and the least ratio to reach per state store."""

    name: str
    own: str
    ours: str
    targets: dict[str, float]

    def target(self, store: str) -> float | None:
        """The ratio to reach on a store; RocksDB has one, whatever its commits write."""
        return self.targets.get("rocksdb" if store in ROCKSDB else store)


@dataclass(frozen=True)
class Workload:
    """One job over generated micro-batches."""

    name: str
    section: str
    mode: str
    # Of a micro-batch and input.
    rows: int
    keys: int
    inputs: dict[str, Generator]
    sides: tuple[Side, ...]
    comparisons: tuple[Comparison, ...]
    # Micro-batches of the check: as many as it takes until every kind of result has come out.
    check_batches: int = 4

    def compared(self, store: str, only: str = "", targets: bool = False) -> list[Comparison]:
        """Comparisons on a store whose name has a text, and of those only the ones with a target if so wanted."""
        there = {side.name for side in self.sides if store in side.stores}
        return [
            c
            for c in self.comparisons
            if {c.own, c.ours} <= there and only in c.name and (not targets or c.target(store))
        ]

    def sides_of(self, comparisons: list[Comparison]) -> list[Side]:
        """The sides that the comparisons need, each once."""
        needed = {name for c in comparisons for name in (c.own, c.ours)}
        return [side for side in self.sides if side.name in needed]


def pair(name: str, own: Build, ours: Build, targets: dict[str, float]) -> dict[str, tuple]:
    """The sides and the comparison of a workload that has one of each."""
    return {
        "sides": (Side("Spark", own), Side("Millrace", ours)),
        "comparisons": (Comparison(name, "Spark", "Millrace", targets),),
    }
