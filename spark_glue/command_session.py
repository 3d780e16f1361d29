"""The Spark session of a command: as Millrace wants it, and quiet."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from pyspark.sql import SparkSession

from ..kernels.errors import InvalidArgument
from .configure import configure

QUIET = {"spark.ui.enabled": "false", "spark.log.level": "ERROR", "spark.ui.showConsoleProgress": "false"}


def parse_conf(conf: Sequence[str] | None) -> dict[str, str]:
    """Turn what ``--conf`` was given into session options.

    Examples
    --------
    >>> parse_conf(["spark.sql.shuffle.partitions=8"])
    {'spark.sql.shuffle.partitions': '8'}
    >>> parse_conf(["nonsense"])
    Traceback (most recent call last):
        ...
    millrace.kernels.errors.InvalidArgument: --conf: got 'nonsense', accepted is key=value
    """
    settings = {}
    for text in conf or []:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise InvalidArgument.of("--conf", text, "key=value")
        settings[key] = value
    return settings


def start_session(name: str, master: str, settings: Mapping[str, str]) -> SparkSession:
    """Start a session whose workers run this Python, unless PYSPARK_PYTHON names another."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = configure(SparkSession.builder.master(master).appName(name))
    for key, value in {**QUIET, **settings}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
