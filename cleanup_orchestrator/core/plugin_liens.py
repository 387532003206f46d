"""Liens that plugins raise on projects with shared or protected resources. Pure.

They are raised only for the types in ``[protection] lien_types``. There is at most one lien for each type, region and
deletion, and its id is computed from these three. So a worker that records it again, after a crash or at the same time
as another one, records the same lien. A lien that an admin removed is not raised again for this deletion.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Iterable

from cleanup_orchestrator.core.deletion import Deletion, DeletionView
from cleanup_orchestrator.core.holds import Lien
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Leftover, Step
from cleanup_orchestrator.core.texts import enumerated

#: The value of ``Lien.deleted_by`` for a lien that ended with its reason. Other liens have a user's id.
PLUGIN = "plugin"

#: The reasons of leftovers that are not for the project alone to delete.
_IN_USE = frozenset({Reason.PROTECTED, Reason.FOREIGN})

#: A lien names this many resources at most. The leftovers have all of them.
_NAMED = 10
_LONGEST = 300  #: characters of one resource's reason


def lien_id(deletion_id: str, step: Step) -> str:
    """Return the id, a UUID, of a type's lien in a region for a deletion."""
    text = "\n".join((deletion_id, step.region, step.service, step.type))
    digest = hashlib.sha256(text.encode()).hexdigest()
    return "-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32]))


def binding(deletion: Deletion) -> bool:
    """Whether liens are recorded for a deletion, and not only reported.

    A deletion that changes nothing only reports them.
    """
    return deletion.profile.deletes and not deletion.profile.noticed


def sentence(leftovers: Iterable[Leftover]) -> str:
    """Return which leftovers are protected or used by other projects, and why; empty: none."""
    used = [one for one in leftovers if one.reason in _IN_USE and not one.abandoned]
    said = [f"{one.id}{f' ({one.name})' if one.name else ''}: {one.message[:_LONGEST]}" for one in used]
    return enumerated(said, _NAMED, "; ")


def lien(deletion: Deletion, step: Step, in_use: str, now: datetime.datetime) -> Lien:
    """Return the lien that a step raises.

    :param in_use: what others use of its type, see :func:`sentence`
    """
    where = f" in region {step.region}" if step.region else ""
    return Lien(
        id=lien_id(deletion.id, step),
        project_id=deletion.project_id,
        origin=f"plugin:{step.name}"[:128],
        reason=f"{step.type}{where}: {in_use}",
        created_at=now,
        request_id=deletion.request_id,
    )


def raised(deletion: DeletionView, steps: Iterable[Step]) -> tuple[Step, ...]:
    """Return the steps whose lien is in force now."""
    liens = {one.id for one in deletion.liens}
    return tuple(step for step in steps if liens and lien_id(deletion.id, step) in liens)
