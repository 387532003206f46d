"""One attempt at a step against a service in memory, driven through declared hooks."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleanup_orchestrator.cloud.session import read_only
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.errors import OnHold, Stopped
from cleanup_orchestrator.plugins.base import SCOPED, Halt, ProjectDefinition, Refused, ResourceType, Run, Verdict
from tests.support import sweeps

US = ProjectDefinition("us", "Us", "default", "R1")


class HttpError(Exception):
    """An error with a status, as the SDK raises."""

    def __init__(self, status_code):
        super().__init__(f"HTTP {status_code}")
        self.status_code = status_code


class ServiceDisabledException(Exception):
    """openstacksdk's error for a service that the catalog does not have."""


class NotSupported(Exception):
    """What the SDK raises when nothing at an endpoint says which versions it speaks."""


class Shelf:
    """A service with a list, a show and a delete call."""

    def __init__(self, *rows):
        self.rows = {r["id"]: dict(r) for r in rows}
        self.deletes = []
        self.list_error = None
        self.refuse = {}
        self.slow = set()  # ids whose delete is accepted and not done

    def list(self, _connection, _project):
        if self.list_error:
            raise self.list_error
        yield from [dict(r) for r in self.rows.values()]

    def show(self, _connection, _project, resource):
        if resource.id not in self.rows:
            raise HttpError(404)
        return self.rows[resource.id]

    def delete(self, _connection, _project, resource):
        self.deletes.append(resource.id)
        if resource.id in self.refuse:
            raise self.refuse[resource.id]
        if resource.id not in self.slow:
            self.rows.pop(resource.id, None)

    def type(self, **values):
        base = ResourceType("thing", list=self.list, delete=self.delete, show=self.show)
        return dataclasses.replace(base, **values)


def row(id_, owner="us", **values):
    return {"id": id_, "name": f"n-{id_}", "project_id": owner, **values}


def run(type_, **kwargs):
    return sweeps.delete(type_, None, US, parallel=1, **kwargs)


def test_all_resources_of_the_project_and_none_of_others_are_deleted():
    shelf = Shelf(row("1"), row("2"), row("3", owner="them"))
    result = run(shelf.type())
    assert result.outcome is Outcome.CLEAR
    assert result.deleted == (("1", "n-1"), ("2", "n-2"))
    assert shelf.rows.keys() == {"3"}
    assert result.facts == {"others_ignored": 1}


def test_an_object_whose_owner_is_missing_is_protected():
    shelf = Shelf(row("1", owner=None), row("2", owner=""))
    result = run(shelf.type())
    assert {leftover.reason for leftover in result.leftovers} == {Reason.OWNER_UNKNOWN}
    assert shelf.deletes == []


def test_an_object_whose_owner_changed_after_the_listing_is_not_deleted():
    shelf = Shelf(row("1"))

    def given_away(connection, project, resource):
        shelf.rows["1"]["project_id"] = "them"
        return shelf.show(connection, project, resource)

    result = run(shelf.type(show=given_away))
    assert shelf.deletes == []
    assert shelf.rows["1"]["project_id"] == "them"
    assert result.outcome is Outcome.CLEAR  # it is theirs now


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (HttpError(401), Reason.FORBIDDEN),
        (HttpError(403), Reason.FORBIDDEN),
        (HttpError(404), Reason.NOT_SUPPORTED),
        (HttpError(405), Reason.NOT_SUPPORTED),
        (HttpError(429), Reason.RATE_LIMITED),
        (HttpError(500), Reason.ERROR),
        (HttpError(503), Reason.ERROR),
        (TimeoutError("too slow"), Reason.UNREACHABLE),
        (ConnectionError("refused"), Reason.UNREACHABLE),
        (NotSupported("no supported versions"), Reason.UNREACHABLE),
        (ServiceDisabledException("it is not in the catalog"), Reason.UNREACHABLE),
        (KeyError("defect of a plugin"), Reason.ERROR),
    ],
)
def test_a_list_that_fails_is_unknown_and_never_empty(error, reason):
    shelf = Shelf()
    shelf.list_error = error
    for result in (run(shelf.type()), sweeps.inventory(shelf.type(), None, US)):
        assert (result.outcome, result.reason) == (Outcome.UNKNOWN, reason)


