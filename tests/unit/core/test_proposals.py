"""What users ask of a deletion: what is accepted, and with which code it is refused."""

import dataclasses
import datetime

import pytest

from cleanup_orchestrator.api.errors import CODES
from cleanup_orchestrator.core import approvals, force, plans, proposals, transitions
from cleanup_orchestrator.core.approvals import Requests
from cleanup_orchestrator.core.deletion import Approval, Condition, Force, Mode, Origin, Status
from cleanup_orchestrator.core.deletion import RoundPurpose as Purpose
from cleanup_orchestrator.core.holds import Lien
from cleanup_orchestrator.core.proposals import (
    AbandonLeftovers,
    Approve,
    Change,
    OverruleUses,
    Refused,
    Requester,
    Retry,
    Stop,
)
from cleanup_orchestrator.core.step import Step, StepKind, StepState
from cleanup_orchestrator.core.transitions import RETRY_NOW_INTERVAL
from tests.support.cases import each_case
from tests.unit.world import T0, deletion, sweep_step

S = Status
NONE = Requests()
NOW = T0 + datetime.timedelta(hours=1)
USER = Requester("u", "Ursula", "req-1")
ADMIN = dataclasses.replace(USER, is_admin=True)
PORTS = sweep_step("network.port", state=StepState.DONE, round=1, remaining=3, deleted=2, digest="x")
REMOVE = Step("r", "d", StepKind.REMOVE, round=3)
ABANDONED = dataclasses.replace(PORTS, id="old", abandoned=1, unseen=True, forcing=True)
MANY, OFTEN = (
    {"conditions": (Condition("approval", True, reason, "", T0),)}
    for reason in (approvals.TOO_MANY_RESOURCES, approvals.TOO_MANY_DELETIONS)
)
DELETES = {"status": S.DELETING, "purpose": Purpose.DELETE, "round": 3}
REMOVES = {"status": S.VERIFYING, "purpose": Purpose.PROJECT_SETTINGS}
LIEN = Lien("l", "p", "billing", "an open invoice", T0)
F1, F2 = ("network.floating_ip", "f1"), ("network.floating_ip", "f2")
PORT = "network.port:p1"


def answered(proposal, requests=NONE, steps=(PORTS,), **values):
    """Return what a proposal makes of a deletion with these values."""
    record = deletion(**values)
    made = proposal(seen=record) if callable(proposal) else proposal
    return proposals.apply(made, record, steps, NOW, requests)


def refused(proposal, requests=NONE, steps=(PORTS,), **values):
    with pytest.raises(Refused) as caught:
        answered(proposal, requests, steps, **values)
    return caught.value


def change(by=USER, may_change=True, may_postpone=False, **fields):
    return lambda seen: Change(by=by, seen=seen, fields=fields, may_change=may_change, may_postpone=may_postpone)


def approve(by=USER):
    return lambda seen: Approve(by=by, seen=seen, reason="ticket")


def retry(**values):
    return lambda seen: Retry(by=USER, seen=seen, **values)


def stop(by=USER, restore=False):
    return lambda seen: Stop(by=by, seen=seen, restore=restore)


def abandon(*types, wanted="as types", by=USER, reason="burnt", attempt=1):
    wanted = types if wanted == "as types" else wanted
    return lambda seen: AbandonLeftovers(
        by=by, seen=dataclasses.replace(seen, attempt=attempt), reason=reason, wanted=wanted, types=types
    )


def overrule(*users, attempt=1):
    return lambda seen: OverruleUses(
        by=USER, seen=dataclasses.replace(seen, attempt=attempt), reason="ticket", uses={PORT: users}
    )


# -------------------------------------------------------------------------------------------------------------- changes
DATE, LATER = NOW + datetime.timedelta(days=30), NOW + datetime.timedelta(days=60)
SURVEY = Step("v", "d", StepKind.SURVEY)
OF_ADMIN = Requests(of_admin=True)
ALONE = {"may_change": False, "may_postpone": True}


@each_case(
    "fields,was,text",
    [
        ({"ticket": "B"}, {"ticket": "A"}, "its ticket is 'B' instead of 'A'"),
        ({"request_reason": "why"}, {}, "its reason is 'why' instead of none"),
        ({"not_before": NOW + datetime.timedelta(1)}, {}, "it begins at '2026-01-02T01:00:00Z' instead of none"),
    ],
)
def test_a_change_says_what_it_was(fields, was, text):
    applied = answered(change(**fields), steps=(SURVEY,), **was)
    [event] = applied.events
    assert event.message == f"changed by Ursula: {text}" and event.type == "deletion.changed"
    [name] = fields
    assert getattr(applied.deletion, name) == fields[name]
    assert applied.deletion.wake_at == NOW
    assert event.data[name]["from"] == was.get(name, "" if name != "not_before" else None)
    assert answered(change(**was | fields), steps=(SURVEY,), **was | fields) is None


