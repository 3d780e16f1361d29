"""The options that all operators take, and the session settings that they look at."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from ..kernels.errors import InvalidArgument
from ..kernels.state_format import check_version
from .buckets import MAX_BUCKETS, check_buckets
from .state_backend import backend_named

ALLOW_MULTIPLE = "spark.sql.streaming.statefulOperator.allowMultiple"


@dataclass(frozen=True)
class Options:
    """How an operator runs, checked."""

    buckets: int
    state_backend: str
    state_format_version: int
    name: str
    # Whether late rows are told by the current watermark, instead of the one of the batch before.
    late_is_current: bool

    @classmethod
    def checked(
        cls, frame: DataFrame, buckets: object, state_backend: object, state_format_version: object, name: object
    ) -> Options:
        """Check the options against what is accepted, and the frame that they are for."""
        if not hasattr(frame, "isStreaming"):
            raise InvalidArgument.of("frame", frame, "a Spark DataFrame")
        backend_named(state_backend)
        if not isinstance(name, str) or not name:
            raise InvalidArgument.of("name", name, "a text that tells operators of a query apart")
        if buckets is None:
            buckets = min(int(session_setting(frame, "spark.sql.shuffle.partitions")), MAX_BUCKETS)
        return cls(
            check_buckets(buckets),
            str(state_backend),
            check_version(state_format_version),  # type: ignore[arg-type]
            name,
            session_setting(frame, ALLOW_MULTIPLE, "true") != "true",
        )


def session_setting(frame: DataFrame, key: str, default: str | None = None) -> str:
    """Read a setting of the frame's session."""
    conf = frame.sparkSession.conf
    return str(conf.get(key) if default is None else conf.get(key, default)).lower()
