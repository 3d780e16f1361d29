"""The command line."""

from __future__ import annotations

import argparse

from .workload import STORES


def parsed(description: str | None, arguments: list[str] | None = None) -> argparse.Namespace:
    """What the user chose."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    choice = parser.add_argument_group("what is measured")
    choice.add_argument("--only", default="", metavar="TEXT", help="only comparisons whose name has this text")
    which = f"of {', '.join(STORES)} (default: the first two)"
    choice.add_argument("--stores", type=stores, default=STORES[:2], help=which)
    choice.add_argument("--targets", action="store_true", help="only comparisons and stores with a ratio to reach")
    choice.add_argument("--no-engines", dest="engines", action="store_false", help="without the other engines")
    choice.add_argument("--no-check", dest="check", action="store_false", help="do not compare the results first")
    sizes = parser.add_argument_group("sizes")
    sizes.add_argument("--rows", type=positive, help="rows of a micro-batch and input (default: the workload's own)")
    sizes.add_argument("--keys", type=positive, help="different keys (default: the workload's own)")
    sizes.add_argument("--batches", type=positive, default=6, help="timed micro-batches, at most (default 6)")
    sizes.add_argument("--warm-up", type=int, default=6, help="micro-batches before those, at most (default 6)")
    sizes.add_argument("--repeat", type=positive, default=1, help="runs of each query, in turns (default 1)")
    spark = parser.add_argument_group("Spark")
    spark.add_argument("--cores", type=positive, default=2, help="executor cores (default 2)")
    spark.add_argument("--partitions", type=positive, help="shuffle partitions (default: as many as cores)")
    spark.add_argument("--sink", default="noop", choices=("noop", "parquet"), help="where results go (default noop)")
    spark.add_argument("--memory", default="6g", help="memory of the JVM (default 6g)")
    spark.add_argument("--no-daemon", dest="daemon", action="store_false", help="without mr.configure")
    spark.add_argument("--conf", type=setting, action="append", metavar="KEY=VALUE", help="a setting of the session")
    results = parser.add_argument_group("results")
    results.add_argument("--json", metavar="FILE", help="save the figures here, after every query")
    results.add_argument("--resume", action="store_true", help="measure only what the --json file lacks")
    results.add_argument("--from-json", metavar="FILE", help="measure nothing, render these figures")
    results.add_argument("--report", metavar="FILE", help="write the report, and its charts into charts/ beside it")
    results.add_argument("--chart", metavar="FILE", help="draw the ratios, as a PNG")
    results.add_argument("--verbose", action="store_true", help="also print every micro-batch's time")
    options = parser.parse_args(arguments)
    if options.resume and not options.json:
        parser.error("--resume goes on with the figures of a file: give it as --json FILE")
    return options


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text}, but at least 1 is needed")
    return value


def stores(text: str) -> tuple[str, ...]:
    chosen = tuple(text.split(","))
    if not set(chosen) <= set(STORES):
        raise argparse.ArgumentTypeError(f"{text!r}; accepted are {', '.join(STORES)}, separated by commas")
    return chosen


def setting(text: str) -> str:
    if not all(map(str.strip, text.partition("="))):
        raise argparse.ArgumentTypeError(f"{text!r}; accepted is KEY=VALUE")
    return text


def settings(options: argparse.Namespace) -> dict[str, object]:
    """The options that change what figures mean."""
    names = ("rows", "keys", "batches", "warm_up", "cores", "partitions", "sink", "memory", "daemon", "conf")
    return {name: getattr(options, name) for name in names}
