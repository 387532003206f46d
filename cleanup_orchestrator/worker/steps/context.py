"""What the steps of a deletion work with, and the base class of their runners."""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar

from oslo_log import log

from cleanup_orchestrator import errors
from cleanup_orchestrator import log as our_log
from cleanup_orchestrator.cloud import protection
from cleanup_orchestrator.cloud.projects import Project, ProjectNotFound, Projects
from cleanup_orchestrator.cloud.session import Guard, GuardedSession, read_only
from cleanup_orchestrator.core import force, plugin_liens
from cleanup_orchestrator.core.deletion import Deletion, Status
from cleanup_orchestrator.core.findings import Finding, ProjectGone
from cleanup_orchestrator.core.journal import Event, EventType
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.rounds import refused_token
from cleanup_orchestrator.core.step import Outcome, Step, StepKind, StepResult, Token
from cleanup_orchestrator.drain import base as drain
from cleanup_orchestrator.drain import janitor
from cleanup_orchestrator.plugins.base import ProjectDefinition, ResourceType
from cleanup_orchestrator.plugins.registry import Registry
from cleanup_orchestrator.worker.context import WorkerContext
from cleanup_orchestrator.worker.guard import WriteGuard
from cleanup_orchestrator.worker.steps.base import StepRunner, TaskContext
from cleanup_orchestrator.worker.sweep.context import OtherType, RelatedType, SweepContext
from cleanup_orchestrator.worker.sweep.exclusions import KeepMarks

if TYPE_CHECKING:
    from openstack.connection import Connection

LOG = log.getLogger(__name__)

#: Ids in one journal line.
_CHUNK = 100

Item = TypeVar("Item")


