"""Tacker: whose instances and packages are is known only by the token, or by a filter that is checked."""

from __future__ import annotations

import uuid

import pytest

from cleanup_orchestrator.core.deletion import Mode, Status
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.plugins.nfv_orchestration import SERVICE
from tests.cloud.common import (  # noqa: F401
    Case,
    ids,
    test_a_caller_without_the_admin_role_never_sees_an_empty_project,
    test_a_list_of_all_projects_shows_what_each_has,
    test_an_inventory_finds_everything_and_changes_nothing,
    test_the_orchestrator_deletes_the_project_with_everything,
)
from tests.cloud.fillings.nfv_orchestration import SUBSCRIPTIONS, tacker
from tests.cloud.orchestrator import JANITOR

CLOUD = ("tacker",)
#: The orchestrator is an admin of the project, and the janitor is not.
OPTIONS = JANITOR
#: Tacker shows packages to a member of the project alone.
AS_MEMBER = ("vnf_instance_v2", "vnf_package")


def insert(sweeper, table, **values):
    names = ", ".join(f"`{name}`" for name in values)
    marks = ", ".join("?" for _ in values)
    sweeper.rows("tacker", f"INSERT INTO `{table}` ({names}) VALUES ({marks})", *values.values())


def vnfd(filled):
    """The id that the content of the project's first package would have."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, filled.project_id))


def make_instance(sweeper, filled, neighbour):
    """Write what Tacker's conductor would write for a package with content, and the API for an instance of it."""
    package, id_, made, never = filled.first("vnf package"), str(uuid.uuid4()), "2026-11-01", "0001-01-01"
    about = {"vnf_provider": "p", "vnf_product_name": "n", "vnf_software_version": "1", "vnfd_version": "1",
             "vnfd_id": vnfd(filled), "created_at": made}  # fmt: skip
    sql = "UPDATE vnf_packages SET onboarding_state='ONBOARDED', operational_state='ENABLED', usage_state='IN_USE'"
    sweeper.rows("tacker", f"{sql} WHERE id = ?", package)
    insert(sweeper, "vnf_package_vnfd", id=str(uuid.uuid4()), package_uuid=package, deleted="0", **about)
    insert(sweeper, "vnfd", id=vnfd(filled), tenant_id=filled.project_id, name="n", deleted_at=never)
    insert(sweeper, "vnf_instances", id=id_, tenant_id=filled.project_id, vnf_pkg_id=package, deleted=0,
           instantiation_state="NOT_INSTANTIATED", vim_connection_info="[]", vnf_metadata="{}", **about)  # fmt: skip
    insert(sweeper, "vnf", id=id_, tenant_id=filled.project_id, name="n", vnfd_id=vnfd(filled), status="INACTIVE",
           vim_id=filled.first("vim"), deleted_at=never)  # fmt: skip
    filled.note("vnf instance", id_)


CASE = Case(
    SERVICE,
    rows={
        "tacker.vims": 2, "tacker.vnf": 1, "tacker.vnf_instances": 1, "tacker.vnf_lcm_subscriptions": 2,
        "tacker.vnf_packages": 3,
    },
    found={"subscription": 2, "vnf_instance": 1, "vnf_instance_v2": 0, "vnf_package": 3, "vim": 2},
    kinds={"vnf_instance": ("vnf instance",), "vnf_package": ("vnf package",)},
    prepare=make_instance,
    refused=("vnf_instance", "vim"),
    views=("vim",),
)  # fmt: skip


def make_instance_of_version_2(sweeper, filled):
    id_ = str(uuid.uuid4())
    insert(sweeper, "VnfInstanceV2", id=id_, vnfdId=vnfd(filled), vnfProvider="p", vnfProductName="n",
           vnfSoftwareVersion="1", vnfdVersion="1", instantiationState="NOT_INSTANTIATED")  # fmt: skip
    return id_


@pytest.mark.parametrize("name", AS_MEMBER)
def test_an_admin_cannot_tell_whose_packages_are(name, projects, further_sweeper):
    target, neighbour = projects
    further_sweeper.enter(target)
    make_instance_of_version_2(further_sweeper, neighbour)
    inside = further_sweeper.connection(target.project_id)
    found = CASE.found_by(further_sweeper, target, name, inside)
    assert (found.outcome, found.reason) == (Outcome.UNKNOWN, Reason.FORBIDDEN)
    assert "[drain] project_role" in found.message and "sweep_packages" in found.message
    ignored = CASE.found_by(further_sweeper, target, name, inside, sweep_packages=False)
    assert (ignored.outcome, ignored.found) == (Outcome.CLEAR, 0)
    assert ids(CASE.found_by(further_sweeper, target, "vnf_instance_v2")) == set(), "it is of a neighbour's package"
    further_sweeper.rows("tacker", "DELETE FROM VnfInstanceV2")


