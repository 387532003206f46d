import pytest

from cleanup_orchestrator.monitoring import health, probe
from tests.support.virtual_time import virtual_time


@pytest.fixture(autouse=True)
def play():
    """Questions that may hang are asked on virtual time."""
    with virtual_time(probe, health) as made:
        yield made
