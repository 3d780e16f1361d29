"""Which versions of its state a store still has, told by the names of its files."""

from __future__ import annotations

import re
from collections.abc import Iterable

# As both stores name them: 7.delta, 7.snapshot; 7.changelog, 7.zip, and 7_<id>.zip where versions have identities.
_FILE = re.compile(r"(\d+)(?:_[^./]+)?\.(delta|changelog|snapshot|zip)$")


def loadable_versions(files: Iterable[str]) -> list[int]:
    """The versions that can be built: a whole one, or what changed since one that can be.

    The commit log does not tell: a store may have dropped the state of a batch that is still in the log.

    Examples
    --------
    >>> loadable_versions(["state/0/0/1.delta", "state/0/0/2.delta"])
    [1, 2]
    >>> loadable_versions(["3.delta", "4.delta", "4.snapshot", "5.delta", "7.delta", "_metadata"])
    [4, 5]
    >>> loadable_versions(["8.zip", "9_0f3a.changelog", "9_0f3a.zip"])
    [8, 9]
    """
    found = [(int(match[1]), match[2]) for match in map(_FILE.search, files) if match]
    loadable = {version for version, kind in found if kind in ("snapshot", "zip")}
    for version in sorted(version for version, kind in found if kind in ("delta", "changelog")):
        if version == 1 or version - 1 in loadable:
            loadable.add(version)
    return sorted(loadable)


def first_retained(files: Iterable[str], first: int, last: int) -> int:
    """The first of these batches whose state can be read; `first` where the files tell nothing.

    Examples
    --------
    >>> first_retained(["16.zip", "17.zip"], 14, 16), first_retained(["unknown"], 14, 16)
    (15, 14)
    """
    # A batch leaves the version after its own number.
    return min((v - 1 for v in loadable_versions(files) if first <= v - 1 <= last), default=first)
