"""Names the projects of the resources that block a delete.

A sweep adds the name and the domain of such a project to what it stores. So the API reads no project from Keystone when
it shows a blocker, and knows from the domain who may see whose it is. A project that cannot be read is stored with its
id alone: then only those who may see every project of the cloud see the id.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from oslo_log import log

from cleanup_orchestrator.cloud.projects import ProjectNotFound, Projects
from cleanup_orchestrator.core.step import Leftover, StepResult
from cleanup_orchestrator.errors import BadAnswer

LOG = log.getLogger(__name__)

#: Seconds for which a name is used again. A project may be renamed; its domain never changes.
KEPT = 600.0
#: Projects that one result reads from Keystone at most. Next to the lists of a sweep, these calls are few.
MAX_READ = 50
#: Projects that are kept at most. When there are more, all are read again.
MAX_KEPT = 10_000


class OtherProjects:
    """What this worker knows of projects that it does not delete. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[str, tuple[float, Mapping[str, str]]] = {}

    def name_in(self, result: StepResult, own_id: str, projects: Callable[[], Projects]) -> StepResult:
        """Return a result whose foreign blockers have the name and the domain of their project.

        A failure of Keystone changes no result: the names are left out.

        :param own_id: of the project under deletion, which needs no name
        :param projects: called once, if a project has to be read
        """
        owners = {b.get("owner", "") for one in result.leftovers for b in one.blocked_by} - {"", own_id}
        if not owners:
            return result
        names = self._look_up(sorted(owners), projects)
        leftovers = tuple(_named(one, names) if one.blocked_by else one for one in result.leftovers)
        return dataclasses.replace(result, leftovers=leftovers)

    def _look_up(self, project_ids: list[str], projects: Callable[[], Projects]) -> dict[str, Mapping[str, str]]:
        now = self._clock()
        with self._lock:
            kept = {id_: self._known[id_] for id_ in project_ids if id_ in self._known}
        names = {id_: said for id_, (until, said) in kept.items() if now < until}
        missing = [id_ for id_ in project_ids if id_ not in names][:MAX_READ]
        read: dict[str, Mapping[str, str]] = {}
        try:
            keystone = projects() if missing else None
            for id_ in missing:
                assert keystone is not None
                read[id_] = _read(keystone, id_)
        except Exception as error:  # the result is worth more than the names
            LOG.debug("the names of other projects could not be read: %s: %s", type(error).__name__, error)
        with self._lock:
            if len(self._known) + len(read) > MAX_KEPT:
                self._known.clear()
            self._known.update({id_: (now + KEPT, said) for id_, said in read.items()})
        return names | read


def _read(keystone: Projects, project_id: str) -> Mapping[str, str]:
    """Return the name and the domain of a project; nothing if Keystone does not know it, or shows another one.

    A user may have chosen the id: Keystone finds an id in other case, for example, and shows it as it has it.
    """
    try:
        project = keystone.get(project_id)
    except (ProjectNotFound, BadAnswer):
        return {}
    return {"project_name": project.name, "domain_id": project.domain_id}


def _named(leftover: Leftover, names: Mapping[str, Mapping[str, Any]]) -> Leftover:
    blockers = tuple({**b, **names.get(b.get("owner", ""), {})} for b in leftover.blocked_by)
    return dataclasses.replace(leftover, blocked_by=blockers)
