"""Spark's own stateful operators against Millrace, end to end, over the same Parquet micro-batches in one run.

    python benchmarks/end_to_end.py [--only TEXT] [--rows 2000000] [--keys 1000000] [--stores hdfs,rocksdb] …
    python benchmarks/end_to_end.py --json figures.json --resume --report benchmarks/REPORT.md

Every query reads the same files, one per micro-batch, and writes to the same kind of sink. A query's
figure is the median time of its micro-batches after the first six (--warm-up), which warm up both sides; the
ratio is Spark's median over ours. --repeat runs every query several times, the sides taking turns.
Before anything is timed, a small run compares what the sides give.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from e2e import charts, lines, machine, options, report
from e2e.engines_runs import measure_engines
from e2e.figures import Figures, command_line, ratios_of
from e2e.measure import measure_all


def main() -> None:
    chosen = options.parsed(__doc__)
    figures = Figures.load(Path(chosen.from_json)) if chosen.from_json else measured(chosen)
    if chosen.report:
        report.write(figures, Path(chosen.report))
    ratios = [ratio for entry in figures.spark for ratio in ratios_of(entry)]
    if chosen.chart and ratios:
        charts.ratios(ratios, Path(chosen.chart))


def measured(chosen) -> Figures:
    """Measure, printing a line for every comparison."""
    figures = Figures(machine.described(), options.settings(chosen), [command_line()], [machine.commit()])
    if chosen.json:
        path = Path(chosen.json)
        figures = figures.goes_on_from(path) if chosen.resume else figures
        figures.path = path
    print(lines.HEADING)
    started = time.perf_counter()
    for entry in measure_all(figures, chosen):
        for ratio in ratios_of(entry):
            if chosen.only in ratio.name:
                print(lines.line(ratio), flush=True)
        if chosen.verbose:
            print(f"  [{time.perf_counter() - started:.0f} s]", file=sys.stderr)
    if chosen.engines and not chosen.targets:
        for told in measure_engines(figures, chosen):
            print(told, flush=True)
    figures.save()
    return figures


if __name__ == "__main__":
    main()