def test_a_second_list_that_fails_is_unknown_too():
    shelf = Shelf(row("1"))

    def delete(*args):
        shelf.delete(*args)
        shelf.list_error = HttpError(500)

    assert run(shelf.type(delete=delete)).outcome is Outcome.UNKNOWN


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (HttpError(409), Reason.IN_USE),
        (HttpError(403), Reason.FORBIDDEN),
        (HttpError(400), Reason.REFUSED),
        (HttpError(500), Reason.ERROR),
        (Refused(Verdict(Reason.FOREIGN, "their port", ({"id": "p"},))), Reason.FOREIGN),
    ],
)
def test_a_refused_delete_is_a_leftover_with_its_reason_and_stops_no_other_delete(error, reason):
    shelf = Shelf(row("1"), row("2"))
    shelf.refuse["1"] = error
    result = run(shelf.type())
    assert [(leftover.id, leftover.reason) for leftover in result.leftovers] == [("1", reason)]
    assert result.deleted == (("2", "n-2"),)


def test_the_type_gives_the_reason_of_a_refused_delete():
    shelf = Shelf(row("1"))
    shelf.refuse["1"] = HttpError(409)
    blocker = ({"type": "port", "id": "x", "owner": "them"},)
    result = run(shelf.type(explain=lambda *_: Verdict(Reason.FOREIGN, "their port is on it", blocker)))
    assert result.leftovers[0].blocked_by == blocker


def test_a_failing_explanation_hides_nothing():
    shelf = Shelf(row("1"))
    shelf.refuse["1"] = HttpError(409)

    def explain(*_):
        raise HttpError(500)

    assert run(shelf.type(explain=explain)).leftovers[0].reason is Reason.IN_USE


def test_a_404_for_a_resource_that_is_gone_is_no_error():
    shelf = Shelf(row("1"))
    shelf.refuse["1"] = HttpError(404)
    original = shelf.delete

    def delete(connection, project, resource):
        shelf.rows.pop(resource.id)
        original(connection, project, resource)

    assert run(shelf.type(delete=delete)).outcome is Outcome.CLEAR


def test_accepted_is_not_gone():
    shelf = Shelf(row("1"))
    shelf.slow.add("1")
    result = run(shelf.type())
    assert (result.outcome, result.deleted) == (Outcome.LEFTOVERS, ())
    assert result.leftovers[0].reason is Reason.DELETING


def test_kept_ones_are_neither_deleted_nor_left_and_protected_ones_are_left():
    shelf = Shelf(row("1", default=True), row("2", public=True))
    result = run(
        shelf.type(
            keep=(lambda r, _: "the service's own" if r.data.get("default") else None,),
            protect=(lambda r, _: "public" if r.data.get("public") else None,),
        )
    )
    assert shelf.deletes == []
    assert result.kept == 1
    assert [(leftover.id, leftover.reason) for leftover in result.leftovers] == [("2", Reason.PROTECTED)]


def test_one_that_becomes_a_kept_one_was_not_deleted():
    """A stack whose delete fails is another type's affair from then on; it is not gone."""
    shelf = Shelf(row("1", failing=True), row("2"))

    def delete(connection, project, resource):
        if resource.data.get("failing"):
            shelf.rows[resource.id]["failed"] = True
        else:
            shelf.delete(connection, project, resource)

    failed = shelf.type(delete=delete, keep=(lambda r, _: "its delete failed" if r.data.get("failed") else None,))
    result = run(failed)
    assert result.deleted == (("2", "n-2"),)
    assert (result.outcome, result.kept) == (Outcome.CLEAR, 1)


def test_a_resource_that_is_deleted_with_another_gets_no_delete_call():
    shelf = Shelf(row("1"))
    result = run(shelf.type(deleted_with=("parent",)))
    assert shelf.deletes == []
    assert result.outcome is Outcome.LEFTOVERS


def test_prepare_runs_before_the_delete_and_its_refusal_stops_it():
    shelf, order = Shelf(row("1")), []

    def clear(*_):
        order.append("clear")
        raise HttpError(409)

    result = run(shelf.type(prepare=(clear,)))
    assert (order, shelf.deletes) == (["clear"], [])
    assert result.leftovers[0].reason is Reason.IN_USE


def test_a_breaker_that_finds_nothing_is_not_taken_for_gone():
    shelf = Shelf(row("1"))

    def clear(*_):
        raise HttpError(404)

    result = run(shelf.type(prepare=(clear,)))
    assert (shelf.deletes, result.leftovers[0].reason) == ([], Reason.NOT_SUPPORTED)


