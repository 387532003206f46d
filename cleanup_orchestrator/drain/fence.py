"""The driver for a Keystone with the token fence: reversible, changes no grants."""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping

from keystoneauth1 import exceptions as ka_exceptions
from keystoneauth1.adapter import Adapter

from cleanup_orchestrator.cloud.projects import Project
from cleanup_orchestrator.cloud.session import TOKEN_SECOND, read_only
from cleanup_orchestrator.core import lock
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.drain.base import (
    PROJECT_DISABLED,
    PROJECT_FENCED,
    DrainContext,
    Driver,
    NotHeld,
    Result,
    check_shared_cache,
    probe,
)
from cleanup_orchestrator.drain.routes import past_fence
from cleanup_orchestrator.errors import NoProjectToken, ScopeDisabled, classify
from cleanup_orchestrator.keystone import protocol

#: Probes of the fence at once, each over a new connection: a load balancer may choose another Keystone for each.
PROBES = 20

#: Probes while the worker relies on an earlier check, and the seconds for which it does.
_FEW, _RELY = 2, 60

#: Before the serial in the evidence: a deletion whose driver was another one at its drain has no such evidence.
_SERIAL = lock.FENCE

_INSTALL = "serve cleanup_orchestrator.keystone.wsgi:application in every Keystone, or set [drain] driver = revoke"
_CHECK_USER = f"check [{protocol.GROUP}] user_id in the keystone.conf of every Keystone"
_REFUSED = f"a Keystone process refuses the orchestrator's own token for the project: {_CHECK_USER}"


class Fence(Driver):
    """Sets the token fence, and checks that it is effective before it reports success."""

    continuous = True

    def drain(self, context: DrainContext) -> Result:
        """Fence the project.

        :raises NotHeld: another deletion's fence is set, or a Keystone process does not support the fence
        """
        project = context.projects.get_uncached(context.project_id)
        fence = project.fence
        if fence not in (None, context.deletion_id):
            raise NotHeld(
                f"project {context.project_id} has the fence of deletion {fence}: cancel that deletion; if it does not "
                f"exist, an admin has to set the project's option {protocol.FENCE_OPTION} to null"
            )
        context.record_intent(PROJECT_FENCED, {"fence": context.deletion_id})
        try:
            context.projects.set_fence(context.project_id, context.deletion_id)
        except ka_exceptions.BadRequest as error:
            raise NotHeld(f"this Keystone has no token fence ({classify(error).message}): {_INSTALL}") from error
        except ka_exceptions.Forbidden as error:
            raise NotHeld(
                f"Keystone does not let the orchestrator set a fence ({classify(error).message}): {_CHECK_USER}"
            ) from error
        fenced = context.projects.get_uncached(context.project_id)
        if not fenced.fence_serial:
            raise NotHeld(f"a Keystone process has an older release of this package, or none: {_INSTALL}")
        evidence = _evidence(fenced)
        if not project.enabled:
            text = "the project is disabled: its fence is set, and cannot be seen to hold until it is enabled"
            return Result(False, str(Reason.NO_PROJECT_TOKEN), text, evidence)
        time.sleep(protocol.FENCE_MAX_AGE)
        try:
            problem = _problem(context)
        except ScopeDisabled as error:
            text = f"the fence is set, and cannot be seen to hold: {error}"
            return Result(False, str(Reason.NO_PROJECT_TOKEN), text, evidence)
        if problem:
            raise NotHeld(problem)
        return Result(True, message="the project has a token fence, seen over new connections", evidence=evidence)

    def held(self, context: DrainContext) -> bool:
        """Return whether the fence is effective in each Keystone process that answers.

        Any update of the project by a Keystone process without the fence removes it.

        :raises ScopeDisabled: no token can show it, as the project or its domain is disabled
        """
        return not _problem(context)

    def replaced(self, context: DrainContext, project: Project) -> bool:
        """Return whether the fence was lifted and set again.

        A copy from before the fence shows no fence, and is no sign of that.
        """
        return project.fence == context.deletion_id and not _is_unchanged(context, project)

    def held_until_closed(self, context: DrainContext) -> bool:
        """Return whether the project had the fence without interruption.

        No token can show it once the project is disabled.
        """
        return _is_unchanged(context, context.projects.get_uncached(context.project_id))

    def held_until_removed(self, context: DrainContext, project: Project) -> bool:
        """Return whether the project had the fence without interruption."""
        return _is_unchanged(context, project)

    def removal_headers(self, context: DrainContext) -> Mapping[str, str]:
        """Return the header with the serial: Keystone compares it once more before the delete."""
        return {protocol.SERIAL_HEADER: context.evidence.removeprefix(_SERIAL)}

    def close(self, context: DrainContext) -> Result:
        """Disable the project.

        Behind the fence no user gets a token for the project, and none is accepted. Therefore this does not wait until
        every Keystone process knows that the project is disabled. A validation that is under way may still put a token
        into Keystone's cache. The fence refuses that token as long as the project exists, and Keystone empties the
        cache after it has deleted a project (``resource.core.Manager._delete_project``).

        :raises NotHeld: a user enabled the project again, or Keystone's processes do not share their token cache
        """
        project = context.projects.get_uncached(context.project_id)
        if not project.enabled or project.fence != context.deletion_id:
            return super().close(context)
        context.record_intent(PROJECT_DISABLED, {})
        context.projects.set_enabled(context.project_id, False)
        if context.projects.get_uncached(context.project_id).enabled:
            raise NotHeld(f"a user enabled project {context.project_id} again while it was being disabled")
        check_shared_cache(context)
        return Result(True, message="the project is disabled")


