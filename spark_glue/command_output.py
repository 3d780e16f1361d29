"""What commands print, for people and for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

UNBOUNDED = 1_000_000


def print_json(value: Any) -> None:
    """Write a result as one JSON document on standard output.

    Examples
    --------
    >>> print_json({"rows": 3})
    {
      "rows": 3
    }
    """
    sys.stdout.write(json.dumps(value, indent=2, default=str) + "\n")


def print_table(
    console: Console, columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: bool = False
) -> None:
    """Print rows as a table, or one below the other where the terminal is too narrow for that.

    Examples
    --------
    >>> print_table(Console(width=20), ["user", "n"], [["ann", "1"], ["bob", "12"]], right=True)
    user   n
     ann   1
     bob  12
    >>> print_table(Console(width=20), ["user", "page"], [["ann", "/a/long/address"]])
    user: ann
    page: /a/long/address
    """
    table = Table(box=None, pad_edge=False)
    for name in columns:
        table.add_column(escape(name), no_wrap=True, justify="right" if right else "left")
    for row in rows:
        table.add_row(*map(escape, row))
    wanted = Measurement.get(console, console.options.update(max_width=UNBOUNDED), table).maximum
    if wanted <= console.width:
        console.print(table)
        return
    for number, row in enumerate(rows):
        if number:
            console.print()
        for name, value in zip(columns, row, strict=True):
            console.print(f"[bold]{escape(name)}[/bold]: {escape(value)}", soft_wrap=True)
