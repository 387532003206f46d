"""What the lines of a journal prove: when a report says "deleted", and when it must not."""

import pytest

from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.core.evidence import MOST_NAMED, verdict
from cleanup_orchestrator.core.journal import Event
from tests.support.cases import each_case
from tests.support.evidence import PORT, WHOLE, facts_of

VOID = Event("inventory.void", "the lock was changed", "u9", {"lock_changed": True})
RETRY = Event("deletion.retried", "attempt 2", "u2")
UNSEEN = Event("force.abandoned", "dns: unknown, abandoned unseen", "e", {**PORT, "unseen": True, "abandoned": 0})
LEFT = Event("resource.abandoned", "1 abandoned", "u3", {**PORT, "resources": [{"id": "c"}]})
WAIVER = Event("waiver.relied_upon", "skips what a waiver covers", "w", {"id": "w1"})


def without(type_, which=0):
    places = [n for n, event in enumerate(WHOLE) if event.type == type_]
    return (*WHOLE[: places[which]], *WHOLE[places[which] + 1 :])


def with_(event, before="deletion.deleted"):
    place = next(n for n, each in enumerate(WHOLE) if each.type == before)
    return (*WHOLE[:place], event, *WHOLE[place:])


def said(events, status="deleted", problem=""):
    return verdict(facts_of(events), problem, status)


def test_a_deletion_that_is_proven():
    facts = facts_of(WHOLE)
    assert said(WHOLE).proven
    assert said(WHOLE).text == "Deleted. Two complete inventories, one after the other, found nothing."
    assert [each["sequence"] for each in facts["inventories"]] == [9, 12]
    assert facts["inventories"][0]["began_at"] == "2026-01-02T03:12:05.678901Z"
    assert (facts["lock"]["sequence"], facts["closed"]["sequence"]) == (3, 10)
    assert facts["ended_at"] == "2026-01-02T03:17:05.678901Z"
    assert facts["types"] == [{**PORT, "announced": 2, "deleted": 2, "abandoned": 0}]
    assert [(each["type"], each["actor"]) for each in facts["requests"]] == [("deletion.accepted", "u1")]


@pytest.mark.parametrize(
    "events",
    [
        without("inventory.empty"),
        without("inventory.empty", 1),
        with_(VOID),
        with_(VOID, "project.closed"),
        with_(Event("inventory.void", "an event of Keystone", "e"), "project.closed"),
        with_(Event("drain.held", "again"), "project.closed"),  # an inventory before the lock does not count
        with_(Event("deletion.deleting", "again", data={"to": "deleting"}), "project.closed"),
        with_(RETRY, "project.closed"),
    ],
)
def test_fewer_than_two_inventories_in_a_row_prove_nothing(events):
    assert not said(events).proven
    assert "has no two empty inventories" in said(events).text


@each_case("status", [status for status in Status if status not in (Status.DELETED, Status.PURGED)])
def test_no_other_status_is_a_proof(status):
    events = (*WHOLE[:-1], Event(f"deletion.{status}", "x"))
    found = said(events, str(status))
    assert not found.proven and "o proof" in found.text and status in found.text


def test_the_record_and_its_journal_have_to_agree():
    """Who writes 'deleted' into the record has not written the journal."""
    found = said(WHOLE[:-1], "deleted")
    assert not found.proven and found.text.endswith(
        "the record of the deletion says deleted, and its journal says verifying."
    )


def test_a_changed_journal_proves_nothing():
    found = said(WHOLE, problem="line 3 of the journal: it was changed")
    assert not found.proven and found.text.startswith("No proof: the journal was changed") and "line 3" in found.text


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (LEFT, "1 resources were abandoned by force"),
        (UNSEEN, "1 resource types were abandoned and could not be seen"),
        (WAIVER, "1 waivers excluded services"),
    ],
)
def test_each_exception_is_in_the_verdict(event, text):
    found = said(with_(event, "deletion.verifying"))
    assert found.proven and "with exceptions" in found.text and text in found.text


def test_a_waiver_that_ended_is_no_exception():
    ended = Event("waiver.ended", "no longer relied upon", data={"id": "w1"})
    events = (*WHOLE[:4], WAIVER, ended, *WHOLE[4:])
    assert said(events) == said(WHOLE)
    assert said((*WHOLE[:4], WAIVER, *WHOLE[4:])) != said(WHOLE)


def test_a_lock_that_was_changed_is_no_lock():
    """Nor does the project count as disabled from then on."""
    facts = facts_of(with_(VOID))
    assert (facts["lock"], facts["closed"], facts["inventories"]) == (None, None, [])
    other = facts_of(with_(Event("inventory.void", "an event of Keystone")))
    assert other["lock"] and other["closed"] and other["inventories"] == []


def test_an_inventory_has_the_begin_of_its_own_round():
    events = [Event("round.opened", "x", data={"round": 7}), Event("inventory.empty", "x", data={"round": 8})]
    assert facts_of([WHOLE[0], *events])["inventories"][0]["began_at"] == ""


def test_a_purge_and_a_retry():
    purged = (*WHOLE[:-1], Event("deletion.purged", "x"))
    assert said(purged, "purged").proven and said(purged, "purged").text.startswith("Purged")
    again = (*WHOLE[:-1], Event("deletion.leftovers", "x"), RETRY)
    facts = facts_of(again)
    assert (facts["status"], facts["ended_at"], facts["lock"], facts["closed"]) == ("accepted", "", None, None)


@each_case("type_", ["approved", "cancelling", "changed", "forced", "noticed", "retried", "retried_now"])
def test_what_a_person_asked_for_is_named(type_):
    asked = facts_of([WHOLE[0], Event(f"deletion.{type_}", "x", "u2", request_id="req-2")])["requests"]
    assert [(each["type"], each["actor"]) for each in asked[1:]] == [(f"deletion.{type_}", "u2")]


def test_many_lines_of_a_kind_are_counted():
    events = [WHOLE[0], *[Event("deletion.retried_now", "x", "u")] * 150, *[UNSEEN] * 101]
    facts = facts_of(events)
    assert (len(facts["requests"]), len(facts["unseen"])) == (MOST_NAMED, MOST_NAMED)
    assert facts["omitted"] == 151 - MOST_NAMED + 1


@pytest.mark.parametrize(
    "data", [{"resources": 3}, {"resources": None}, {"resources": {}}, {"region": 7, "resources": [1]}, {}]
)
def test_data_of_another_release_is_no_error(data):
    assert facts_of([WHOLE[0], Event("resource.deleted", "x", data=data), Event("inventory.empty", "x")])
