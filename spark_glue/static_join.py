"""The join of a stream with a batch frame: Spark's own, since neither side keeps rows from batch to batch."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from sqlglot import exp

from ..kernels.errors import InvalidArgument
from ..kernels.time_bounds import SIDES
from .join_sql import parse

# On which side the stream must be: rows of the other one, which is read anew in every batch, may be left out.
STREAM_SIDES = {"inner": SIDES, "left_outer": ("left",), "left_semi": ("left",), "right_outer": ("right",)}


def join_static(
    frames: Sequence[DataFrame], on: str | Sequence[str], how: str, output_mode: str, aliased: Sequence[bool]
) -> DataFrame:
    """Join by Spark itself, with the condition as `join` reads it.

    Parameters
    ----------
    frames
        left and right, one of them streaming.
    how
        the type of join, by the kernel's name.
    aliased
        whether each frame has an alias of its own.
    """
    stream = SIDES[0 if frames[0].isStreaming else 1]
    accepted = [kind for kind, sides in STREAM_SIDES.items() if stream in sides]
    if how not in accepted:
        raise InvalidArgument.of(
            "how", how, f"{', '.join(map(repr, accepted))} where the {stream} side alone is a stream, as in Spark"
        )
    if output_mode not in ("append", "update"):
        raise InvalidArgument.of("output_mode", output_mode, "'append' or 'update'")
    if not isinstance(on, str):
        condition: object = list(on)
    else:
        # "left" and "right" are names that the frames get here; other aliases are the frames' own.
        called = {column.table for column in parse(on).find_all(exp.Column)}
        frames = [
            frame if known and not called & set(SIDES) else frame.alias(side)
            for frame, known, side in zip(frames, aliased, SIDES, strict=True)
        ]
        condition = F.expr(on)
    try:
        return frames[0].join(frames[1], condition, how)  # type: ignore[arg-type]
    except AnalysisException as error:
        raise InvalidArgument(f"on: {str(error).splitlines()[0]}") from error
