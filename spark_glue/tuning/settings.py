"""What a trial can vary, and what that means in Spark's own options."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..configure import OPTIONS

PROVIDER = "org.apache.spark.sql.execution.streaming.state.{}StateStoreProvider"
STORES = {"hdfs": PROVIDER.format("HDFSBacked"), "rocksdb": PROVIDER.format("RocksDB")}
STORE_OPTION = "spark.sql.streaming.stateStore.providerClass"
PARTITIONS_OPTION = "spark.sql.shuffle.partitions"
ARROW_OPTION = "spark.sql.execution.arrow.maxRecordsPerBatch"
# What Spark does where nothing is set.
SPARK_PARTITIONS, SPARK_ARROW_ROWS = 200, 10_000
# The share of the cores that may be taken by others before their work is felt.
BUSY_SHARE = 0.3
# Keywords that a query may take.
BUCKETS, MAP_SIDE = "buckets", "map_side"


@dataclass(frozen=True)
class Settings:
    """One point of the search; `buckets` is None where the query's own default is left as it is.

    Examples
    --------
    >>> print(Settings(cores=2, partitions=4))
    2 cores, 4 partitions, Arrow batches of 65,536, hdfs, daemon on, map side on
    """

    cores: int
    partitions: int
    buckets: int | None = None
    arrow_rows: int = int(OPTIONS[ARROW_OPTION])
    store: str = "hdfs"
    daemon: bool = True
    map_side: bool = True

    def __str__(self) -> str:
        parts = [
            f"{self.cores} core{'s' * (self.cores != 1)}",
            f"{self.partitions} partition{'s' * (self.partitions != 1)}",
            f"{self.buckets} buckets" if self.buckets else "",
            f"Arrow batches of {self.arrow_rows:,}",
            self.store,
            f"daemon {on_off(self.daemon)}",
            f"map side {on_off(self.map_side)}",
        ]
        return ", ".join(filter(None, parts))

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def on_cores(self, cores: int) -> Settings:
        """The same on another number of cores: partitions and buckets keep their number per core.

        Examples
        --------
        >>> Settings(cores=2, partitions=4).on_cores(8).partitions
        16
        """
        partitions, buckets = (n and max(1, round(n * cores / self.cores)) for n in (self.partitions, self.buckets))
        return replace(self, cores=cores, partitions=partitions or 1, buckets=buckets)

    def spark_options(self) -> dict[str, str]:
        """What to set on a session, cores apart."""
        return {
            **(OPTIONS if self.daemon else {}),
            ARROW_OPTION: str(self.arrow_rows),
            PARTITIONS_OPTION: str(self.partitions),
            STORE_OPTION: STORES[self.store],
        }

    def keywords(self, accepted: tuple[str, ...]) -> dict[str, Any]:
        """What to hand to the query, of what it takes."""
        given: dict[str, Any] = {MAP_SIDE: self.map_side}
        if self.buckets:
            given[BUCKETS] = self.buckets
        return {name: value for name, value in given.items() if name in accepted}


def on_off(flag: bool) -> str:
    """
    Examples
    --------
    >>> on_off(True)
    'on'
    """
    return "on" if flag else "off"


def spark_defaults(cores: int) -> Settings:
    """Spark as it comes, without `configure`: what all else is measured against."""
    return Settings(cores, SPARK_PARTITIONS, None, SPARK_ARROW_ROWS, "hdfs", daemon=False)


def advised(cores: int) -> Settings:
    """What the guide advises: `configure`, and as many partitions as cores. The search begins here."""
    return Settings(cores, cores)


def alternatives(best: Settings, accepted: tuple[str, ...]) -> dict[str, list[Settings]]:
    """The values to try beside the best so far, axis by axis; those that matter most come first.

    Examples
    --------
    >>> [settings.partitions for settings in alternatives(advised(2), ())["partitions"]]
    [1, 4, 8]
    """
    cores = best.cores
    values: dict[str, list[Any]] = {
        "partitions": sorted({max(1, cores // 2), cores, 2 * cores, 4 * cores}),
        "arrow_rows": [SPARK_ARROW_ROWS, int(OPTIONS[ARROW_OPTION]), 4 * int(OPTIONS[ARROW_OPTION])],
        "map_side": [True, False] if MAP_SIDE in accepted else [],
        "store": list(STORES),
        "daemon": [True, False],
        "buckets": [2 * best.partitions] if BUCKETS in accepted else [],
    }
    return {
        axis: [replace(best, **{axis: value}) for value in options if value != getattr(best, axis)]
        for axis, options in values.items()
    }


def cores_here() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def busy_note(load: float, cores: int) -> str:
    """Say that other work makes figures rough, if there is much of it; nothing else.

    Examples
    --------
    >>> busy_note(0.3, 2), busy_note(3.0, 2)
    ('', 'this machine is busy with other work (load 3.0 on 2 cores): figures are rough')
    """
    if load <= BUSY_SHARE * cores:
        return ""
    return f"this machine is busy with other work (load {load:.1f} on {cores} cores): figures are rough"


def default_cores(available: int) -> list[int]:
    """The numbers of cores to measure: doubling, and all of them.

    Examples
    --------
    >>> default_cores(2), default_cores(6)
    ([1, 2], [1, 2, 4, 6])
    """
    doubling = [1 << i for i in range(available.bit_length()) if 1 << i <= available]
    return sorted({*doubling, available})


def conf_lines(settings: Settings, accepted: tuple[str, ...]) -> Iterator[str]:
    """The lines of a `spark-defaults.conf` fragment."""
    yield "# Found by `millrace tune`. Paste it into spark-defaults.conf, or set the options on the session's builder."
    yield f"# Measured on {settings.cores} core{'s' * (settings.cores != 1)} of one machine."
    options = settings.spark_options()
    width = max(map(len, options))
    yield from (f"{key:<{width}}  {value}" for key, value in options.items())
    yield "# These two belong to a query's checkpoint for good, so an old checkpoint keeps its own:"
    yield f"#   {PARTITIONS_OPTION}, {STORE_OPTION}"
    for name, value in settings.keywords(accepted).items():
        yield f"# In the query itself: {name}={value}"
