"""Force over the API: when it is refused, and that a refusal changes nothing."""

import concurrent.futures
import dataclasses

import pytest
import sqlalchemy as sa

from cleanup_orchestrator.core import force as decisions
from cleanup_orchestrator.core.deletion import Mode, Origin, RoundPurpose, Status
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Leftover, Outcome, Step, StepKind, StepResult, StepState
from cleanup_orchestrator.store import records, tables
from tests.functional.test_api.site import Site
from tests.support.stores import save

PATH = "/v1/projects/p1/force"
GOOD = {"reason": "burnt down"}


def begun(site, **values):
    """Return a cascade of p1 that is in its deletes."""
    made = site.ask("p1", mode="cascade")
    before = site.store.get(made["id"])
    fields = {"status": Status.DELETING, "purpose": RoundPurpose.DELETE, "round": 3, **values}
    return save(site.store, before, dataclasses.replace(before, **fields))


def force(site, body=GOOD, **kwargs):
    return site.call("DELETE", PATH, body=body, **kwargs)


def rows(site):
    """All that is on record."""
    with site.store.database.engine.connect() as connection:
        return {name: connection.execute(sa.select(table)).all() for name, table in tables.metadata.tables.items()}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "reason"),
        ({"reason": ""}, "reason"),
        ({"reason": "  "}, "reason"),
        ({"reason": "a\nb"}, "reason"),
        ({"reason": "x" * 1001}, "reason"),
        ({"reason": 1}, "reason"),
        ({**GOOD, "types": "block-storage.volume"}, "types"),
        ({**GOOD, "types": ["volume"]}, "types"),
        ({**GOOD, "types": [1]}, "types"),
        ({**GOOD, "types": ["block-storage.volume"] * 201}, "types"),
        ({**GOOD, "force": True}, "force"),
        ({**GOOD, "project_id": "p1"}, "project_id"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_bad_body_is_refused_and_changes_nothing(site, body, field):
    begun(site)
    before = rows(site)
    answer = force(site, body)
    assert (answer.status, answer.error["code"], answer.error["field"]) == (400, "invalid_body", field)
    assert rows(site) == before


def test_a_body_is_needed_and_a_query_is_not_taken(site):
    begun(site)
    assert force(site, None).error["code"] == "invalid_json"
    answer = site.call("DELETE", f"{PATH}?reason=x", body=GOOD)
    assert (answer.status, answer.error["code"]) == (400, "invalid_query")


@pytest.mark.parametrize("project_id", ["%00", "a b", "x" * 65, "%27", "nobody"])
def test_what_is_no_id_has_no_deletion(site, project_id):
    answer = site.call("DELETE", f"/v1/projects/{project_id}/force", body=GOOD)
    assert (answer.status, answer.error["code"]) == (409, "no_deletion_under_way")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"mode": Mode.REPORT}, "mode report deletes nothing"),
        ({"dry_run": True}, "a dry run deletes nothing"),
        ({"origin": Origin.ADOPTED}, "an adopted deletion cannot be forced"),
        ({"status": Status.ACCEPTED, "purpose": RoundPurpose.NONE}, "deletes nothing yet (accepted)"),
        ({"status": Status.DRAINING, "purpose": RoundPurpose.NONE}, "deletes nothing yet (draining)"),
        ({"status": Status.INVENTORY, "purpose": RoundPurpose.INVENTORY}, "deletes nothing yet (inventory)"),
        ({"status": Status.VERIFYING, "purpose": RoundPurpose.PROJECT_SETTINGS}, "the project is being removed"),
        ({"status": Status.CANCELLING, "purpose": RoundPurpose.NONE}, "the deletion is being cancelled"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_one_that_cannot_be_forced_says_what_to_do(site, values, words):
    d = begun(site, **values)
    before = rows(site)
    answer = force(site)
    assert (answer.status, answer.error["code"]) == (409, "not_forcible")
    assert (answer.error["deletion_id"], answer.error["status_now"]) == (d.id, str(d.status))
    assert words in answer.error["detail"]
    assert rows(site) == before
    assert site.bus.asked == []


@pytest.mark.parametrize("status", [Status.DELETED, Status.FAILED, Status.LEFTOVERS, Status.CANCELLED])
def test_one_that_has_ended_is_not_under_way(site, status):
    begun(site, status=status)
    assert force(site).error["code"] == "no_deletion_under_way"


@pytest.mark.parametrize("token", ["manager-token", "member-token", "other-manager-token"])
def test_a_user_who_may_delete_may_not_force(site, token):
    begun(site)
    before = rows(site)
    assert force(site, token=token).status == 403
    assert rows(site) == before


def test_the_policy_can_let_managers_force_in_their_domain(tmp_path, keystone):
    (tmp_path / "policy.yaml").write_text(
        '"cleanup:projects:force": "role:manager and domain_id:%(target.project.domain_id)s"'
    )
    extra = f"[oslo_policy]\npolicy_file = {tmp_path}/policy.yaml\n"
    made = Site(tmp_path, keystone=keystone, extra=extra)
    begun(made)
    assert force(made, token="other-manager-token").status == 409, "there is none that they see"
    assert force(made, token="manager-token").status == 202
    made.close()


# ------------------------------------------------------------------------------------------ what the services say of it
def test_with_heats_abandon_off_it_is_refused_on_purpose_and_nothing_changes(site):
    begun(site)
    why = "orchestration.stack in R1: Heat abandons no stacks: set enable_stack_abandon = true"
    site.bus.forcible = {"block-storage.volume": "", "orchestration.stack": why}
    before = rows(site)
    answer = force(site)
    assert (answer.status, answer.error["code"]) == (503, "force_unavailable")
    assert why in answer.error["detail"] and "Nothing was changed" in answer.error["detail"]
    assert rows(site) == before
    assert len(site.bus.casts) == 1, "the request for the deletion itself"
    # The admin chose to continue without them: stacks stay as they are.
    assert force(site, {**GOOD, "types": ["block-storage.volume"]}).status == 202


def test_without_a_worker_that_answers_it_is_refused_and_nothing_changes(site):
    begun(site)
    site.bus.forcible = None
    before = rows(site)
    answer = force(site)
    assert (answer.status, answer.error["code"]) == (503, "force_unavailable")
    assert rows(site) == before


def test_types_may_be_none_at_all(site):
    begun(site)
    assert force(site, {**GOOD, "types": []}).json["deletion"]["forced"]["types"] == []


@pytest.mark.parametrize("body", [GOOD, {**GOOD, "types": None}], ids=str)
def test_without_types_it_is_all_that_have_a_force(site, body):
    begun(site)
    types = force(site, body).json["deletion"]["forced"]["types"]
    assert types == ["block-storage.volume", "orchestration.stack"]


def test_force_for_all_types_after_force_for_one_is_another_request(site):
    d = begun(site)
    one = force(site, {**GOOD, "types": ["block-storage.volume"]}).json["deletion"]["forced"]
    assert one["types"] == ["block-storage.volume"]
    both = ["block-storage.volume", "orchestration.stack"]
    assert force(site).json["deletion"]["forced"]["types"] == both
    # A repeated request has the same result, also if fewer types may be forced by now.
    forced = site.store.get(d.id).forced
    site.bus.forcible = {"block-storage.volume": ""}
    for body in (GOOD, {**GOOD, "types": None}, {**GOOD, "types": both[::-1]}):
        assert force(site, body).status == 202
        assert site.store.get(d.id).forced == forced
    assert len(site.get(f"/v1/deletions/{d.id}/events?type=deletion.forced").json["events"]) == 2
    # Force for one of them again is another request as well.
    assert force(site, {**GOOD, "types": both[:1]}).json["deletion"]["forced"]["types"] == both[:1]


def test_all_types_after_one_of_them_are_refused_where_one_cannot_be_forced(site):
    begun(site)
    assert force(site, {**GOOD, "types": ["block-storage.volume"]}).status == 202
    site.bus.forcible = {"block-storage.volume": "", "orchestration.stack": "Heat abandons no stacks"}
    before = rows(site)
    assert force(site).error["code"] == "force_unavailable"
    assert rows(site) == before


# ---------------------------------------------------------------------------------------------------------- the record
def test_force_is_recorded_with_user_reason_and_time(any_site):
    d = begun(any_site)
    shown = force(any_site, {"reason": " ünïcødé 🗑 ", "types": ["block-storage.volume"]}).json["deletion"]["forced"]
    forced = any_site.store.get(d.id).forced
    assert (forced.reason, forced.types, forced.round, forced.attempt) == ("ünïcødé 🗑", ("block-storage.volume",), 3, 1)
    assert (forced.user_id, forced.user_name, forced.request_id) == ("admin-id", "admin", shown["request_id"])
    assert any_site.bus.casts[-1] == d.id


def test_another_reason_starts_force_again_and_abandoned_resources_are_tried_again(site):
    d = begun(site)
    assert force(site).status == 202
    step = Step("volume", d.id, StepKind.SWEEP, "R1", "block-storage", "volume", state=StepState.DONE, round=4)
    step = dataclasses.replace(step, outcome=Outcome.LEFTOVERS, remaining=1, abandoned=1, unseen=True, forcing=True)
    with site.store.database.engine.begin() as connection:
        connection.execute(tables.steps.insert(), [records.step_values(step)])
    again = force(site, {**GOOD, "types": ["orchestration.stack"]}).json["deletion"]["forced"]
    assert (again["types"], again["abandoned"]) == (["orchestration.stack"], 0)
    [stored] = [s for s in site.store.steps(d.id) if s.id == "volume"]
    assert (stored.abandoned, stored.unseen, stored.forcing) == (0, False, False)
    assert len(site.get(f"/v1/deletions/{d.id}/events?type=deletion.forced").json["events"]) == 2


def test_a_project_on_the_never_delete_list_is_not_forced(tmp_path, keystone):
    made = Site(tmp_path, keystone=keystone)
    begun(made)
    made.conf.set_override("never_delete_projects", ["p1"], group="deletion")
    assert force(made).error["code"] == "project_protected"
    made.close()


def test_force_is_recorded_despite_a_simultaneous_write(site, monkeypatch):
    d = begun(site)
    propose = site.store.propose

    def racing(proposal):
        save(site.store, d, dataclasses.replace(d, message="an engine was quicker"))
        return propose(proposal)

    monkeypatch.setattr(site.store, "propose", racing)
    assert force(site).status == 202
    stored = site.store.get(d.id)
    assert stored.forced is not None and stored.message == "an engine was quicker"


def test_a_deletion_that_is_cancelled_meanwhile_is_not_forced(site, monkeypatch):
    d = begun(site)

    def cancelling(_deletion_id):
        assert site.post(f"/v1/deletions/{d.id}/cancel").status == 202
        return {"block-storage.volume": ""}

    monkeypatch.setattr(site.bus, "force", cancelling)
    assert force(site).error["code"] == "not_forcible"
    assert site.store.get(d.id).forced is None


def test_many_at_once_make_one_record(any_site):
    d = begun(any_site)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: force(any_site).status, range(4)))
    assert set(answers) == {202}
    assert any_site.store.get(d.id).forced is not None


