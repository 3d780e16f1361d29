"""A user's query: a Python file with a function from streaming frames to a frame."""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from ...kernels.errors import InvalidArgument
from .job import split_query
from .settings import BUCKETS, MAP_SIDE

POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
ACCEPTED = "a function of one frame or more, such as 'def build(frame, *, buckets=None, map_side=True)'"


@dataclass(frozen=True)
class Query:
    """A function that builds a query; `inputs` and `accepted` are the names of its frames and of its keywords."""

    build: Callable[..., Any]
    inputs: tuple[str, ...]
    accepted: tuple[str, ...]


def load_query(text: str) -> Query:
    """Run the user's file and take the function out of it."""
    file, function = split_query(text)
    path = Path(file)
    if not path.is_file():
        raise InvalidArgument.of("--query", text, "FILE.py or FILE.py:function, of a file that exists")
    module = _run_file(path)
    build = getattr(module, function, None)
    if not callable(build):
        own = [name for name, thing in vars(module).items() if inspect.isfunction(thing) and name[0] != "_"]
        found = f"it has {', '.join(own)}" if own else "it has none"
        raise InvalidArgument(f"--query: there is no function {function!r} in {file}; {found}")
    return described(build)


def described(build: Callable[..., Any]) -> Query:
    """Read a function's parameters.

    Examples
    --------
    >>> described(lambda left, right, *, buckets=None: left).accepted
    ('buckets',)
    """
    parameters = inspect.signature(build).parameters.values()
    inputs, accepted = [], []
    for parameter in parameters:
        if parameter.name in (BUCKETS, MAP_SIDE):
            accepted.append(parameter.name)
        elif parameter.kind in POSITIONAL and parameter.default is parameter.empty:
            inputs.append(parameter.name)
        elif parameter.default is parameter.empty and parameter.kind is parameter.KEYWORD_ONLY:
            raise InvalidArgument.of("--query", f"a function with the keyword {parameter.name!r}", ACCEPTED)
    if not inputs:
        raise InvalidArgument.of("--query", f"a function without frames, {build!r}", ACCEPTED)
    return Query(build, tuple(inputs), tuple(accepted))


def _run_file(path: Path) -> Any:
    # Its neighbours can be imported, as when it is run as a script.
    sys.path.insert(0, str(path.resolve().parent))
    name = f"millrace_tuned_{path.stem}"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InvalidArgument.of("--query", str(path), "a Python file, whose name ends in .py")
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise InvalidArgument(f"--query: {raised_in(path, error)}") from error
    return module


def raised_in(path: Path, error: Exception) -> str:
    """Say what a user's code raised, and on which line of its file.

    Examples
    --------
    >>> raised_in(Path("clicks.py"), KeyError("user"))
    "clicks.py raised KeyError: 'user'"
    """
    if isinstance(error, SyntaxError) and error.filename and Path(error.filename).name == path.name:
        return f"{path}, line {error.lineno}: SyntaxError: {error.msg}"
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).resolve() == path.resolve()
    ]
    message = (str(error).strip().splitlines() or ["no message"])[0].rstrip("; ")
    what = f"{type(error).__name__}: {message}"
    return f"{path}, line {lines[-1]}: {what}" if lines else f"{path} raised {what}"
