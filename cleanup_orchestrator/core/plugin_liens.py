"""Liens that plugins raise: on a project of whose resources others use one, or that must not go for another reason.

Only for the types that the operator names, ``[protection] lien_types``. There is one lien at most for each type, region
and deletion, whose id follows from these: whoever records it again, after a crash or beside somebody else, records the
same one; and one that an admin has removed is not raised again for this deletion. Pure.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Iterable

from cleanup_orchestrator.core.deletion import Deletion, Mode, Origin
from cleanup_orchestrator.core.holds import Lien
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Leftover, Step

#: Who has ended a lien that ended by itself, where other liens have the id of a user.
PLUGIN = "plugin"

#: What a look says of a resource that is none of the project's business alone.
_IN_USE = frozenset({Reason.PROTECTED, Reason.FOREIGN})

#: Of very many resources a lien names the first: its reason is a sentence, and the leftovers have all of them.
_NAMED = 10
_LONGEST = 300  #: characters of one resource's reason


def lien_id(deletion_id: str, step: Step) -> str:
    """Return the id of the one lien that a type may raise in a region for a deletion, in the shape of a UUID."""
    text = "\n".join((deletion_id, step.region, step.service, step.type))
    digest = hashlib.sha256(text.encode()).hexdigest()
    return "-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32]))


def binding(deletion: Deletion) -> bool:
    """Whether liens are recorded for a deletion: not for what changes nothing, which merely tells of them."""
    return deletion.mode is Mode.CASCADE and not deletion.dry_run and deletion.origin is not Origin.NOTICED


def sentence(leftovers: Iterable[Leftover]) -> str:
    """Return which of the resources that were found others use, and who; empty: none."""
    found = [one for one in leftovers if one.reason in _IN_USE and not one.abandoned]
    said = [f"{one.id}{f' ({one.name})' if one.name else ''}: {one.message[:_LONGEST]}" for one in found[:_NAMED]]
    more = [f"and {len(found) - _NAMED} more"] if len(found) > _NAMED else []
    return "; ".join([*said, *more])


def lien(deletion: Deletion, step: Step, in_use: str, now: datetime.datetime) -> Lien:
    """Return the lien that a step raises, with what others use of its type."""
    where = f" in region {step.region}" if step.region else ""
    return Lien(
        id=lien_id(deletion.id, step),
        project_id=deletion.project_id,
        origin=f"plugin:{step.name}"[:128],
        reason=f"{step.type}{where}: {in_use}",
        created_at=now,
        request_id=deletion.request_id,
    )


def raised(deletion: Deletion, steps: Iterable[Step]) -> tuple[Step, ...]:
    """Return the steps whose own lien is in force now."""
    liens = {one.id for one in deletion.liens}
    return tuple(step for step in steps if liens and lien_id(deletion.id, step) in liens)
