"""Unchanged pandas functions' states as earlier versions wrote them: they load, go on as Spark would, can be read."""

from __future__ import annotations

import pytest
from golden_pandas import PANDAS_FUNCTIONS

FILES = [
    pytest.param(case, generation, id=f"{generation}-{case.name}")
    for case in PANDAS_FUNCTIONS
    for generation in case.generations()
]


@pytest.mark.parametrize(("case", "generation"), FILES)
def test_a_state_goes_on_as_spark_would(case, generation):
    case.check_goes_on(case.path(generation).read_bytes())


@pytest.mark.parametrize(("case", "generation"), FILES)
def test_a_state_is_read_without_its_query(case, generation):
    case.check_is_read(case.path(generation).read_bytes())
