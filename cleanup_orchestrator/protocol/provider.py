"""What a service writes to speak the project resources protocol: three functions, and what they may raise.

:func:`cleanup_orchestrator.protocol.wsgi.app` makes a WSGI application of a :class:`Provider`.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator

from cleanup_orchestrator.core.enums import StrEnum
from cleanup_orchestrator.protocol.checks import contradictions, is_full_name, is_service_type, is_type_name
from cleanup_orchestrator.protocol.documents import LONGEST_TEXT, Capabilities, Page, ProblemType, Resource


class Outcome(StrEnum):
    """What became of an accepted delete."""

    GONE = "gone"  #: the next list does not have the resource
    ACCEPTED = "accepted"  #: the list has the resource as ``deleting`` until it is gone


class Refusal(Exception):
    """A function of the provider refuses. Raise one of the subclasses.

    :param detail: what is wrong and what would clear it; a person reads it in the report
    """

    type: ProblemType

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class NotFound(Refusal):
    """The project owns no such resource. ``show`` may also return ``None``."""

    type = ProblemType.NOT_FOUND

    def __init__(self, detail: str = "The project owns no such resource.") -> None:
        super().__init__(detail)


class InUse(Refusal):
    """The delete is refused for now: something uses the resource."""

    type = ProblemType.IN_USE


class Protected(Refusal):
    """The delete is refused until a person changes something."""

    type = ProblemType.PROTECTED


class Unavailable(Refusal):
    """A backend did not answer: what the project owns is unknown."""

    type = ProblemType.UNAVAILABLE


class UnknownMarker(Refusal):
    """The marker is not one of a page of this list."""

    type = ProblemType.BAD_REQUEST

    def __init__(self, detail: str = "The marker is unknown: read the list from its beginning.") -> None:
        super().__init__(detail)


@dataclasses.dataclass(frozen=True)
class Caller:
    """Who makes the request, as Keystone says."""

    token: str = dataclasses.field(repr=False)
    user_id: str
    project_id: str  #: the scope of the token; empty: it is not scoped to a project
    roles: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Provider:
    """The functions of a service, which several threads may call at once.

    Each function gets the ID of the project first. It looks in the resources of this project only, which it selects by
    the service's own record of the owner. A function raises :class:`Unavailable` if it cannot ask every backend. Any
    other exception counts as a defect of the service.

    :raises ValueError: if the capabilities are malformed, or offer what the provider has no function for
    """

    capabilities: Capabilities
    #: ``list(project_id, type, limit, marker)``: at most ``limit`` rows after the marker; ``None`` is the beginning.
    #: It may raise :class:`UnknownMarker`.
    list: Callable[[str, str, int, str | None], Page]
    #: ``show(project_id, type, id)``: the resource of the project, or ``None``.
    show: Callable[[str, str, str], Resource | None]
    #: ``delete(project_id, type, id)``: delete a resource of the project. The application has shown it right before: it
    #: exists, and is neither protected nor under deletion. It may raise :class:`NotFound`, :class:`InUse` and
    #: :class:`Protected`.
    delete: Callable[[str, str, str], Outcome]
    #: ``delete_all(project_id, type)``, for types with ``delete_all``: delete each resource of the project that is
    #: neither protected nor kept. It may raise :class:`InUse` and :class:`Protected`.
    delete_all: Callable[[str, str], Outcome] | None = None
    #: ``delete_acting(project_id, type, id, caller)``, instead of ``delete`` for types with ``acts_on``. What users
    #: wrote may make the service do only what ``caller.token`` may do.
    delete_acting: Callable[[str, str, str, Caller], Outcome] | None = None
    #: ``drain(project_id)``: from now on refuse to create anything for the project, also after a restart.
    drain: Callable[[str], None] | None = None
    #: ``undrain(project_id)``: end the drain.
    undrain: Callable[[str], None] | None = None
    #: ``is_drained(project_id)``: whether the project is drained.
    is_drained: Callable[[str], bool] | None = None

    def __post_init__(self) -> None:
        types = self.capabilities.types
        wrong = itertools.chain(_malformed(self.capabilities), contradictions(self.capabilities))
        if problem := next(wrong, ""):
            raise ValueError(problem)
        self._need("delete_all", any(type_.delete_all for type_ in types))
        self._need("delete_acting", any(type_.acts_on and type_.delete for type_ in types))
        for name in ("drain", "undrain", "is_drained"):
            self._need(name, self.capabilities.drain)

    def _need(self, name: str, offered: bool) -> None:
        """Raise unless the provider has an optional function exactly if the capabilities offer it."""
        if offered and getattr(self, name) is None:
            raise ValueError(f"the capabilities offer what needs the function {name}")
        if not offered and getattr(self, name) is not None:
            raise ValueError(f"the capabilities do not offer what the function {name} does")


def _malformed(capabilities: Capabilities) -> Iterator[str]:
    """Yield which fields do not have the form that the schema of their document requires."""
    if not is_service_type(capabilities.service_type):
        yield f"{capabilities.service_type!r} is not a type of a service"
    for type_ in capabilities.types:
        if not is_type_name(type_.name):
            yield f"{type_.name!r} is not a name of a type"
        for field in ("description", "acts_on"):
            if not isinstance(text := getattr(type_, field), str) or len(text) > LONGEST_TEXT:
                yield f"{type_.name}: {field} has more than {LONGEST_TEXT} characters, or is no text"
        for field in ("after", "deleted_with"):
            if not isinstance(names := getattr(type_, field), tuple):
                yield f"{type_.name}: {field} is no tuple"
            elif wrong := [name for name in names if not is_full_name(name)]:
                yield f"{type_.name}: {field} has malformed names: {', '.join(wrong)}"
