"""Heat: stacks, software configs and deployments, and what Heat made in Keystone for a project's stacks.

While a stack lives, what it made is Heat's: it goes with the stack, and a plugin that deleted a part of it would make
the stack's own delete fail, or the part come back. So other services wait for ``orchestration.stack``
(``Service.after``). What survives its stack (``deletion_policy: retain``, the snapshots that ``snapshot`` makes at the
very end, what hung on an abandoned stack) is swept as if there had never been one.

A stack whose delete has failed recreates nothing. Mostly it waits for something that is not its own: a server that
somebody put on its network, an object in its container. To wait for it would be to wait for ever, so it becomes
``failed_stack``, which nobody waits for: its delete is asked for again and again while the others go on.

What has no type of its own: nested stacks, resources, events, snapshots of stacks and backup stacks go with their
stack; rows of deleted stacks are history (``heat-manage purge_deleted``).
"""

from __future__ import annotations

import dataclasses
import datetime
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote

from openstack import exceptions
from oslo_config import cfg

from cleanup_orchestrator.plugins.base import (
    FINAL_HEADER,
    NOTHING,
    BadAnswer,
    Paging,
    ProjectDefinition,
    Reason,
    Refused,
    Resource,
    ResourceType,
    Rest,
    Row,
    Service,
    Token,
    Verdict,
    blocker,
)

if TYPE_CHECKING:
    from openstack.connection import Connection

OPTIONS = (
    cfg.StrOpt(
        "stack_user_domain",
        default="",
        help="Name of the Keystone domain in which Heat makes a project for each stack that has users: "
        "stack_user_domain_name of heat.conf. With it, those of the project that Heat left behind (stacks that were "
        "abandoned, or whose rows are gone) are deleted at the very end, with their users. Empty: they are left.",
    ),
    cfg.BoolOpt(
        "abandon_forbidden_stacks",
        default=False,
        help="Abandon a stack with something in it that a member of its project may not delete; this needs "
        "enable_stack_abandon in heat.conf. Any user of the project can make such a stack, and so hold up its "
        "deletion. What an abandoned stack made in the project is deleted as if there had never been a stack. What it "
        "made elsewhere stays: a flavor or a role, which takes an admin's template. Off: the stack is reported, and "
        "blocks.",
    ),
)

DELETING, DELETE_FAILED = "DELETE_IN_PROGRESS", "DELETE_FAILED"
#: Heat's default time limit of an operation on a stack. One that is older was lost with the engine that worked on it.
LOST_AFTER = datetime.timedelta(hours=1)

_USER_PROJECT = "Heat stack user project"  #: the description that Heat gives (heat_keystoneclient.py)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


# --------------------------------------------------------------------------------------------------------- stacks


def _stacks(nested: bool, **query: str) -> Rest:
    """Return the list of the project's stacks, hidden ones too, the oldest first: a new one never shifts a page."""
    return Rest(
        "orchestration",
        "/stacks",
        key="stacks",
        query={
            "tenant": "{project_id}",
            "show_hidden": "true",
            "show_nested": "true" if nested else "false",
            "sort_keys": "creation_time",
            "sort_dir": "asc",
            **query,
        },
        paging=Paging.MARKER,
        limit=200,
    )