class StepContext(TaskContext):
    """One claimed step with its deletion and guarded access to the clouds.

    It collects the journal lines that are saved with the result.
    """

    def __init__(
        self,
        worker: WorkerContext,
        deletion: Deletion,
        step: Step,
        withheld: Callable[[], str],
        made: Callable[[GuardedSession], None],
    ) -> None:
        """Create the context of a claimed step of a deletion; see :class:`TaskContext`."""
        super().__init__(worker, step, withheld, made)
        self.deletion = deletion
        self.guard = WriteGuard(worker, deletion, step, withheld, made)
        self.notes: list[Event] = []  #: for the journal, with the result

    @property
    def project_id(self) -> str:
        """The project under deletion."""
        return self.deletion.project_id

    def log_context(self) -> AbstractContextManager[None]:
        """Return the logging context with the ids of deletion, project and request."""
        return our_log.context(self.deletion.id, self.deletion.project_id, self.deletion.request_id)

    def learned_by_failing(self) -> tuple[Finding, ...]:
        """Return the fact that the project is gone, if Keystone says so."""
        return self.gone_facts() if self.project_is_gone() else ()

    @property
    def place(self) -> dict[str, str]:
        """Region, service and type of the step, as the journal names them."""
        return {"region": self.step.region, "service": self.step.service, "type": self.step.type}

    # -- Keystone
    def admin(self, writing: bool = False) -> GuardedSession:
        """Return a session with the orchestrator's own token."""
        return self.clouds.admin_session(self.guard if writing else read_only)

    def projects(self, writing: bool = False) -> Projects:
        """Return Keystone's projects."""
        return Projects(self.clouds.identity(self.admin(writing)))

    def project_is_gone(self) -> bool:
        """Whether Keystone says that it does not know the project.

        ``False`` if Keystone does not answer.
        """
        try:
            self.projects().get(self.deletion.project_id)
        except ProjectNotFound:
            return True
        except Exception as error:
            LOG.debug("project %s could not be read: %s", self.deletion.project_id, error)
        return False

    def gone_facts(self) -> tuple[Finding, ...]:
        """Return the fact that the project is gone, unless it is on record.

        A close step that finds it out could not see whether the drain had held until then. So the inventories before it
        do not count: a user may have had access after the last one.
        """
        if self.deletion.project_gone_at is not None:
            return ()
        drained = self.deletion.drained_at is not None and self.step.kind is not StepKind.CLOSE
        locked = drained or self.deletion.closed_at is not None
        return (ProjectGone(self.store.now(), locked),)

    def drain_context(self) -> drain.DrainContext:
        """Return what a drain driver works with."""
        user_id = self.clouds.user_id()

        def record_intent(type_: str, data: Mapping[str, Any]) -> None:
            self.record_intent(type_, data, type_)

        def added() -> frozenset[str]:
            changes = self.store.changes(self.deletion.id)
            return frozenset(
                c.data["role_id"] for c in changes if c.type == drain.GRANT_ADDED and c.data["actor_id"] == user_id
            )

        projects = self.projects(writing=True)

        def janitor_id() -> str:
            made = (c.data for c in self.store.changes(self.deletion.id) if c.type == drain.JANITOR_MADE)
            return next(filter(None, (projects.users.find(each["name"], each["domain_id"]) for each in made)), "")

        return drain.DrainContext(
            self.deletion.id,
            self.deletion.project_id,
            user_id,
            self.clouds,
            projects,
            self.guard,
            record_intent,
            added,
            janitor_id,
            self.deletion.lock_evidence,
        )

    def lock_changed(self, project: Project) -> str:
        """Return that the lock was changed, as text for people, with the user who changed the fence."""
        by = project.fence_changed_by
        who = f"user {by} changed the token fence" if by not in ("", self.clouds.user_id()) else "it was changed"
        return f"the lock of the project did not last ({who}): the project is locked and proven empty again"

    def note_undone_by_users(self, project: Project) -> None:
        """Note which recorded changes users have undone.

        The orchestrator no longer undoes them. While the project is being drained, no change is noted: a change that is
        recorded and not yet made looks undone.
        """
        if self.deletion.status is Status.DRAINING:
            return
        if changes := self.store.changes(self.deletion.id):
            closed = self.deletion.closed_at is not None
            self.yielded = drain.undone_by_others(self.projects(), project, changes, closed)

    # -- the journal
    def note(self, type_: str, message: str, data: Mapping[str, Any]) -> None:
        """Write a journal line with the result."""
        self.notes.append(Event(type_, message, self.worker.name, data))

    def record_intent(self, type_: str, data: Mapping[str, Any], what: str) -> None:
        """Record a change before it is made.

        :param what: what is refused, for the error
        :raises Stopped: the change must not be made
        """
        if self.store.record_intent(self.step, type_, data) is None:
            raise self.guard.refusal(what)

    def events(self, result: StepResult) -> list[Event]:
        """Return the journal lines of a result."""
        step, actor, place = self.step, self.worker.name, self.place
        events = [
            Event(
                EventType.RESOURCE_DELETED,
                f"{step.name}: {len(chunk)} gone",
                actor,
                {**place, "resources": named(chunk)},
            )
            for chunk in chunks(result.deleted)
        ]
        events += [
            Event(EventType.DRAIN_YIELDED, f"a user has undone it: {drain.describe(c)}", actor, {"type": c.type})
            for c in self.yielded
        ]
        events += self.notes
        changed = (str(result.outcome), result.reason) != (str(step.outcome), step.reason)
        if step.kind is not StepKind.SWEEP and (changed or result.message != step.message or self._is_first()):
            text = f"{step.kind}: {result.message or result.outcome}"
            events.append(Event(f"step.{step.kind}", text, actor, {"outcome": str(result.outcome)}))
        elif step.kind is StepKind.SWEEP and result.outcome is Outcome.CLEAR:
            if result.message and result.message != step.message:  # the list may have missed something
                events.append(Event(f"sweep.{result.outcome}", f"{step.name}: {result.message}", actor, place))
        elif step.kind is StepKind.SWEEP and changed:
            reasons = collections.Counter(str(leftover.reason) for leftover in result.leftovers)
            left = ", ".join(f"{count} {reason}" for reason, count in reasons.items())
            text = f"{step.name}: " + (left or f"unknown: {result.message}")
            data = {**place, "outcome": str(result.outcome), "reason": result.reason}
            events.append(Event(f"sweep.{result.outcome}", text, actor, data))
        return events

    def _is_first(self) -> bool:
        """Whether the result of a deletion-wide step is for the journal although it is the same as before.

        Surveys and the access step are repeated in each round, and from time to time while the deletion waits: only the
        first one of an attempt is.
        """
        repeated = self.step.kind in (StepKind.SURVEY, StepKind.ACCESS)
        return self.step.attempt == 1 and not (repeated and self.step.round > self.deletion.since_round)

    # -- resource types
    @functools.cached_property
    def registry(self) -> Registry:
        """The registry in which the step finds its type: that of the plugins, or of its region.

        A service that speaks the protocol declares its types itself, and may do so differently in each region.
        """
        return self.worker.protocol.registry(self.step.region, self.step.service)

    def resource_type(self) -> ResourceType:
        """Return the step's resource type.

        :raises errors.CleanupError: neither a plugin nor the service still declares it
        """
        try:
            return self.registry.find(self.step.service, self.step.type)
        except KeyError:
            text = f"nothing still declares the type {self.step.name}: what it holds is unknown"
            raise errors.CleanupError(text) from None

    def definition(self) -> ProjectDefinition:
        """Return what a plugin may know of the project."""
        return project_definition(self.worker, self.deletion, self.step)

    def session(self, type_: ResourceType, guard: Guard, gone: bool = False) -> GuardedSession:
        """Return a session with the token that a resource type needs.

        :param gone: whether Keystone does not know the project
        :raises errors.ProjectGone: the type needs a token of the project
        :raises errors.NoProjectToken: Keystone issues no such token
        :raises errors.NoJanitor: the type needs the janitor's token, a janitor is configured, and it has no usable one
        """
        if type_.token.scoped:
            if gone:
                raise errors.ProjectGone(_not_listed(type_))
            # A step that was refused once asks Keystone again: the refusal may have been passing.
            again = self.step.reason == Reason.NO_PROJECT_TOKEN and not self.step.seen_twice
            if not again and (refused := refused_token(self.deletion, self.store.steps(self.deletion.id))):
                raise errors.NoProjectToken(refused)
            own = self.clouds.project_session(self.deletion.project_id, guard)  # no other token of a disabled project
            member = type_.token is Token.MEMBER and not self.deletion.dry_run and self.worker.conf.janitor.secret
            return self.janitor_session(writing=guard is not read_only) if member else own
        if type_.token is Token.SERVICE:
            return self.clouds.service_session(guard)
        return self.clouds.admin_session(guard)

    def janitor_session(self, writing: bool = True) -> GuardedSession:
        """Return a session with the janitor's token for the project.

        :param writing: ``False``: it makes no write call, and nothing is granted
        :raises errors.NoJanitor: there is none
        """
        conf = self.worker.conf
        return janitor.session(self.drain_context(), conf.janitor.roles, conf.drain.driver == "fence", writing)

    def planned(self, service: str, type_: ResourceType, parts: bool = False) -> frozenset[str] | None:
        """Return the ids of a type in the plan that the deletion is bound to.

        ``None``: no plan limits the type. No plan has project settings: they are deleted when nothing else is left.

        :param parts: whether they are parts of the step's type: those that are not selected go with it, too
        """
        if not self.deletion.plan_id or type_.project_setting:
            return None
        place = (self.deletion.plan_id, self.step.region, service, type_.name)
        planned: frozenset[str] = self.store.planned(*place, parts=parts)
        return planned

    def related_types(self, type_: ResourceType, project: ProjectDefinition) -> list[RelatedType]:
        """Return the types whose keep marks count for the step's type, too."""
        registry = self.registry
        related = []
        for service, other, whole, attribute in registry.related_types(registry.services[self.step.service], type_):
            same = service.service_type == self.step.service
            options = self.worker.registry.options(self.worker.conf, service.service_type)
            related.append(
                RelatedType(
                    other.name if same else f"{service.service_type}.{other.name}",
                    other.for_missing_project(project.gone),
                    dataclasses.replace(project, options=options),
                    whole,
                    attribute,
                    None if whole else self.planned(service.service_type, other, parts=True),
                )
            )
        return related

    def sweep(self, type_: ResourceType, connection: Connection, project: ProjectDefinition) -> SweepContext:
        """Return the parameters of a sweep of a resource type with a connection."""
        return SweepContext(
            type_,
            connection,
            project,
            KeepMarks.from_conf(self.worker.conf),
            self.related_types(type_, project),
            self.planned(self.step.service, type_),
            self.worker.conf.worker.most_listed,
            self.step.name,
            self.deletion.selection,
            protection.ignored_uses(self.worker.conf),
            force.decided_uses(self.deletion),
            functools.cache(functools.partial(self._other_type, project)),  # it is asked for each part of a resource
            self._selected_before(type_),
        )

    def _selected_before(self, type_: ResourceType) -> frozenset[str]:
        """Return the stored ids of a type that this attempt listed as selected while the project was locked.

        A delete changes what is behind it: the volume of a server, the router of an interface. So does a stop for the
        recovery window. Without this, such a resource would no longer be selected by the time of its last change. Where
        users may still change resources, because the lock is not complete, there are none.
        """
        d, step = self.deletion, self.step
        if d.selection.updated_before is None or d.dry_run or d.drained_at is None:
            return frozenset()
        steps = (s for s in self.store.steps(d.id) if s.kind is StepKind.SWEEP)
        listed = next((s for s in steps if (s.region, s.name) == (step.region, step.name)), None)
        if listed is None or listed.finished_at is None or listed.finished_at <= d.drained_at:
            return frozenset()
        most = self.worker.conf.worker.most_listed
        rows = self.store.leftovers(d.id, most, region=step.region, service=step.service, type=type_.name)
        return frozenset(row.leftover.id for row in rows if row.leftover.reason is not Reason.NOT_SELECTED)

    def _other_type(self, project: ProjectDefinition, name: str) -> OtherType | None:
        """Return a type by its full name, with what its checks need; ``None``: no plugin declares it."""
        service, _, own = name.rpartition(".")
        try:
            type_ = self.worker.registry.find(service, own).for_missing_project(project.gone)
        except KeyError:
            return None
        connection = self.clouds.connection(self.session(type_, read_only, project.gone), self.step.region)
        options = self.worker.registry.options(self.worker.conf, service)
        return OtherType(name, type_, connection, dataclasses.replace(project, options=options))

    @property
    def stops_resources(self) -> bool:
        """Whether running resources are stopped for the recovery window."""
        options = self.worker.conf.deletion
        wanted = options.recovery_stop_servers and options.recovery_window > 0
        return bool(wanted) and plugin_liens.binding(self.deletion) and self.deletion.profile.requested


