"""What a worker says of leftovers and of drains that stay: how much it reads for it, and which waiver ends it."""

import types

import pytest

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Leftover, Outcome, StepResult
from cleanup_orchestrator.errors import CleanupError
from cleanup_orchestrator.worker.steps import service_drains
from cleanup_orchestrator.worker.sweep import cycles


def test_a_long_way_through_many_types_is_not_read_to_its_end():
    read = []

    def blocked(number):
        by = ({"type": f"a.t{number + 1}", "id": "x", "owner": "p"},)
        return Leftover("x", "", Reason.IN_USE, blocked_by=by)

    def leftovers_of(type_):
        read.append(type_)
        assert len(read) < 100, "it reads without an end"
        return [blocked(int(type_.removeprefix("a.t")))]

    result = StepResult(Outcome.LEFTOVERS, leftovers=(blocked(0),))
    assert cycles.with_cycles(result, "a.t0", "p", leftovers_of) == result
    assert len(read) == cycles.MOST_TYPES - 1


@pytest.mark.parametrize(("covers", "ends"), [(True, True), (False, False)])
def test_only_a_waiver_of_the_service_ends_the_undoing_of_its_drain(monkeypatch, covers, ends):
    def gone(*_):
        raise CleanupError("it does not answer")

    asked = []
    waiver = types.SimpleNamespace(covers=lambda *place: asked.append(place) or covers)
    context = types.SimpleNamespace(
        store=types.SimpleNamespace(waivers_in_force=lambda _: [waiver]), deletion=types.SimpleNamespace(project_id="p")
    )
    change = types.SimpleNamespace(data={"region": "R1", "service": "weather"})
    monkeypatch.setattr(service_drains, "_find", gone)
    if ends:
        assert "it is not asked again" in service_drains.release_service(context, change)
    else:
        with pytest.raises(CleanupError, match="weather@R1 may still refuse new resources"):
            service_drains.release_service(context, change)
    assert asked == [("weather", "R1")]
