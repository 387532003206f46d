"""Accepted deletes: how often they failed, how long one is under way, and what no call reaches though it is listed."""

import dataclasses
import datetime
import types

import pytest

from cleanup_orchestrator.core import storable
from cleanup_orchestrator.core.reasons import UNKNOWN_TO_SERVICE, Reason
from cleanup_orchestrator.core.step import DeleteRecord, Outcome
from cleanup_orchestrator.plugins.base import Refused, Resource, Verdict
from cleanup_orchestrator.worker.sweep import item
from cleanup_orchestrator.worker.sweep.item import History
from tests.unit.answers import project
from tests.unit.worker.test_deleting import HttpError, Shelf, row, run

NOW = datetime.datetime(2026, 11, 28, 12)
BEFORE = NOW - datetime.timedelta(seconds=5)
PATIENCE = 4 * 3600.0


def hours(number):
    return NOW - datetime.timedelta(hours=number)


def history(*records, deleting=(), patience=PATIENCE):
    return History({one.id: one for one in records}, dict(deleting), BEFORE, NOW, patience)


def fault(resource, _project):
    return resource.data.get("fault")


def going(resource, _project):
    return "it is being deleted" if resource.data.get("status") == "deleting" else None


class Failing(Shelf):
    """A service that accepts each delete, and says afterwards that it failed."""

    def __init__(self, *rows):
        super().__init__(*rows)
        self.slow = set(self.rows)

    def delete(self, connection, project, resource):
        super().delete(connection, project, resource)
        self.rows[resource.id]["fault"] = "the array is full"

    def type(self, **values):
        return super().type(**{"failed": fault, "deleting": going, **values})


def sweep(type_, last=None, **values):
    """Sweep a type with what the sweep before it left on record."""
    records = (last.deletes or ()) if last else ()
    deleting = {}
    if last:
        deleting = {one.id: one.announced for one in last.leftovers if one.reason in (Reason.DELETING, Reason.STUCK)}
    return run(
        type_, history=history(*records, deleting=deleting.items()), announced={one.id for one in last.leftovers}
        if last else (), **values,
    )  # fmt: skip


def test_a_delete_that_fails_twice_is_an_error_and_is_requested_again_each_time():
    shelf, results = Failing(row("1")), []
    for _ in range(4):
        results.append(sweep(shelf.type(), results[-1] if results else None))
    assert shelf.deletes == ["1"] * 4
    said = [(one.leftovers[0].reason, one.leftovers[0].message) for one in results]
    assert said == [
        (Reason.DELETING, "the delete was accepted"),
        (Reason.DELETING, "the delete was accepted; the one before failed: the array is full"),
        (Reason.ERROR, "its delete was accepted 2 times, and failed each time: the array is full"),
        (Reason.ERROR, "its delete was accepted 3 times, and failed each time: the array is full"),
    ]
    assert [one.reason for one in results] == [Reason.DELETING, Reason.DELETING, Reason.ERROR, Reason.ERROR]


def test_a_failure_that_was_there_before_the_first_delete_is_not_counted():
    shelf = Failing(row("1", fault="of yesterday"))
    assert sweep(shelf.type()).leftovers[0].reason is Reason.DELETING
    assert sweep(shelf.type(), None).deletes == ()


def test_the_delete_of_another_client_is_not_counted_as_ours():
    shelf = Failing(row("1", fault="of yesterday"))
    found = run(shelf.type(), history=history(deleting=[("1", False)]))
    assert (found.leftovers[0].reason, found.deletes[0].failed) == (Reason.DELETING, 0)


def test_a_first_delete_of_many_is_not_on_record():
    shelf = Failing(*(row(str(n)) for n in range(50)))
    first = sweep(shelf.type())
    assert first.deletes == ()
    assert len(sweep(shelf.type(), first).deletes) == 50


def test_a_list_that_fails_forgets_no_accepted_delete(monkeypatch):
    """Otherwise the patience begins again after each list that fails, and nothing is ever stuck."""
    shelf = Failing(row("1", status="deleting"), row("2"))
    known = DeleteRecord("3", 2, 1, "full", hours(5), hours(4))
    noted = DeleteRecord("1", 1, seen_at=BEFORE, accepted_at=BEFORE)
    before = history(known, deleting=[("1", True)])

    def delete(*args):
        Failing.delete(shelf, *args)
        shelf.list_error = HttpError(500)

    second = run(shelf.type(delete=delete), history=before)
    assert second.outcome is Outcome.UNKNOWN
    assert second.deletes == (known, noted, DeleteRecord("2", 1, seen_at=NOW, accepted_at=NOW))
    first = run(shelf.type(), history=before)
    assert (first.outcome, first.deletes) == (Outcome.UNKNOWN, (known, noted))
    monkeypatch.setattr(item, "MAX_RECORDS", 1)
    assert run(shelf.type(), history=before).deletes == (known,)
    assert run(shelf.type(), history=history()).deletes is None, "what is on record stays"