class DeletionRunner(StepRunner):
    """Does one kind of step of a deletion."""

    def __init__(self, context: StepContext) -> None:
        self.context = context
        self.worker, self.deletion, self.step = context.worker, context.deletion, context.step


def project_definition(worker: WorkerContext, deletion: Deletion, step: Step) -> ProjectDefinition:
    """Return what a plugin may know of the project that a step is about."""
    return ProjectDefinition(
        id=deletion.project_id,
        name=deletion.project_name,
        domain_id=deletion.domain_id,
        region=step.region,
        member_ids=deletion.member_ids,
        options=worker.registry.options(worker.conf, step.service),
        gone=deletion.project_gone_at is not None,
    )


def chunks(items: Sequence[Item]) -> list[Sequence[Item]]:
    """Return items in portions for one journal line each."""
    return [items[i : i + _CHUNK] for i in range(0, len(items), _CHUNK)]


def named(pairs: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    """Return pairs of id and name as the journal has resources."""
    return [{"id": id_, "name": name} for id_, name in pairs]


def _not_listed(type_: ResourceType) -> str:
    """Return why the resources of a type cannot be listed for a project that is gone."""
    why = f": {type_.all_projects}" if isinstance(type_.all_projects, str) and type_.all_projects else ""
    return (
        f"Keystone no longer gives a token for the project, and with no other token its {type_.name}s are listed{why}"
    )
