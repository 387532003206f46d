"""Lists the resources of one type in one region, or deletes them."""

from __future__ import annotations

import dataclasses
import functools
import math
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from oslo_log import log

from cleanup_orchestrator.cloud import protection, protocol_options
from cleanup_orchestrator.cloud.session import GuardedSession, read_only, unreadable_names
from cleanup_orchestrator.core import dependencies, plugin_liens, storable
from cleanup_orchestrator.core import force as forcing
from cleanup_orchestrator.core.deletion import RoundPurpose, Status
from cleanup_orchestrator.core.journal import Event, EventType
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import DeleteRecord, Leftover, Outcome, Step, StepResult, Token
from cleanup_orchestrator.drain import base as drain
from cleanup_orchestrator.errors import NoJanitor
from cleanup_orchestrator.plugins.base import ProjectDefinition, Resource, ResourceType, Verdict
from cleanup_orchestrator.worker.steps.context import DeletionRunner, StepContext, named
from cleanup_orchestrator.worker.sweep import deleting as sweep_deleting
from cleanup_orchestrator.worker.sweep import listing, order, uses
from cleanup_orchestrator.worker.sweep.context import SweepContext
from cleanup_orchestrator.worker.sweep.exclusions import KeepMarks
from cleanup_orchestrator.worker.sweep.item import MAX_RECORDS, History
from cleanup_orchestrator.worker.sweep.listing import FindsUsers

if TYPE_CHECKING:
    from openstack.connection import Connection

LOG = log.getLogger(__name__)

#: Reasons of leftovers that a delete was tried of, or that something needs.
REFUSALS = frozenset(Reason) - {Reason.PRESENT, Reason.QUEUED, Reason.NOT_SELECTED, Reason.ON_HOLD, Reason.STOPPED}

#: Reasons for which force is not used: another project or the operator is concerned, or no delete was tried.
_NOT_BY_FORCE = frozenset(
    {
        *uses.OF_OTHERS,
        Reason.OWNER_UNKNOWN,
        Reason.NOT_PLANNED,
        Reason.NOT_SELECTED,
        Reason.ON_HOLD,
        Reason.PRESENT,
        Reason.QUEUED,
        Reason.RATE_LIMITED,
    }
)


