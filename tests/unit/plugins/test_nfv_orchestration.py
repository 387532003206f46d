"""Tacker: a filter that is checked, tokens that do not show whose a package is, and instances that must stay."""

import types

import pytest

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome, Token
from cleanup_orchestrator.plugins.base import NIL_UUID
from cleanup_orchestrator.plugins.nfv_orchestration import SERVICE
from tests.support import sweeps
from tests.unit.answers import connection, project

TYPES = {type_.name: type_ for type_ in SERVICE.types}
INSTANCE, PACKAGE, V2, VIM = (TYPES[name] for name in ("vnf_instance", "vnf_package", "vnf_instance_v2", "vim"))


class Tacker:
    """Instances with their owners, packages of the project, instances of version 2, and what was asked for."""

    def __init__(self, instances=(), packages=(), v2=(), filters=True, page=0):
        self.instances = {id_: (owner, state) for id_, owner, state in instances}
        self.packages = {row["id"]: dict(row) for row in packages}
        self.v2 = sorted(v2, key=lambda row: row["id"])
        self.filters, self.page = filters, page

    def _instances(self, query):
        parts = dict(part.strip("()").split(",")[1:] for part in query["filter"].split(";"))
        return [
            {"id": id_, "vnfInstanceName": id_, "instantiationState": state}
            for id_, (owner, state) in self.instances.items()
            if not self.filters or (owner == parts["tenantId"] and parts.get("id", id_) == id_)
        ]

    def answer(self, method, path, query, body):
        collection, _, id_ = path.rpartition("/")
        if path == "/vnflcm/v1/vnf_instances":
            return 200, self._instances(query)
        if path == "/vnflcm/v2/vnf_instances":
            rows = [row for row in self.v2 if row["id"] > query.get("nextpage_opaque_marker", "")]
            return 200, rows[: self.page] if self.page else rows
        if path == "/vnfpkgm/v1/vnf_packages":
            return 200, list(self.packages.values())
        if collection == "/vnflcm/v1/vnf_instances" and method == "DELETE":
            del self.instances[id_]
            return 204, ""
        if method == "PATCH":
            self.packages[id_] |= body
        elif method == "DELETE":
            if self.packages[id_]["operationalState"] == "ENABLED":
                return 409, {"detail": "it is enabled"}
            del self.packages[id_]
            return 204, ""
        return 200, self.packages[id_]


def cloud(tacker, *roles):
    made = connection(nfv_orchestration=tacker.answer)
    made.session.auth = types.SimpleNamespace(get_access=lambda _: types.SimpleNamespace(role_names=list(roles)))
    return made


def package(id_, state="DISABLED", **more):
    return {"id": id_, "operationalState": state, **more}


@pytest.mark.parametrize("type_", [INSTANCE, VIM], ids=lambda type_: type_.name)
def test_without_the_role_admin_the_list_is_unknown(type_):
    made = cloud(Tacker(), "member")
    for one in (type_, type_.all_projects_view()):
        if one is not None:
            found = sweeps.inventory(one, made, project())
            assert (found.outcome, found.reason) == (Outcome.UNKNOWN, Reason.FORBIDDEN)
    assert made.nfv_orchestration.asked == []


def test_instances_are_believed_only_if_tacker_filters_by_project():
    """A row does not show its project."""
    rows = [("mine", "p", "NOT_INSTANTIATED"), ("foreign", "q", "NOT_INSTANTIATED")]
    found = sweeps.inventory(INSTANCE, cloud(Tacker(rows), "admin"), project())
    assert [left.id for left in found.leftovers] == ["mine"]
    found = sweeps.inventory(INSTANCE, cloud(Tacker(rows, filters=False), "admin"), project())
    assert (found.outcome, found.reason) == (Outcome.UNKNOWN, Reason.BAD_ANSWER)
    assert sweeps.inventory(INSTANCE, cloud(Tacker(), "admin"), project()).outcome is Outcome.CLEAR


def test_the_filter_is_checked_with_a_project_that_does_not_exist():
    asked = []

    def answer(method, path, query, body):
        asked.append(query["filter"])
        return 200, []

    made = cloud(Tacker(), "admin")
    made.nfv_orchestration.answer = answer
    sweeps.inventory(INSTANCE, made, project())
    assert asked == [f"(eq,tenantId,{NIL_UUID})", "(eq,tenantId,p)"]


