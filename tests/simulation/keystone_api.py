"""The calls to the simulated Keystone: of the orchestrator, of admins and of the manager of the projects' domain.

With the driver ``fence``, each process has the part of this package: its real decisions are in ``keystone.guard``.
Otherwise it is a stock Keystone, which lets a domain manager change all but the options that it does not know.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from typing import Any

from cleanup_orchestrator.keystone import fence, guard, protocol
from tests.simulation.keystone import (
    GROUP_USERS,
    ME,
    OURS,
    PROJECTS_OF_OTHERS,
    ROLES,
    Answer,
    Hole,
    Keystone,
    OnWrite,
    Project,
    not_found,
)
from tests.simulation.plan import Plan
from tests.support.scheduler import Simulation, Thread

#: Other callers that may change projects.
MANAGER, ADMIN = "manager", "admin"
CALLERS = {
    ME: guard.Caller(ME, True, lambda: True),
    MANAGER: guard.Caller(MANAGER),
    ADMIN: guard.Caller(ADMIN, False, lambda: True),
}
_FENCE = re.compile(fence._SCHEMAS[protocol.FENCE_OPTION]["pattern"])


def _refusal(status: int, message: str) -> Answer:
    return Answer(status, {"error": {"code": status, "message": message}})


def _refused(refusal: guard.Refusal | None) -> Answer | None:
    return _refusal(refusal.status, refusal.message) if refusal else None


class KeystoneApi(Keystone):
    """What Keystone does with calls. A change returns the refusal, or ``None``."""

    def __init__(self, plan: Plan, simulation: Simulation, rng: random.Random, on_write: OnWrite) -> None:
        super().__init__(plan, simulation, rng, on_write)
        self.fenced_by: list[tuple[str, str, str]] = []  #: changes of fences: (caller, project, fence)
        #: Sends a notification: event type, payload, and the hole that it tells of.
        self.notify: Callable[[str, dict[str, Any], Hole | None], None] = lambda *_: None
        self.opening: Hole | None = None  #: the hole that is being opened or closed

    @property
    def _guarded(self) -> bool:
        return self.plan.driver == "fence"

    # -- changes
    def create(self, caller: guard.Caller, above: Project, id_: str) -> Answer | None:
        """Make a project below another one."""
        values = {"name": id_, "parent_id": above.id}
        if self._guarded and (refusal := _refused(guard.create(values, above.options, caller))):
            return refusal
        self.add(id_, above.id)
        return None

    def update(self, caller: guard.Caller, project: Project, values: Mapping[str, Any]) -> Answer | None:
        """Change ``enabled``, tags or options of a project."""
        options, enabled = values.get("options") or {}, values.get("enabled")
        wanted = options.get(protocol.FENCE_OPTION)
        if (options and not self._guarded) or (wanted is not None and not _FENCE.fullmatch(wanted)):
            return _refusal(400, "options: there is none of that name, or it has no such value")
        if self._guarded and (refusal := _refused(guard.update(values, project.options, caller))):
            return refusal
        if enabled is False and any(p.enabled for p in self.below(project.id)):
            return _refusal(403, "a project below it is enabled")
        if enabled and not self.parent_enabled(project):
            return _refusal(403, "the project above it is disabled")
        self._written(project)
        if options:
            before = project.fence
            self._store(project, guard.next_options(options, project.options, caller, self._clock()))
            if project.fence != before:
                self.fenced_by.append((caller.user_id, project.id, project.fence))
        if enabled is not None:
            self.flush()
            project.enabled = enabled
            self.relock(project, locking=not enabled)
        elif self.own_caches:  # the processes have dropped their old copies, or got one
            self.relock(project)
        self._tell("project.updated", caller.user_id, resource_info=project.id)
        return None

    def _tell(self, event: str, user_id: str, **payload: Any) -> None:
        initiator = {"user_id": user_id}
        self.notify(f"identity.{event}", {"initiator": initiator, "outcome": "success", **payload}, self.opening)

    def _tell_role(self, user_id: str, grant: tuple[str, str, str], there: bool, **scope: Any) -> None:
        actor, who, role = grant
        scope = {"inherited_to_projects": False, **scope}
        event = "role_assignment.created" if there else "role_assignment.deleted"
        self._tell(event, user_id, role=role, target={"id": who}, **{actor[:-1]: who}, **scope)

    def _clock(self) -> int:
        return 1_000_000 + int(self.simulation.now * 1000)

    def _store(self, project: Project, options: Mapping[str, Any]) -> None:
        before = project.fence
        project.options |= options
        if project.fence != before:
            project.fences.append((self.simulation.now, project.fence))
            self.relock(project)

    def drop_options(self, project: Project) -> None:
        """Let a process without our part update the project: it drops the options that it does not know."""
        self._store(project, dict.fromkeys(project.options))

    def grant(self, caller: guard.Caller, project: Project, grant: tuple[str, str, str], there: bool) -> Answer | None:
        """Give or take a role."""
        if self._guarded and (refusal := _refused(guard.change(project.options, caller))):
            return refusal
        if there:
            project.grants.add(grant)
            self.relock(project)
            self._tell_role(caller.user_id, grant, there, project=project.id)
            return None
        if grant not in project.grants:
            return not_found()
        self.flush(draining=caller.orchestrator)
        project.grants.discard(grant)
        self.relock(project, locking=grant[1] not in OURS)
        self._tell_role(caller.user_id, grant, there, project=project.id)
        return None

    def grant_on_domain(self, grant: tuple[str, str, str], there: bool) -> bool:
        """Give or take a role on the domain, which its projects inherit; return whether anything changed."""
        if (grant in self.domain_grants) is there:
            return False
        (self.domain_grants.add if there else self.domain_grants.discard)(grant)
        if not there:
            self.flush()
        for project in self.there():
            self.relock(project, locking=not there)
        self._tell_role(MANAGER, grant, there, domain="dom", inherited_to_projects=True)
        return True

    def delete(self, caller: guard.Caller, project: Project, headers: Mapping[str, str]) -> Answer | None:
        """Delete a project."""
        fenced = {project.id: project.options}
        if self._guarded and (refusal := _refused(guard.delete(project.id, fenced, caller, headers))):
            return refusal
        if self.children(project.id):
            return _refusal(403, "it has projects below it")
        self._written(project)
        self._tell("project.deleted", caller.user_id, resource_info=project.id)
        if not caller.orchestrator:
            self.vanish(project)
            return None
        project.exists, project.gone = False, self.simulation.effects
        project.grants.clear()
        self.relock(project)
        return None

    # -- the orchestrator's calls
    def serve(
        self, thread: Thread, method: str, parts: list[str], query: str, body: Any, headers: Mapping[str, str]
    ) -> Answer:
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
        process = self._any_process()
        if thread.held is not None and method != "DELETE":
            project.read = self.simulation.effects
        if method == "GET":
            thread.saw.setdefault(("project", project.id), self.simulation.effects)
            if not query and (copy := process.copy(project.id, self.simulation.now)):
                return Answer(200, {"project": copy})
        if method == "DELETE":
            return self._delete(thread, project, headers)
        if method == "PATCH":
            if refusal := self._update(thread, project, body["project"]):
                return refusal
            process.forget(project.id)
        return Answer(200, {"project": self._row(thread, project, query)})

    def _row(self, thread: Thread, project: Project, query: str) -> dict[str, Any]:
        row = self._present(project)
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

    def _delete(self, thread: Thread, project: Project, headers: Mapping[str, str]) -> Answer:
        self._on_write(thread, "DELETE", "project", project.id, None)
        if refusal := self.delete(CALLERS[ME], project, headers):
            return refusal
        return Answer(204)

    def _update(self, thread: Thread, project: Project, values: Mapping[str, Any]) -> Answer | None:
        """Update a project; return a refusal, if it is refused."""
        if "enabled" in values:
            what = f"enabled={values['enabled']}"
        elif protocol.FENCE_OPTION in values["options"]:
            what = f"fence={values['options'][protocol.FENCE_OPTION] or ''}"
        else:
            what = " ".join(f"{name}={value}" for name, value in values["options"].items()) or "nothing"
        self._on_write(thread, "PATCH", what, project.id, None)
        if refusal := self.update(CALLERS[ME], project, values):
            return refusal
        if what == "enabled=False":
            project.disabled_at = self.simulation.now
        elif what == "nothing":
            thread.saw["project"] = self.simulation.effects
        return None

    def _grant(self, thread: Thread, method: str, project: Project, parts: list[str]) -> Answer:
        _, _, actor, who, _, role = parts
        grant = (actor, who, role)
        self._on_write(thread, method, "grant " + " ".join(grant), project.id, None)
        if refusal := self.grant(CALLERS[ME], project, grant, method == "PUT"):
            return refusal
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
            found += self.domain_grants
            users = {("users", w, r) for a, who, r in found for w in (GROUP_USERS[who] if a == "groups" else (who,))}
            found = sorted(users | ({("users", "boss", "member")} if self.plan.inherited else set()))
        scope = {"project": {"id": id_}}
        rows = [{actor[:-1]: {"id": who}, "role": {"id": role}, "scope": scope} for actor, who, role in found]
        return Answer(200, {"role_assignments": rows})
