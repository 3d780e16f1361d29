"""What commands print for programs."""

from __future__ import annotations

import json
import sys
from typing import Any


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
