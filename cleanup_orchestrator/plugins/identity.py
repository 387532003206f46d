"""Keystone: what belongs to users but names the project.

The delete of a project deletes its role assignments, EC2 and other credentials, trusts, limits, endpoint filter
associations, tags and options. Application credentials and OAuth1 access tokens stay forever. All of these are swept
last: stacks, clusters, leases and alarms act through trusts and application credentials until they are gone.

Keystone's API lists application credentials and OAuth1 access tokens by user only, and a user whose role came from a
group, a mapping of a federation or a directory need not show any role on the project. Where this package is inside
Keystone (``cleanup_orchestrator.keystone.delegations``), Keystone lists them by project. Elsewhere the report says that
such a user may have been missed.

Role assignments are not resources: the drain handles them. Users stay, because they belong to their domain. Never
deleted: keypairs and access rules (they belong to a user, who uses them for other projects as well; an admin needs
system scope for the rules), registered limits (of the cloud), OAuth1 request tokens (no list; they expire in hours),
and rules of federation mappings (of the cloud; a rule that names the project creates a new one at the next login).
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote

from oslo_config import cfg

from cleanup_orchestrator.plugins.base import (
    DELEGATIONS_PATH,
    EVERYTHING,
    BadAnswer,
    Collection,
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

#: A listing, as a hook.
Listing = Callable[["Connection", ProjectDefinition], Iterable[Row]]
_CREDENTIALS = Collection("identity", "/credentials", one="credential")
_TRUSTS = Collection("identity", "/OS-TRUST/trusts", one="trust")
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
    users: set[str] = set()
    for domain in _paged("/domains", "domains").rows(connection, project):
        for user in _paged("/users", "users", domain_id=domain["id"]).rows(connection, project):
            users.add(str(user["id"]))
            if len(users) > most:
                raise ProjectGone(
                    "Keystone shows who had a role on the project only while it knows the project, and there are too "
                    f"many users to ask about each: raise most_users of the service identity above {most}"
                )
    return users


def _paged(path: str, key: str, **filters: str) -> Rest:
    """Return a list that newer Keystones cut at ``[DEFAULT] max_db_limit`` (1000).

    Only if the request has a ``limit``, they say so: with ``truncated`` and a ``next`` link, on each full page. Older
    ones ignore the limit and return all rows. LDAP ignores the marker: rows beyond the first page are unknown.
    """
    return Rest("identity", path, key=key, query=filters, paging=Paging.PAGES, limit=_PAGE)


def _of_project(
    kind: str, otherwise: Listing, project_id: str = "{project_id}"
) -> Callable[[Connection, ProjectDefinition], Iterator[Row]]:
    """Return a listing by project, where this package is inside Keystone.

    :param kind: as Keystone names it there, in the path and in the answer
    :param otherwise: the listing for a Keystone without the package, or one that knows another user as the
        orchestrator's
    :param project_id: of one project; ``-``: of all
    """
    path = f"{DELEGATIONS_PATH}/projects/{project_id}/{kind}"
    call = Rest("identity", path, key=kind, query={"limit": 1000}, paging=Paging.LINKS)

    def listing(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
        begun = False
        try:
            for row in call.rows(connection, project):
                begun = True
                yield row
        except (exceptions.NotFoundException, exceptions.ForbiddenException):
            if begun:
                raise BadAnswer(f"a Keystone process lists {kind} by project, and another one does not") from None
            yield from otherwise(connection, project)

    return listing


def _may_miss_users(connection: Connection, project: ProjectDefinition) -> str:
    """Return why users' application credentials may be missed; empty: Keystone lists them by project."""
    try:
        known = Rest("identity", DELEGATIONS_PATH).call(connection, project).get("kinds", ())
    except exceptions.NotFoundException:
        why = "this Keystone lists them by user only"
    except exceptions.ForbiddenException:
        why = "the orchestrator's user is not the one of [project_cleanup] user_id in keystone.conf, or no admin"
    else:
        if {"application_credentials", "oauth1_access_tokens"} <= set(known):
            return ""
        why = "this Keystone has another driver for them than SQL"
    whose = f"= '{project.id}'" if project.domain_id else "NOT IN (SELECT id FROM project)"
    return (
        "application credentials and OAuth1 access tokens of users without a visible role on the project (federated "
        f"users, former members of a group) may have been missed: {why}. Keystone's database shows them: {_QUERIES} "
        "An admin deletes them with DELETE /v3/users/{user_id}/application_credentials/{id} and "
        "DELETE /v3/users/{authorizing_user_id}/OS-OAUTH1/access_tokens/{id}"
    ).replace("{whose}", whose)


#: What a person types at the prompt of the database. Nothing executes it here.
_QUERIES = (
    "SELECT id, user_id, project_id FROM application_credential WHERE project_id {whose}; "
    "SELECT id, authorizing_user_id, project_id FROM access_token WHERE project_id {whose};"
)


def _none_of_all(connection: Connection, project: ProjectDefinition) -> Iterable[Row]:
    """Refuse a list of all projects by user.

    :raises BadAnswer: always
    """
    raise BadAnswer(_may_miss_users(connection, project) or "Keystone did not list them by project")


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


