"""Checks whether a project is empty, and whether it is in the state in which others left it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from cleanup_orchestrator.core.deletion import Status
from tests.simulation.cloud import PROJECT_SETTINGS, SCOPED, Thing
from tests.simulation.database import at
from tests.simulation.keystone import Project
from tests.support.scheduler import Thread

if TYPE_CHECKING:
    from tests.simulation.promises import Promises

#: What a forced deletion has abandoned: by name, or unseen.
_ABANDONED = """
SELECT l.resource_id FROM leftovers l JOIN deletions d ON d.id = l.deletion_id
 WHERE l.abandoned AND d.id = ? AND d.forced IS NOT NULL
"""
_SENT = "SELECT 1 FROM changes WHERE type = 'project_delete_sent' AND deletion_id = ?"
_UNSEEN = """
SELECT s.region, s.service, s.type FROM steps s JOIN deletions d ON d.id = s.owner_id
 WHERE s.unseen AND d.id = ? AND d.forced IS NOT NULL
"""
#: When the latest drain of a deletion ended, if it was partial.
_IN_PART = "SELECT finished_at FROM steps WHERE kind = 'drain' AND state = 'done' AND reason <> '' AND owner_id = ?"
#: Most seconds from the last list of a project in use to its closing: five minutes, and what calls take that hang.
_OUTDATED = 600.0
#: Resting and final statuses: no change of the drain may remain.
RELEASED = frozenset({Status.CANCELLED, Status.PURGED, Status.LEFTOVERS, Status.FAILED, Status.PLANNED})


class Proofs:
    """What a run has shown of its projects."""

    def __init__(self, promises: Promises) -> None:
        self._promises, self._cloud, self._plan = promises, promises.cloud, promises.plan
        self._projects = promises.cloud.keystone.projects

    def locked(self, project_id: str) -> bool:
        """Whether only the orchestrator gets tokens for a project that Keystone knows."""
        project = self._projects.get(project_id)
        return project is not None and self._cloud.keystone.locked_since(project) is not None

    def left(self, project_id: str, deletion_id: str, but_since: float = math.inf, settings: bool = False) -> list[str]:
        """Return what is left of a project, without resources that no token can list.

        Such resources need a token of the project and were created after the last inventory with one, while others had
        access until the project was disabled. The report names the inventory on which such types rest.

        Nor is there what was created after the last inventory, behind a lock that a domain manager opened and closed
        again, as long as no engine has heard of that. A stock Keystone keeps no record of it.

        :param settings: a project setting is deleted, and not the project. The orchestrator does not compare the lock
            again before that. So what came since the last inventory is not there, if others regained access since the
            orchestrator read the project
        """
        project = self._projects[project_id]
        blind = self._blind(project, deletion_id)
        left = self._cloud.left(project_id)
        unseen = [t for t in left if t.type in SCOPED and t.born >= project.listed_at[t.region, t.type]]
        abandoned, types = self._abandoned(deletion_id), {(r, f"{s}.{t}") for r, s, t in self._unseen(deletion_id)}
        late = [t for t in left if t.born >= project.listed_at[t.region, t.type]]
        secret = [t.id for t in late if t.hole is not None and not t.hole.known]
        secret += [t.id for t in late if settings and project.reopened > project.read]
        found = [t for t in left if t.born <= but_since and not (blind and t in unseen) and t.id not in secret]
        return [t.id for t in found if t.id not in abandoned and (t.region, t.type) not in types]

    def _blind(self, project: Project, deletion_id: str) -> bool:
        """Whether the last inventory with a token of the project may be from before the lock.

        That is so if others had access until the project was disabled, or when the drain ended: it was partial then,
        and nothing tells the orchestrator that the lock became full by itself before the closing. So the lock itself
        counts then, and not the one before a hole: the drain saw the hole.
        """
        locked_at = self._cloud.keystone.locked_since(project)
        if locked_at is None or locked_at >= project.disabled_at:
            return True
        ended, locked_at = self._promises.one(_IN_PART, deletion_id), project.locked_at or locked_at
        return ended is not None and locked_at > 0.0 and str(at(locked_at)) >= ended[0]

    def abandons(self, thing: Thing, deletion_id: str) -> bool:
        """Whether a forced deletion has abandoned a resource."""
        types = {(region, f"{service}.{type_}") for region, service, type_ in self._unseen(deletion_id)}
        return thing.id in self._abandoned(deletion_id) or (thing.region, thing.type) in types

    def _abandoned(self, deletion_id: str) -> set[str]:
        return {row[0] for row in self._promises.database.raw.execute(_ABANDONED, (deletion_id,))}

    def _unseen(self, deletion_id: str) -> set[tuple[str, str, str]]:
        return set(self._promises.database.raw.execute(_UNSEEN, (deletion_id,)))

    def remove(self, thread: Thread, project_id: str) -> None:
        """Check what must hold where the orchestrator deletes a project."""
        project, deletion_id = self._projects[project_id], thread.held.owner_id
        read_at = thread.saw.get("project", -1)
        opened = project.reopened > read_at  # between the last read of the project and its delete: cannot be noticed
        if left := self.left(project_id, deletion_id, read_at if opened else math.inf):
            self._promises.fail(f"the project goes with something left: {left}")
        dns = any(service == "dns" for _, service in self._cloud.keystone.catalog) and not self._cloud.waived
        if dns and not any(service == "dns" for _, service, _ in self._unseen(deletion_id)):
            self._promises.fail("the project is removed although no plugin covers dns")
        if not opened:
            self._proven("removed", project_id, deletion_id, thread)

    def ended_as_deleted(self, deletion_id: str) -> None:
        """Check what must hold where a deletion says that its project is gone."""
        project = self._projects.get(self._promises.project[deletion_id])
        if project is None:
            return
        if project.exists:
            self._promises.fail("deleted, and Keystone still has the project")
        elif project.gone_by_others and not self._unnoticed(project, deletion_id):
            self._proven("deleted (by another user)", project.id, deletion_id, None)

    def _unnoticed(self, project: Project, deletion_id: str) -> bool:
        """Whether others regained access and deleted the project after a delete of the orchestrator that failed.

        The removal finds no project then. The orchestrator takes that for the effect of its delete.
        """
        listed = [at for (_, name), at in project.listed_at.items() if name not in PROJECT_SETTINGS]
        sent = self._promises.database.raw.execute(_SENT, (deletion_id,)).fetchone()
        return project.reopened > max(listed) and sent is not None

    def _proven(self, what: str, project_id: str, deletion_id: str, thread: Thread | None) -> None:
        """Two complete empty inventories, begun after the lock and the longest token cache."""
        project, plan = self._projects[project_id], self._plan
        locked = self._cloud.keystone.locked_since(project)
        if locked is None:
            self._promises.fail(f"{what} while others are let in")
            return
        since = locked + plan.settle
        partial = plan.inherited or plan.driver == "none" or plan.disabled
        abandoned = self._abandoned(deletion_id)
        unseen = {(r, f"{s}.{t}") for r, s, t in self._unseen(deletion_id)}
        for (region, name), seen in project.inventories.items():
            if name in PROJECT_SETTINGS or (region, name) in unseen:
                continue
            listed = [(when, shown <= abandoned) for when, shown in seen]
            empty = [when for when, nothing in listed if nothing and when >= since]
            if name in SCOPED:
                # Disabled while others had access: types that need a project token rest on their last inventory before.
                if partial or thread is None or self._blind(project, deletion_id):
                    empty = [when for when, nothing in listed if nothing] * 2
                in_use = thread is not None and self._promises.one(_IN_PART, deletion_id) is not None
                if in_use and _OUTDATED < project.disabled_at - max(seen)[0] < math.inf:
                    empty = []
                if thread is None and not empty and not any(t.type == name for t in self._cloud.left(project_id)):
                    continue
            if thread is None and empty:  # the other inventory may be older than that, from behind the earlier lock
                empty = [when for when, nothing in listed if nothing]
            if len(empty) < 2:
                said = f"{what} after {len(empty)} empty inventories at {name}@{region} since it was locked for good"
                self._promises.fail(said)

    def restored(self, project_id: str, when: str) -> None:
        """Check that what was changed for the drain is as others left it."""
        project = self._projects.get(project_id)
        if project is None or not project.exists:
            return
        late = " ".join(label for label in self._promises.late if label.endswith(f" of {project_id}"))
        wrong = {" ".join(g) for g in (project.grants ^ project.wanted_grants) - project.blurred_grants}
        if wrong := sorted(g for g in wrong if f"grant {g}" not in late):
            self._promises.fail(f"{when}, and these grants are not as they were: {wrong}")
        if project.enabled is not project.wanted_enabled and "enabled=" not in late and not project.blurred:
            self._promises.fail(f"{when}, and the project is {'enabled' if project.enabled else 'disabled'}")
        if project.fence and "fence=" not in late:
            self._promises.fail(f"{when}, and the fence is still there")
