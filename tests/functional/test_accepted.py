"""Deletes that a service accepts and does not end, end to end over the emulated cloud; and a list that fails once."""

from __future__ import annotations

import datetime

import pytest

from cleanup_orchestrator.core.condition_types import ConditionType
from cleanup_orchestrator.core.deletion import Mode, Status
from cleanup_orchestrator.core.reasons import Reason
from tests.emulated.orchestrator import Orchestrator
from tests.functional.test_force import force
from tests.support.emulated_site import LEAN, with_type
from tests.support.timing import wait

pytestmark = pytest.mark.slow

IMAGE = "image.image"
CLOUD = LEAN | {"projects": 1}
PROJECT = 0


class Images:
    """Images that Glance accepts every delete of. By default it does nothing else."""

    def __init__(self):
        self.asked = {}  #: how often, by id
        self.stuck = False  #: whether its delete is under way, by the row

    def delete(self, _connection, _project, image):
        self.asked[image.id] = self.asked.get(image.id, 0) + 1

    def failed(self, image, _project):
        return "the array is full" if not self.stuck and image.id in self.asked else None

    def deleting(self, _image, _project):
        return "Glance is deleting it" if self.stuck else None


class NotFound(Exception):
    """An answer of a service that does not find something."""

    status_code = 404


@pytest.fixture
def images():
    return Images()


@pytest.fixture(autouse=True)
def things(emulated):
    for _ in range(2):
        emulated.state.add("RegionOne", IMAGE, emulated.projects[PROJECT])
        emulated.state.add("RegionOne", "key-manager.secret", emulated.projects[PROJECT])


def running(emulated, tmp_path, **changes):
    made = Orchestrator(emulated, tmp_path, force={"attempts": 2, "patience": 2})
    made.parts.registry = with_type(IMAGE, **changes)
    made.parts.registry.register_options(made.parts.conf)
    return made


def owned(emulated, name):
    return set(emulated.state.table("RegionOne", name).owned.get(emulated.projects[PROJECT], {}))


def rows(orchestrator, deletion_id):
    return [row.leftover for row in orchestrator.store.leftovers(deletion_id, 100, service="image", type="image")]


def test_a_delete_that_fails_each_time_is_an_error_and_everything_else_goes(emulated, images, tmp_path):
    changes = {"delete": images.delete, "failed": images.failed, "deleting": images.deleting, "force": None}
    with running(emulated, tmp_path, **changes) as orchestrator:
        deletion_id = orchestrator.request(emulated.projects[PROJECT])

        def failed():
            found = rows(orchestrator, deletion_id)
            return found and all(one.reason is Reason.ERROR for one in found)

        wait("each image has failed twice", failed, 120)
        for one in rows(orchestrator, deletion_id):
            assert one.message.startswith("its delete was accepted ")
            assert one.message.endswith("times, and failed each time: the array is full")
        wait("the secrets are gone", lambda: not owned(emulated, "key-manager.secret"), 120)
        before = dict(images.asked)
        wait("it is tried again", lambda: all(images.asked[id_] > n for id_, n in before.items()), 120)
        step = next(s for s in orchestrator.store.steps(deletion_id) if s.name == IMAGE)
        assert step.reason == Reason.ERROR and not step.polled
        kept = orchestrator.store.deletes(step.id)
        assert kept.keys() == owned(emulated, IMAGE) and all(one.failed >= 2 for one in kept.values())
        force(orchestrator, deletion_id, [])
        assert orchestrator.wait([deletion_id]) == {deletion_id: Status.DELETED}
        assert "2 abandoned" in orchestrator.store.get(deletion_id).message


def test_a_delete_of_three_days_is_a_named_blocker_that_force_may_pass(emulated, images, tmp_path):
    images.stuck = True
    three_days_ago = (datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=3)).isoformat()

    def listing(connection, project):
        for image in with_type(IMAGE).find("image", "image").list(connection, project):
            yield {**image, "changed": three_days_ago}

    changes = {
        "list": listing, "delete": images.delete, "deleting": images.deleting, "changed": "changed", "force": None,
        "remedies": {Reason.STUCK: "as an admin: openstack image reset {id}; it is then deleted"},
    }  # fmt: skip
    with running(emulated, tmp_path, **changes) as orchestrator:
        deletion_id = orchestrator.request(emulated.projects[PROJECT])

        def blocked():
            return orchestrator.store.get(deletion_id).condition(ConditionType.BLOCKED)

        wait("a person is asked for", blocked, 120)
        assert blocked().message == f"{IMAGE}@RegionOne: stuck"
        assert orchestrator.blockers(deletion_id)[IMAGE].endswith(" (3 days)")
        assert {one.remedy for one in rows(orchestrator, deletion_id)} == {
            f"as an admin: openstack image reset {id_}; it is then deleted" for id_ in owned(emulated, IMAGE)
        }
        assert images.asked == {}
        force(orchestrator, deletion_id, [IMAGE])
        assert orchestrator.wait([deletion_id]) == {deletion_id: Status.DELETED}
        assert owned(emulated, IMAGE), "abandoned, and named"


def test_a_list_that_is_not_found_once_asks_for_nobody(emulated, tmp_path):
    failures = iter([False, True])
    real = with_type(IMAGE).find("image", "image").list

    def once(connection, project):
        if next(failures, False):
            raise NotFound("Group 7 could not be found")
        yield from real(connection, project) if callable(real) else real.rows(connection, project)

    with running(emulated, tmp_path, list=once) as orchestrator:
        deletion_id = orchestrator.request(emulated.projects[PROJECT])
        assert orchestrator.wait([deletion_id]) == {deletion_id: Status.DELETED}
        events = [row.event for row in orchestrator.store.events(deletion_id, 1000)]
        assert [e.message for e in events if e.type == "condition.blocked"] == []
        assert [e.data["reason"] for e in events if e.type == "sweep.unknown"] == [Reason.ERROR]


class Ownerless(Images):
    """Images that lose their owner in their delete, in a list of all images; the list after it may fail once."""

    def __init__(self, fails):
        super().__init__()
        self.failures = iter([fails])

    def list(self, connection, project):
        if self.asked and next(self.failures, False):
            raise TimeoutError("no answer")
        for image in with_type(IMAGE).find("image", "image").list(connection, project):
            yield {**image, "owner": None if image["id"] in self.asked else image["owner"]}


@pytest.mark.parametrize(("mode", "fails"), [(Mode.CASCADE, True), (Mode.PURGE, False), (Mode.PURGE, True)])
def test_what_lost_its_owner_in_its_delete_is_left(emulated, tmp_path, mode, fails):
    """Neither a list that failed after the delete nor an inventory forgets that it was the project's."""
    images = Ownerless(fails)
    changes = {
        "list": images.list,
        "delete": images.delete,
        "show": None,
        "why_no_show": "a test",
        "unfiltered": "a test",
    }
    with running(emulated, tmp_path, **changes, used_by=(), protect=()) as orchestrator:
        deletion_id = orchestrator.request(emulated.projects[PROJECT], mode)

        def ended():
            return orchestrator.store.get(deletion_id).status in (Status.LEFTOVERS, Status.PURGED, Status.DELETED)

        def left():
            found = rows(orchestrator, deletion_id)
            return len(found) == 2 and all(one.reason is Reason.OWNER_UNKNOWN for one in found)

        wait("they are left", lambda: left() or ended(), 120)
        if mode is Mode.PURGE:
            wait("the attempt ends", ended, 120)
        assert left()
