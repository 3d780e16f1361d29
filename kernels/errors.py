"""The exceptions this package raises; all share the root `MillraceError`."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class MillraceError(Exception):
    """Root of every error raised on purpose by Millrace."""


class InvalidArgument(MillraceError, ValueError):
    """An argument that cannot work; the message names it, what was given and what is accepted."""

    @classmethod
    def of(cls, argument: str, given: object, accepted: str) -> InvalidArgument:
        """Build the message every argument error shares.

        Examples
        --------
        >>> print(InvalidArgument.of("output_mode", "upsert", "'append', 'update' or 'complete'"))
        output_mode: got 'upsert', accepted is 'append', 'update' or 'complete'
        """
        return cls(f"{argument}: got {given!r}, accepted is {accepted}")

    @classmethod
    def unknown_column(cls, argument: str, name: object, columns: Iterable[str]) -> InvalidArgument:
        """Build the message for a column that does not exist, with the nearest names first.

        Examples
        --------
        >>> print(InvalidArgument.unknown_column("keys", "usr", ["user", "ts"]))
        keys: there is no column 'usr' (did you mean 'user'?); the columns are user, ts
        """
        names = list(columns)
        near = get_close_matches(str(name), names, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        known = ", ".join(names) or "none"
        return cls(f"{argument}: there is no column {name!r}{hint}; the columns are {known}")


class UnsupportedType(InvalidArgument):
    """A column whose type has no place in a key or in an aggregate."""


class ArithmeticOverflow(MillraceError, ArithmeticError):
    """A sum or average left the range of its result type (ANSI arithmetic)."""


class FunctionFailed(MillraceError):
    """A user's function raised, or broke a rule of Spark's; the message names the key."""


class StateFormatError(MillraceError):
    """Bytes that are not a state this query can load; the message says what does not fit."""
