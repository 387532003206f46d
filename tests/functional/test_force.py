"""Force from end to end over the emulated cloud: engine, workers, store and the questions to workers are real."""

from __future__ import annotations

import dataclasses

import pytest

from cleanup_orchestrator.core import transitions
from cleanup_orchestrator.core.deletion import Force, RoundPurpose, Status, UseDecision
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.errors import WriteRefused
from cleanup_orchestrator.plugins import base
from cleanup_orchestrator.worker.force_check import only_on_nothing
from tests.emulated.orchestrator import Orchestrator
from tests.support.emulated_site import LEAN, wait_until_tried, with_type
from tests.support.stores import cancel, change
from tests.support.timing import wait

LONG = 300
IMAGE = "image.image"
SECRET = "key-manager.secret"
CLOUD = LEAN | {"projects": 1}


class Images:
    """The plugin of Glance, whose images only force deletes, with a record of its calls."""

    def __init__(self):
        self.ordinary, self.forced, self.checked = [], [], 0
        self.refusal = None
        self.eternal = set()  #: ids that no force deletes

    def refuse(self, _connection, _project, image):
        """Refuse every ordinary delete."""
        self.ordinary.append(image.id)
        raise base.Refused(base.Verdict(Reason.ERROR, "its storage burnt down"))

    def force(self, connection, project, image):
        """Delete it."""
        self.forced.append(image.id)
        if image.id in self.eternal:
            raise base.Refused(base.Verdict(Reason.ERROR, "not even so"))
        base.Rest("image", "/images/{id}", method="DELETE").call(connection, project, image)

    def may(self, connection, _project):
        """Send a write for an image that does not exist in the emulated Glance."""
        self.checked += 1
        assert connection.image.delete(f"/images/{base.NIL_UUID}").status_code == 404
        with pytest.raises(WriteRefused):
            connection.image.delete("/images/something")
        if self.refusal:
            raise self.refusal

    def registry(self):
        return with_type(
            IMAGE, delete=self.refuse, force=base.ForcedDelete(self.force, allowed=self.may), by_hand="burn {id} again"
        )


@pytest.fixture
def images():
    return Images()


@pytest.fixture
def orchestrator(emulated, images, tmp_path):
    for _ in range(2):
        emulated.state.add("RegionOne", IMAGE, emulated.projects[0])
    made = Orchestrator(emulated, tmp_path, force={"attempts": 2, "patience": 2})
    made.parts.registry = images.registry()
    made.parts.registry.register_options(made.parts.conf)
    with made:
        yield made


def stuck(orchestrator, emulated, project_id):
    """Return the id of a cascade whose images are not deleted."""
    deletion_id = orchestrator.request(project_id)
    wait_until_tried(orchestrator, deletion_id, IMAGE, 1)
    return deletion_id


def force(orchestrator, deletion_id, types):
    """Record it, as the API does."""
    store = orchestrator.store

    def forced(d):
        assert transitions.forcible(d)
        asked = Force("burnt down", tuple(types), store.now(), d.attempt, d.round, "u1", "alice")
        return dataclasses.replace(d, forced=asked)

    change(store, deletion_id, forced, [Event("deletion.forced", "x")])
    orchestrator.parts.bus.decide(deletion_id)


def left(emulated, project_id):
    return set(emulated.state.table("RegionOne", IMAGE).owned.get(project_id, {}))


@pytest.mark.slow
def test_what_goes_by_force_alone_goes_and_the_rest_is_abandoned_by_name(emulated, images, orchestrator):
    project, bystander = emulated.projects[0], emulated.bystanders[0]
    theirs, before = left(emulated, bystander), left(emulated, project)
    assert theirs and len(before) > 1
    deletion_id = stuck(orchestrator, emulated, project)
    assert images.forced == [] and set(images.ordinary) == left(emulated, project)
    images.eternal = {min(left(emulated, project))}

    answer = orchestrator.parts.bus.force(deletion_id)
    assert answer[IMAGE] == "" and images.checked == 1
    force(orchestrator, deletion_id, [IMAGE])
    assert orchestrator.wait([deletion_id]) == {deletion_id: Status.DELETED}

    record = orchestrator.store.get(deletion_id)
    assert record.reason == "deleted_by_force"
    assert "by force of alice (burnt down): 1 abandoned: 1 image.image in RegionOne" in record.message
    assert left(emulated, project) == images.eternal, "the others went by force"
    assert left(emulated, bystander) == theirs
    assert set(images.forced).isdisjoint(theirs)
    [row] = orchestrator.store.leftovers(deletion_id, 10, abandoned=True)
    assert (row.region, row.service, row.type, row.leftover.owner) == ("RegionOne", "image", "image", project)
    assert {row.leftover.id} == images.eternal
    assert (row.leftover.message, row.leftover.remedy) == ("not even so", f"burn {row.leftover.id} again")
    journal = [each.event.type for each in orchestrator.store.events(deletion_id, 1000)]
    first = {kind: journal.index(kind) for kind in ("force.used", "resource.forcing", "force.abandoned")}
    assert list(first) == sorted(first, key=first.get), "the intent is on record before the call"
    assert journal[journal.index("force.abandoned") :].count("inventory.empty") >= 2