def test_there_are_no_more_records_than_a_step_may_have(monkeypatch):
    monkeypatch.setattr(item, "MAX_RECORDS", 7)
    shelf = Failing(*(row(str(n)) for n in range(50)))
    second = sweep(shelf.type(), sweep(shelf.type()))
    assert len(second.deletes) == 7
    assert {one.id for one in sweep(shelf.type(), second).deletes} == {one.id for one in second.deletes}


def test_the_record_of_what_is_gone_ends():
    shelf = Failing(row("1"), row("2"))
    second = sweep(shelf.type(), sweep(shelf.type()))
    shelf.slow.remove("1")
    shelf.delete = lambda _c, _p, resource: shelf.rows.pop("1", None)
    assert [one.id for one in sweep(dataclasses.replace(shelf.type(), delete=shelf.delete), second).deletes] == ["2"]


SEEN = DeleteRecord("1", 1, seen_at=hours(5), accepted_at=hours(5))


@pytest.mark.parametrize(
    ("values", "record", "type_values", "since"),
    [
        ({}, None, {}, None),
        ({}, dataclasses.replace(SEEN, seen_at=hours(3)), {}, None),
        ({}, SEEN, {}, hours(5)),
        ({}, SEEN, {"patience": 6 * 3600.0}, None),
        ({}, dataclasses.replace(SEEN, seen_at=hours(3)), {"patience": 3600.0}, hours(3)),
        ({"updated_at": hours(72).isoformat()}, None, {"changed": "updated_at"}, hours(72)),
        ({"updated_at": hours(72).isoformat() + "+00:00"}, None, {"changed": "updated_at"}, hours(72)),
        ({"updated_at": hours(1).isoformat()}, None, {"changed": "updated_at"}, None),
        ({"updated_at": "nonsense"}, SEEN, {"changed": "updated_at"}, hours(5)),
        # The row is old, and the delete is young: the service does not say when it began.
        ({"updated_at": hours(900).isoformat()}, DeleteRecord("1", 1, seen_at=BEFORE, accepted_at=BEFORE),
         {"changed": "updated_at"}, None),
        # It was requested again, and has as much time as the first time.
        ({"updated_at": hours(1).isoformat()}, dataclasses.replace(SEEN, accepted=2, accepted_at=hours(1)),
         {"changed": "updated_at"}, None),
        ({"updated_at": hours(1).isoformat()},
         DeleteRecord("1", 3, seen_at=hours(9), accepted_at=hours(1)), {"changed": "updated_at"}, hours(9)),
        # Its service writes a new time into the row again and again, whether the delete moves or not.
        ({"updated_at": hours(0).isoformat()}, dataclasses.replace(SEEN, seen_at=hours(7)),
         {"changed": "updated_at"}, None),
        ({"updated_at": hours(0).isoformat()}, dataclasses.replace(SEEN, seen_at=hours(9)),
         {"changed": "updated_at"}, hours(9)),
    ],
)  # fmt: skip
def test_what_is_being_deleted_for_too_long_is_stuck(values, record, type_values, since):
    shelf = Shelf(row("1", status="deleting", **values))
    type_ = shelf.type(deleting=going, **type_values)
    found = run(type_, history=history(*filter(None, [record])))
    [one] = found.leftovers
    assert shelf.deletes == []
    assert (one.reason is Reason.STUCK) is (since is not None)
    assert one.reason in (Reason.STUCK, Reason.DELETING)
    if since:
        assert f"{since.isoformat(timespec='seconds')}Z" in one.message
    forced = run(type_, history=history(*filter(None, [record])), stuck={"1"})
    assert shelf.deletes == ["1"] and forced.outcome is Outcome.CLEAR


def test_without_a_clock_nothing_is_too_old():
    shelf = Shelf(row("1", status="deleting", updated_at=hours(72).isoformat()))
    assert run(shelf.type(deleting=going, changed="updated_at")).reason == Reason.DELETING


def test_a_verdict_of_a_hook_has_an_age_as_well():
    shelf = Shelf(row("1", updated_at=hours(72).isoformat()))
    shelf.refuse["1"] = Refused(Verdict(Reason.DELETING, "its parts go first"))
    assert run(shelf.type(changed="updated_at"), history=history()).reason == Reason.STUCK


