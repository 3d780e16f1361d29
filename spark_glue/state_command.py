"""`millrace state`: what a query's checkpoint holds, bucket by bucket, and its rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any

import typer
from pyspark.sql import SparkSession
from rich.console import Console
from rich.markup import escape

from ..kernels.errors import InvalidArgument, MillraceError, StateFormatError
from .checkpoint import Checkpoint, first_line, open_checkpoint, reason
from .command_output import print_json, print_table
from .command_session import parse_conf, start_session
from .read_state import decoded
from .state_report import OperatorReport, report_on, time_text

# Times are the same whatever machine looks at them; what fails is said in one line, without Spark's log.
DEFAULTS = {"spark.sql.session.timeZone": "UTC", "spark.log.level": "OFF"}


def state(
    checkpoint: Annotated[str, typer.Argument(help="Path of the query's checkpoint.", show_default=False)],
    batch: Annotated[int | None, typer.Option(help="The state after this batch; the last one by default.")] = None,
    rows: Annotated[int, typer.Option(help="Show so many decoded rows.")] = 0,
    operator: Annotated[int | None, typer.Option(help="Look at this stateful operator only.")] = None,
    master: Annotated[str, typer.Option(help="Spark master that reads the state.")] = "local[2]",
    conf: Annotated[list[str] | None, typer.Option(help="A session option as key=value; may be repeated.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Look inside the state of a query, running or stopped.

    Shows which batches are retained, and of each operator its buckets with rows, bytes, watermark and format version.

    Exits with 1 if a bucket is damaged.

    Examples:

        millrace state /checkpoints/counts

        millrace state /checkpoints/counts --batch 41 --rows 10

        millrace state s3a://bucket/counts --operator 0 --json --conf spark.hadoop.fs.s3a.endpoint=http://minio:9000
    """
    if rows < 0:
        raise InvalidArgument.of("--rows", rows, "0 or more")
    spark = _session(master, {**DEFAULTS, **parse_conf(conf)})
    try:
        opened = open_checkpoint(spark, checkpoint)
        number = opened.batch(batch)
        chosen = opened.operator(operator) if operator is not None or rows else None
        shown = [o for o in opened.operators if operator is None or o == chosen]
        reports = [report_on(spark, opened, each, number) for each in shown]
        is_damaged = any(bucket.error for report in reports for bucket in report.buckets)
        lines = _rows(spark, opened, operator, number, rows) if rows and not is_damaged else None
    finally:
        spark.stop()
    if as_json:
        print_json(_as_json(opened, number, reports, lines))
    else:
        print_report(Console(highlight=False), opened, number, reports, lines)
    raise typer.Exit(int(is_damaged))


def _session(master: str, settings: Mapping[str, str]) -> SparkSession:
    try:
        return start_session("millrace state", master, settings)
    except Exception as error:
        why = first_line(error).rstrip(".")
        raise MillraceError(f"Spark does not start: {why}; is {master!r} right? `millrace doctor` says more") from error


def _rows(
    spark: SparkSession, checkpoint: Checkpoint, operator: int | None, batch: int, count: int
) -> list[dict[str, Any]]:
    """The first rows, of any buckets."""
    try:
        return decoded(spark, checkpoint, checkpoint.operator(operator), batch).limit(count).toArrow().to_pylist()
    except MillraceError:
        raise
    except Exception as error:  # Spark's, of many kinds
        raise StateFormatError(f"the rows cannot be read: {reason(error)}") from error


# --- output -----------------------------------------------------------------------------------------


def _as_json(
    checkpoint: Checkpoint, batch: int, reports: Iterable[OperatorReport], rows: list[dict[str, Any]] | None
) -> dict[str, Any]:
    told = {
        "checkpoint": checkpoint.path,
        "batches": {"first": checkpoint.first, "last": checkpoint.last},
        "batch": batch,
        "operators": [asdict(report) for report in reports],
    }
    return told if rows is None else {**told, "rows": [simple(row) for row in rows]}