def test_an_instance_of_version_2_is_named_and_left(projects, further_sweeper):
    """Version 2 records no project."""
    target, neighbour = projects
    mine, _ = (make_instance_of_version_2(further_sweeper, filled) for filled in (target, neighbour))
    found = CASE.found_by(further_sweeper, target, "vnf_instance_v2")
    assert [(left.id, left.reason) for left in found.leftovers] == [(mine, Reason.PROTECTED)]
    further_sweeper.rows("tacker", "DELETE FROM VnfInstanceV2")


def test_a_subscription_is_shown_and_deleted_only_with_a_token_of_its_project(projects, further_admin):
    """Although an admin is shown it in the list."""
    target, _ = projects
    rest, path = tacker(further_admin), f"{SUBSCRIPTIONS}/{target.first('subscription')}"
    assert target.first("subscription") in [row["id"] for row in rest.call("GET", SUBSCRIPTIONS)]
    for method in ("GET", "DELETE"):
        assert rest.raw(method, path, ok={404}).status_code == 404


def test_an_instance_that_is_instantiated_is_left_with_its_package_and_its_vim(projects, further_sweeper):
    target, _ = projects
    sql = "UPDATE vnf_instances SET instantiation_state = ? WHERE id = ?"
    further_sweeper.rows("tacker", sql, "INSTANTIATED", target.first("vnf instance"))
    swept = CASE.deleted_by(further_sweeper, target, "vnf_instance")
    assert [(left.id, left.reason) for left in swept.leftovers] == [(target.first("vnf instance"), Reason.PROTECTED)]
    assert "terminate it" in swept.leftovers[0].message
    swept = CASE.deleted_by(further_sweeper, target, "vim")
    assert ids(swept) == {target.first("vim")}, "Tacker refuses it while an instance uses it"
    further_sweeper.rows("tacker", sql, "NOT_INSTANTIATED", target.first("vnf instance"))


def test_with_the_janitors_token_tacker_deletes_nothing_of_another_project(projects, further_sweeper):
    target, neighbour = projects
    before = further_sweeper.dump_of(neighbour.project_id)
    rest = tacker(further_sweeper.janitor(target.project_id))
    for path in (f"/vnflcm/v1/vnf_instances/{neighbour.first('vnf instance')}",
                 f"/vnfpkgm/v1/vnf_packages/{neighbour.first('vnf package')}"):  # fmt: skip
        assert rest.raw("DELETE", path, ok={404}).status_code == 404
    assert further_sweeper.dump_of(neighbour.project_id) == before


def test_the_vims_of_a_project_that_keystone_has_deleted_are_found(another, further_sweeper):
    filled = another("orphan")
    further_sweeper.cloud.admin.call("DELETE", f"/projects/{filled.project_id}")
    listed = CASE.found_by(further_sweeper, filled, CASE.types["vim"].all_projects_view())
    assert ids(listed) == set(filled.ids["vim"])
    for name in ("vnf_instance", "vim"):
        swept = CASE.deleted_by(further_sweeper, filled, name, gone=True)
        assert (swept.outcome, swept.found) == (Outcome.CLEAR, CASE.found[name]), swept


def test_a_dry_run_has_no_token_of_the_janitor(orchestrator, another, further_sweeper):
    filled = another("dry")
    grants = further_sweeper.assignments(filled.project_id)
    dry = orchestrator.request(filled.project_id, Mode.CASCADE, dry_run=True)
    assert orchestrator.wait(dry, Status.PLANNED).drained_at is None
    steps = {name: orchestrator.step(dry, f"nfv-orchestration.{name}") for name in AS_MEMBER}
    assert {name: (step.outcome, step.reason) for name, step in steps.items()} == dict.fromkeys(
        AS_MEMBER, (Outcome.UNKNOWN, Reason.NO_PROJECT_TOKEN)
    )
    assert orchestrator.store.changes(dry) == () and further_sweeper.assignments(filled.project_id) == grants


def test_the_neighbour_still_sees_its_packages(projects, further_sweeper):
    neighbour = projects[1]
    found = CASE.found_by(further_sweeper, neighbour, "vnf_package")
    assert ids(found) == set(neighbour.ids["vnf package"])