@each_case("status,round_", [(S.ACCEPTED, 1), (S.DRAINING, 0), (S.DELETING, 0), (S.VERIFYING, 0)])
def test_the_date_of_a_deletion_that_has_begun_stays(status, round_):
    survey = Step("v", "d", StepKind.SURVEY, round=round_)
    found = refused(change(not_before=NOW), steps=(survey,), status=status)
    assert found.code == "not_changeable" and "has begun" in found.text
    assert answered(change(ticket="T"), steps=(survey,), status=status).deletion.ticket == "T"


def test_the_date_of_a_retry_stays():
    """A cascade that began today, failed, and is retried would no longer count today with a later date."""
    assert refused(change(not_before=LATER), steps=(SURVEY,), attempt=2, since_round=3).code == "not_changeable"


def test_another_date_needs_another_approval():
    """An approval to exceed the limit of a day is none for another day."""
    approval = Approval(approvals.TOO_MANY_DELETIONS, "fine today", T0, user_id="u1")
    given = {"approvals": (approval,), "not_before": DATE}
    assert answered(change(not_before=LATER), steps=(SURVEY,), **given).deletion.approvals == ()
    assert answered(change(ticket="T"), steps=(SURVEY,), **given).deletion.approvals == (approval,)


@each_case(
    "asked,requests,allowed",
    [
        (change(not_before=LATER), NONE, True),
        (change(not_before=NOW), NONE, True),
        (change(not_before=LATER), OF_ADMIN, False),
        (change(ADMIN, not_before=NOW), OF_ADMIN, True),
        (change(not_before=LATER, may_postpone=True), OF_ADMIN, True),
        (change(not_before=NOW, may_postpone=True), OF_ADMIN, False),
        (change(not_before=LATER, **ALONE), NONE, True),
        (change(not_before=LATER, **ALONE), OF_ADMIN, True),
        (change(not_before=NOW, **ALONE), NONE, False),
        (change(not_before=LATER, ticket="T", **ALONE), NONE, False),
        (change(not_before=LATER, ticket="T", may_postpone=True), OF_ADMIN, False),
    ],
)
def test_an_earlier_date_needs_more_than_a_later_one(asked, requests, allowed):
    """A user who may postpone may do nothing else, and no one but an admin hastens an admin's deletion."""
    values = {"not_before": DATE, "ticket": "", "created_at": T0}
    if allowed:
        assert answered(asked, requests, (SURVEY,), **values) is not None
    else:
        assert refused(asked, requests, (SURVEY,), **values).code == "forbidden"


def test_a_deletion_without_a_date_is_postponed_until_it_begins():
    assert answered(change(not_before=LATER, **ALONE), OF_ADMIN, (SURVEY,)).deletion.not_before == LATER


