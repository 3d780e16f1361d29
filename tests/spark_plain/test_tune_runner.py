"""Trials in processes of their own: what is heard of them, and that none is left behind. No Spark is started."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

import pytest
from millrace.kernels.errors import InvalidArgument
from millrace.spark_glue.tuning import runner as module
from millrace.spark_glue.tuning.job import Job
from millrace.spark_glue.tuning.processes import session_members
from millrace.spark_glue.tuning.runner import Runner
from millrace.spark_glue.tuning.settings import Settings
from millrace.spark_glue.tuning.trial import DONE, FAILED, INTERRUPTED, OUT_OF_TIME, STOPPED, Batch, Trial

TOTALS = {"cpu": None, "memory": {}, "stages": {}, "commit": 0.0, "tasks": None, "versions": {"spark": "4"}}
HEAD = """
import json, os, subprocess, sys, time
asked = json.loads(sys.stdin.readline())
tell = lambda event, **values: print(json.dumps({"event": event, **values}), flush=True)
batch = lambda ms: tell("batch", batch=0, rows=1000, ms=ms)
totals = lambda: tell("totals", **TOTALS)
"""


@pytest.fixture
def child(monkeypatch, tmp_path):
    """Makes a runner whose trials run a script."""

    def make(script, seconds=60.0, patience=60.0):
        text = f"TOTALS = {TOTALS!r}\n{HEAD}\n{script}"
        monkeypatch.setattr(module, "COMMAND", (sys.executable, "-c", text))
        return Runner(Job(workload="aggregate", warm_up=1, batches=3), tmp_path, time.monotonic() + seconds, patience)

    return make


def run(runner, rival=None, **options):
    return runner.run(Settings(2, 2), "test", rival, **options)


def test_a_trial_that_runs_to_its_end(child, tmp_path):
    runner = child("batch(900); batch(100); batch(200); batch(400); totals(); tell('over')")
    trial = run(runner)
    assert (trial.status, trial.rows_per_second) == (DONE, 5000) and runner.versions == {"spark": "4"}
    assert list(tmp_path.iterdir()) == []


def test_a_trial_that_crashes_is_told_with_its_last_words(child):
    trial = run(child("batch(900); print('out of memory', file=sys.stderr); os._exit(3)"))
    assert trial.status == FAILED and "exit code 3" in trial.reason and "out of memory" in trial.reason
    trial = run(child("os.kill(os.getpid(), 9)"))
    assert trial.status == FAILED and "signal 9" in trial.reason


def test_a_trial_that_fails_is_not_a_mistake_but_a_wrong_query_is(child):
    trial = run(child("tell('failed', reason='boom'); tell('over')"))
    assert (trial.status, trial.reason, trial.mistake) == (FAILED, "boom", False)
    assert run(child("tell('mistake', reason='--query: line 3'); tell('over')")).mistake


def test_a_trial_that_hangs_is_ended_with_all_its_processes(child):
    # A grandchild that ignores the polite signal, as a worker in native code does.
    script = "import signal; signal.signal(15, signal.SIG_IGN); subprocess.Popen(['sleep', '600']); time.sleep(600)"
    started = time.monotonic()
    trial = run(child(script, patience=1.5))
    assert trial.status == FAILED and "hangs" in trial.reason and time.monotonic() - started < 30


def test_a_trial_that_cannot_win_is_stopped(child):
    rival = Trial(7, Settings(2, 1), "", 1, DONE, batches=[Batch(1000, 900), *[Batch(1000, 100)] * 3])
    trial = run(child("batch(900); batch(300); batch(300); time.sleep(600)"), rival)
    assert trial.status == STOPPED and "trial 7" in trial.reason


def test_the_budget_ends_a_trial(child):
    trial = run(child("batch(900); batch(100); time.sleep(600)", seconds=2.0))
    assert trial.status == OUT_OF_TIME and trial.rows_per_second == 10_000
    assert run(child("time.sleep(600)"), limit=1.0).status == OUT_OF_TIME


def test_an_interrupt_ends_the_trial_and_keeps_it(child):
    runner = child("batch(900); batch(100); time.sleep(600)")
    threading.Timer(2.0, signal.raise_signal, [signal.SIGINT]).start()
    with pytest.raises(KeyboardInterrupt):
        run(runner)
    assert runner.current.status == INTERRUPTED and runner.current.rows_per_second == 10_000


def test_members_of_a_session():
    assert os.getpid() in session_members(os.getsid(0))


def test_what_the_query_takes(child):
    assert child("tell('query', inputs=['a'], accepted=['buckets'])").describe() == (("a",), ("buckets",))
    with pytest.raises(InvalidArgument, match="line 3"):
        child("tell('mistake', reason='line 3'); tell('over')").describe()