def print_report(
    console: Console,
    checkpoint: Checkpoint,
    batch: int,
    reports: Iterable[OperatorReport],
    rows: list[dict[str, Any]] | None,
) -> None:
    """Print everything for people."""
    retained = f"{checkpoint.first} to {checkpoint.last} are" if checkpoint.first < checkpoint.last else f"{batch} is"
    console.print(f"[bold]{escape(checkpoint.path)}[/bold] after batch {batch}; {retained} retained", soft_wrap=True)
    for report in reports:
        console.print()
        console.print(heading(report))
        if report.does:
            console.print(escape(report.does), style="dim")
        _print_buckets(console, report)
    if rows is not None:
        console.print()
        if rows:
            print_table(console, list(rows[0]), [[text(value) for value in row.values()] for row in rows])
        else:
            console.print("no rows")


def heading(report: OperatorReport) -> str:
    """An operator in a line."""
    if report.is_millrace:
        name = "" if report.name is None else f" {report.name!r}"
        return f"[bold]operator {report.operator}[/bold]: {escape((report.kind or 'unknown') + name)}"
    return f"[bold]operator {report.operator}[/bold]: {escape(report.spark_name)}, Spark's own"


def _print_buckets(console: Console, report: OperatorReport) -> None:
    """Sums, what is the same everywhere, and a line for each bucket."""
    whole = [bucket for bucket in report.buckets if bucket.error is None]
    if whole:
        sums = {what: sum(bucket.rows[what] for bucket in whole) for what in whole[0].rows}
        told = ["1 row" if (count, what) == (1, "rows") else f"{count:,} {what}" for what, count in sums.items()]
        buckets = "1 bucket" if len(whole) == 1 else f"{len(whole)} buckets"
        told += [f"{sum(bucket.bytes for bucket in whole):,} bytes in {buckets}"]
        columns: dict[str, list[str]] = {"bucket": [str(b.bucket) for b in whole]}
        columns["partition"] = [str(b.partition) for b in whole]
        for what in whole[0].rows:
            columns[what] = [f"{b.rows[what]:,}" for b in whole]
        columns["bytes"] = [f"{b.bytes:,}" for b in whole]
        for name in ("watermark", "format"):
            values = [b.watermark or "none" if name == "watermark" else str(b.format_version) for b in whole]
            if len(set(values)) > 1:
                columns[name] = values
            else:
                told.append(f"{name} {values[0]}")
        console.print(", ".join(told))
        print_table(console, list(columns), list(zip(*columns.values(), strict=True)), right=True)
    elif report.is_millrace and not report.buckets:
        console.print("no state yet")
    for bucket in report.buckets:
        if bucket.error is not None:
            place = f"bucket {bucket.bucket}, partition {bucket.partition}"
            console.print(f"[red]damaged[/red]: {place}: {escape(bucket.error)}", soft_wrap=True)


def text(value: Any) -> str:
    """A value as people read it.

    Examples
    --------
    >>> text({"n": 3, "page": "home", "seen": [1.5, None, True]})
    'n=3 page=home seen=[1.5, null, true]'
    """
    if value is None:
        return "null"
    if isinstance(value, Mapping):
        return " ".join(f"{name}={text(inner)}" for name, inner in value.items())
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(text, value))}]"
    return str(simple(value))


def simple(value: Any) -> Any:
    """A value as JSON has it: times and binaries as text.

    Examples
    --------
    >>> simple({"at": datetime(2026, 1, 1), "raw": b"\\x01", "rate": float("nan")})
    {'at': '2026-01-01 00:00:00', 'raw': '01', 'rate': 'nan'}
    """
    if isinstance(value, Mapping):
        return {name: simple(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [simple(inner) for inner in value]
    if isinstance(value, datetime):
        return time_text(value)
    if isinstance(value, bytes):
        return value.hex()
    is_number = isinstance(value, int) or (isinstance(value, float) and value - value == 0)
    return value if value is None or is_number or isinstance(value, str) else str(value)
