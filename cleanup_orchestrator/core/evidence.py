"""What the journal of a deletion proves: the facts of its lines, and the verdict that follows from them. Pure.

The API computes both for a report. ``cleanup-orchestrator-manage report verify`` computes them again from the lines in
the report, and compares.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.core.journal import EventType
from cleanup_orchestrator.core.transitions import FINAL, LIVE

#: Version of the form of a report. A reader refuses another one.
FORMAT: Final = "project-cleanup-report/1"

#: Lines of one kind that the facts name at most; further ones are counted. A user can retry without end.
MOST_NAMED: Final = 100

#: The types of lines by which a person, or another client, began or changed a deletion.
_REQUESTS: Final = frozenset(
    {
        *(EventType.DELETION_ACCEPTED, EventType.DELETION_ADOPTED, EventType.DELETION_APPROVED),
        EventType.DELETION_CHANGED,
        *(EventType.DELETION_FORCED, EventType.DELETION_NOTICED, EventType.DELETION_RETRIED),
        *(EventType.DELETION_RETRIED_NOW, "deletion.cancelling"),
    }
)
#: The types of lines after which an attempt begins.
_BEGINNINGS: Final = frozenset(
    {EventType.DELETION_ACCEPTED, EventType.DELETION_ADOPTED, EventType.DELETION_NOTICED, EventType.DELETION_RETRIED}
)
_COUNTED: Final = {
    str(EventType.RESOURCE_DELETING): "announced",
    str(EventType.RESOURCE_FORCING): "announced",
    str(EventType.RESOURCE_DELETED): "deleted",
    str(EventType.RESOURCE_ABANDONED): "abandoned",
}
_ENDED: Final = frozenset(Status) - LIVE
_STATUSES: Final = {f"deletion.{status}": status for status in Status}
_PROVEN: Final = frozenset({Status.DELETED, Status.PURGED})


class Facts:
    """The facts of the lines so far."""

    def __init__(self) -> None:
        self.status = Status.ACCEPTED
        self._ended_at = ""
        self._named: dict[str, list[dict[str, Any]]] = {"requests": [], "unseen": []}
        self._omitted = 0
        self._lock: dict[str, Any] | None = None
        self._closed: dict[str, Any] | None = None
        self._inventories: list[dict[str, Any]] = []
        self._began: tuple[Any, str] = (None, "")
        self._waivers: dict[str, dict[str, Any]] = {}
        self._types: dict[tuple[str, str, str], dict[str, int]] = {}

    def add(self, line: Mapping[str, Any]) -> None:
        """Add what one more line says.

        :param line: as in :func:`journal_chain.linked`. A line that another release wrote may have other data
        """
        type_, data = line["type"], line["data"] if isinstance(line["data"], Mapping) else {}
        short = {name: line[name] for name in ("sequence", "at", "message")}
        who = {name: line[name] for name in ("type", "actor", "request_id")}
        if type_ in _REQUESTS:
            self._name("requests", {**short, **who})
        if type_ in _BEGINNINGS:
            self._begin()
        if type_ in _STATUSES:
            self._move(_STATUSES[type_], line["at"])
        match type_:
            case EventType.DRAIN_HELD:
                self._lock, self._inventories = short, []
            case EventType.PROJECT_CLOSED:
                self._closed = short
            case EventType.ROUND_OPENED:
                self._began = data.get("round"), line["at"]
            case EventType.INVENTORY_EMPTY:
                began = self._began[1] if self._began[0] == data.get("round") else ""
                found = {"sequence": line["sequence"], "began_at": began, "ended_at": line["at"]}
                self._inventories.append({**found, "message": line["message"]})
            case EventType.INVENTORY_VOID:
                self._inventories = []
                if data.get("lock_changed") is True:
                    self._lock = self._closed = None
            case EventType.WAIVER_RELIED_UPON:
                self._waivers[str(data.get("id"))] = short
            case EventType.WAIVER_ENDED:
                self._waivers.pop(str(data.get("id")), None)
            case EventType.FORCE_ABANDONED if data.get("unseen") is True:
                self._name("unseen", short)
        if kind := _COUNTED.get(type_):
            self._count(kind, data)

    def to_dict(self) -> dict[str, Any]:
        """Return the facts for JSON."""
        types = [
            {"region": region, "service": service, "type": type_, **counts}
            for (region, service, type_), counts in sorted(self._types.items())
        ]
        return {
            "status": str(self.status),
            "ended_at": self._ended_at,
            "requests": self._named["requests"],
            "omitted": self._omitted,
            "lock": self._lock,
            "closed": self._closed,
            "inventories": self._inventories[-2:],
            "deleted": sum(each["deleted"] for each in types),
            "abandoned": sum(each["abandoned"] for each in types),
            "unseen": self._named["unseen"],
            "waivers": [self._waivers[id_] for id_ in sorted(self._waivers)],
            "types": types,
        }

    def _begin(self) -> None:
        self.status, self._ended_at = Status.ACCEPTED, ""
        self._lock = self._closed = None
        self._inventories, self._waivers = [], {}

    def _move(self, to: Status, at: str) -> None:
        self.status, self._ended_at = to, at if to in _ENDED else ""
        if to not in FINAL:
            self._inventories = []

    def _name(self, kind: str, fact: dict[str, Any]) -> None:
        if len(self._named[kind]) < MOST_NAMED:
            self._named[kind].append(fact)
        else:
            self._omitted += 1

    def _count(self, kind: str, data: Mapping[str, Any]) -> None:
        place = (str(data.get("region", "")), str(data.get("service", "")), str(data.get("type", "")))
        resources = data.get("resources")
        counts = self._types.setdefault(place, dict.fromkeys(("announced", "deleted", "abandoned"), 0))
        counts[kind] += len(resources) if isinstance(resources, list) else 0


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """What a report proves."""

    proven: bool  #: whether it proves that the deletion was done
    text: str  #: one sentence for people, which the report has on top


def verdict(facts: Mapping[str, Any], problem: str, recorded: str) -> Verdict:
    """Return what the facts of a journal prove.

    :param facts: see :meth:`Facts.to_dict`
    :param problem: why the journal is not whole; empty: it is whole
    :param recorded: the status that the record of the deletion has. Only the journal is protected by digests
    """
    status = facts["status"]
    if problem:
        return Verdict(False, f"No proof: the journal was changed after it was written. {problem}.")
    if status != recorded:
        return Verdict(False, f"No proof: the record of the deletion says {recorded}, and its journal says {status}.")
    if status in LIVE:
        return Verdict(False, f"Not ended: no proof. The status of the deletion is {status}.")
    if status not in _PROVEN:
        return Verdict(False, f"No proof of deletion: the deletion ended as {status}, and the project was not deleted.")
    if len(facts["inventories"]) < 2:
        return Verdict(False, f"No proof: the status is {status}, and the journal has no two empty inventories.")
    exceptions = [
        f"{facts['abandoned']} resources were abandoned by force" if facts["abandoned"] else "",
        f"{len(facts['unseen'])} resource types were abandoned and could not be seen" if facts["unseen"] else "",
        f"{len(facts['waivers'])} waivers excluded services, whose resources were not looked for"
        if facts["waivers"]
        else "",
    ]
    what = "Deleted" if status == Status.DELETED else "Purged: what was selected is deleted"
    if named := [text for text in exceptions if text]:
        return Verdict(True, f"{what}, with exceptions: {'; '.join(named)}. For the rest, two inventories were empty.")
    return Verdict(True, f"{what}. Two complete inventories, one after the other, found nothing.")


#: What a report rests on, and who can make it say something false. The report has these sentences, word for word.
RESTS_ON: Final = (
    "The services of the cloud: a service that lists less than it has makes an inventory empty. The orchestrator sees "
    "only what the service answers.",
    "Keystone and its admins: an admin of the cloud can give access to a project behind the orchestrator, and can make "
    "or delete resources at any time. A change of the lock that the orchestrator sees voids the proof.",
    "The database of the orchestrator: who can write it can write another journal with another chain. Such a journal "
    "differs from each head that is kept elsewhere: in an earlier report, in a notification, in a backup.",
    "The record beside the journal: names, approvals, the evidence of the lock, and the numbers of what was found and "
    "kept are as the database had them when the report was made. The chain covers the journal alone.",
    "The signing key: who holds it can sign any report. The signature proves who signed, and not that the content is "
    "true.",
    "The program: the operator installs the orchestrator and its plugins, and can install others.",
    "What is outside of the APIs: a report says nothing of backups, logs, replicas and the databases of services. See "
    "what the operator says about what remains.",
)
