"""What blocks a delete, and whose it is: a table of who may see what.

A resource of another project is named, by type and id. Its own name, and which project it belongs to, are for those who
may read that project.
"""

import dataclasses
import uuid

import pytest

from cleanup_orchestrator.core.deletion import Mode, RoundPurpose, Status
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Leftover, Outcome, Step, StepKind, StepResult, StepState
from cleanup_orchestrator.store import records, tables
from tests.functional.test_api import keystone as ks
from tests.support.stores import save

PORT = {"type": "network.port", "id": "port-1", "name": "their secret"}
FOREIGN = {**PORT, "owner": "p2", "project_name": "two", "domain_id": "d2"}
SAME_DOMAIN = {**PORT, "owner": "parent", "project_name": "parent", "domain_id": "d1"}
NO_DOMAIN = {**PORT, "owner": "p2"}  # Keystone did not answer, or has deleted the project
NO_OWNER = {**PORT, "owner": ""}
OWN = {**PORT, "owner": "p1"}
NO_NAME = {"type": "network.port", "id": "port-1", "owner": "p2"}

HIDDEN = {"type": "network.port", "id": "port-1", "name": "", "project_id": None, "project_name": "another project"}
NOBODYS = {**HIDDEN, "project_name": None}


def open_(project_id, project_name, name="their secret"):
    return {**PORT, "name": name, "project_id": project_id, "project_name": project_name}


#: stored, reader's token, shown
TABLE = [
    (FOREIGN, ks.ADMIN, open_("p2", "two")),
    (FOREIGN, ks.SYSTEM, open_("p2", "two")),
    (FOREIGN, ks.MANAGER, HIDDEN),
    (FOREIGN, ks.DOMAIN_READER, HIDDEN),
    (FOREIGN, ks.SYSTEM_READER, open_("p2", "two")),
    (SAME_DOMAIN, ks.ADMIN, open_("parent", "parent")),
    (SAME_DOMAIN, ks.MANAGER, open_("parent", "parent")),
    (SAME_DOMAIN, ks.DOMAIN_READER, open_("parent", "parent")),
    (NO_DOMAIN, ks.ADMIN, open_("p2", None)),
    (NO_DOMAIN, ks.MANAGER, HIDDEN),
    (NO_OWNER, ks.ADMIN, open_(None, None)),
    (NO_OWNER, ks.MANAGER, NOBODYS),
    (OWN, ks.ADMIN, open_("p1", "one")),
    (OWN, ks.MANAGER, open_("p1", "one")),
    (NO_NAME, ks.ADMIN, open_("p2", None, "")),
    (NO_NAME, ks.MANAGER, HIDDEN),
]


def blocked(site, *stored, reason=Reason.FOREIGN, dry_run=False, status=Status.DELETING, by=ks.ADMIN):
    """A deletion of project p1 with a network that these resources block."""
    made = site.ask(token=by, mode="cascade", dry_run=dry_run)
    record, _, now = site.store.load(made["id"])
    step = Step(str(uuid.uuid4()), record.id, StepKind.SWEEP, "RegionOne", "network", "network", round=1,
                state=StepState.DISPATCHED, attempt=1, dispatched_at=now)  # fmt: skip
    purpose = RoundPurpose.INVENTORY if dry_run else RoundPurpose.DELETE
    record = dataclasses.replace(record, status=status, mode=Mode.CASCADE, purpose=purpose)
    save(site.store, site.store.get(record.id), record)
    with site.store.database.begin() as c:
        c.execute(tables.steps.insert(), [records.step_values(step)])
    claimed = site.store.claim(step.id, "w", 60)
    left = (Leftover("net-1", "net", reason, "it is used", stored),)
    result = StepResult(Outcome.LEFTOVERS, str(reason), "it is used", found=1, leftovers=left, digest="0")
    assert site.store.finish(claimed[1], result)
    if dry_run:
        record, _, now = site.store.load(record.id)
        save(site.store, record, dataclasses.replace(record, status=Status.PLANNED, finished_at=now))
    return record.id


@pytest.mark.parametrize(("stored", "token", "shown"), TABLE, ids=str)
def test_who_sees_whose_it_is(site, stored, token, shown):
    id_ = blocked(site, stored)
    [row] = site.get(f"/v1/deletions/{id_}/leftovers", token).json["leftovers"]
    assert row["blocked_by"] == [shown]
    [blocker] = site.get(f"/v1/deletions/{id_}", token).json["deletion"]["blockers"]
    assert (blocker["reason"], blocker["blocked_by"]) == ("foreign", [shown])


@pytest.mark.parametrize(("stored", "token", "shown"), TABLE[:8], ids=str)
def test_a_plan_names_what_will_block_to_the_same_readers(site, stored, token, shown):
    id_ = blocked(site, stored, dry_run=True)
    [row] = site.get(f"/v1/plans/{id_}/resources", token).json["resources"]
    assert (row["action"], row["blocked_by"]) == ("protect", [shown])
    plan = site.get(f"/v1/plans/{id_}", token).json["plan"]
    assert [(b["type"], b["blocked_by"]) for b in plan["blockers"]] == [("network", [shown])]


@pytest.mark.parametrize(
    ("stored", "shown"),
    [(FOREIGN, HIDDEN), (SAME_DOMAIN, HIDDEN), (NO_OWNER, NOBODYS), (OWN, open_("p1", "one"))],
    ids=str,
)
def test_who_asked_for_a_deletion_sees_of_other_projects_what_that_token_may(site, stored, shown):
    """The request gives a right to the deletion, and none to other projects."""
    id_ = blocked(site, stored, by=ks.MANAGER)
    [row] = site.get(f"/v1/deletions/{id_}/leftovers", ks.MANAGERS_OTHER).json["leftovers"]
    assert row["blocked_by"] == [shown]


def test_no_answer_to_the_manager_of_another_domain_contains_what_is_hidden(site):
    """Not in another field either: the whole answers are searched."""
    hidden = {**FOREIGN, "owner": "hidden-id", "project_name": "hidden-name", "name": "hidden-port"}
    id_ = blocked(site, hidden)
    paths = [f"/v1/deletions/{id_}{part}" for part in ("", "/leftovers", "/events")] + ["/v1/deletions"]
    for path in paths:
        assert b"hidden" not in site.get(path, ks.MANAGER).body, path
    assert b"hidden-name" in site.get(paths[0]).body


def test_a_blocker_of_a_deletion_names_a_few_different_resources(any_site):
    stored = [{**FOREIGN, "id": f"port-{n % 30}"} for n in range(40)]
    id_ = blocked(any_site, *stored)
    [blocker] = any_site.get(f"/v1/deletions/{id_}").json["deletion"]["blockers"]
    assert [b["id"] for b in blocker["blocked_by"]] == [f"port-{n}" for n in range(10)]


@pytest.mark.parametrize("reason", [Reason.ERROR, Reason.REFUSED, Reason.DELETING])
def test_a_blocker_names_the_resources_that_it_is_about(site, reason):
    id_ = blocked(site, reason=reason)
    [blocker] = site.get(f"/v1/deletions/{id_}").json["deletion"]["blockers"]
    [left] = site.get(f"/v1/deletions/{id_}/leftovers").json["leftovers"]
    assert (blocker["number"], blocker["resources"]) == (1, [{"id": left["id"], "name": left["name"]}])
    assert (blocker["blocked_by"], blocker["commands"]) == ([], left["commands"])
