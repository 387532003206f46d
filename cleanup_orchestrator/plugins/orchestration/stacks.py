"""Heat: stacks, how they are deleted, and how they are abandoned."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cleanup_orchestrator.plugins.base import (
    NIL_UUID,
    BadAnswer,
    Composition,
    Fallback,
    ForcedDelete,
    LastChange,
    Parts,
    ProjectDefinition,
    Reason,
    Refused,
    Resource,
    ResourceType,
    Rest,
    Token,
    Verdict,
    blocker,
    classify,
    exceptions,
    state_remedies,
)
from cleanup_orchestrator.plugins.orchestration.contents import contents_of
from cleanup_orchestrator.plugins.orchestration.listing import (
    DELETE_FAILED,
    DELETING,
    all_stacks,
    events_of,
    failed_stacks,
    nested_in,
    orphaned_stacks,
    resources_of,
    show_stack,
    stacks_of,
)

if TYPE_CHECKING:
    from openstack.connection import Connection

#: Heat's default time limit of an operation on a stack. An older operation was lost with its engine.
LOST_AFTER = datetime.timedelta(hours=1)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _deleting_for(stack: Resource, now: datetime.datetime) -> datetime.timedelta | None:
    """Return since when an engine deletes the stack; ``None``: none does, or that is not known."""
    if stack.data.get("stack_status") != DELETING:
        return None
    try:
        since = datetime.datetime.fromisoformat(str(stack.data.get("updated_time")))
    except ValueError:
        return None
    if since.tzinfo is None:
        since = since.replace(tzinfo=datetime.UTC)
    return now - since


def _is_under_way(stack: Resource, now: datetime.datetime) -> bool:
    """Return whether an engine deletes the stack.

    Another call would stop its workers and start again.
    """
    elapsed = _deleting_for(stack, now)
    return elapsed is not None and elapsed < LOST_AFTER


def being_deleted(stack: Resource, project: ProjectDefinition) -> str | None:
    """Say that Heat deletes a stack.

    But not during ten of each thirty seconds: a poll at such a time looks for hooks that pause the delete. Polls are
    at most ten seconds apart.
    """
    now = _now()
    elapsed = _deleting_for(stack, now)
    if elapsed is None or not _is_under_way(stack, now) or elapsed.total_seconds() % 30 < 10:
        return None
    return "Heat is deleting it"


def delete_failed(stack: Resource, project: ProjectDefinition) -> str | None:
    """Say that Heat failed to delete a stack, and why."""
    if stack.data.get("stack_status") != DELETE_FAILED:
        return None
    return f"Heat failed to delete it: {stack.data.get('stack_status_reason') or 'it gives no reason'}"


def _unblock(
    connection: Connection, asking: Connection, project: ProjectDefinition, stack: Resource, error: Exception
) -> bool:
    """Delete the users' trusts to Heat; return whether there were any, so that the delete is requested again.

    Heat answers 500 when the stack's creator has lost the role on the project (the drain may have removed it) or is
    disabled. It tries to delete the creator's trust as the creator, and does not handle a 403. It does handle a trust
    that is gone.

    Heat 25 reads the creator's trust first (heat/engine/stack.py, ``_check_refresh_cred``). Where the creator can get
    no token, it answers 500 to every delete, but it does abandon the stack.

    :raises Refused: there is no such trust. The delete is requested again. If Heat answers 500 again, and does not
        delete the stack, the stack is abandoned if ``abandon_forbidden_stacks`` is set
    """
    if getattr(error, "status_code", None) != 500 or project.gone or _is_under_way(stack, _now()):
        return False  # of a stack that is gone or being deleted, another request than its delete has failed
    if _drop_trusts(connection, asking, project):
        return True
    # A single 500 is no verdict, and another thread may have deleted the trusts since the delete was requested.
    if _is_accepted(asking, project, stack):
        raise Refused(Verdict(Reason.DELETING, "Heat answered 500 to its delete at first", accepted=True))
    row = show_stack(connection, project, stack)
    if row.get("project") != project.id:
        return False
    if _is_under_way(Resource(stack.id, stack.name, project.id, row), _now()):
        raise Refused(Verdict(Reason.DELETING, "Heat answered 500 to its delete, and is deleting it", accepted=True))
    said = f"Heat cannot delete it ({classify(error).message})"
    if not project.options.get("abandon_forbidden_stacks"):
        text = (
            f"{said}; Heat 25 of OpenStack 2025.2 answers so if the creator of the stack can get no token: have it "
            "abandoned (abandon_forbidden_stacks of the orchestration service, or force)"
        )
        raise Refused(Verdict(Reason.ERROR, text))
    _abandon(asking, project, stack)
    raise Refused(Verdict(Reason.DELETING, f"{said}, and was asked to abandon it", accepted=True))


def _drop_trusts(connection: Connection, asking: Connection, project: ProjectDefinition) -> bool:
    """Delete the trusts for the project that its users gave to Heat; return whether there were any.

    Heat's user is known by the trust that Heat creates for the caller of the delete: Heat is its trustee.
    """
    own = asking.session.get_user_id()
    trusts = Rest("identity", "/OS-TRUST/trusts", key="trusts").rows(connection, project)
    here = [row for row in trusts if row.get("project_id") == project.id]
    heat = {row.get("trustee_user_id") for row in here if row.get("trustor_user_id") == own}
    users_trusts = [row for row in here if row.get("trustor_user_id") != own and row.get("trustee_user_id") in heat]
    # 404: another thread deleted it meanwhile, and that is no answer about the stack.
    call = Rest("identity", "/OS-TRUST/trusts/{id}", method="DELETE", accept=frozenset({204, 404}))
    for row in users_trusts:
        call.call(connection, project, Resource(str(row["id"]), "", project.id, row))
    return bool(users_trusts)


def _is_accepted(asking: Connection, project: ProjectDefinition, stack: Resource) -> bool:
    """Request the delete; return whether Heat accepts it, and does not answer 500."""
    try:
        _DELETE.call(asking, project, stack)
    except exceptions.HttpException as error:
        if error.status_code != 500:
            raise
        return False
    return True


def _delete_stack(connection: Connection, project: ProjectDefinition, stack: Resource) -> None:
    """Request the delete unless it is in progress; then clear the hooks that pause it.

    :raises Refused: when the previous delete failed, with Heat's reason
    """
    if project.gone:
        # The request is not repeated while Heat works on the stack. It would stop Heat's workers, and a restarted
        # worker does not know that the stack is abandoned: it deletes, with an admin's token, what the template says. A
        # delete that takes longer than stack_action_timeout ends as failed. Then the request is repeated.
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
        _abandon(connection, project, stack)
        return
    _DELETE.call(connection, project, stack)
    if forbidden:
        text = (
            f"a member of its project may not delete what is in it: {why}; have it abandoned (abandon_forbidden_stacks "
            "of the orchestration service, or force), or delete it as an admin, who reads its template first"
        )
        raise Refused(Verdict(Reason.ERROR, text, accepted=True))
    if failed:
        raise Refused(Verdict(Reason.ERROR, f"its delete failed, and was asked for again: {why}", accepted=True))


#: What Heat's reason contains where a service answered 403: the name of the exception, or the status.
_FORBIDDEN = re.compile(r"\bForbidden|\b403\b")
_PAUSED = re.compile(r"paused until Hook (pre|post)-delete is cleared")
_RESOURCE = re.compile(r"/stacks/([^/]+)/([^/]+)/resources/([^/]+)$")


def _clear_hooks(connection: Connection, project: ProjectDefinition, stack: Resource) -> bool:
    """Clear hooks that pause a delete; return whether to request it again.

    A template may make the delete of any resource pause until a user clears a hook. Only the events show a pause. A
    hook after the delete of a resource cannot be cleared: a new delete request skips it.
    """
    again = False
    for event in events_of(connection, project, stack):
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


_DELETE = Rest("orchestration", "/stacks/{row[stack_name]}/{id}", method="DELETE")
#: Deletes the stack in Heat alone. Its resources stay, and are swept as if there had never been a stack.
_ABANDON = Rest("orchestration", "/stacks/{row[stack_name]}/{id}/abandon", method="DELETE")


def refuse_without_abandon(connection: Connection, project: ProjectDefinition) -> None:
    """Check that Heat abandons stacks, with a request for a stack that does not exist.

    Heat checks its policy first, then its option, then whether the stack exists.

    :raises Refused: when Heat abandons no stacks
    """
    response = connection.orchestration.delete(f"/stacks/none/{NIL_UUID}/abandon")
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
    raise BadAnswer(
        f"the request to abandon a stack that does not exist was answered with {response.status_code}, and not by Heat"
    )


def _abandon(connection: Connection, project: ProjectDefinition, stack: Resource) -> None:
    """Abandon a stack.

    :raises Refused: when Heat abandons no stacks; or answers 500, which is not the answer to a delete: see ``_unblock``
    """
    try:
        _ABANDON.call(connection, project, stack)
    except exceptions.HttpException as error:
        if error.status_code not in (400, 403, 500):
            raise
        why = _why_none_is_abandoned(connection, project, error) or classify(error).message
        raise Refused(Verdict(Reason.ERROR, f"Heat was asked to abandon it, and does not: {why}")) from None


def _why_none_is_abandoned(connection: Connection, project: ProjectDefinition, error: exceptions.HttpException) -> str:
    """Return why Heat abandons no stacks, after it refused to abandon one; empty: the refusal has another reason."""
    if error.status_code not in (400, 403):
        return ""
    try:
        refuse_without_abandon(connection, project)
    except Refused as refused:
        return refused.verdict.message
    return ""


def _abandon_stack(connection: Connection, project: ProjectDefinition, stack: Resource) -> None:
    """Abandon a stack of a project that is gone.

    Its resources are swept as if there had never been a stack. Heat deletes with the caller's token. With a token of
    another project it would look there for resources that it knows by name (containers, queues, key pairs).

    :raises Refused: when Heat abandons no stacks, or failed to abandon this one
    """
    try:
        _ABANDON.call(connection, project, stack)
    except exceptions.HttpException as error:
        if why := _why_none_is_abandoned(connection, project, error):
            text = f"with no token of its project a stack can only be abandoned: {why}"
            raise Refused(Verdict(Reason.PROJECT_GONE, text)) from None
        raise
    if stack.data.get("stack_status") == DELETE_FAILED:
        why = stack.data.get("stack_status_reason") or "Heat gives no reason"
        raise Refused(Verdict(Reason.PROJECT_GONE, f"its delete failed, and Heat was asked to abandon it: {why}"))


def abandon_before(connection: Connection, project: ProjectDefinition, stack_id: str) -> None:
    """Abandon a stack before another service deletes its owner.

    Returns once Heat does not know the stack. Only for a project that is gone. Heat accepts the request before it has
    abandoned the stack. A delete of the owner before that would delete the stack's resources.

    :raises Refused: while Heat knows the stack; when it abandons no stacks; or when the stack is another project's
    """
    if connection.orchestration.get_endpoint() is None:
        return
    try:
        row = show_stack(connection, project, Resource(stack_id, "", project.id))
    except exceptions.NotFoundException:
        return
    if row.get("project") != project.id:
        foreign = blocker("orchestration.stack", stack_id, row.get("project"), row.get("stack_name"))
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


_BY_HAND = (
    "as an admin: openstack stack delete {id}; where that fails, enable_stack_abandon in heat.conf and openstack stack "
    "abandon {id}, which leaves what the stack made"
)
_REMEDIES = {
    **state_remedies(
        "openstack stack event list --nested-depth 5 {id} names the resource that fails, and openstack orchestration "
        "service list shows whether an engine runs",
        "openstack stack delete {id}, after that resource is deleted or mended",
    ),
    Reason.ERROR: "openstack stack event list --nested-depth 5 {id} names the resource that fails. If only an admin "
    "may delete that: an admin reads the template, and runs openstack stack delete {id}. Otherwise have the stack "
    "abandoned, so that what it made is deleted separately: the operator sets abandon_forbidden_stacks in "
    "[service_orchestration], or an admin requests force. Both need enable_stack_abandon = true in heat.conf",
    Reason.PROJECT_GONE: "the operator sets enable_stack_abandon = true in heat.conf: the stack is then abandoned "
    "automatically. Or an admin reads its template, and runs openstack stack delete {id}",
}
_TEMPLATE = "the stack's template: Heat deletes each resource as it says, with the token that asks for the delete"
_SOURCE = "GET /v1/P/stacks?tenant=X&show_hidden=true; DELETE /v1/P/stacks/NAME/ID; "


def _stack_type(name: str, **declared: Any) -> ResourceType:
    """Return a type of stacks.

    The types differ in which stacks they list, and in what they wait for.
    """
    return ResourceType(
        name=name,
        show=show_stack,
        deleting=being_deleted,
        failed=delete_failed,
        changed="updated_time",
        remedies=_REMEDIES,
        delete=_delete_stack,
        user_content=_TEMPLATE,
        unblock=_unblock,
        if_abandoned="Heat keeps the stack. What the stack made can still run.",
        force=ForcedDelete(_abandon, allowed=refuse_without_abandon, keeps_contents=True),
        by_hand=_BY_HAND,
        title="stack_name",
        owner="project",
        created="creation_time",
        updated=LastChange("updated_time", null_until_changed=True),
        parts=(Parts("resource", resources_of, created="creation_time", updated=LastChange("updated_time")),),
        used_by=(),
        composition=Composition(contains=contents_of),
        token=Token.PROJECT,
        fallback=Fallback(Token.ADMIN),
        describe=_describe_stack,
        **declared,
    )


STACK = _stack_type(
    "stack",
    list=stacks_of(nested=False),
    all_projects=all_stacks(failed=False),
    tags="tags",
    keep=(_keep_failed,),
    after=("container-infrastructure-management.cluster",),
    source=_SOURCE + "heat api/openstack/v1/stacks.py, db/api.py, engine/service.py, engine/stack.py",
    note="Deleted before all types except clusters, which own their stacks. Heat shows an admin the stacks of "
    "all projects, even with a token of the project. The filter is called 'tenant' (Heat ignores project_id "
    "and tenant_id), and only the list shows the owner. Hidden stacks are listed as well. A template may "
    "name resources that are not part of the stack: a role of another user, another project's router. So "
    "what only an admin may delete of a stack (a flavor that an admin's template created) is not deleted: "
    "the stack's delete fails, and Heat's reason is reported. A pause that the template requests (a hook "
    "before or after the delete of a resource) is ended. For the delete Heat replaces the trust of the "
    "stack's creator by one of the janitor, and removes that with the stack. If the creator has lost the "
    "role on the project or is disabled, Heat answers 500; then the trusts that the project's users gave to "
    "Heat are deleted first. Heat 25 answers 500 all the same: then the stack is abandoned if the operator wants that "
    "(abandon_forbidden_stacks), or left. Key pairs belong to a user: Heat looks for them among those of the janitor, "
    "and the creator's stay. The delete is asynchronous. While Heat works on it, it is not requested again "
    "for an hour. A stack of a project that is gone is abandoned, because there is no token of the project: "
    "its resources are swept separately. If Heat abandons no stacks (enable_stack_abandon), it is left.",
)

FAILED_STACK = _stack_type(
    "failed_stack",
    variant_of="stack",
    list=failed_stacks,
    all_projects=all_stacks(failed=True),
    tags="tags",
    after=("stack",),
    source=_SOURCE + "heat engine/stack.py, engine/check_resource.py",
    note="A stack in DELETE_FAILED, and in DELETE_IN_PROGRESS once the delete is requested again. It recreates "
    "nothing, so no type waits for it: the resource that blocks it (a foreign object in its container, a server "
    "on its network) may be swept meanwhile. Heat treats resources of the stack that others deleted as deleted. "
    "What remains is left with Heat's reason.",
)

NESTED_STACK = _stack_type(
    "nested_stack",
    variant_of="stack",
    list=orphaned_stacks,
    all_projects="which nested stacks have lost their root can only be told with all stacks at hand",
    after=("stack",),
    refers_to=nested_in,
    source="GET /v1/P/stacks?tenant=X&show_nested=true; heat db/api.py, _query_stack_get_all",
    note="Only those whose root is gone, which no other list shows. All others are deleted with their root, and "
    "would be created again if they were deleted before it. Of several levels the outermost is deleted first: "
    "Heat deletes those below with it.",
)
