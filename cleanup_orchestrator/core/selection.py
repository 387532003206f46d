"""Which resources a deletion in mode ``purge`` deletes. Pure."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable, Mapping
from typing import Any

from cleanup_orchestrator.core.step import Step, StepKind
from cleanup_orchestrator.core.times import utc


@dataclasses.dataclass(frozen=True, slots=True)
class Selection:
    """The criteria, fixed when the deletion is requested. An empty selection selects everything.

    A resource is selected if its type is, and if it meets each of the other criteria. A resource that does not show
    what a criterion is about does not meet it.
    """

    services: tuple[str, ...] = ()  #: official service types: each type of these is selected
    types: tuple[str, ...] = ()  #: ``service.type`` names that are selected as well; without both, every type is
    tags: tuple[str, ...] = ()  #: a resource must have all of these tags
    created_before: datetime.datetime | None = None  #: UTC; a resource must have been created earlier

    def __bool__(self) -> bool:
        """Whether the selection has a criterion."""
        return self.by_type or self.by_resource

    @property
    def by_type(self) -> bool:
        """Whether services or types are named."""
        return bool(self.services or self.types)

    @property
    def by_resource(self) -> bool:
        """Whether the selection depends on properties of each resource."""
        return bool(self.tags) or self.created_before is not None

    def has_type(self, service: str, type_: str) -> bool:
        """Whether a type is selected.

        :param type_: empty: a service of which no type is known. It counts as selected if one of its types is
        """
        if not self.by_type or service in self.services:
            return True
        return f"{service}.{type_}" in self.types if type_ else any(n.rpartition(".")[0] == service for n in self.types)

    def to_dict(self) -> dict[str, Any]:
        """Return the criteria for JSON, with the time as text; an absent one is empty."""
        before = self.created_before
        return {
            "services": list(self.services),
            "types": list(self.types),
            "tags": list(self.tags),
            "created_before": before.isoformat() if before else None,
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Selection:
        """Return the selection with the criteria that :meth:`to_dict` returned."""
        before = stored["created_before"]
        named = {name: tuple(stored[name]) for name in ("services", "types", "tags")}
        return cls(**named, created_before=datetime.datetime.fromisoformat(before) if before else None)

    def __str__(self) -> str:
        """Return the criteria in words; empty: there are none."""
        parts = [f"{name} {', '.join(v)}" for name in ("services", "types", "tags") if (v := getattr(self, name))]
        if self.created_before is not None:
            parts.append(f"created before {utc(self.created_before)}")
        return "; ".join(parts)


#: It selects everything.
EVERYTHING = Selection()


def unmatched(selection: Selection, steps: Iterable[Step]) -> tuple[str, ...]:
    """Return the services and types of a selection of which the catalog has nothing: they are probably misspelled."""
    listed = [s for s in steps if s.kind in (StepKind.SWEEP, StepKind.UNSUPPORTED)]
    services, names = {s.service for s in listed}, {s.name for s in listed if s.kind is StepKind.SWEEP}
    unlisted = {s.service for s in listed if s.kind is StepKind.UNSUPPORTED}
    lost = [name for name in selection.types if name not in names and name.rpartition(".")[0] not in unlisted]
    return (*(service for service in selection.services if service not in services), *lost)
