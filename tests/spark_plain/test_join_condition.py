"""Join conditions of Spark SQL: what becomes of each part, and what is refused."""

from __future__ import annotations

import pyarrow as pa
import pytest
from join_inputs import LEFT, RIGHT, TIME, plan, type_of
from millrace.spark_glue.join_condition import SideInfo, analyse


def sql(columns):
    return [text for _, text in columns]


def test_plain_keys_need_nothing():
    p = plan("k = rk AND b.rs = clicks.s")
    assert p.keys == (("k", "rk"), ("s", "rs")) and p.null_safe == () and p.using == ()
    assert p.left_columns == p.right_columns == p.bounds == p.notes == ()
    assert p.residual is p.left_filter is p.right_filter is None
    assert p.left_schema.equals(LEFT) and p.right_schema.equals(RIGHT)


@pytest.mark.parametrize(
    ("on", "left", "right", "common"),
    [
        ("k = rn", ["CAST(`k` AS BIGINT)"], [], pa.int64()),
        ("n = rk", [], ["CAST(`rk` AS BIGINT)"], pa.int64()),
        ("k = rx", ["CAST(`k` AS DOUBLE)"], [], pa.float64()),
        ("d = rx", ["CAST(`d` AS DOUBLE)"], [], pa.float64()),
        ("k = rd", ["CAST(`k` AS DECIMAL(12, 1))"], [], pa.decimal128(12, 1)),
        ("n = rd", ["CAST(`n` AS DECIMAL(21, 1))"], ["CAST(`rd` AS DECIMAL(21, 1))"], pa.decimal128(21, 1)),
        ("d = rd", ["CAST(`d` AS DECIMAL(13, 2))"], ["CAST(`rd` AS DECIMAL(13, 2))"], pa.decimal128(13, 2)),
        ("s = rk", ["CAST(`s` AS BIGINT)"], ["CAST(`rk` AS BIGINT)"], pa.int64()),
        ("s = rd", ["CAST(`s` AS DOUBLE)"], ["CAST(`rd` AS DOUBLE)"], pa.float64()),
        ("s = rday", ["CAST(`s` AS DATE)"], [], pa.date32()),
        ("s = rt", ["CAST(`s` AS TIMESTAMP_LTZ)"], [], TIME),
        ("s = rlocal", ["CAST(`s` AS TIMESTAMP_NTZ)"], [], pa.timestamp("us")),
        ("s = rflag", ["CAST(`s` AS BOOLEAN)"], [], pa.bool_()),
        ("day = rt", ["CAST(`day` AS TIMESTAMP_LTZ)"], [], TIME),
        ("day = rlocal", ["CAST(`day` AS TIMESTAMP_NTZ)"], [], pa.timestamp("us")),
        ("lt = rlocal", [], ["CAST(`rlocal` AS TIMESTAMP_LTZ)"], TIME),
        ("lower(s) = rs", ["lower(`s`)"], [], pa.string()),
        ("k + 1 = rk", ["`k` + 1"], [], pa.int32()),
        ("k + 1 = rn", ["CAST(`k` + 1 AS BIGINT)"], [], pa.int64()),
        ("p.y.z = rs", ["(`p`).`y`.`z`"], [], pa.string()),
        ("w.end = rt", ["(`w`).`end`"], [], TIME),
        ("date_trunc('HOUR', lt) = rt", ["date_trunc('HOUR', `lt`)"], [], TIME),
        ("element_at(tags, 1) = rk", ["element_at(`tags`, 1)"], [], pa.int32()),
        ("array(k, 1)[0] = rk", ["array(`k`, 1)[0]"], [], pa.int32()),
        ("CAST(s AS int) = rk", ["CAST(`s` AS INT)"], [], pa.int32()),
        ("CASE WHEN flag THEN k END::int = rk", ["CAST(CASE WHEN `flag` THEN `k` END AS INT)"], [], pa.int32()),
    ],
)
def test_keys_of_different_types_and_of_expressions_are_computed_by_spark(on, left, right, common):
    p = plan(on)
    assert sql(p.left_columns) == left and sql(p.right_columns) == right
    (names,) = p.keys
    assert p.left_schema.field(names[0]).type.equals(common) and p.right_schema.field(names[1]).type.equals(common)
    assert p.join().key_types == [common]


def test_the_same_expression_is_computed_once_under_a_free_name():
    left = SideInfo(pa.schema({"s": pa.string(), "__MILLRACE_0": pa.int8()}), type_of=type_of)
    right = SideInfo(pa.schema({"rs": pa.string(), "v": pa.string(), "__millrace_2": pa.int8()}), type_of=type_of)
    p = analyse("lower(s) = rs AND lower(s) = v AND trim(rs) <> lower(s)", left, right, "inner")
    assert p.left_columns == (("__millrace_1", "lower(`s`)"),) and p.right_columns == (("__millrace_3", "TRIM(`rs`)"),)
    assert p.keys == (("__millrace_1", "rs"), ("__millrace_1", "v"))
    assert str(p.residual) == "(right.__millrace_3 <> left.__millrace_1)"


