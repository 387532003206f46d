"""What other projects use is left, before anything of it is changed; see ``ResourceType.used_by``."""

from __future__ import annotations

import dataclasses
import threading
import types

import pytest

from cleanup_orchestrator.core import storable
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.errors import Stopped
from cleanup_orchestrator.plugins.base import (
    Composition,
    ForcedDelete,
    OneByOne,
    ProjectDefinition,
    Refused,
    ResourceType,
    Use,
    Verdict,
)
from cleanup_orchestrator.worker.sweep import deleting
from cleanup_orchestrator.worker.sweep.context import OtherType
from tests.support import sweeps

US = ProjectDefinition("us", "Us", "default", "R1")
FOREIGN = Verdict(Reason.FOREIGN, "another project uses it")


class Service:
    """A service whose resources others use; it notes what it is told."""

    def __init__(self, *ids, used=(), fails=None):
        self.ids, self.used, self.fails = list(ids), set(used), fails
        self.asked, self.changed, self.threads = [], [], set()

    def find(self, _connection, _project, resources):
        """Find the uses of several resources at once."""
        self.asked.append([one.id for one in resources])
        self.threads.add(threading.current_thread())
        if self.fails is not None:
            raise self.fails
        return {one.id: FOREIGN for one in resources if one.id in self.used}

    def check(self, connection, project, resource):
        return self.find(connection, project, [resource]).get(resource.id)

    def act(self, what):
        return lambda _connection, _project, resource: self.changed.append((what, resource.id))

    def delete(self, _connection, _project, resource):
        self.changed.append(("delete", resource.id))
        self.ids.remove(resource.id)

    def type(self, find, **more):
        return ResourceType(
            "thing",
            list=lambda *_: [{"id": id_, "name": id_, "project_id": "us", "to": more.get("to", {}).get(id_, [])}
                             for id_ in self.ids],
            delete=self.delete,
            show=lambda _c, _p, resource: resource.data,
            prepare=(self.act("prepare"),),
            force=ForcedDelete(self.act("force")),
            used_by=(Use(("other.gadget",), "breaks it", find),),
            refers_to=(lambda resource: resource.data["to"]) if "to" in more else None,
        )  # fmt: skip


def deleted(service, find, **options):
    types = {key: options.pop(key) for key in ("to",) if key in options}
    return sweeps.delete(service.type(find, **types), None, US, name="network.thing", **options)


def left(result):
    return {one.id: one.reason for one in result.leftovers}


@pytest.mark.parametrize("parallel", [1, 4])
@pytest.mark.parametrize("kind", ["together", "one by one"])
def test_what_is_used_is_left_and_nothing_of_it_is_changed(kind, parallel):
    service = Service("a", "b", "c", used={"b"})
    find = service.find if kind == "together" else OneByOne(service.check)
    told = []
    result = deleted(service, find, parallel=parallel, record_intent=lambda found: told.extend(r.id for r in found))
    assert (left(result), service.ids) == ({"b": Reason.FOREIGN}, ["b"])
    assert {id_ for _, id_ in service.changed} == {"a", "c"}
    assert sorted(told) == ["a", "c"], "the journal does not announce the delete of what is left"
    assert len(service.asked) == (1 if kind == "together" else 3)


def test_force_does_not_touch_what_others_use():
    service = Service("a", "b", used={"b"})
    result = deleted(service, service.find, stuck={"a", "b"})
    assert service.changed == [("force", "a")]
    assert left(result)["b"] is Reason.FOREIGN


@pytest.mark.parametrize("keeps", [True, False])
@pytest.mark.parametrize("used", [True, False], ids=["used itself", "not used itself"])
def test_force_that_keeps_what_a_whole_contains_needs_no_look_at_it(keeps, used):
    """A stack is abandoned although another project uses its network: the network stays, and is then left by itself."""
    service = Service("a", "b", used={"b"} if used else ())
    part = ResourceType(
        "part",
        list=lambda *_: [],
        delete=None,
        show=lambda *_: {"id": "x", "project_id": "us"},
        used_by=(),
        protect=(lambda *_: "it is protected",),
    )
    connected = types.SimpleNamespace(config=types.SimpleNamespace(get_session_endpoint=lambda _: "http://there"))
    other = OtherType("network.part", part, connected, US)
    whole = dataclasses.replace(
        service.type(service.find),
        composition=Composition(contains=lambda *_: [("network.part", "x")]),
        force=ForcedDelete(service.act("force"), keeps_contents=keeps),
    )
    result = sweeps.delete(whole, None, US, stuck={"b"}, find_type={"network.part": other}.get)
    forced = keeps and not used
    assert service.changed == ([("force", "b")] if forced else [])
    assert left(result)["a"] is Reason.PROTECTED, "its ordinary delete would delete the part"
    assert forced or left(result)["b"] in (Reason.FOREIGN, Reason.PROTECTED)


