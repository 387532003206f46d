"""The driver for a Keystone with the token fence: reversible, changes no grants."""

from __future__ import annotations

import time

from keystoneauth1 import exceptions as ka_exceptions
from keystoneauth1.adapter import Adapter

from cleanup_orchestrator.cloud.session import read_only
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.drain.base import PROJECT_FENCED, DrainContext, Driver, NotHeld, Result
from cleanup_orchestrator.errors import NoProjectToken
from cleanup_orchestrator.keystone import protocol

#: Probes of the fence, each over a new connection: a load balancer may choose another Keystone for each.
PROBES = 20

_INSTALL = "serve cleanup_orchestrator.keystone.wsgi:application in every Keystone, or set [drain] driver = revoke"
_CHECK_USER = f"check [{protocol.GROUP}] user_id in the keystone.conf of every Keystone"


class Fence(Driver):
    """Sets the token fence, and checks that it is effective before it reports success."""

    def drain(self, context: DrainContext) -> Result:
        """Fence the project.

        :raises NotHeld: another deletion's fence is set, or a Keystone process does not support the fence
        """
        project = context.projects.get_uncached(context.project_id)
        found = project.fence
        if found not in (None, context.deletion_id):
            raise NotHeld(
                f"project {context.project_id} has the fence of deletion {found}: cancel that one; if there is no such "
                f"deletion any more, set the project's option {protocol.FENCE_OPTION} to null"
            )
        context.record_intent(PROJECT_FENCED, {"fence": context.deletion_id})
        try:
            context.projects.set_fence(context.project_id, context.deletion_id)
        except ka_exceptions.BadRequest as error:
            raise NotHeld(f"this Keystone has no token fence ({error.message}): {_INSTALL}") from error
        if not project.enabled:
            text = "the project is disabled: its fence is set, and cannot be seen to hold until it is enabled"
            return Result(False, str(Reason.NO_PROJECT_TOKEN), text)
        time.sleep(protocol.FENCE_MAX_AGE)
        problem = _problem(context)
        if problem:
            raise NotHeld(problem)
        return Result(True, message=f"the project has a token fence, seen over {PROBES} new connections")

    def held(self, context: DrainContext) -> bool:
        """Return whether the fence is effective in each Keystone process that answers.

        Any update of the project by a Keystone process without the fence removes it.
        """
        return not _problem(context)

    def held_until_closed(self, context: DrainContext) -> bool:
        """Return whether the project still has the fence.

        No token can show it once the project is disabled.
        """
        return context.projects.get_uncached(context.project_id).fence == context.deletion_id


def _problem(context: DrainContext) -> str:
    """Return what is wrong with the fence; empty if it is effective. Read-only.

    This does not read the project's option, because each process may show an old copy of the project for minutes. It
    validates tokens instead; the canary's header names this deletion's fence.
    """
    # A new token, so that only the fence can refuse it. An older one may have been revoked meanwhile.
    context.clouds.project_auth(context.project_id, fresh=True)
    try:
        token = context.clouds.project_session(context.project_id).get_token()
    except NoProjectToken as error:
        return f"the orchestrator's own user {context.user_id} gets no token for the project ({error}): {_CHECK_USER}"
    for _ in range(PROBES):
        identity = context.clouds.identity(context.clouds.session(context.clouds.admin_auth(), read_only, alone=True))
        headers = {"X-Subject-Token": str(token)}
        # Without this check the next one would prove nothing: the token could be invalid for another reason.
        if not _accepted(identity, headers):
            return f"a Keystone process refuses the orchestrator's own token for the project: {_CHECK_USER}"
        if _accepted(identity, headers | {protocol.CANARY_HEADER: context.deletion_id}):
            return f"a Keystone process still accepts tokens for the project: {_INSTALL}"
    return ""


def _accepted(identity: Adapter, headers: dict[str, str]) -> bool:
    try:
        identity.get("/auth/tokens?nocatalog", headers=headers)
    except ka_exceptions.NotFound:
        return False
    return True
