"""Pathway: rows through its Python connector, a commit a batch, on as many threads as there are cores."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pyarrow as pa

from .feed import MINUTE, WINDOW, Task, main


def both_sides(task: Task) -> Iterator[pa.Table]:
    """Both sides of the join as one stream: two would not keep step, and rows of the slower one come too late."""
    for shown, clicked in zip(task.batches("impressions"), task.batches("clicks"), strict=True):
        sides = []
        nobody = pa.repeat(pa.scalar(-1, pa.int64()), shown.num_rows)
        for left, columns in (
            (True, (shown["ad"], shown["shown"], nobody)),
            (False, (clicked["click_ad"], clicked["clicked"], clicked["user"])),
        ):
            side = pa.repeat(pa.scalar(left), len(columns[0]))
            sides.append(pa.table([side, *columns], names=["left", "ad", "ts", "user"]))
        yield pa.concat_tables(sides)


def run(task: Task) -> None:
    os.environ["PATHWAY_THREADS"] = str(task.cores)
    import pathway as pw

    class Subject(pw.io.python.ConnectorSubject):
        """Hands over the rows of each batch, or what was added up of them."""

        deletions_enabled = False

        def run(self) -> None:
            for table in both_sides(task) if task.job == "join" else task.counts(task.job == "windows"):
                for batch in table.to_batches(10_000):
                    names = batch.schema.names
                    for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                        self.next(**dict(zip(names, row, strict=True)))
                self.commit()

    class Counts(pw.Schema):
        k: int
        ts: int
        n: int
        s: int

    class Sides(pw.Schema):
        left: bool
        ad: int
        ts: int
        user: int

    @pw.reducers.stateful_many
    def count(state: int | None, rows) -> int | None:
        for _, times in rows:
            state = (state or 0) + times
        return state

    rows = pw.io.python.read(Subject(), schema=Sides if task.job == "join" else Counts, autocommit_duration_ms=None)
    if task.job == "join":
        left, right = rows.filter(rows.left), rows.filter(~rows.left)
        joined = pw.temporal.interval_join(
            left, right, left.ts, right.ts, pw.temporal.interval(0, MINUTE // 3), left.ad == right.ad,
            behavior=pw.temporal.common_behavior(cutoff=2 * MINUTE, keep_results=True),
        )  # fmt: skip
        found = joined.select(ad=left.ad, shown=left.ts, clicked=right.ts, user=right.user)
    elif task.job == "windows":
        windows = rows.windowby(
            rows.ts, window=pw.temporal.tumbling(duration=WINDOW), instance=rows.k,
            behavior=pw.temporal.exactly_once_behavior(shift=MINUTE),
        )  # fmt: skip
        found = windows.reduce(
            pw.this._pw_window_start, pw.this._pw_instance,
            n=pw.reducers.sum(pw.this.n), s=pw.reducers.sum(pw.this.s),
        )  # fmt: skip
    elif task.job == "running":
        found = rows.groupby(rows.k).reduce(rows.k, n=pw.reducers.sum(rows.n), s=pw.reducers.sum(rows.s))
    else:
        found = rows.groupby(rows.k).reduce(rows.k, n=count(rows.n))

    def on_change(key, row, time, is_addition) -> None:
        if is_addition:
            task.rows_out += 1
            task.results.append(tuple(row.values()))

    if task.keep:
        pw.io.subscribe(found, on_change)
    else:
        pw.io.null.write(found)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)


if __name__ == "__main__":
    main("pathway", run)