@pytest.mark.parametrize("kind", ["together", "one by one"])
def test_what_cannot_be_read_is_left(kind):
    service = Service("a", "b", fails=RuntimeError("Octavia is away"))
    result = deleted(service, service.find if kind == "together" else OneByOne(service.check))
    assert (service.changed, set(left(result))) == ([], {"a", "b"})
    assert all("could not be read" in one.message and "Octavia is away" in one.message for one in result.leftovers)
    # The remedy of the reason would be to waive the service of the resource, whose things then stay.
    assert all("ignored_uses = network.thing:other.gadget" in one.remedy for one in result.leftovers)
    assert "ignored_uses" in result.remedy


def test_a_plan_with_a_use_that_cannot_be_read_is_unknown():
    service = Service("a", fails=RuntimeError("Octavia is away"))
    result = sweeps.inventory(service.type(service.find), None, US, foresee=True, name="network.thing")
    assert (result.outcome, result.reason) == (Outcome.UNKNOWN, Reason.ERROR)
    assert "Octavia is away" in result.message
    assert "ignored_uses = network.thing:other.gadget" in result.remedy


def test_a_cancel_while_the_uses_are_read_ends_the_sweep():
    service = Service("a", fails=Stopped("cancelled"))
    result = deleted(service, service.find)
    assert (service.changed, result.reason) == ([], "stopped")


def test_a_hundred_at_a_time_are_asked_about_right_before_their_deletes():
    service = Service(*(f"r{number:03}" for number in range(250)), used={"r240"})
    result = deleted(service, service.find)
    assert [len(part) for part in service.asked] == [100, 100, 50]
    assert left(result) == {"r240": Reason.FOREIGN}


@pytest.mark.parametrize("parallel", [1, 3])
@pytest.mark.parametrize(("fresh", "stays"), [(60.0, False), (-1.0, True)], ids=["read just now", "read long ago"])
def test_uses_that_were_read_long_ago_are_read_once_more(fresh, stays, parallel, monkeypatch):
    """Another project begins to use a resource while those before it are deleted."""
    monkeypatch.setattr(deleting, "FRESH", fresh)
    service = Service("a", "b")

    def find(*args):
        found = service.find(*args)
        service.used = {"b"}
        return found

    result = deleted(service, find, parallel=parallel)
    assert (left(result) == {"b": Reason.FOREIGN}) is (service.ids == ["b"]) is stays
    assert {id_ for _, id_ in service.changed} == ({"a"} if stays else {"a", "b"})


def test_uses_are_as_old_as_the_beginning_of_their_reading(monkeypatch):
    """A long read: another project begins to use what was read first."""
    now = [0.0]
    monkeypatch.setattr(deleting, "time", types.SimpleNamespace(monotonic=lambda: now[0]))
    service = Service("a")

    def find(*args):
        found = service.find(*args)
        service.used = {"a"}
        now[0] += deleting.FRESH + 1
        return found

    assert left(deleted(service, find)) == {"a": Reason.FOREIGN}
    assert service.changed == []


@pytest.mark.parametrize("parallel", [1, 3])
def test_what_a_used_resource_refers_to_is_not_waited_for(parallel):
    """A delete waits until what refers to its resource was tried. What is left because of a use counts as tried."""
    service = Service("base", "tip", used={"tip"})
    ended = threading.Event()

    def run():
        deleted(service, service.find, parallel=parallel, to={"tip": ["base"]})
        ended.set()

    threading.Thread(target=run, daemon=True).start()
    assert ended.wait(10)
    assert "tip" in service.ids


@pytest.mark.parametrize("stuck", [(), {"base", "middle"}], ids=["ordinary", "by force"])
@pytest.mark.parametrize("parallel", [1, 4])
def test_what_a_used_resource_refers_to_stays_with_it(parallel, stuck):
    """Trove deletes the increments of a backup with it, also those of other projects."""
    service = Service("base", "middle", "tip", "free", used={"tip"})
    to = {"tip": ["middle"], "middle": ["base"]}
    result = deleted(service, service.find, parallel=parallel, to=to, stuck=stuck)
    assert left(result) == dict.fromkeys(("base", "middle", "tip"), Reason.FOREIGN)
    assert {id_ for _, id_ in service.changed} == {"free"}
    assert all("refers to it, and stays" in one.message for one in result.leftovers if one.id != "tip")


