"""Runs trials in processes of their own and follows them, batch by batch."""

from __future__ import annotations

import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ...kernels.errors import InvalidArgument, MillraceError
from .job import Job
from .processes import end_session, uninterrupted
from .settings import Settings
from .trial import DONE, FAILED, INTERRUPTED, OUT_OF_TIME, STOPPED, Batch, Trial, cannot_win
from .trial_process import DESCRIBE, MEASURE

COMMAND = (sys.executable, "-m", "millrace.spark_glue.tuning.trial_process")
TICK = 0.1


class Child:
    """A process that does what it is asked and tells JSON events."""

    def __init__(self, request: dict[str, Any], log: Path) -> None:
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
        with log.open("w") as errors:
            self._process = subprocess.Popen(
                COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
                env=environment, start_new_session=True,
            )  # fmt: skip
        self._log = log
        self._events: queue.Queue[dict[str, Any] | None] = queue.Queue()
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._events.put(json.loads(line))
        self._events.put(None)

    def events(self) -> Iterator[dict[str, Any] | None]:
        """Events as they come, and None now and then where none does; ends with the process."""
        while True:
            try:
                event = self._events.get(timeout=TICK)
            except queue.Empty:
                yield None
                continue
            if event is None:
                code = self._process.wait()
                yield {"event": "crashed", "reason": self._crash(code)}
                return
            if event["event"] == "over":
                return
            yield event

    def _crash(self, code: int) -> str:
        lines = [line.strip() for line in self._log.read_text(errors="replace").splitlines() if line.strip()]
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return f"the trial's process ended with {how}" + (f": {lines[-1][:200]}" if lines else "")

    def end(self) -> None:
        """End the process and all that it started."""
        end_session(self._process.pid)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        self._process.wait()


class Runner:
    """Runs the trials of one job; `deadline` is in the time of `time.monotonic`.

    `patience` is how many seconds a trial may go without finishing a batch before it counts as hanging.
    """

    def __init__(
        self, job: Job, folder: Path, deadline: float, patience: float, watch: Callable[[Trial], None] = lambda _: None
    ) -> None:
        self._job = job
        self._folder = folder
        self._deadline = deadline
        self._patience = patience
        self._watch = watch
        self.count = 0
        self.versions: dict[str, str] = {}
        # The last trial, which runs or has run.
        self.current: Trial | None = None

    def describe(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Ask what the query takes: the names of its frames and of its keywords."""
        child = Child({"do": DESCRIBE, "job": asdict(self._job)}, self._folder / "describe.log")
        try:
            for event in filter(None, child.events()):
                if event["event"] == "query":
                    return tuple(event["inputs"]), tuple(event["accepted"])
                raise InvalidArgument(event["reason"])
        finally:
            child.end()
        raise MillraceError("the query's file could not be read")

    def run(self, settings: Settings, purpose: str, rival: Trial | None, limit: float = float("inf")) -> Trial:
        """Run a trial to its end, or as far as it is worth it."""
        self.count += 1
        trial = self.current = Trial(self.count, settings, purpose, self._job.warm_up)
        started = time.monotonic()
        place = Path(tempfile.mkdtemp(prefix=f"trial-{trial.number}-", dir=self._folder))
        request = {
            "do": MEASURE, "job": asdict(self._job), "settings": settings.as_dict(), "folder": str(place),
        }  # fmt: skip
        child = None
        try:
            with uninterrupted():
                child = Child(request, place / "log")
            self._follow(trial, child, rival, min(self._deadline, started + limit))
        except KeyboardInterrupt:
            trial.cut(INTERRUPTED, "")
            raise
        finally:
            with uninterrupted():
                if child is not None:
                    child.end()
                trial.seconds = time.monotonic() - started
                shutil.rmtree(place, ignore_errors=True)
        return trial

    def _follow(self, trial: Trial, child: Child, rival: Trial | None, deadline: float) -> None:
        heard = time.monotonic()
        for event in child.events():
            now = time.monotonic()
            if event is not None:
                heard = now
                self._note(trial, event)
            self._watch(trial)
            if trial.status == FAILED:
                return
            if trial.totals is None and cannot_win(trial, rival):
                trial.status = STOPPED
                trial.reason = f"slower than trial {rival.number if rival else ''} on the same batches"
                return
            if now > deadline:
                trial.cut(OUT_OF_TIME, "its share of the time budget was used up")
                return
            if now - heard > self._patience:
                trial.status, trial.reason = FAILED, f"it hangs: nothing happened for {self._patience:.0f} seconds"
                return
        if trial.status != FAILED:
            missing = not trial.steady or trial.totals is None
            trial.status, trial.reason = (FAILED, "it ended before a batch counted") if missing else (DONE, "")

    def _note(self, trial: Trial, event: dict[str, Any]) -> None:
        if event["event"] == "batch":
            trial.batches.append(Batch(event["rows"], event["ms"]))
        elif event["event"] == "totals":
            self.versions = event.pop("versions")
            trial.totals = {key: value for key, value in event.items() if key != "event"}
        elif event["event"] in ("failed", "crashed"):
            trial.status, trial.reason = FAILED, event["reason"]
        elif event["event"] == "mistake":
            trial.status, trial.reason, trial.mistake = FAILED, event["reason"], True
