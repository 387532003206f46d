"""Works on parts of orphan scans: lists one resource type of one region for all projects, and asks Keystone.

Nothing here writes to the cloud: each call is made with the guard of a look. Rows pass through one page at a time; of
all that is seen, the ids of projects are kept, and what has to be reported goes to the store.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from oslo_log import log

from cleanup_orchestrator.cloud.catalog import Entry
from cleanup_orchestrator.cloud.projects import Projects
from cleanup_orchestrator.cloud.session import read_only
from cleanup_orchestrator.core import orphan_scan
from cleanup_orchestrator.core.orphan_scan import Orphan, OrphanScan, ScanPart
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.errors import BadAnswer, Stopped, classify
from cleanup_orchestrator.plugins.base import ProjectDefinition, Resource, ResourceType
from cleanup_orchestrator.worker import watchdog
from cleanup_orchestrator.worker.sweep import calls
from cleanup_orchestrator.worker.worker import Worker

LOG = log.getLogger(__name__)

#: Stands where a listing wants a project, in one over all projects. Keystone never gives such an id.
NOBODY = "0" * 32
#: Rows that go to the store at once.
_PAGE = 500
#: Projects whose state is remembered during a scan: their ids take some hundred bytes each.
_REMEMBERED = 200_000


class Scanner:
    """Takes parts of scans, beside a worker and within its share of the limits."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._census: collections.OrderedDict[tuple[str, int], Census] = collections.OrderedDict()
        self._lock = threading.Lock()
        self.stopping = False

    def stop(self) -> None:
        """Take no further part, and give back those under way: the process ends."""
        self.stopping = True

    def handle(self, part_id: str) -> None:
        """Take a part, if it is still there to be taken, and see it through, or give it up when it hangs."""
        worker = self._worker
        if self.stopping:
            worker.bus.orphan_scan_part(part_id)
            return
        lease = float(worker.conf.worker.lease)
        claimed = worker.store.claim_scan_part(part_id, worker.name, lease)
        if claimed is None:
            LOG.debug("part %s of an orphan scan is not there to be taken", part_id)
            return
        scan, part = claimed
        task = _Task(worker, scan, part, self.census(scan), lambda: self.stopping)
        renew = lambda: watchdog.renewed(lambda: worker.store.renew_scan_part(part, lease), part.name)  # noqa: E731
        thread, why = task.see_through(f"scan-{part.id}", worker.conf.worker, renew)
        if why:
            LOG.error("orphan scan: %s: given up: %s; its thread is at %s", part.name, why, watchdog.place(thread))
            task.give_up(why)
        try:
            self._save(task, why)
        except Exception:  # the lease runs out, and the part is taken up again
            LOG.exception("orphan scan: %s could not save its result", part.name)
            return
        worker.bus.orphan_scan(scan.id)

    def census(self, scan: OrphanScan) -> Census:
        """Return what this process knows of the projects at this read of a scan; that of earlier ones is forgotten."""
        with self._lock:
            key = (scan.id, scan.read)
            found = self._census.setdefault(key, Census())
            while len(self._census) > 2:
                self._census.popitem(last=False)
            return found

    def _save(self, task: _Task, why: str) -> None:
        store, part = self._worker.store, task.part
        if why:
            result = _unknown(part, Reason.TIMED_OUT, why)
        elif task.error is None:
            result = task.result
        elif isinstance(task.error, Stopped) and self.stopping:
            if store.release_scan_part(part):
                self._worker.bus.orphan_scan_part(part.id)
            return
        else:
            failure = classify(task.error)
            result = _unknown(part, failure.reason, failure.message)
            LOG.warning("orphan scan: %s: %s: %s", part.name, failure.reason, failure.message)
        if not store.finish_scan_part(dataclasses.replace(result, calls=part.calls + task.calls)):
            LOG.warning("orphan scan: %s: not ours any more, its result is dropped", part.name)
            return
        LOG.info(
            "orphan scan: %s, read %d: %s, %d listed, %d calls",
            part.name, part.read, result.outcome, result.listed, task.calls,
        )  # fmt: skip


class Census:
    """Which projects Keystone knows, as this process was told at one read of a scan."""

    def __init__(self) -> None:
        self._known: collections.OrderedDict[str, bool] = collections.OrderedDict()
        self._lock = threading.Lock()

    def knows(self, projects: Projects, project_id: str, own_id: str) -> bool | None:
        """Whether Keystone knows a project; ``None``: it does not say so, and answers about others.

        :raises Exception: Keystone does not answer
        """
        with self._lock:
            if project_id in self._known:
                return self._known[project_id]
        try:
            known = projects.knows(project_id, own_id)
        except Exception:
            projects.get(own_id)  # if it does not answer this either, nothing can be said of any project
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


def _unknown(part: ScanPart, reason: Reason, message: str) -> ScanPart:
    return dataclasses.replace(part, outcome=Outcome.UNKNOWN, reason=str(reason), message=message)