IGNORED = [
    ((), True),
    (("network.thing:other.gadget",), False),
    (("network.thing:other.widget",), True),
    (("image.thing:other.gadget",), True),
]


@pytest.mark.parametrize(("ignored", "stays"), IGNORED, ids=str)
def test_a_use_that_the_operator_ignores_prevents_no_delete(ignored, stays):
    service = Service("a", used={"a"})
    result = deleted(service, service.find, ignored_uses=frozenset(ignored))
    assert (service.ids == ["a"]) is stays is bool(left(result))


def test_a_use_by_several_types_is_ignored_if_each_of_them_is():
    service = Service("a", used={"a"})
    type_ = service.type(service.find)
    two = dataclasses.replace(type_.used_by[0], by=("other.gadget", "other.widget"))
    type_ = dataclasses.replace(type_, used_by=(two,))
    names = [f"network.thing:{name}" for name in two.by]
    for ignored, stays in ((names[:1], True), (names, False)):
        sweeps.delete(type_, None, US, name="network.thing", ignored_uses=frozenset(ignored))
        assert (service.ids == ["a"]) is stays


def test_a_check_may_refuse_as_well():
    def refuse(*_args):
        raise Refused(FOREIGN)

    service = Service("a")
    assert left(deleted(service, OneByOne(refuse))) == {"a": Reason.FOREIGN}


@pytest.mark.parametrize(
    ("find", "foresee", "reason"),
    [
        ("a", None, Reason.FOREIGN),
        ("a", "", Reason.PRESENT),
        (None, "a", Reason.FOREIGN),
        (None, None, Reason.PRESENT),
    ],
    ids=str,
)
def test_a_plan_says_what_a_cascade_would_leave(find, foresee, reason):
    """``find`` and ``foresee``: the ids that each finds; ``None``: there is no such hook."""
    hooks = [None if ids is None else Service(used=ids).find for ids in (find, foresee)]
    service = Service("a")
    type_ = dataclasses.replace(service.type(None), used_by=(Use(("other.gadget",), "breaks it", *hooks),))
    said = {one.id: one.reason for one in sweeps.inventory(type_, None, US, foresee=True).leftovers}
    assert (said, service.changed) == ({"a": reason}, [])


OWN = Verdict(Reason.IN_USE, "the project itself uses it")


def used_by_both(type_):
    """A type that the project itself uses in one way, and another project in another way."""
    uses = (
        Use(("x.y",), "is refused", foresee=OneByOne(lambda *_: OWN)),
        Use(("x.z",), "harms it", Service(used="a").find),
    )
    return dataclasses.replace(type_, used_by=uses)


def test_a_plan_sees_the_use_by_others_behind_that_by_the_project_itself():
    """The project's own use ends before the delete, which is then refused."""
    [planned] = sweeps.inventory(used_by_both(Service("a").type(None)), None, US, foresee=True).leftovers
    assert planned.reason is Reason.FOREIGN


def test_a_whole_is_left_for_the_use_by_others_behind_that_by_the_project_itself():
    part = used_by_both(
        ResourceType("part", list=lambda *_: [], delete=None, show=lambda *_: {"id": "a", "project_id": "us"})
    )
    connected = types.SimpleNamespace(config=types.SimpleNamespace(get_session_endpoint=lambda _: "http://there"))
    service = Service("stack")
    whole = dataclasses.replace(
        service.type(None), used_by=(), composition=Composition(contains=lambda *_: [("network.part", "a")])
    )
    find_type = {"network.part": OtherType("network.part", part, connected, US)}.get
    assert left(sweeps.delete(whole, None, US, find_type=find_type)) == {"stack": Reason.FOREIGN}
    assert service.changed == []


#: (users that a verdict names, users that an admin decided on, another reason, whether it is deleted)
OVERRULED = [
    (("f1",), ("f1",), None, True),
    (("f1", "f2"), ("f1", "f2", "f3"), None, True),
    (("f1", "f2"), ("f1",), None, False),  # f2 came after the decision
    (("f1",), (), None, False),
    ((), ("f1",), None, False),  # what it is used by is not known
    (tuple(f"f{n}" for n in range(50)), tuple(f"f{n}" for n in range(50)), None, False),  # there may be more
    (("f1",), ("f1",), Reason.PROTECTED, False),
    (("f1",), ("f1",), Reason.IN_USE, False),
]


def used_by(*users, reason=Reason.FOREIGN):
    return Verdict(reason, "it is used", tuple({"type": "x.y", "id": one, "owner": "them"} for one in users))


