"""The asv suite: one file per hot path. `MILLRACE_BENCH_SCALE` shrinks all sizes for a trial run."""
