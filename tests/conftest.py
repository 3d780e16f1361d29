"""Settings for all tests."""

import os

from hypothesis import settings

# The first example of a test may compile kernels, which takes as long as it takes.
settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("default")
if os.environ.get("CI"):
    settings.load_profile("ci")
