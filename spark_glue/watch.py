"""`watch`: a live table of what streaming queries do.

Everything up to `watch` itself turns plain progress objects into text, and needs no Spark.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..kernels.errors import InvalidArgument

if TYPE_CHECKING:
    from rich.console import RenderableType

PREFIX = "millrace:"
NOTHING = "–"
# Spark's own names for what our metrics are called, in the progress of its stateful operators.
SPARK_NAMES = {
    "numTotalStateRows": "numRowsTotal",
    "numUpdatedStateRows": "numRowsUpdated",
    "numRemovedStateRows": "numRowsRemoved",
    "stateMemory": "memoryUsedBytes",
}
OPERATOR_TIMES = {"updates": "allUpdatesTimeMs", "removals": "allRemovalsTimeMs", "commit": "commitTimeMs"}
WHOLE_BATCH = "triggerExecution"
RUNNING, ENDED, FAILED = "running", "ended", "failed"
# What a task in Python raised comes at the end of a traceback, within what Spark says around it.
RAISED = re.compile(r"^(?:\w+\.)+(\w+: .*)$", re.MULTILINE)
HEADINGS = ("query", "batch", "rows/s", "watermark", "state rows", "updated", "removed", "late", "memory")


@dataclass(frozen=True)
class Glance:
    """A query at one moment."""

    name: str
    status: str = RUNNING
    progress: Any = None
    # Why it failed.
    reason: str = ""


@dataclass(frozen=True)
class OperatorRow:
    """One stateful operator in the last batch of its query; None where there is nothing to tell."""

    query: str
    status: str = RUNNING
    operator: str = NOTHING
    batch: int | None = None
    rows_per_second: float | None = None
    watermark: str | None = None
    state_rows: int | None = None
    updated: int | None = None
    removed: int | None = None
    late: int | None = None
    memory: int | None = None
    # State rows by side, of a join.
    sides: tuple[int, int] | None = None
    # Milliseconds: of the batch by what Spark did, and of the operator summed over its buckets.
    batch_ms: Mapping[str, int] = field(default_factory=dict)
    operator_ms: Mapping[str, int] = field(default_factory=dict)


def operator_rows(glance: Glance) -> list[OperatorRow]:
    """Give a row per Millrace operator; of a query that has none, a row per stateful operator of Spark's own.

    Examples
    --------
    >>> progress = {"batchId": 3, "observedMetrics": {"millrace:totals": {"numTotalStateRows": 12}}}
    >>> [(row.operator, row.batch, row.state_rows) for row in operator_rows(Glance("clicks", progress=progress))]
    [('totals', 3, 12)]
    """
    progress = glance.progress
    if progress is None:
        return [OperatorRow(glance.name, glance.status)]
    watermark = _value(_value(progress, "eventTime"), "watermark")
    return [
        OperatorRow(
            query=glance.name,
            status=glance.status,
            operator=operator,
            batch=_value(progress, "batchId"),
            rows_per_second=_rows_per_second(progress),
            watermark=None if watermark is None else str(watermark),
            state_rows=_metric(metrics, "numTotalStateRows"),
            updated=_metric(metrics, "numUpdatedStateRows"),
            removed=_metric(metrics, "numRemovedStateRows"),
            late=_metric(metrics, "numRowsDroppedByWatermark"),
            memory=_metric(metrics, "stateMemory"),
            sides=_sides(metrics),
            batch_ms=dict(_value(progress, "durationMs") or {}),
            operator_ms={
                what: ms for what, name in OPERATOR_TIMES.items() if (ms := _metric(metrics, name)) is not None
            },
        )
        for operator, metrics in _stateful(progress)
    ]


def _stateful(progress: Any) -> list[tuple[str, Any]]:
    """The stateful operators of a batch and their metrics."""
    observed = dict(_value(progress, "observedMetrics") or {})
    ours = [
        (name.removeprefix(PREFIX), _unfolded(row)) for name, row in sorted(observed.items()) if name.startswith(PREFIX)
    ]
    own = [(_value(o, "operatorName") or NOTHING, o) for o in _value(progress, "stateOperators") or []]
    return ours or own or [(NOTHING, {})]


def _unfolded(row: Any) -> Any:
    """Spark Connect gives an observed row as its values and its schema."""
    values, schema = _value(row, "values"), _value(row, "schema")
    if isinstance(values, list | tuple) and isinstance(schema, Mapping):
        return {f["name"]: value for f, value in zip(schema["fields"], values, strict=True)}
    return row


def _rows_per_second(progress: Any) -> float | None:
    """The rows of all sources by the time of the whole batch; those without rows, which move the watermark, have none.

    Spark has both numbers ready, but not on Connect.
    """
    rows = _value(progress, "numInputRows")
    if rows is None:
        rows = sum(_value(source, "numInputRows") or 0 for source in _value(progress, "sources") or [])
    milliseconds = _value(_value(progress, "durationMs"), WHOLE_BATCH)
    return rows / milliseconds * 1000 if rows and milliseconds else None


def _sides(metrics: Any) -> tuple[int, int] | None:
    left, right = _metric(metrics, "numLeftStateRows"), _metric(metrics, "numRightStateRows")
    return None if left is None or right is None else (left, right)


def _metric(metrics: Any, name: str) -> int | None:
    value = _value(metrics, name)
    return value if value is not None else _value(metrics, SPARK_NAMES.get(name, name))


def _value(thing: Any, name: str) -> Any:
    """Read a field of a dict, of a Row or of an object."""
    if isinstance(thing, Mapping):
        return thing.get(name)
    return getattr(thing, name, None)


def cells(row: OperatorRow) -> list[str]:
    """Give a row's texts, in the order of `HEADINGS`."""
    name = row.query if row.operator == NOTHING else f"{row.query}\n{row.operator}"
    batch = NOTHING if row.batch is None else str(row.batch)
    return [
        name,
        batch if row.status == RUNNING else f"{batch}\n{row.status}",
        count(row.rows_per_second),
        clock(row.watermark),
        count(row.state_rows) + ("" if row.sides is None else f"\n{count(row.sides[0])} + {count(row.sides[1])}"),
        *map(count, (row.updated, row.removed, row.late)),
        memory(row.memory),
    ]


