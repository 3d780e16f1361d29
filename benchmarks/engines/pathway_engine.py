"""Pathway: rows through its Python connector, a commit a batch, on as many threads as there are cores."""

from __future__ import annotations

import os

from .feed import MINUTE, WINDOW, Task, main


def run(task: Task) -> None:
    os.environ["PATHWAY_THREADS"] = str(task.cores)
    import pathway as pw

    class Subject(pw.io.python.ConnectorSubject):
        """Hands over the files of an input, or what was added up of them."""

        deletions_enabled = False

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        def run(self) -> None:
            tables = task.batches(self.name) if task.job == "join" else task.counts(task.job == "windows")
            for table in tables:
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

    class Impressions(pw.Schema):
        ad: int
        shown: int
        cost: float

    class Clicks(pw.Schema):
        click_ad: int
        clicked: int
        user: int

    def read(name: str, schema):
        return pw.io.python.read(Subject(name), schema=schema, autocommit_duration_ms=None)

    @pw.reducers.stateful_many
    def count(state: int | None, rows) -> int | None:
        for _, times in rows:
            state = (state or 0) + times
        return state

    if task.job == "join":
        left, right = read("impressions", Impressions), read("clicks", Clicks)
        joined = pw.temporal.interval_join(
            left, right, left.shown, right.clicked, pw.temporal.interval(0, MINUTE // 3), left.ad == right.click_ad,
            behavior=pw.temporal.common_behavior(cutoff=MINUTE),
        )  # fmt: skip
        found = joined.select(left.ad, left.shown, right.clicked, right.user)
    else:
        rows = read("events", Counts)
        if task.job == "windows":
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