@pytest.mark.slow
def test_what_a_worker_answers_names_why_not_and_asking_changes_nothing(emulated, images, orchestrator):
    deletion_id = stuck(orchestrator, emulated, emulated.projects[0])
    there = left(emulated, emulated.projects[0])
    images.refusal = base.Refused(base.Verdict(Reason.NOT_SUPPORTED, "switched off"))
    assert orchestrator.parts.bus.force(deletion_id)[IMAGE] == "image.image in RegionOne: switched off"
    images.refusal = ConnectionError("no answer")
    assert "no answer" in orchestrator.parts.bus.force(deletion_id)[IMAGE]
    assert left(emulated, emulated.projects[0]) == there and images.forced == []


@pytest.mark.slow
def test_the_operator_chooses_the_types(emulated, images, orchestrator):
    deletion_id = stuck(orchestrator, emulated, emulated.projects[0])
    conf, ask = orchestrator.parts.conf, orchestrator.parts.bus.force
    every = set(ask(deletion_id))
    assert every == set(orchestrator.parts.registry.forcible()) > {IMAGE, "orchestration.stack"}
    conf.set_override("types", [IMAGE, "network.port"], group="force")
    assert set(ask(deletion_id)) == {IMAGE}
    conf.set_override("never", [IMAGE], group="force")
    assert ask(deletion_id) == {}
    conf.clear_override("types", group="force")
    assert set(ask(deletion_id)) == every - {IMAGE}


@pytest.mark.slow
def test_nothing_left_is_nothing_to_ask_about(emulated, images, orchestrator):
    """A project without stacks is forced for every answer of Heat."""
    project = emulated.add_project("without images")
    emulated.audit.under_deletion.add(project)
    deletion_id = orchestrator.request(project)
    orchestrator.wait([deletion_id])
    assert orchestrator.parts.bus.force(deletion_id)[IMAGE] == ""
    assert images.checked == 0


@pytest.mark.slow
def test_a_service_that_is_down_is_abandoned_unseen_and_named(emulated, images, orchestrator):
    project = emulated.projects[0]
    emulated.faults.down("image")
    deletion_id = orchestrator.request(project)

    def only_images():
        d, steps, _ = orchestrator.store.load(deletion_id)
        lost = {s.name for s in steps if s.outcome is Outcome.UNKNOWN and s.round == d.round}
        return d.status is Status.DELETING and d.purpose is RoundPurpose.DELETE and IMAGE in lost

    wait("nothing but the images is unknown", only_images, LONG)
    force(orchestrator, deletion_id, [])
    assert orchestrator.wait([deletion_id]) == {deletion_id: Status.DELETED}
    record = orchestrator.store.get(deletion_id)
    assert "unknown, abandoned unseen:" in record.message and "image.image in RegionOne" in record.message
    assert left(emulated, project), "no list showed the images, so none was deleted"


def test_a_cancel_under_force_gives_the_project_back(emulated, images, orchestrator):
    project = emulated.projects[0]
    images.eternal = left(emulated, project)
    deletion_id = stuck(orchestrator, emulated, project)
    force(orchestrator, deletion_id, [IMAGE])
    wait("force is used", lambda: images.forced, LONG)
    cancel(orchestrator.store, deletion_id)
    orchestrator.parts.bus.decide(deletion_id)
    assert orchestrator.wait([deletion_id]) == {deletion_id: Status.CANCELLED}
    record = orchestrator.store.get(deletion_id)
    assert record.forced is None and not record.has_changes
    assert left(emulated, project) == images.eternal


@pytest.mark.parametrize(
    ("url", "may"),
    [
        (f"http://heat/v1/P/stacks/none/{base.NIL_UUID}/abandon", True),
        (f"http://heat/v1/P/stacks/none/{base.NIL_UUID}", True),
        ("http://heat/v1/P/stacks/web/0b6d2a9e-6d7c-4d44-a1b7-5f3f0a4f7c11/abandon", False),
        (f"http://heat/v1/P/stacks/web?x=/{base.NIL_UUID}/", False),
        (f"http://heat/v1/P/stacks/web{base.NIL_UUID}", False),
    ],
)
def test_a_check_writes_on_nothing_but_what_is_not_there(url, may):
    if may:
        only_on_nothing("DELETE", url)
    else:
        with pytest.raises(WriteRefused):
            only_on_nothing("DELETE", url)


