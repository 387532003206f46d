"""The page of force offers what the API accepts."""

import itertools

from cleanup_orchestrator import sdk
from cleanup_orchestrator.core import transitions
from cleanup_orchestrator.core.deletion import Mode, Origin, RoundPurpose, Status
from cleanup_orchestrator.dashboard.deletions import costs, states
from cleanup_orchestrator.plugins import registry
from tests.unit import world


def test_the_types_are_those_with_a_forced_delete():
    assert set(costs.FORCIBLE) == set(registry.load().forcible())


def test_the_costs_are_those_of_known_types():
    known = {f"{s.service_type}.{t.name}" for s in registry.load().services.values() for t in s.types}
    assert not set(costs._COSTS) - known


def test_the_button_is_there_when_the_api_accepts_force():
    for mode, origin, status, purpose, dry in itertools.product(Mode, Origin, Status, RoundPurpose, (True, False)):
        record = world.deletion(mode=mode, origin=origin, status=status, purpose=purpose, dry_run=dry)
        body = {"id": "d", "mode": str(mode), "origin": str(origin), "status": str(status), "dry_run": dry}
        ended = "2027-01-01T00:00:00Z" if status not in transitions.LIVE else None
        shown = sdk.Deletion.received(body | {"progress": {"purpose": str(purpose)}, "finished_at": ended})
        assert states.forcible(shown) == transitions.forcible(record), (mode, origin, status, purpose, dry)
