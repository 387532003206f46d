"""A pytest plugin with a fixture for tests that the garbage collector may disturb."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture
def no_garbage_collection() -> Iterator[None]:
    """Keep the garbage collector from running, for tests of values that are nested too deeply.

    At the limit of the recursion, the finalizers of other tests' objects fail, and pytest reports that as a failure of
    this test.
    """
    gc.collect()
    gc.disable()
    yield
    gc.enable()
