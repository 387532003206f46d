"""Liens that plugins raise: what gives reason to one, and that nothing is deleted before it is known and is gone."""

import dataclasses
import datetime

import pytest

from cleanup_orchestrator.api import inputs
from cleanup_orchestrator.cloud import protection
from cleanup_orchestrator.core import plugin_liens
from cleanup_orchestrator.core.blockers import blockers
from cleanup_orchestrator.core.deletion import Mode, Origin, RoundPurpose, Status
from cleanup_orchestrator.core.holds import Brake
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.results import record
from cleanup_orchestrator.core.rules import Rules
from cleanup_orchestrator.core.step import Leftover, Outcome
from cleanup_orchestrator.plugins import registry
from cleanup_orchestrator.plugins.base import Resource, ResourceType, Verdict
from tests.support.sweeps import foreseen, inventory, use
from tests.unit.answers import connection, project
from tests.unit.world import CLEAR, T0, UNKNOWN, World, deletion, left, sweep_step

IMAGE, PORT = "image.image", "network.port"
RULES = Rules(lien_types=frozenset({IMAGE}))
USED = left("1", reason=Reason.PROTECTED)


def world(rules=RULES, **values):
    return World(deletion(**values), sweep_step(IMAGE), sweep_step(PORT), rules=rules)


def a_port(world):
    """It is there until it is deleted."""
    there = ["p"]

    def answer(_step):
        if world.deletion.purpose is RoundPurpose.DELETE:
            there.clear()
        return left(*there) if there else CLEAR

    return answer


def with_lien(world, answer=USED):
    """The inventory of images raises its lien, as the store would, unless an admin has removed it."""
    world.removed = False

    def list_images(step):
        if not world.removed and world.deletion.purpose is RoundPurpose.INVENTORY:
            lien = plugin_liens.lien(world.deletion, step, "1: used by q", world.now)
            world.deletion = dataclasses.replace(world.deletion, liens=(lien,))
        return answer

    world.answers[IMAGE] = list_images
    world.answers[PORT] = a_port(world)
    return world


def remove(world):
    world.removed, world.deletion = True, dataclasses.replace(world.deletion, liens=(), wake_at=world.now)


def run_for(world, hours=2):
    until = world.now + datetime.timedelta(hours=hours)
    while world.now < until and world.deletion.status is not Status.DELETED:
        world.run(limit=1)


def condition(world, type_):
    return next((c for c in world.deletion.conditions if c.type == type_ and c.status), None)


# ---------------------------------------------------------------------------------------------------------- the words
def test_there_is_one_lien_per_type_region_and_deletion_with_a_predictable_id():
    step = sweep_step(IMAGE)
    others = [dataclasses.replace(step, **{name: "x"}) for name in ("region", "service", "type")]
    ids = {plugin_liens.lien_id("d", one) for one in (step, *others)} | {plugin_liens.lien_id("e", step)}
    assert len(ids) == 5 and all(inputs.is_uuid(id_) for id_ in ids)
    assert plugin_liens.lien_id("d", dataclasses.replace(step, id="another", fencing_token=7)) == plugin_liens.lien_id(
        "d", step
    )


@pytest.mark.parametrize(
    ("values", "binds"),
    [
        ({}, True),
        ({"origin": Origin.ADOPTED}, True),
        ({"dry_run": True}, False),
        ({"mode": Mode.REPORT}, False),
        ({"origin": Origin.NOTICED}, False),
    ],
    ids=str,
)
def test_a_deletion_that_changes_nothing_records_no_lien(values, binds):
    assert plugin_liens.binding(deletion(**values)) is binds


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ([], ""),
        ([Leftover("1", "one", Reason.PRESENT)], ""),
        ([Leftover("1", "one", Reason.OWNER_UNKNOWN)], ""),
        ([Leftover("1", "one", Reason.PROTECTED, "shared with q", abandoned=True)], ""),
        ([Leftover("1", "one", Reason.PROTECTED, "shared with q")], "1 (one): shared with q"),
        ([Leftover("1", "", Reason.FOREIGN, "q has a port on it")], "1: q has a port on it"),
    ],
    ids=str,
)
def test_a_plugin_lien_names_the_resource_and_the_projects_that_use_it(found, said):
    assert plugin_liens.sentence(found) == said


