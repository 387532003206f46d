"""Keystone in memory: a tree of projects, and the users who get tokens for each of them.

The project under deletion is ``p``; with ``Plan.tree`` there are projects below it. The orchestrator's user is ``me``.
The janitor and the others get tokens through grants. A service accepts a token for as long as the longest cache lasts,
and the members of a project always use their tokens right before they lose them.
"""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable, Mapping
from typing import Any

from cleanup_orchestrator.keystone import protocol
from tests.simulation.plan import Plan
from tests.support.scheduler import Simulation, Thread

PROJECT, BYSTANDER, OWN, DEAD = "p", "b", "own", "x"
PROJECTS_OF_OTHERS = (OWN, BYSTANDER)
ME = "me"


class _Ours:
    """The users of the orchestrator: its own, and the janitors, of which each deletion has another one."""

    def __contains__(self, user_id: str) -> bool:
        return user_id == ME or user_id.startswith("janitor-")


OURS = _Ours()
ROLES = ("admin", "member", "reader")
GROUP_USERS = {"g": ("w",)}

#: Called right before a write of the orchestrator takes effect: thread, method, what, project, resource.
OnWrite = Callable[[Thread, str, str, str, Any], None]


class Answer:
    """The answer to a call."""

    def __init__(self, status: int, body: Any = None) -> None:
        self.status_code, self._body, self.headers = status, body, {}
        self.content = b"" if body is None else b"{}"

    def json(self) -> Any:
        if self._body is None:
            raise ValueError("no body")
        return self._body


def not_found() -> Answer:
    return Answer(404, {"error": {"code": 404, "message": "Could not find it"}})


def _forbidden(message: str) -> Answer:
    return Answer(403, {"error": {"code": 403, "message": message}})


@dataclasses.dataclass(frozen=True, slots=True)
class Selected:
    """What one list showed of what a deletion selects."""

    at: float
    locked_at: float | None  #: since when only the orchestrator got tokens, at that moment
    ids: frozenset[str]


@dataclasses.dataclass(slots=True)
class Project:
    """A project. ``wanted_...``: the state in which others left it."""

    id: str
    parent: str  #: empty: none
    born: int  #: number of the effect before which it was made
    since: float = 0.0  #: simulated time at which it was made
    gone: int = 0  #: number of the effect before which it went
    enabled: bool = True
    exists: bool = True
    grants: set[tuple[str, str, str]] = dataclasses.field(default_factory=set)
    wanted_grants: set[tuple[str, str, str]] = dataclasses.field(default_factory=set)
    wanted_enabled: bool = True
    fence: str = ""
    janitor: str | None = None  #: the user whom the fence does not stop, besides the orchestrator's
    fence_at: float = 0.0
    gone_by_others: bool = False
    disabled_at: float = math.inf  #: when the orchestrator disabled it last
    reopened: int = 0  #: number of the effect before which others regained access
    locked_at: float | None = None  #: since when Keystone accepts only the orchestrator
    stale_from: float | None = None  #: from when on a flush of the token cache forgets the last token of others
    #: (region, type) to when it was listed for the project, and what of the project's was shown.
    inventories: dict[tuple[str, str], list[tuple[float, frozenset[str]]]] = dataclasses.field(default_factory=dict)
    #: (region, type) to the number of the effect at which it was listed last.
    listed_at: dict[tuple[str, str], int] = dataclasses.field(default_factory=dict)
    #: (region, type) to what each list showed of what is selected.
    selections: dict[tuple[str, str], list[Selected]] = dataclasses.field(default_factory=dict)


