"""The sentences of the report that do not depend on the figures."""

INTRODUCTION = """\
Spark's own stateful operators against Millrace, over the same Parquet files on one machine; and, where they were
measured, other stream engines that a Python user can install. Written by `benchmarks/end_to_end.py` from its
figures; do not edit.

A **ratio** is the median time of Spark's micro-batches over that of Millrace's: above 1 Millrace is faster. A ratio
*to reach* is one that the project has set itself.
"""

WHY_SLOWER = """\
That is where there is little state to work on. Spark's own aggregation merges rows of the same key before they leave
the task, in compiled code inside the JVM; with few keys hardly anything is left to shuffle or to look up, and it is
done. Millrace must first move every row from the JVM to Python, which takes about half a microsecond a row, whatever is
done with it there. The more keys and state there are, the less that share is.
"""

SECTIONS = {
    "aggregate": """\
`count(*)`, `sum(v)` and `max(v)` by a `long` key; two million rows a micro-batch, a minute of event time. A million
different keys where nothing else is said. With **10,000 keys** little is left of the work that Millrace saves: that
row is there to show the other end. Windows of ten minutes end in one micro-batch of ten, so that the median shows
storing alone; of the one-minute windows as many end as begin in every micro-batch.
""",
    "join": """\
Impressions and clicks by ad, within twenty seconds of each other, watermarks of ten seconds; a quarter of a million
rows of each side a micro-batch, a minute of event time, 50,000 ads. With *a key a row* every impression has an ad of
its own: there is hardly a match to find, and most of what is measured is moving rows.
""",
    "stateful": """\
A counter by key over half a million rows a micro-batch, in every API that Spark has for Python:
`applyInPandasWithState`; `transformWithState` with Rows and `transformWithStateInPandas`, which need RocksDB; and in
Millrace the unchanged function of `applyInPandasWithState` (`mr.apply_in_pandas_with_state`), and the compiled one
(`mr.stateful`). Spark's cost grows with the keys that a micro-batch has, Millrace's with its rows.
""",
}

METHOD = """\
Each query runs from its beginning over generated Parquet files, one per micro-batch, until none is left
(`availableNow`), into a sink that drops what it gets. A figure is what Spark itself reports as the duration of the
micro-batch (`triggerExecution`): reading, planning, state, commit and the log of the checkpoint included. The
first micro-batches are left out (six, or fewer where the tables say *after* fewer): they start workers, and Spark's
compiler warms up on both sides. Where one takes half a minute and more, two or three are timed rather than six. Both
sides run in one session, on the same files, with as many cores and partitions, and with the settings of `mr.configure`,
one after the other. The machine is shared. On the store *rocksdb* a commit writes a changelog, as `mr.configure` has
it, for both sides; on *rocksdb-snapshots* it writes a snapshot, as Spark does by default.
"""

CHECKED = """\
Before anything is timed, every side of a workload runs over the same small files, and what reaches the sink must be the
same in each micro-batch: the same rows with the same values, in any order. Otherwise nothing is measured. What came out
of these runs, on all sides alike:
"""

TO_MIND = """\
- Ratios travel between machines, milliseconds do not. Other load on the machine changes both; on shared machines,
  ratios that differ by a third are the same.
- Driver, executor and Python workers share the cores of one machine here. On a cluster the shuffle crosses a network,
  which neither side gains from.
- Reading files and turning rows into Arrow is Spark's work on both sides, and most of what is left of Millrace's time:
  with few keys, or with wide rows of which little is used, there is less to gain.
- Keys are drawn evenly. A skewed stream has fewer keys in each micro-batch, and gains less.
- A first micro-batch is slower on both sides than what is shown here: workers start, and code is compiled.
"""