def _evidence(project: Project) -> str:
    """Return the serial of the fence, which only Keystone changes: with each change of the fence."""
    return f"{_SERIAL}{project.fence_serial}"


def _is_unchanged(context: DrainContext, project: Project) -> bool:
    """Return whether the fence is the one that the deletion relies on, and not one that was set again since."""
    return project.fence == context.deletion_id and _evidence(project) == context.evidence


def _problem(context: DrainContext) -> str:
    """Return what is wrong with the fence; empty if it is effective. Read-only.

    This does not read the project's option, because each process may show an old copy of the project for minutes. It
    validates tokens instead; the canary's header names this deletion's fence.

    Two things are proven. The first is that every Keystone process has the code of the fence, and that no other service
    gets requests about tokens (``routes``). That is a property of the installation, so that a worker relies for a
    minute on its latest check over many connections, whatever its project.
    A check that finds a problem ends this at once. Many probes for each of many deletions at the same time would prove
    it again and again: they were a third of all calls to Keystone. The second is that this project has its fence. All
    processes read it from one database, so that a process which finds no fence there is found by any probe.
    """
    problem = _seen(context)
    if problem == _REFUSED:
        # A change of the orchestrator's groups or password revokes its tokens, and with them those that it gets in the
        # same second: Keystone knows when a token was issued to the second.
        time.sleep(TOKEN_SECOND)
        problem = _seen(context)
    return problem


def _seen(context: DrainContext) -> str:
    """Return what a look at the fence finds wrong, with a new token; empty: nothing."""
    # A new token, so that only the fence can refuse it. An older one may have been revoked meanwhile.
    context.clouds.project_auth(context.project_id, fresh=True)
    try:
        token = context.clouds.project_session(context.project_id).get_token()
    except ScopeDisabled:
        raise
    except NoProjectToken as error:
        return f"the orchestrator's own user {context.user_id} gets no token for the project ({error}): {_CHECK_USER}"
    checked_at = context.clouds.fences_checked_at
    all_of_them = not checked_at or time.monotonic() - checked_at[0] > _RELY
    probes = probe(
        functools.partial(_problem_of_one, context, str(token)), PROBES if all_of_them else min(_FEW, PROBES)
    )
    # That a process lets tokens through is worse than that one refuses the orchestrator's own.
    problem = max(filter(None, probes), key=lambda text: text != _REFUSED, default="")
    if not problem and all_of_them:
        problem = past_fence(context, str(token))
    if problem:
        checked_at.clear()
    elif all_of_them:
        checked_at[:] = [time.monotonic()]
    return problem


def _problem_of_one(context: DrainContext, token: str) -> str:
    """Return what is wrong with the fence in the Keystone process that answers a new connection."""
    identity = context.clouds.identity(context.clouds.session(context.clouds.admin_auth(), read_only, alone=True))
    headers = {"X-Subject-Token": token}
    accepted, confirmed = _validate(identity, headers | {protocol.CANARY_HEADER: context.deletion_id})
    if accepted:
        return f"a Keystone process still accepts tokens for the project: {_INSTALL}"
    # Without this check the refusal would prove nothing: the token could be invalid for another reason.
    if confirmed != context.deletion_id and not _validate(identity, headers)[0]:
        return _REFUSED
    return ""


def _validate(identity: Adapter, headers: dict[str, str]) -> tuple[bool, str]:
    """Return whether Keystone accepts a token, and the id of the fence that it confirms; see ``FENCED_HEADER``."""
    try:
        identity.get("/auth/tokens?nocatalog", headers=headers)
    except ka_exceptions.NotFound as error:
        response = error.response
        return False, "" if response is None else str(response.headers.get(protocol.FENCED_HEADER, ""))
    return True, ""
