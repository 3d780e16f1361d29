"""What a stateful function may do and use, and where compiled code is found."""

from __future__ import annotations

import math
import os
import pickle
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from compiled_queries import batch_of, query_for, run
from millrace.kernels import captured, generated
from millrace.kernels.errors import InvalidArgument
from millrace.kernels.keyed_state import KeyedState
from numba import njit

LIMIT = 3
WEIGHTS = np.array([1.0, 10.0, 100.0])
NAMES = ("ann", 2, -math.inf, (True, None))
SETTINGS = {"a": 1}


@njit
def weigh(state, i):
    state.total += WEIGHTS[i]
    return twice(i)


def twice(x):
    return 2 * x


# --- what functions see and use ---------------------------------------------------------------------


def test_every_kind_of_value():
    def look(key, rows, state, out):
        out.emit(
            rows.v[0] * 2, rows.n[0] + 1, rows.text[0], rows.blob[0], not rows.flag[0], rows.day[0] + 1,
            rows.at[0] + 1_000_000, rows.v[-1],
        )  # fmt: skip

    output = "v double, n short, t string, b binary, f boolean, d date, a timestamp, last float"
    batch = batch_of(v=[1.5], n=[7], text=["żółw"], blob=[b"\x00\xff"], flag=[False], day=[0], at=[1000])
    [row] = run(look, batch, output=output)
    assert row[:5] == (3.0, 8, "żółw", b"\x00\xff", True)
    assert str(row[5]) == "1970-01-02" and str(row[6]) == "1970-01-01 00:00:02+00:00" and row[7] == 1.5


def test_state_of_every_kind():
    state = (
        "b boolean, y byte, s short, i int, l long, f float, d double, day date, at timestamp, u timestamp_ntz, "
        "t string, x binary, flags array<boolean, 9>, bytes array<byte, 3>, floats array<float, 3>, "
        "days array<date, 2>, times array<timestamp, 2>"
    )

    def fill(key, rows, state, out):
        if state.exists:
            total = 0.0
            for x in state.floats:
                total += x
            out.emit(
                state.b, state.y, state.s, state.i, state.l, state.f, state.d, state.day, state.at, state.u, state.t,
                state.x, state.flags[8], state.bytes[-1], total, state.days[1], state.times[0], state.is_null("d"),
            )  # fmt: skip
        state.b, state.y, state.s, state.i, state.l = True, -128, 32767, -5, 2**62
        state.f, state.day, state.at, state.u = 0.1, 1, 2, 3
        state.t, state.x = rows.text[0], rows.blob[0]
        state.flags[8], state.bytes[2], state.floats[1], state.days[1], state.times[0] = True, -7, 1.5, 9, 10
        state.floats[2] += 2
        state.d = None

    output = (
        "b boolean, y byte, s short, i int, l long, f float, d double, day date, at timestamp, u timestamp_ntz, "
        "t string, x binary, flag boolean, byte byte, total double, d1 date, t0 timestamp, null boolean"
    )
    query, batch = query_for(fill, state, output), batch_of(text=["t"], blob=[b"x"])
    before = KeyedState(query)
    before.process(batch, batch_time_ms=0)
    for version in (1, 2):
        after = KeyedState.from_bytes(query, before.to_bytes(version))
        [row] = after.process(batch, batch_time_ms=0).rows.to_pylist()
        assert list(row.values())[:5] == [True, -128, 32767, -5, 2**62]
        assert row["f"] == np.float32(0.1) and row["d"] is None and row["null"] and row["total"] == 3.5
        assert (row["t"], row["x"], row["flag"], row["byte"]) == ("t", b"x", True, -7)
        assert [row[c].isoformat()[:10] for c in ("day", "d1")] == ["1970-01-02", "1970-01-10"]
        assert [row[c].microsecond for c in ("at", "u", "t0")] == [2, 3, 10]


