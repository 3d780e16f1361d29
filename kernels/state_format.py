"""State as bytes: a self-describing binary that says of itself what it is and whether it is whole.

====================  =====================================================================
preamble (28 bytes)   magic, format version, lengths of header and body, CRC-32 of all that
header                JSON: operator, query, fingerprint, schema, counts, watermark, buckets
bodies                record batches, each an Arrow IPC stream of its own
checksum (8 bytes)    XXH3-64 of everything before it
====================  =====================================================================

The preamble has its own checksum, so that a damaged length or version is never acted upon. There is
no pickle anywhere: loading bytes can fail, but never runs anything.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import xxhash

from .errors import InvalidArgument, StateFormatError
from .narrow import read_stream, write_stream

MAGIC = b"MILLRACE"
VERSIONS = (1, 2)
CURRENT_VERSION = VERSIONS[-1]
_PREAMBLE = struct.Struct("<8sHxxIQ")
_CRC = struct.Struct("<I")
_CHECKSUM = struct.Struct("<Q")
_HEAD = _PREAMBLE.size + _CRC.size


@dataclass(frozen=True)
class SavedState:
    """What state bytes hold."""

    version: int
    header: dict[str, Any]
    bodies: list[pa.RecordBatch]


def check_version(version: int) -> int:
    """Refuse to write a format version that does not exist."""
    if version not in VERSIONS:
        raise InvalidArgument.of("state_format_version", version, " or ".join(map(str, VERSIONS)))
    return version


def fingerprint(query: Mapping[str, object], schemas: Sequence[pa.Schema]) -> str:
    """Give a short text that is equal exactly for equal queries over equal state columns."""
    text = json.dumps([query, [str(schema) for schema in schemas]], sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def dump_state(version: int, operator: str, query: Mapping[str, object], facts: Mapping[str, object],
               *bodies: pa.RecordBatch) -> bytes:  # fmt: skip
    """Write a state.

    Parameters
    ----------
    operator
        which kind of operator it belongs to.
    query
        everything a query must agree with to load it, as JSON can hold it.
    facts
        what else a reader may want to know: counts, watermark, buckets.
    bodies
        the rows; how many batches there are, and of what, is the operator's affair.
    """
    schemas = [body.schema for body in bodies]
    streams = [write_stream(body) for body in bodies]
    header = {
        "operator": operator, "query": query, "fingerprint": fingerprint(query, schemas),
        "schemas": [str(schema) for schema in schemas], "rows": [body.num_rows for body in bodies],
        "sizes": [stream.size for stream in streams], **facts,
    }  # fmt: skip
    head = json.dumps(header).encode()
    preamble = _PREAMBLE.pack(MAGIC, version, len(head), sum(stream.size for stream in streams))
    parts = [preamble, _CRC.pack(zlib.crc32(preamble)), head, *streams]
    digest = xxhash.xxh3_64()
    for part in parts:
        digest.update(part)
    return b"".join([*parts, _CHECKSUM.pack(digest.intdigest())])


def load_state(data: bytes | memoryview | pa.Buffer, operator: str | None = None) -> SavedState:
    """Read a state of an operator, None for any, and check that it is whole.

    Raises
    ------
    StateFormatError
        saying what is wrong: not a state, a newer version, cut short, damaged, or of another operator.
    """
    view = memoryview(data)
    version, head_size, body_size = _read_preamble(view)
    expected = _HEAD + head_size + body_size + _CHECKSUM.size
    if len(view) != expected:
        word = "cut short" if len(view) < expected else "too long"
        raise StateFormatError(f"the state is {word}: it has {len(view)} bytes, its header promises {expected}")
    (wanted,) = _CHECKSUM.unpack(view[-_CHECKSUM.size :])
    if xxhash.xxh3_64_intdigest(view[: -_CHECKSUM.size]) != wanted:
        raise StateFormatError("the state is damaged: its checksum does not match its bytes")
    header = _read_header(view[_HEAD : _HEAD + head_size])
    if operator is not None and header.get("operator") != operator:
        raise StateFormatError(f"the state belongs to operator {header.get('operator')!r}, not {operator!r}")
    return SavedState(version, header, _read_bodies(view[_HEAD + head_size : -_CHECKSUM.size], header))


def _read_preamble(view: memoryview) -> tuple[int, int, int]:
    start = bytes(view[: len(MAGIC)])
    if start != MAGIC[: len(start)] or not start:
        raise StateFormatError(f"these bytes are not a Millrace state: they begin with {start!r}, not {MAGIC!r}")
    if len(view) < _HEAD:
        raise StateFormatError(f"the state is cut short: it has {len(view)} bytes, the preamble alone has {_HEAD}")
    _, version, head_size, body_size = _PREAMBLE.unpack(view[: _PREAMBLE.size])
    (crc,) = _CRC.unpack(view[_PREAMBLE.size : _HEAD])
    if zlib.crc32(view[: _PREAMBLE.size]) != crc:
        raise StateFormatError("the state is damaged: the checksum of its preamble does not match")
    if version not in VERSIONS:
        raise StateFormatError(
            f"the state has format version {version}, this Millrace reads {' and '.join(map(str, VERSIONS))}; "
            "it was written by a newer Millrace"
        )
    return version, head_size, body_size


def _read_header(view: memoryview) -> dict[str, Any]:
    try:
        header = json.loads(bytes(view))
    except ValueError as error:
        raise StateFormatError(f"the state's header cannot be read: {error}") from error
    if not isinstance(header, dict):
        raise StateFormatError(f"the state's header is {type(header).__name__}, not an object")
    return header


def _read_bodies(view: memoryview, header: Mapping[str, Any]) -> list[pa.RecordBatch]:
    sizes: Any = header.get("sizes")
    rows: Any = header.get("rows")
    if not (_are_counts(sizes) and _are_counts(rows)) or len(sizes) != len(rows) or sum(sizes) != len(view):
        raise StateFormatError("the state's header does not describe its rows")
    bodies, start = [], 0
    for size, count in zip(sizes, rows, strict=True):
        bodies.append(_read_body(view[start : start + size], count))
        start += size
    return bodies


def _are_counts(values: object) -> bool:
    return isinstance(values, list) and all(isinstance(value, int) and value >= 0 for value in values)


def _read_body(view: memoryview, rows: int) -> pa.RecordBatch:
    try:
        body = read_stream(view)
        body.validate(full=True)
    except Exception as error:  # Arrow meets foreign bytes with errors of many kinds
        raise StateFormatError(f"the state's rows cannot be read: {error}") from error
    if body.num_rows != rows:
        raise StateFormatError(f"the state has {body.num_rows} rows, its header promises {rows}")
    return body


def require_schema(body: pa.RecordBatch, wanted: pa.Schema) -> None:
    """Refuse rows of other columns than the query's state has."""
    if not body.schema.equals(wanted):
        raise StateFormatError(f"the state's columns are {body.schema}, this query's are {wanted}")


def require_same(argument: str, saved: Any, current: Mapping[str, Any]) -> None:
    """Refuse a state of another query, naming every part that differs.

    Examples
    --------
    >>> require_same("query", {"keys": ["a"], "ansi": True}, {"keys": ["b"], "ansi": True})
    Traceback (most recent call last):
        ...
    millrace.kernels.errors.StateFormatError: the state belongs to another query: keys was ["a"], now is ["b"]
    """
    if not isinstance(saved, Mapping):
        raise StateFormatError(f"the state's header does not describe its {argument}")
    parts = dict.fromkeys([*saved, *current])
    # Through JSON and back, so that tuples and lists compare alike.
    now = json.loads(json.dumps(current))
    differences = [
        f"{part} was {json.dumps(saved.get(part))}, now is {json.dumps(now.get(part))}"
        for part in parts
        if saved.get(part) != now.get(part)
    ]
    if differences:
        raise StateFormatError(f"the state belongs to another {argument}: {'; '.join(differences)}")
