"""Which resources a deletion in mode ``purge`` deletes. Pure."""

from __future__ import annotations

import dataclasses
import datetime
import fnmatch
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

from cleanup_orchestrator.core.step import Step, StepKind
from cleanup_orchestrator.core.times import utc

#: The criteria that are lists, with what :meth:`Selection.__str__` calls each.
LISTS: Mapping[str, str] = {
    "services": "services",
    "types": "types",
    "skip": "without",
    "tags": "tags",
    "not_tags": "not with tags",
    "names": "named",
    "not_names": "not named",
}
#: The criteria that are times, with what :meth:`Selection.__str__` calls each.
TIMES: Mapping[str, str] = {"created_before": "created before", "updated_before": "last changed before"}
#: Pairs of criteria of which one selects and the other excludes.
_OPPOSITES = (("tags", "not_tags"), ("names", "not_names"))


@dataclasses.dataclass(frozen=True, slots=True)
class Selection:
    """The criteria, fixed when the deletion is requested. An empty selection selects everything.

    A resource is selected if its type is, and if it meets each of the other criteria. A resource that does not show
    what a criterion is about does not meet it. Names are compared as a whole with shell patterns, in case, too.
    """

    services: tuple[str, ...] = ()  #: official service types: each type of these is selected
    types: tuple[str, ...] = ()  #: ``service.type`` names that are selected as well; without both, every type is
    skip: tuple[str, ...] = ()  #: services and ``service.type`` names that are never selected, whatever the two say
    tags: tuple[str, ...] = ()  #: a resource must have all of these tags
    not_tags: tuple[str, ...] = ()  #: a resource must have none of these tags
    names: tuple[str, ...] = ()  #: patterns: the name of a resource must match one of these
    not_names: tuple[str, ...] = ()  #: patterns: the name of a resource must match none of these, nor be equal to one
    created_before: datetime.datetime | None = None  #: UTC; a resource must have been created earlier
    updated_before: datetime.datetime | None = None  #: UTC; the last change of a resource must have been earlier

    def __bool__(self) -> bool:
        """Whether the selection has a criterion."""
        return self.by_type or self.by_resource or bool(self.skip)

    @property
    def by_type(self) -> bool:
        """Whether services or types are named."""
        return bool(self.services or self.types)

    @property
    def by_resource(self) -> bool:
        """Whether the selection depends on properties of each resource."""
        return any(map(bool, (self.tags, self.not_tags, self.names, self.not_names))) or self.by_time

    @property
    def by_time(self) -> bool:
        """Whether the selection depends on times of each resource."""
        return self.created_before is not None or self.updated_before is not None

    @property
    def excludes(self) -> bool:
        """Whether a criterion names what must stay. So what contains that stays, too."""
        return bool(self.skip or self.not_tags or self.not_names)

    def skips(self, service: str, type_: str) -> bool:
        """Whether a type is skipped.

        :param type_: empty: one type of the service, it is not known which. It counts as skipped if one of these is
        """
        if service in self.skip:
            return True
        return f"{service}.{type_}" in self.skip if type_ else any(_service(name) == service for name in self.skip)

    def has_type(self, service: str, type_: str) -> bool:
        """Whether a type is selected.

        :param type_: empty: a service of which no type is known. It counts as selected if one of its types is
        """
        if service in self.skip or (type_ and f"{service}.{type_}" in self.skip):
            return False
        if not self.by_type or service in self.services:
            return True
        return f"{service}.{type_}" in self.types if type_ else any(_service(name) == service for name in self.types)

    def lacks_name(self, name: str) -> bool:
        """Whether a name, maybe empty, matches none of ``names``."""
        return bool(self.names) and not any(_matches(name, pattern) for pattern in self.names if name)

    def excluded_name(self, name: str) -> str | None:
        """Return the first of ``not_names`` that a name matches or is equal to; ``None``: it is not excluded."""
        same = (pattern for pattern in self.not_names if _matches(name, pattern) or _normal(name) == _normal(pattern))
        return next(same, None)

    @classmethod
    def of(cls, lists: Mapping[str, tuple[str, ...]], times: Mapping[str, datetime.datetime]) -> Selection:
        """Return the selection with the criteria of ``LISTS`` and of ``TIMES`` by name; any may be absent."""
        given: dict[str, Any] = {**lists, **times}
        return cls(**given)

    def to_dict(self) -> dict[str, Any]:
        """Return the criteria for JSON, with the times as text; an absent one is empty."""
        times = {name: getattr(self, name) for name in TIMES}
        lists: dict[str, Any] = {name: list(getattr(self, name)) for name in LISTS}
        return lists | {name: value.isoformat() if value else None for name, value in times.items()}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Selection:
        """Return the selection with the criteria that :meth:`to_dict` returned, of this release or an earlier one."""
        lists = {name: tuple(stored.get(name) or ()) for name in LISTS}
        times = {name: datetime.datetime.fromisoformat(value) for name in TIMES if (value := stored.get(name))}
        return cls.of(lists, times)

    def __str__(self) -> str:
        """Return the criteria in words; empty: there are none."""
        parts = [f"{words} {', '.join(v)}" for name, words in LISTS.items() if (v := getattr(self, name))]
        parts += [f"{words} {utc(v)}" for name, words in TIMES.items() if (v := getattr(self, name)) is not None]
        return "; ".join(parts)


#: It selects everything.
EVERYTHING = Selection()


def _service(name: str) -> str:
    """Return the service of a ``service.type`` name; empty for the name of a service."""
    return name.rpartition(".")[0]


def _normal(text: str) -> str:
    """Return a text in the form in which equal characters are equal: an accent can be a character of its own."""
    return unicodedata.normalize("NFC", text)


def _matches(name: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(_normal(name), _normal(pattern))


def contradiction(selection: Selection) -> tuple[str, str]:
    """Return a criterion that leaves nothing of another one, and what of it; two empty texts: there is none.

    A selection with a contradiction selects nothing, and the project would look as if it were purged.
    """
    named = [(name, name, "") for name in selection.services]
    named += [(name, *name.rpartition(".")[::2]) for name in selection.types]
    if named and all(
        selection.skips(service, type_) if type_ else service in selection.skip for _, service, type_ in named
    ):
        return "skip", ", ".join(name for name, _service, _type in named)
    for wanted, unwanted in _OPPOSITES:
        both = sorted(set(getattr(selection, wanted)) & set(getattr(selection, unwanted)))
        if both and (wanted == "tags" or len(both) == len(selection.names)):
            return unwanted, ", ".join(both)
    return "", ""


def unmatched(selection: Selection, steps: Iterable[Step]) -> tuple[str, ...]:
    """Return the names of a selection of which the catalog has nothing: they are probably misspelled.

    A name of ``skip`` counts, too: a typo there would delete what the user wants to keep.
    """
    listed = [s for s in steps if s.kind in (StepKind.SWEEP, StepKind.UNSUPPORTED)]
    services, names = {s.service for s in listed}, {s.name for s in listed if s.kind is StepKind.SWEEP}
    unlisted = {s.service for s in listed if s.kind is StepKind.UNSUPPORTED}
    skipped = [name for name in selection.skip if _service(name)]
    lost = [n for n in (*selection.types, *skipped) if n not in names and _service(n) not in unlisted]
    named = (*selection.services, *(name for name in selection.skip if not _service(name)))
    return (*dict.fromkeys(service for service in named if service not in services), *dict.fromkeys(lost))