def test_what_is_abandoned_is_shown_with_owner_and_remedy(site):
    d = begun(site)
    survey = next(s for s in site.store.steps(d.id) if s.kind is StepKind.SURVEY)
    now = site.store.now()
    with site.store.database.engine.begin() as connection:
        values = {"state": "running", "fencing_token": 1, "round": 3, "lease_until": now}
        connection.execute(tables.steps.update().where(tables.steps.c.id == survey.id).values(**values))
    held = dataclasses.replace(survey, fencing_token=1)
    left = (
        Leftover("v1", "data", Reason.ERROR, "stuck", abandoned=True, owner="p1", remedy="openstack volume delete v1"),
        Leftover("v2", "new", Reason.IN_USE, "busy"),
    )
    assert site.store.finish(held, StepResult(Outcome.LEFTOVERS, leftovers=left), [Event("x", "y")])
    [shown] = site.get(f"/v1/deletions/{d.id}/leftovers?abandoned=true").json["leftovers"]
    assert (shown["id"], shown["abandoned"], shown["owner"]) == ("v1", True, "p1")
    assert (shown["reason"], shown["remedy"]) == ("error", "openstack volume delete v1")
    [other] = site.get(f"/v1/deletions/{d.id}/leftovers?abandoned=False").json["leftovers"]
    assert (other["id"], other["abandoned"], other["owner"]) == ("v2", False, None)
    answer = site.get(f"/v1/deletions/{d.id}/leftovers?abandoned=maybe")
    assert (answer.status, answer.error["field"]) == (400, "abandoned")


