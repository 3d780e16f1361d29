"""What all trials of a run have in common: the query, its data, and how long to measure."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Job:
    """The query that is tuned, as plain data that is sent to each trial's process.

    Exactly one of `query` (``FILE.py:function``) and `workload` is given. `inputs` are the folders of the
    query's inputs by parameter name, one Parquet file a micro-batch.
    """

    query: str = ""
    workload: str = ""
    inputs: dict[str, str] = field(default_factory=dict)
    output_mode: str = ""
    warm_up: int = 4
    batches: int = 6
    memory: str = "2g"
    conf: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.query or f"workload {self.workload}"


def split_query(text: str) -> tuple[str, str]:
    """Tell the file from the function.

    Examples
    --------
    >>> split_query("jobs/clicks.py:totals"), split_query("clicks.py")
    (('jobs/clicks.py', 'totals'), ('clicks.py', 'build'))
    """
    path, colon, function = text.rpartition(":")
    return (path, function) if colon and path and "/" not in function and "\\" not in function else (text, "build")
