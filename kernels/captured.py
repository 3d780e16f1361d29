"""A user's function as text: its source, and everything outside of it that it uses, by value.

Text can be hashed, pickled and sent to other machines, and compiled code is found on disk again by it.
Global numbers, strings, tuples and arrays are written down as they are now; functions are captured
likewise, and NumPy and math are imported.
"""

from __future__ import annotations

import ast
import base64
import builtins
import dis
import inspect
import math
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from importlib import import_module
from typing import Any

import numpy as np
from numba.core.registry import CPUDispatcher
from numba.extending import _Intrinsic

from .errors import InvalidArgument

MODULES = ("cmath", "decimal", "math", "numba", "numpy", "operator")
LARGEST_ARRAY = 10**6  # bytes; Numba does not cache functions with larger constants
WRAPPER = "if True:\n"
PASSED_ON = ("boundscheck", "error_model", "fastmath")
ACCEPTED = (
    "numbers, strings, bytes, decimals, tuples of them, NumPy arrays, functions, and the modules math, decimal and "
    "numpy"
)


@dataclass(frozen=True)
class CapturedFunction:
    """A function as text.

    `reads` has the names that may be read from each argument; `bindings` are lines of Python, by the name
    that they define; `helpers` are the functions it calls; `file` and `line` say where it came from.
    """

    name: str
    source: str
    file: str
    line: int
    arguments: tuple[str, ...]
    reads: dict[str, frozenset[str]]
    words: frozenset[str]
    bindings: dict[str, str] = field(default_factory=dict)
    helpers: dict[str, CapturedFunction] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)

    @property
    def where(self) -> str:
        """File and line, for messages."""
        return f"{self.file}, line {self.line}"

    def gives_out(self) -> str | None:
        """Say what the function gives to its caller; None if nothing."""
        nodes: list[ast.AST] = [*_definition(self.source, self.name, self.name).body]
        while nodes:
            node = nodes.pop()
            if isinstance(node, ast.Yield | ast.YieldFrom):
                return "yields"
            if isinstance(node, ast.Return) and node.value is not None and ast.unparse(node.value) != "None":
                return f"returns {ast.unparse(node.value)}"
            if not isinstance(node, ast.FunctionDef | ast.Lambda):
                nodes += ast.iter_child_nodes(node)
        return None

    def same_code(self, other: CapturedFunction) -> bool:
        """Whether the other one does the same, wherever it was written."""
        return (
            (self.source, self.bindings, self.options) == (other.source, other.bindings, other.options)
            and self.helpers.keys() == other.helpers.keys()
            and all(helper.same_code(other.helpers[name]) for name, helper in self.helpers.items())
        )


def capture(function: Callable, argument: str) -> CapturedFunction:
    """Capture a function, compiled by Numba or not; `argument` names it in messages.

    Examples
    --------
    >>> def last_amount(key, rows, state, out):
    ...     out.emit(key.user, rows.amount[len(rows) - 1])
    >>> capture(last_amount, "function").arguments
    ('key', 'rows', 'state', 'out')
    """
    return _Capture(argument).function(function)


class _Capture:
    """One capture; knows which functions it is in the middle of."""

    def __init__(self, argument: str) -> None:
        self.argument = argument
        self.open: list[types.CodeType] = []

    def function(self, function: Callable) -> CapturedFunction:
        plain = function.py_func if isinstance(function, CPUDispatcher) else function
        if not isinstance(plain, types.FunctionType):
            raise InvalidArgument.of(self.argument, function, "a Python function")
        code = plain.__code__
        if code in self.open:
            raise InvalidArgument(f"{self.argument}: {plain.__name__} and {self.open[-1].co_name} call one another")
        self.open.append(code)
        source, file, line, node = _source_of(plain, self.argument)
        _require_plain(node, self.argument, plain.__name__)
        bindings: dict[str, str] = {}
        helpers: dict[str, CapturedFunction] = {}
        for name, value in _outer_values(plain, node, self.argument):
            if self._is_itself(value, code):
                # It would compile, but Numba crashes when it loads such code from its cache.
                raise InvalidArgument(f"{self.argument}: {plain.__name__} calls itself; write it as a loop")
            if isinstance(value, CPUDispatcher | types.FunctionType) and not _import_line(name, value):
                helpers[name] = self.function(value)
            else:
                bindings[name] = self._binding(plain.__name__, name, value)
        self.open.pop()
        words = frozenset(_words(code)).union(*(helper.words for helper in helpers.values()))
        options = {k: repr(v) for k, v in getattr(function, "targetoptions", {}).items() if k in PASSED_ON}
        arguments = tuple(a.arg for a in [*node.args.posonlyargs, *node.args.args])
        reads = {name: words if (direct := _direct_reads(node, name)) is None else direct for name in arguments}
        return CapturedFunction(
            plain.__name__, source, file, line, arguments, reads, words, bindings, helpers, options
        )  # fmt: skip

    @staticmethod
    def _is_itself(value: object, code: types.CodeType) -> bool:
        inner = value.py_func if isinstance(value, CPUDispatcher) else value
        return getattr(inner, "__code__", None) is code

    def _binding(self, function: str, name: str, value: Any) -> str:
        line = _import_line(name, value)
        if line is None:
            text = literal_of(value)
            line = None if text is None else f"{name} = {text}"
        if line is None:
            raise InvalidArgument(
                f"{self.argument}: {function} uses {name!r}, a {type(value).__name__}, accepted are {ACCEPTED}"
            )
        return line


