"""Keystone: what belongs to users but names the project.

The delete of a project deletes its role assignments, EC2 and other credentials, trusts, limits, endpoint filter
associations, tags and options. Application credentials and OAuth1 access tokens stay forever. All of these are swept
last: stacks, clusters, leases and alarms act through trusts and application credentials until they are gone.

Role assignments are not resources: the drain handles them. Users stay, because they belong to their domain. Never
deleted: keypairs and access rules (they belong to a user, who uses them for other projects as well; an admin needs
system scope for the rules), registered limits (of the cloud), OAuth1 request tokens (no list; they expire in hours),
and rules of federation mappings (of the cloud; a rule that names the project creates a new one at the next login).
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote

from oslo_config import cfg

from cleanup_orchestrator.plugins.base import (
    EVERYTHING,
    BadAnswer,
    Paging,
    ProjectDefinition,
    ProjectGone,
    Resource,
    ResourceType,
    Rest,
    Row,
    Service,
    exceptions,
    keystone_says_not_found,
)

if TYPE_CHECKING:
    from openstack.connection import Connection


_PAGE = 999  #: below Keystone's default limit; a Keystone with a smaller limit returns smaller pages


def _users(connection: Connection, project: ProjectDefinition) -> list[str]:
    """Return the users that have, or had, an effective role on the project.

    They had it at an earlier inventory. If the project is gone and had no inventory before, every user of the cloud is
    returned.

    :raises ProjectGone: when there are too many users to ask about each of them
    """
    assignments = Rest(
        "identity", "/role_assignments?effective", key="role_assignments", query={"scope.project.id": "{project_id}"}
    )
    try:
        now = {row["user"]["id"] for row in assignments.rows(connection, project) if "user" in row}
    except exceptions.NotFoundException:
        _expect_gone(connection, f"/projects/{quote(project.id, safe='')}", "the project")
        now = set() if project.member_ids else _all_users(connection, project)
    return sorted(now.union(project.member_ids))


def _all_users(connection: Connection, project: ProjectDefinition) -> set[str]:
    most = int(project.options.get("most_users", 0))
    found: set[str] = set()
    for domain in _paged("/domains", "domains").rows(connection, project):
        for user in _paged("/users", "users", domain_id=domain["id"]).rows(connection, project):
            found.add(str(user["id"]))
            if len(found) > most:
                raise ProjectGone(
                    "Keystone shows who had a role on the project only while it knows the project, and there are too "
                    f"many users to ask about each: raise most_users of the service identity above {most}"
                )
    return found


def _paged(path: str, key: str, **filters: str) -> Rest:
    """Return a list that newer Keystones cut at ``[DEFAULT] max_db_limit`` (1000).

    Only if the request has a ``limit``, they say so: with ``truncated`` and a ``next`` link, on each full page. Older
    ones ignore the limit and return all rows. LDAP ignores the marker: rows beyond the first page are unknown.
    """
    return Rest("identity", path, key=key, query=filters, paging=Paging.PAGES, limit=_PAGE)


def _per_user(path: str, key: str) -> Callable[[Connection, ProjectDefinition], Iterator[Row]]:
    """Return a listing of resources that Keystone lists by user only."""

    def listing(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
        for user in _users(connection, project):
            call = Rest("identity", path.format(user=quote(user, safe="")), key=key)
            try:
                rows = list(call.rows(connection, project))
            except exceptions.NotFoundException:
                _expect_gone(connection, f"/users/{quote(user, safe='')}", f"user {user}")
                continue
            for row in rows:
                if row.get("project_id") == project.id:
                    yield {**row, "user_id": user}

    return listing


def _default_project_users(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the project's users that have it as their default project."""
    for user_id in _users(connection, project):
        path = f"/users/{quote(user_id, safe='')}"
        try:
            user = Rest("identity", path, key="user").call(connection, project)["user"]
        except exceptions.NotFoundException:
            _expect_gone(connection, path, f"user {user_id}")
            continue
        if user.get("default_project_id") == project.id:
            yield user


def _show_per_user(path: str, key: str) -> Callable[[Connection, ProjectDefinition, Resource], Row]:
    """Return a ``show`` that keeps the user of the listed row."""
    call = Rest("identity", path, key=key)

    def show(connection: Connection, project: ProjectDefinition, resource: Resource) -> Row:
        return {**call.row(connection, project, resource), "user_id": resource.data["user_id"]}

    return show


def _expect_gone(connection: Connection, path: str, what: str) -> None:
    """Raise unless the parent of a list is gone: any other 404 is an error."""
    response = connection.identity.get(path)
    if response.status_code == 404 and keystone_says_not_found(response):
        return
    exceptions.raise_from_response(response)
    raise BadAnswer(f"Keystone knows {what} but not the list of what belongs to it")


