"""Requests of users and admins: the handlers of the API over the simulated store, bus and Keystone."""

from __future__ import annotations

import datetime
import functools
import json
import random
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from keystoneauth1 import exceptions as ka_exceptions
from oslo_config import cfg
from sqlalchemy import exc as sa_exc

from cleanup_orchestrator import log
from cleanup_orchestrator import store as storage
from cleanup_orchestrator.api import policy_rules, root
from cleanup_orchestrator.api.context import ApiContext
from cleanup_orchestrator.api.deletion_actions import DeletionActions
from cleanup_orchestrator.api.deletions import Deletions
from cleanup_orchestrator.api.errors import ApiError
from cleanup_orchestrator.api.force import Forcing
from cleanup_orchestrator.api.operations import OPERATIONS, Operation
from cleanup_orchestrator.api.orphans import OrphanScans
from cleanup_orchestrator.api.policies import PolicyEnforcer
from cleanup_orchestrator.cloud.projects import Projects, Protection
from cleanup_orchestrator.core import transitions
from cleanup_orchestrator.core.deletion import Mode, accepted
from cleanup_orchestrator.core.holds import Brake, Lien, Waiver
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.selection import EVERYTHING, Selection
from cleanup_orchestrator.core.step import TASKS
from cleanup_orchestrator.engine.deletions import rules
from cleanup_orchestrator.store.orphans import new_scan
from tests.simulation.cloud import KEEP, NAMES, NOT_NAMES, NOW, TAG, TYPES
from tests.simulation.keystone import DEAD, ELSEWHERES, OWN, PROJECT
from tests.simulation.keystone_api import MANAGER
from tests.simulation.plan import Plan
from tests.simulation.watches.trees import Trees
from tests.simulation.wire import SimulatedClouds
from tests.support.scheduler import Process

if TYPE_CHECKING:
    from tests.simulation.world import World

#: What users and admins do, each a request of its own.
ASKED = frozenset(
    {
        *("cancel", "halt", "restore", "retry", "request", "protect", "unprotect", "brake", "unbrake", "force"),
        *("scan", "adopt", "flood", "other", "postpone", "hasten"),
    }
)
#: What concerns one deletion that there is.
_OF_A_DELETION = frozenset({"cancel", "halt", "restore", "retry", "force", "postpone", "hasten"})
#: The dry run whose plan a bound deletion goes by.
PLAN = "plan"


def selection(plan: Plan) -> Selection:
    """Return what the deletion of a plan selects."""
    if plan.mode is not Mode.PURGE:
        return EVERYTHING
    kinds = [tuple(n for n in plan.selected if ("." in n) is dotted) for dotted in (False, True)]
    values = {"not_tags": (KEEP,), "names": (NAMES,), "not_names": (NOT_NAMES,)}
    before = datetime.datetime.fromisoformat(NOW).replace(tzinfo=None) if "updated_before" in plan.further else None
    return Selection(
        services=kinds[0],
        types=kinds[1],
        skip=plan.skipped,
        tags=(TAG,) if plan.tagged else (),
        updated_before=before,
        **{name: value for name, value in values.items() if name in plan.further},
    )


@functools.cache
def _enforcer() -> PolicyEnforcer:
    """Return the enforcer with the default rules."""
    conf = cfg.ConfigOpts()
    conf([], project="simulation", default_config_files=[], default_config_dirs=[])
    return PolicyEnforcer(policy_rules.enforcer(conf))


def _operation(handler: Callable[..., Any]) -> Operation:
    """Return the operation of a bound handler."""
    owner, function = type(handler.__self__), handler.__func__  # type: ignore[attr-defined]
    return next(each for each in OPERATIONS.values() if each.owner is owner and each.handler is function)