def test_the_services_say_which_types_have_a_forced_delete(site):
    services = {each["service_type"]: each["type_facts"] for each in site.get("/v1/services").json["services"]}
    facts = {"type": "port", "forcible": True, "if_abandoned": "Its addresses stay in use."}
    assert (services["network"], services["identity"]) == ([facts], [])


def test_no_other_request_forces(site):
    """Force is a separate request, and no option of an ordinary deletion."""
    for path, body in (
        ("/v1/deletions", {"project_id": "p1", "mode": "cascade", "force": True}),
        ("/v1/deletions", {"project_id": "p1", "mode": "force"}),
        ("/v1/deletions", {"project_id": "p1", "forced": {"reason": "x"}}),
    ):
        assert site.post(path, body).error["code"] == "invalid_body"
    d = begun(site)
    assert site.post(f"/v1/deletions/{d.id}/retry", {"force": True}).status == 400
    for method in ("GET", "POST", "PUT", "PATCH"):
        assert site.call(method, PATH, body=GOOD).status == 405
    assert site.store.get(d.id).forced is None


def test_another_deletion_than_the_checked_one_is_not_forced(site, monkeypatch):
    checked, later, ask = begun(site), [], site.bus.force

    def slow(id_):
        """Answer only after the deletion has ended, and another one of the project is in its deletes."""
        before = site.store.get(checked.id)
        ended = {"status": Status.CANCELLED, "purpose": RoundPurpose.NONE, "finished_at": site.store.now()}
        save(site.store, before, dataclasses.replace(before, **ended))
        later.append(begun(site))
        return ask(id_)

    monkeypatch.setattr(site.bus, "force", slow)
    answer = force(site)
    assert (answer.status, answer.error["code"]) == (409, "conflict")
    assert site.store.get(later[0].id).forced is None