def test_of_very_many_it_names_the_first():
    many = [Leftover("1", "", Reason.PROTECTED, "x" * 5000)] * 100_000  # one object: each one redacts its message
    assert len(plugin_liens.sentence(many)) < 5000 and plugin_liens.sentence(many).endswith("and 99990 more")


# ------------------------------------------------------------------------------------------------------ the inventory
ONE = ResourceType(
    "image",
    list=lambda _c, _p: [{"id": "1", "project_id": "p"}, {"id": "2", "project_id": "q"}],
    delete=None,
    used_by=use(lambda _c, _p, image: Verdict(Reason.FOREIGN, f"q uses {image.id}", ({"owner": "q"},))),
)


@pytest.mark.parametrize(
    ("type_", "ask", "reason"),
    [
        (ONE, True, Reason.FOREIGN),
        (ONE, False, Reason.PRESENT),
        (dataclasses.replace(ONE, used_by=None), True, Reason.PRESENT),
        (dataclasses.replace(ONE, used_by=use(lambda *_: None)), True, Reason.PRESENT),
        (dataclasses.replace(ONE, protect=(lambda *_: "public",)), True, Reason.PROTECTED),
    ],
    ids=["used", "not asked", "cannot tell", "not used", "protected anyway"],
)
def test_an_inventory_reads_other_users_where_they_cause_a_plugin_lien(type_, ask, reason):
    swept = inventory(type_, None, project(), foresee=ask)
    assert [(one.id, one.reason) for one in swept.leftovers] == [("1", reason)]
    assert swept.leftovers[0].blocked_by == (({"owner": "q"},) if reason is Reason.FOREIGN else ())


def test_also_of_what_came_after_the_plan_and_counts_it_as_unplanned():
    found = inventory(ONE, None, project(), foresee=True, planned=())
    assert found.leftovers[0].reason is Reason.FOREIGN
    made = world()
    _, after = record(made.deletion, made.step(IMAGE), found, made.now)
    assert (after.unplanned, after.remaining) == (1, 1)


def test_a_resource_whose_users_cannot_be_read_is_unknown():
    def fails(*_):
        raise RuntimeError("Glance is away")

    assert (
        inventory(dataclasses.replace(ONE, used_by=use(fails)), None, project(), foresee=True).outcome
        is Outcome.UNKNOWN
    )


def test_the_inventory_of_images_judges_members_as_the_delete_does():
    image = registry.load().find("image", "image")
    one = Resource("1", "one", "us", {"visibility": "shared"})
    members = [{"member_id": "them", "status": "pending"}]
    glance = connection(image=lambda *_: (200, {"members": members}))
    assert "shared with another project" in foreseen(image, glance, project("us"), one).message
    assert foreseen(image, glance, project("us", delete_shared_images=True), one) is None
    members[0]["status"] = "rejected"
    assert foreseen(image, glance, project("us"), one) is None


# ---------------------------------------------------------------------------------------------------------- decisions
def test_a_plugin_lien_of_the_inventory_comes_before_the_first_delete():
    w = with_lien(world())
    run_for(w)
    assert w.deletion.status is Status.INVENTORY, "and so it can be restored"
    assert not [purpose for _, purpose in w.writes if purpose is RoundPurpose.DELETE]
    assert condition(w, "on_hold").reason == "lien" and w.deletion.attention == ("lien", "blocked")
    assert condition(w, "stalled") is None, "it waits, and nothing is wrong"
    assert w.dispatched.count(IMAGE) > 10, "it is looked at now and then: the lien may end by itself"
    assert w.dispatched.count(PORT) == 1, "and the others are not"