class Users:
    """The process of the users, which is never killed."""

    def __init__(self, world: World) -> None:
        self._world, self._store, self._bus, self._promises = world, world.store, world.bus, world.promises
        self.process = Process("users")
        self._requests = self._liens = 0
        #: The user who requests the deletion: an admin, or the manager of the domain.
        self._requester = "user" if random.Random(f"requester {world.plan.seed}").random() < 0.7 else MANAGER
        clouds = SimulatedClouds(world.cloud)
        self._wiring = ApiContext(
            store=world.store,
            projects=Projects(clouds.identity(clouds.admin_session())),
            catalog_status=lambda _waivers: [
                types.SimpleNamespace(service_type=s) for _, s in world.cloud.keystone.catalog
            ],
            types={service: TYPES[service] for service in world.plan.services},
            engine=world.bus,
            enforcer=_enforcer(),
            rules=rules(world.conf),
            protection=lambda: Protection((), lambda: OWN),
            scan=lambda **values: new_scan(world.conf, **values),
            max_limit=100,
            waiver_limit=datetime.timedelta(days=90),
            plan_max_age=datetime.timedelta(days=90),
            max_subtree=100,
        )
        self._deletions, self._forcing = Deletions(self._wiring), Forcing(self._wiring)
        self._actions = DeletionActions(self._wiring)
        self._scans = OrphanScans(self._wiring)

    # -- asking
    def ask(self, what: str, size: float = 0.0, deletion_id: str = "") -> None:
        """Send a request of a user; send it again if the answer does not decide about it.

        :param size: 0 to 1: chooses the deletion, if there are several
        :param deletion_id: the deletion
        """
        if what in _OF_A_DELETION and not self._promises.status:
            return

        def run() -> None:
            simulation = self._world.simulation
            while True:
                assert simulation.current is not None
                simulation.current.saw["asked"] = simulation.effects
                try:
                    if what in _OF_A_DELETION:
                        getattr(self, f"_{what}")(deletion_id or self._chosen(size))
                    else:
                        getattr(self, f"_{what}")()
                    return
                except ApiError as refused:
                    if refused.code == "invalid_body":
                        self._promises.fail(f"the users' request {what!r} is malformed: {refused}")
                    if refused.code != "conflict":
                        simulation.note(f"refused: {refused.code}")
                        return
                except (sa_exc.OperationalError, ka_exceptions.ClientException) as error:
                    simulation.note(f"not answered: {type(error).__name__}")
                simulation.sleep(5.0)

        self._world.simulation.spawn(self.process, what, run)

    @property
    def busy(self) -> bool:
        """Whether a request is under way."""
        return any(t.process is self.process and not t.over for t in self._world.simulation.threads)

    def _chosen(self, size: float) -> str:
        """Return the deletion of the project, or (above a half) of one of the tree."""
        latest = self._promises.latest
        others = sorted(set(self._promises.project.values()) - {PROJECT})
        if size < 0.5 or not others:
            return latest() or latest(others[0])
        return latest(others[int((size - 0.5) * 2 * len(others))])

    def _call(self, handler: Callable[..., Any], *args: str, user: str = "user", **body: Any) -> Any:
        """Call a handler as an admin of the cloud, or as the manager of the domain."""
        scope: dict[str, Any] = {"roles": ["admin"]}
        if user == MANAGER:
            scope = {"roles": ["manager"], "domain_id": "dom"}
        if self._world.simulation.current is not None:
            self._world.simulation.current.saw["by"] = user
        context = log.Context(user_id=user, user_name=user, request_id="", overwrite=False, **scope)
        raw, kind = json.dumps(body).encode() if body else b"", "application/json" if body else ""
        environ = {root.OPERATION: _operation(handler)}
        request = types.SimpleNamespace(
            query_string="", body=raw, content_type=kind, context=context, application_url="", environ=environ
        )
        response = types.SimpleNamespace(status=0, headers={})
        arguments = types.SimpleNamespace(varkw={})
        root.Checks(self._wiring.enforcer).before(
            types.SimpleNamespace(request=request, response=response, arguments=arguments)
        )
        return handler(request, response, *args, **arguments.varkw)

    # -- requests
    def _request(self) -> None:
        plan, simulation = self._world.plan, self._world.simulation
        if plan.bound:
            self._request_by_plan()
            return
        began, before = simulation.effects, self._promises.latest()
        body: dict[str, Any] = {"project_id": PROJECT, "mode": str(plan.mode), "dry_run": plan.dry_run}
        if plan.delay and not self._promises.status:
            body["not_before"] = self._in(plan.delay)
        if chosen := selection(plan):
            stored = {name: values for name, values in chosen.to_dict().items() if values}
            body["selection"] = {name: f"{v}Z" if isinstance(v, str) else v for name, v in stored.items()}
        try:
            self._call(self._deletions.create, user=self._requester, **body, include_subtree=bool(plan.tree))
        except ApiError as refused:
            if refused.code != "project_has_liens" or self._promises.status:
                raise
            self._unprotect()  # nothing happens without a first deletion
            self._request()
            return
        if plan.tree and self._promises.latest() != before:  # else one was under way, and goes on as it is
            next(w for w in self._promises.watches if isinstance(w, Trees)).accepted(PROJECT, began)

    def request_below(self, project_id: str) -> None:
        """Request the deletion of a project below that has none."""
        plan = self._world.plan
        body = {"project_id": project_id, "mode": str(plan.mode), "dry_run": plan.dry_run, "include_subtree": True}
        simulation = self._world.simulation
        simulation.spawn(self.process, "request below", lambda: self._call(self._deletions.create, **body))

    def _request_by_plan(self) -> None:
        """Ask for the project's deletion by the plan whose record the world made."""
        plan = self._world.plan
        if self._promises.status and not self._world.cloud.keystone.projects[PROJECT].exists:
            return  # the API answers 404
        self._requests += 1
        deletion = accepted(
            id=f"00000000-0000-4000-9000-{self._requests:012d}",
            project_id=PROJECT,
            project_name="P",
            domain_id="dom",
            mode=plan.mode,
            dry_run=plan.dry_run,
            plan_id=PLAN,
            selection=selection(plan),
        )
        try:
            made = self._store.create(deletion, TASKS, Event("deletion.accepted", "a user asks"))
        except storage.AlreadyUnderWay as under_way:
            made = under_way.existing
        self._bus.decide(made.id)

    def _cancel(self, deletion_id: str) -> None:
        self._call(self._actions.cancel, deletion_id)

    def _halt(self, deletion_id: str) -> None:
        self._call(self._actions.cancel, deletion_id, user=MANAGER)

    def _flood(self) -> None:
        for project_id in self._world.cloud.keystone.flooded:
            if project_id != ELSEWHERES:
                body = {"project_id": project_id, "mode": "report", "dry_run": True}
                self._call(self._deletions.create, user=MANAGER, **body)

    def _other(self) -> None:
        if self._world.plan.flood:
            self._call(self._deletions.create, project_id=ELSEWHERES, mode="report", dry_run=True)

    def _restore(self, deletion_id: str) -> None:
        self._call(self._actions.restore, deletion_id)

    def _in(self, seconds: float) -> str:
        """Return a time from now, as the API takes it."""
        return (self._store.now() + datetime.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def _postpone(self, deletion_id: str) -> None:
        self._call(self._actions.change, deletion_id, not_before=self._in(2 * (self._world.plan.delay or 60.0)))

    def _hasten(self, deletion_id: str) -> None:
        self._call(self._actions.change, deletion_id, not_before=None)

    def _retry(self, deletion_id: str) -> None:
        self._call(self._actions.retry, deletion_id)

    def _approve(self) -> None:
        for deletion_id in sorted(self._promises.asking):
            self._promises.asking.discard(deletion_id)
            try:
                self._call(self._actions.approve, deletion_id, user="second", reason="it is well")
            except ApiError as refused:
                if refused.code != "not_awaiting_approval":
                    raise

    def _force(self, deletion_id: str) -> None:
        project_id = self._promises.project[deletion_id]
        if transitions.forcible(self._store.get(deletion_id)):
            self._call(self._forcing.force, project_id, user="admin", reason="it has to go")

    # -- holds
    def _protect(self) -> None:
        self._liens += 1
        self._store.add_lien(Lien(f"l{self._liens}", PROJECT, "billing", "an open invoice", self._store.now()))

    def _unprotect(self) -> None:
        """Remove all liens."""
        self._remove_liens(lambda _lien: True)

    def _settle_invoices(self) -> None:
        """Remove the liens of users."""
        self._remove_liens(lambda lien: lien.origin == "billing")

    def _remove_liens(self, which: Callable[[Lien], bool]) -> None:
        projects = sorted({*self._promises.project.values(), PROJECT})
        for lien in self._store.liens_in_force(projects):
            if which(lien):
                self._store.remove_lien(lien.id, "admin")
        for project_id in projects:
            if deletion_id := self._promises.latest(project_id):
                self._bus.decide(deletion_id)

    def _brake(self) -> None:
        self._store.set_brake(Brake(True, "something is wrong"))

    def _unbrake(self) -> None:
        self._store.set_brake(Brake(False))

    def waive(self) -> None:
        """Record a waiver for the unsupported service."""
        now = self._store.now()
        until = now + datetime.timedelta(days=90)
        self._store.add_waiver(Waiver("w", "dns", "there is none any more", now, until, user_id="admin"))

    # -- orphans
    def _scan(self) -> None:
        self._call(self._scans.create, user="admin")

    def _adopt(self) -> None:
        """Adopt what the latest scan found of the missing project."""
        rows = self._world.database.raw.execute("SELECT id FROM orphan_scans ORDER BY created_at DESC, id").fetchone()
        if rows is not None:
            self._call(self._scans.adopt, rows[0], user="admin", project_id=DEAD)
