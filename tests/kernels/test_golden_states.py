"""States of every operator as earlier versions wrote them: they load, go on as Spark would, and can be read."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from golden_aggregations import AGGREGATIONS
from golden_cases import FOLDER, GENERATIONS, SUMS
from golden_functions import FUNCTIONS as STATEFUL
from golden_joins import JOINS
from golden_rows import TYPES
from millrace.kernels.aggregates import FUNCTIONS
from millrace.kernels.join_query import JOIN_TYPES
from millrace.kernels.kinds import KINDS, kind_or_none
from millrace.kernels.saved_groups import function_of
from millrace.kernels.state_format import VERSIONS, load_state
from millrace.kernels.state_rows import READERS
from millrace.kernels.stateful_query import TIMEOUTS

CASES = [*AGGREGATIONS, *JOINS, *STATEFUL]
FILES = [
    pytest.param(case, generation, id=f"{generation}-{case.operator}-{case.name}")
    for case in CASES
    for generation in case.generations()
]
# Operators that know fewer versions than there are.
VERSIONS_OF = {"stateful-pandas": (2,)}
SKETCHES = ("weighted_mean", "approx_count_distinct", "approx_quantile")


@pytest.mark.parametrize(("case", "generation"), FILES)
def test_a_state_goes_on_as_spark_would(case, generation):
    case.check_goes_on(case.path(generation).read_bytes())


@pytest.mark.parametrize(("case", "generation"), FILES)
def test_a_state_is_read_without_its_query(case, generation):
    case.check_is_read(case.path(generation).read_bytes())


@pytest.mark.parametrize("operator", READERS)
def test_every_operator_has_files_of_every_version(operator):
    for version in VERSIONS_OF.get(operator, VERSIONS):
        folders = [folder for folder, written in GENERATIONS.items() if written == version]
        assert folders, f"no folder in tests/golden has states of version {version}"
        for folder in folders:
            files = [path for path in (FOLDER / folder).iterdir() if operator_of(path) == operator]
            assert files, f"tests/golden/{folder} has no state of operator {operator!r}"


def operator_of(path: Path) -> str:
    saved = load_state(path.read_bytes())
    assert saved.version == GENERATIONS[path.parent.name]
    return saved.header["operator"]


def queries(folder: str, operator: str) -> list[dict]:
    return [load_state(path.read_bytes()).header["query"] for path in (FOLDER / folder).glob(f"{operator}-*.state")]


@pytest.mark.parametrize("folder", GENERATIONS)
def test_every_function_has_a_file(folder):
    functions = {function_of(text) for query in queries(folder, "aggregate") for _, text, _ in query["aggs"]}
    assert set(FUNCTIONS) <= functions
    assert all(any(function.startswith(sketch) for function in functions) for sketch in SKETCHES)


def test_every_type_of_join_and_every_timeout_has_a_file():
    assert {query["how"] for query in queries("v2", "join")} == set(JOIN_TYPES)
    assert {query["timeout"] for query in queries("v2", "stateful")} == set(TIMEOUTS)


def test_every_kind_of_value_is_in_the_rows():
    kinds = {(kind_or_none(data_type) or "").split("(")[0] for data_type, _ in TYPES.values()}
    assert kinds == {*KINDS, "decimal"}


def test_the_files_are_those_that_were_written():
    sums = dict(reversed(line.split("  ")) for line in SUMS.read_text().splitlines())
    files = {
        path.relative_to(FOLDER).as_posix(): path for folder in GENERATIONS for path in (FOLDER / folder).iterdir()
    }
    assert files.keys() == sums.keys()
    for name, path in files.items():
        assert hashlib.sha256(path.read_bytes()).hexdigest() == sums[name], f"{name} has changed"
