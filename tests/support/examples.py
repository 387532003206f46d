"""How many examples Hypothesis tries for a property, and which: two profiles.

``tox``: the same examples in each run, so that a test that passed once passes again.
``long``: random examples, ten times as many. ``CLEANUP_TESTS_LONG=1`` or ``CLEANUP_HYPOTHESIS_PROFILE=long`` chooses
this profile.
"""

import os

from hypothesis import HealthCheck, settings

LONG = os.environ.get("CLEANUP_TESTS_LONG") == "1" or os.environ.get("CLEANUP_HYPOTHESIS_PROFILE") == "long"

#: Examples of a property that does not say how many it wants.
USUAL = 50


def examples(count: int) -> int:
    """Return how many examples a property is tried with that wants ``count`` of them in the tier ``tox``."""
    return 10 * count if LONG else count


def load_profile() -> None:
    """Register both profiles and load the one that the environment chooses.

    How long an example takes depends on the load of the machine: there is no deadline, and no check of the time that
    the generation of examples takes.
    """
    timeless = {"deadline": None, "database": None, "suppress_health_check": [HealthCheck.too_slow]}
    settings.register_profile("tox", max_examples=USUAL, derandomize=True, **timeless)
    settings.register_profile("long", max_examples=10 * USUAL, print_blob=True, **timeless)
    settings.load_profile("long" if LONG else "tox")