def test_a_cancel_between_two_deletes_stops_the_second():
    shelf = Shelf(row("1"), row("2"))

    def delete(connection, project, resource):
        if shelf.deletes:
            raise Stopped("cancelled")
        shelf.delete(connection, project, resource)

    result = run(shelf.type(delete=delete))
    assert shelf.deletes == ["1"]
    assert (result.outcome, result.reason) == (Outcome.UNKNOWN, Reason.STOPPED)


@pytest.mark.parametrize("parallel", [1, 4])
def test_what_went_before_a_lien_is_confirmed_and_the_rest_waits(parallel):
    """It only reads from then on; and nothing that was withheld is said to be accepted."""
    shelf = Shelf(*(row(str(n)) for n in range(6)))

    def delete(connection, project, resource):
        if len(shelf.deletes) >= 2:
            raise OnHold("DELETE withheld: held by lien l1 of billing")
        shelf.delete(connection, project, resource)

    result = sweeps.delete(shelf.type(delete=delete), None, US, parallel=parallel)
    gone = sorted(shelf.deletes)
    assert sorted(id_ for id_, _ in result.deleted) == gone and len(gone) >= 2
    assert (result.outcome, result.reason) == (Outcome.LEFTOVERS, Reason.ON_HOLD)
    assert "lien l1" in result.message
    assert {leftover.reason for leftover in result.leftovers} == {Reason.QUEUED}
    assert len(result.leftovers) == 6 - len(gone)


def test_a_lien_that_comes_before_the_first_delete_has_nothing_written_down():
    shelf = Shelf(row("1"))

    def record_intent(_resources):
        raise OnHold("DELETE withheld: held by the brake")

    result = run(shelf.type(), record_intent=record_intent)
    assert (result.outcome, result.reason, shelf.deletes) == (Outcome.LEFTOVERS, Reason.ON_HOLD, [])


def test_the_intent_is_recorded_before_the_first_call():
    shelf = Shelf(row("1"), row("2"))
    told = []
    run(shelf.type(), record_intent=lambda resources: told.append(([r.id for r in resources], list(shelf.deletes))))
    assert told == [(["1", "2"], [])]


def test_an_inventory_only_lists():
    shelf = Shelf(row("1"), row("2", owner="them"))
    result = sweeps.inventory(shelf.type(), None, US)
    assert (result.outcome, [leftover.id for leftover in result.leftovers]) == (Outcome.LEFTOVERS, ["1"])
    assert shelf.deletes == []


def test_a_scoped_type_belongs_to_its_token():
    shelf = Shelf({"id": "1", "name": "x"})
    assert run(shelf.type(owner=SCOPED, show=None, fresh="scoped")).deleted == (("1", "x"),)


@pytest.mark.parametrize("empty", ["", " ", None])
def test_an_empty_project_id_is_refused(empty):
    with pytest.raises(ValueError, match="project id"):
        ProjectDefinition(empty, "x", "d", "r")


def test_the_guard_of_an_inventory_refuses_writes():
    with pytest.raises(Exception, match="must not write"):
        read_only("DELETE", "http://x")


UNCLEAR = ("", None, "US")  #: owners of resources that may be the project's
OWNERS = st.sampled_from(["us", "them", *UNCLEAR, "us "])


@given(st.lists(st.tuples(OWNERS, st.booleans()), max_size=30), st.integers(1, 4))
def test_only_resources_of_the_project_are_ever_deleted(things, parallel):
    rows = [row(str(i), owner=owner) for i, (owner, _) in enumerate(things)]
    shelf = Shelf(*rows)
    shelf.slow = {str(i) for i, (_, slow) in enumerate(things) if slow}
    result = sweeps.delete(shelf.type(), None, US, parallel=parallel)
    ours = {r["id"] for r in rows if r["project_id"] == "us"}
    assert set(shelf.deletes) == ours
    assert {i for i, _ in result.deleted} == ours - shelf.slow
    assert (result.outcome is Outcome.CLEAR) == (
        not ours & shelf.slow and not [r for r in rows if r["project_id"] in UNCLEAR]
    )


# ------------------------------------------------------------------------------------------------------------- force
class Stubborn(Shelf):
    """What it holds goes by force alone."""

    def __init__(self, *rows):
        super().__init__(*rows)
        self.forced = []
        self.prepared = []

    def prepare(self, _connection, _project, resource):
        self.prepared.append(resource.id)

    def force(self, _connection, _project, resource):
        self.forced.append(resource.id)
        if resource.id in self.refuse:
            raise self.refuse[resource.id]
        self.rows.pop(resource.id, None)

    def type(self, **values):
        return super().type(force=self.force, prepare=(self.prepare,), **values)