# ----------------------------------------------------------------------------------------------------------- refusals
NOT_AWAITING = "does not wait for an approval"
NOT_FORCED = "deletes nothing"
REFUSALS = [
    *((change(ticket="T"), {"status": each}, "not_changeable", f"is {each}") for each in transitions.FINAL),
    (change(ticket="T"), {"status": S.CANCELLING}, "not_changeable", "is cancelling"),
    (change(ticket="T"), {"status": S.LEFTOVERS}, "not_changeable", "is leftovers"),
    (change(not_before=DATE), {"dry_run": True}, "not_changeable", "a dry run"),
    (change(may_change=False, ticket="T"), {}, "forbidden", "only move the date"),
    (retry(), {"not_before": DATE}, "not_retryable", "begins at 2026-01-31T01:00:00Z"),
    (approve(), {}, "not_awaiting_approval", NOT_AWAITING),
    (approve(), {**MANY, "status": S.CANCELLING}, "not_awaiting_approval", "it is cancelling"),
    (approve(), {**MANY, "status": S.FAILED}, "not_awaiting_approval", "it is failed"),
    (approve(dataclasses.replace(USER, delegated=True)), MANY, "delegated_approval", "log in as the approving user"),
    (approve(Requester()), MANY, "self_approval", "ask another user"),
    (retry(), {"status": S.CANCELLING}, "not_retryable", "wait for its end"),
    *((retry(), {"status": each}, "not_retryable", f"ended for good ({each})") for each in transitions.FINAL),
    (retry(protected="P (p): it is ours"), {"status": S.FAILED}, "project_protected", "it is ours"),
    (retry(), {"status": S.FAILED, "liens": (LIEN,)}, "project_has_liens", ""),
    (stop(), {"status": S.CANCELLING}, "not_cancellable", "being cancelled already"),
    (stop(), REMOVES, "not_cancellable", "the project is being removed"),
    (stop(), {"status": S.FAILED}, "not_cancellable", "has ended (failed)"),
    (stop(restore=True), {"status": S.CANCELLING}, "not_restorable", "being cancelled already"),
    (stop(restore=True), {**DELETES, "point_of_no_return_at": T0}, "not_restorable", "at 2026-01-01T00:00:00Z"),
    (stop(restore=True), {**DELETES, "status_at": T0}, "not_restorable", "at 2026-01-01T00:00:00Z"),
    (stop(restore=True), REMOVES, "not_restorable", "the project is being removed"),
    *(
        case
        for force_ in (abandon("a.b"), overrule(F1))
        for case in (
            (force_, {"status": S.FAILED}, "no_deletion_under_way", "request one first"),
            (force_, {**DELETES, "attempt": 2}, "conflict", "changed during the request"),
            (force_, {**DELETES, "mode": Mode.REPORT}, "not_forcible", "mode report deletes nothing"),
            (force_, {**DELETES, "mode": Mode.PURGE}, "not_forcible", "mode purge keeps the project"),
            (force_, {**DELETES, "mode": Mode.PURGE, "dry_run": True}, "not_forcible", "a dry run deletes nothing"),
            (force_, {**DELETES, "origin": Origin.ADOPTED}, "not_forcible", "adopted"),
            (force_, {"status": S.CANCELLING}, "not_forcible", "being cancelled"),
            (force_, REMOVES, "not_forcible", "being removed"),
            (force_, {"status": S.INVENTORY}, "not_forcible", "deletes nothing yet (inventory)"),
        )
    ),
]


@each_case("proposal,values,code,words", REFUSALS)
def test_a_refusal_has_a_code_and_a_reason(proposal, values, code, words):
    found = refused(proposal, **values)
    assert found.code == code and words in found.text
    if code.startswith("not_"):
        assert found.facts["status_now"] == str(deletion(**values).status)


@each_case("restore,code", [(False, "not_cancellable"), (True, "not_restorable")])
def test_no_stop_while_the_delete_of_the_project_may_be_sent(restore, code):
    """What voids the lock makes the round another one, and does not wait for the worker that removes the project."""
    record = {"status": S.VERIFYING, "purpose": Purpose.NONE, "round": 4}
    lease = NOW + datetime.timedelta(seconds=30)
    removing = dataclasses.replace(REMOVE, state=StepState.RUNNING, lease_until=lease)
    found = refused(stop(ADMIN, restore), steps=(PORTS, removing), **record)
    assert (found.code, found.facts) == (code, {"status_now": "verifying"})
    assert "the project is being removed" in found.text
    for other in (
        {"lease_until": NOW},  # its worker is gone
        {"state": StepState.DISPATCHED},  # a claim is refused once the deletion is stopped
        {"state": StepState.DONE},
        {"kind": StepKind.CLOSE},
    ):
        steps = (dataclasses.replace(removing, **other),)
        assert answered(stop(ADMIN), steps=steps, **record).deletion.status is S.CANCELLING


def test_each_code_is_one_of_the_api():
    codes = {code for _proposal, _values, code, _words in REFUSALS} | {"forbidden"}
    assert codes <= CODES.keys()


def test_a_refused_restore_says_since_when():
    assert refused(stop(restore=True), **DELETES, point_of_no_return_at=T0).facts == {
        "point_of_no_return_at": "2026-01-01T00:00:00Z",
        "status_now": "deleting",
    }
    assert refused(stop(restore=True), **REMOVES).facts["point_of_no_return_at"] is None


@each_case("changed", [{"domain_id": "another"}, {"project_name": "another"}])
def test_what_the_policy_was_checked_for_is_what_is_changed(changed):
    for proposal in (approve(), retry(), stop(ADMIN), abandon(), overrule(F1)):
        record = deletion(**DELETES)
        made = proposal(dataclasses.replace(record, **changed))
        assert refused(made, **DELETES).code == "conflict"


