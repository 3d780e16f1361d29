"""Join conditions that cannot be, and what the user reads then."""

from __future__ import annotations

import pyarrow as pa
import pytest
from join_inputs import LEFT, plan
from millrace.kernels import InvalidArgument, UnsupportedType
from millrace.spark_glue.join_condition import SideInfo, analyse


@pytest.mark.parametrize(
    ("on", "message"),
    [
        ("k = both", "on: column 'both' is in both inputs, accepted are left.both and right.both"),
        ("k = rkk", r"on: there is no column 'rkk' \(did you mean 'rk'\?\); the columns are k, n, "),
        ("k = b.kk", r"on \(right\): there is no column 'kk'; the columns are rk, rn, rs"),
        ("k = other.rk", "on: there is no column 'other.rk'"),
        (
            "k = rw.ende",
            r"on \(right.rw\): there is no column 'ende' \(did you mean 'end'\?\); the columns are start, end",
        ),
        ("k = rn.x", "on: right.rn is int64, which has no field 'x'"),
        (["both", "k"], r"on \(right\): there is no column 'k'"),
        ("flag", r"on \(right\): there is no column 'flag'"),
        ([], r"on: got \[\], accepted is a condition as text, or a list of names"),
        (7, "on: got 7, accepted is a condition as text"),
        ("k = ", "on: 'k = ' cannot be read as Spark SQL: Required keyword: 'expression' missing"),
        ("k = 'a", 'on: "k = \'a" cannot be read as Spark SQL'),
        ("", "on: '' cannot be read as Spark SQL"),
        ("k = rk extra", "on: got 'k = rk extra', accepted is one condition of Spark SQL"),
        ("k = rk; n = rn", "accepted is one condition of Spark SQL"),
        ("SELECT 1", "accepted is one condition of Spark SQL"),
        ("k = (SELECT 1)", r"on: \(SELECT 1\) is a subquery, accepted are conditions on the two inputs"),
        ("k IN (SELECT 1)", "is a subquery"),
        ("EXISTS (SELECT 1)", "is a subquery"),
        (
            "k = rk AND max(n) > 1",
            r"on: max\(left.n\)|on: max\(n\) is an aggregate function, accepted are functions of one row",
        ),
        ("k = rk AND count(*) > 1", r"on: count\(\*\) is an aggregate function|has a star"),
        ("k = rk AND any(flag)", "is an aggregate function"),
        ("k = rk AND sum(n) OVER (PARTITION BY k) > 1", "is a window function"),
        ("k = rk AND row_number() > 1", r"on: row_number\(\) is a window function"),
        ("k = rk AND explode(tags) = 1", "is a generator"),
        ("k = rk AND rand() > 0.5", r"on: rand\(\) is a non-deterministic function"),
        ("k = rk AND uuid() = s", "is a non-deterministic function"),
        ("k = rk AND lt > current_timestamp()", "is a non-deterministic function"),
        ("k = rk AND lt > CURRENT_TIMESTAMP", "is a non-deterministic function"),
        ("k = rk AND day = current_date", "is a non-deterministic function"),
        ("k = rk AND unix_timestamp() > n", "is a non-deterministic function"),
        ("k = :key", r"on: :key is a parameter|on: \? is a parameter"),
        (
            "k = rk < 5",
            "on: left.k = right.rk < 5|on: k = rk < 5 can be read in two ways, accepted is one with parentheses",
        ),
        ("left.* = rk", "has a star, accepted are columns by name"),
        ("n > rn", "on: got 'n > rn', but a stream-stream join needs at least one equality of the two inputs"),
        ("k = 5 AND rk = 5", "needs at least one equality"),
        ("k = rk OR s = rs", "needs at least one equality"),
        ("k + rk = 5", "needs at least one equality"),
        ("k <> rk", "needs at least one equality"),
        ("k = rk AND levenshtein(s, rs) < 3", r"on: levenshtein\(left.s, right.rs\) looks at both inputs"),
        ("k = rk AND concat(s, rs) = 'x'", r"on: concat\(left.s, right.rs\) looks at both inputs"),
        ("k = rk AND s || rs = 'x'", r"on: left.s \|\| right.rs looks at both inputs"),
        ("k = rk AND s LIKE rs", "on: left.s LIKE right.rs looks at both inputs"),
        ("k = rk AND d / rd > 1", "on: left.d / right.rd looks at both inputs"),
        ("k = rk AND CAST(d + rd AS INT) > 1", r"on: CAST\(left.d \+ right.rd AS INT\) looks at both inputs"),
        ("k = rk AND day + rn > rday", r"on: left.day \+ right.rn looks at both inputs"),
        (
            "k = rk AND lt + rgap > rt",
            r"on: left.lt \+ right.rgap looks at both inputs and adds days, whose length depends",
        ),
        ("k = rk AND local + rgap > rt", "looks at both inputs and is timestamp.us., which would have to be cast"),
        ("k = rt", "on: left.k = right.rt compares int32 with timestamp.*, accepted are plain types that Spark casts"),
        ("flag = rk", "compares bool with int32"),
        ("tags = rk", "compares list<.*> with int32"),
        ("p = rw", "compares struct<.*> with struct<.*>, accepted are structs of the same fields"),
        ("k = rk AND n < rt", "on: left.n < right.rt compares int64, timestamp.*, accepted are plain types"),
        ("k = rk AND (p = rp OR flag)", "on: left.p = right.rp compares struct"),
        ("k = rk AND s", "on: left.s is string, accepted is a condition, which is true or false"),
        ("k = rk AND (n + rn)", r"on: left.n \+ right.rn is int64, accepted is a condition"),
        ("k = rk AND (flag OR rn)", "on: right.rn is int64, accepted is a condition"),
    ],
)
def test_conditions_that_cannot_be(on, message):
    with pytest.raises(InvalidArgument, match=message):
        plan(on)


def test_other_arguments_that_cannot_be():
    with pytest.raises(InvalidArgument, match="how: got 'cross', accepted is 'inner', 'left_outer'"):
        plan("k = rk", "cross")
    with pytest.raises(InvalidArgument, match="event_time: there is no column 'ts'"):
        SideInfo(LEFT, event_time="ts")
    with pytest.raises(UnsupportedType, match="event_time: column 'n' is int64, accepted are timestamp and window"):
        SideInfo(LEFT, event_time="n")
    with pytest.raises(InvalidArgument, match="aliases: got 'a', accepted is a collection"):
        SideInfo(LEFT, "a")
    with pytest.raises(InvalidArgument, match="schema: got"):
        SideInfo({"k": "int"})


def test_a_type_that_only_spark_knows():
    info = SideInfo(pa.schema({"s": pa.string()}))
    with pytest.raises(
        InvalidArgument, match=r"left: the type of lower\(left.s\) is not known, accepted are an input with"
    ):
        analyse("lower(left.s) = right.s", info, info, "inner")


def test_names_that_differ_in_case_only():
    twice = SideInfo(pa.schema({"k": pa.int32(), "K": pa.int32()}))
    with pytest.raises(
        InvalidArgument, match="on: the left input has 'k' and 'K', accepted are names that differ in more"
    ):
        analyse("k = other", twice, SideInfo(pa.schema({"other": pa.int32()})), "inner")