class Sweep(DeletionRunner):
    """Sweeps one resource type in one region."""

    def __init__(self, context: StepContext) -> None:
        super().__init__(context)
        self._stuck = storable.Ids()  #: ids of the resources that force is used on
        self._announced = storable.Ids()  #: ids of the resources whose intent is in the journal
        self._janitor_lock = threading.Lock()
        self._janitor_connection: Connection | None = None
        self._no_janitor: NoJanitor | None = None  #: why there is no such connection

    def run(self) -> StepResult:
        """List the resources, and delete them if the round is for that; name the projects of what blocks them."""
        result = self._swept()
        if result.reason == Reason.UNREACHABLE:
            result = self._with_missing_endpoint(result)
        if result.outcome is Outcome.UNKNOWN and not result.remedy:
            type_, project = self.context.resource_type(), self.context.definition()
            result = dataclasses.replace(result, remedy=type_.remedy_for(result.reason, project))
        return self.worker.others.name_in(result, self.deletion.project_id, self.context.projects)

    def _with_missing_endpoint(self, result: StepResult) -> StepResult:
        """Return the result of a service that was not reached, which says so if no token has its endpoint."""
        try:
            why = self.context.clouds.why_no_endpoint(self.step.service, self.step.region)
        except Exception as error:
            LOG.debug("%s: Keystone does not say whether there is an endpoint: %s", self.step.name, error)
            return result
        return dataclasses.replace(result, reason=str(Reason.NO_ENDPOINT), message=why) if why else result

    def _swept(self) -> StepResult:
        context = self.context
        project = context.definition()
        type_ = context.resource_type().for_missing_project(project.gone)
        deleting = (
            self.deletion.purpose in (RoundPurpose.DELETE, RoundPurpose.PROJECT_SETTINGS) and not self.deletion.dry_run
        )
        view = type_.all_projects_view() if type_.token.scoped and project.gone else None
        if view is not None:
            # Keystone no longer gives a token of the project: an admin's token lists the resources and deletes none.
            session = context.session(view, read_only, project.gone)
            connection = context.clouds.connection(session, self.step.region)
            marks = KeepMarks.from_conf(self.worker.conf)
            sweep = SweepContext(view, connection, project, marks, most_listed=self.worker.conf.worker.most_listed)
            return listing.inventory(sweep, Reason.PROJECT_GONE)
        guard = context.guard if deleting else read_only
        session = context.session(type_, guard, project.gone)
        connection = context.clouds.connection(session, self.step.region)
        if self._is_unreadable(type_, session, connection, project):
            type_ = dataclasses.replace(type_, token=Token.ADMIN)
            project = dataclasses.replace(project, uses_own_token=True)
            connection = context.clouds.connection(context.session(type_, guard), self.step.region)
        sweep = context.sweep(type_, connection, project)
        return self._delete(sweep) if deleting else self._list(sweep)

    @staticmethod
    def _is_unreadable(
        type_: ResourceType, session: GuardedSession, connection: Connection, project: ProjectDefinition
    ) -> bool:
        """Whether the service cannot read the project's token; see ``ResourceType.unreadable``."""
        if type_.fallback.unreadable is None or type_.token is not Token.PROJECT or project.gone:
            return False
        return bool(unreadable_names(session)) and type_.fallback.unreadable(connection, project)

    def _list(self, sweep: SweepContext) -> StepResult:
        """List the resources and change nothing."""
        if sweep.type.unfiltered and self.step.outcome in (Outcome.LEFTOVERS, Outcome.UNKNOWN):
            # The list has rows without an owner. One of them may be a resource that lost its owner in its delete.
            self._note_tried()
        foresees = self.deletion.dry_run or self.step.name in protection.lien_types(self.worker.conf)
        inventory = listing.inventory(
            sweep,
            each_kept=self.deletion.dry_run,
            # A plan says what a cascade would refuse to delete for the sake of other projects.
            find_users=functools.partial(uses.foreseen, sweep) if foresees else None,
            remark=uses.may_refuse(sweep) if self.deletion.dry_run else "",
            announced=self._announced,
        )
        result = self._still_lost(inventory) if sweep.project.gone else self._still_refused(inventory)
        return self.with_lien(_with_doubt(sweep, result), complete=not inventory.more)

    def _delete(self, sweep: SweepContext) -> StepResult:
        """List the resources, delete them, and list again."""
        options = self.worker.conf.worker
        forced = self.deletion.purpose is RoundPurpose.DELETE and forcing.works(self.deletion)
        if forced and self.step.forcing:
            not_by_force = _NOT_BY_FORCE
            if sweep.type.keeps_contents_under_force:
                # They may be of the contents. Right before the delete, those of the resource itself are read again.
                not_by_force = not_by_force - uses.OF_OTHERS
            left = self._left(options.most_listed)
            self._stuck = storable.Ids(one.id for one in left if one.reason not in not_by_force)
        history = self._history(options)
        # There are few project settings, and after the point of no return nothing is put off.
        seconds = options.slice if self.deletion.purpose is RoundPurpose.DELETE else math.inf
        how = sweep_deleting.DeleteOptions(
            self.record_intent,
            self.record_harm,
            options.parallel_deletes,
            seconds,
            self.step.attempt,
            self._stuck,
            self._janitor,
            lambda: self._needs(sweep),
            self._announced,
            history,
        )
        result = sweep_deleting.delete(sweep, how)
        result = order.with_cycles(result, self.step.name, sweep.project.id, self._left_of)
        if (
            forced or sweep.project.gone
        ):  # a leftover may be abandoned, or stay: then the report says all that is known of it
            leftovers = tuple(_with_remedy(sweep.type, sweep.project, one, forced) for one in result.leftovers)
            result = dataclasses.replace(result, leftovers=leftovers)
        return self.with_lien(result, complete=False)

    def _needs(self, sweep: SweepContext) -> FindsUsers | None:
        """Return a function that says which leftover of another type needs a resource.

        The lock on the project keeps other types from getting new resources. So what their latest lists in this round
        had is all that there may be. What was abandoned by force stays, and what it needs is deleted.
        """
        if not self.step.needed_by:
            return None
        registry = self.context.registry
        service = registry.services[self.step.service]
        left: dict[str, set[str] | None] = {}
        for other in dependencies.may_need(self.step, self.context.store.steps(self.deletion.id), self.step.round):
            if not forcing.is_abandoned(self.deletion, other):
                known, ids = left.get(other.name, set()), self._ids_left(other)
                left[other.name] = None if known is None or ids is None else known | ids
        rules = registry.needed_by(service, sweep.type, self.deletion.profile.keeps_project)
        return uses.needed_by(rules, sweep.connection, sweep.project, left)

    def _ids_left(self, other: Step) -> set[str] | None:
        """Return the ids of what another type has left, except for what was abandoned.

        ``None``: it is not known, or too much.
        """
        # A list that is as long as "most_listed" may have been truncated.
        most = min(uses.MAX_NEEDING, self.worker.conf.worker.most_listed - 1)
        if other.round != self.step.round or other.outcome is not Outcome.LEFTOVERS or other.remaining > most:
            return None
        rows = self.context.store.leftovers(
            self.deletion.id, uses.MAX_NEEDING + 1, region=other.region, service=other.service, type=other.type
        )
        if len(rows) != other.remaining:  # a new result of it was stored at this moment
            return None
        if any(storable.is_shortened(row.leftover.id) for row in rows):  # its service knows it by another id
            return None
        forced = forcing.works(self.deletion)
        return {row.leftover.id for row in rows if not (forced and row.leftover.abandoned)}

    def record_intent(self, resources: Sequence[Resource]) -> None:
        """Write into the journal which resources are going to be deleted, unless an earlier try has written it.

        :raises Stopped: nothing may be deleted
        """
        by_force = [r for r in resources if r.id in self._stuck]
        ordinary = [r for r in resources if r.id not in self._stuck and r.id not in self._announced]
        events = [
            Event(
                type_,
                f"{self.step.name}: {what} {len(chunk)}",
                self.worker.name,
                {**self.context.place, "resources": named([(r.id, r.name) for r in chunk])},
            )
            for type_, what, chunk in (
                (EventType.RESOURCE_DELETING, "going to delete", ordinary),
                (EventType.RESOURCE_FORCING, "going to use force on", by_force),
            )
            if chunk
        ]
        if not self.context.store.append_events(self.step, *events):
            raise self.context.guard.refusal("DELETE")

    def record_harm(self, resources: Sequence[tuple[Resource, Sequence[Verdict]]]) -> None:
        """Write into the journal which resources are deleted although others use them, by whose decision, and the uses.

        :raises Stopped: nothing may be deleted
        """
        said = {use.of: use.who for use in forcing.decisions(self.deletion)}
        events = []
        for resource, verdicts in resources:
            users = [
                {"type": b["type"], "id": storable.resource_id(b["id"])}
                for verdict in verdicts
                for b in verdict.blocked_by
            ]
            # Users of what is deleted with it were decided on by the id of that.
            by = said.get(f"{self.step.name}:{storable.resource_id(resource.id)}") or ", ".join(
                dict.fromkeys(said.values())
            )
            text = f"{self.step.name} {resource.id} is deleted although others use it, as {by} decided: "
            text += "; ".join(verdict.message for verdict in verdicts)
            text += ": " + ", ".join(f"{user['type']} {user['id']}" for user in users)
            data = {**self.context.place, "resources": named([(resource.id, resource.name)]), "users": users}
            events.append(Event(EventType.RESOURCE_USE_OVERRULED, text, self.worker.name, data))
        if not self.context.store.append_events(self.step, *events):
            raise self.context.guard.refusal("DELETE")

    def with_lien(self, result: StepResult, complete: bool) -> StepResult:
        """Return a result with what raises or ends the lien of the type.

        A dry run and a report raise no lien: the journal says that a cascade would raise one.

        :param complete: whether each resource was asked about, so that a lien ends with its reason
        """
        if self.step.name not in protection.lien_types(self.worker.conf) or result.outcome is Outcome.UNKNOWN:
            return result
        in_use = plugin_liens.sentence(result.leftovers)
        if plugin_liens.binding(self.deletion):
            return dataclasses.replace(result, in_use=in_use) if in_use or complete else result
        if in_use:
            text = f"a cascade would raise a lien, and delete nothing: {self.step.name}: {in_use}"
            self.context.note(EventType.LIEN_FORESEEN, text, self.context.place)
        return result

    def _janitor(self) -> Connection:
        """Return the step's one connection with the janitor's token for the project.

        :raises NoJanitor: there is none, which is not asked for again in this step; or the service must not have it
        """
        service, conf = self.step.service, self.worker.conf
        if self.step.token is Token.SERVICE and not protocol_options.may_act_on_user_content(conf, service):
            raise NoJanitor(
                f"{service} says that it acts on what users wrote, and would get the token of a member of the project: "
                f"if the service is trusted with that, add it to [{protocol_options.GROUP}] acts_on_user_content"
            )
        with self._janitor_lock:
            if self._no_janitor is not None:
                raise self._no_janitor
            if self._janitor_connection is None:
                try:
                    self.context.record_intent(drain.JANITOR_LENT, {}, "the token of the janitor")
                    session = self.context.janitor_session()
                except NoJanitor as error:
                    self._no_janitor = error
                    raise
                self._janitor_connection = self.context.clouds.connection(session, self.step.region)
            return self._janitor_connection

    def _still_lost(self, listed: StepResult) -> StepResult:
        """Return a listing in which undeletable leftovers keep their reason.

        Leftovers that cannot be deleted because the project is gone would otherwise count as new, and would be deleted
        and listed again without end.
        """
        lost = {
            one.id: one for one in self._left(self.worker.conf.worker.most_listed) if one.reason is Reason.PROJECT_GONE
        }
        if not lost:
            return listed
        left = tuple(lost.get(storable.resource_id(one.id), one) for one in listed.leftovers)
        worst = next((one for one in left if one.reason is Reason.PROJECT_GONE), None)
        if worst is None:
            return dataclasses.replace(listed, leftovers=left)
        return dataclasses.replace(listed, leftovers=left, reason=str(worst.reason), message=worst.message)

    def _still_refused(self, listed: StepResult) -> StepResult:
        """Return a listing in which leftovers keep the reason for which they were not deleted.

        A deletion that keeps its project ends with this listing, and its report has to say what is in the way.
        """
        ends = self.deletion.profile.keeps_project and self.deletion.status is Status.VERIFYING
        if not ends or listed.outcome is not Outcome.LEFTOVERS or listed.more:
            return listed
        before = {one.id: one for one in self._left(self.worker.conf.worker.most_listed) if one.reason in REFUSALS}
        left = tuple(
            before.get(storable.resource_id(one.id), one) if one.reason is Reason.PRESENT else one
            for one in listed.leftovers
        )
        return listing.with_leftovers(listed, left)

    def _left(self, most: int, **filters: Any) -> list[Leftover]:
        """Return what the attempt before this one left.

        :param filters: of :meth:`Leftovers.page`
        """
        step = self.step
        rows = self.context.store.leftovers(
            self.deletion.id, most, region=step.region, service=step.service, type=step.type, **filters
        )
        return [row.leftover for row in rows]

    def _left_of(self, name: str) -> list[Leftover]:
        """Return what is stored as left of a type of this region."""
        service, _, type_ = name.rpartition(".")
        rows = self.context.store.leftovers(
            self.deletion.id, order.MAX_IN_CYCLES, region=self.step.region, service=service, type=type_
        )
        return [row.leftover for row in rows]

    def _history(self, options: Any) -> History:
        """Return what is on record of accepted deletes; note what the attempt before this one tried, and left."""
        step = self.step
        if step.outcome not in (Outcome.LEFTOVERS, Outcome.UNKNOWN):
            return History(now=step.started_at, patience=options.deleting_patience)
        records, tried = self._note_tried()
        deleting = {one.id: True for one in tried if _is_going(one)}
        if step.outcome is Outcome.LEFTOVERS and step.reason in _GOING:
            # The delete of some may have been requested by others.
            others = self._left(MAX_RECORDS, reasons=_GOING, announced=False)
            deleting.update((one.id, False) for one in others if _is_going(one))
        return History(records, deleting, step.finished_at, step.started_at, float(options.deleting_patience))

    def _note_tried(self) -> tuple[Mapping[str, DeleteRecord], list[Leftover]]:
        """Note of which resources the journal has the intent; return the accepted deletes, and what was tried and left.

        A list that failed leaves no leftovers on record: then the accepted deletes are all that is known.
        """
        step = self.step
        records = self.context.store.deletes(step.id)
        left = step.outcome is Outcome.LEFTOVERS
        tried = self._left(self.worker.conf.worker.most_listed, announced=True) if left else []
        accepted = (id_ for id_, one in records.items() if one.accepted)
        self._announced = storable.Ids({*accepted, *(one.id for one in tried)})
        return records, tried