def test_only_an_instance_that_is_not_instantiated_is_deleted_and_only_with_the_janitors_token():
    tacker = Tacker([("free", "p", "NOT_INSTANTIATED"), ("runs", "p", "INSTANTIATED")])
    ours, janitor = cloud(tacker, "admin"), cloud(tacker, "member")
    swept = sweeps.delete(INSTANCE, ours, project(), janitor=lambda: janitor)
    assert [(left.id, left.reason) for left in swept.leftovers] == [("runs", Reason.PROTECTED)]
    assert list(tacker.instances) == ["runs"]
    assert ours.nfv_orchestration.writes() == []
    assert [method for method, *_ in janitor.nfv_orchestration.writes()] == ["DELETE"]


def test_an_instance_that_changed_its_project_is_not_deleted():
    tacker = Tacker([("moved", "p", "NOT_INSTANTIATED")])
    ours = cloud(tacker, "admin")
    plain = tacker.answer

    def answer(method, path, query, body):
        found = plain(method, path, query, body)
        if found[1]:
            tacker.instances["moved"] = ("q", "NOT_INSTANTIATED")
        return found

    ours.nfv_orchestration.answer = answer
    swept = sweeps.delete(INSTANCE, ours, project(), janitor=lambda: cloud(tacker, "member"))
    assert swept.outcome is Outcome.CLEAR
    assert list(tacker.instances) == ["moved"]


@pytest.mark.parametrize("type_", [PACKAGE, V2], ids=lambda type_: type_.name)
def test_an_admins_token_does_not_show_whose_a_package_is(type_):
    tacker = Tacker(packages=[package("a", vnfdId="d")], v2=[{"id": "i", "vnfdId": "d"}])
    found = sweeps.inventory(type_, cloud(tacker, "admin", "member"), project())
    assert (found.outcome, found.reason) == (Outcome.UNKNOWN, Reason.FORBIDDEN)
    assert "[janitor]" in found.message and "[drain] project_role" in found.message
    assert type_.token is Token.MEMBER, "so it is listed with the janitor's token, where there is one"
    ignored = sweeps.inventory(type_, cloud(tacker, "admin"), project(sweep_packages=False))
    assert (ignored.outcome, ignored.found) == (Outcome.CLEAR, 0)
    assert sweeps.inventory(type_, cloud(Tacker(), "admin"), project()).outcome is Outcome.CLEAR, "there is none"


def test_a_package_is_disabled_and_deleted_with_the_janitors_token():
    tacker = Tacker(packages=[package("on", "ENABLED"), package("off")])
    ours, janitor = cloud(tacker, "member"), cloud(tacker, "member")
    swept = sweeps.delete(PACKAGE, ours, project(), janitor=lambda: janitor)
    assert (swept.outcome, swept.found) == (Outcome.CLEAR, 2)
    assert ours.nfv_orchestration.writes() == []
    assert [method for method, *_ in janitor.nfv_orchestration.writes()] == ["PATCH", "DELETE", "DELETE"]


@pytest.mark.parametrize("page", [0, 1, 2])
def test_instances_of_version_2_are_known_by_the_projects_packages_on_all_pages(page):
    v2 = [{"id": id_, "vnfdId": vnfd} for id_, vnfd in (("a", "mine"), ("b", "foreign"), ("c", "mine"), ("d", None))]
    tacker = Tacker(packages=[package("x", vnfdId="mine"), package("empty")], v2=v2, page=page)
    found = sweeps.inventory(V2, cloud(tacker, "member"), project())
    assert [(left.id, left.reason) for left in found.leftovers] == [("a", Reason.PROTECTED), ("c", Reason.PROTECTED)]


def test_pages_that_do_not_advance_are_unknown():
    made = cloud(Tacker(), "member")
    made.nfv_orchestration.answer = lambda *_: (200, [{"id": "a", "vnfdId": "d"}])
    found = sweeps.inventory(V2, made, project())
    assert (found.outcome, found.reason) == (Outcome.UNKNOWN, Reason.BAD_ANSWER)
