"""The sentence that precedes a decision: what a cascade or a purge would delete, and what blocks it. Pure."""

from __future__ import annotations

import dataclasses

from cleanup_orchestrator.core.deletion import DeletionView


@dataclasses.dataclass(frozen=True, slots=True)
class Foreseen:
    """The numbers of an inventory that precede the decision to delete."""

    delete: int  #: resources that would be deleted
    services: int  #: services that have such resources
    protect: int  #: resources that would block the end
    unknown: int  #: types that could not be listed, and unsupported services
    blockers: int = 0  #: further blockers, which are not about a type of resources
    approval_above: int = 0  #: the limit above which a deletion needs an approval, if the resources exceed it


def summary(d: DeletionView, foreseen: Foreseen) -> str:
    """Return what a deletion would do by what this dry run or report found, and what blocks it, as one sentence."""
    return f"{_deleted(d, foreseen)}; {_blocked(d, foreseen)}"


def _deleted(d: DeletionView, foreseen: Foreseen) -> str:
    services = f" in {_number(foreseen.services, 'service')}" if foreseen.delete else ""
    deleted = f"{_number(foreseen.delete, 'resource') if foreseen.delete else 'no resource'}{services} will be deleted"
    if d.profile.adopted:
        return deleted
    return f"{deleted}, and the project {'stays' if d.profile.keeps_project else 'is removed after that'}"


def _blocked(d: DeletionView, foreseen: Foreseen) -> str:
    causes = [
        (foreseen.protect, "resource", "resources"),
        (foreseen.unknown, "type that could not be listed", "types that could not be listed"),
        (foreseen.blockers, "further blocker", "further blockers"),
        (len(d.liens), "lien", "liens"),
    ]
    named = [_number(number, one, many) for number, one, many in causes if number]
    named += ["the brake"] if d.brake else []
    if foreseen.approval_above:
        named.append(f"the approval for more than {_number(foreseen.approval_above, 'resource')}")
    covers = "it covers" if len(d.waivers) == 1 else "they cover"
    unseen = f"; {_number(len(d.waivers), 'waiver')}: what {covers} is not listed" if d.waivers else ""
    below = f"; {_number(len(d.children), 'project')} below, of which this says nothing" if d.children else ""
    return (f"blocked by {_joined(named)}" if named else "nothing blocks it") + unseen + below


def _number(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or f'{one}s'}"


def _joined(words: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))
