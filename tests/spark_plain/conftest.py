"""These tests start no JVM, but the package they import needs PySpark to be installed."""

import sys
from importlib.util import find_spec
from pathlib import Path

collect_ignore_glob = ["test_*.py"] if find_spec("pyspark") is None else []
TESTS = Path(__file__).parent.parent
sys.path[:0] = [str(TESTS / folder) for folder in ("spark_plain", "golden", "kernels")]