def test_what_waits_for_others_that_are_being_deleted_has_no_age_of_its_own():
    shelf = Shelf(row("1"))
    blockers = ({"type": "a.b", "id": "2"},)
    shelf.refuse["1"] = Refused(Verdict(Reason.DELETING, "b 2 goes first", blockers))
    found = run(shelf.type(), history=history(SEEN))
    assert (found.reason, found.deletes) == (Reason.DELETING, ())


def test_a_delete_that_a_hook_requested_although_it_refuses_is_counted():
    shelf = Failing(row("1", fault="no quota"))
    shelf.refuse["1"] = Refused(Verdict(Reason.ERROR, "it failed, and was asked for again", accepted=True))
    [record] = sweep(shelf.type()).deletes
    assert (record.accepted, record.failed) == (1, 0)


def test_a_step_says_both_what_is_stuck_and_what_moves():
    shelf = Shelf(
        row("1", status="deleting", updated_at=hours(72).isoformat()),
        *(row(str(n), status="deleting", updated_at=NOW.isoformat()) for n in range(2, 5)),
    )
    found = run(shelf.type(deleting=going, changed="updated_at"), history=history())
    assert found.reason == Reason.STUCK
    assert found.message.endswith("(3 days); 3 more are being deleted")


def test_a_blocker_of_another_kind_does_not_hide_what_is_stuck():
    shelf = Shelf(row("1", status="deleting", updated_at=hours(72).isoformat()), row("2"))
    shelf.refuse["2"] = Refused(Verdict(Reason.FOREIGN, "another project's port uses it"))
    found = run(shelf.type(deleting=going, changed="updated_at"), history=history())
    assert (found.reason, found.message) == (
        Reason.FOREIGN, "another project's port uses it; 1 no longer move in their delete"
    )  # fmt: skip


# ----------------------------------------------------------------------------------------- a 404 does not prove "gone"
@pytest.mark.parametrize("call", ["show", "delete"])
def test_what_is_listed_and_not_found_is_no_accepted_delete(call):
    """Nova lists a server without a cell so, Neutron answers so where its policy refuses, Cinder without a service."""
    shelf = Shelf(row("1"))

    def unknown(*_):
        raise HttpError(404)

    found = run(shelf.type(**{call: unknown}), history=history())
    [one] = found.leftovers
    assert (found.outcome, found.deleted, one.reason) == (Outcome.LEFTOVERS, (), Reason.REFUSED)
    assert one.message.startswith("its service lists it, but answers 404 when it is to be ")
    assert one.remedy == UNKNOWN_TO_SERVICE


def test_a_list_that_lags_behind_an_accepted_delete_is_being_deleted():
    shelf = Shelf(row("1"))
    shelf.refuse["1"] = HttpError(404)
    for record, reason in ((dataclasses.replace(SEEN, seen_at=hours(1)), Reason.DELETING), (SEEN, Reason.STUCK)):
        assert run(shelf.type(), history=history(record)).reason == reason


# ------------------------------------------------------------------------------------------------- lists that were odd
@pytest.mark.parametrize("status", [400, 404])
@pytest.mark.parametrize(("times", "outcome"), [(1, Outcome.LEFTOVERS), (9, Outcome.UNKNOWN)])
def test_a_page_that_is_refused_after_others_is_listed_again(status, times, outcome):
    left = [times]

    def pages(*_):
        yield row("1", owner="them")
        if left[0]:
            left[0] -= 1
            raise HttpError(status)
        yield row("2")

    type_ = Shelf().type(list=pages, delete=None)
    found = run(type_)
    assert found.outcome is outcome
    assert found.reason == (Reason.ERROR if outcome is Outcome.UNKNOWN else Reason.REFUSED)


def test_a_long_list_that_begins_again_is_not_endless():
    rows, left = [row(str(n)) for n in range(3000)], [2]

    def pages(*_):
        yield from rows[:2900]
        if left[0]:
            left[0] -= 1
            raise HttpError(404)
        yield from rows[2900:]

    assert run(Shelf().type(list=pages, delete=None)).found == 3000


def test_a_list_that_fails_at_once_is_not_supported():
    shelf = Shelf()
    shelf.list_error = HttpError(404)
    assert run(shelf.type()).reason == Reason.NOT_SUPPORTED