def _credentials(listing: Listing) -> Callable[[Connection, ProjectDefinition], Iterator[Row]]:
    """Return a listing of credentials without what is secret in them."""

    def credentials(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
        _expect_undelegated(connection)
        for row in listing(connection, project):
            yield {key: value for key, value in row.items() if key != "blob"}  # the blob is the secret itself

    return credentials


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
_WITH_PROJECT = "Keystone removes it together with the project"

OPTIONS = (
    cfg.IntOpt(
        "most_users",
        default=1000,
        min=0,
        help="If a project was deleted without the orchestrator, Keystone no longer shows who its users were. "
        "It lists application credentials and OAuth1 access tokens by user only. If the cloud has at most this number "
        "of users, the orchestrator asks about each of them, with three calls for each inventory. Otherwise these "
        "resources are unknown.",
    ),
)

SERVICE = Service(
    service_type="identity",
    contract_version=2,
    regional=False,
    options=OPTIONS,
    roles="admin, by password: not by application credential, trust or OAuth",
    # Keystone decides this by the same rule as credentials (admin, or reader of the system). A manager of a domain
    # sees only those of the domain.
    proof=Rest("identity", "/services", key="services", query={"type": "identity"}),
    types=(
        ResourceType(
            name="application_credential",
            used_by=(),
            list=_of_project(
                "application_credentials",
                _per_user("/users/{user}/application_credentials", "application_credentials"),
            ),
            all_projects=_of_project("application_credentials", _none_of_all, "-"),
            may_miss=_may_miss_users,
            show=_show_per_user("/users/{row[user_id]}/application_credentials/{id}", "application_credential"),
            delete=Rest("identity", "/users/{row[user_id]}/application_credentials/{id}", method="DELETE"),
            after=_LAST,
            unfiltered="a stock Keystone lists them by user only; the rows are compared on this side",
            source="GET /v3/OS-PROJECT-CLEANUP/projects/{id}/application_credentials (keystone/delegations.py); GET, "
            "DELETE /v3/users/{id}/application_credentials; keystone application_credential/core.py",
            note="Keystone does not delete them with the project. Where this package is inside Keystone, they are "
            "listed by project. Elsewhere all users that have an effective role now, or had one at the first "
            "inventory, are asked about; a user who lost the role of a group before that, or got it from the mapping "
            "of a federation, is not known, which the report says. Access rules belong to the user and stay. To "
            "create one takes a token of the project, so that a user without a role on it cannot.",
        ),
        ResourceType(
            name="oauth1_access_token",
            used_by=(),
            list=_of_project(
                "oauth1_access_tokens", _per_user("/users/{user}/OS-OAUTH1/access_tokens", "access_tokens")
            ),
            all_projects=_of_project("oauth1_access_tokens", _none_of_all, "-"),
            may_miss=_may_miss_users,
            show=_show_per_user("/users/{row[user_id]}/OS-OAUTH1/access_tokens/{id}", "access_token"),
            delete=Rest("identity", "/users/{row[user_id]}/OS-OAUTH1/access_tokens/{id}", method="DELETE"),
            title="consumer_id",
            after=_LAST,
            unfiltered="a stock Keystone lists them by user only; the rows are compared on this side",
            source="GET /v3/OS-PROJECT-CLEANUP/projects/{id}/oauth1_access_tokens (keystone/delegations.py); GET, "
            "DELETE /v3/users/{id}/OS-OAUTH1/access_tokens; keystone api/users.py",
            note="Keystone does not delete them with the project. Their users are found as for application "
            "credentials. To create one with roles takes these roles on the project. Keystone also accepts an "
            "empty list of roles, from any user with a consumer that an admin created. Such a token gives no "
            "access, and its user is not asked about, unless the user has a role on the project. Once the "
            "project is gone, none can be created.",
        ),
        ResourceType(
            name="credential",
            used_by=(),
            list=_credentials(_of_project("credentials", _list_own("/credentials", "credentials"))),
            all_projects=_credentials(_CREDENTIALS.all.rows),
            show=_CREDENTIALS.show,
            delete=_CREDENTIALS.delete,
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
            used_by=(),
            list=_of_project("trusts", _list_own("/OS-TRUST/trusts", "trusts")),
            all_projects=_TRUSTS.all,
            show=_TRUSTS.show,
            delete=_TRUSTS.delete,
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
            used_by=(),
            list=_default_project_users,
            all_projects="users belong to their domain",
            delete=None,
            owner="default_project_id",
            after=_LAST,
            keep=(_keep_user,),
            project_setting=True,
            source="GET /v3/users/{id}; keystone identity/core.py",
            note="Only counted. Keystone clears it in its own users when it deletes the project, and leaves it in "
            "those of an LDAP directory, where it has no effect: a user who logs in without naming a project gets "
            "an unscoped token. The users are found by their roles.",
        ),
        ResourceType(
            name="limit",
            used_by=(),
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
            used_by=(),
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
            used_by=(),
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
