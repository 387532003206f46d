"""Does parts of orphan scans.

A part lists one resource type of one region for all projects and asks Keystone for the owners.

Nothing here writes to the cloud: every session is read-only. Rows are handled one page at a time. The memory holds only
ids of projects, and everything that has to be reported goes to the store.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence

from oslo_log import log

from cleanup_orchestrator.cloud.catalog import AnsweredBy, Entry
from cleanup_orchestrator.cloud.projects import Projects
from cleanup_orchestrator.cloud.session import read_only
from cleanup_orchestrator.core import orphan_scan
from cleanup_orchestrator.core.orphan_scan import Orphan, OrphanScan, ScanPart
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.errors import BadAnswer, Stopped, classify
from cleanup_orchestrator.plugins.base import ProjectDefinition, Resource, ResourceType
from cleanup_orchestrator.protocol.plugin import NO_LIST_OF_ALL
from cleanup_orchestrator.worker.context import WorkerContext
from cleanup_orchestrator.worker.leases import LeasedTask, LeasedWorker
from cleanup_orchestrator.worker.sweep import calls

LOG = log.getLogger(__name__)

#: Stands for the project in a listing of all projects. Keystone never gives such an id.
NO_PROJECT = "0" * 32
#: Rows that go to the store at once.
_PAGE = 2000
#: Projects whose state is remembered during a scan: their ids take some hundred bytes each.
_REMEMBERED = 200_000

#: What identifies a part: region, service, type.
Key = tuple[str, str, str]


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


class ScanTask(LeasedTask):
    """One claimed part of an orphan scan."""

    def __init__(self, worker: WorkerContext, scan: OrphanScan, part: ScanPart, census: Census) -> None:
        super().__init__(worker.conf.worker)
        self.scan, self.part = scan, part
        self.result = part
        self._worker, self._store, self._census = worker, worker.store, census
        self._clouds = worker.clouds.seen_by(self.seen)

    # -- what leased work defines
    @property
    def name(self) -> str:
        """What the part is, for the log."""
        return f"orphan scan: {self.part.name}"

    @property
    def thread_name(self) -> str:
        """The name of its thread."""
        return f"scan-{self.part.id}"

    def extend(self, seconds: float) -> bool:
        """Extend the lease in the store; return ``False`` if the claim is lost."""
        return bool(self._store.renew_scan_part(self.part, seconds))

    def release(self) -> bool:
        """Return the part to the queue in the store; ``False``: the claim is lost."""
        return bool(self._store.release_scan_part(self.part))

    def requeue(self) -> None:
        """Cast the released part to the workers."""
        self._worker.bus.orphan_scan_part(self.part.id)

    def announce(self) -> None:
        """Tell the engines that the scan has a new result."""
        self._worker.bus.orphan_scan(self.scan.id)

    def work(self) -> None:
        """Do the read that the part is for."""
        reads = {0: self._catalog, 1: self.first, 2: self.second}
        self.result = reads[self.part.read if self.part.service else 0]()

    def ended(self) -> None:
        """Save the result, or give the part back if the process ends."""
        if self.error is None:
            self._save(self.result)
        elif isinstance(self.error, Stopped) and self.stopping:
            self.release_claim()
        else:
            failure = classify(self.error)
            LOG.warning("%s: %s: %s", self.name, failure.reason, failure.message)
            self._save(self._unknown(failure.reason, failure.message))

    def abandon(self, thread: threading.Thread, why: str) -> None:
        """Give up a thread that hangs: withhold its calls and save an unknown result."""
        self.give_up(why)
        self._save(self._unknown(Reason.TIMED_OUT, why))

    def _save(self, result: ScanPart) -> None:
        result = dataclasses.replace(result, calls=self.part.calls + self.calls)
        if self.save_patiently(lambda: self._store.finish_scan_part(result)):
            text = "%s, read %d: %s, %d listed, %d calls"
            LOG.info(text, self.name, self.part.read, result.outcome, result.listed, self.calls)

    def _unknown(self, reason: Reason, message: str) -> ScanPart:
        return dataclasses.replace(self.part, outcome=Outcome.UNKNOWN, reason=str(reason), message=message)

    def _clear(self, message: str = "") -> ScanPart:
        return dataclasses.replace(self.part, outcome=Outcome.CLEAR, reason="", message=message)

    # -- what each read does
    def _projects(self) -> Projects:
        return Projects(self._clouds.identity(self._clouds.admin_session(read_only)))

    def _catalog(self) -> ScanPart:
        """Read which services, regions and types exist.

        Types that cannot be listed for all projects are stored as not covered.
        """
        registry = self._worker.registry
        coverage = self._worker.coverage.asking(self._worker.protocol.within(self._clouds))
        identity = self._clouds.identity(self._clouds.admin_session(read_only))
        parts: dict[Key, ScanPart] = {}
        missing: dict[Key, str] = {}
        for answer in (*coverage.answers(identity), coverage.answer(Entry("", "identity", "keystone"))):
            service = registry.services.get(answer.service_type)
            if answer.answered_by is AnsweredBy.PROTOCOL:
                for name in answer.types:
                    missing[(answer.region, answer.service_type, name)] = NO_LIST_OF_ALL
                continue
            if service is None or answer.protocol is not None:
                if answer.answered_by is AnsweredBy.UNSUPPORTED:
                    missing[(answer.region, answer.service_type, "")] = answer.message
                continue
            region = answer.region if service.regional else ""
            for type_ in service.types:
                key = (region, service.service_type, type_.name)
                if type_.all_projects_view() is None:
                    missing[key] = str(type_.all_projects) or "its plugin does not say how all projects' are listed"
                elif why := self._may_miss(type_, region, service.service_type):
                    missing[key] = why
                else:
                    parts[key] = ScanPart(str(uuid.uuid4()), self.scan.id, *key, project_setting=type_.project_setting)
        names = ("region", "service", "type", "reason")
        not_covered = [dict(zip(names, (*key, why), strict=True)) for key, why in sorted(missing.items())]
        if not self._store.put_scan_parts(self.part, parts.values(), not_covered):
            raise Stopped("the read of the catalog is not held by this worker any more")
        return self._clear(f"{len(parts)} types")

    def _may_miss(self, type_: ResourceType, region: str, service: str) -> str:
        """Return why a list of all projects would not be complete; see ``ResourceType.may_miss``.

        If the service does not answer, its part is unknown later.
        """
        if type_.may_miss is None:
            return ""
        try:
            connection = self._clouds.connection(self._clouds.admin_session(read_only), region)
            return type_.may_miss(connection, self._no_project(service, region))
        except Exception as error:
            LOG.debug("%s does not say whether its list of %s is complete: %s", service, type_.name, error)
            return ""

    def _no_project(self, service: str, region: str) -> ProjectDefinition:
        """Return what stands for the project in a list of all projects."""
        options = self._worker.registry.options(self._worker.conf, service)
        return ProjectDefinition(NO_PROJECT, "", "", region, options=options)

    def _listed(self) -> Iterator[Resource]:
        """Yield the resources of the type of all projects, one after the other.

        :raises BadAnswer: the list is too long
        :raises Stopped: the task was given up, or the process ends
        """
        worker, part = self._worker, self.part
        declared: ResourceType = worker.registry.find(part.service, part.type)
        type_ = declared.all_projects_view()
        if type_ is None:  # a worker of another release made the part
            raise BadAnswer(f"{part.name} cannot be listed for all projects")
        no_project = self._no_project(part.service, part.region)
        connection = self._clouds.connection(self._clouds.admin_session(read_only), part.region)
        most = worker.conf.orphans.most_listed
        for count, resource in enumerate(calls.list_resources(type_, connection, no_project), 1):
            if count > most:
                raise BadAnswer(f"the list has more than {most} rows ([orphans] most_listed)")
            if self._given_up or self.stopping:
                raise Stopped(self._given_up or "this worker is being stopped")
            yield resource

    def first(self) -> ScanPart:
        """List, and note the resources of projects that Keystone does not know."""
        projects, own = self._projects(), self._clouds.project_id()
        listed = owner_unknown = too_young = 0
        undecided: set[str] = set()
        youngest = self._store.now() - datetime.timedelta(seconds=self.scan.min_age)
        page: list[Orphan] = []
        for resource in self._listed():
            listed += 1
            owner = orphan_scan.owner_of(resource.owner)
            if owner is None:
                owner_unknown += 1
                continue
            known = self._census.knows(projects, owner, own)
            if known is None:
                undecided.add(owner)
            if known is not False:
                continue
            orphan = self._orphan(resource, owner)
            if orphan.created_at is not None and orphan.created_at > youngest:
                too_young += 1
                continue
            page.append(orphan)
            if len(page) >= _PAGE:
                self._write(self._store.note_orphans, page)
        self._write(self._store.note_orphans, page)
        return dataclasses.replace(
            self._clear(),
            undecided=len(undecided),
            listed=listed,
            owner_unknown=owner_unknown,
            too_young=too_young,
        )

    def second(self) -> ScanPart:
        """Ask Keystone and list again: what still exists is an orphan.

        The resource has to have the same owner as before.
        """
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
        return dataclasses.replace(self._clear(), undecided=self.part.undecided + undecided)

    def _orphan(self, resource: Resource, owner: str) -> Orphan:
        part = self.part
        return Orphan(
            owner, part.region, part.service, part.type, resource.id, resource.name, part.project_setting,
            orphan_scan.created_at(resource.data),
        )  # fmt: skip

    def _write(self, write: Callable[[ScanPart, Sequence[Orphan]], bool], page: list[Orphan]) -> None:
        """Write a page of orphans.

        :raises Stopped: the worker does not hold the part any more, or the scan has ended
        """
        if page and not write(self.part, page):
            raise Stopped(f"{self.part.name} is not held by this worker any more, or the scan has ended")
        page.clear()


class Scanner(LeasedWorker[ScanTask]):
    """Takes parts of orphan scans, within the rate limits of a worker."""

    def __init__(self, context: WorkerContext) -> None:
        super().__init__()
        self._context = context
        self._census: collections.OrderedDict[tuple[str, int], Census] = collections.OrderedDict()
        self._lock = threading.Lock()

    def stop(self) -> None:
        """Take no further part, and give back those under way: the process ends."""
        self.stop_tasks()

    def claim(self, work_id: str) -> ScanTask | None:
        """Claim a part; ``None``: it is taken, finished, or the scan has ended."""
        context = self._context
        claimed = context.store.claim_scan_part(work_id, context.name, float(context.conf.worker.lease))
        if claimed is None:
            return None
        scan, part = claimed
        return ScanTask(context, scan, part, self.census(scan))

    def pass_on(self, work_id: str) -> None:
        """Cast a part to another worker."""
        self._context.bus.orphan_scan_part(work_id)

    def census(self, scan: OrphanScan) -> Census:
        """Return the census of the present read of a scan; forget earlier ones."""
        with self._lock:
            key = (scan.id, scan.read)
            found = self._census.setdefault(key, Census())
            while len(self._census) > 2:
                self._census.popitem(last=False)
            return found
