"""Tacker: VNF instances, packages, VIMs, and subscriptions of version 1 of the interface for VNF life cycles.

Tacker shows VIMs with their project, and everything else without. Instances and subscriptions can be filtered by
project, packages cannot. Callers without the role admin see only what belongs to the project of their token. An admin
sees the packages of all projects, also with a token of one project, and cannot tell whose they are. So packages, and
instances of version 2, are listed with the janitor's token.

Version 2 of the interface, fault management and performance management record no project at all. Every user sees and
deletes all that is there. Subscriptions, jobs and thresholds of these interfaces stay.

The delete of an instance or a package goes from Tacker's API to its conductor, together with the token of the request.
The conductor runs Python code of packages in its process, when an instance is made, scaled or healed. So both are
deleted with the janitor's token. Tacker compares the project of this token with that of the object.

An instance that is instantiated is left. To terminate it, Tacker logs in to its VIM as the user who is stored there.
That fails while this project is locked if the VIM is this project. The instance would then stay, with a failed
operation.

This was tested with Tacker's API. A conductor, and instances in a VIM, were not met. With ``[oslo_policy]
enhanced_tacker_policy`` Tacker leaves out of its lists what a caller has no role for. Do not use this plugin then.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from oslo_config import cfg

from cleanup_orchestrator.plugins.base import (
    BODY,
    NIL_UUID,
    REFUSED,
    SCOPED,
    BadAnswer,
    Collection,
    ProjectDefinition,
    Resource,
    ResourceType,
    Row,
    Service,
    Token,
    Use,
    exceptions,
)

if TYPE_CHECKING:
    from openstack.connection import Connection

TYPE = "nfv-orchestration"

OPTIONS = (
    cfg.BoolOpt(
        "sweep_packages",
        default=True,
        help="Look for the project's VNF packages, and for VNF instances of version 2 of the interface that were made "
        "from them. Tacker does not show to a token with the role admin whose a package is. Therefore they are listed "
        "with the janitor's token. Without a janitor, and in a dry run, the token of the orchestrator's user is used. "
        "If this user is an admin of the project, and if there is any package or such an instance in the cloud, these "
        "types are then unknown. Without a janitor no project can then be deleted. Without this option the packages "
        "and instances stay, and no report names them.",
    ),
)

#: Without it Tacker makes pages, and names the next one in a header.
_ALL = {"all_records": "yes"}
_RUNS_CODE = (
    "the Python code of packages, which Tacker's conductor runs in its process. The conductor gets the context of the "
    "request, with its token"
)
_VIM_ATTRIBUTES = {"fields": ["id", "name", "tenant_id", "type"]}  #: and not the credentials


def _collection(path: str, key: str = BODY, **declared: Any) -> Collection:
    """Return a collection whose path begins with the interface and its version."""
    return Collection(TYPE, path, key=key, from_root=True, **declared)


def _of(project_id: str) -> dict[str, str]:
    """Return the query for everything of one project."""
    return {**_ALL, "filter": f"(eq,tenantId,{project_id})"}


_INSTANCES = _collection("/vnflcm/v1/vnf_instances")
_PACKAGES = _collection("/vnfpkgm/v1/vnf_packages", all_query=_ALL)
_SUBSCRIPTIONS = _collection("/vnflcm/v1/subscriptions", own_query=_of("{project_id}"))
_VIMS = _collection("/v1.0/vims", "vims", all_query=_VIM_ATTRIBUTES)


def _is_admin(connection: Connection) -> bool:
    """Return whether the token has the role by which Tacker knows an admin."""
    roles = connection.session.auth.get_access(connection.session).role_names
    return "admin" in {str(role).lower() for role in roles}


def _expect_admin(connection: Connection) -> None:
    """Check that Tacker shows the token what belongs to all projects. It has no call for admins only.

    :raises ForbiddenException: without the role admin, Tacker would show what belongs to the token's project
    """
    if not _is_admin(connection):
        raise exceptions.failure(403, "the token has no role admin: Tacker shows it one project")


def _list_instances(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the project's instances.

    A row does not show its project. So it is checked first that Tacker filters by project.
    """
    _expect_admin(connection)
    if any(True for _ in _INSTANCES.where(**_of(NIL_UUID)).rows(connection, project)):
        raise BadAnswer("Tacker shows VNF instances of a project that does not exist: it ignores the filter")
    for row in _INSTANCES.where(**_of("{project_id}")).rows(connection, project):
        yield {**row, "project_id": project.id}


