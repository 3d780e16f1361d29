"""What the writer of a stateful function is told when it cannot be compiled, captured or run."""

from __future__ import annotations

import textwrap

import pyarrow as pa
import pytest
from compiled_queries import batch_of, query_for
from millrace.kernels.errors import FunctionFailed, InvalidArgument, UnsupportedType
from millrace.kernels.keyed_state import KeyedState
from millrace.kernels.stateful_query import StatefulQuery

SETTINGS = {"a": 1}


def failing(body: str, tmp_path, name="counted"):
    """Define a function in a file of its own, since its lines are part of the messages."""
    path = tmp_path / f"{name}.py"
    path.write_text(f"import numpy as np\n\ndef {name}(key, rows, state, out):\n{textwrap.indent(body, '    ')}\n")
    scope: dict = {}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    return scope[name]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("state.totl += 1", "state has no field 'totl' (did you mean 'total'?); there are n, total, name "
                            "(line 4: state.totl += 1)"),
        ("x = 1\n\nout.emit(x, 2)", "out.emit got 2 values, accepted are 1: x (line 6: out.emit(x, 2))"),
        ("state.n = 1.5", "state.n is long, got float64; accepted is an integer"),
        ("state.n = rows.v[0] if len(rows) > 1 else None", "state.n is long, got float64; accepted is an integer"),
        ("state.total = key.k", "state.total is double, got string; accepted is a number"),
        ("state.name = 1", "state.name is string, got int64; accepted is a string"),
        ("state.name = rows.blob[0]", "state.name is string, got binary; accepted is a string"),
        ("out.emit('a')", "out.emit: x is long, got unicode_type; accepted is an integer"),
        ("out.emit(rows.flags[0])", "rows has no column 'flags' (did you mean 'flag'?)"),
        ("out.emit(key.v)", "key has no column 'v'; there are k"),
        ("out.emit(rows.price[0])", "out.emit: x is long, got decimal with 2 places; accepted is an integer; int(…)"),
        ("out.emit(len(rows.tags[0]))", "rows.tags is list<item: string>, accepted are boolean, byte"),
        ("out.emit(1 if rows.is_null('vv', 0) else 0)", "rows has no column 'vv' (did you mean 'v'?)"),
        ("for c in ('v', 'n'):\n    out.emit(1 if rows.is_null(c, 0) else 0)", "must be written as a literal"),
        ("state.set_null('m')", "state has no field 'm'"),
        ("state.exists = True", "state.exists cannot be assigned"),
        ("rows.v = 1", "attributes of rows"),
        ("out.write(1)", "out has no 'write', only out.emit(…)"),
        ("out.emit(rows.v['a'])", "accepted is the number of a row"),
        ("open('x')", "cannot be compiled"),
        ("x = {}\nx[key.k] = 1\nout.emit(len(x))", "a dict cannot have text for keys"),
        ("x = {(key.k, 1): 1}\nout.emit(len(x))", "a dict cannot have text for keys"),
        ("out.emit(len(str(rows.blob[0])))", "str(…) takes text of a string column, got binary"),
        ("out.emit(key.k + 1)", "No implementation of function Function(<built-in function add>)"),
    ],
)  # fmt: skip
def test_functions_that_cannot_be_compiled(body, message, tmp_path):
    with pytest.raises(InvalidArgument) as caught:
        query_for(failing(body, tmp_path))
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"function: counted of {tmp_path / 'counted.py'}, line 3 cannot be compiled: ")
    assert str(caught.value).endswith(")") and "line 3" in str(caught.value) and len(str(caught.value)) < 700


def test_an_error_in_a_helper_names_the_helpers_line():
    def helper(state):
        state.nn = 1

    def use(key, rows, state, out):
        helper(state)

    with pytest.raises(InvalidArgument, match=r"state has no field 'nn' .*\(line \d+: state.nn = 1\)"):
        query_for(use)


def uses_settings(key, rows, state, out):
    out.emit(SETTINGS["a"])


def uses_nothing_known(key, rows, state, out):
    out.emit(nothing_known)  # noqa: F821


def three_arguments(key, rows, state):
    pass


def many_arguments(key, rows, *rest):
    pass


def gives_rows(key, rows, state, out):
    yield len(rows)


def gives_a_value(key, rows, state, out):
    if state.n < 3:
        return None
    return state.n


def ping(n):
    return pong(n)


def pong(n):
    return ping(n)


