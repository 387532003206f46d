"""The drain of a project in services that speak the protocol: recorded before, and undone whatever happens."""

import dataclasses
import datetime
import types

import pytest

from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.core.holds import Waiver
from cleanup_orchestrator.core.journal import Change
from cleanup_orchestrator.core.step import Token
from cleanup_orchestrator.drain import base as drain
from cleanup_orchestrator.errors import CleanupError, NoServiceToken, OnHold, Stopped
from cleanup_orchestrator.protocol.documents import ProblemType
from cleanup_orchestrator.store import ProtocolService, Spoken
from cleanup_orchestrator.worker.steps import service_drains
from tests.unit.protocol.vendor import problem, response
from tests.unit.world import T0, deletion, sweep_step

HERE = ProtocolService("R1", "vendor", "http://vendor/x", Spoken.DOCUMENT)
CHANGE = Change("c", "d", 1, drain.SERVICE_DRAINED, {"region": "R1", "service": "vendor"})
DRAINS = "http://vendor/x/drains/p"
DONE, LATE = response(204), TimeoutError("late")
OURS = sweep_step("vendor.widget", token=Token.SERVICE)


class Context:
    """A step's context, with one service that answers what the test says."""

    def __init__(self, answer=DONE, steps=(OURS,), waivers=(), services=(HERE,)):
        self.answer, self.did, self.notes = answer, [], []
        self.deletion, self.guard = deletion(status=Status.DRAINING), None
        conf = types.SimpleNamespace(protocol=types.SimpleNamespace(timeout=5))
        self.worker = types.SimpleNamespace(protocol=self, conf=conf)
        self.store = self.clouds = self
        self.off, self._steps, self._waivers, self._services = False, steps, waivers, services

    def drainable(self):
        return self._services

    def steps(self, _id):
        return self._steps

    def waivers_in_force(self, _project):
        return self._waivers

    def protocol_services(self, region):
        return [row for row in self._services if row.region == region], T0

    def service_session(self, _guard):
        return self

    def record_intent(self, type_, data, _what):
        self.did.append(("recorded", type_, data["region"], data["service"]))

    def note(self, type_, message, _data):
        self.notes.append((str(type_), message))

    def request(self, url, method, **_options):
        self.did.append((method, url))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_the_drain_is_recorded_before_it_is_requested():
    context = Context()
    assert "vendor@R1" in service_drains.drain_services(context)
    assert context.did == [("recorded", "service_drained", "R1", "vendor"), ("PUT", DRAINS)]
    assert context.notes == []


@pytest.mark.parametrize(
    "step",
    [
        sweep_step("network.port"),
        dataclasses.replace(OURS, region="R2"),
        dataclasses.replace(OURS, waived="w"),
    ],
    ids=["a plugin's", "of another region", "waived"],
)
def test_a_service_that_is_not_listed_for_the_deletion_is_not_drained(step):
    context = Context(steps=(step,))
    assert (service_drains.drain_services(context), context.did) == ("", [])


def test_without_the_protocol_nothing_is_asked():
    context = Context()
    context.off, context.steps = True, lambda _: pytest.fail("asked")
    assert service_drains.drain_services(context) == ""


@pytest.mark.parametrize(
    "answer",
    [
        response(200),
        response(404),
        response(500),
        problem(ProblemType.UNAVAILABLE),
        response(302),
        TimeoutError("late"),
    ],
)
def test_a_failure_is_a_line_of_the_journal(answer):
    context = Context(answer)
    assert service_drains.drain_services(context) == ""
    assert [type_ for type_, _ in context.notes] == ["drain.service_failed"]
    assert context.did[0][0] == "recorded", "it may have taken effect: it is undone like the others"


def test_a_failure_does_not_keep_the_next_service():
    other = dataclasses.replace(HERE, region="R2", url="http://other")
    context = Context(response(500), (OURS, dataclasses.replace(OURS, region="R2")), services=(HERE, other))
    service_drains.drain_services(context)
    assert [call for call in context.did if call[0] == "PUT"] == [("PUT", DRAINS), ("PUT", "http://other/drains/p")]


def test_a_write_that_is_withheld_ends_the_step():
    with pytest.raises(Stopped):
        service_drains.drain_services(Context(Stopped("cancelled")))


@pytest.mark.parametrize(
    ("answer", "text"),
    [(response(204), "again"), (problem(ProblemType.NOT_SUPPORTED), "no longer")],
)
def test_the_drain_is_undone(answer, text):
    context = Context(answer)
    assert text in drain.undo(None, "p", CHANGE, None, lambda change: service_drains.release_service(context, change))
    assert context.did == [("DELETE", DRAINS)]


@pytest.mark.parametrize("answer", [response(404), response(500), response(200), LATE, NoServiceToken("x")])
def test_an_undo_that_is_not_confirmed_is_tried_again(answer):
    with pytest.raises(CleanupError, match="vendor@R1 may still refuse"):
        service_drains.release_service(Context(answer), CHANGE)


def test_a_service_without_a_record_is_named():
    with pytest.raises(CleanupError, match="vendor in R1"):
        service_drains.release_service(Context(services=()), CHANGE)


WAIVER = Waiver("w", "vendor", "burnt down", T0, T0 + datetime.timedelta(days=1))


@pytest.mark.parametrize("context", [Context(response(500), waivers=(WAIVER,)), Context(LATE, waivers=(WAIVER,))])
def test_a_waiver_for_the_service_is_the_way_out(context):
    text = service_drains.release_service(context, CHANGE)
    assert "vendor@R1 may still refuse" in text and "waiver w of" in text
    assert context.did == [("DELETE", DRAINS)]


def test_a_waiver_for_a_service_without_a_record_is_the_way_out():
    assert "waiver w of" in service_drains.release_service(Context(services=(), waivers=(WAIVER,)), CHANGE)


def test_a_waived_service_that_answers_accepts_new_resources_again():
    """The waiver may be for a list that fails. Without the request, the project would stay drained for good."""
    context = Context(waivers=(WAIVER,))
    assert "again" in service_drains.release_service(context, CHANGE)
    assert context.did == [("DELETE", DRAINS)]


@pytest.mark.parametrize("answer", [response(204), response(500), OnHold("a lien"), LATE])
def test_the_record_of_a_removed_project_is_deleted_if_possible(answer):
    context = Context(answer)
    assert "vendor" in service_drains.forget_drain(context, CHANGE)
    assert context.did == [("DELETE", DRAINS)]


def test_a_lost_claim_ends_the_removal():
    with pytest.raises(Stopped):
        service_drains.forget_drain(Context(Stopped("lost")), CHANGE)


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
