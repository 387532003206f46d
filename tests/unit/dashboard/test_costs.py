"""What the page of force says of the types."""

from cleanup_orchestrator.dashboard.deletions import costs
from cleanup_orchestrator.plugins import registry


def test_the_types_with_a_forced_delete_are_those_of_the_plugins():
    assert sorted(costs.FORCIBLE) == sorted(registry.load().forcible())


def test_each_cost_is_that_of_a_type():
    types = {
        f"{service.service_type}.{type_.name}"
        for service in registry.load().services.values()
        for type_ in service.types
    }
    assert set(costs._COSTS) <= types
