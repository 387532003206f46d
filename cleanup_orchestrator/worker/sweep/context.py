"""The parameters that all parts of a sweep share."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from cleanup_orchestrator.core import storable
from cleanup_orchestrator.core.selection import EVERYTHING, Selection
from cleanup_orchestrator.plugins.base import ProjectDefinition, ResourceType
from cleanup_orchestrator.worker.sweep.exclusions import KeepMarks

if TYPE_CHECKING:
    from openstack.connection import Connection

#: Resources of one type and project that one listing holds in memory, by default; see ``[worker] most_listed``.
MAX_LISTED = 500_000


@dataclasses.dataclass(frozen=True, slots=True)
class RelatedType:
    """A type that is deleted with the swept type, or the other way round.

    Declared by ``part_of`` and ``deleted_with``.
    """

    name: str  #: for messages: ``subnet``, or ``compute.server`` of another service
    type: ResourceType
    project: ProjectDefinition  #: with the options of the related type's service
    whole: bool  #: whether deleting a resource of this type deletes the swept ones; otherwise the other way round
    attribute: str  #: the part's attribute that holds the whole's id; empty: undeclared, any part may be of any whole
    planned: Collection[str] | None = None  #: stored ids of this type in the deletion's plan; ``None``: no plan applies

    def __post_init__(self) -> None:
        """Make ``planned`` find resources by their listed ids, too."""
        if self.planned is not None:
            object.__setattr__(self, "planned", storable.Ids(self.planned))


@dataclasses.dataclass(frozen=True, slots=True)
class OtherType:
    """A type of which resources are deleted with those of the swept type; see ``ResourceType.contains``."""

    name: str  #: with its service
    type: ResourceType
    connection: Connection  #: makes no write call
    project: ProjectDefinition  #: with the options of the other type's service


#: Returns a type by its full name; ``None``: no plugin declares it.
FindsType = Callable[[str], OtherType | None]


@dataclasses.dataclass(frozen=True, slots=True)
class SweepContext:
    """One resource type of one project in one region, and the rules of its sweep."""

    type: ResourceType
    connection: Connection
    project: ProjectDefinition
    keep_marks: KeepMarks = dataclasses.field(default_factory=KeepMarks)
    related: Sequence[RelatedType] = ()  #: types whose keep marks and plan entries count for this type, too
    planned: Collection[str] | None = (
        None  #: stored ids in the deletion's plan; ``None``: no plan applies, all are planned
    )
    most_listed: int = MAX_LISTED  #: resources after which a listing ends; its result then counts as incomplete
    name: str = ""  #: the type's name with its service
    selection: Selection = EVERYTHING  #: of a deletion that keeps its project
    ignored_uses: frozenset[str] = frozenset()  #: of ``[protection] ignored_uses``
    #: What an admin has decided for this deletion: by ``service.type:stored id``, the (type, id) of each user that does
    #: not prevent the delete.
    decided_uses: Mapping[str, frozenset[tuple[str, str]]] = dataclasses.field(default_factory=dict)
    find_type: FindsType = lambda _name: None  #: for ``ResourceType.contains``
    #: Stored ids of what this deletion listed as selected while the project was locked. Only the deletion itself
    #: changed these since then: the time of their last change does not count. Empty: it counts for all.
    selected_before: Collection[str] = ()

    def __post_init__(self) -> None:
        """Make ``planned`` and ``selected_before`` find resources by their listed ids, too."""
        if self.planned is not None:
            object.__setattr__(self, "planned", storable.Ids(self.planned))
        if self.selected_before:
            object.__setattr__(self, "selected_before", storable.Ids(self.selected_before))

    @property
    def full_name(self) -> tuple[str, str]:
        """The service and the name of the type."""
        return self.name.rpartition(".")[0], self.type.name

    @property
    def type_selected(self) -> bool:
        """Whether the selection has the type."""
        return self.selection.has_type(*self.full_name)
