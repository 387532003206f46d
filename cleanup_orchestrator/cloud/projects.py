"""Keystone calls about projects. All are made with the orchestrator's admin token."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from keystoneauth1 import exceptions as ka_exceptions
from keystoneauth1.adapter import Adapter
from oslo_config import cfg

from cleanup_orchestrator.cloud.janitors import Users
from cleanup_orchestrator.core.ids import is_id
from cleanup_orchestrator.errors import BadAnswer, CleanupError, body, expect_keystones
from cleanup_orchestrator.keystone import protocol

OPTS = {
    "deletion": [
        cfg.ListOpt(
            "never_delete_projects",
            default=["admin", "service"],
            mutable=True,
            help="Projects whose deletion is always refused: ids, or names, which match in every domain, upper and "
            "lower case alike. Only an id is a safe protection: managers of a domain can rename its projects. Then a "
            "project loses the protection of its name, or another project gets it. The deletion of the "
            "orchestrator's own project is refused in any case.",
        )
    ]
}


def letters(id_: str) -> str:
    """Return an id without what its spellings differ in: hyphens, the case of letters, and blanks around it.

    Services store the owner as a client wrote it, and some databases compare without case or without blanks at the end.
    """
    return id_.strip().replace("-", "").lower()


class ProjectNotFound(CleanupError):
    """Keystone does not know the project."""

    code = "project_not_found"


@dataclasses.dataclass(frozen=True, slots=True)
class Project:
    """A project as Keystone shows it (``GET /v3/projects/{id}``)."""

    id: str
    name: str
    domain_id: str
    enabled: bool
    is_domain: bool = False
    immutable: bool = False
    fence: str | None = None  #: id of the deletion that set a fence; ``None``: no fence
    fence_serial: int = 0  #: grows with each change of the fence; 0: it was never set
    fence_changed_by: str = ""  #: id of the user who made the latest change of the fence
    janitor: str | None = None  #: id of the user whom the fence does not stop, besides the orchestrator's


@dataclasses.dataclass(frozen=True, slots=True)
class Protection:
    """Tells which projects are never deleted."""

    never_delete: tuple[str, ...]  #: ids or names
    own_project_id: Callable[[], str]  #: the orchestrator's own

    def why(self, project_id: str, project_name: str) -> str | None:
        """Return why a project is never deleted; ``None`` if it may be deleted."""
        if project_id == self.own_project_id():
            return "this is the orchestrator's own project, which is never deleted"
        return self.listed(project_id, project_name)

    def listed(self, project_id: str, project_name: str) -> str | None:
        """Return why a project is on the never-delete list; makes no call."""
        never = {entry.casefold() for entry in self.never_delete}
        if project_id.casefold() in never or project_name.casefold() in never:
            return (
                "the operator's never-delete list has this project: an operator can change [deletion] "
                "never_delete_projects"
            )
        return None


class Projects:
    """The projects of the cloud, over one identity adapter."""

    def __init__(self, identity: Adapter) -> None:
        self._identity = identity
        self.users = Users(identity)

    def get(self, project_id: str) -> Project:
        """Return one project.

        :raises ProjectNotFound: Keystone answers 404
        :raises BadAnswer: the answer is not about this project
        """
        if not is_id(project_id):
            raise ProjectNotFound(f"no project has the id {project_id!r}")
        return self._read(project_id, self._identity.get)

    def why_disabled(self, project_id: str) -> str:
        """Return what is disabled, so that Keystone gives no token for the project, and the call that enables it.

        Empty: neither the project nor its domain is disabled.

        :raises ProjectNotFound: Keystone does not know the project
        :raises keystoneauth1.exceptions.ClientException: Keystone did not answer, or refused the call
        """
        project = self.get(project_id)
        domain = body(self._identity.get(f"/domains/{project.domain_id}"), "domain")["domain"]
        if domain.get("enabled") is False:
            return (
                f"domain {domain.get('name')} ({project.domain_id}) is disabled, and so Keystone gives no token for "
                f"its projects; as an admin: openstack domain set --enable {project.domain_id}"
            )
        if not project.enabled and project.fence:
            return (
                f"the project is disabled, and has a token fence: cancel deletion {project.fence}, then, as an admin: "
                f"openstack project set --enable {project_id}; then retry the deletion"
            )
        if not project.enabled:
            return f"the project is disabled; as an admin: openstack project set --enable {project_id}"
        return ""

    def knows(self, project_id: str, own_id: str) -> bool:
        """Return whether Keystone knows a project, or a domain acting as one.

        A 404 counts only in Keystone's own format, and only if Keystone knows the orchestrator's own project. With
        an empty or a foreign database, Keystone would answer 404 for every project.

        :param own_id: of the orchestrator's own project
        :raises BadAnswer: the answer does not tell, or Keystone knows the id in another spelling
        :raises keystoneauth1.exceptions.ClientException: Keystone did not answer, or refused the call
        """
        if not is_id(project_id):
            raise BadAnswer(f"{project_id[:64]!r} is no id that Keystone could be asked about")
        try:
            self.get(project_id)
        except ProjectNotFound:
            try:
                self.get(own_id)
            except ProjectNotFound:
                text = "Keystone does not know the orchestrator's own project either, so its answer does not count"
                raise BadAnswer(text) from None
            return self._knows_otherwise(project_id)
        return True

    def _knows_otherwise(self, project_id: str) -> bool:
        """Return ``False`` if Keystone does not know an unknown id in the spelling of its own ids either.

        :raises BadAnswer: it does: what names this id may be the project's
        """
        if (usual := letters(project_id)) == project_id or not is_id(usual):
            return False
        try:
            self.get(usual)
        except ProjectNotFound:
            return False
        raise BadAnswer(
            f"Keystone does not know project {project_id}, but it knows {usual}, the same id spelled otherwise"
        )

    @staticmethod
    def _read(project_id: str, call: Callable[[str], Any]) -> Project:
        try:
            row = body(call(f"/projects/{project_id}"), "project")["project"]
        except ka_exceptions.NotFound as error:
            expect_keystones(error)
            raise ProjectNotFound(f"no project has the id {project_id}") from None
        if not isinstance(row, Mapping) or row.get("id") != project_id:
            raise BadAnswer(f"Keystone did not answer about project {project_id}")
        return Projects._project(row)

    @staticmethod
    def _project(row: Mapping[str, Any]) -> Project:
        options = row.get("options") or {}
        return Project(
            id=row["id"],
            name=row["name"],
            domain_id=row.get("domain_id") or row["id"],
            enabled=bool(row["enabled"]),
            is_domain=bool(row.get("is_domain")),
            immutable=bool(options.get("immutable")),
            fence=options.get(protocol.FENCE_OPTION),
            fence_serial=int(options.get(protocol.SERIAL_OPTION) or 0),
            fence_changed_by=str(options.get(protocol.CHANGED_BY_OPTION) or ""),
            janitor=options.get(protocol.JANITOR_OPTION),
        )

    def children(self, project_id: str) -> tuple[str, ...]:
        """Return the ids of all descendants of a project."""
        return tuple(sorted(child for child, _parent in self.subtree(project_id)))

    def subtree(self, project_id: str) -> tuple[tuple[str, str], ...]:
        """Return (id, parent's id) of all descendants, children before parents.

        Uses ``subtree_as_ids``, because ``subtree_as_list`` shows only projects on which the caller has a role.

        :raises BadAnswer: the answer has no subtree
        """
        project = body(self._identity.get(f"/projects/{project_id}?subtree_as_ids"), "project")["project"]
        if "subtree" not in project:  # null says that there is none
            raise BadAnswer(f"Keystone did not say what is below project {project_id}")

        def walk(tree: Any, parent: str) -> list[tuple[str, str]]:
            return [pair for key, below in (tree or {}).items() for pair in (*walk(below, key), (key, parent))]

        return tuple(walk(project["subtree"], project_id))

    def below(self, subtree: Iterable[tuple[str, str]]) -> dict[str, Project]:
        """Return the projects of a subtree, by id; makes one list call for each parent.

        Projects that Keystone leaves out of a list because of its list limit are read one by one.

        :param subtree: what :meth:`subtree` returned
        :raises ProjectNotFound: a project is gone meanwhile
        :raises BadAnswer: a list contains other projects than the requested ones
        """
        above = dict(subtree)
        listed: dict[str, Project] = {}
        for parent_id in sorted(set(above.values())):
            for row in body(self._identity.get(f"/projects?parent_id={parent_id}"), "projects")["projects"]:
                if row.get("parent_id") != parent_id:
                    raise BadAnswer(f"Keystone listed another project than those below project {parent_id}")
                listed[row["id"]] = self._project(row)
        return {child: listed[child] if child in listed else self.get(child) for child in above}

    def doubt_domain(self, domain_id: str) -> str:
        """Return why a domain may have projects now or soon; an empty text: it has none, and its users make none.

        A list that Keystone truncated is not empty.

        :raises keystoneauth1.exceptions.ClientException: Keystone does not know the domain, or did not answer
        :raises BadAnswer: an answer is not about this domain
        """
        domain = body(self._identity.get(f"/domains/{domain_id}"), "domain")["domain"]
        rows = body(self._identity.get(f"/projects?domain_id={domain_id}"), "projects")["projects"]
        if domain.get("id") != domain_id or any(row.get("domain_id") != domain_id for row in rows):
            raise BadAnswer(f"Keystone did not answer about domain {domain_id}")
        if domain.get("enabled") is not False:
            return f"domain {domain_id} is enabled: its users can create projects"
        return f"domain {domain_id} has {len(rows)} projects: delete them first" if rows else ""

    def members(self, project_id: str) -> tuple[str, ...]:
        """Return the users with a role, also by group or inheritance, on the project."""
        rows = self.assignments(project_id, effective=True)
        return tuple(sorted({r["user"]["id"] for r in rows if "user" in r}))

    def inherited_groups(self, project_id: str) -> tuple[str, ...]:
        """Return the groups without local users that inherit a role on the project.

        They inherit it from its domain or from a parent project. Keystone lists no federated user as a member of a
        group, so that such a group may give users access.

        :raises BadAnswer: Keystone truncated a list
        """
        project = body(self._identity.get(f"/projects/{project_id}?parents_as_ids"), "project")["project"]

        def ids(tree: Any) -> list[str]:
            return [i for key, above in (tree or {}).items() for i in (key, *ids(above))]

        scopes = [f"scope.domain.id={project['domain_id']}"]
        scopes += [f"scope.project.id={i}" for i in ids(project.get("parents")) if i != project["domain_id"]]
        groups = set()
        for scope in scopes:
            said = body(self._identity.get(f"/role_assignments?{scope}&scope.OS-INHERIT:inherited_to=projects"))
            if not isinstance(said.get("role_assignments"), list) or said.get("truncated"):
                raise BadAnswer("Keystone did not list all role assignments")
            groups |= {row["group"]["id"] for row in said["role_assignments"] if "group" in row}
        return tuple(sorted(group for group in groups if not self._has_users(group)))

    def _has_users(self, group_id: str) -> bool:
        try:
            return bool(body(self._identity.get(f"/groups/{group_id}/users"), "users")["users"])
        except ka_exceptions.NotFound:  # the group is deleted or not visible, and its assignment is left
            return False

    def assignments(self, project_id: str, effective: bool = False) -> list[Mapping[str, Any]]:
        """Return the direct, or the effective, role assignments on the project.

        :raises BadAnswer: Keystone truncated the list
        """
        if not project_id:
            raise ValueError("an empty project id would list every assignment")
        query = f"/role_assignments?scope.project.id={project_id}" + ("&effective" if effective else "")
        rows = self._role_assignments(query)
        return [r for r in rows if r.get("scope", {}).get("project", {}).get("id") == project_id]

    def assignments_of(self, user_id: str) -> list[Mapping[str, Any]]:
        """Return all role assignments of a user, without those of its groups.

        Source: ``GET /v3/role_assignments?user.id=X``.

        :raises BadAnswer: Keystone did not list all of them
        """
        rows = self._role_assignments(f"/role_assignments?user.id={user_id}")
        return [row for row in rows if row.get("user", {}).get("id") == user_id]

    def _role_assignments(self, query: str) -> list[Mapping[str, Any]]:
        said = body(self._identity.get(query))
        rows = said.get("role_assignments")
        if not isinstance(rows, list) or said.get("truncated"):
            raise BadAnswer("Keystone did not list all role assignments")
        return rows

    def groups_of(self, user_id: str) -> list[str]:
        """Return the names of the groups that a user is in (``GET /v3/users/X/groups``).

        :raises BadAnswer: Keystone did not list all of them
        """
        said = body(self._identity.get(f"/users/{user_id}/groups"), "groups")
        if said.get("truncated"):
            raise BadAnswer("Keystone did not list all groups of a user")
        return [str(row["name"]) for row in said["groups"]]

    def grant(self, project_id: str, actor: str, actor_id: str, role_id: str) -> None:
        """Give a role on the project. ``actor`` is ``users`` or ``groups``. Idempotent.

        :raises keystoneauth1.exceptions.NotFound: Keystone knows no such project, user, group or role
        :raises BadAnswer: something else answers 404
        """
        try:
            self._identity.put(f"/projects/{project_id}/{actor}/{actor_id}/roles/{role_id}")
        except ka_exceptions.NotFound as error:
            expect_keystones(error)
            raise

    def ungrant(self, project_id: str, actor: str, actor_id: str, role_id: str) -> None:
        """Take a role on the project away. Idempotent: a missing role is no error.

        :raises BadAnswer: something else than Keystone answers 404
        """
        try:
            self._identity.delete(f"/projects/{project_id}/{actor}/{actor_id}/roles/{role_id}")
        except ka_exceptions.NotFound as error:
            expect_keystones(error)

    def role_id(self, name: str) -> str:
        """Return the id of a global role by its name.

        :raises BadAnswer: there is none, or more than one
        """
        roles = body(self._identity.get(f"/roles?name={name}"), "roles")["roles"]
        matching = [r["id"] for r in roles if r["name"] == name and not r.get("domain_id")]
        if len(matching) != 1:
            raise BadAnswer(f"{len(matching)} roles are named {name!r}")
        return str(matching[0])

    def role_ids(self) -> tuple[str, ...]:
        """Return the ids of all global roles, ``reader`` and ``member`` first."""
        roles = [r for r in body(self._identity.get("/roles"), "roles")["roles"] if not r.get("domain_id")]
        return tuple(str(r["id"]) for r in sorted(roles, key=lambda r: (r["name"] != "reader", r["name"] != "member")))

    def implied_roles(self, role_ids: Collection[str]) -> frozenset[str]:
        """Return the names of these roles and of all roles that they imply.

        Source: ``GET /v3/role_inferences``.

        :raises BadAnswer: the answer is malformed
        """
        rules = body(self._identity.get("/role_inferences"), "role_inferences")["role_inferences"]
        names = {str(role["id"]): str(role["name"]) for role in body(self._identity.get("/roles"), "roles")["roles"]}
        implied = {str(rule["prior_role"]["id"]): [str(one["id"]) for one in rule["implies"]] for rule in rules}
        reached, todo = set(), list(role_ids)
        while todo:
            if (role_id := todo.pop()) not in reached:
                reached.add(role_id)
                todo += implied.get(role_id, ())
        return frozenset(names[role_id] for role_id in reached if role_id in names)

    def set_enabled(self, project_id: str, enabled: bool) -> None:
        """Enable or disable the project; raises as :meth:`grant`."""
        self._patch(project_id, {"enabled": enabled})

    def get_uncached(self, project_id: str) -> Project:
        """Return one project as Keystone's database has it; raises as :meth:`get`.

        For Keystone this is a write. A Keystone process may show an old copy of a project for minutes, but the answer
        to an update comes from the database. So this is an update that changes nothing. A Keystone without the token
        fence drops a fence in any update of the project; the answer then shows no fence.
        """
        if not is_id(project_id):
            raise ProjectNotFound(f"no project has the id {project_id!r}")
        return self._read(project_id, lambda path: self._identity.patch(path, json={"project": {"options": {}}}))

    def set_fence(self, project_id: str, fence: str | None) -> None:
        """Set the token fence to the id of its deletion, or lift it (``None``).

        :raises keystoneauth1.exceptions.BadRequest: the Keystone that answers does not support the fence
        """
        self._set_option(project_id, protocol.FENCE_OPTION, fence)

    def set_janitor(self, project_id: str, user_id: str | None) -> None:
        """Let the fence of the project pass one user more, or (``None``) no user more; raises as :meth:`set_fence`."""
        self._set_option(project_id, protocol.JANITOR_OPTION, user_id)

    def _set_option(self, project_id: str, name: str, value: str | None) -> None:
        self._patch(project_id, {"options": {name: value}})

    def _patch(self, project_id: str, project: Mapping[str, Any]) -> None:
        try:
            self._identity.patch(f"/projects/{project_id}", json={"project": project})
        except ka_exceptions.NotFound as error:
            expect_keystones(error)
            raise

    def delete(self, project_id: str, deletion_id: str, headers: Mapping[str, str] | None = None) -> bool:
        """Delete the project; return ``False`` if it was gone already.

        :param deletion_id: id of the deletion; the Keystone filter accepts the call because of it
        :param headers: further ones, with which Keystone checks the lock
        :raises keystoneauth1.exceptions.Conflict: Keystone says that the lock was changed
        :raises BadAnswer: something else than Keystone answers 404
        """
        if not project_id:
            raise ValueError("an empty project id")
        sent = {**(headers or {}), protocol.FINAL_HEADER: deletion_id}
        try:
            self._identity.delete(f"/projects/{project_id}", headers=sent)
        except ka_exceptions.NotFound as error:
            expect_keystones(error)
            return False
        return True