def test_text():
    def look(key, rows, state, out):
        a, b = rows.text[0], rows.text[1]
        word = "no" + "body"
        out.emit(
            a == b, a != b, a < b, a <= b, a > b, a >= b, len(a), bool(a), a.startswith("ż"), a.endswith(b), b in a
        )
        out.emit(
            a == "żółw", a != "żółw", a < "b", a >= "b", a > word, word >= a, len(b), bool(b), a.startswith(b),
            hash(a) == hash(rows.text[2]), "ół" in a,
        )  # fmt: skip

    output = ", ".join(f"c{i} {'long' if i == 6 else 'boolean'}" for i in range(11))
    for a, b in [("żółw", "w"), ("", ""), ("b", "bb"), ("nobody", "żółw"), ("𝄞", "𝄞"), ("a", None)]:
        first, second = run(look, batch_of(text=[a, b, "żółw"]), output=output)
        b = b or ""
        word = "nobody"
        assert first == (a == b, a != b, a < b, a <= b, a > b, a >= b, len(a), bool(a), a.startswith("ż"),
                         a.endswith(b), b in a)  # fmt: skip
        assert second[:9] == (a == "żółw", a != "żółw", a < "b", a >= "b", a > word, word >= a, len(b), bool(b),
                              a.startswith(b))  # fmt: skip
        assert second[9:] == (a == "żółw", "ół" in a)


def test_text_of_a_run_is_kept_and_emitted():
    def look(key, rows, state, out):
        label = "high" if rows.v[0] > 1 else "łow"
        state.name = label + str(len(rows))
        kept = state.name
        state.name = "something else that is longer than before"
        out.emit(kept, label, rows.text[0] if rows.v[0] > 1 else "nobody", str(7) + "𝄞")

    output = "a string, b string, c string, d string"
    assert run(look, batch_of(v=[2.0], text=["x"]), output=output) == [("high1", "high", "x", "7𝄞")]
    assert run(look, batch_of(v=[0.0], text=["x"]), output=output) == [("łow1", "łow", "nobody", "7𝄞")]


def test_strings_put_together():
    def look(key, rows, state, out):
        state.name = f"{rows.text[0]}-{len(rows)}"
        out.emit(state.name, str(rows.text[0]) + "ł" == "𝄞ał", str(rows.text[0]))

    output = "a string, b boolean, c string"
    assert run(look, batch_of(text=["𝄞a"]), output=output) == [("𝄞a-1", True, "𝄞a")]


def test_python_within_a_function():
    def use(key, rows, state, out):
        def add(x):
            state.n += 1
            state.total += x

        for i, x in enumerate(rows.v):
            add(x * i)
        view, columns = state, rows
        view.ring[0] = len([x for x in columns.v if x > 1])
        seen = {str(rows.text[0]): 1.0}
        seen[str(rows.text[1])] = 2.0
        texts = set()
        for text in rows.text:
            texts.add(text)
        try:
            ratio = 1 / rows.v[0]
        except Exception:
            ratio = -1.0
        out.emit(*(state.n, state.total, state.ring[0], len(seen) + 10 * len(texts), ratio, max(rows.v)))

    output = "n long, total double, some long, seen long, ratio double, top double"
    batch = batch_of(v=[0.0, 2.0, 3.0], text=["a", "a", "b"])
    assert run(use, batch, "n long, total double, ring array<int, 2>", output) == [(3, 8.0, 2, 21, -1.0, 3.0)]


def test_binary_is_measured_in_bytes():
    def look(key, rows, state, out):
        out.emit(len(rows.blob[0]) + (10 if rows.blob[0] < rows.blob[1] else 0))

    assert run(look, batch_of(blob=[b"\xc4\x85", b"\xff"])) == [(12,)]


def test_nulls_that_are_handed_on_stay_null():
    def hand_on(key, rows, state, out):
        kept, name = rows.n[0], rows.text[0]
        state.n = rows.n[0]
        state.name = name
        out.emit(key.k, kept, name, state.n, state.name, rows.v[0], kept + 1, len(name), rows.is_null("n", 0))
        out.emit(None, None if rows.v[0] == 0 else 1, None, 1, "x", None, 2, 3, key.is_null("k"))

    output = "k string, n long, t string, sn long, st string, v double, m long, len long, null boolean"
    null = batch_of(k=[None], n=[None])
    assert run(hand_on, null, output=output) == [
        (None, None, None, None, None, None, 1, 0, True),
        (None, None, None, 1, "x", None, 2, 3, True),
    ]
    full = batch_of(k=[""], n=[4], text=[""], v=[2.5])
    assert run(hand_on, full, output=output)[0] == ("", 4, "", 4, "", 2.5, 5, 0, False)