def calls_in_a_circle(key, rows, state, out):
    out.emit(ping(1))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (uses_settings, "function: uses_settings uses 'SETTINGS', a dict, accepted are numbers, strings"),
        (uses_nothing_known, "function: uses_nothing_known uses 'nothing_known', which is not defined"),
        (three_arguments, r"function: got three_arguments\(key, rows, state\), accepted is a function of \(key, rows"),
        (many_arguments, r"many_arguments takes \*args"),
        (calls_in_a_circle, "function: ping and pong call one another"),
        (lambda key, rows, state, out: None, "function: got '<lambda>', accepted is a function defined with def"),
        (gives_rows, r"function: gives_rows yields \(.*line \d+\), accepted is out.emit\(…\) for each row"),
        (gives_a_value, r"function: gives_a_value returns state.n \("),
        (print, "function: got <built-in function print>, accepted is a Python function"),
        (eval("compile('def f(key, rows, state, out): pass', '<none>', 'exec')"), "accepted is a Python function"),
    ],
)
def test_functions_that_cannot_be_captured(function, message):
    with pytest.raises(InvalidArgument, match=message):
        query_for(function)


def test_a_function_without_source():
    scope: dict = {}
    exec("def unseen(key, rows, state, out):\n    out.emit(1)", scope)
    with pytest.raises(
        InvalidArgument, match=r"the source of 'unseen' cannot be found .* defined with def in a file or"
    ):
        query_for(scope["unseen"])


def emit_one(key, rows, state, out):
    out.emit(1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"state": "remove long"}, "state: field 'remove' has a reserved name; reserved are exists, has_timed_out"),
        ({"state": "n lnog"}, "state: got type 'lnog' of 'n', accepted are boolean"),
        ({"state": ""}, "state: got '', accepted is at least one column"),
        ({"state": "n long, n double"}, "state: names must differ, 'n' comes twice"),
        ({"state": "n array<decimal(10, 2), 3>"}, r"state: field 'n' is fixed_size_list<item: decimal128\(10, 2\)>"),
        (
            {"state": pa.schema({"n": pa.decimal256(40)})},
            r"state: column 'n' is decimal256\(40, 0\), accepted",
        ),
        ({"state": "n array<string, 3>"}, "state: field 'n' is fixed_size_list<item: string>"),
        ({"state": pa.schema({"n": pa.list_(pa.int64())})}, "state: column 'n' is list<item: int64>"),
        ({"state": 7}, "state: got 7, accepted is a pyarrow.Schema, or text"),
        ({"output": ""}, "output: got '', accepted is at least one column"),
        ({"output": "x array<long, 3>"}, "output: column 'x' is fixed_size_list.* accepted are flat types"),
        ({"output": pa.schema({"x": pa.time64("us")})}, r"output: column 'x' is time64\[us\]"),
        ({"keys": ["kk"]}, "keys: there is no column 'kk' .did you mean 'k'"),
        ({"keys": ["tags"]}, "keys: column 'tags' is list"),
        ({"keys": ["k", "k"]}, "keys: got .* accepted is different columns"),
        ({"timeout": "Never"}, "timeout: got 'Never', accepted is 'NoTimeout', 'ProcessingTimeTimeout'"),
        ({"timeout": "EventTimeTimeout"}, "event_time: got None with timeout='EventTimeTimeout'"),
        ({"event_time": "v"}, "event_time: column 'v' is double, accepted is timestamp"),
        ({"order_by": "w"}, "order_by: there is no column 'w'"),
        ({"order_by": "tags"}, "order_by: column 'tags' is list"),
        ({"output_mode": "complete"}, "output_mode: got 'complete', accepted is 'update', 'append'"),
    ],
)
def test_queries_that_cannot_be(changes, message):
    wanted = {"state": "n long", "output": "x long"} | changes
    with pytest.raises(InvalidArgument, match=message):
        query_for(emit_one, **wanted)
    assert issubclass(UnsupportedType, InvalidArgument)


def test_a_column_with_the_name_of_a_method():
    with pytest.raises(InvalidArgument, match="schema: column 'is_null' has the name of a method; rename it"):
        StatefulQuery(pa.schema({"k": pa.int64(), "is_null": pa.bool_()}), ["k"], "n long", "x long", emit_one)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("out.emit(rows.n[5])", "IndexError: index out of range"),
        ("out.emit(rows.n[-2])", "IndexError: index out of range"),
        ("state.ring[3] = 1", "IndexError"),
        ("state.small = rows.n[0] * 1000", "OverflowError: state.small: the value does not fit byte"),
        ("state.ring[0] = rows.n[0] * 1_000_000", "OverflowError: state.ring.*: the value does not fit short"),
        ("out.emit(rows.n[0] * 1_000_000)", "OverflowError: out.emit: x: the value does not fit short"),
        ("raise KeyError(key.n)", "KeyError"),
    ],
)
def test_what_goes_wrong_at_run_time(body, message, tmp_path):
    query = query_for(failing(body, tmp_path), "small byte, ring array<short, 3>", "x short", keys=["k", "n"])
    with pytest.raises(FunctionFailed, match=rf"counted failed for key k='a', n=1: .*{message}"):
        KeyedState(query).process(batch_of(n=[1]), batch_time_ms=0)
