"""What shows that another user changed the lock of a project. Pure.

Under the drivers ``revoke`` and ``none`` the lock consists of the project's role assignments and of ``enabled``. Each
user with the role ``manager`` on the domain, and each admin, may change these. Keystone has no history of them. So the
evidence of such a lock has the state at its beginning, and the user whose changes are the orchestrator's own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from cleanup_orchestrator.core.actions import Actions, VoidLock
from cleanup_orchestrator.core.deletion import Deletion, Status
from cleanup_orchestrator.core.step import Step, StepKind, StepState
from cleanup_orchestrator.core.transitions import LOCKED

_USER, _ROLES = "user", "roles"


def evidence(user_id: str, roles: Iterable[tuple[str, ...]]) -> str:
    """Return the evidence of a lock that others may change.

    :param user_id: the orchestrator's own
    :param roles: the role assignments of others that are left on the project, without an order
    """
    said = "\n".join(sorted({" ".join(role) for role in roles}))
    return f"{_USER}:{user_id} {_ROLES}:{hashlib.sha256(said.encode()).hexdigest()[:32]}"


def void(deletion: Deletion, steps: Sequence[Step], user_id: str, why: str) -> Actions:
    """Return what follows from a change of the project's roles or of ``enabled`` by another user.

    Nothing follows if no proof rests on the lock, or if the orchestrator made the change itself.

    :param user_id: the user who made the change; empty: Keystone does not say who it was
    """
    locked = deletion.drained_at is not None or deletion.closed_at is not None or _relocking(deletion, steps)
    released = any(s.kind is StepKind.RELEASE and s.round >= deletion.since_round for s in steps)
    if not locked or released or deletion.status not in LOCKED or deletion.project_gone_at is not None:
        return ()
    own = next((part for part in deletion.lock_evidence.split() if part.startswith(f"{_USER}:")), "")
    if own in ("", f"{_USER}:{user_id}"):
        return ()
    return (VoidLock(why, user_id),)


def _relocking(deletion: Deletion, steps: Sequence[Step]) -> bool:
    """Whether the drain is being repeated.

    The drain clears Keystone's token cache once, some seconds after its own last change. If another user's change comes
    after that, a token that was being validated at that moment may stay in the cache.
    """
    return deletion.status is Status.VERIFYING and any(
        s.kind is StepKind.DRAIN and s.round == deletion.round and s.state is StepState.RUNNING for s in steps
    )


#: Before the serial of the token fence, in the evidence of the driver ``fence``.
FENCE = "fence serial "


def driver(deletion: Deletion) -> str:
    """Return the driver whose evidence a deletion has; empty: the evidence does not tell it."""
    if deletion.lock_evidence.startswith(FENCE):
        return "fence"
    return "revoke, or none" if deletion.lock_evidence.startswith(f"{_USER}:") else ""


def unseen(deletion: Deletion) -> str:
    """Return who can have changed the lock unseen, as the end of a message; empty: only Keystone's operator."""
    if not deletion.lock_evidence.startswith(f"{_USER}:"):
        return ""
    who = f"an admin, or a manager of domain {deletion.domain_id},"
    what = f"this rests on role assignments and on 'enabled', which {who} can change and restore without a trace"
    return f"; {what} ([drain] driver = fence prevents it)"