def test_several_keys_with_nulls():
    def count(key, rows, state, out):
        state.n += len(rows)
        out.emit(key.k, key.n, key.flag, key.text, state.n)

    rows = [
        ("a", 1, True, "x"),
        (None, 1, True, "x"),
        ("", 1, True, "x"),
        ("a", None, None, None),
        (None, 1, True, "x"),
    ]
    k, n, flag, text = zip(*rows, strict=True)
    batch, keys = batch_of(k=k, n=n, flag=flag, text=text), ["k", "n", "flag", "text"]
    query = query_for(count, output="k string, n int, f boolean, t string, c long", keys=keys)
    state = KeyedState(query)
    for factor in (1, 2):
        got = [tuple(row.values()) for row in state.process(batch, batch_time_ms=0).rows.to_pylist()]
        assert got == [(*row, factor * (2 if row[0] is None else 1)) for row in rows[:4]]
        state = KeyedState.from_bytes(query, state.to_bytes())


def test_no_keys_at_all():
    def count(key, rows, state, out):
        state.n += len(rows)
        out.emit(state.n)

    assert run(count, batch_of(v=[1.0, 2.0]), keys=[]) == [(2,)]


def test_globals_are_captured_by_value():
    offset, kept = 5, LIMIT

    def use(key, rows, state, out):
        out.emit(weigh(state, 1) + LIMIT + offset + len(NAMES) + (1 if NAMES[2] < -math.pi else 0) + int(np.sqrt(4.0)))
        out.emit(int(state.total))

    query = query_for(use)
    globals()["LIMIT"] = 1000
    try:
        again = pickle.loads(pickle.dumps(query))
        got = KeyedState(again).process(batch_of(v=[1.0]), batch_time_ms=0).rows.column(0).to_pylist()
    finally:
        globals()["LIMIT"] = kept
    assert got == [2 + 3 + 5 + 4 + 1 + 2, 10]


def test_functions_of_awkward_names():
    def compiled(x):
        return x + 1

    def function(key, rows, state, out):
        out.emit(compiled(1))

    assert run(function) == [(2,)]


def test_functions_with_defaults():
    def fall(n, by=LIMIT):
        steps = 0
        while n > 0:
            n, steps = n - by, steps + 1
        return steps

    def use(key, rows, state, out):
        out.emit(fall(10) + fall(10, 5))

    assert run(use) == [(fall(10) + fall(10, 5),)]


def test_functions_that_call_themselves_are_refused():
    def fall(n):
        return 0 if n <= 0 else 1 + fall(n - 1)

    def use(key, rows, state, out):
        out.emit(fall(10))

    with pytest.raises(InvalidArgument, match="fall calls itself; write it as a loop"):
        run(use)


@pytest.mark.parametrize(
    "value",
    [1, -2.5, math.inf, "żółw", b"x", True, None, (1, (2.0, "x"), ()), np.float32(1.5), np.arange(6).reshape(2, 3)],
)
def test_values_as_text(value):
    again = eval(captured.literal_of(value))
    assert type(again) is type(value)
    assert np.array_equal(again, value) if isinstance(value, np.ndarray) else again == value


def test_nan_as_text():
    assert math.isnan(eval(captured.literal_of(math.nan)))


def test_much_output_and_much_text():
    def explode(key, rows, state, out):
        for i in range(len(rows)):
            state.name = rows.text[i]
            for j in range(100):
                out.emit(state.name, j)

    texts = [f"text number {i}" for i in range(3000)]
    query = query_for(explode, output="t string, j long")
    state = KeyedState(query)
    for _ in range(3):
        rows = state.process(batch_of(k=[str(i % 7) for i in range(3000)], text=texts), batch_time_ms=0).rows
        assert rows.num_rows == 300_000
        assert rows.column(0).unique().to_pylist() == sorted(
            texts, key=lambda t: (int(t.split()[2]) % 7, int(t.split()[2]))
        )
    assert state.nbytes < 5_000_000