def test_null_safe_keys():
    p = plan("k = rk AND s <=> rs AND x IS NOT DISTINCT FROM rx AND NOT (n IS DISTINCT FROM rn)")
    assert p.keys == (("k", "rk"), ("s", "rs"), ("x", "rx"), ("n", "rn")) and p.null_safe == (1, 2, 3)
    assert plan("s <=> rs AND s = rs").null_safe == ()


def test_windows_are_keys_by_their_ends_and_carry_the_event_time():
    p = plan("w = rw AND k = rk", left_time="w", right_time="rt")
    assert sql(p.left_columns) == ["(`w`).`end`", "(`w`).`start`"]
    assert sql(p.right_columns) == ["(`rw`).`start`", "(`rw`).`end`"]
    end = p.left_columns[0][0]
    assert p.left_time == end and p.right_time == "rt"
    assert [left for left, _ in p.keys] == [p.left_columns[1][0], end, "k"] and p.null_safe == ()
    assert p.join().expiry_key == 1
    assert plan("w <=> rw").null_safe == (0, 1)


def test_structs_are_keys_by_their_fields():
    p = plan("p = rp")
    assert sql(p.left_columns) == [
        "CASE WHEN NOT `p` IS NULL THEN TRUE END", "(`p`).`x`", "(`p`).`y` IS NULL", "(`p`).`y`.`z`",
    ]  # fmt: skip
    assert len(p.keys) == 4 and p.null_safe == (1, 3)
    p = plan("p <=> rp")
    assert sql(p.right_columns)[0] == "`rp` IS NULL" and p.null_safe == (1, 3)


def test_intervals_are_keys_by_their_text():
    p = plan("gap = rgap")
    assert sql(p.left_columns) == ["CAST(CAST(`gap` AS INTERVAL DAY TO SECOND) AS STRING)"]


@pytest.mark.parametrize("on", [["both"], ["BOTH"], "both", "(`Both`)"])
def test_using(on):
    p = plan(on)
    assert p.using == (("both", "both"),) and sql(p.left_columns) == ["CAST(`both` AS BIGINT)"]
    assert p.keys == ((p.left_columns[0][0], "both"),)


def test_conditions_on_one_side_are_filters_that_spark_computes():
    p = plan("k = rk AND n > 1 AND flag AND rs LIKE 'a%' AND (s IN ('x', 'y') OR lower(s) = 'z') AND rn IS NOT NULL")
    names, texts = zip(*p.left_columns, strict=True)
    assert texts == ("(`n` > 1) AND (`flag`) AND (`s` IN ('x', 'y') OR lower(`s`) = 'z')",)
    assert p.left_filter == names[0] and p.left_schema.field(names[0]).type == pa.bool_()
    assert sql(p.right_columns) == ["(`rs` LIKE 'a%') AND (NOT `rn` IS NULL)"] and p.residual is None
    rows = pa.RecordBatch.from_pylist([{names[0]: value} for value in (True, False, None)], p.left_schema)
    assert p.join().filters["left"].holds(rows).tolist() == [True, False, False]
    assert plan("k = rk AND flag").left_filter == "flag" and plan("k = rk AND flag").left_columns == ()


