"""What jobs read: generated events, impressions and clicks, one minute of them a micro-batch."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

START = 1_767_225_600_000_000  # 2026-01-01 in microseconds
SECOND = 1_000_000

# Batch number, rows, keys → the rows of one micro-batch.
Generator = Callable[[int, int, int], pa.Table]


def moments(microseconds: np.ndarray) -> pa.Array:
    return pa.array(microseconds, pa.int64()).cast(pa.timestamp("us", "UTC"))


def events(batch: int, rows: int, keys: int) -> pa.Table:
    """One minute of events: a key, a time and an amount."""
    rng = np.random.default_rng(batch)
    times = START + batch * 60 * SECOND + rng.integers(0, 60 * SECOND, rows)
    return pa.table({"k": rng.integers(0, keys, rows), "ts": moments(times), "v": rng.integers(0, 1000, rows)})


def impressions(batch: int, rows: int, keys: int) -> pa.Table:
    """One minute of impressions of so many ads; with as many ads as rows, each has an id of its own."""
    rng = np.random.default_rng(batch)
    times = START + batch * 60 * SECOND + rng.integers(0, 60 * SECOND, rows)
    ads = batch * rows + np.arange(rows) if keys == rows else rng.integers(0, keys, rows)
    return pa.table({"ad": ads, "shown": moments(times), "cost": rng.random(rows)})


def clicks(batch: int, rows: int, keys: int) -> pa.Table:
    """As many clicks, each up to half a minute after the impression that it belongs to."""
    shown = impressions(batch, rows, keys)
    rng = np.random.default_rng(1_000_000 + batch)
    clicked = rng.integers(0, rows, rows)
    times = shown["shown"].cast(pa.int64()).to_numpy()[clicked] + rng.integers(0, 30 * SECOND, rows)
    return pa.table(
        {
            "click_ad": shown["ad"].to_numpy()[clicked],
            "clicked": moments(times),
            "user": rng.integers(0, 100_000, rows),
        }
    )


def write_inputs(generators: dict[str, Generator], folder: Path, batches: int, rows: int, keys: int) -> dict[str, Path]:
    """Generate a file per micro-batch and input."""
    folders = {}
    for name, generate in generators.items():
        folders[name] = folder / name
        folders[name].mkdir(parents=True)
        for batch in range(batches):
            write_batch(generate(batch, rows, keys), folders[name], batch)
    return folders


def write_batch(table: pa.Table, folder: Path, batch: int) -> None:
    path = folder / f"{batch:05d}.parquet"
    # Row groups are what Spark's tasks share out.
    pq.write_table(table, path, row_group_size=max(1, -(-table.num_rows // 4)))
    # Spark takes the oldest file first.
    os.utime(path, (batch, batch))


def first_batches(folders: dict[str, Path], count: int) -> dict[str, Path]:
    """Folders that have only the first so many files, which stay where they are."""
    fewer = {}
    for name, folder in folders.items():
        fewer[name] = folder.with_name(f"{name}-first-{count}")
        if fewer[name].exists():
            continue
        fewer[name].mkdir()
        for path in sorted(folder.iterdir())[:count]:
            os.link(path, fewer[name] / path.name)
    return fewer
