"""Keystone in memory: a tree of projects, and the users who get tokens for each of them.

It has several processes, see ``keystone_processes``; ``keystone_api`` has its calls.

The project under deletion is ``p``; with ``Plan.tree`` there are projects below it. The orchestrator's user is ``me``.
The janitor and the others get tokens through grants. A service accepts a token for as long as the longest cache lasts,
and the members of a project always use their tokens right before they lose them.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
from collections.abc import Callable, Mapping
from typing import Any

from cleanup_orchestrator.keystone import protocol
from tests.simulation.keystone_processes import KeystoneProcess
from tests.simulation.plan import Plan
from tests.support.scheduler import Simulation, Thread

PROJECT, BYSTANDER, OWN, DEAD = "p", "b", "own", "x"
PROJECTS_OF_OTHERS = (OWN, BYSTANDER)
#: The project of another domain, in a plan with a flood of requests.
ELSEWHERES = "o"
ME = "me"


class _Ours:
    """The users of the orchestrator: its own, and the janitors, of which each deletion has another one."""

    def __contains__(self, user_id: str) -> bool:
        return user_id == ME or user_id.startswith("janitor-")


OURS = _Ours()
ROLES = ("admin", "member", "reader")
GROUP_USERS = {"g": ("w",), "gang": ("pal",), "operators": ("me",)}

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
    domain: str = "dom"
    since: float = 0.0  #: simulated time at which it was made
    gone: int = 0  #: number of the effect before which it went
    enabled: bool = True
    exists: bool = True
    grants: set[tuple[str, str, str]] = dataclasses.field(default_factory=set)
    wanted_grants: set[tuple[str, str, str]] = dataclasses.field(default_factory=set)
    wanted_enabled: bool = True
    options: dict[str, Any] = dataclasses.field(default_factory=dict)  #: those of this package
    fences: list[tuple[float, str]] = dataclasses.field(default_factory=list)  #: since when it has which fence
    gone_by_others: bool = False
    shut: bool = False  #: whether the domain manager has disabled it
    #: Whether the domain manager disabled it, and in which state he left it cannot be told from the orchestrator's.
    blurred: bool = False
    blurred_grants: set[tuple[str, str, str]] = dataclasses.field(default_factory=set)  #: the same of grants
    disabled_at: float = math.inf  #: when the orchestrator disabled it last
    reopened: int = 0  #: number of the effect before which others regained access
    read: int = 0  #: number of the effect at which a step of the orchestrator read it last
    locked_at: float | None = None  #: since when Keystone accepts only the orchestrator
    stale_from: float | None = None  #: from when on a flush of the token cache forgets the last token of others
    #: (region, type) to when it was listed for the project, and what of the project's was shown.
    inventories: dict[tuple[str, str], list[tuple[float, frozenset[str]]]] = dataclasses.field(default_factory=dict)
    #: (region, type) to the number of the effect at which it was listed last.
    listed_at: dict[tuple[str, str], int] = dataclasses.field(default_factory=dict)
    #: (region, type) to what each list showed of what is selected.
    selections: dict[tuple[str, str], list[Selected]] = dataclasses.field(default_factory=dict)

    @property
    def fence(self) -> str:
        """Return the id of the deletion whose fence it has; empty: none."""
        return self.options.get(protocol.FENCE_OPTION) or ""


@dataclasses.dataclass(slots=True, eq=False)
class Hole:
    """A lock that a domain manager has opened. A stock Keystone keeps no record of that once it is closed again.

    Only its notifications tell of it, if an engine listens.
    """

    before: dict[str, float]  #: since when each locked project was locked
    closed: int = 0  #: number of the effect before which it was closed again; 0: it is open
    told: int = 0  #: notifications that are not handled yet
    known: bool = False  #: whether an engine has handled each notification

    def heard(self, count: int = 1) -> None:
        """Take note that an engine has handled notifications. From now on the proof must begin after the hole."""
        self.told -= count
        self.known = self.known or bool(count and not self.told and self.closed)


def _tokens(project: Project) -> str:
    """Return what stands for the tokens of others for a project in the cache of a process."""
    return f"of others for {project.id}"


class Keystone:
    """The projects, their grants and tokens."""

    def __init__(self, plan: Plan, simulation: Simulation, rng: random.Random, on_write: OnWrite) -> None:
        self.plan, self.simulation, self.rng, self._on_write = plan, simulation, rng, on_write
        self.projects: dict[str, Project] = {}
        self.tokens: dict[str, str] = {}  #: tokens to their project, without revoked tokens
        self.users: dict[str, str] = {}  #: tokens to their user
        self.catalog: list[tuple[str, str]] = []  #: (region, service)
        self.domain_grants: set[tuple[str, str, str]] = set()  #: inherited by each project
        self.holes: list[Hole] = []  #: the locks that the manager has opened
        self._random = random.Random(f"keystone {plan.seed}")
        #: Each process has a token cache of its own, until an admin mends that. One process alone shares its cache.
        self.own_caches = plan.own_caches and plan.keystones > 1
        #: Calls go to the processes in turn, and an old copy of a project decides about its tokens.
        self.in_turn = self.own_caches
        keeps = plan.settle if self.own_caches else 0.0
        self.processes = [KeystoneProcess(self._random, keeps) for _ in range(plan.keystones)]
        self._turn = itertools.count()
        self._numbers = 0
        self.add(PROJECT, "", enabled=not plan.disabled)
        for number, parent in enumerate(plan.tree, 1):  # Keystone has no enabled project below a disabled one
            self.add(f"c{number}", f"c{parent}" if parent else PROJECT, enabled=not plan.disabled)
        self.flooded = [f"f{number}" for number in range(plan.flood)] + [ELSEWHERES] * bool(plan.flood)
        for id_ in self.flooded:
            self.add(id_, "", domain="other" if id_ == ELSEWHERES else "dom")

    # -- the tree
    def add(self, id_: str, parent: str, enabled: bool = True, domain: str = "dom") -> Project:
        """Make a project with two members."""
        project = Project(id_, parent, self.simulation.effects, domain, self.simulation.now, wanted_enabled=enabled)
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
        return project.exists and project.enabled and not project.fence and self._others_have_roles(project)

    def _others_have_roles(self, project: Project) -> bool:
        return self.plan.inherited or any(who not in OURS for _, who, _ in project.grants | self.domain_grants)

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
        if self.own_caches:
            self._relock_caches(project)
            return
        if locking and project.locked_at is None and project.stale_from is None and self.rng.random() < 0.4:
            project.stale_from = now + 1.9 * self.rng.random()
        if project.locked_at is None and project.stale_from is None:
            project.locked_at = now + (protocol.FENCE_MAX_AGE if project.fence else 0.0)

    def _relock_caches(self, project: Project) -> None:
        """Set until when some process accepts a token of others, which it cached, or for which it has an old copy.

        No flush reaches a cache of another process. The fence refuses tokens that are cached, too.
        """
        now, tokens = self.simulation.now, _tokens(project)
        fenced_from = project.fences[-1][0] + protocol.FENCE_MAX_AGE if project.fence else math.inf
        if project.locked_at is None and project.exists:
            for process in self.processes:
                process.validated(tokens, fenced_from if project.fence else now)
        until = max(process.accepts_until(tokens) for process in self.processes)
        if project.exists and self._others_have_roles(project):
            until = max(until, *(process.shows_enabled_until(project.id) for process in self.processes))
        until = min(until, fenced_from)
        if project.locked_at is None or now < project.locked_at:
            project.locked_at = max(now, until)
        elif now < until:  # the fence that refused these tokens is gone
            project.reopened, project.locked_at = self.simulation.effects, until

    def share_caches(self) -> None:
        """Let an admin set a token cache that all processes share, and restart them."""
        if not self.own_caches:
            return
        for process in self.processes:
            process.share()
        for project in self.projects.values():
            self.relock(project)
        self.own_caches = self.in_turn = False

    def flush(self, draining: bool = False) -> None:
        """Empty the token cache, which is one for all projects.

        :param draining: the orchestrator does it. A user who is let in while it locks a project, and is shut out again,
            is let in behind the lock
        """
        for project in self.projects.values():
            if draining and project.locked_at is None and (hole := self.hole_of(project)):
                hole.before.setdefault(project.id, self.simulation.now)
            if project.stale_from is not None and project.stale_from <= self.simulation.now:
                project.stale_from = None
                self.relock(project)

    def members_work(self, project: Project) -> bool:
        """Return whether some service still accepts requests of a member of the project."""
        return project.locked_at is None or self.simulation.now < project.locked_at + self.plan.settle

    def hole_of(self, project: Project) -> Hole | None:
        """Return the opened lock behind which a member of the project works now."""
        return next((h for h in reversed(self.holes) if h.closed == 0 or h.closed >= project.reopened), None)

    def close_hole(self, hole: Hole) -> None:
        hole.closed = self.simulation.effects
        hole.heard(0)

    def locked_since(self, project: Project) -> float | None:
        """Return since when Keystone accepts only the orchestrator, as far as an engine can know."""
        for hole in self.holes:
            if hole.closed and not hole.known and hole.closed >= project.reopened and not self.open(project):
                return hole.before.get(project.id, project.locked_at)
        return project.locked_at

    def vanish(self, project: Project) -> None:
        """Let others delete it. Keystone revokes the tokens of a deleted project, also cached ones.

        Those in caches of other processes it does not reach. That does not count here: see "limits" in ``testing.rst``.
        """
        project.exists, project.gone_by_others, project.gone = False, True, self.simulation.effects
        project.grants.clear()
        project.stale_from = None
        for process in self.processes:
            process.revoked(_tokens(project))
        self.relock(project)

    # -- tokens
    def good(self, token: str, process: KeystoneProcess | None = None) -> bool:
        id_ = self.tokens.get(token)
        project = self.projects.get(id_ or "")
        if project is None:
            return id_ is not None
        enabled = self._enabled_in(process, project)
        return project.exists and enabled and any(who == self.users[token] for _, who, _ in project.grants)

    def _enabled_in(self, process: KeystoneProcess | None, project: Project) -> bool:
        """Return whether a process takes a project for enabled."""
        copy = process.copy(project.id, self.simulation.now) if process and self.in_turn else None
        return bool(copy["enabled"]) if copy else project.enabled

    def token(self, project_id: str, user: str, canary: str = "") -> Answer:
        """Give the orchestrator's user or the janitor a token.

        :param canary: the fence that stops them, too
        """
        roles, project = ["admin"], self.projects.get(project_id)
        if project is not None:
            groups = [group for group, users in GROUP_USERS.items() if user in users]
            roles = sorted({role for _, who, role in project.grants if who in (user, *groups)})
            fenced = bool(project.fence) and user not in (ME, project.options.get(protocol.JANITOR_OPTION))
            process = self._any_process() if self.in_turn else None
            if canary and canary == self._fence_in(process or self._any_process(), project):
                refused = Answer(401, {"error": {"code": 401, "message": "no token for this project"}})
                refused.headers[protocol.FENCED_HEADER] = canary
                return refused
            if not (project.exists and self._enabled_in(process, project) and roles) or fenced:
                return Answer(401, {"error": {"code": 401, "message": "no token for this project"}})
        self._numbers += 1
        token = f"token-{self._numbers}"
        self.tokens[token], self.users[token] = project_id, user
        return Answer(201, {"token": token, "roles": roles})

    def auth(self, thread: Thread, method: str, headers: Mapping[str, str]) -> Answer:
        subject = headers["X-Subject-Token"]
        if method == "DELETE":
            self._on_write(thread, method, "token", "", None)
            if self.own_caches:
                self._any_process().revoked(subject)
            return Answer(204 if self.tokens.pop(subject, None) else 404)
        project = self.projects.get(self.tokens.get(subject, ""))
        process = self._any_process()
        canary, shown = headers.get(protocol.CANARY_HEADER), self._fence_in(process, project)
        fenced = bool(shown) and canary == shown
        accepted = process.accepts(subject, self.good(subject, process), self.simulation.now)
        if accepted and not fenced:
            return Answer(200, {})
        refused = not_found()
        if accepted:
            refused.headers[protocol.FENCED_HEADER] = shown
        return refused

    # -- processes
    def _any_process(self) -> KeystoneProcess:
        """Return the process to which a load balancer gives the next call."""
        if self.in_turn:
            return self.processes[next(self._turn) % len(self.processes)]
        return self._random.choice(self.processes)

    def _fence_in(self, process: KeystoneProcess, project: Project | None) -> str:
        """Return the fence of a project as a process has read it."""
        read_at = process.read_at(self.simulation.now)
        return next((fence for at, fence in reversed(project.fences) if at <= read_at), "") if project else ""

    def _written(self, project: Project) -> None:
        """Let the processes take note that a project is about to be written."""
        row = self._present(project)
        for process in self.processes:
            process.written(row, self.simulation.now)

    def _present(self, project: Project) -> dict[str, Any]:
        """Return a project as the database has it."""
        options = {name: value for name, value in project.options.items() if value is not None}
        row = {"id": project.id, "name": project.id.upper(), "domain_id": project.domain, "options": options}
        return row | {"enabled": project.enabled, "parent_id": project.parent or project.domain}