# ------------------------------------------------------------------------------------ uses by others of what is inside
@pytest.mark.parametrize("keeps", [True, False], ids=["its contents stay", "with its contents"])
@pytest.mark.slow
def test_a_whole_is_abandoned_in_its_service_only_if_its_contents_stay(keeps, emulated, images, tmp_path):
    """As Heat abandons a stack with a network that another project uses."""
    project = emulated.projects[0]
    emulated.state.add("RegionOne", IMAGE, project)
    inside = emulated.state.add("RegionOne", SECRET, project).id
    orchestrator = Orchestrator(emulated, tmp_path, force={"attempts": 2, "patience": 2})
    composition = base.Composition(contains=lambda *_: [(SECRET, inside)])
    whole = {"force": base.ForcedDelete(images.force, keeps_contents=keeps), "composition": composition}
    part = {"used_by": (base.Use(("compute.server",), "leaves the server without its key", used),)}
    orchestrator.parts.registry = with_type(SECRET, with_type(IMAGE, **whole, protect=(), prepare=()), **part)
    orchestrator.parts.registry.register_options(orchestrator.parts.conf)
    with orchestrator:
        deletion_id = stuck(orchestrator, emulated, project)
        wholes = left(emulated, project)
        [one, *_] = orchestrator.store.leftovers(deletion_id, 100, None, {Reason.FOREIGN}, type="image")
        assert one.leftover.message.startswith(f"it contains {SECRET} {inside}: ")
        force(orchestrator, deletion_id, [IMAGE])
        assert orchestrator.wait([deletion_id]) == {deletion_id: Status.DELETED}
    assert set(images.forced) == (wholes if keeps else set())
    assert left(emulated, project) == (set() if keeps else wholes)
    assert inside in emulated.state.table("RegionOne", SECRET).owned[project]


# ------------------------------------------------------------------------------- uses by others that an admin overrules
USER = {"type": "compute.server", "id": "s1", "owner": "them"}


def used(_connection, _project, images):
    """Find that a server of another project uses each image."""
    return {one.id: base.Verdict(Reason.FOREIGN, "another project's server uses it", (USER,)) for one in images}


@pytest.mark.slow
def test_a_decision_on_the_use_of_one_resource_deletes_it_and_no_other(emulated, tmp_path):
    project, bystander = emulated.projects[0], emulated.bystanders[0]
    for _ in range(2):
        emulated.state.add("RegionOne", IMAGE, project)
    theirs = left(emulated, bystander)
    orchestrator = Orchestrator(emulated, tmp_path, force={"attempts": 2, "patience": 2})
    use = base.Use(("compute.server",), "leaves the server without its image", used)
    orchestrator.parts.registry = with_type(IMAGE, used_by=(use,), protect=())
    orchestrator.parts.registry.register_options(orchestrator.parts.conf)
    with orchestrator:
        deletion_id = stuck(orchestrator, emulated, project)
        before = left(emulated, project)
        chosen = min(before)
        [row] = orchestrator.store.leftovers(deletion_id, 1, None, {Reason.FOREIGN}, resource_id=chosen)
        call = f"force --although-used {IMAGE}:{chosen}"
        assert "openstack server delete s1" in row.leftover.remedy and call in row.leftover.remedy

        def decided(d):
            now, by = orchestrator.store.now(), ((USER["type"], USER["id"]),)
            uses = (UseDecision(f"{IMAGE}:{chosen}", by, "alice (ticket 4711)"),)
            asked = Force("ticket 4711", (), now, d.attempt, d.round, "u1", "alice", uses=uses, abandons=False)
            return dataclasses.replace(d, forced=asked, retry_now_at=now)

        change(orchestrator.store, deletion_id, decided, [Event("deletion.forced", "x")])
        orchestrator.parts.bus.decide(deletion_id)
        wait("the image is deleted", lambda: chosen not in left(emulated, project), LONG)
        assert left(emulated, project) == before - {chosen}
        assert left(emulated, bystander) == theirs
        events = [each.event for each in orchestrator.store.events(deletion_id, 1000)]
        told = [each for each in events if each.type == "resource.use_overruled"]
        assert told and all(each.data["resources"][0]["id"] == chosen for each in told)
        assert all(each.data["users"] == [{"type": "compute.server", "id": "s1"}] for each in told)
        assert all("alice (ticket 4711)" in each.message for each in told)
        assert orchestrator.store.get(deletion_id).status is Status.DELETING, "nothing is abandoned"
        assert not [each for each in events if each.type.startswith("force.")]