def plain_line(row: OperatorRow) -> str:
    """Give a row as one line of text.

    Examples
    --------
    >>> print(plain_line(OperatorRow("clicks", operator="totals", batch=3, state_rows=12)))
    clicks, totals: batch 3, rows/s –, watermark –, state rows 12, updated –, removed –, late –, memory –
    """
    name, _, *texts = cells(row)
    texts = [text.replace("\n", " = ") for text in texts]
    told = [f"{heading} {text}" for heading, text in zip(HEADINGS[2:], texts, strict=True)]
    batch = "no batch yet" if row.batch is None else f"batch {row.batch}"
    times = "; ".join(filter(None, [batch_times(row), operator_times(row)]))
    return f"{name.replace(chr(10), ', ')}: {', '.join([batch, *told])}" + (f"; {times}" if times else "")


def batch_times(row: OperatorRow) -> str:
    """Say what Spark spent a batch's time on, the longest first.

    Examples
    --------
    >>> batch_times(OperatorRow("q", batch_ms={"triggerExecution": 950, "addBatch": 900, "walCommit": 30}))
    '950 ms: addBatch 900, walCommit 30'
    """
    parts = sorted(((ms, what) for what, ms in row.batch_ms.items() if what != WHOLE_BATCH and ms), reverse=True)
    told = ", ".join(f"{what} {ms:,}" for ms, what in parts)
    whole = row.batch_ms.get(WHOLE_BATCH)
    return told if whole is None else f"{whole:,} ms" + (f": {told}" if told else "")


def operator_times(row: OperatorRow) -> str:
    """Say what the operator itself spent, summed over its buckets."""
    return ", ".join(f"{what} {ms:,}" for what, ms in row.operator_ms.items())


def count(number: float | None) -> str:
    """Write a number in few signs.

    Examples
    --------
    >>> count(99_999), count(1_234_567), count(250_000.5), count(None)
    ('99,999', '1.23 M', '250 k', '–')
    """
    if number is None:
        return NOTHING
    if number < 100_000:
        return f"{number:,.0f}"
    unit, size = next(((u, s) for u, s in (("k", 1e3), ("M", 1e6), ("G", 1e9)) if number < 999.5 * s), ("T", 1e12))
    return f"{_three_digits(number / size)} {unit}"


def memory(size: int | None) -> str:
    """Write a number of bytes.

    Examples
    --------
    >>> memory(900), memory(3_500_000), memory(5 * 2**30)
    ('900 B', '3.34 MiB', '5.00 GiB')
    """
    if size is None:
        return NOTHING
    if size < 1000:
        return f"{size} B"
    number, units = size / 1024, iter(("KiB", "MiB", "GiB", "TiB"))
    unit = next(units)
    while number >= 999.5 and unit != "TiB":
        number, unit = number / 1024, next(units)
    return f"{_three_digits(number)} {unit}"


def _three_digits(number: float) -> str:
    return f"{number:.2f}" if number < 9.995 else f"{number:.1f}" if number < 99.95 else f"{number:,.0f}"


def clock(timestamp: str | None) -> str:
    """Shorten one of Spark's timestamps.

    Examples
    --------
    >>> clock("2026-01-01T00:05:00.250Z")
    '2026-01-01 00:05:00'
    """
    return NOTHING if not timestamp else timestamp.split(".")[0].removesuffix("Z").replace("T", " ")


def short_reason(message: str) -> str:
    """Find the line that says what went wrong.

    Examples
    --------
    >>> short_reason("[STREAM_FAILED] Query failed\\n  File x\\nmillrace.kernels.errors.StateFormatError: damaged")
    'StateFormatError: damaged'
    """
    raised = RAISED.findall(message)
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return raised[-1] if raised else lines[0] if lines else "no message"