def test_a_repetition_while_the_first_request_waits_for_a_worker_changes_nothing(site, monkeypatch):
    d, nested, ask = begun(site), [], site.bus.force

    def slow(id_):
        if not nested:
            nested.append(id_)
            assert force(site).status == 202
        return ask(id_)

    monkeypatch.setattr(site.bus, "force", slow)
    assert force(site).status == 202
    assert len(site.get(f"/v1/deletions/{d.id}/events?type=deletion.forced").json["events"]) == 1


# ----------------------------------------------------------------------------------- uses by others that are overruled
PORT = "network.port:po1"
ALTHOUGH = {"reason": "ticket 4711", "although_used": [PORT]}
F1, F2 = ("network.floating_ip", "f1"), ("network.floating_ip", "f2")


def with_used_port(site, *users, reason=Reason.FOREIGN, **values):
    """Return a cascade of p1 that has left a port which resources of others use."""
    d = begun(site, **values)
    step = Step("port", d.id, StepKind.SWEEP, "R1", "network", "port", round=3, attempt=1)
    step = dataclasses.replace(step, state=StepState.RUNNING, fencing_token=1, lease_until=site.store.now())
    with site.store.database.engine.begin() as connection:
        connection.execute(tables.steps.insert(), [records.step_values(step)])
    by = tuple({"type": type_, "id": id_, "owner": "them", "name": "192.0.2.1"} for type_, id_ in users)
    remedy = "{owner} uses it: 'openstack floating ip unset --port f1'"
    left = (
        Leftover("po1", "web", reason, "it is used by another project's floating ip", by, remedy=remedy),
        Leftover("po2", "", Reason.ERROR, "broken"),
    )
    assert site.store.finish(step, StepResult(Outcome.LEFTOVERS, leftovers=left, reason="foreign"), [])
    return site.store.get(d.id)


def test_an_admin_has_a_resource_deleted_although_others_use_it(site):
    d = with_used_port(site, F1)
    answer = force(site, ALTHOUGH)
    assert (answer.status, answer.json["deletion"]["forced"]) == (202, None), "nothing is abandoned"
    stored = site.store.get(d.id)
    assert decisions.decided_uses(stored) == {PORT: {F1}}
    assert (stored.progress_at, stored.round) == (d.progress_at, d.round)
    assert stored.retry_now_at is not None and site.bus.casts[-1] == d.id
    assert site.bus.asked == [], "no worker is asked for types that can be forced"
    [event] = site.get(f"/v1/deletions/{d.id}/events?type=deletion.forced").json["events"]
    assert "admin (ticket 4711)" in event["message"] and "network.floating_ip f1" in event["message"]
    used = {"of": PORT, "by": [list(F1)], "who": "admin (ticket 4711)"}
    assert (event["actor"], event["data"]["although_used"]) == ("admin-id", [used])