def test_force_is_used_on_what_was_left_and_on_nothing_else():
    shelf = Stubborn(row("1"), row("2"), row("3", owner="them"))
    result = run(shelf.type(), stuck={"1", "3"})
    assert (shelf.forced, shelf.deletes, shelf.prepared) == (["1"], ["2"], ["2"])
    assert {id_ for id_, _ in result.deleted} == {"1", "2"}
    assert shelf.rows.keys() == {"3"}


def test_without_force_it_is_never_used():
    shelf = Stubborn(row("1"))
    shelf.slow = {"1"}
    for attempt in range(1, 6):
        run(shelf.type(), attempt=attempt)
    assert shelf.forced == []


def test_a_type_without_force_gets_an_ordinary_delete_again():
    shelf = Shelf(row("1"))
    run(shelf.type(), stuck={"1"})
    assert shelf.deletes == ["1"]


@pytest.mark.parametrize("why", ["owner", "mark", "keep"])
def test_force_takes_nothing_that_an_ordinary_delete_would_not_take(why):
    shelf = Stubborn(row("1"))
    values = {
        "owner": {"show": lambda *_: row("1", owner="them")},
        "mark": {"protect": (lambda *_: "it is public",)},
        "keep": {"keep": (lambda *_: "it is the operator's",)},
    }
    result = run(shelf.type(**values[why]), stuck={"1"})
    assert shelf.forced == [] and shelf.rows.keys() == {"1"}
    assert result.kept == (why == "keep")
    assert [left.reason for left in result.leftovers] == (
        {"owner": [Reason.OWNER_UNKNOWN], "mark": [Reason.PROTECTED], "keep": []}[why]
    )


def test_a_refused_forced_delete_leaves_the_text_of_the_refusal():
    shelf = Stubborn(row("1"))
    shelf.refuse["1"] = Refused(Verdict(Reason.FOREIGN, "another project's snapshot holds it"))
    [left] = run(shelf.type(), stuck={"1"}).leftovers
    assert (left.reason, left.message) == (Reason.FOREIGN, "another project's snapshot holds it")


def test_what_force_does_not_find_is_left_as_long_as_it_is_listed():
    shelf = Stubborn(row("1"))
    shelf.refuse["1"] = HttpError(404)
    result = run(shelf.type(), stuck={"1"})
    assert [left.reason for left in result.leftovers] == [Reason.REFUSED], "the second listing is the truth"


# ---------------------------------------------------------------------------------------- what is shown and what is not
def another(shelf):
    """Return a ``show`` that answers about another resource of the project, as behind a proxy that mixes them up."""
    return lambda *_: dict(row("another"))


def test_nothing_is_deleted_of_which_another_resource_is_shown():
    shelf = Shelf(row("1"))
    result = run(shelf.type(show=another(shelf)))
    assert (shelf.deletes, result.outcome, result.reason) == ([], Outcome.LEFTOVERS, Reason.OWNER_UNKNOWN)


@pytest.mark.parametrize("available", [None, 0, "", "no"])
def test_a_type_that_does_not_say_whether_it_is_there_is_unknown(available):
    shelf = Shelf(row("1"))
    for result in (
        run(shelf.type(available=lambda *_: available)),
        sweeps.inventory(shelf.type(available=lambda *_: available), None, US),
    ):
        assert (result.outcome, result.reason) == (Outcome.UNKNOWN, Reason.BAD_ANSWER)


@pytest.mark.parametrize("rows", [{}, {"things": []}, "", b""])
def test_what_is_no_list_is_no_empty_list(rows):
    shelf = Shelf()
    result = sweeps.inventory(shelf.type(list=lambda *_: rows), None, US)
    assert (result.outcome, result.reason) == (Outcome.UNKNOWN, Reason.BAD_ANSWER)


@pytest.mark.parametrize("owner", ["u-s", "US", "U-s"])
def test_the_projects_id_spelt_otherwise_is_no_other_project(owner):
    shelf = Shelf(row("1", owner=owner))
    result = run(shelf.type())
    assert (shelf.deletes, result.outcome, result.reason) == ([], Outcome.LEFTOVERS, Reason.OWNER_UNKNOWN)


