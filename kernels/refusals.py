"""Messages from within Numba's type inference that must reach the user as they are.

Numba wraps what an overload raises into pages of its own; the marks let `plain_reason` find ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

from numba import types
from numba.core.errors import TypingError

OPEN, CLOSE = "⟦", "⟧"
_MARKED = re.compile(f"{OPEN}(.*?){CLOSE}", re.DOTALL)
_NOISE = re.compile(r"^(Failed in \w+ mode pipeline.*|-?\s*Resolution failure for .*|)$")
_END_OF_REASON = re.compile(r'^(File "|During: |There are \d+ candidate|Enable logging|This error may|To see)')


def refuse(message: str) -> TypingError:
    """Build an error to raise while types are inferred."""
    return TypingError(f"{OPEN}{message}{CLOSE}")


def require_literal(name: types.Type) -> None:
    """Let Numba try again with the literal, where it first tries a name as any string."""
    if not isinstance(name, types.StringLiteral):
        raise TypingError("a name must be a literal")


def unknown_field(view: str, name: str, known: Iterable[str], word: str = "field") -> TypingError:
    """Build the error for a field that a view does not have."""
    names = list(known)
    near = get_close_matches(name, names, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return refuse(f"{view} has no {word} {name!r}{hint}; there are {', '.join(names) or 'none'}")


def plain_reason(error: BaseException) -> str:
    """Cut a Numba error down to what is wrong: our own words if there are any, else Numba's first ones.

    Examples
    --------
    >>> plain_reason(refuse("state has no field 'm'"))
    "state has no field 'm'"
    """
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    marked = _MARKED.search(text)
    if marked:
        return " ".join(marked[1].split())
    lines: list[str] = []
    for line in map(str.strip, text.splitlines()):
        if _END_OF_REASON.match(line):
            if lines:
                break
        elif not _NOISE.match(line):
            lines.append(line)
    return " ".join(lines[:3]) or f"Numba fails with {type(error).__name__}"