def decision(*users, of="network.thing:a"):
    return {of: frozenset(("x.y", one) for one in users)} if users else {}


@pytest.mark.parametrize(("users", "decided", "reason", "goes"), OVERRULED, ids=str)
@pytest.mark.parametrize("kind", ["together", "one by one"])
def test_an_admin_decides_on_the_uses_of_one_resource(users, decided, reason, goes, kind):
    service, harmed = Service("a", "b"), []
    verdict = used_by(*users, reason=reason or Reason.FOREIGN)
    together = lambda _c, _p, resources: {one.id: verdict for one in resources}  # noqa: E731
    find = together if kind == "together" else OneByOne(lambda *_: verdict)
    result = deleted(service, find, decided_uses=decision(*decided), record_harm=harmed.extend)
    assert service.ids == (["b"] if goes else ["a", "b"]), "a decision is about one resource"
    assert [(one.id, said) for one, said in harmed] == ([("a", [verdict])] if goes else [])
    assert left(result)["b"] is verdict.reason


@pytest.mark.parametrize("id_", ["a\0", "a" * 600])
def test_a_decision_names_the_resource_by_its_stored_id(id_):
    service = Service(id_)
    decided = decision("f1", of=f"network.thing:{storable.resource_id(id_)}")
    deleted(service, lambda *_: {id_: used_by("f1")}, decided_uses=decided)
    assert service.ids == []


def test_the_decision_on_one_use_is_none_on_another_use_of_the_resource():
    service, harmed = Service("a"), []
    first, second = ((lambda *_, user=user: used_by(user)) for user in ("f1", "f2"))
    uses = tuple(Use(("x.y",), "harms it", OneByOne(check)) for check in (first, second))
    type_ = dataclasses.replace(service.type(None), used_by=uses)
    for decided, stays in ((("f1",), True), (("f1", "f2"), False)):
        options = {"decided_uses": decision(*decided), "record_harm": harmed.extend}
        result = sweeps.delete(type_, None, US, name="network.thing", **options)
        assert (service.ids == ["a"]) is stays
        assert [b["id"] for one in result.leftovers for b in one.blocked_by] == (["f2"] if stays else [])
        assert bool(harmed) is not stays, "nothing is noted as harmed of what is left"


@pytest.mark.parametrize(("owner", "reason"), [("them", Reason.OWNER_UNKNOWN), ("", Reason.BAD_ANSWER)])
def test_no_decision_deletes_what_is_another_projects(owner, reason):
    service = Service("a")
    type_ = dataclasses.replace(
        service.type(lambda *_: {"a": used_by("f1")}),
        show=lambda _c, _p, resource: {**resource.data, "project_id": owner},
    )
    result = sweeps.delete(type_, None, US, name="network.thing", decided_uses=decision("f1"))
    assert (left(result), service.changed) == ({"a": reason}, [])


def test_a_use_that_cannot_be_read_is_not_overruled():
    service = Service("a", fails=RuntimeError("Octavia is away"))
    result = deleted(service, service.find, decided_uses=decision("f1"))
    assert (service.ids, left(result)) == (["a"], {"a": Reason.ERROR})


def test_what_the_service_refuses_stays_refused():
    service = Service("a")

    def refuse(*_args):
        raise Refused(used_by("f1"))

    type_ = dataclasses.replace(service.type(lambda *_: {"a": used_by("f1")}), delete=refuse)
    result = sweeps.delete(type_, None, US, name="network.thing", decided_uses=decision("f1"))
    assert left(result) == {"a": Reason.FOREIGN}


@pytest.mark.parametrize(
    ("declared", "ignored", "remark"),
    [
        ({}, (), "may be refused: its service decides, if another project's other.gadget uses it"),
        ({"foresee": Service().find}, (), ""),
        ({"find": Service().find}, (), ""),
        ({"unseen": "no call shows it"}, (), ""),
        ({}, ("network.thing:other.gadget",), ""),
    ],
    ids=["refused", "foreseen", "looked for", "not shown", "ignored"],
)
def test_a_plan_says_where_the_service_alone_knows_the_uses(declared, ignored, remark):
    type_ = dataclasses.replace(Service("a").type(None), used_by=(Use(("other.gadget",), "is refused", **declared),))
    options = {"name": "network.thing", "ignored_uses": frozenset(ignored)}
    [planned] = sweeps.inventory(type_, None, US, foresee=True, **options).leftovers
    assert (planned.reason, planned.message) == (Reason.PRESENT, remark)
    [listed] = sweeps.inventory(type_, None, US, **options).leftovers
    assert listed.message == "", "only a plan says it"