def _with_remedy(type_: ResourceType, project: ProjectDefinition, leftover: Leftover, forced: bool) -> Leftover:
    """Return a leftover with its owner, and with how a person removes it if it may be abandoned or must stay."""
    owner = "" if leftover.reason is Reason.OWNER_UNKNOWN else project.id
    stays = forced or leftover.reason is Reason.PROJECT_GONE
    return dataclasses.replace(
        leftover, owner=owner, remedy=type_.remedy(leftover.id, project) if stays else leftover.remedy
    )


#: Reasons of leftovers whose delete a service has accepted.
_GOING = frozenset({Reason.DELETING, Reason.STUCK})


def _is_going(leftover: Leftover) -> bool:
    """Whether its service deletes a leftover; one that names blockers only waits for others that are being deleted."""
    return leftover.reason in _GOING and not leftover.blocked_by


def _with_doubt(sweep: SweepContext, result: StepResult) -> StepResult:
    """Return the result of an empty list, which says whether the list may have missed resources."""
    if sweep.type.may_miss is None or result.outcome is not Outcome.CLEAR:
        return result
    try:
        message = sweep.type.may_miss(sweep.connection, sweep.project)
    except Exception as error:  # it is not known whether the list was complete
        return listing.unknown(error)
    return dataclasses.replace(result, message=message) if message else result
