"""Tacker: whose instances and packages are is known only by the token, or by a filter that is checked."""

from __future__ import annotations

import dataclasses
import uuid

import pytest

from cleanup_orchestrator.core.deletion import Mode, Status
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.plugins.nfv_orchestration import SERVICE
from tests.cloud.filler import fill
from tests.cloud.fillings.nfv_orchestration import SUBSCRIPTIONS, tacker
from tests.cloud.orchestrator import JANITOR, Orchestrator
from tests.support import sweeps

CLOUD = ("tacker",)
TYPES = {type_.name: type_ for type_ in SERVICE.types}
ROWS = {"tacker.vims": 2, "tacker.vnf": 1, "tacker.vnf_instances": 1, "tacker.vnf_lcm_subscriptions": 2,
        "tacker.vnf_packages": 3}  # fmt: skip
#: What the types find in a filled project.
FOUND = {"subscription": 2, "vnf_instance": 1, "vnf_instance_v2": 0, "vnf_package": 3, "vim": 2}
#: Tacker shows packages to a member of the project alone.
AS_MEMBER = {"vnf_package", "vnf_instance_v2"}


def alive(sweeper, filled):
    return sweeper.live(filled.project_id, "tacker.")


def insert(sweeper, table, **values):
    names = ", ".join(f"`{name}`" for name in values)
    marks = ", ".join("?" for _ in values)
    sweeper.rows("tacker", f"INSERT INTO `{table}` ({names}) VALUES ({marks})", *values.values())


def vnfd(filled):
    """The id that the content of the project's first package would have."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, filled.project_id))


def make_instance(sweeper, filled):
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
    return filled


@pytest.fixture(scope="module")
def projects(projects, further_sweeper):
    """Both have an instance of a package with content."""
    return tuple(make_instance(further_sweeper, filled) for filled in projects)


def found_by(sweeper, filled, type_, connection=None, **options):
    """Return the inventory with the token that finds the most."""
    definition = sweeper.definition(SERVICE, filled, **options)
    if connection is None:
        sweeper.enter(filled)
        outside = sweeper.connection(filled.project_id if type_.name == "subscription" else None)
        connection = sweeper.janitor(filled.project_id) if type_.name in AS_MEMBER else outside
    return sweeps.inventory(type_, connection, definition)


def delete(sweeper, filled, **options):
    """Delete each type in its order, with such tokens."""
    swept = {}
    for name in FOUND:
        type_, definition = TYPES[name], sweeper.definition(SERVICE, filled, **options)
        sweeper.enter(filled)
        outside = sweeper.connection(filled.project_id if name == "subscription" else None, write=True)
        connection = sweeper.janitor(filled.project_id) if name in AS_MEMBER else outside
        swept[name] = sweeps.delete(
            type_, connection, definition, janitor=lambda: sweeper.janitor(filled.project_id)
        )  # fmt: skip
    return swept


def ids(found):
    return {left.id for left in found.leftovers}


def test_an_inventory_finds_everything_and_changes_nothing(projects, further_sweeper):
    target, _ = projects
    further_sweeper.enter(target)
    further_sweeper.janitor(target.project_id)
    before = further_sweeper.dump("tacker", "keystone")
    found = {name: ids(found_by(further_sweeper, target, TYPES[name])) for name in FOUND}
    assert further_sweeper.dump("tacker", "keystone") == before
    assert found == {name: set(target.ids.get(name.replace("_", " "), ())) for name in FOUND}
    assert {name: len(each) for name, each in found.items()} == FOUND
    assert alive(further_sweeper, target) == ROWS


@pytest.mark.parametrize("name", ["vnf_instance", "vim"])
def test_a_caller_without_the_admin_role_never_sees_an_empty_project(name, projects, further_sweeper):
    """Tacker answers with what the caller's project has."""
    target, neighbour = projects
    found = found_by(further_sweeper, target, TYPES[name], neighbour.connection)
    assert (found.outcome, found.reason) == (Outcome.UNKNOWN, Reason.FORBIDDEN)


@pytest.mark.parametrize("name", sorted(AS_MEMBER))
def test_an_admin_cannot_tell_whose_packages_are(name, projects, further_sweeper):
    target, neighbour = projects
    further_sweeper.enter(target)
    insert(further_sweeper, "VnfInstanceV2", id=str(uuid.uuid4()), vnfdId=vnfd(neighbour), vnfProvider="p",
           vnfProductName="n", vnfSoftwareVersion="1", vnfdVersion="1",
           instantiationState="NOT_INSTANTIATED")  # fmt: skip
    inside = further_sweeper.connection(target.project_id)
    found = found_by(further_sweeper, target, TYPES[name], inside)
    assert (found.outcome, found.reason) == (Outcome.UNKNOWN, Reason.FORBIDDEN)
    assert "[drain] project_role" in found.message and "sweep_packages" in found.message
    ignored = found_by(further_sweeper, target, TYPES[name], inside, sweep_packages=False)
    assert (ignored.outcome, ignored.found) == (Outcome.CLEAR, 0)
    assert ids(found_by(further_sweeper, target, TYPES["vnf_instance_v2"])) == set(), "it is of a neighbour's package"
    further_sweeper.rows("tacker", "DELETE FROM VnfInstanceV2")


