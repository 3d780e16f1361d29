"""The `millrace` command: one sub-command a module, all with the same errors and exit codes."""

from __future__ import annotations

import sys

import typer
from rich.console import Console

from ..kernels.errors import MillraceError
from .doctor import doctor
from .state_command import state
from .tuning.command import tune

# What a mistake of the user's exits with; click uses 2 for wrong options too.
MISTAKE = 2

app = typer.Typer(
    name="millrace",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Fast stateful stream processing for PySpark.",
)


@app.callback()
def millrace() -> None:
    """Fast stateful stream processing for PySpark."""


app.command()(doctor)
app.command()(state)
app.command()(tune)


def main() -> None:
    """Run the command line; a user's mistake is one line on standard error, never a traceback.

    Examples
    --------
    >>> import subprocess, sys
    >>> subprocess.run([sys.executable, "-m", "millrace.spark_glue.cli", "--help"]).returncode
    0
    """
    try:
        app()
    except MillraceError as error:
        Console(stderr=True, highlight=False).print(f"[red]error:[/red] {error}", soft_wrap=True)
        sys.exit(MISTAKE)


if __name__ == "__main__":
    main()