def _source_of(function: types.FunctionType, argument: str) -> tuple[str, str, int, ast.FunctionDef]:
    """Give a function's source without decorators, where it stands, and its syntax tree."""
    name, file = function.__name__, function.__code__.co_filename
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError) as error:
        raise InvalidArgument(
            f"{argument}: the source of {name!r} cannot be found ({file}); accepted are functions defined with def "
            "in a file or in a notebook"
        ) from error
    indented = lines[0][:1].isspace()
    node = _definition("".join([WRAPPER, *lines] if indented else lines), name, argument)
    start = node.lineno - 1 - indented
    source = "".join(lines[start : (node.end_lineno or node.lineno) - indented])
    return (WRAPPER + source if indented else source), file, max(first, 1) + start, node


def _definition(text: str, name: str, argument: str) -> ast.FunctionDef:
    try:
        body = ast.parse(text).body
    except SyntaxError:
        body = []
    if text.startswith(WRAPPER) and body and isinstance(body[0], ast.If):
        body = body[0].body
    if len(body) != 1 or not isinstance(body[0], ast.FunctionDef) or body[0].name != name:
        raise InvalidArgument.of(argument, name, "a function defined with def, in lines of its own")
    return body[0]


def _require_plain(node: ast.FunctionDef, argument: str, name: str) -> None:
    if node.args.vararg or node.args.kwarg or node.args.kwonlyargs:
        kinds = "*args, **kwargs or keyword-only arguments"
        raise InvalidArgument(f"{argument}: {name} takes {kinds}; accepted are plain ones")


def _outer_values(function: types.FunctionType, node: ast.FunctionDef, argument: str) -> Iterator[tuple[str, Any]]:
    """Give every name that a function takes from outside, with its value."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    enclosed = dict(cells)
    defaults = [default for default in [*node.args.defaults, *node.args.kw_defaults] if default is not None]
    in_defaults = [n.id for default in defaults for n in ast.walk(default) if isinstance(n, ast.Name)]
    for name in dict.fromkeys([*enclosed, *_global_names(function.__code__), *in_defaults]):
        if name in enclosed:
            try:
                yield name, enclosed[name].cell_contents
            except ValueError as error:
                raise InvalidArgument(f"{argument}: {function.__name__} uses {name!r} before it is defined") from error
        elif name in function.__globals__:
            yield name, function.__globals__[name]
        elif not hasattr(builtins, name):
            raise InvalidArgument(f"{argument}: {function.__name__} uses {name!r}, which is not defined here")


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _global_names(code: types.CodeType) -> Iterator[str]:
    for inner in _codes(code):
        for instruction in dis.get_instructions(inner):
            if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                yield instruction.argval


def _words(code: types.CodeType) -> Iterator[str]:
    """Give every attribute name and string in a function: what it can possibly read by name."""
    for inner in _codes(code):
        yield from inner.co_names
        for constant in inner.co_consts:
            parts = constant if isinstance(constant, tuple) else (constant,)
            yield from (part for part in parts if isinstance(part, str))


def _direct_reads(node: ast.FunctionDef, argument: str) -> frozenset[str] | None:
    """Give the attributes that are read from an argument; None where it goes elsewhere by itself."""
    reads: set[str] = set()
    plain: set[int] = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and _is_name(part.value, argument):
            plain.add(id(part.value))
            reads.add(part.attr)
        elif isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id == "len":
            plain.update(id(given) for given in part.args)
        elif isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute):
            # A method may take the name of a field, as in rows.is_null("amount", i).
            constants = (given.value for given in part.args[:1] if isinstance(given, ast.Constant))
            reads.update(value for value in constants if isinstance(value, str))
    elsewhere = any(_is_name(part, argument) and id(part) not in plain for part in ast.walk(node))
    return None if elsewhere else frozenset(reads)


def _is_name(part: ast.AST, name: str) -> bool:
    return isinstance(part, ast.Name) and part.id == name


# --- values as text ---------------------------------------------------------------------------------


def _import_line(name: str, value: Any) -> str | None:
    """Give the import that brings a module, or something out of one, if it is a module to import from."""
    if isinstance(value, types.ModuleType):
        known = value.__name__.partition(".")[0] in MODULES
        return f"import {value.__name__} as {name}" if known else None
    if isinstance(value, _Intrinsic) and value.__module__.partition(".")[0] == "millrace":
        return f"from {value.__module__} import {value.__name__} as {name}"
    own = getattr(value, "__name__", None) or str(value)
    for home in (getattr(value, "__module__", None), *MODULES):
        if not isinstance(home, str) or home.partition(".")[0] not in MODULES or not own.isidentifier():
            continue
        if getattr(import_module(home), own, None) is value:
            return f"from {home} import {own} as {name}"
    return None


def literal_of(value: Any) -> str | None:
    """Write a value as Python source; None for a value that has no such form.

    Examples
    --------
    >>> literal_of((1, 2.5, "x", None))
    "(1, 2.5, 'x', None,)"
    """
    if isinstance(value, np.generic):
        inner = literal_of(value.item())
        return None if inner is None else f"__import__('numpy').{value.dtype.type.__name__}({inner})"
    if value is None or type(value) in (bool, int, str, bytes):
        return repr(value)
    if type(value) is Decimal:
        return f"__import__('decimal').Decimal({str(value)!r})"
    if type(value) is float:
        return repr(value) if math.isfinite(value) else f"float({str(value)!r})"
    if type(value) is tuple:
        parts = [literal_of(part) for part in value]
        return None if None in parts else f"({''.join(f'{part}, ' for part in parts).rstrip()})"
    if type(value) is np.ndarray and value.nbytes <= LARGEST_ARRAY and value.dtype.kind in "biuf":
        data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
        flat = f"frombuffer(__import__('base64').b64decode('{data}'), '{value.dtype.str}')"
        return f"__import__('numpy').{flat}.reshape({value.shape!r})"
    return None
