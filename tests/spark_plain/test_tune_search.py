"""What `millrace tune` tries next, with a runner that makes figures up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from millrace.spark_glue.tuning.search import AGAIN, BASELINE, CURVE, START, Search
from millrace.spark_glue.tuning.settings import Settings, advised, alternatives, conf_lines, spark_defaults
from millrace.spark_glue.tuning.trial import DONE, FAILED, STOPPED, Batch, Trial, cannot_win

ACCEPTED = ("buckets", "map_side")


class FakeMachine:
    """Runs trials in no time; `rate` says how fast settings are."""

    def __init__(self, rate, seconds=10.0, budget=1e9):
        self.rate, self.seconds, self.left = rate, seconds, budget
        self.asked = []

    def run(self, settings, purpose, rival, limit):
        self.asked.append((purpose, settings))
        self.left -= self.seconds
        rate = self.rate(settings)
        trial = Trial(len(self.asked), settings, purpose, warm_up=1, seconds=self.seconds)
        if rate is None:
            trial.status = FAILED
            return trial
        trial.batches = [Batch(1000, 9999.0), *[Batch(1000, 1e6 / rate)] * 4]
        trial.status = STOPPED if cannot_win(trial, rival) else DONE
        return trial

    def search(self, cores=(1, 2), accepted=ACCEPTED, **options):
        search = Search(self.run, cores, accepted, lambda: self.left, **options)
        search.go()
        return search


def test_the_order_of_things():
    machine = FakeMachine(lambda s: 1000)
    machine.search()
    purposes = [purpose for purpose, _ in machine.asked]
    assert purposes[:2] == [START, BASELINE] and purposes[-1] == CURVE
    middle = list(dict.fromkeys(purposes[2:-1]))
    assert middle == ["partitions", "arrow_rows", "map_side", "store", "daemon", "buckets", AGAIN]
    # Nothing but the confirmation is run twice.
    searched = [settings for purpose, settings in machine.asked if purpose != AGAIN]
    assert len(searched) == len(set(searched))


def test_the_best_of_every_axis_is_found():
    best = Settings(cores=2, partitions=4, buckets=8, arrow_rows=262_144, store="rocksdb", daemon=True, map_side=False)

    def rate(s):
        names = ("partitions", "buckets", "arrow_rows", "store", "daemon", "map_side")
        return 1000 * 1.2 ** sum(getattr(s, name) == getattr(best, name) for name in names)

    search = FakeMachine(rate).search()
    assert search.winner() == best
    assert search.points() == [(1, pytest.approx(rate(best.on_cores(1)))), (2, pytest.approx(rate(best)))]


def test_a_little_better_is_noise_and_is_not_followed():
    machine = FakeMachine(lambda s: 1010 if s.store == "rocksdb" else 1000)
    machine.search()
    assert not any(s.store == "rocksdb" and purpose in ("daemon", "buckets") for purpose, s in machine.asked)


def test_keywords_that_the_query_does_not_take_are_left_alone():
    machine = FakeMachine(lambda s: 1000)
    machine.search(accepted=())
    assert all(s.map_side and s.buckets is None for _, s in machine.asked)


def test_what_fails_is_passed_over():
    search = FakeMachine(lambda s: None if s.store == "rocksdb" or s.partitions == 200 else 1000).search()
    assert search.winner().store == "hdfs" and len(search.points()) == 2


def test_when_everything_fails_there_is_no_winner():
    machine = FakeMachine(lambda s: None)
    assert machine.search().winner() is None and len(machine.asked) == 2


def test_time_is_kept_for_the_curve():
    # Ten seconds a trial; four numbers of cores, so 10 × (8/4 + 8/2→3 + 8/1→3) = 80 seconds are kept.
    machine = FakeMachine(lambda s: 1000 * s.cores, budget=120.0)
    search = machine.search(cores=(1, 2, 4, 8))
    assert [n for n, _ in search.points()] == [1, 2, 4, 8]
    assert [purpose for purpose, _ in machine.asked][:3] == [START, BASELINE, "partitions"]
    assert len(machine.asked) == 2 + 2 + 3


def test_a_number_of_trials_and_no_defaults():
    machine = FakeMachine(lambda s: 1000)
    search = machine.search(most_trials=4, defaults=False)
    assert [purpose for purpose, _ in machine.asked] == [START, "partitions", "partitions", CURVE]
    assert len(search.points()) == 2


def test_a_budget_that_is_used_up_ends_the_search():
    machine = FakeMachine(lambda s: 1000, budget=5.0)
    assert len(machine.search().trials) == 1


def trial(*ms, warm_up=0):
    return Trial(1, Settings(2, 2), "", warm_up, batches=[Batch(100, t) for t in ms])


@pytest.mark.parametrize(
    ("mine", "theirs", "hopeless"),
    [
        ((200,), (100, 100), False),  # one batch proves nothing
        ((120, 120), (100, 100), False),  # a fifth slower after two: may still catch up
        ((130, 130), (100, 100), True),
        ((500, 90), (100, 100), False),  # was faster once
        ((115, 115, 115, 115, 115), (100,) * 6, True),  # later, less is enough
    ],
)
def test_when_a_trial_cannot_win_any_more(mine, theirs, hopeless):
    assert cannot_win(trial(*mine), trial(*theirs)) is hopeless


def test_warming_up_does_not_count():
    assert not cannot_win(trial(900, 900, 50, warm_up=2), trial(10, 10, 100, 100, warm_up=2))


def test_cores_take_partitions_and_buckets_along():
    assert Settings(4, 8, 16).on_cores(2) == Settings(2, 4, 8)
    assert Settings(4, 2).on_cores(1).partitions == 1


def test_alternatives_leave_out_what_is_there():
    best = advised(2)
    for axis, options in alternatives(best, ACCEPTED).items():
        assert options and best not in options
        assert all(replace(option, **{axis: getattr(best, axis)}) == best for option in options)


def test_sparks_defaults_set_what_spark_sets():
    # As the documentation of Spark 4 has them.
    options = spark_defaults(2).spark_options()
    assert options["spark.sql.shuffle.partitions"] == "200"
    assert options["spark.sql.execution.arrow.maxRecordsPerBatch"] == "10000"
    assert options["spark.sql.streaming.stateStore.providerClass"].endswith(".HDFSBackedStateStoreProvider")
    assert not any(key.startswith("spark.python") for key in options)


def test_the_fragment_to_paste():
    lines = list(conf_lines(Settings(2, 4, 8, map_side=False), ACCEPTED))
    assert any(line.split() == ["spark.sql.shuffle.partitions", "4"] for line in lines)
    assert any(line.split() == ["spark.python.daemon.module", "millrace.spark_glue.daemon"] for line in lines)
    assert "# In the query itself: map_side=False" in lines and "# In the query itself: buckets=8" in lines
    assert all(line.startswith("#") or len(line.split()) == 2 for line in lines)
