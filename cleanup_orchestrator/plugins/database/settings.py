"""Trove: configuration groups and modules.

Trove does not show the owner of a configuration group. It shows the owner of a module only to members of its project.
So both are listed and deleted with the janitor's token.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from oslo_config import cfg

from cleanup_orchestrator.plugins.base import (
    SCOPED,
    BadAnswer,
    LastChange,
    Paging,
    ProjectDefinition,
    ResourceType,
    Rest,
    Row,
    Token,
    Use,
    exceptions,
    refused_in_use,
)
from cleanup_orchestrator.plugins.database.common import PROOF, TYPE

if TYPE_CHECKING:
    from openstack.connection import Connection

_MEMBER = (
    "set up the janitor ([janitor]), whose token is then used, but not in a dry run; or give the orchestrator's user "
    "no role on the project that makes it an admin for Trove ([drain] project_role = member, and no inherited role)"
)

OPTIONS = (
    cfg.BoolOpt(
        "list_configurations",
        default=True,
        help="Whether configuration groups are listed and deleted. To an admin Trove lists the groups of all projects, "
        f"without their owners, so that nothing is known if there are any: {_MEMBER}; or set this option to "
        "false. Then the groups of a deleted project stay in Trove's database. They hold settings of databases only.",
    ),
    cfg.BoolOpt(
        "list_modules",
        default=True,
        help=f"Whether modules are listed and deleted. To an admin Trove 26 answers 500 to the list: {_MEMBER}; "
        "or set this option to false. Then the modules of a deleted project stay in Trove's database.",
    ),
)

_CONFIGURATIONS = Rest(TYPE, "/configurations", key="configurations", paging=Paging.LINKS)
_MODULES = Rest(TYPE, "/modules", key="modules")


def _refuse_admin(connection: Connection, project: ProjectDefinition, what: str, option: str) -> None:
    """Refuse a token for which Trove does not select what is the project's.

    :raises BadAnswer: Trove treats the token as that of an admin
    """
    try:
        PROOF.call(connection, project)
    except exceptions.ForbiddenException:
        return
    raise BadAnswer(f"{what}: {_MEMBER}; or set {option} = false in [service_{TYPE}], and they stay")


def _configurations(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the configuration groups of the token's project.

    :raises BadAnswer: Trove shows the groups of all projects to this token, and there are some
    """
    rows = list(_CONFIGURATIONS.rows(connection, project))
    if rows:
        what = "to an admin Trove shows the configuration groups of all projects, without their owners"
        _refuse_admin(connection, project, what, "list_configurations")
    yield from rows


def _has_configurations(connection: Connection, project: ProjectDefinition) -> bool:
    return bool(project.options.get("list_configurations", True))


def _modules(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the modules of the token's project. Those of the whole cloud have no owner, and are left out.

    :raises BadAnswer: Trove shows no modules to this token
    """
    _refuse_admin(connection, project, "to an admin Trove answers 500 to the list of modules", "list_modules")
    yield from (row for row in _MODULES.rows(connection, project) if row["tenant_id"] is not None)


def _has_modules(connection: Connection, project: ProjectDefinition) -> bool:
    return bool(project.options.get("list_modules", True))


_NO_OWNERS = "to an admin Trove shows no owners"
_WHOSE = "its id alone: only with a token that is no admin's Trove compares the owner with the token's project"
_NEEDED_BY = (("cluster", refused_in_use), ("instance", refused_in_use))


def _by_instances(what: str) -> tuple[Use]:
    why = (
        "Trove shows to a member of the project only the instances of this project. Only an admin can give an instance "
        f"of another project this {what}"
    )
    return (Use((f"{TYPE}.instance",), f"takes the {what} from the instance", unseen=why),)


CONFIGURATION = ResourceType(
    name="configuration",
    used_by=_by_instances("configuration"),
    list=_configurations,
    all_projects=_NO_OWNERS,
    owner=SCOPED,
    why_no_show="Trove compares the owner with the project of the janitor's token in the delete call",
    delete=Rest(TYPE, "/configurations/{id}", method="DELETE"),
    token=Token.MEMBER,
    available=_has_configurations,
    user_content=_WHOSE,
    after=("cluster", "instance"),
    needed_by=_NEEDED_BY,
    created="created",
    updated=LastChange("updated"),
    parts=(),
    source="GET, DELETE /v1.0/{project}/configurations; trove configuration/service.py, configuration/models.py",
    note="To an admin Trove lists the groups of all projects, without owners: such a list counts only if it is empty. "
    "Trove refuses (400) to delete a group that an instance of the token's project uses. See list_configurations.",
)

MODULE = ResourceType(
    name="module",
    used_by=_by_instances("module"),
    list=_modules,
    all_projects="to an admin Trove answers 500 to this list",
    owner="tenant_id",
    why_no_show="Trove compares the owner with the project of the janitor's token in the delete call",
    delete=Rest(TYPE, "/modules/{id}", method="DELETE"),
    token=Token.MEMBER,
    available=_has_modules,
    user_content=_WHOSE,
    after=("cluster", "instance"),
    needed_by=_NEEDED_BY,
    created="created",
    updated=LastChange("updated"),
    parts=(),
    source="GET, DELETE /v1.0/{project}/modules; trove module/service.py, module/models.py (Modules.load, delete)",
    note="To an admin Trove 26 answers 500 to this list. To others it does not show a module that an admin made for "
    "the project and hid. The janitor cannot delete one that an admin made to be applied by itself (403). See "
    "list_modules.",
)
