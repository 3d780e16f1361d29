"""The command's arguments, checked before anything is started."""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass
from pathlib import Path

from ...kernels.errors import InvalidArgument
from .job import Job, split_query
from .workloads import WORKLOADS

MODES = ("append", "update", "complete")


@dataclass(frozen=True)
class Arguments:
    """What the user asked for."""

    query: str
    data: tuple[str, ...]
    workload: str
    rows: int
    keys: int
    minutes: float
    cores: str
    expect: str
    batches: int
    warm_up: int
    output_mode: str
    memory: str
    conf: tuple[str, ...]
    patience: float
    out: Path
    trials: int = 0
    defaults: bool = True

    def check(self) -> None:
        """Refuse what cannot work."""
        if bool(self.query) == bool(self.workload):
            given = "both" if self.query else "neither"
            raise InvalidArgument(f"--query, --workload: got {given}, accepted is one of them (millrace tune --help)")
        if self.workload and self.workload not in WORKLOADS:
            raise InvalidArgument.of("--workload", self.workload, ", ".join(WORKLOADS))
        if self.workload and self.data:
            raise InvalidArgument("--data: a built-in workload makes its own data; give --query to use yours")
        counts = (("--rows", self.rows, 1), ("--keys", self.keys, 1), ("--batches", self.batches, 1))
        for name, number, lowest in (*counts, ("--warm-up", self.warm_up, 0), ("--trials", self.trials, 0)):
            if number < lowest:
                raise InvalidArgument.of(name, number, f"a whole number of {lowest} or more")
        for name, seconds in (("--minutes", self.minutes), ("--patience", self.patience)):
            if not (seconds > 0 and math.isfinite(seconds)):
                raise InvalidArgument.of(name, seconds, "a number above 0")
        if self.output_mode and self.output_mode not in MODES:
            raise InvalidArgument.of("--output-mode", self.output_mode, ", ".join(MODES))
        if not re.fullmatch(r"\d+[kmgt]b?", self.memory, re.IGNORECASE):
            raise InvalidArgument.of("--memory", self.memory, "a number with a unit, such as 2g")
        numbers("--cores", self.cores)
        numbers("--expect", self.expect)
        self._options()
        self._check_places()

    def _check_places(self) -> None:
        if self.query:
            path, _ = split_query(self.query)
            if not Path(path).is_file():
                raise InvalidArgument.of("--query", self.query, "FILE.py or FILE.py:function, of a file that exists")
            if not self.data:
                raise InvalidArgument("--data: it is missing; a query needs a folder of Parquet files for each input")
        for folder in (text.rpartition("=")[2] for text in self.data):
            check_folder(folder, self.warm_up)
        place = next(p for p in (self.out, *self.out.absolute().parents) if p.exists())
        if not place.is_dir() or not os.access(place, os.W_OK):
            raise InvalidArgument.of("--out", str(self.out), "a folder that can be written")

    def _options(self) -> dict[str, str]:
        pairs = [text.partition("=") for text in self.conf]
        for key, equals, _ in pairs:
            if not key or not equals:
                raise InvalidArgument.of("--conf", key, "key=value")
        return {key: value for key, _, value in pairs}

    def inputs(self, names: tuple[str, ...]) -> dict[str, str]:
        """The folder of each of the query's inputs: by name, or all of them in their order."""
        pairs = [text.rpartition("=") for text in self.data]
        given = [name for name, _, _ in pairs if name]
        wanted = f"a folder for each of {', '.join(names)}, in this order or as NAME=FOLDER"
        if len(pairs) != len(names) or (given and sorted(given) != sorted(names)):
            raise InvalidArgument.of("--data", ", ".join(self.data), wanted)
        by_name = {name or names[i]: str(Path(folder).resolve()) for i, (name, _, folder) in enumerate(pairs)}
        return {name: by_name[name] for name in names}

    def job(self, inputs: dict[str, str]) -> Job:
        """The job without the search's settings."""
        return Job(
            self.query, self.workload, inputs, self.output_mode, self.warm_up, self.batches, self.memory,
            self._options(),
        )  # fmt: skip


def check_folder(folder: str, warm_up: int) -> None:
    """A folder must have more files than are used up by warming up."""
    path = Path(folder)
    if not path.is_dir():
        raise InvalidArgument.of("--data", folder, "a folder of Parquet files that exists")
    files = sum(not file.name.startswith(("_", ".")) for file in path.glob("*.parquet"))
    if files == 0:
        raise InvalidArgument.of("--data", folder, "a folder with Parquet files (*.parquet) in it")
    if files <= warm_up:
        raise InvalidArgument(
            f"--data: {folder} has {files} Parquet file{'s' * (files != 1)}, one a micro-batch, and --warm-up uses up "
            f"{warm_up}; split the data into more files, or give a lower --warm-up"
        )


def numbers(argument: str, text: str) -> list[int]:
    """Read a list of numbers of cores.

    Examples
    --------
    >>> numbers("--cores", "4, 1,2"), numbers("--cores", "")
    ([1, 2, 4], [])
    """
    parts = [part.strip() for part in text.split(",")] if text.strip() else []
    if not all(re.fullmatch(r"\d{1,6}", part) and int(part) > 0 for part in parts):
        raise InvalidArgument.of(argument, text, "whole numbers above 0 with commas between, such as 1,2,4")
    return sorted(set(map(int, parts)))
