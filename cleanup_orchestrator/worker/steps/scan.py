"""The steps of an orphan scan: read the catalog, and list one resource type of one region for all projects.

Nothing here writes to the cloud: every session is read-only. Rows are handled one page at a time. The memory holds only
ids of projects, and everything that has to be reported goes to the store.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager

from oslo_log import log

from cleanup_orchestrator.cloud.catalog import AnsweredBy, Entry
from cleanup_orchestrator.cloud.session import GuardedSession, read_only
from cleanup_orchestrator.core import orphan_scan
from cleanup_orchestrator.core.orphan_scan import Orphan, OrphanScan
from cleanup_orchestrator.core.step import Outcome, ScanCounts, Step, StepKind, StepResult
from cleanup_orchestrator.errors import BadAnswer, Stopped
from cleanup_orchestrator.plugins.base import ProjectDefinition, Resource, ResourceType
from cleanup_orchestrator.protocol.plugin import NO_LIST_OF_ALL
from cleanup_orchestrator.worker.context import WorkerContext
from cleanup_orchestrator.worker.steps.base import StepRunner, TaskContext
from cleanup_orchestrator.worker.sweep import calls
from cleanup_orchestrator.worker.sweep.selecting import created_at

LOG = log.getLogger(__name__)

#: Stands for the project in a listing of all projects. Keystone never gives such an id.
NO_PROJECT = "0" * 32
#: Rows that go to the store at once.
_PAGE = 2000

#: What identifies a list: region, service, type.
Key = tuple[str, str, str]


class ScanContext(TaskContext):
    """One claimed step of an orphan scan with read access to the clouds."""

    def __init__(
        self,
        worker: WorkerContext,
        scan: OrphanScan,
        step: Step,
        withheld: Callable[[], str],
        made: Callable[[GuardedSession], None],
    ) -> None:
        """Create the context of a claimed step of an orphan scan; see :class:`TaskContext`."""
        super().__init__(worker, step, withheld, made)
        self.scan = scan

    def log_context(self) -> AbstractContextManager[None]:
        """Return no logging context: the lines are about no deletion."""
        return contextlib.nullcontext()

    def no_project(self, service: str, region: str) -> ProjectDefinition:
        """Return what stands for the project in a list of all projects."""
        options = self.worker.registry.options(self.worker.conf, service)
        return ProjectDefinition(NO_PROJECT, "", "", region, options=options)


class ScanRunner(StepRunner):
    """Does one kind of step of an orphan scan."""

    def __init__(self, context: ScanContext) -> None:
        self.context = context
        self.worker, self.scan, self.step = context.worker, context.scan, context.step


class Catalog(ScanRunner):
    """Reads which services, regions and types exist.

    Types that cannot be listed for all projects are stored as not covered.
    """

    def run(self) -> StepResult:
        """Read the catalog and record the lists to scan."""
        registry, clouds = self.worker.registry, self.context.clouds
        service_catalog = self.worker.catalog.with_protocol(self.worker.protocol.with_clouds(clouds))
        identity = clouds.identity(clouds.admin_session(read_only))
        steps: dict[Key, Step] = {}
        missing: dict[Key, str] = {}
        for answer in (*service_catalog.statuses(identity), service_catalog.status(Entry("", "identity", "keystone"))):
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
                    setting = type_.project_setting
                    steps[key] = Step(str(uuid.uuid4()), self.scan.id, StepKind.SCAN, *key, project_setting=setting)
        names = ("region", "service", "type", "reason")
        not_covered = [dict(zip(names, (*key, why), strict=True)) for key, why in sorted(missing.items())]
        if not self.worker.store.put_scan_steps(self.step, steps.values(), not_covered):
            raise Stopped("the read of the catalog is no longer held by this worker")
        return StepResult(Outcome.CLEAR, message=f"{len(steps)} types")

    def _may_miss(self, type_: ResourceType, region: str, service: str) -> str:
        """Return why a list of all projects would not be complete; see ``ResourceType.may_miss``.

        If the service does not answer, its list is unknown later.
        """
        if type_.may_miss is None:
            return ""
        try:
            clouds = self.context.clouds
            connection = clouds.connection(clouds.admin_session(read_only), region)
            return type_.may_miss(connection, self.context.no_project(service, region))
        except Exception as error:
            LOG.debug("%s does not say whether its list of %s is complete: %s", service, type_.name, error)
            return ""


class Scan(ScanRunner):
    """Lists one resource type of one region for all projects, and asks Keystone for the owners."""

    def run(self) -> StepResult:
        """Do the read that the step was dispatched for."""
        return self._first() if self.step.round == 1 else self._second()

    def _type(self) -> ResourceType:
        """Return the type, as all projects' resources are listed."""
        declared: ResourceType = self.worker.registry.find(self.step.service, self.step.type)
        type_ = declared.all_projects_view()
        if type_ is None:  # another worker has other plugins
            raise BadAnswer(f"{self.step.place} cannot be listed for all projects")
        return type_

    def _listed(self, type_: ResourceType) -> Iterator[Resource]:
        """Yield the resources of the type of all projects, one after the other.

        :raises BadAnswer: the list is too long
        :raises Stopped: the task was given up, or the process ends
        """
        context, step = self.context, self.step
        connection = context.clouds.connection(context.clouds.admin_session(read_only), step.region)
        most = self.worker.conf.orphans.most_listed
        no_project = context.no_project(step.service, step.region)
        for count, resource in enumerate(calls.list_resources(type_, connection, no_project), 1):
            if count > most:
                raise BadAnswer(f"the list has more than {most} rows ([orphans] most_listed)")
            if why := context.withheld():
                raise Stopped(why)
            yield resource

    def _first(self) -> StepResult:
        """List, and note the resources of projects that Keystone does not know."""
        store, census, type_ = self.worker.store, self.worker.censuses.of(self.scan), self._type()
        projects, own = self.context.projects(), self.context.clouds.project_id()
        listed = owner_unknown = too_young = 0
        undecided: set[str] = set()
        youngest = store.now() - datetime.timedelta(seconds=self.scan.min_age)
        page: list[Orphan] = []
        for resource in self._listed(type_):
            listed += 1
            owner = orphan_scan.owner_of(resource.owner)
            if owner is None:
                owner_unknown += 1
                continue
            known = census.knows(projects, owner, own)
            if known is None:
                undecided.add(owner)
            if known is not False:
                continue
            orphan = self._orphan(type_, resource, owner)
            if orphan.created_at is not None and orphan.created_at > youngest:
                too_young += 1
                continue
            page.append(orphan)
            if len(page) >= _PAGE:
                self._write(store.note_orphans, page)
        self._write(store.note_orphans, page)
        return _read(ScanCounts(listed, owner_unknown, too_young, len(undecided)))

    def _second(self) -> StepResult:
        """Ask Keystone and list again: what still exists is an orphan.

        The resource has to have the same owner as before.
        """
        store, census, type_ = self.worker.store, self.worker.censuses.of(self.scan), self._type()
        projects, own = self.context.projects(), self.context.clouds.project_id()
        gone, undecided = set(), 0
        for project_id in store.candidate_projects(self.step):
            known = census.knows(projects, project_id, own)
            undecided += known is None
            if known is False:
                gone.add(project_id)
        page: list[Orphan] = []
        for resource in self._listed(type_) if gone else ():
            if resource.owner in gone:
                page.append(self._orphan(type_, resource, str(resource.owner)))
                if len(page) >= _PAGE:
                    self._write(store.see_orphans_again, page)
        self._write(store.see_orphans_again, page)
        counts = self.step.counts
        return _read(dataclasses.replace(counts, undecided=counts.undecided + undecided))

    def _orphan(self, type_: ResourceType, resource: Resource, owner: str) -> Orphan:
        step = self.step
        return Orphan(
            owner, step.region, step.service, step.type, resource.id, resource.name, step.project_setting,
            created_at(type_, resource.data),
        )  # fmt: skip

    def _write(self, write: Callable[[Step, Sequence[Orphan]], bool], page: list[Orphan]) -> None:
        """Write a page of orphans.

        :raises Stopped: the worker no longer holds the step, or the scan has ended
        """
        if page and not write(self.step, page):
            raise Stopped(f"{self.step.place} is no longer held by this worker, or the scan has ended")
        page.clear()


def _read(counts: ScanCounts) -> StepResult:
    return StepResult(Outcome.CLEAR, found=counts.listed, counts=counts)
