"""Remembers which projects Keystone knows, for the reads of orphan scans."""

from __future__ import annotations

import collections
import threading

from oslo_log import log

from cleanup_orchestrator.cloud.projects import Projects
from cleanup_orchestrator.core.orphan_scan import OrphanScan
from cleanup_orchestrator.errors import classify

LOG = log.getLogger(__name__)

#: Projects whose state is remembered during a scan: their ids take some hundred bytes each.
_REMEMBERED = 200_000


class Census:
    """Remembers which projects Keystone knows, as it answered at one read of a scan."""

    def __init__(self) -> None:
        self._known: collections.OrderedDict[str, bool] = collections.OrderedDict()
        self._lock = threading.Lock()

    def knows(self, projects: Projects, project_id: str, own_id: str) -> bool | None:
        """Return whether Keystone knows a project.

        ``None``: Keystone does not say so, and answers about other projects.

        :raises Exception: Keystone does not answer
        """
        with self._lock:
            if project_id in self._known:
                return self._known[project_id]
        try:
            known = projects.knows(project_id, own_id)
        except Exception:
            projects.get(own_id)  # if Keystone does not answer this either, nothing can be said of any project
            try:
                known = projects.knows(project_id, own_id)
            except Exception as error:
                LOG.warning("orphan scan: project %s: %s", project_id, classify(error).message)
                return None
        with self._lock:
            self._known[project_id] = known
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return known


class Censuses:
    """The censuses of the latest two reads that a worker takes part in."""

    def __init__(self) -> None:
        self._censuses: collections.OrderedDict[tuple[str, int], Census] = collections.OrderedDict()
        self._lock = threading.Lock()

    def of(self, scan: OrphanScan) -> Census:
        """Return the census of the present read of a scan; forget earlier ones."""
        with self._lock:
            census = self._censuses.setdefault((scan.id, scan.read), Census())
            while len(self._censuses) > 2:
                self._censuses.popitem(last=False)
            return census