# ---------------------------------------------------------------------------------------------------- stop and start
class Machines(Shelf):
    """Things that run or do not, by ``on``; it writes down what happens to them, in order."""

    def __init__(self, *rows):
        super().__init__(*rows)
        self.did = []

    def halting(self, **values):
        state = lambda one: Run.ON if one["on"] else Run.OFF  # noqa: E731

        def switch(word, on):
            def act(_connection, _project, resource):
                self.did.append((word, resource.id))
                self.rows[resource.id]["on"] = on

            return act

        return self.type(halt=Halt(state, switch("stop", False), switch("start", True)), **values)

    def halt(self, **values):
        record = lambda resource: self.did.append(("write down", resource.id))  # noqa: E731
        return sweeps.halt(self.halting(**values), None, US, record)


def test_a_stop_is_written_down_and_then_made():
    machines = Machines(row("1", on=True), row("2", on=False), row("3", owner="them", on=True))
    assert machines.halt().outcome is Outcome.CLEAR
    assert machines.did == [("write down", "1"), ("stop", "1")]


def shown_as(**values):
    return lambda *_: {**row("1", on=True), **values}


@pytest.mark.parametrize("values", [{"id": "another"}, {"project_id": "them"}, {"project_id": None}, {"on": False}])
def test_what_is_shown_otherwise_right_before_is_not_stopped(values):
    machines = Machines(row("1", on=True))
    machines.halt(show=shown_as(**values))
    assert machines.did == []


@pytest.mark.parametrize("values", [{"id": "another"}, {"project_id": "them"}, {"project_id": None}, {"on": True}])
def test_what_is_shown_otherwise_is_not_started(values):
    machines = Machines(row("1", on=False))
    sweeps.start(machines.halting(show=shown_as(**{"on": False, **values})), None, US, "1")
    assert machines.did == []
    sweeps.start(machines.halting(show=shown_as(on=False)), None, US, "1")
    assert machines.did == [("start", "1")]


# ------------------------------------------------------------------------------------- what its service acts on
def acting(shelf, **values):
    """A type whose deletes are told apart by the connection that they are made with."""
    made = []

    def delete(connection, project, resource):
        made.append((connection, resource.id))
        shelf.delete(connection, project, resource)

    return shelf.type(delete=delete, **values), made


def test_what_acts_on_what_users_wrote_is_deleted_with_the_janitors_token_alone():
    type_, made = acting(Shelf(row("1"), row("2")), acts_on="a template")
    assert run(type_, janitor=lambda: "janitor").outcome is Outcome.CLEAR
    assert made == [("janitor", "1"), ("janitor", "2")]


def test_force_is_used_with_the_janitors_token_too():
    shelf, forced = Shelf(row("1")), []
    type_ = shelf.type(acts_on="a template", force=lambda connection, *_: forced.append(connection))
    run(type_, janitor=lambda: "janitor", stuck={"1"})
    assert (forced, shelf.deletes) == (["janitor"], [])


def test_without_a_janitor_nothing_is_changed_and_the_reason_is_reported():
    prepared = []
    shelf = Shelf(row("1"))
    type_, made = acting(shelf, acts_on="a template", prepare=(lambda *_: prepared.append(1),))
    result = run(type_)
    assert [(left.id, left.reason) for left in result.leftovers] == [("1", Reason.NO_JANITOR)]
    assert (made, prepared) == ([], [])


def test_what_acts_on_nothing_needs_no_janitor():
    type_, made = acting(Shelf(row("1")))
    assert run(type_).outcome is Outcome.CLEAR
    assert made == [(None, "1")]


def test_where_only_some_act_the_others_need_no_janitor():
    type_, made = acting(
        Shelf(row("1", evil=True), row("2")), acts_on="an address", acts_on_if=lambda one: "evil" in one.data
    )
    assert run(type_, janitor=lambda: "janitor").outcome is Outcome.CLEAR
    assert made == [("janitor", "1"), (None, "2")]


def test_what_has_come_to_act_since_it_was_listed_is_deleted_with_the_janitors_token():
    shelf = Shelf(row("1"))
    type_, made = acting(
        shelf,
        acts_on="an address",
        acts_on_if=lambda one: "evil" in one.data,
        show=lambda *_: {**row("1"), "evil": True},
    )
    run(type_, janitor=lambda: "janitor")
    assert made == [("janitor", "1")]


def test_a_project_that_is_gone_needs_no_janitor():
    type_, made = acting(Shelf(row("1")), acts_on="a template")
    gone = dataclasses.replace(US, gone=True)
    assert sweeps.delete(type_, None, gone, parallel=1).outcome is Outcome.CLEAR
    assert made == [(None, "1")]