# ------------------------------------------------------------------------------------------------------------- rights
@each_case(
    "proposal,by,of_admin,may",
    [
        (stop, USER, False, True),
        (stop, USER, True, False),
        (stop, ADMIN, True, True),
        (approve, USER, True, True),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_only_an_admin_stops_what_an_admin_asked_for(proposal, by, of_admin, may):
    requests = Requests(frozenset({"another"}), of_admin)
    if may:
        assert answered(proposal(by), requests, **MANY)
    else:
        assert refused(proposal(by), requests, **MANY).code == "forbidden"


@each_case("status", sorted(set(S) - transitions.LIVE))
def test_an_admins_deletion_that_has_ended_is_not_said_to_be_an_admins_to_stop(status):
    assert refused(stop(USER), Requests(frozenset({"another"}), of_admin=True), status=status).code == "not_cancellable"


def test_a_user_who_asked_for_a_deletion_does_not_approve_it():
    assert refused(approve(ADMIN), Requests(frozenset({"u"})), **MANY).code == "self_approval"


# ---------------------------------------------------------------------------------------------------------- accepted
def after(applied):
    """Return the deletion and the one journal line."""
    [event] = applied.events
    assert (event.actor, event.request_id, applied.casts, applied.decide_again) == ("u", "req-1", (), False)
    return applied.deletion, event


@each_case("values,covered", [(MANY, 5), (OFTEN, 0)])
def test_an_approval_covers_what_was_found(values, covered):
    d, event = after(answered(approve(), **values))
    [given] = d.approvals
    assert (given.needed, given.resources, given.reason) == (values["conditions"][0].reason, covered, "ticket")
    assert given.hash == (plans.hash_of([PORTS]) if covered else "")
    assert (given.user_id, given.user_name, given.request_id, given.at) == ("u", "Ursula", "req-1", NOW)
    assert d.updated_at == d.progress_at == d.wake_at == NOW
    assert (event.type, event.data) == ("deletion.approved", given.to_dict())
    assert event.message == f"approved by Ursula ({given.needed}, {covered} resources): ticket"


@each_case("values", [MANY, OFTEN])
def test_an_approval_is_repeated_only_if_there_is_more_to_approve(values):
    d, _event = after(answered(approve(), **values))
    fields = {"conditions": d.conditions, "approvals": d.approvals, "status": d.status}
    assert answered(approve(), **fields) is None
    less = (dataclasses.replace(d.approvals[0], hash="another"),)
    assert len(after(answered(approve(), **fields | {"approvals": less}))[0].approvals) == 2


def test_a_retry_of_a_live_deletion_is_no_progress():
    d, event = after(answered(retry(protected="never", limits=None), status=S.DRAINING, liens=(LIEN,)))
    times = {"retry_now_at": NOW, "updated_at": NOW, "wake_at": NOW}
    assert d == deletion(status=S.DRAINING, liens=(LIEN,), **times)
    assert (event.type, event.data) == ("deletion.retried_now", {})


@each_case("ago,changes", [(RETRY_NOW_INTERVAL / 2, False), (RETRY_NOW_INTERVAL, True), (-RETRY_NOW_INTERVAL, True)])
def test_many_retries_have_the_effect_of_one(ago, changes):
    assert bool(answered(retry(), retry_now_at=NOW - ago)) is changes


@each_case("status", sorted(transitions.RESTING), "dry_run", [True, False])
def test_a_retry_begins_a_new_attempt(status, dry_run):
    liens = (LIEN,) if dry_run else ()
    d, event = after(answered(retry(), status=status, dry_run=dry_run, liens=liens))
    assert (d.status, d.attempt, d.reason, d.message) == (S.ACCEPTED, 2, "retried", "retried by Ursula")
    assert (event.type, event.message) == ("deletion.retried", "retried by Ursula")
    assert event.data == {"from": str(status), "to": "accepted", "attempt": 2, "backwards": True}


@each_case(
    "restore,type_,values",
    [(False, "deletion.cancelling", DELETES), (True, "deletion.restoring", {"status": S.RECOVERABLE})],
)
def test_a_stop_withdraws_force(restore, type_, values):
    asked = Force("x", (), T0, 1, 1)
    d, event = after(answered(stop(restore=restore), forced=asked, **values))
    assert (d.status, d.forced, event.type) == (S.CANCELLING, None, type_)
    verb = type_.partition(".")[2]
    assert event.message == d.message == f"{verb} by Ursula; force is withdrawn"
    assert event.data == {"from": str(values["status"]), "to": "cancelling", "attempt": 1, "backwards": False}


@each_case(
    "values,restored,cancelled",
    [
        ({"status": S.DELETED}, False, False),
        ({"status": S.DELETING}, False, False),
        ({"status": S.CANCELLING}, True, True),
        ({"status": S.CANCELLED, "point_of_no_return_at": T0}, False, True),
        ({"status": S.LEFTOVERS}, True, True),
    ],
)
def test_what_is_stopped_already(values, restored, cancelled):
    d = deletion(**values)
    assert [proposals.is_stopped(d, restore) for restore in (True, False)] == [restored, cancelled]


def test_force_is_recorded_and_tries_again_what_was_abandoned():
    applied = answered(abandon("a.b"), steps=(PORTS, ABANDONED), **DELETES)
    d, event = after(applied)
    assert d.forced == Force("burnt", ("a.b",), NOW, 1, 3, "u", "Ursula", "req-1")
    assert d.updated_at == d.progress_at == d.wake_at == NOW
    assert applied.steps == (dataclasses.replace(ABANDONED, abandoned=0, unseen=False, forcing=False),)
    assert (event.type, event.data) == ("deletion.forced", {"reason": "burnt", "types": ["a.b"]})
    assert event.message == "by force of Ursula (burnt): what cannot be deleted is abandoned from now on"


@each_case(
    "proposal,changes",
    [
        (abandon("a.b", "a.c"), False),
        (abandon("a.c", "a.b"), False),
        (abandon("a.b"), True),
        (abandon("a.b", wanted=None), False),
        (abandon("a.d", wanted=None), True),
        (abandon("a.b", "a.c", reason="another"), True),
        (abandon("a.b", "a.c", by=Requester("another")), True),
    ],
)
def test_a_repetition_does_not_begin_the_force_again(proposal, changes):
    before = Force("burnt", ("a.b", "a.c"), T0, 1, 2, "u")
    assert bool(answered(proposal, forced=before, **DELETES)) is changes


def test_uses_are_overruled_as_they_were_shown_and_force_stays():
    before = Force("burnt", ("a.b",), T0, 1, 2, "admin")
    d, event = after(answered(overrule(F1), forced=before, **DELETES))
    assert force.decided_uses(d) == {PORT: {F1}}
    assert dataclasses.replace(d.forced, uses=()) == before
    assert (d.retry_now_at, d.wake_at, d.updated_at, d.progress_at) == (NOW, NOW, NOW, T0)
    assert event.data["although_used"] == [{"of": PORT, "by": [list(F1)], "who": "Ursula (ticket)"}]
    assert event.message.endswith(f"deleted although other projects use it: {PORT}: network.floating_ip f1")
    values = {name: getattr(d, name) for name in ("status", "purpose", "round", "forced")}
    assert answered(overrule(F1), **values) is None, "a repetition changes nothing"
    assert force.decided_uses(answered(overrule(F1, F2), **values).deletion) == {PORT: {F1, F2}}


def test_uses_alone_abandon_nothing():
    assert force.asked(answered(overrule(F1), **DELETES).deletion) is None


# ------------------------------------------------------------------------------------------------------------ journal
@each_case("type_,ranked", [*((type_, True) for type_ in approvals.REQUEST_EVENTS), ("deletion.cancelling", False)])
def test_a_request_for_a_deletion_has_the_rank_of_its_user(type_, ranked):
    lent = dataclasses.replace(ADMIN, trust_user_ids=("trustor", "u"))
    data = lent.event(type_, "x", {"a": 1}).data
    assert data == {"a": 1, "trust_user_ids": ["trustor", "u"], **({"by_admin": True} if ranked else {})}
    assert USER.event(type_, "x", {"a": 1}).data == {"a": 1}


def test_a_requester_without_a_name_is_named_all_the_same():
    assert [str(Requester(*each)) for each in (("u", "U"), ("u",), ())] == ["U", "u", "an unknown user"]


def test_the_core_knows_no_other_deletion():
    """``seen`` is only compared: what is changed is the deletion under the lock."""
    for proposal in (approve(), stop(), retry()):
        seen = dataclasses.replace(deletion(**MANY), status=S.DELETED, liens=(LIEN,), attempt=7)
        applied = answered(proposal(seen), **MANY)
        assert applied.deletion.attempt == 1 and applied.deletion.status is not S.DELETED
