"""The survey and the coverage of the catalog, over a Keystone that answers from a table."""

import pytest
from oslo_config import cfg

from cleanup_orchestrator import coverage, survey
from cleanup_orchestrator.errors import BadAnswer
from cleanup_orchestrator.model import Kind, Outcome
from cleanup_orchestrator.plugins.base import ResourceType, Service
from cleanup_orchestrator.plugins.registry import Registry
from cleanup_orchestrator.projects import Protection
from tests.unit.world import deletion

PORT = ResourceType("port", list=lambda *_: (), delete=None)
VOLUME = ResourceType("volume", list=lambda *_: (), delete=None, after=("compute.server",))
TRUST = ResourceType("trust", list=lambda *_: (), delete=None, after=("*",))
ZONE = ResourceType("zone", list=lambda *_: (), delete=None)
REGISTRY = Registry(
    [
        Service("network", (PORT,)),
        Service("block-storage", (VOLUME,)),
        Service("dns", (ZONE,), regional=False),
        Service("identity", (TRUST,), regional=False),
    ]
)


class Keystone:
    """The adapter's ``get``, with one project and the given endpoints: (service type, region)."""

    def __init__(self, *endpoints, project=None, subtree=None, **cut):
        self.project = {"id": "p", "name": "P", "domain_id": "d", "enabled": True, **(project or {})}
        self.subtree, self.cut = subtree, cut
        types = sorted({t for t, _ in endpoints})
        self.services = [{"id": t, "type": t, "name": t} for t in types]
        self.endpoints = [{"id": f"{t}{r}", "service_id": t, "region_id": r} for t, r in endpoints]

    def get(self, path):
        if path == "/services":
            body = {"services": self.services, "truncated": self.cut.get("services", False)}
        elif path == "/endpoints":
            body = {"endpoints": self.endpoints, "truncated": self.cut.get("endpoints", False)}
        elif path.endswith("?subtree_as_ids"):
            body = {"project": {**self.project, "subtree": self.subtree}}
        elif path.startswith("/role_assignments"):
            scope = {"project": {"id": "p"}}
            body = {"role_assignments": [{"user": {"id": "u2"}, "role": {"id": "r"}, "scope": scope}]}
        else:
            body = {"project": self.project}
        return type("Answer", (), {"json": lambda _: body})()


def look(keystone, never=(), record=None, waivers=(), known=()):
    conf = cfg.ConfigOpts()
    for group, options in coverage.OPTS.items():
        conf.register_opts(options, group=group)
    conf([])
    names = {s.service_type: tuple(t.name for t in s.types) for s in REGISTRY.services.values()}
    covered = coverage.Coverage(conf, names)
    protection = Protection(tuple(never), lambda: "own")
    record = record or deletion(member_ids=("u1",))
    return survey.survey(record, keystone, REGISTRY, covered, protection, waivers, known)


def steps(found):
    return sorted((s.kind, s.region, s.name) for s in found.steps)


def test_every_type_in_every_region_and_identity_once():
    found = look(
        Keystone(("network", "R1"), ("network", "R2"), ("identity", "R1"), ("identity", "R2"), ("volumev3", "R2"))
    )
    assert steps(found) == [
        (Kind.SWEEP, "", "identity.trust"),
        (Kind.SWEEP, "R1", "network.port"),
        (Kind.SWEEP, "R2", "block-storage.volume"),
        (Kind.SWEEP, "R2", "network.port"),
    ]
    assert found.sweep.outcome is Outcome.CLEAR


def test_two_names_of_one_service_are_one():
    found = look(Keystone(("volumev2", "R1"), ("volumev3", "R1"), ("block-storage", "R1")))
    assert steps(found) == [(Kind.SWEEP, "", "identity.trust"), (Kind.SWEEP, "R1", "block-storage.volume")]


def test_identity_is_asked_though_the_catalog_has_it_not():
    assert (Kind.SWEEP, "", "identity.trust") in steps(look(Keystone(("network", "R1"))))


def test_what_nobody_answers_for_is_a_step_of_its_own_in_each_region():
    found = look(Keystone(("workflow", "R1"), ("workflow", "R2"), ("made-up", "R1"), ("placement", "R1")))
    assert [s for s in steps(found) if s[0] is Kind.UNCOVERED] == [
        (Kind.UNCOVERED, "R1", "made-up."),
        (Kind.UNCOVERED, "R1", "workflow."),
        (Kind.UNCOVERED, "R2", "workflow."),
    ]
    assert all(s.reason == "no_plugin" for s in found.steps if s.kind is Kind.UNCOVERED)


def test_members_that_were_seen_are_never_forgotten():
    assert look(Keystone(("network", "R1"))).member_ids == ("u1", "u2")


@pytest.mark.parametrize(
    ("keystone", "never", "reason"),
    [
        (Keystone(("network", "R1"), project={"is_domain": True}), (), "project_is_domain"),
        (Keystone(("network", "R1"), subtree={"c1": {"c2": None}}), (), "project_has_children"),
        (Keystone(("network", "R1")), ("p",), "project_protected"),
        (Keystone(("network", "R1"), project={"name": "Admin"}), ("admin",), "project_protected"),
        (Keystone(("network", "R1"), project={"options": {"immutable": True}}), (), "project_immutable"),
    ],
)
def test_what_must_not_be_deleted_is_said_before_anything_is_touched(keystone, never, reason):
    found = look(keystone, never)
    assert (found.sweep.outcome, found.sweep.reason, found.steps) == (Outcome.UNKNOWN, reason, ())


def test_all_children_are_named():
    message = look(Keystone(("network", "R1"), subtree={"c1": {"c2": None}, "c3": None})).sweep.message
    assert all(child in message for child in ("c1", "c2", "c3"))


@pytest.mark.parametrize("cut", ["services", "endpoints"])
def test_a_catalog_that_was_cut_short_is_no_catalog(cut):
    with pytest.raises(BadAnswer):
        look(Keystone(("network", "R1"), **{cut: True}))


def test_an_answer_about_another_project_is_not_taken():
    with pytest.raises(BadAnswer):
        look(Keystone(("network", "R1"), project={"id": "other"}))