def test_a_decision_is_about_the_uses_on_record_and_a_repetition_changes_nothing(site):
    d = with_used_port(site, F1)
    for _ in range(2):
        assert force(site, ALTHOUGH).status == 202
    assert len(site.get(f"/v1/deletions/{d.id}/events?type=deletion.forced").json["events"]) == 1
    assert decisions.decided_uses(site.store.get(d.id)) == {PORT: {F1}}
    # Force keeps the decision.
    assert force(site).json["deletion"]["forced"]["reason"] == GOOD["reason"]
    assert decisions.decided_uses(site.store.get(d.id)) == {PORT: {F1}}


@pytest.mark.parametrize(
    ("reason", "users", "body", "field"),
    [
        (Reason.PROTECTED, [F1], ALTHOUGH, "although_used"),
        (Reason.IN_USE, [F1], ALTHOUGH, "although_used"),
        (Reason.OWNER_UNKNOWN, [F1], ALTHOUGH, "although_used"),
        (Reason.FOREIGN, [], ALTHOUGH, "although_used"),
        (Reason.FOREIGN, [("x.y", str(n)) for n in range(50)], ALTHOUGH, "although_used"),
        (Reason.FOREIGN, [F1], {**ALTHOUGH, "although_used": ["network.floating_ip:f1"]}, "although_used"),
        (Reason.FOREIGN, [F1], {**ALTHOUGH, "although_used": ["network.port:po2"]}, "although_used"),
        (Reason.FOREIGN, [F1], {**ALTHOUGH, "although_used": [PORT, "network.port:other"]}, "although_used"),
        (Reason.FOREIGN, [F1], {**ALTHOUGH, "although_used": ["network.port"]}, "although_used"),
        (Reason.FOREIGN, [F1], {**ALTHOUGH, "although_used": []}, "although_used"),
        (Reason.FOREIGN, [F1], {**ALTHOUGH, "types": []}, "types"),
        (Reason.FOREIGN, [F1], {"although_used": [PORT]}, "reason"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_only_named_uses_of_a_leftover_of_the_project_are_overruled(site, reason, users, body, field):
    with_used_port(site, *users, reason=reason)
    before = rows(site)
    answer = force(site, body)
    assert (answer.status, answer.error["field"]) == (400, field)
    assert rows(site) == before


@pytest.mark.parametrize("token", ["manager-token", "member-token", "other-manager-token"])
def test_no_manager_overrules_a_use_also_where_managers_may_force(tmp_path, keystone, token):
    """The delete may harm projects of other domains."""
    (tmp_path / "policy.yaml").write_text(
        '"cleanup:projects:force": "role:admin or role:manager and domain_id:%(target.project.domain_id)s"'
    )
    made = Site(tmp_path, keystone=keystone, extra=f"[oslo_policy]\npolicy_file = {tmp_path}/policy.yaml\n")
    with_used_port(made, F1)
    before = rows(made)
    answer = force(made, ALTHOUGH, token=token)
    assert answer.status in (403, 409) and rows(made) == before
    assert force(made, ALTHOUGH).status == 202
    made.close()


def test_a_dry_run_overrules_nothing(site):
    with_used_port(site, F1, dry_run=True)
    assert force(site, ALTHOUGH).error["code"] == "not_forcible"


def test_the_remedy_names_the_project_to_those_who_may_see_it(site):
    d = with_used_port(site, F1)
    shown = {
        token: site.get(f"/v1/deletions/{d.id}/leftovers?reason=foreign", token=token).json["leftovers"][0]["remedy"]
        for token in ("admin-token", "manager-token")
    }
    assert shown["admin-token"].startswith("project of an unknown name (them) uses it: 'openstack floating")
    assert shown["manager-token"].startswith("another project uses it: 'openstack floating")
