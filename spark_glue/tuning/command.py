"""`millrace tune`: the command."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ...kernels.errors import InvalidArgument
from ..command_output import print_json
from .arguments import Arguments, numbers
from .job import Job
from .outcome import Outcome
from .report import html_report
from .runner import Runner
from .search import Run, Search
from .settings import Settings, busy_note, cores_here, default_cores
from .terminal import Display, print_outcome
from .trial import Trial
from .workloads import WORKLOADS, generate

INTERRUPTED_CODE = 130
REPORT, CONF = "report.html", "spark-defaults.conf"


def tune(
    query: Annotated[
        str, typer.Option(help="FILE.py or FILE.py:function, which makes the query of streaming frames.")
    ] = "",
    data: Annotated[
        list[str] | None,
        typer.Option(help="Folder of Parquet files, one a micro-batch; for several inputs NAME=FOLDER, repeated."),
    ] = None,
    workload: Annotated[str, typer.Option(help=f"A built-in query instead: {', '.join(WORKLOADS)}.")] = "",
    rows: Annotated[int, typer.Option(help="Generated rows of a micro-batch.")] = 500_000,
    keys: Annotated[int, typer.Option(help="Different keys in them.")] = 100_000,
    minutes: Annotated[float, typer.Option(help="Time budget.")] = 10.0,
    cores: Annotated[str, typer.Option(help="Numbers of cores to measure, as 1,2,4; by default 1, 2, 4 … all.")] = "",
    expect: Annotated[str, typer.Option(help="Also say what to expect on these numbers of cores, as 8,16.")] = "",
    trials: Annotated[int, typer.Option(help="At most so many trials; 0 for as many as the time allows.")] = 0,
    defaults: Annotated[bool, typer.Option(help="Whether to measure Spark's defaults too, to compare with.")] = True,
    batches: Annotated[int, typer.Option(help="Micro-batches that count.")] = 6,
    warm_up: Annotated[int, typer.Option(help="Micro-batches before those.")] = 4,
    output_mode: Annotated[str, typer.Option(help="append, update or complete; found out if not given.")] = "",
    memory: Annotated[str, typer.Option(help="Memory of the JVM.")] = "2g",
    conf: Annotated[list[str] | None, typer.Option(help="A session option as key=value; may be repeated.")] = None,
    patience: Annotated[
        float, typer.Option(help="Seconds without a batch after which a trial counts as hanging.")
    ] = 120,
    out: Annotated[Path, typer.Option(help="Folder for the reports.")] = Path("millrace-tune"),
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")] = False,
) -> None:
    """Find the settings that give the most rows a second from the cores one has.

    Runs the query over and over in local mode, each time with other settings, and writes a table,
    an HTML report and a fragment for spark-defaults.conf. Interrupting it keeps what was measured.

    The function takes a streaming frame for each input and returns a streaming frame. If it has the keywords
    buckets and map_side, those are tuned too.

    Examples:

        millrace tune --workload aggregate --keys 1000000 --minutes 5

        millrace tune --query clicks.py --data ./clicks --expect 8,16,32

        millrace tune --query ads.py:joined --data shown=./impressions --data clicks=./clicks --json > tuned.json
    """
    arguments = Arguments(
        query, tuple(data or ()), workload, rows, keys, minutes, cores, expect, batches, warm_up, output_mode,
        memory, tuple(conf or ()), patience, out, trials, defaults,
    )  # fmt: skip
    arguments.check()
    stderr = Console(stderr=True, highlight=False)
    folder = Path(tempfile.mkdtemp(prefix="millrace-tune-"))
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        outcome = _tuned(arguments, folder, stderr)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    files = write_reports(outcome, out)
    if as_json:
        print_json({**outcome.as_dict(), "files": [str(file) for file in files]})
    print_outcome(outcome, stderr if as_json else Console(highlight=False))
    for file in files:
        stderr.print(f"wrote {file}", soft_wrap=True)
    if outcome.interrupted:
        raise typer.Exit(INTERRUPTED_CODE)
    if outcome.winner is None:
        raise InvalidArgument(_nothing_measured(outcome, minutes))


def _tuned(arguments: Arguments, folder: Path, stderr: Console) -> Outcome:
    """Prepare the job and search."""
    started = time.monotonic()
    seconds = arguments.minutes * 60
    numbers_of_cores = numbers("--cores", arguments.cores) or default_cores(cores_here())
    note = _note(numbers_of_cores)
    if note:
        stderr.print(f"note: {note}", soft_wrap=True)
    display = Display(stderr, seconds, arguments.warm_up + arguments.batches)
    search: Search | None = None
    interrupted = False
    try:
        job, accepted = prepared(arguments, folder)
        runner = Runner(job, folder, started + seconds, arguments.patience, display.watch)
        search = Search(
            _telling(runner, display), numbers_of_cores, accepted, lambda: started + seconds - time.monotonic(),
            arguments.trials or inf, arguments.defaults,
        )  # fmt: skip
        with display.shown():
            search.go()
    except KeyboardInterrupt:
        interrupted = True
        if search is None:
            stderr.print("interrupted before the first trial")
            raise typer.Exit(INTERRUPTED_CODE) from None
    return Outcome.of(
        search, runner.current, job=job, accepted=accepted, expected_cores=numbers("--expect", arguments.expect),
        interrupted=interrupted, note=note, seconds=time.monotonic() - started, cores_here=cores_here(),
        versions=runner.versions,
    )  # fmt: skip


def _note(numbers_of_cores: list[int]) -> str:
    """What the reader should know of this machine."""
    here = cores_here()
    if max(numbers_of_cores) > here:
        return f"this machine has {here} cores, so figures for more say nothing about real ones"
    return busy_note(os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0, here)


def prepared(arguments: Arguments, folder: Path) -> tuple[Job, tuple[str, ...]]:
    """The job with its data in place, and the keywords that the query takes."""
    if arguments.workload:
        workload = WORKLOADS[arguments.workload]
        count = arguments.warm_up + arguments.batches
        inputs = generate(workload, folder / "data", count, arguments.rows, arguments.keys)
        return arguments.job(inputs), workload.query.accepted
    names, accepted = Runner(arguments.job({}), folder, 0.0, 0.0).describe()
    return arguments.job(arguments.inputs(names)), accepted


def _telling(runner: Runner, display: Display) -> Run:
    """Run trials and tell of each; what is wrong with the query itself ends the search at once."""

    def run(settings: Settings, purpose: str, rival: Trial | None, limit: float) -> Trial:
        trial = runner.run(settings, purpose, rival, limit)
        if trial.mistake and trial.number == 1:
            raise InvalidArgument(trial.reason)
        display.ended(trial)
        return trial

    return run


def write_reports(outcome: Outcome, out: Path) -> list[Path]:
    """Write what there is to write; returns the files."""
    if not outcome.trials:
        return []
    out.mkdir(parents=True, exist_ok=True)
    texts = {REPORT: html_report(outcome), CONF: outcome.conf()}
    with suppress(FileNotFoundError):
        # One of an earlier run would be taken for this one's.
        (out / CONF).unlink()
    files = {out / name: text for name, text in texts.items() if text}
    for file, text in files.items():
        file.write_text(text, encoding="utf-8")
    return list(files)


def _nothing_measured(outcome: Outcome, minutes: float) -> str:
    failed = next((trial for trial in outcome.trials if trial.status == "failed"), None)
    if failed is not None:
        return f"no trial succeeded; trial {failed.number}: {failed.reason}"
    return f"--minutes: {minutes:g} were too few to measure anything; give more, or fewer rows a batch"
