"""The driver for a Keystone with our part in it: a token fence. Instant, reversible, and nobody's grants change."""

from __future__ import annotations

import time

from keystoneauth1 import exceptions as ka_exceptions
from keystoneauth1.adapter import Adapter

from cleanup_orchestrator.cloud.session import read_only
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.drain.base import PROJECT_FENCED, Driver, Ground, NotHeld, Result
from cleanup_orchestrator.errors import NoProjectToken
from cleanup_orchestrator.keystone import protocol

#: Looks through the fence, each over a connection of its own: a load balancer may choose another Keystone for each.
PROBES = 20

_INSTALL = "serve cleanup_orchestrator.keystone.wsgi:application in every Keystone, or set [drain] driver = revoke"
_CHECK_USER = f"check [{protocol.GROUP}] user_id in the keystone.conf of every Keystone"


class Fence(Driver):
    """Sets the token fence, and proves that it holds before it says so."""

    def drain(self, ground: Ground) -> Result:
        """Fence the project.

        :raises NotHeld: when another deletion's fence is there, or when Keystone, or one of its processes, has none
        """
        project = ground.projects.get_uncached(ground.project_id)
        found = project.fence
        if found not in (None, ground.deletion_id):
            raise NotHeld(
                f"project {ground.project_id} has the fence of deletion {found}: cancel that one; if there is no such "
                f"deletion any more, set the project's option {protocol.FENCE_OPTION} to null"
            )
        ground.intend(PROJECT_FENCED, {"fence": ground.deletion_id})
        try:
            ground.projects.set_fence(ground.project_id, ground.deletion_id)
        except ka_exceptions.BadRequest as error:
            raise NotHeld(f"this Keystone has no token fence ({error.message}): {_INSTALL}") from error
        if not project.enabled:
            text = "the project is disabled: its fence is set, and cannot be seen to hold until it is enabled"
            return Result(False, str(Reason.NO_PROJECT_TOKEN), text)
        time.sleep(protocol.FENCE_MAX_AGE)
        problem = _problem(ground)
        if problem:
            raise NotHeld(problem)
        return Result(True, message=f"the project has a token fence, seen over {PROBES} new connections")

    def held(self, ground: Ground) -> bool:
        """Whether our fence is still in effect, wherever we are answered.

        An update of the project by a Keystone process without our part removes it, whatever is updated.
        """
        return not _problem(ground)

    def held_until_closed(self, ground: Ground) -> bool:
        """Whether the fence is still recorded: no token tells any more. Whatever removed it did so for good."""
        return ground.projects.get_uncached(ground.project_id).fence == ground.deletion_id


def _problem(ground: Ground) -> str:
    """Return what is wrong with the fence; nothing, if it holds. Read-only.

    Keystone is not asked for the project's option: each process may show the project for minutes as it was. Tokens are
    what it is about, and the canary's header names our fence.
    """
    # A token of now, since its refusal has to be the fence's doing. One from before may have been revoked meanwhile.
    ground.clouds.project_auth(ground.project_id, fresh=True)
    try:
        token = ground.clouds.project_session(ground.project_id).get_token()
    except NoProjectToken as error:
        return f"the orchestrator's own user {ground.user_id} gets no token for the project ({error}): {_CHECK_USER}"
    for _ in range(PROBES):
        identity = ground.clouds.identity(ground.clouds.session(ground.clouds.admin_auth(), read_only, alone=True))
        headers = {"X-Subject-Token": str(token)}
        # Without this answer the next one would prove nothing: the token could be bad by itself.
        if not _accepted(identity, headers):
            return f"a Keystone process refuses the orchestrator's own token for the project: {_CHECK_USER}"
        if _accepted(identity, headers | {protocol.CANARY_HEADER: ground.deletion_id}):
            return f"a Keystone process still accepts tokens for the project: {_INSTALL}"
    return ""


def _accepted(identity: Adapter, headers: dict[str, str]) -> bool:
    try:
        identity.get("/auth/tokens?nocatalog", headers=headers)
    except ka_exceptions.NotFound:
        return False
    return True
