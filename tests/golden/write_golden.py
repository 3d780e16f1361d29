"""Write the golden states that are not there yet: ``python tests/golden/write_golden.py``.

A file that is there stays as it is, whatever today's code would write: it stands for a checkpoint of its time.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from golden_cases import FOLDER, GENERATIONS, NEWEST, SUMS, Case


def every_case() -> list[Case]:
    """The cases of all operators, with the models among the tests of the kernels."""
    sys.path.append(str(Path(__file__).parent.parent / "kernels"))
    from golden_aggregations import AGGREGATIONS
    from golden_functions import FUNCTIONS
    from golden_joins import JOINS
    from golden_pandas import PANDAS_FUNCTIONS

    return [*AGGREGATIONS, *JOINS, *FUNCTIONS, *PANDAS_FUNCTIONS]


def write(case: Case, generation: str) -> None:
    """Write one file, and its checksum."""
    path, data = case.path(generation), case.write(GENERATIONS[generation])
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    name = path.relative_to(FOLDER).as_posix()
    with SUMS.open("a") as sums:
        sums.write(f"{hashlib.sha256(data).hexdigest()}  {name}\n")
    print(f"{name}: {len(data)} bytes")


if __name__ == "__main__":
    for case in every_case():
        for generation in case.generations():
            if generation in NEWEST and not case.path(generation).exists():
                write(case, generation)
