"""The end-to-end benchmark: jobs in Spark's own words and in Millrace's, timed, checked and reported."""

import sys

from pyspark import cloudpickle

# Workers cannot import these files.
cloudpickle.register_pickle_by_value(sys.modules[__name__])