def test_an_instance_of_version_2_is_named_and_left(projects, further_sweeper):
    """Version 2 records no project."""
    target, neighbour = projects
    mine, theirs = str(uuid.uuid4()), str(uuid.uuid4())
    for id_, filled in ((mine, target), (theirs, neighbour)):
        insert(further_sweeper, "VnfInstanceV2", id=id_, vnfdId=vnfd(filled), vnfProvider="p", vnfProductName="n",
               vnfSoftwareVersion="1", vnfdVersion="1", instantiationState="NOT_INSTANTIATED")  # fmt: skip
    found = found_by(further_sweeper, target, TYPES["vnf_instance_v2"])
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
    definition = further_sweeper.definition(SERVICE, target)
    swept = sweeps.delete(TYPES["vnf_instance"], further_sweeper.connection(write=True), definition)
    assert [(left.id, left.reason) for left in swept.leftovers] == [(target.first("vnf instance"), Reason.PROTECTED)]
    assert "terminate it" in swept.leftovers[0].message
    swept = sweeps.delete(TYPES["vim"], further_sweeper.connection(write=True), definition)
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


def test_everything_is_deleted_and_the_neighbour_keeps_all(projects, further_sweeper):
    target, neighbour = projects
    theirs = further_sweeper.dump_of(neighbour.project_id)
    swept = delete(further_sweeper, target)
    assert {name: (result.outcome, result.found) for name, result in swept.items()} == {
        name: (Outcome.CLEAR, number if name != "vim" else 1) for name, number in FOUND.items()
    }, "a test above has deleted the other VIM"
    assert alive(further_sweeper, target) == {}
    assert alive(further_sweeper, neighbour) == ROWS
    assert further_sweeper.dump_of(neighbour.project_id) == theirs


def test_the_vims_of_a_project_that_keystone_has_deleted_are_found(further_admin, further_sweeper):
    filled = make_instance(further_sweeper, fill(further_admin, "nfv-orphan", only=["nfv-orchestration"]))
    further_sweeper.cloud.admin.call("DELETE", f"/projects/{filled.project_id}")
    definition = dataclasses.replace(further_sweeper.definition(SERVICE, filled), gone=True)
    listed = found_by(further_sweeper, filled, TYPES["vim"].all_projects_view(), further_sweeper.connection())
    assert ids(listed) == set(filled.ids["vim"])
    for name in ("vnf_instance", "vim"):
        swept = sweeps.delete(TYPES[name], further_sweeper.connection(write=True), definition)
        assert (swept.outcome, swept.found) == (Outcome.CLEAR, FOUND[name]), swept


@pytest.fixture(scope="module")
def orchestrator(further_cloud, tmp_path_factory):
    """With the default options and a janitor: the orchestrator is an admin of the project, and the janitor is not."""
    made = Orchestrator(further_cloud, tmp_path_factory.mktemp("orchestrator"), JANITOR)
    yield made
    made.running.close()


def found_of_members(orchestrator, deletion):
    """Return what the steps with the janitor's token found, or why they found nothing."""
    steps = {name: orchestrator.step(deletion, f"nfv-orchestration.{name}") for name in AS_MEMBER}
    return {name: step.reason if step.outcome is Outcome.UNKNOWN else step.found for name, step in steps.items()}


def test_the_orchestrator_deletes_the_project_with_everything(orchestrator, projects, further_admin, further_sweeper):
    _, neighbour = projects
    filled = make_instance(further_sweeper, fill(further_admin, "nfv-whole", only=["nfv-orchestration"]))
    grants, theirs = further_sweeper.assignments(filled.project_id), further_sweeper.dump_of(neighbour.project_id)
    dry = orchestrator.request(filled.project_id, Mode.CASCADE, dry_run=True)
    assert orchestrator.wait(dry, Status.PLANNED).drained_at is None
    assert found_of_members(orchestrator, dry) == dict.fromkeys(AS_MEMBER, Reason.NO_PROJECT_TOKEN)
    assert orchestrator.store.changes(dry) == () and further_sweeper.assignments(filled.project_id) == grants
    report = orchestrator.run(filled.project_id, Mode.REPORT, Status.LEFTOVERS)
    assert found_of_members(orchestrator, report) == {"vnf_package": 3, "vnf_instance_v2": 0}
    assert alive(further_sweeper, filled) == ROWS
    assert further_sweeper.assignments(filled.project_id) == grants, "the janitor's role is taken back"
    deletion = orchestrator.run(filled.project_id, Mode.CASCADE, Status.DELETED)
    assert alive(further_sweeper, filled) == {}
    assert further_sweeper.dump_of(neighbour.project_id) == theirs
    assert ids(found_by(further_sweeper, neighbour, TYPES["vnf_package"])) == set(neighbour.ids["vnf package"])
    assert {line for line in orchestrator.deleted(deletion) if line.startswith("nfv-")} == {
        f"nfv-orchestration.{name}: {number} gone" for name, number in FOUND.items() if number
    }