def _list_own(path: str, key: str) -> Callable[[Connection, ProjectDefinition], Iterator[Row]]:
    """Return a listing of a collection without a project filter.

    The owner of each row is compared here.
    """
    call = Rest("identity", path, key=key)

    def listing(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
        for row in call.rows(connection, project):
            if row.get("project_id") == project.id:
                yield row

    return listing


def _expect_undelegated(connection: Connection) -> None:
    access = connection.session.auth.get_access(connection.session)
    if access.application_credential_id or access.trust_id or access.oauth_access_token_id:
        raise BadAnswer(
            "Keystone hides all credentials from a token of an application credential, trust or OAuth: the "
            "orchestrator has to authenticate with a password"
        )


def _credentials(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the credentials that name the project."""
    _expect_undelegated(connection)
    for row in _list_own("/credentials", "credentials")(connection, project):
        yield {key: value for key, value in row.items() if key != "blob"}  # the blob is the secret itself


def _all_credentials(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the credentials of all users that name a project."""
    _expect_undelegated(connection)
    for row in Rest("identity", "/credentials", key="credentials").rows(connection, project):
        yield {key: value for key, value in row.items() if key != "blob"}  # the blob is the secret itself


def _describe_credential(credential: Resource, project: ProjectDefinition) -> str | None:
    return f"a credential of user {credential.data.get('user_id')}: it is deleted with the project"


def _keep_dead_trust(trust: Resource, project: ProjectDefinition) -> str | None:
    uses, expires = trust.data.get("remaining_uses"), trust.data.get("expires_at")
    if uses is not None and uses <= 0:
        return "the trust is used up: Keystone lists it, answers 404 for it, and removes it with the project"
    if expires and datetime.datetime.fromisoformat(expires) <= datetime.datetime.now(datetime.UTC):
        return "the trust has expired: Keystone lists it, answers 404 for it, and removes it with the project"
    return None


def _keep_user(user: Resource, project: ProjectDefinition) -> str | None:
    return (
        "a user belongs to a domain, and may have roles elsewhere: to log in after this, it has to name another project"
    )


def _keep_until_project(resource: Resource, project: ProjectDefinition) -> str | None:
    return "Keystone removes it together with the project"


def _associations(path: str, key: str) -> Callable[[Connection, ProjectDefinition], Iterator[Row]]:
    """Return a listing of the project's links.

    The rows are the linked objects, which are not the project's.
    """
    call = Rest("identity", path, key=key)

    def listing(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
        try:
            for row in call.rows(connection, project):
                yield {"id": row["id"], "name": row.get("name") or row.get("url") or "", "project_id": project.id}
        except exceptions.NotFoundException:  # deleted with the project
            _expect_gone(connection, f"/projects/{quote(project.id, safe='')}", "the project")

    return listing


_LAST = (EVERYTHING,)
_BY_USER = "Keystone lists them by user only"
_WITH_PROJECT = "Keystone removes it together with the project"

OPTIONS = (
    cfg.IntOpt(
        "most_users",
        default=1000,
        min=0,
        help="If a project was deleted without the orchestrator, Keystone does not show any more who its users were. "
        "It lists application credentials and OAuth1 access tokens by user only. If the cloud has at most this number "
        "of users, the orchestrator asks about each of them, with three calls for each inventory. Otherwise these "
        "resources are unknown.",
    ),
)

SERVICE = Service(
    service_type="identity",
    contract_version=1,
    regional=False,
    options=OPTIONS,
    roles="admin, by password: not by application credential, trust or OAuth",
    # Keystone decides this by the same rule as credentials (admin, or reader of the system). A manager of a domain
    # sees only those of the domain.
    proof=Rest("identity", "/services", key="services", query={"type": "identity"}),
    types=(
        ResourceType(
            name="application_credential",
            list=_per_user("/users/{user}/application_credentials", "application_credentials"),
            all_projects=_BY_USER,
            show=_show_per_user("/users/{row[user_id]}/application_credentials/{id}", "application_credential"),
            delete=Rest("identity", "/users/{row[user_id]}/application_credentials/{id}", method="DELETE"),
            after=_LAST,
            unfiltered="there is a list by user only; the rows are compared on this side",
            source="GET, DELETE /v3/users/{id}/application_credentials; keystone application_credential/core.py",
            note="Keystone does not delete them with the project. All users that have an effective role now, or had "
            "one at the first inventory, are asked about. A user who lost the role by leaving a group before "
            "that is not known any more. Access rules belong to the user and stay. To create one takes a token "
            "of the project, so that a user without a role on it cannot.",
        ),
        ResourceType(
            name="oauth1_access_token",
            list=_per_user("/users/{user}/OS-OAUTH1/access_tokens", "access_tokens"),
            all_projects=_BY_USER,
            show=_show_per_user("/users/{row[user_id]}/OS-OAUTH1/access_tokens/{id}", "access_token"),
            delete=Rest("identity", "/users/{row[user_id]}/OS-OAUTH1/access_tokens/{id}", method="DELETE"),
            title="consumer_id",
            after=_LAST,
            unfiltered="there is a list by user only; the rows are compared on this side",
            source="GET, DELETE /v3/users/{id}/OS-OAUTH1/access_tokens; keystone api/users.py",
            note="Keystone does not delete them with the project. Their users are found as for application "
            "credentials. To create one with roles takes these roles on the project. Keystone also accepts an "
            "empty list of roles, from any user with a consumer that an admin created. Such a token gives no "
            "access, and its user is not asked about, unless the user has a role on the project. Once the "
            "project is gone, none can be created.",
        ),
        ResourceType(
            name="credential",
            list=_credentials,
            all_projects=_all_credentials,
            show=Rest("identity", "/credentials/{id}", key="credential"),
            delete=Rest("identity", "/credentials/{id}", method="DELETE"),
            title="type",
            after=_LAST,
            project_setting=True,
            informational=True,
            describe=_describe_credential,
            unfiltered="Keystone filters credentials by user and type only; the rows are compared on this side",
            source="GET, DELETE /v3/credentials; keystone api/credentials.py",
            note="EC2 keys and other credentials that name the project; a user's TOTP secrets name none. Any user "
            "may create one that names any project, with no role on it, directly or as an EC2 key. So it blocks "
            "nothing. Keystone removes them when it deletes the project (delete_credentials_for_project). If "
            "the project is gone, they are removed with the other deletes, which do not wait for them. To a "
            "delegated token Keystone answers an empty list with 200, so that such a token is refused here. A "
            "list that list_limit cut short is not believed.",
        ),
        ResourceType(
            name="trust",
            list=_list_own("/OS-TRUST/trusts", "trusts"),
            all_projects=Rest("identity", "/OS-TRUST/trusts", key="trusts"),
            show=Rest("identity", "/OS-TRUST/trusts/{id}", key="trust"),
            delete=Rest("identity", "/OS-TRUST/trusts/{id}", method="DELETE"),
            title="trustor_user_id",
            after=_LAST,
            keep=(_keep_dead_trust,),
            unfiltered="Keystone filters trusts by user only; the rows are compared on this side",
            source="GET, DELETE /v3/OS-TRUST/trusts; keystone trust/backends/sql.py",
            note="Heat, Magnum, Mistral, Aodh and Blazar act through trusts, so a trust is never deleted before "
            "their resources are gone. Expired and used-up trusts stay in the list but answer 404 to show and "
            "delete. The delete of a trust also deletes those redelegated from it. To create one takes at least "
            "one role on the project (or a trust of a member that gives it), so that a user without a role on "
            "it cannot.",
        ),
        ResourceType(
            name="default_project_user",
            list=_default_project_users,
            all_projects="users belong to their domain",
            delete=None,
            owner="default_project_id",
            after=_LAST,
            keep=(_keep_user,),
            project_setting=True,
            source="GET /v3/users/{id}; keystone identity/core.py",
            note="Only counted. Keystone leaves the project's id in them, where it has no effect: a user who logs in "
            "without naming a project gets an unscoped token. The users are found as for application "
            "credentials.",
        ),
        ResourceType(
            name="limit",
            list=Rest("identity", "/limits", key="limits", query={"project_id": "{project_id}"}),
            all_projects=_WITH_PROJECT,
            delete=None,
            title="resource_name",
            after=_LAST,
            keep=(_keep_until_project,),
            project_setting=True,
            source="GET /v3/limits?project_id=X; keystone limit/core.py",
            note="Registered limits belong to the cloud, and are never listed here.",
        ),
        ResourceType(
            name="endpoint_association",
            list=_associations("/OS-EP-FILTER/projects/{project_id}/endpoints", "endpoints"),
            all_projects=_WITH_PROJECT,
            delete=None,
            after=_LAST,
            keep=(_keep_until_project,),
            project_setting=True,
            source="GET /v3/OS-EP-FILTER/projects/{id}/endpoints; keystone catalog/core.py",
            note="The rows are endpoints of the cloud: only their association is the project's.",
        ),
        ResourceType(
            name="endpoint_group_association",
            list=_associations("/OS-EP-FILTER/projects/{project_id}/endpoint_groups", "endpoint_groups"),
            all_projects=_WITH_PROJECT,
            delete=None,
            after=_LAST,
            keep=(_keep_until_project,),
            project_setting=True,
            source="GET /v3/OS-EP-FILTER/projects/{id}/endpoint_groups; keystone catalog/core.py",
            note="The rows are endpoint groups of the cloud: only their association is the project's.",
        ),
    ),
)
