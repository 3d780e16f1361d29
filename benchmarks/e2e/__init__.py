"""The end-to-end benchmark: jobs in Spark's own words and in Millrace's, timed, checked and reported."""

import os
import sys

from pyspark import cloudpickle

# Executors are to run the Python that this is.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

# Workers cannot import these files.
cloudpickle.register_pickle_by_value(sys.modules[__name__])