class _Task(watchdog.WatchedTask):
    """One claimed part."""

    def __init__(
        self, worker: Worker, scan: OrphanScan, part: ScanPart, census: Census, stopping: Callable[[], bool]
    ) -> None:
        super().__init__()
        self.scan, self.part = scan, part
        self.result = part
        self.error: BaseException | None = None
        self._worker, self._store, self._census, self._stopping = worker, worker.store, census, stopping
        self._clouds = worker.clouds.seen_by(self.seen)

    def main(self) -> None:
        """Be the thread."""
        try:
            reads = {0: self._catalog, 1: self._first, 2: self._second}
            self.result = reads[self.part.read if self.part.service else 0]()
        except BaseException as error:  # a plugin's, too: it ends this part, and neither thread nor process
            self.error = error
        finally:
            self.over.set()

    # -- what each read does
    def _projects(self) -> Projects:
        return Projects(self._clouds.identity(self._clouds.admin_session(read_only)))

    def _catalog(self) -> ScanPart:
        """Read which services, regions and types there are, and which of them cannot be listed for all projects."""
        registry, coverage = self._worker.registry, self._worker.coverage
        identity = self._clouds.identity(self._clouds.admin_session(read_only))
        parts: dict[tuple[str, str, str], ScanPart] = {}
        missing: dict[tuple[str, str, str], str] = {}
        for answer in (*coverage.answers(identity), coverage.answer(Entry("", "identity", "keystone"))):
            service = registry.services.get(answer.service_type)
            if service is None:
                if answer.answered_by == "nobody":
                    missing[(answer.region, answer.service_type, "")] = answer.message
                continue
            region = answer.region if service.regional else ""
            for type_ in service.types:
                key = (region, service.service_type, type_.name)
                if type_.all_projects_view() is None:
                    missing[key] = str(type_.all_projects) or "its plugin does not say how all projects' are listed"
                else:
                    parts[key] = ScanPart(str(uuid.uuid4()), self.scan.id, *key, project_setting=type_.project_setting)
        names = ("region", "service", "type", "reason")
        not_covered = [dict(zip(names, (*key, why), strict=True)) for key, why in sorted(missing.items())]
        if not self._store.put_scan_parts(self.part, parts.values(), not_covered):
            raise Stopped("the look at the catalog is not ours any more")
        return dataclasses.replace(self.part, outcome=Outcome.CLEAR, reason="", message=f"{len(parts)} types")

    def _listed(self) -> Iterator[Resource]:
        """Yield everybody's resources of the type, one after the other.

        :raises BadAnswer: the list has no end
        """
        worker, part = self._worker, self.part
        declared: ResourceType = worker.registry.find(part.service, part.type)
        type_ = declared.all_projects_view()
        if type_ is None:  # another release's worker made the part
            raise BadAnswer(f"{part.name} cannot be listed for all projects")
        nobody = ProjectDefinition(
            NOBODY, "", "", part.region, options=worker.registry.options(worker.conf, part.service)
        )
        connection = self._clouds.connection(self._clouds.admin_session(read_only), part.region)
        most = worker.conf.orphans.most_listed
        for count, resource in enumerate(calls.list_resources(type_, connection, nobody), 1):
            if count > most:
                raise BadAnswer(f"the list has more than {most} rows ([orphans] most_listed)")
            if self._given_up or self._stopping():
                raise Stopped(self._given_up or "this worker is being stopped")
            yield resource

    def _first(self) -> ScanPart:
        """List, and note what belongs to a project that Keystone does not know."""
        projects, own = self._projects(), self._clouds.project_id()
        numbers: dict[str, Any] = {"listed": 0, "owner_unknown": 0, "too_young": 0}
        undecided: set[str] = set()
        youngest = self._store.now() - datetime.timedelta(seconds=self.scan.min_age)
        page: list[Orphan] = []
        for resource in self._listed():
            numbers["listed"] += 1
            owner = orphan_scan.owner_of(resource.owner)
            if owner is None:
                numbers["owner_unknown"] += 1
                continue
            known = self._census.knows(projects, owner, own)
            if known is None:
                undecided.add(owner)
            if known is not False:
                continue
            orphan = self._orphan(resource, owner)
            if orphan.created_at is not None and orphan.created_at > youngest:
                numbers["too_young"] += 1
                continue
            page.append(orphan)
            if len(page) >= _PAGE:
                self._write(self._store.note_orphans, page)
        self._write(self._store.note_orphans, page)
        clear = dataclasses.replace(self.part, outcome=Outcome.CLEAR, reason="", message="")
        return dataclasses.replace(clear, undecided=len(undecided), **numbers)

    def _second(self) -> ScanPart:
        """Ask Keystone again, list again: what is still there, with the same owner, is an orphan."""
        projects, own = self._projects(), self._clouds.project_id()
        gone, undecided = set(), 0
        for project_id in self._store.candidate_projects(self.part):
            known = self._census.knows(projects, project_id, own)
            undecided += known is None
            if known is False:
                gone.add(project_id)
        page: list[Orphan] = []
        for resource in self._listed() if gone else ():
            if resource.owner in gone:
                page.append(self._orphan(resource, str(resource.owner)))
                if len(page) >= _PAGE:
                    self._write(self._store.see_orphans_again, page)
        self._write(self._store.see_orphans_again, page)
        clear = dataclasses.replace(self.part, outcome=Outcome.CLEAR, reason="", message="")
        return dataclasses.replace(clear, undecided=self.part.undecided + undecided)

    def _orphan(self, resource: Resource, owner: str) -> Orphan:
        part = self.part
        return Orphan(
            owner, part.region, part.service, part.type, resource.id, resource.name, part.project_setting,
            orphan_scan.created_at(resource.data),
        )  # fmt: skip

    def _write(self, write: Callable[[ScanPart, Sequence[Orphan]], bool], page: list[Orphan]) -> None:
        if page and not write(self.part, page):
            raise Stopped(f"{self.part.name} is not ours any more, or the scan has ended")
        page.clear()
