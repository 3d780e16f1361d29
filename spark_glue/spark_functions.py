"""Functions of Spark that have no place in a join condition, by name.

The names of aggregate, window and generator functions are those that Spark 4.3's own registry files under
these headings; the rest are those it calls non-deterministic, and those whose value is the time of the query.
"""

from __future__ import annotations


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


AGGREGATE = _names(
    """
    any any_value approx_count_distinct approx_percentile approx_top_k approx_top_k_accumulate
    approx_top_k_combine array_agg avg bit_and bit_or bit_xor bitmap_and_agg bitmap_construct_agg bitmap_or_agg
    bool_and bool_or collect_list collect_set collect_union corr count count_if count_min_sketch covar_pop
    covar_samp every first first_value grouping grouping_id histogram_numeric hll_sketch_agg hll_union_agg
    kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint kll_sketch_agg_double
    kll_sketch_agg_float kurtosis last last_value listagg max max_by mean measure median min min_by mode
    percentile percentile_approx percentile_cont percentile_disc regr_avgx regr_avgy regr_count regr_intercept
    regr_r2 regr_slope regr_sxx regr_sxy regr_syy skewness some std stddev stddev_pop stddev_samp string_agg sum
    theta_intersection_agg theta_sketch_agg theta_union_agg try_avg try_sum tuple_intersection_agg_double
    tuple_intersection_agg_integer tuple_sketch_agg_double tuple_sketch_agg_integer tuple_union_agg_double
    tuple_union_agg_integer var_pop var_samp variance
    """
)
WINDOW = _names(
    """
    counter_diff cume_dist dense_rank lag lead nth_value ntile percent_rank rank row_number
    """
)
GENERATOR = _names(
    """
    explode explode_outer inline inline_outer posexplode posexplode_outer stack
    """
)
NON_DETERMINISTIC = _names(
    """
    curdate current_date current_time current_timestamp input_file_block_length input_file_block_start
    input_file_name java_method localtimestamp monotonically_increasing_id now rand randn random randstr reflect
    shuffle spark_partition_id try_reflect uniform uuid
    """
)
# No function of one row's values either: they drop, multiply or merge rows.
TIME_WINDOW = _names(
    """
    session_window window
    """
)
# Without an argument these mean the present.
PRESENT_IF_EMPTY = frozenset(["unix_timestamp"])


def refusal(name: str, arguments: int) -> str | None:
    """Say what kind of function it is, if a join condition cannot have it.

    Examples
    --------
    >>> refusal("SUM", 1)
    'an aggregate function'
    >>> refusal("lower", 1)
    """
    name = name.lower()
    if name in NON_DETERMINISTIC or (name in PRESENT_IF_EMPTY and not arguments):
        return "a non-deterministic function"
    kinds = {"an aggregate function": AGGREGATE, "a window function": WINDOW | TIME_WINDOW, "a generator": GENERATOR}
    return next((kind for kind, names in kinds.items() if name in names), None)