def _failed_stacks(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the same list's stacks whose delete failed, or is under way."""
    for row in _stacks(nested=False).rows(connection, project):
        if row.get("stack_status") in (DELETING, DELETE_FAILED):
            yield row


def _all_stacks(failed: bool) -> Callable[[Connection, ProjectDefinition], Iterator[Row]]:
    """Return a listing of all projects' stacks whose delete has failed, or of all others."""
    mine = _stacks(nested=False)
    call = dataclasses.replace(mine, query={key: value for key, value in mine.query.items() if key != "tenant"})

    def listing(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
        for row in call.rows(connection, project):
            if (row.get("stack_status") == DELETE_FAILED) is failed:
                yield row

    return listing


def _orphaned_stacks(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield nested stacks whose root is gone: the others go with it."""
    rows = {str(row["id"]): row for row in _stacks(nested=True).rows(connection, project)}
    for row in rows.values():
        seen, parent = {str(row["id"])}, row.get("parent")
        while parent in rows and parent not in seen:
            seen.add(str(parent))
            parent = rows[str(parent)].get("parent")
        if parent is not None:
            yield row


def _show_stack(connection: Connection, project: ProjectDefinition, stack: Resource) -> Row:
    """Read one stack again, out of the list: a stack's own page does not say whose it is."""
    nested = "false" if stack.data.get("parent") is None else "true"
    query = {"id": stack.id, "tenant": project.id, "show_hidden": "true", "show_nested": nested}
    response = connection.orchestration.get("/stacks", params=query)
    exceptions.raise_from_response(response)
    rows = response.json().get("stacks")
    if not isinstance(rows, list):
        raise BadAnswer("GET /stacks answered without 'stacks'")
    for row in rows:
        if row.get("id") == stack.id:
            return row  # type: ignore[no-any-return]
    raise exceptions.NotFoundException(f"stack {stack.id} is in the list no more", http_status=404)


def _is_under_way(stack: Resource, now: datetime.datetime) -> bool:
    """Whether an engine is at its delete. Another call would stop its workers and begin anew."""
    if stack.data.get("stack_status") != DELETING:
        return False
    try:
        since = datetime.datetime.fromisoformat(str(stack.data.get("updated_time")))
    except ValueError:
        return False
    if since.tzinfo is None:
        since = since.replace(tzinfo=datetime.UTC)
    return now - since < LOST_AFTER


def _drop_trusts(
    connection: Connection, asking: Connection, project: ProjectDefinition, _stack: Resource, error: Exception
) -> bool:
    """Delete the trusts that the project's users gave Heat for it; tell whether there were any.

    Heat answers 500 when the stack's creator has lost his role (which the drain may have taken) or is disabled: it
    tries to take back his trust in his name, and does not expect a 403. A trust that is gone it does expect.

    Before Heat answers a delete it makes a trust of the user that asks: its trustee is Heat.
    """
    if getattr(error, "status_code", None) != 500:
        return False
    own = asking.session.get_user_id()
    trusts = Rest("identity", "/OS-TRUST/trusts", key="trusts").rows(connection, project)
    here = [row for row in trusts if row.get("project_id") == project.id]
    heat = {row.get("trustee_user_id") for row in here if row.get("trustor_user_id") == own}
    found = [row for row in here if row.get("trustor_user_id") != own and row.get("trustee_user_id") in heat]
    for row in found:
        trust = Resource(str(row["id"]), "", project.id, row)
        Rest("identity", "/OS-TRUST/trusts/{id}", method="DELETE").call(connection, project, trust)
    return bool(found)


def _delete_stack(connection: Connection, project: ProjectDefinition, stack: Resource) -> None:
    """Ask for the delete unless it is under way; then clear the hooks that hold it up.

    :raises Refused: when the delete before this one failed, with Heat's reason
    """
    if project.gone:
        # Never asked again while Heat works on it: that would stop Heat's workers, and Heat starts a stopped one again
        # without the word that the stack is abandoned, so that it deletes with an admin's token what the template says.
        # Heat ends a delete that takes longer than stack_action_timeout as failed; then it is asked again.
        if stack.data.get("stack_status") == DELETING:
            _clear_hooks(connection, project, stack)
        else:
            _abandon_stack(connection, project, stack)
        return
    if _is_under_way(stack, _now()) and not _clear_hooks(connection, project, stack):
        return
    failed = stack.data.get("stack_status") == DELETE_FAILED
    why = str(stack.data.get("stack_status_reason") or "Heat gives no reason")
    forbidden = failed and _FORBIDDEN.search(why)
    if forbidden and project.options.get("abandon_forbidden_stacks"):
        _ABANDON.call(connection, project, stack)
        return
    Rest("orchestration", "/stacks/{row[stack_name]}/{id}", method="DELETE").call(connection, project, stack)
    if forbidden:
        text = (
            f"a member of its project may not delete what is in it: {why}; have it abandoned (abandon_forbidden_stacks "
            "of the orchestration service, or force), or delete it as an admin, who reads its template first"
        )
        raise Refused(Verdict(Reason.ERROR, text))
    if failed:
        raise Refused(Verdict(Reason.ERROR, f"its delete failed, and was asked for again: {why}"))


#: What Heat's reason has where a service answered 403: the name of the exception, or the status.
_FORBIDDEN = re.compile(r"\bForbidden|\b403\b")
_PAUSED = re.compile(r"paused until Hook (pre|post)-delete is cleared")
_RESOURCE = re.compile(r"/stacks/([^/]+)/([^/]+)/resources/([^/]+)$")


def _clear_hooks(connection: Connection, project: ProjectDefinition, stack: Resource) -> bool:
    """Clear the hooks at which the stack's delete has paused; tell whether the delete has to be asked for again.

    A user may have any resource's delete pause until he says to go on. Heat tells of a pause in its events alone. Of a
    pause after the delete of a resource it lets nobody clear the hook: a new delete passes it by.
    """
    again = False
    for event in _events(connection, project, stack):
        paused = _PAUSED.search(str(event.get("resource_status_reason")))
        where = next((link["href"] for link in event.get("links") or () if link.get("rel") == "resource"), "")
        place = _RESOURCE.search(str(where))
        if not paused or not place:
            continue
        if paused[1] == "post":
            again = True
            continue
        path = "/stacks/{}/{}/resources/{}/signal".format(*place.groups())
        body = {"unset_hook": "pre-delete"}
        # 400: it was cleared meanwhile.
        Rest("orchestration", path, method="POST", body=body, accept=frozenset({200, 400})).call(connection, project)
    return again


def _events(connection: Connection, project: ProjectDefinition, stack: Resource) -> Iterator[Row]:
    """Yield the events of a stack and of those nested in it since its delete began.

    With ``nested_depth`` Heat shows those of nested stacks too, but only to a token of the project. Of a project that
    is gone each nested stack is asked for its own.
    """
    since = str(stack.data.get("updated_time") or "")
    deep = {} if project.gone else {"nested_depth": 100}
    for row in (stack.data, *(_below(connection, project, stack) if project.gone else ())):
        name, id_ = (quote(str(row[key]), safe="") for key in ("stack_name", "id"))
        events = Rest(
            "orchestration",
            f"/stacks/{name}/{id_}/events",
            key="events",
            query={**deep, "sort_keys": "created_at", "sort_dir": "desc"},
            paging=Paging.MARKER,
            limit=200,
        )
        for event in events.rows(connection, project):
            if str(event.get("event_time") or "") < since:  # of an earlier delete; both are ISO times of the same form
                break
            yield event


def _below(connection: Connection, project: ProjectDefinition, stack: Resource) -> list[Row]:
    """Return the stacks that are nested in a stack, at any depth."""
    rows = list(_stacks(nested=True).rows(connection, project))
    found: list[Row] = []
    seen, parents = {stack.id}, {stack.id}
    while parents:
        level = [row for row in rows if row.get("parent") in parents and row["id"] not in seen]
        found += level
        parents = {str(row["id"]) for row in level}
        seen |= parents
    return found


#: The stack goes from Heat, and all that it made stays; that is then swept as if there had never been a stack.
_ABANDON = Rest("orchestration", "/stacks/{row[stack_name]}/{id}/abandon", method="DELETE")


def refuse_without_abandon(connection: Connection, project: ProjectDefinition) -> None:
    """Ask Heat to abandon a stack that does not exist: it looks at its policy first, then at its option, then for it.

    :raises Refused: when Heat would abandon none
    """
    response = connection.orchestration.delete(f"/stacks/none/{NOTHING}/abandon")
    try:
        body = response.json()
    except ValueError:
        body = None
    error = body.get("error") if isinstance(body, Mapping) else None
    kind = error.get("type") if isinstance(error, Mapping) else None
    if response.status_code == 404 and kind == "EntityNotFound":
        return
    if response.status_code == 400 and kind == "NotSupported":
        text = "Heat abandons no stacks: set enable_stack_abandon = true in the [DEFAULT] section of heat.conf"
        raise Refused(Verdict(Reason.NOT_SUPPORTED, text))
    if response.status_code == 403:
        text = "Heat forbids the orchestrator to abandon stacks: see its policy stacks:abandon"
        raise Refused(Verdict(Reason.FORBIDDEN, text))
    exceptions.raise_from_response(response)
    raise BadAnswer(f"to abandon a stack that does not exist was answered with {response.status_code}, and not by Heat")


def _abandon_stack(connection: Connection, project: ProjectDefinition, stack: Resource) -> None:
    """Have Heat forget a stack of a project that is gone; what it made is then swept as if there had never been one.

    Heat deletes with the caller's token. That of another project would have it look for what it knows by name
    (containers, queues, key pairs) in that other project.

    :raises Refused: when Heat abandons none, or failed to abandon this one
    """
    try:
        _ABANDON.call(connection, project, stack)
    except exceptions.HttpException as error:
        if error.status_code not in (400, 403):
            raise
        try:
            refuse_without_abandon(connection, project)
        except Refused as refused:
            text = f"with no token of its project a stack can only be abandoned: {refused.verdict.message}"
            raise Refused(Verdict(Reason.PROJECT_GONE, text)) from None
        raise
    if stack.data.get("stack_status") == DELETE_FAILED:
        why = stack.data.get("stack_status_reason") or "Heat gives no reason"
        raise Refused(Verdict(Reason.PROJECT_GONE, f"its delete failed, and Heat was asked to abandon it: {why}"))


def abandon_before(connection: Connection, project: ProjectDefinition, stack_id: str) -> None:
    """Have Heat forget a stack before another service deletes what owns it; return once Heat does not know it.

    Only of a project that is gone. Heat says yes before it is done with the stack, and a delete in between would delete
    what it made.

    :raises Refused: while Heat knows the stack; when it abandons none; or when the stack is another project's
    """
    if connection.orchestration.get_endpoint() is None:
        return
    try:
        row = _show_stack(connection, project, Resource(stack_id, "", project.id))
    except exceptions.NotFoundException:
        return
    if row.get("project") != project.id:
        foreign = blocker("orchestration.stack", stack_id, row.get("project"))
        raise Refused(Verdict(Reason.FOREIGN, f"its stack {stack_id} is another project's", (foreign,)))
    _delete_stack(connection, project, Resource(stack_id, str(row.get("stack_name")), project.id, row))
    raise Refused(Verdict(Reason.DELETING, f"Heat abandons its stack {stack_id} first"))


def _keep_failed(stack: Resource, project: ProjectDefinition) -> str | None:
    if stack.data.get("stack_status") == DELETE_FAILED:
        return "its delete failed: it counts as a failed_stack, which nothing else waits for"
    return None


def _describe_stack(stack: Resource, project: ProjectDefinition) -> str:
    status, reason = stack.data.get("stack_status"), stack.data.get("stack_status_reason")
    return f"{status}: {reason}" if reason else str(status)


# ----------------------------------------------------------------------------------------- configs and deployments


_CONFIGS = Rest("orchestration", "/software_configs", key="software_configs", paging=Paging.MARKER, limit=200)
_DEPLOYMENTS = Rest("orchestration", "/software_deployments", key="software_deployments")


def _deployments(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the deployments of the project's configs: Heat shows nobody a deployment's owner, but its config's.

    One that uses another project's config takes an admin to make, and is not found.
    """
    configs = {row["id"] for row in _CONFIGS.rows(connection, project) if row.get("project") == project.id}
    if configs:  # the list is that of the whole cloud, in one page
        for row in _DEPLOYMENTS.rows(connection, project):
            if row.get("config_id") in configs:
                yield {**row, "project_id": project.id}


def _show_deployment(connection: Connection, project: ProjectDefinition, deployment: Resource) -> Row:
    """Read the config again that tells the owner: it may have been exchanged.

    The deployment is read from the list. ``GET /software_deployments/{id}`` acts on the inputs of the deployment's
    config, which a user wrote: Heat looks for the signal that they name with the caller's token, in the caller's own
    Swift account, and answers with an error where they name nonsense (heat/engine/service_software_config.py,
    ``_show_software_deployment``).

    :raises NotFoundException: the list does not have the deployment
    """
    server_id = deployment.data.get("server_id")
    query = {"server_id": str(server_id)} if server_id else {}
    for row in dataclasses.replace(_DEPLOYMENTS, query=query).rows(connection, project):
        if row.get("id") == deployment.id:
            same = row.get("config_id") == deployment.data.get("config_id")
            return {**row, "project_id": project.id if same else None}
    raise exceptions.NotFoundException(f"deployment {deployment.id} is not in the list", http_status=404)


def _refuse_foreign_server(connection: Connection, project: ProjectDefinition, deployment: Resource) -> None:
    """Refuse a deployment to another project's server: an admin of that one made it with this one's config."""
    server_id = deployment.data.get("server_id")
    if not server_id or connection.compute.get_endpoint() is None:
        return
    response = connection.compute.get(f"/servers/{quote(str(server_id), safe='')}")
    if response.status_code in (400, 404):  # 400: it is no server's id
        return
    exceptions.raise_from_response(response)
    owner = str(response.json()["server"].get("tenant_id") or "")
    if owner != project.id:
        foreign = blocker("compute.server", server_id, owner)
        raise Refused(Verdict(Reason.FOREIGN, "it configures another project's server", (foreign,)))


# ------------------------------------------------------------------------------- what Heat made in Keystone


def _user_domain(connection: Connection, project: ProjectDefinition) -> str:
    """Return the id of the domain of stacks' users.

    :raises BadAnswer: when Keystone knows none of that name
    """
    name = str(project.options.get("stack_user_domain"))
    found = Rest("identity", "/domains", key="domains", query={"name": name}).rows(connection, project)
    for row in found:
        if row.get("name") == name:
            return str(row["id"])
    raise BadAnswer(f"Keystone knows no domain {name!r}: set stack_user_domain to that of heat.conf")


def _made_for(project: ProjectDefinition, domain_id: str, row: Row) -> bool:
    """Whether a Keystone project is one that Heat made for a stack of this project."""
    # Heat cuts the name, both ids together, to 64 characters.
    named = re.fullmatch(re.escape(project.id) + r"-[0-9a-f-]{31}", str(row.get("name")))
    return bool(named) and row.get("domain_id") == domain_id and row.get("description") == _USER_PROJECT


def _user_projects(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the projects that Heat made in its own domain for stacks of this one."""
    domain_id = _user_domain(connection, project)
    call = Rest("identity", "/projects", "projects", query={"domain_id": domain_id, "name__startswith": project.id})
    for row in call.rows(connection, project):
        if _made_for(project, domain_id, row):
            yield {**row, "project_id": project.id}


def _show_user_project(connection: Connection, project: ProjectDefinition, found: Resource) -> Row:
    """Read one of them again, and look at the same signs."""
    row = Rest("identity", "/projects/{id}", key="project").row(connection, project, found)
    ours = _made_for(project, _user_domain(connection, project), row)
    return {**row, "project_id": project.id if ours else None}


def _refuse_used(connection: Connection, project: ProjectDefinition, found: Resource) -> None:
    """Refuse the project of a stack that is still there: Heat deletes it with the stack."""
    for row in _stacks(nested=True).rows(connection, project):
        if row.get("stack_user_project_id") == found.id:
            stack = blocker("orchestration.stack", row["id"], row.get("project"))
            raise Refused(Verdict(Reason.IN_USE, "its stack is still there", (stack,)))


def _delete_users(connection: Connection, project: ProjectDefinition, found: Resource) -> None:
    """Delete the users that Heat made in it: they can do nothing elsewhere, and nobody knows their passwords."""
    call = Rest("identity", "/role_assignments", "role_assignments", query={"scope.project.id": found.id})
    for user_id in sorted({row["user"]["id"] for row in call.rows(connection, project) if "user" in row}):
        user = Resource(user_id, "", None)
        row = Rest("identity", "/users/{id}", key="user").row(connection, project, user)
        if row.get("domain_id") == found.data["domain_id"] and row.get("default_project_id") == found.id:
            Rest("identity", "/users/{id}", method="DELETE").call(connection, project, user)


def _domain_named(connection: Connection, project: ProjectDefinition) -> bool:
    """A domain in the option stack_user_domain."""
    return bool(project.options.get("stack_user_domain"))


_BY_HAND = (
    "as an admin: openstack stack delete {id}; where that fails, enable_stack_abandon in heat.conf and openstack stack "
    "abandon {id}, which leaves what the stack made"
)
_TEMPLATE = "the stack's template: Heat deletes each resource as it says, with the token that asks for the delete"
_SOURCE = "GET /v1/P/stacks?tenant=X&show_hidden=true; DELETE /v1/P/stacks/NAME/ID; "

SERVICE = Service(
    service_type="orchestration",
    contract_version=1,
    options=OPTIONS,
    # Heat shows its engines to admins alone; anybody else's lists are of his own project.
    proof=Rest("orchestration", "/services"),
    roles="admin on the project under deletion (Heat shows the owner of a stack to admins alone); admin for software "
    "configs and for what Heat made in Keystone",
    types=(
        ResourceType(
            name="stack",
            list=_stacks(nested=False),
            all_projects=_all_stacks(failed=False),
            show=_show_stack,
            delete=_delete_stack,
            acts_on=_TEMPLATE,
            unblock=_drop_trusts,
            force=_ABANDON,
            may_force=refuse_without_abandon,
            by_hand=_BY_HAND,
            title="stack_name",
            owner="project",
            tags="tags",
            token=Token.PROJECT,
            token_if_gone=Token.ADMIN,
            keep=(_keep_failed,),
            describe=_describe_stack,
            after=("container-infrastructure-management.cluster",),
            source=_SOURCE + "heat api/openstack/v1/stacks.py, db/api.py, engine/service.py, engine/stack.py",
            note="First of all but clusters, which own their stacks. Heat shows an admin every project's stacks, even "
            "with a token of the project: the filter is called 'tenant' (it ignores project_id and tenant_id), and "
            "the owner is in the list alone. Hidden stacks are asked for. A template may name what is not the stack's: "
            "a role of another user, another project's router. What only an admin may delete of a stack (a flavor that "
            "an admin's template made) is therefore not deleted: the stack's delete fails, and Heat's reason is "
            "reported. A pause that the template orders (a hook before or after the delete of a resource) is ended. "
            "For the delete Heat replaces the trust of the stack's creator by one of the janitor, and removes that "
            "with the stack. Where the creator has lost his role or is disabled it answers 500; then the trusts that "
            "the project's users gave Heat are deleted first. Key pairs are a user's: Heat looks for them among those "
            "of the janitor, and the creator's stay. The delete is asynchronous; while Heat is at it, it is "
            "not asked for again for an hour. A stack of a project that is gone is abandoned, for want of such a "
            "token: what it made is swept by itself. Where Heat abandons none (enable_stack_abandon), it is left.",
        ),
        ResourceType(
            name="failed_stack",
            list=_failed_stacks,
            all_projects=_all_stacks(failed=True),
            show=_show_stack,
            delete=_delete_stack,
            acts_on=_TEMPLATE,
            unblock=_drop_trusts,
            force=_ABANDON,
            may_force=refuse_without_abandon,
            by_hand=_BY_HAND,
            title="stack_name",
            owner="project",
            tags="tags",
            token=Token.PROJECT,
            token_if_gone=Token.ADMIN,
            describe=_describe_stack,
            after=("stack",),
            source=_SOURCE + "heat engine/stack.py, engine/check_resource.py",
            note="A stack in DELETE_FAILED, and in DELETE_IN_PROGRESS once it is asked for again. It recreates "
            "nothing, so nothing waits for it: what keeps it (a foreign object in its container, a server on its "
            "network) may be just what is swept meanwhile. What others deleted of it, Heat takes for deleted. What "
            "remains is left with Heat's reason.",
        ),
        ResourceType(
            name="nested_stack",
            list=_orphaned_stacks,
            all_projects="which nested stacks have lost their root can only be told with all stacks at hand",
            show=_show_stack,
            delete=_delete_stack,
            acts_on=_TEMPLATE,
            unblock=_drop_trusts,
            force=_ABANDON,
            may_force=refuse_without_abandon,
            by_hand=_BY_HAND,
            title="stack_name",
            owner="project",
            token=Token.PROJECT,
            token_if_gone=Token.ADMIN,
            describe=_describe_stack,
            after=("stack",),
            source="GET /v1/P/stacks?tenant=X&show_nested=true; heat db/api.py, _query_stack_get_all",
            note="Only those whose root is gone, which no other list shows: all others go with their root, and would "
            "be made again if they were deleted before it.",
        ),
        ResourceType(
            name="software_deployment",
            list=_deployments,
            all_projects="Heat shows nobody the owner of a deployment",
            show=_show_deployment,
            delete=Rest("orchestration", "/software_deployments/{id}", method="DELETE"),
            title="server_id",
            prepare=(_refuse_foreign_server,),
            after=("stack",),
            source="GET, DELETE /v1/P/software_deployments; heat engine/api.py, format_software_deployment, "
            "engine/service_software_config.py",
            note="Those of a stack go with it; these were made by themselves. Heat lists the whole cloud's, without "
            "paging and without an owner: a deployment is the project's when its config is, and its server is not "
            "another project's.",
        ),
        ResourceType(
            name="software_config",
            list=_CONFIGS,
            all_projects=_CONFIGS,
            delete=Rest("orchestration", "/software_configs/{id}", method="DELETE"),
            owner="project",
            unfiltered="Heat has no owner filter for configs: an admin is shown those of the whole cloud",
            fresh="Heat tells the owner of a config in the list alone, and nothing can change it",
            after=("software_deployment",),
            source="GET, DELETE /v1/P/software_configs; heat db/api.py, software_config_delete",
            note="400 while a deployment refers to it, whosever.",
        ),
        ResourceType(
            name="stack_user_project",
            list=_user_projects,
            all_projects="they are projects themselves, and found by the id of the project that they were made for",
            show=_show_user_project,
            delete=Rest(
                "identity",
                "/projects/{id}",
                method="DELETE",
                headers={FINAL_HEADER: "orchestration.stack_user_project"},
            ),
            prepare=(_refuse_used, _delete_users),
            project_setting=True,
            available=_domain_named,
            source="GET /v3/projects?domain_id=D&name__startswith=X; DELETE /v3/projects/ID; heat "
            "engine/clients/os/keystone/heat_keystoneclient.py, create_stack_domain_project",
            note="Off unless stack_user_domain names the domain. A stack with wait conditions, signals or software "
            "deployments has a Keystone project of its own in Heat's domain, with a user for each. Heat deletes it "
            "with the stack, but leaves it when a stack is abandoned. It is recognised by domain, description, and a "
            "name that begins with the project's id.",
        ),
    ),
)
