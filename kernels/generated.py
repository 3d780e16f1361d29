"""Modules that Millrace writes, so that Numba finds functions compiled for a user on disk again.

A function passed as an argument misses Numba's cache in every process; a function that is called by its
name in an imported module does not. So every captured function becomes a module of its own, and so does
the loop that calls it. A module is named by a hash of everything that it depends on.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import stat
import sys
import tempfile
from functools import lru_cache
from pathlib import Path
from types import ModuleType

import numba

from .captured import CapturedFunction
from .errors import InvalidArgument
from .refusals import plain_reason
from .rewriting import compiled

PREFIX = "millrace_jit_"
# Numba takes a module's time of change for its identity; here the name is, so the time is always the same.
TIME_OF_CHANGE = 1_000_000_000


# --- modules ----------------------------------------------------------------------------------------


def function_module(function: CapturedFunction) -> ModuleType:
    """Give the module of a captured function, with those of the functions that it calls."""
    # Names of its own, since the user's may be any.
    lines = [f"from {compiled.__module__} import compiled as _millrace_compiled"]
    for name, helper in function.helpers.items():
        module = function_module(helper)
        lines.append(f"from {module.__name__} import {helper.name} as {name}")
    lines += function.bindings.values()
    options = ", ".join(f"{name}={value}" for name, value in sorted(function.options.items()))
    lines += [f"_millrace_source_begins = {len(lines) + 3}", function.source.rstrip("\n")]
    lines.append(f"{function.name} = _millrace_compiled({options})({function.name})")
    return load_module(function.name, "\n".join(lines) + "\n")


def load_module(name: str, text: str) -> ModuleType:
    """Write a module of some text, unless it is there, and import it."""
    text = f"from __future__ import annotations\n{text}"
    digest = hashlib.blake2b(f"{code_version()}\n{text}".encode(), digest_size=10).hexdigest()
    full_name = f"{PREFIX}{name}_{digest}"
    if full_name in sys.modules:
        return sys.modules[full_name]
    path = cache_folder() / f"{full_name}.py"
    _write(path, text)
    spec = importlib.util.spec_from_file_location(full_name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[full_name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[full_name]
        raise
    return module


def _write(path: Path, text: str) -> None:
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, suffix=".tmp", delete=False) as file:
        file.write(text)
    os.utime(file.name, (TIME_OF_CHANGE, TIME_OF_CHANGE))
    # In one step, since other processes may be about to import it.
    os.replace(file.name, path)


@lru_cache(maxsize=1)
def code_version() -> str:
    """Give a text that changes whenever compiled functions might: the code of this package, and Numba's."""
    digest = hashlib.blake2b(numba.__version__.encode(), digest_size=16)
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def cache_folder() -> Path:
    """Give the folder for generated modules: in NUMBA_CACHE_DIR if set, else the user's cache, else a temporary one."""
    given = os.environ.get("NUMBA_CACHE_DIR")
    if given:
        folder = Path(given) / "millrace"
        folder.mkdir(parents=True, exist_ok=True)
        return folder
    return _own_folder()


@lru_cache(maxsize=1)
def _own_folder() -> Path:
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    for parent in (os.environ.get("XDG_CACHE_HOME") or "~/.cache", tempfile.gettempdir()):
        try:
            folder = Path(parent).expanduser() / f"millrace-{user}"
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if _is_private(folder):
                return folder
        except (OSError, RuntimeError):  # it cannot be written, or there is no home
            continue
    return Path(tempfile.mkdtemp(prefix="millrace-"))


def _is_private(folder: Path) -> bool:
    """Tell whether nobody else can write here: what lies here is run."""
    facts = folder.stat()
    owned = not hasattr(os, "getuid") or facts.st_uid == os.getuid()
    return owned and not facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and os.access(folder, os.W_OK)


# --- errors -----------------------------------------------------------------------------------------


def compile_or_explain(argument: str, function: CapturedFunction, loop, signature, views: tuple) -> None:
    """Compile a loop, or say in one message what is wrong with the function that it calls.

    `views` are the types with which the loop calls the function.
    """
    try:
        loop.compile(signature)
    except Exception as error:  # Numba fails in many ways
        raise InvalidArgument(_explain(argument, function, views, error)) from error


def _explain(argument: str, function: CapturedFunction, views: tuple, error: Exception) -> str:
    module = function_module(function)
    try:
        # By itself the function fails at its own line, not at that of the loop.
        getattr(module, function.name).compile(views)
    except Exception as own:
        error = own
    line = _line_of(function, error)
    place = f" ({line})" if line else ""
    return f"{argument}: {function.name} of {function.where} cannot be compiled: {plain_reason(error)}{place}"


def _line_of(function: CapturedFunction, error: Exception) -> str | None:
    """Give the innermost line, of the function or of one that it calls, that an error speaks of."""
    text = str(error)
    found = []
    for one in [function, *_all_helpers(function)]:
        module = function_module(one)
        for at, number in _mentions(text, str(module.__file__)):
            source = one.source.splitlines()
            index = number - module._millrace_source_begins
            if 0 <= index < len(source):
                first = one.line - source[0].startswith("if True:")
                found.append((at, f"line {first + index}: {source[index].strip()}"))
    # Numba begins with the innermost place and goes outwards.
    return min(found)[1] if found else None


def _all_helpers(function: CapturedFunction) -> list[CapturedFunction]:
    return [deep for helper in function.helpers.values() for deep in [helper, *_all_helpers(helper)]]


def _mentions(text: str, file: str) -> list[tuple[int, int]]:
    tail = re.escape(Path(file).name)
    found = [(m.start(), int(m[1])) for m in re.finditer(tail + r'", line (\d+)', text)]
    return found + [(m.start(), int(m[1])) for m in re.finditer(tail + r" \((\d+)\)", text)]