def _show_instance(connection: Connection, project: ProjectDefinition, instance: Resource) -> Row:
    """Return an instance if Tacker lists it as the project's; see :func:`_list_instances`.

    :raises NotFoundException: it is gone, or another project's
    """
    query = _of("{project_id}")
    query["filter"] += f";(eq,id,{instance.id})"
    for row in _INSTANCES.where(**query).rows(connection, project):
        return {**row, "project_id": project.id}
    raise exceptions.failure(404, f"the project has no VNF instance {instance.id}")


def _protect_instantiated(instance: Resource, project: ProjectDefinition) -> str | None:
    state = instance.data.get("instantiationState")
    if state == "NOT_INSTANTIATED":
        return None
    return (
        f"its state is {state}: terminate it in Tacker (POST {_INSTANCES.path}/{instance.id}/terminate). Tacker logs "
        "in to its VIM for this. If the VIM is this project, cancel the deletion first, so that the project is unlocked"
    )


def _list_vims(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the project's VIMs."""
    _expect_admin(connection)
    yield from _VIMS.where(**_VIM_ATTRIBUTES, tenant_id="{project_id}").rows(connection, project)


def _list_all_vims(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the VIMs of all projects."""
    _expect_admin(connection)
    yield from _VIMS.all.rows(connection, project)


def _wants_packages(connection: Connection, project: ProjectDefinition) -> bool:
    """Return whether the option ``sweep_packages`` is set."""
    return bool(project.options.get("sweep_packages", True))


def _expect_member(connection: Connection, what: str) -> None:
    """Check that Tacker shows the token only what belongs to its project.

    :raises ForbiddenException: Tacker shows an admin what belongs to all projects, without the owner
    """
    if _is_admin(connection):
        raise exceptions.failure(
            403,
            f"there are {what}, and Tacker does not show to an admin whose they are: set up the janitor ([janitor]), "
            "whose token is then used, but not in a dry run; or set [drain] project_role to a role without admin, or "
            "[service_nfv_orchestration] sweep_packages = false",
        )


def _list_packages(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the project's packages: all that a token of the project shows, if it is no admin's.

    :raises ForbiddenException: it is an admin's, and the cloud has packages
    """
    for row in _PACKAGES.all.rows(connection, project):
        _expect_member(connection, "VNF packages")
        yield {**row, "name": row.get("vnfProductName")}


def _delete_package(connection: Connection, project: ProjectDefinition, package: Resource) -> None:
    """Disable the package, because Tacker refuses to delete one that is enabled; then delete it."""
    if package.data.get("operationalState") == "ENABLED":
        disable = _PACKAGES.call("/{id}", method="PATCH", body={"operationalState": "DISABLED"})
        disable.call(connection, project, package)
    _PACKAGES.delete.call(connection, project, package)


def _list_v2(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the instances of version 2 that were made from packages of the project.

    An instance has no project. Users can make one only from a package of their project.
    """
    rows = list(_pages_v2(connection, project))
    if not rows:
        return
    _expect_member(connection, "VNF instances of version 2")
    made_of = {row.get("vnfdId") for row in _list_packages(connection, project)} - {None}
    yield from (row for row in rows if row.get("vnfdId") in made_of)


def _pages_v2(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield all instances of version 2. If Tacker makes pages, it names the next one in a header.

    :raises BadAnswer: a page does not begin after the last one
    """
    call, last = _collection("/vnflcm/v2/vnf_instances", headers={"Version": "2.0.0"}).all, ""
    while page := list(call.rows(connection, project)):
        if any(str(row["id"]) <= last for row in page):
            raise BadAnswer(f"{call!r} gave the same page twice")
        yield from page
        last = max(str(row["id"]) for row in page)
        call = dataclasses.replace(call, query={"nextpage_opaque_marker": last})


def _protect_v2(instance: Resource, project: ProjectDefinition) -> str | None:
    return (
        "it was made from a package of the project, and version 2 of the interface records no project: terminate and "
        f"delete it in Tacker (/vnflcm/v2/vnf_instances/{instance.id})"
    )


SERVICE = Service(
    service_type=TYPE,
    contract_version=2,
    options=OPTIONS,
    roles="admin on one project, for instances and VIMs; any role on the project to be deleted, for subscriptions; and "
    "for packages the janitor, or a role there without admin: see sweep_packages",
    types=(
        ResourceType(
            name="subscription",
            used_by=(),
            list=_SUBSCRIPTIONS.own,
            all_projects="Tacker shows subscriptions without their project",
            show=_SUBSCRIPTIONS.show,
            delete=_SUBSCRIPTIONS.delete,
            owner=SCOPED,
            title="callbackUri",
            token=Token.PROJECT,
            source="GET, DELETE /vnflcm/v1/subscriptions; tacker api/vnflcm/v1/controller.py, "
            "objects/vnf_lcm_subscriptions.py (_vnf_lcm_subscriptions_show, _get_by_subscriptionid)",
            note="An admin with a token of another project is shown the list, and gets 404 for each subscription by "
            "its ID, also for its delete. Tacker calls the address when an instance changes, and not at this delete.",
        ),
        ResourceType(
            name="vnf_instance",
            used_by=(),
            list=_list_instances,
            all_projects="Tacker shows instances without their project",
            show=_show_instance,
            delete=_INSTANCES.delete,
            title="vnfInstanceName",
            protect=(_protect_instantiated,),
            user_content=_RUNS_CODE,
            source="GET, DELETE /vnflcm/v1/vnf_instances; tacker api/vnflcm/v1/controller.py (index, delete), "
            "objects/vnf_instance.py, db/db_sqlalchemy/api.py (model_query), vnflcm/vnflcm_driver.py",
            note="To callers without the role admin Tacker lists the instances of the token's project. It looks for "
            "the role of this name. The records of finished operations (vnf_lcm_op_occs) stay: no call deletes them.",
        ),
        ResourceType(
            name="vnf_instance_v2",
            used_by=(),
            list=_list_v2,
            all_projects="version 2 of the interface records no project",
            delete=None,
            owner=SCOPED,
            title="vnfInstanceName",
            token=Token.MEMBER,
            protect=(_protect_v2,),
            available=_wants_packages,
            source="GET /vnflcm/v2/vnf_instances; tacker sol_refactored/controller/vnflcm_v2.py (create), "
            "sol_refactored/nfvo/local_nfvo.py (onboarded_show), objects/vnf_package_vnfd.py",
            note="An admin can make an instance from any package, so an instance is never deleted. With an external "
            "NFVO the packages are not in Tacker, and instances are not found.",
        ),
        ResourceType(
            name="vnf_package",
            used_by=(Use((f"{TYPE}.vnf_instance",), REFUSED),),
            list=_list_packages,
            all_projects="Tacker shows packages without their project",
            show=_PACKAGES.show,
            delete=_delete_package,
            owner=SCOPED,
            token=Token.MEMBER,
            after=("vnf_instance", "vnf_instance_v2"),
            user_content=_RUNS_CODE,
            available=_wants_packages,
            source="GET, PATCH, DELETE /vnfpkgm/v1/vnf_packages; tacker api/vnfpkgm/v1/controller.py, "
            "objects/vnf_package.py",
            note="Tacker refuses to delete a package that is enabled, or that an instance uses.",
        ),
        ResourceType(
            name="vim",
            used_by=(
                Use(
                    (f"{TYPE}.vnf_instance",),
                    "takes the credentials with which Tacker reaches the instance",
                    unseen="Tacker shows instances without their project. An instance of another project uses it only "
                    "if an admin has made it so",
                ),
            ),
            list=_list_vims,
            all_projects=_list_all_vims,
            show=_VIMS.call("/{id}", key="vim", query=_VIM_ATTRIBUTES),
            delete=_VIMS.delete,
            owner="tenant_id",
            after=("vnf_instance",),
            source="GET, DELETE /v1.0/vims; tacker db/nfvo/nfvo_db_plugin.py (delete_vim, is_vim_still_in_use), "
            "nfvo/drivers/vim/openstack_driver.py (delete_vim_auth)",
            note="Tacker deletes the key of the credentials with its own user, from Barbican or from a file. It marks "
            "the VIM as deleted. The encrypted credentials (vimauths) stay. The resources in the VIM are not touched. "
            "Tacker answers 500 for a VIM that does not exist. After many deletes in a short time it may answer 500 to "
            "every call for a while (QueuePool limit), because it gives database connections back late; the step is "
            "then tried again.",
        ),
    ),
)