def test_what_may_fail_is_computed_only_where_the_filter_passes():
    """Spark filters before it casts; so rows that fail the filter must not make a cast fail."""
    p = plan("n > 0 AND CAST(s AS BIGINT) = rn AND w.end < rt AND k + 1 < length(rs)")
    assert [text for name, text in p.left_columns if name != p.left_filter] == [
        "CASE WHEN (`n` > 0) THEN CAST(`s` AS BIGINT) END", "(`w`).`end`",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("on", "residual", "left", "right"),
    [
        ("n + 1 < rn * 2", "((left.n + 1) < (right.rn * 2))", [], []),
        ("length(s) + 1 < rn", "(left.__millrace_0 < right.rn)", ["length(`s`) + 1"], []),
        ("n + rn > 5 AND NOT (flag OR n > rn)",
         "((left.n + right.rn) > 5) and (left.n <= right.rn)", ["(NOT `flag`)"], []),
        ("flag OR rflag", "(left.flag or right.rflag)", [], []),
        ("n BETWEEN rn AND rn + 2", "(left.n >= right.rn) and (left.n <= (right.rn + 2))", [], []),
        ("n NOT BETWEEN rn AND 9", "not(((left.n >= right.rn) and (left.n <= 9)))", [], []),
        ("n IN (rn, rk, 7)", "in(left.n, right.rn, right.rk, 7)", [], []),
        ("s IN (rn, 7)", "in(left.__millrace_0, right.rn, cast(7 as int64))", ["CAST(`s` AS BIGINT)"], []),
        ("flag IS TRUE <> rflag", "((left.flag <=> True) <> right.rflag)", [], []),
        ("n IS DISTINCT FROM rn", "not((left.n <=> right.rn))", [], []),
        ("ABS(n - rn) <= 3", "(abs((left.n - right.rn)) <= 3)", [], []),
        ("-x > rx % 2", "(negate(left.x) > (right.rx % 2))", [], []),
        ("s < rn", "(left.__millrace_0 < right.rn)", ["CAST(`s` AS BIGINT)"], []),
        ("day < rt", "(left.__millrace_0 < right.rt)", ["CAST(`day` AS TIMESTAMP_LTZ)"], []),
        ("gap < rgap", "(left.gap < right.rgap)", [], []),
        ("CAST(n + rn AS DOUBLE) > x", "(cast((left.n + right.rn) as double) > left.x)", [], []),
        ("n + rn > 1 AND upper('a') = 'A'",
         "((left.n + right.rn) > 1) and left.__millrace_0", ["upper('a') = 'A'"], []),
        ("n < rn AND TRUE", "(left.n < right.rn)", [], []),
        ("FALSE", "False", [], []),
    ],
)  # fmt: skip
def test_the_rest_is_a_kernel_expression(on, residual, left, right):
    p = plan(f"k = rk AND {on}" if " OR " not in on else f"k = rk AND ({on})")
    text = str(p.residual)
    assert text in (residual, f"({residual})")
    assert sql(p.left_columns) == left and sql(p.right_columns) == right
    p.join()


def test_what_guards_a_part_goes_with_it():
    p = plan("k = rk AND (s IS NULL OR CAST(s AS INT) > rn)")
    assert sql(p.left_columns) == ["CASE WHEN (`s` IS NULL) IS NOT TRUE THEN CAST(`s` AS INT) END"]
    p = plan("k = rk AND ((s RLIKE '^[0-9]+$' AND CAST(s AS INT) > rn) OR flag)")
    assert sql(p.left_columns)[1] == "CASE WHEN (`s` RLIKE '^[0-9]+$') IS NOT FALSE THEN CAST(`s` AS INT) END"


@pytest.mark.parametrize(
    ("zone", "left", "right"),
    [
        ("Etc/UTC", [], []),
        ("Europe/Berlin", ["`lt` + INTERVAL '1' DAY"], ["CAST(`rt` AS TIMESTAMP_NTZ)"]),
        (None, ["`lt` + INTERVAL '1' DAY"], ["CAST(`rt` AS TIMESTAMP_NTZ)"]),
    ],
)
def test_days_that_depend_on_the_time_zone_are_left_to_spark(zone, left, right):
    assert sql(plan("k = rk AND lt + interval 1 day < rt", time_zone=zone).left_columns) == left
    p = plan("k = rk AND rt - lt > interval 5 seconds AND lt + interval 23 hours < rt", time_zone=zone)
    assert sql(p.right_columns) == right and len(p.left_columns) == len(right)


def test_an_or_whose_sides_share_the_equality():
    p = plan("(k = rk AND n > 1) OR (n < rn AND rk = k) OR (k = rk AND flag)".replace("rk = k", "k = rk"))
    assert p.keys == (("k", "rk"),) and "or" in str(p.residual)
    assert plan("(k = rk AND n > 1) OR k = rk").residual is None


def test_names_are_found_as_spark_finds_them():
    p = plan("LEFT.K = Right.rK AND a.`odd name` = b.rn AND `A.B` = rx AND clicks.P.X = B.rp.X")
    assert p.keys[0][0] == "k"
    assert sql(p.left_columns) == ["CAST(`odd name` AS BIGINT)", "CAST(`a.b` AS DOUBLE)", "(`p`).`x`"]
    assert plan("left.both = right.both").keys == (("__millrace_0", "both"),)
    # A name that could be an alias and its column, or a struct and its field, is the former.
    struct = pa.schema({"b": pa.struct({"rk": pa.int32()}), "k": pa.int32()})
    assert analyse("b.rk = k", SideInfo(struct), SideInfo(RIGHT, ["b"]), "inner").keys == (("k", "rk"),)


@pytest.mark.parametrize(
    ("how", "wanted"), [("left", "left_outer"), ("OUTER", "full_outer"), ("leftSemi", "left_semi")]
)
def test_join_types_in_any_spelling(how, wanted):
    assert plan("k = rk", how).how == plan("k = rk", how).join().how == wanted
