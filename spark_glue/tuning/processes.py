"""What the processes of a trial take: CPU time and memory, read from /proc where there is one.

A trial's process leads a session of its own. Spark's JVM and Python workers stay in that session, so
they are found by it, measured together and ended together.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
JVM, PYTHON = "jvm", "python"
INTERVAL = 0.2
# Finding processes and summing their memory costs more than reading their times.
LOOKS_PER_SEARCH = 5
# Seconds after which a process that cannot be ended is left alone.
GIVE_UP = 20.0


@dataclass(frozen=True)
class Sample:
    """The CPU seconds so far, JVM and Python workers apart, at a time in seconds since 1970."""

    time: float
    cpu: dict[str, float]


def fields_of(stat: str) -> tuple[str, list[str]]:
    """Split a line of /proc/…/stat into the program's name and the fields after it.

    Examples
    --------
    >>> fields_of("7 (a (b) c) S 1 7 7 0")
    ('a (b) c', ['S', '1', '7', '7', '0'])
    """
    head, _, tail = stat.rpartition(")")
    return head.partition("(")[2], tail.split()


def session_members(session: int) -> Iterator[int]:
    """The processes of a session."""
    for entry in PROC.iterdir() if PROC.is_dir() else ():
        if entry.name.isdigit():
            with suppress(OSError, IndexError):
                _, fields = fields_of((entry / "stat").read_text())
                if int(fields[3]) == session:
                    yield int(entry.name)


def cpu_of(pid: int) -> tuple[str, float]:
    """What kind of process it is, and its CPU seconds with those of the children that it has seen end."""
    name, fields = fields_of((PROC / str(pid) / "stat").read_text())
    ticks = sum(map(int, fields[11:15]))
    return JVM if name == "java" else PYTHON, ticks / os.sysconf("SC_CLK_TCK")


def memory_of(pid: int) -> int:
    """The bytes of a process; memory that it shares counts by its share."""
    for line in (PROC / str(pid) / "smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


class Sampler(threading.Thread):
    """Looks at the processes of this session, except for this one, until it is stopped."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.samples: list[Sample] = []
        self.peak: dict[str, int] = {}
        self._over = threading.Event()

    def run(self) -> None:
        look, members = 0, []
        while not self._over.is_set():
            if look % LOOKS_PER_SEARCH == 0:
                members = [pid for pid in session_members(os.getsid(0)) if pid != os.getpid()]
                self._note_memory(members)
            self._note_cpu(members)
            look += 1
            self._over.wait(INTERVAL)

    def stop(self) -> None:
        self._over.set()
        self.join()

    def _note_cpu(self, members: list[int]) -> None:
        cpu = {JVM: 0.0, PYTHON: 0.0}
        for pid in members:
            with suppress(OSError, IndexError):
                kind, seconds = cpu_of(pid)
                cpu[kind] += seconds
        self.samples.append(Sample(time.time(), cpu))

    def _note_memory(self, members: list[int]) -> None:
        memory = {JVM: 0, PYTHON: 0}
        for pid in members:
            with suppress(OSError, IndexError):
                memory[cpu_of(pid)[0]] += memory_of(pid)
        # The peaks of both at the same moment: what the machine must have.
        if sum(memory.values()) > sum(self.peak.values()):
            self.peak = memory


def cpu_between(samples: list[Sample], start: float, end: float) -> dict[str, float] | None:
    """CPU seconds between two times, interpolated between samples; None where nothing was sampled.

    Examples
    --------
    >>> samples = [Sample(0.0, {"jvm": 1.0}), Sample(1.0, {"jvm": 3.0}), Sample(2.0, {"jvm": 3.0})]
    >>> cpu_between(samples, 0.5, 2.0)
    {'jvm': 1.0}
    """
    if len(samples) < 2 or not any(samples[-1].cpu.values()):
        return None
    return {kind: max(0.0, _at(samples, end, kind) - _at(samples, start, kind)) for kind in samples[-1].cpu}


def _at(samples: list[Sample], moment: float, kind: str) -> float:
    before = samples[0]
    for sample in samples:
        if sample.time >= moment:
            if sample.time == before.time:
                return sample.cpu[kind]
            share = (moment - before.time) / (sample.time - before.time)
            return before.cpu[kind] + max(0.0, share) * (sample.cpu[kind] - before.cpu[kind])
        before = sample
    return before.cpu[kind]


def end_session(session: int, patience: float = 2.0) -> None:
    """End all processes of a session: ask first, then insist, since some may just be starting others."""
    if not PROC.is_dir():
        with suppress(OSError):
            os.killpg(session, signal.SIGKILL)
        return
    started = time.monotonic()
    asked: set[int] = set()
    while living := [pid for pid in session_members(session) if _alive(pid)]:
        waited = time.monotonic() - started
        for pid in living:
            with suppress(OSError):
                if waited > patience:
                    os.kill(pid, signal.SIGKILL)
                elif pid not in asked:
                    os.kill(pid, signal.SIGTERM)
        asked.update(living)
        if waited > patience + GIVE_UP:
            return
        time.sleep(0.05)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Put an interrupt off until a block is over, so that no process is started and then forgotten.

    Examples
    --------
    >>> with uninterrupted():
    ...     pass
    """
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        raise KeyboardInterrupt


def _alive(pid: int) -> bool:
    with suppress(OSError, IndexError):
        return fields_of((PROC / str(pid) / "stat").read_text())[1][0] != "Z"
    return False
