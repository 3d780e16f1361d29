"""Pieces of Markdown."""

from __future__ import annotations

from pathlib import Path


def table(heading: list[str], rows: list[list[str]], left: int = 1) -> str:
    """A table whose first columns are text and whose others are numbers."""
    rules = ["---"] * left + ["---:"] * (len(heading) - left)
    return "\n".join("| " + " | ".join(row) + " |" for row in [heading, rules, *rows]) + "\n"


def picture(path: Path, folder: Path, says: str) -> str:
    """A picture, linked from a page in the folder."""
    return f"![{says}]({path.relative_to(folder).as_posix()})\n"


def rounded(ratio: float) -> str:
    """A ratio to three digits or so."""
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.1f}"