@pytest.mark.parametrize(("helps", "tries"), [(True, 2), (False, 1)])
def test_a_refused_delete_is_made_once_more_where_what_refused_it_was_removed(helps, tries):
    shelf = Shelf(row("1"))
    shelf.refuse["1"] = HttpError(500)
    asked = []

    def unblock(*arguments):
        asked.append(arguments[:2])
        return helps

    type_, made = acting(shelf, acts_on="a template", unblock=unblock)
    run(type_, janitor=lambda: "janitor")
    assert (len(made), asked) == (tries, [(None, "janitor")])


def test_a_cancel_is_no_refusal():
    shelf = Shelf(row("1"))
    shelf.refuse["1"] = Stopped("cancelled")
    type_, _ = acting(shelf, acts_on="a template", unblock=lambda *_: pytest.fail("asked"))
    assert run(type_, janitor=lambda: "janitor").reason == Reason.STOPPED


# ------------------------------------------------------------------------------------------------------------- polls
def _going(resource, _project):
    return "the service is deleting it" if resource.data.get("status") == "deleting" else None


class Listed(Shelf):
    """A shelf that counts its lists and shows."""

    def __init__(self, *rows):
        super().__init__(*rows)
        self.lists = self.shows = 0

    def list(self, connection, project):
        self.lists += 1
        yield from super().list(connection, project)

    def show(self, *args):
        self.shows += 1
        return super().show(*args)


def test_what_its_service_is_deleting_is_polled_with_one_list():
    shelf = Listed(row("a", status="deleting"), row("b", status="deleting"), row("c", "them", status="deleting"))
    result = sweeps.delete(shelf.type(deleting=_going), None, US)
    assert (result.outcome, result.reason, result.found) == (Outcome.LEFTOVERS, Reason.DELETING, 2)
    assert {left.message for left in result.leftovers} == {"the service is deleting it"}
    assert (shelf.lists, shelf.shows, shelf.deletes) == (1, 0, [])


def test_beside_it_the_others_are_deleted():
    shelf = Listed(row("a", status="deleting"), row("b"))
    result = sweeps.delete(shelf.type(deleting=_going), None, US)
    assert shelf.deletes == ["b"]
    assert [(left.id, left.reason) for left in result.leftovers] == [("a", Reason.DELETING)]
    assert result.deleted == (("b", "n-b"),)


def test_what_is_gone_at_the_second_list_is_deleted_although_no_call_was_made():
    shelf = Listed(row("a", status="deleting"), row("b"))
    real = shelf.delete

    def delete(*args):
        shelf.rows.pop("a")
        real(*args)

    result = sweeps.delete(shelf.type(deleting=_going, delete=delete), None, US)
    assert result.outcome is Outcome.CLEAR
    assert {id_ for id_, _ in result.deleted} == {"a", "b"}


def test_a_poll_is_no_result_of_a_step_with_another_leftover():
    """Only what is being deleted is polled; another reason waits longer after each attempt."""
    shelf = Listed(row("a", status="deleting"), row("b"))
    shelf.refuse = {"b": HttpError(409)}
    assert sweeps.delete(shelf.type(deleting=_going), None, US).reason == Reason.IN_USE


def test_what_only_a_person_can_clear_is_the_reason_of_the_result():
    """Else the deletion would say that something is in use, and a person would wait for it."""
    shelf = Listed(row("a"), row("b"))
    shelf.refuse = {"a": HttpError(409)}

    def protected(resource, _project):
        return "it is shared" if resource.id == "b" else ""

    result = sweeps.delete(shelf.type(protect=(protected,)), None, US)
    assert {left.reason for left in result.leftovers} == {Reason.IN_USE, Reason.PROTECTED}
    assert result.reason == Reason.PROTECTED


def test_force_is_used_on_what_its_service_is_deleting_without_end():
    shelf, forced = Listed(row("a", status="deleting")), []
    type_ = shelf.type(deleting=_going, force=lambda _c, _p, resource: forced.append(resource.id))
    sweeps.delete(type_, None, US, stuck=("a",))
    assert forced == ["a"]


def test_a_list_of_what_is_being_deleted_that_is_not_read_to_its_end_is_incomplete():
    shelf = Listed(*(row(str(number), status="deleting") for number in range(5)))
    result = sweeps.delete(shelf.type(deleting=_going), None, US, most_listed=3)
    assert result.more
    assert result.outcome is Outcome.LEFTOVERS