def glance_at(query: Any) -> Glance:
    """Look at a query; what goes wrong in doing so counts as its failure."""
    name = query.name or str(query.id)[:8]
    try:
        # Asked in this order, a query that ends meanwhile is told with its last batch.
        active, progress = query.isActive, query.lastProgress
        failure = None if active else query.exception()
        if active:
            return Glance(name, RUNNING, progress)
        if failure is None:
            return Glance(name, ENDED, query.lastProgress)
        return Glance(name, FAILED, query.lastProgress, short_reason(str(failure)))
    except Exception as error:
        return Glance(name, FAILED, None, short_reason(f"{type(error).__name__}: {error}"))


def endings(glances: Iterable[Glance]) -> list[str]:
    """Say which queries failed, and why."""
    return [f"{glance.name} failed: {glance.reason}" for glance in glances if glance.status == FAILED]


def live_table(glances: Sequence[Glance]) -> RenderableType:
    """Draw the table: numbers above, times below."""
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    rows = [row for glance in glances for row in operator_rows(glance)]
    numbers, times = (
        Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False) for _ in range(2)
    )
    for heading in HEADINGS:
        if heading in ("query", "watermark"):
            # The only ones to give way in a narrow terminal: a date and its time then lie on two lines.
            numbers.add_column(heading, overflow="fold", min_width=8 if heading == "query" else 10)
        else:
            numbers.add_column(heading.replace(" ", "\n"), justify="right", no_wrap=True)
    for heading in ("query", "the batch took", "the buckets, added up (ms)"):
        times.add_column(heading, overflow="fold")
    for row in rows:
        style = "red" if row.status == FAILED else ""
        texts = cells(row)
        numbers.add_row(*map(Text, texts), style=style)
        times.add_row(*map(Text, (texts[0], batch_times(row), operator_times(row))), style=style)
    return Group(numbers, "", times, *(Text(line, style="red") for line in endings(glances)))


class PlainLines:
    """Prints a line for every batch that was not printed yet, and for every end."""

    def __init__(self) -> None:
        self._told: set[object] = set()

    def show(self, glances: Sequence[Glance]) -> None:
        for glance in glances:
            for row in operator_rows(glance):
                self._tell((glance.name, row.operator, row.batch), row.batch is not None, plain_line(row))
            self._tell((glance.name, ENDED), glance.status == ENDED, f"{glance.name} ended")
        for line in endings(glances):
            self._tell(line, True, line)

    def _tell(self, what: object, happened: bool, line: str) -> None:
        if happened and what not in self._told:
            self._told.add(what)
            print(line, flush=True)


def watch(*queries: Any, seconds: float | None = None, every: float = 1.0) -> None:
    """Show what running queries do, until all have ended.

    In a terminal this is a table that is drawn anew; elsewhere, a line for every batch that is seen.
    A query that fails is shown so; nothing is raised. Interrupting it leaves the queries running.

    Parameters
    ----------
    *queries
        streaming queries, as ``start()`` or ``spark.streams.active`` give them; on Spark Connect too.
    seconds
        how long to watch; None until all queries have ended.
    every
        seconds from one look to the next.

    Examples
    --------
    .. code-block:: python

        mr.watch(query, seconds=60)
        mr.watch(*spark.streams.active)
    """
    _check(queries, seconds, every)
    if not sys.stdout.isatty():
        _look(queries, seconds, every, PlainLines().show)
        return
    from rich.live import Live

    with Live(auto_refresh=False) as live:
        _look(queries, seconds, every, lambda glances: live.update(live_table(glances), refresh=True))


def _check(queries: Sequence[Any], seconds: object, every: object) -> None:
    asked = ("isActive", "lastProgress", "exception")
    wrong = [query for query in queries if not all(hasattr(type(query), name) for name in asked)]
    if wrong or not queries:
        raise InvalidArgument.of("queries", wrong[0] if wrong else "none", "one or more streaming queries")
    if seconds is not None and not (_is_number(seconds) and seconds >= 0):  # type: ignore[operator]
        raise InvalidArgument.of("seconds", seconds, "a number of zero or more, or None")
    if not (_is_number(every) and every > 0):  # type: ignore[operator]
        raise InvalidArgument.of("every", every, "a number of seconds above zero")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


def _look(
    queries: Sequence[Any], seconds: float | None, every: float, show: Callable[[Sequence[Glance]], None]
) -> None:
    """Look at the queries time and again."""
    end = None if seconds is None else time.monotonic() + seconds
    while True:
        glances = [glance_at(query) for query in queries]
        show(glances)
        left = every if end is None else min(every, end - time.monotonic())
        if left <= 0 or all(glance.status != RUNNING for glance in glances):
            return
        time.sleep(left)