def test_a_removed_plugin_lien_lets_the_deletion_go_on_after_another_inventory():
    w = with_lien(world())
    run_for(w, 0.1)
    before = len(w.dispatched)
    remove(w)
    assert w.run(until=Status.DELETING) is Status.DELETING
    assert {IMAGE, PORT, "survey"} <= set(w.dispatched[before:])
    w.answers[IMAGE] = lambda _: CLEAR
    assert w.run() is Status.DELETED and condition(w, "on_hold") is None


def test_a_plugin_lien_that_comes_again_in_that_inventory_holds_again():
    w = with_lien(world())
    run_for(w, 0.1)
    remove(w)
    w.removed = False  # it had ended by itself, and a user shares the image again
    run_for(w)
    assert w.deletion.status is Status.INVENTORY and condition(w, "on_hold")


def test_it_comes_before_the_recovery_window_too_and_is_not_skipped_by_it():
    w = with_lien(world(dataclasses.replace(RULES, recovery_window=datetime.timedelta(hours=1))))
    run_for(w, 0.5)
    assert w.deletion.status is Status.RECOVERABLE and condition(w, "on_hold")
    run_for(w, 3)
    assert w.deletion.status is Status.INVENTORY and w.writes[-1][1] is not RoundPurpose.DELETE


@pytest.mark.parametrize(("types", "status"), [({IMAGE}, Status.INVENTORY), (set(), Status.DELETING)], ids=str)
def test_nothing_is_deleted_before_the_inventory_of_types_with_plugin_liens(types, status):
    w = world(Rules(lien_types=frozenset(types)))
    w.answers = {IMAGE: lambda _: UNKNOWN, PORT: lambda _: left("p")}
    run_for(w)
    assert w.deletion.status is status
    assert any(purpose is RoundPurpose.DELETE for _, purpose in w.writes) is (status is Status.DELETING)
    assert condition(w, "stalled"), "and it says why"
    assert [b.type for b in blockers(w.deletion, w.steps.values())] == ["image"]


@pytest.mark.parametrize(
    ("values", "end"),
    [({"dry_run": True}, Status.PLANNED), ({"mode": Mode.REPORT}, Status.LEFTOVERS)],
    ids=str,
)
def test_what_changes_nothing_waits_for_no_such_type(values, end):
    w = world(**values)
    w.answers = {IMAGE: lambda _: UNKNOWN}
    assert w.run() is end


@pytest.mark.parametrize(("types", "status"), [({IMAGE}, Status.INVENTORY), (set(), Status.DELETING)], ids=str)
def test_another_hold_keeps_it_in_inventory_so_that_the_inventory_is_recent(types, status):
    w = world(Rules(lien_types=frozenset(types)))
    w.answers[PORT] = a_port(w)
    assert w.run(until=Status.INVENTORY) is Status.INVENTORY
    w.deletion = dataclasses.replace(w.deletion, brake=Brake(True, "smoke", T0))
    run_for(w)
    assert w.deletion.status is status and condition(w, "on_hold") and not condition(w, "stalled")
    w.deletion = dataclasses.replace(w.deletion, brake=None, wake_at=w.now)
    looks = w.dispatched.count(IMAGE)
    assert w.run(until=Status.VERIFYING) is Status.VERIFYING
    assert w.dispatched.count(IMAGE) > looks


# ------------------------------------------------------------------------------------------------------------ options
@pytest.mark.parametrize(
    ("named", "wrong"),
    [
        ([], ""),
        ([IMAGE, "network.network"], ""),
        (["image.images"], "image.images"),
        (["image"], "image"),
        ([IMAGE, "image.membership"], "image.membership"),
        (["compute.quota_set"], "compute.quota_set"),
    ],
    ids=str,
)
def test_a_name_that_would_protect_nothing_is_refused_at_the_start(named, wrong):
    conf = type("Conf", (), {"protection": type("Group", (), {"lien_types": named})})
    check = lambda: registry.load().expect_ordinary(protection.lien_types(conf), "[protection] lien_types")  # noqa: E731
    if not wrong:
        check()
        return
    with pytest.raises(registry.UnknownType, match=wrong):
        check()