class Keystone:
    """The projects, their grants and tokens."""

    def __init__(self, plan: Plan, simulation: Simulation, rng: random.Random, on_write: OnWrite) -> None:
        self.plan, self.simulation, self.rng, self._on_write = plan, simulation, rng, on_write
        self.projects: dict[str, Project] = {}
        self.tokens: dict[str, str] = {}  #: tokens to their project, without revoked tokens
        self.users: dict[str, str] = {}  #: tokens to their user
        self.catalog: list[tuple[str, str]] = []  #: (region, service)
        self._numbers = 0
        self.add(PROJECT, "", enabled=not plan.disabled)
        for number, parent in enumerate(plan.tree, 1):  # Keystone has no enabled project below a disabled one
            self.add(f"c{number}", f"c{parent}" if parent else PROJECT, enabled=not plan.disabled)

    # -- the tree
    def add(self, id_: str, parent: str, enabled: bool = True) -> Project:
        """Make a project with two members."""
        project = Project(id_, parent, self.simulation.effects, self.simulation.now, wanted_enabled=enabled)
        project.enabled = enabled
        project.grants = {("users", "u", "member"), ("groups", "g", "member")}
        if self.plan.member:
            project.grants.add(("users", "me", "admin"))
        project.wanted_grants = set(project.grants)
        self.projects[id_] = project
        self.relock(project)
        if not enabled:
            project.locked_at = -math.inf
        return project

    def children(self, id_: str) -> list[Project]:
        return [p for p in self.projects.values() if p.exists and p.parent == id_]

    def below(self, id_: str) -> list[Project]:
        """Return every existing project below one."""
        return [found for child in self.children(id_) for found in (child, *self.below(child.id))]

    def there(self) -> list[Project]:
        """Return the existing projects."""
        return [p for p in self.projects.values() if p.exists]

    def parent_enabled(self, project: Project) -> bool:
        return not project.parent or self.projects[project.parent].enabled

    # -- access
    def open(self, project: Project) -> bool:
        """Whether Keystone gives others tokens for the project."""
        others = self.plan.inherited or any(who not in OURS for _, who, _ in project.grants)
        return project.exists and project.enabled and not project.fence and others

    def relock(self, project: Project, locking: bool = False) -> None:
        """Set who has access after a change of the project.

        :param locking: the change removed access. Keystone clears its token cache before it writes. So a token that was
            being validated meanwhile may be accepted until the cache is cleared again
        """
        now = self.simulation.now
        if self.open(project):
            if project.locked_at is not None:
                project.reopened = self.simulation.effects
            project.locked_at, project.stale_from = None, None
            return
        if locking and project.locked_at is None and project.stale_from is None and self.rng.random() < 0.4:
            project.stale_from = now + 1.9 * self.rng.random()
        if project.locked_at is None and project.stale_from is None:
            project.locked_at = now + (protocol.FENCE_MAX_AGE if project.fence else 0.0)

    def flush(self) -> None:
        """Empty the token cache, which is one for all projects."""
        for project in self.projects.values():
            if project.stale_from is not None and project.stale_from <= self.simulation.now:
                project.stale_from = None
                self.relock(project)

    def members_work(self, project: Project) -> bool:
        """Return whether some service still accepts requests of a member of the project."""
        return project.locked_at is None or self.simulation.now < project.locked_at + self.plan.settle

    def vanish(self, project: Project) -> None:
        """Let others delete it. Keystone revokes the tokens of a deleted project, also cached ones."""
        project.exists, project.gone_by_others, project.gone = False, True, self.simulation.effects
        project.grants.clear()
        project.stale_from = None
        self.relock(project)

    # -- tokens
    def good(self, token: str) -> bool:
        id_ = self.tokens.get(token)
        project = self.projects.get(id_ or "")
        if project is None:
            return id_ is not None
        return project.exists and project.enabled and any(who == self.users[token] for _, who, _ in project.grants)

    def token(self, project_id: str, user: str) -> Answer:
        """Give the orchestrator's user or the janitor a token."""
        roles, project = ["admin"], self.projects.get(project_id)
        if project is not None:
            roles = sorted(role for _, who, role in project.grants if who == user)
            fenced = bool(project.fence) and user not in (ME, project.janitor)
            if not (project.exists and project.enabled and roles) or fenced:
                return Answer(401, {"error": {"code": 401, "message": "no token for this project"}})
        self._numbers += 1
        token = f"token-{self._numbers}"
        self.tokens[token], self.users[token] = project_id, user
        return Answer(201, {"token": token, "roles": roles})

    def auth(self, thread: Thread, method: str, headers: Mapping[str, str]) -> Answer:
        subject = headers["X-Subject-Token"]
        if method == "DELETE":
            self._on_write(thread, method, "token", "", None)
            return Answer(204 if self.tokens.pop(subject, None) else 404)
        project = self.projects.get(self.tokens.get(subject, ""))
        fenced = (
            project is not None
            and bool(project.fence)
            and headers.get(protocol.CANARY_HEADER) == project.fence
            and self.simulation.now >= project.fence_at + protocol.FENCE_MAX_AGE
        )
        if not fenced and self.good(subject):
            return Answer(200, {})
        refused = not_found()
        if fenced and self.good(subject):
            refused.headers[protocol.FENCED_HEADER] = project.fence
        return refused

    # -- the orchestrator's calls
    def serve(self, thread: Thread, method: str, parts: list[str], query: str, body: Any) -> Answer:
        what = parts[0]
        if what == "services":
            types = sorted({service for _, service in self.catalog})
            return Answer(200, {"services": [{"id": t, "type": t, "name": t} for t in types]})
        if what == "endpoints":
            rows = [{"id": f"{s}@{r}", "service_id": s, "region_id": r} for r, s in self.catalog]
            return Answer(200, {"endpoints": rows})
        if what == "roles":
            wanted = query.removeprefix("name=") if query else ""
            return Answer(200, {"roles": [{"id": r, "name": r} for r in ROLES if wanted in ("", r)]})
        if what == "role_inferences":
            return Answer(200, {"role_inferences": []})
        if what == "groups":
            return Answer(200, {"users": [{"id": u} for u in GROUP_USERS[parts[1]]]})
        if what == "role_assignments":
            return self._assignments(query)
        assert what == "projects", parts
        if len(parts) == 1:
            below = self.children(query.removeprefix("parent_id="))
            return Answer(200, {"projects": [self._row(thread, each, "") for each in below]})
        if parts[1] in PROJECTS_OF_OTHERS:
            return Answer(200, {"project": {"id": parts[1], "name": parts[1], "domain_id": "dom", "enabled": True}})
        project = self.projects.get(parts[1])
        if project is None or not project.exists:
            return not_found()
        if len(parts) > 2:
            return self._grant(thread, method, project, parts)
        if method == "GET":
            thread.saw.setdefault(("project", project.id), self.simulation.effects)
        if method == "DELETE":
            return self._delete(thread, project)
        if method == "PATCH" and (refusal := self._update(thread, project, body["project"])):
            return refusal
        return Answer(200, {"project": self._row(thread, project, query)})

    def _row(self, thread: Thread, project: Project, query: str) -> dict[str, Any]:
        options = {protocol.FENCE_OPTION: project.fence, protocol.JANITOR_OPTION: project.janitor}
        options = {name: value for name, value in options.items() if value}
        row = {"id": project.id, "name": project.id.upper(), "domain_id": "dom", "options": options}
        row |= {"enabled": project.enabled, "parent_id": project.parent or "dom"}
        if "subtree" in query:
            thread.saw["below", project.id] = self.simulation.effects
            row["subtree"] = self._tree(project.id)
        if "parents" in query:
            row["parents"] = self._parents(project)
        return row

    def _tree(self, id_: str) -> dict[str, Any] | None:
        return {child.id: self._tree(child.id) for child in self.children(id_)} or None

    def _parents(self, project: Project) -> dict[str, Any] | None:
        return {project.parent: self._parents(self.projects[project.parent])} if project.parent else None

    def _delete(self, thread: Thread, project: Project) -> Answer:
        self._on_write(thread, "DELETE", "project", project.id, None)
        if self.children(project.id):
            return _forbidden("it has projects below it")
        project.exists, project.gone = False, self.simulation.effects
        project.grants.clear()
        self.relock(project)
        return Answer(204)

    def _update(self, thread: Thread, project: Project, values: Mapping[str, Any]) -> Answer | None:
        """Update a project; return a refusal, if it is refused."""
        if "enabled" in values:
            enabled = values["enabled"]
            self._on_write(thread, "PATCH", f"enabled={enabled}", project.id, None)
            if not enabled and any(p.enabled for p in self.below(project.id)):
                return _forbidden("a project below it is enabled")
            if enabled and not self.parent_enabled(project):
                return _forbidden("the project above it is disabled")
            self.flush()
            project.enabled = enabled
            project.disabled_at = project.disabled_at if enabled else self.simulation.now
            self.relock(project, locking=not enabled)
        elif protocol.JANITOR_OPTION in values["options"]:
            project.janitor = values["options"][protocol.JANITOR_OPTION]
            self._on_write(thread, "PATCH", f"janitor={project.janitor}", project.id, None)
        elif protocol.FENCE_OPTION in values["options"]:
            fence = values["options"][protocol.FENCE_OPTION] or ""
            self._on_write(thread, "PATCH", f"fence={fence}", project.id, None)
            if fence and not project.fence:
                project.fence_at = self.simulation.now
            project.fence = fence
            self.relock(project)
        else:
            self._on_write(thread, "PATCH", "nothing", project.id, None)
            thread.saw["project"] = self.simulation.effects
        return None

    def _grant(self, thread: Thread, method: str, project: Project, parts: list[str]) -> Answer:
        _, _, actor, who, _, role = parts
        grant = (actor, who, role)
        self._on_write(thread, method, "grant " + " ".join(grant), project.id, None)
        if method == "PUT":
            project.grants.add(grant)
            self.relock(project)
            return Answer(204)
        if grant not in project.grants:
            return not_found()
        self.flush()
        project.grants.discard(grant)
        self.relock(project, locking=who not in OURS)
        return Answer(204)

    def _assignments(self, query: str) -> Answer:
        if query.startswith("user.id="):
            user = query.removeprefix("user.id=")
            mine = [(p.id, role) for p in self.there() for _, who, role in sorted(p.grants) if who == user]
            rows = [{"user": {"id": user}, "role": {"id": r}, "scope": {"project": {"id": id_}}} for id_, r in mine]
            return Answer(200, {"role_assignments": rows})
        id_ = next((x.removeprefix("scope.project.id=") for x in query.split("&") if "scope.project.id=" in x), "")
        if not id_ or "inherited_to" in query:
            return Answer(200, {"role_assignments": []})
        project = self.projects[id_]
        if not project.exists:
            return not_found()
        found: list[tuple[str, str, str]] = sorted(project.grants)
        if "effective" in query:
            users = {("users", w, r) for a, who, r in found for w in (GROUP_USERS[who] if a == "groups" else (who,))}
            found = sorted(users | ({("users", "boss", "member")} if self.plan.inherited else set()))
        scope = {"project": {"id": id_}}
        rows = [{actor[:-1]: {"id": who}, "role": {"id": role}, "scope": scope} for actor, who, role in found]
        return Answer(200, {"role_assignments": rows})
