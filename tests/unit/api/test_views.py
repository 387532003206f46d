"""What a deletion shows of its types: only what this attempt saw, and what force abandoned without a look."""

import types

import pytest

from cleanup_orchestrator.api import views
from cleanup_orchestrator.cloud.catalog import AnsweredBy, CatalogEntryStatus, ProtocolStatus
from cleanup_orchestrator.core.deletion import Force, Status
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Leftover, Outcome, StepState
from tests.unit.world import T0, deletion, sweep_step

FORCE = Force("storage lost", ("a.b",), T0, 2, 3, "u", "alice", "req-1")


@pytest.mark.parametrize(("attempt", "expected"), [(2, ["dns.zone"]), (3, None)])
def test_what_force_abandoned_unseen_is_named_in_its_attempt(attempt, expected):
    steps = [
        sweep_step("dns.zone", outcome=Outcome.UNKNOWN, unseen=True, message="no answer"),
        sweep_step("dns.key", outcome=Outcome.UNKNOWN),
        sweep_step("image.image", outcome=Outcome.UNKNOWN, unseen=True, waived="w"),
    ]
    shown = views.forced(deletion(status=Status.DELETING, attempt=attempt, forced=FORCE), steps)
    assert expected == (shown and [f"{each['service']}.{each['type']}" for each in shown["unseen"]])


@pytest.mark.parametrize(("round_", "listed"), [(2, False), (3, True)])
def test_a_type_shows_what_this_attempt_saw_of_it(round_, listed):
    step = sweep_step(
        "network.port", round=round_, state=StepState.DONE, outcome=Outcome.LEFTOVERS, reason="in_use", message="used",
        found=4, remaining=3, deleted=1, kept=2,
    )  # fmt: skip
    (shown,) = views.counts(deletion(status=Status.INVENTORY, since_round=3, round=3), [step])
    of_attempt = ("outcome", "state", "reason", "message", "remaining", "kept")
    values = ("leftovers", "done", "in_use", "used", 3, 2) if listed else ("", "idle", "", "", 0, 0)
    assert tuple(shown[name] for name in of_attempt) == values
    assert shown["deleted"] == 1


@pytest.mark.parametrize(("everywhere", "url"), [(True, "http://10.0.0.1/"), (False, "")])
def test_a_reader_of_a_domain_does_not_see_where_a_service_is_asked(everywhere, url):
    asked = ProtocolStatus(usable=True, spoke=True, url="http://10.0.0.1/", read_at=T0)
    entry = CatalogEntryStatus("RegionOne", "weather", "weather", AnsweredBy.PROTOCOL, protocol=asked)
    shown = views.service(entry, (), everywhere)
    assert (shown["protocol_url"], shown["protocol_read_at"]) == (url, "2026-01-01T00:00:00Z")


def test_a_remedy_names_three_other_projects_at_most():
    left = Leftover("1", "n", Reason.FOREIGN, remedy="{owner} ends its use")
    row = types.SimpleNamespace(region="RegionOne", service="network", type="port", leftover=left)
    users = [{"project_id": id_, "project_name": f"name-{id_}"} for id_ in ("p", "a", "b", "b", "c", "e")]
    users.insert(1, {"project_id": None, "project_name": "another project"})
    remedy = views.leftover(row, deletion(), {}, None, users)["remedy"]
    assert remedy == "project name-a (a), project name-b (b), project name-c (c) ends its use"