def test_a_type_that_is_said_to_be_absent_after_its_deletes_is_unknown():
    answers = iter([True, False])
    shelf = Shelf(row("1"))
    found = run(shelf.type(available=lambda *_: next(answers)))
    assert (found.outcome, found.deleted) == (Outcome.UNKNOWN, ())


# --------------------------------------------------------------------------------------------------------- remedies
def test_a_remedy_is_filled_with_the_resource():
    shelf = Shelf(row("1", status="deleting", updated_at=hours(72).isoformat(), host="h1"))
    remedies = {Reason.STUCK: "as an admin: openstack thing reset {id} on {row[host]}"}
    found = run(shelf.type(deleting=going, changed="updated_at", remedies=remedies), history=history())
    assert found.leftovers[0].remedy == found.remedy == "as an admin: openstack thing reset 1 on h1"


@pytest.mark.parametrize("template", ["{row[none]}", "{unknown}", "{", "{id.x}"])
def test_a_remedy_that_cannot_be_filled_is_left_to_the_core(template):
    shelf = Shelf(row("1"))
    shelf.refuse["1"] = HttpError(500)
    found = run(shelf.type(remedies={Reason.ERROR: template}))
    assert (found.reason, found.leftovers[0].remedy) == (Reason.ERROR, "")


def test_the_remedy_of_a_verdict_goes_before_that_of_the_type():
    shelf = Shelf(row("1"))
    shelf.refuse["1"] = Refused(Verdict(Reason.ERROR, "a member may not", remedy="abandon it"))
    assert run(shelf.type(remedies={Reason.ERROR: "wait"})).leftovers[0].remedy == "abandon it"


def test_what_is_in_use_by_nothing_that_is_named_has_a_remedy_of_its_own():
    shelf = Shelf(row("1"))
    shelf.refuse["1"] = HttpError(409)
    assert "does not name what uses it" in run(shelf.type()).remedy


@pytest.mark.parametrize("id_", ["1\0", "1" * 600])
def test_what_is_on_record_is_known_by_its_stored_id(id_):
    stored, old = storable.resource_id(id_), hours(60)
    known = DeleteRecord(stored, 1, seen_at=old, accepted_at=old)
    shelf = Failing(row(id_, status="deleting"))
    recorded = run(shelf.type(), history=history(known))
    assert ([one.reason for one in recorded.leftovers], recorded.deletes) == ([Reason.STUCK], (known,))
    noted = run(shelf.type(), history=history(deleting={stored: True}.items()))
    assert noted.deletes == (DeleteRecord(stored, 1, seen_at=BEFORE, accepted_at=BEFORE),)
    failed = run(Failing(row(id_, fault="full")).type(), history=history(known))
    assert [(one.id, one.accepted, one.failed) for one in failed.deletes] == [(stored, 2, 1)]


@pytest.mark.parametrize("id_", ["1\0", "1" * 600])
def test_a_delete_that_was_accepted_before_is_known_by_its_stored_id(id_):
    shelf = Failing(row(id_))
    shelf.refuse = {id_: HttpError(404)}
    known = DeleteRecord(storable.resource_id(id_), 1, seen_at=NOW, accepted_at=NOW)
    assert run(shelf.type(), history=history(known)).leftovers[0].reason is Reason.DELETING


@pytest.mark.parametrize(
    ("name", "data", "reason", "expected"),
    [
        ("public", {"is_public": True}, Reason.PROTECTED, "make it private: 'openstack share set --public False r1'"),
        ("only marked", {"is_public": False}, Reason.PROTECTED, ""),  # its keep mark protects it
        ("its row is forgotten", {}, Reason.PROTECTED, ""),
        ("a shell would read it", {"is_public": True}, Reason.PROTECTED, "--public False 'r 1'"),
        ("a client would read it as an option", {"is_public": True}, Reason.PROTECTED, ""),
        ("another reason", {"is_public": False}, Reason.ERROR, "see the log"),
    ],
)
def test_the_remedy_of_a_type_is_for_its_own_rules(name, data, reason, expected):
    def public(resource, _project):
        return "it is public" if resource.data["is_public"] else None

    how = {Reason.PROTECTED: "make it private: 'openstack share set --public False {id}'", Reason.ERROR: "see the log"}
    id_ = {"a shell would read it": "r 1", "a client would read it as an option": "--all"}.get(name, "r1")
    type_ = Shelf().type(protect=(public,), remedies=how)
    context = types.SimpleNamespace(type=type_, project=project("p"), name="x.y")
    found = item.remedy_of(context, Resource(id_, "n", "p", data), Verdict(reason, "why"))
    assert (expected in found) and bool(found) is bool(expected)
