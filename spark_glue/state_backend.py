"""Where a bucket's state lives between batches.

A backend turns a state's bytes into a *handle* that Spark's state store holds, and back. Whatever a
backend does, a handle that Spark goes back to after a failure must still give the bytes it stood for.
A handle is ASCII text, which Spark passes to Python several times as fast as bytes.
"""

from __future__ import annotations

from typing import Protocol

from ..kernels.ascii_text import from_text, to_text
from ..kernels.errors import InvalidArgument


class StateBackend(Protocol):
    """Opens handles and makes new ones."""

    def open(self, handle: str) -> bytes | memoryview:
        """Give the bytes that a handle stands for."""

    def commit(self, state: bytes) -> str:
        """Keep a state's bytes; returns the handle that stands for them."""


class InlineBackend:
    """The bytes themselves, as text, are the handle: Spark's state store holds them, and every guarantee is Spark's.

    Examples
    --------
    >>> bytes(InlineBackend().open(InlineBackend().commit(b"state")))
    b'state'
    """

    def open(self, handle: str) -> memoryview:
        return from_text(handle)

    def commit(self, state: bytes) -> str:
        return to_text(state)


BACKENDS: dict[str, type[StateBackend]] = {"inline": InlineBackend}


def backend_named(name: object) -> StateBackend:
    """Make the backend that a query asks for."""
    if not isinstance(name, str) or name not in BACKENDS:
        raise InvalidArgument.of("state_backend", name, ", ".join(map(repr, BACKENDS)))
    return BACKENDS[name]()