def test_text_that_is_written_over_does_not_pile_up():
    def keep(key, rows, state, out):
        for i in range(len(rows)):
            state.name = rows.text[i]
        out.emit(len(state.name))

    state = KeyedState(query_for(keep))
    batch = batch_of(text=[f"{'x' * 200}{i}" for i in range(20_000)])
    for _ in range(5):
        state.process(batch, batch_time_ms=0)
        assert KeyedState.from_bytes(state.query, state.to_bytes()).to_bytes() == state.to_bytes()
    assert state.nbytes < 20_000_000


def test_only_what_the_function_names_is_read():
    """A column of a type that cannot be seen may be there, and may differ from batch to batch."""

    def look(key, rows, state, out):
        out.emit(len(rows))

    query = query_for(look)
    assert query.program.ROWS.used == () and query.program.KEY.used == ()
    assert KeyedState(query).process(pa.record_batch({"k": ["a"]}), batch_time_ms=0).rows.num_rows == 1


# --- where compiled code is found -------------------------------------------------------------------

SCRIPT = """
import sys
import pyarrow as pa
from millrace.kernels import generated
from millrace.kernels.keyed_state import KeyedState
from millrace.kernels.stateful_query import StatefulQuery
from millrace.kernels import Aggregation, aggregate
from millrace.kernels.sketches import weighted_mean

def helper(x):
    return x + 1

def count(key, rows, state, out):
    state.n += len(rows)
    state.name = key.k
    out.emit(helper(state.n), state.name)

batch = pa.record_batch({"k": ["a", "b", "a"], "v": [1.0, 2.0, 3.0]})
query = StatefulQuery(batch.schema, ["k"], "n long, name string", "n long, t string", count)
print(KeyedState(query).process(batch, batch_time_ms=0).rows.column(0).to_pylist())
mean = aggregate(Aggregation(batch.schema, ["k"], {"m": weighted_mean("v", "v")}), batch)
loops = [m.loop for name, m in sys.modules.items() if name.startswith(generated.PREFIX) and hasattr(m, "loop")]
for kernel in [query.program.call_each, *loops]:
    print(dict(kernel.stats.cache_hits) != {}, len(kernel.stats.cache_misses))
"""


@pytest.mark.parametrize("variable", ["NUMBA_CACHE_DIR", "XDG_CACHE_HOME"])
def test_a_second_process_finds_compiled_functions(variable, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    environment = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"} | {variable: str(tmp_path / "cache")}
    outputs = [
        subprocess.run(
            [sys.executable, str(script)], env=environment, capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    ]
    assert outputs[0].splitlines()[:2] == ["[3, 2]", "False 1"]
    assert outputs[1].splitlines() == ["[3, 2]", *["True 0"] * 4]
    assert list((tmp_path / "cache").rglob(f"{generated.PREFIX}*.py"))


def test_a_query_travels_to_a_process_that_does_not_have_the_function(tmp_path):
    def count(key, rows, state, out):
        state.n += len(rows) + LIMIT
        out.emit(state.n)

    path = tmp_path / "query.pickle"
    path.write_bytes(pickle.dumps(query_for(count)))
    code = f"""
import pickle, pyarrow as pa
from millrace.kernels.keyed_state import KeyedState
query = pickle.load(open({str(path)!r}, "rb"))
print(KeyedState(query).process(pa.record_batch({{"k": ["a"]}}), batch_time_ms=0).rows.to_pylist())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.strip() == "[{'x': 4}]"


def test_a_folder_that_others_can_write_to_is_not_used(tmp_path, monkeypatch):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    generated._own_folder.cache_clear()
    try:
        folder = generated.cache_folder()
        assert folder.parent == tmp_path and generated.load_module("probe", "x = 1\n").x == 1
        folder.chmod(0o777)
        generated._own_folder.cache_clear()
        assert generated.cache_folder() != folder
    finally:
        generated._own_folder.cache_clear()
