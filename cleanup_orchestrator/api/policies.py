"""The names and defaults of the policy rules of the API, and who checks them.

The default of most rules that change something is the one of Keystone's ``identity:delete_project``. The rules that
only read also allow readers: of the whole system, or of the project's domain.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Collection, Iterator

from oslo_context.context import RequestContext
from oslo_policy import policy

from cleanup_orchestrator.core.deletion import Deletion

CREATE = "cleanup:deletions:create"
LIST = "cleanup:deletions:list"
GET = "cleanup:deletions:get"
SET = "cleanup:deletions:set"
POSTPONE = "cleanup:deletions:postpone"
RETRY = "cleanup:deletions:retry"
CANCEL = "cleanup:deletions:cancel"
CANCEL_OF_ADMIN = "cleanup:deletions:cancel_of_admin"
APPROVE = "cleanup:deletions:approve"
RESTORE = "cleanup:deletions:restore"
GRANTS_GET = "cleanup:deletions:get_grants"
REPORT = "cleanup:deletions:report"
PLAN_GET = "cleanup:plans:get"
FORCE = "cleanup:projects:force"
SERVICES = "cleanup:services:list"
BRAKE_GET = "cleanup:brake:get"
BRAKE_SET = "cleanup:brake:set"
BRAKE_LIFT = "cleanup:brake:lift"
LIEN_CREATE = "cleanup:liens:create"
LIEN_LIST = "cleanup:liens:list"
LIEN_GET = "cleanup:liens:get"
LIEN_DELETE = "cleanup:liens:delete"
WAIVER_CREATE = "cleanup:waivers:create"
WAIVER_LIST = "cleanup:waivers:list"
WAIVER_GET = "cleanup:waivers:get"
WAIVER_DELETE = "cleanup:waivers:delete"
ORPHAN_SCAN_CREATE = "cleanup:orphan_scans:create"
ORPHAN_SCAN_LIST = "cleanup:orphan_scans:list"
ORPHAN_SCAN_GET = "cleanup:orphan_scans:get"
ORPHAN_SCAN_CANCEL = "cleanup:orphan_scans:cancel"
ORPHAN_SCAN_ADOPT = "cleanup:orphan_scans:adopt"

ADMIN = "rule:admin_required"
#: Admins, and Keystone's readers of the system.
ADMIN_OR_READER = "(rule:admin_required) or (role:reader and system_scope:all)"
#: The rule of Keystone. The target has flat keys: with a nested target the rule would deny every request.
ADMIN_OR_DOMAIN_MANAGER = (
    "(rule:admin_required) or (role:manager and domain_id:%(target.project.domain_id)s "
    "and not None:%(target.project.domain_id)s)"
)
#: Those, and readers: of the system, and of the project's domain. For rules that only read.
ADMIN_OR_DOMAIN_READER = (
    f"{ADMIN_OR_READER} or ((role:manager or role:reader) and domain_id:%(target.project.domain_id)s "
    "and not None:%(target.project.domain_id)s)"
)
#: Those, and the user who requested the deletion, with any token, for ``[api] requester_reads_days`` after its end.
ADMIN_OR_DOMAIN_READER_OR_REQUESTER = (
    f"{ADMIN_OR_DOMAIN_READER} or (user_id:%(target.deletion.user_id)s and not None:%(target.deletion.user_id)s)"
)


#: The kinds of holds whose texts are protected, and the rule that allows to read them (the reason and the user).
READ = {"lien": LIEN_GET, "waiver": WAIVER_GET, "brake": BRAKE_GET}


@dataclasses.dataclass(frozen=True, slots=True)
class RequesterReads:
    """How long requesters may read deletions that have ended."""

    days: int = 0  #: 0: for ever
    now: Callable[[], datetime.datetime] = lambda: datetime.datetime.max  #: returns the database's time

    def ended_since(self) -> datetime.datetime | None:
        """Return when a deletion must have ended, at the earliest; ``None``: at any time."""
        return self.now() - datetime.timedelta(days=self.days) if self.days else None


class PolicyEnforcer:
    """Checks policy rules. Returns the decision and never raises."""

    def __init__(self, enforcer_: policy.Enforcer, reads: RequesterReads = RequesterReads()) -> None:
        self._enforcer, self.reads = enforcer_, reads

    def may(
        self,
        context: RequestContext,
        rule: str,
        domain_id: str | None = None,
        project_id: str | None = None,
        user_id: str | None = None,
    ) -> bool:
        """Return whether the requester is allowed a rule for a project of a domain.

        Without a domain: for every project of the cloud.

        :param user_id: who requested the deletion that the rule is about; ``None``: it is about no deletion
        """
        target = {"target.project.domain_id": domain_id, "target.project.id": project_id}
        if user_id:  # without the key, a check of the requester fails whatever the token has: a noticed one has no user
            target["target.deletion.user_id"] = user_id
        return bool(self._enforcer.authorize(rule, target, context, do_raise=False))

    def may_about(self, context: RequestContext, rule: str, d: Deletion) -> bool:
        """Return whether the requester is allowed a rule for a deletion.

        If the deletion ended long ago, the user who requested it has no rights from this.
        """
        own = bool(d.user_id) and d.user_id == context.user_id
        since = self.reads.ended_since() if own and d.finished_at is not None else None
        over = since is not None and d.finished_at is not None and d.finished_at < since
        return self.may(context, rule, d.domain_id, d.project_id, None if over else d.user_id)

    def readable(self, context: RequestContext) -> Collection[str]:
        """Return the kinds of ``READ`` whose texts the requester may read.

        A rule is only checked when its kind is looked up: most deletions have no such text.
        """
        return _Readable(lambda rule: self.may(context, rule))

    def may_somewhere(self, context: RequestContext, rule: str) -> bool:
        """Return whether a rule is allowed everywhere, or in the domain of the token."""
        return self.may(context, rule) or bool(context.domain_id and self.may(context, rule, context.domain_id))


class _Readable(Collection[str]):
    """The kinds of ``READ`` that a requester may read, each checked at most once."""

    def __init__(self, may: Callable[[str], bool]) -> None:
        self._may, self._known = may, dict[str, bool]()

    def __contains__(self, kind: object) -> bool:
        if not isinstance(kind, str) or kind not in READ:
            return False
        if kind not in self._known:
            self._known[kind] = self._may(READ[kind])
        return self._known[kind]

    def __iter__(self) -> Iterator[str]:
        return (kind for kind in READ if kind in self)

    def __len__(self) -> int:
        return sum(1 for _kind in self)
