"""What plugins are handed and return: project, resource, verdict, templates."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.errors import BadAnswer
from cleanup_orchestrator.plugins.old_names import renamed

#: In ``ResourceType.owner``: the token is scoped into the project, and the service shows nothing else.
SCOPED = "(scoped)"

#: The nil UUID of RFC 9562: no service assigns it. A check that needs a write call addresses this id and no other.
NIL_UUID = "00000000-0000-0000-0000-000000000000"

#: In ``ResourceType.properties``: the properties are in the row itself, beside its attributes.
ROW = "(row)"

#: The greatest size of a resource, in bytes, that a report can have: a column of the database holds no more.
MAX_BYTES = 2**63 - 1

Row = Mapping[str, Any]


@renamed(outside="uses_own_token")
@dataclasses.dataclass(frozen=True, slots=True)
class ProjectDefinition:
    """Everything that a plugin knows about the project under deletion."""

    id: str
    name: str
    domain_id: str
    region: str  #: the region being swept; empty for services that are not regional (identity)
    member_ids: tuple[str, ...] = ()  #: users that had an effective role on the project at the first inventory
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)  #: values of ``Service.options``
    gone: bool = False  #: Keystone no longer knows the project: no token for it can be obtained
    #: The calls are made with the orchestrator's own token in place of the project's: see ``ResourceType.unreadable``.
    uses_own_token: bool = False

    def __post_init__(self) -> None:
        """Refuse an empty id: some services take it for "all projects"."""
        if not isinstance(self.id, str) or not self.id.strip():
            raise ValueError("a project definition needs a project id")

    @property
    def without_token(self) -> bool:
        """Whether no token of the project can be used; the one that is used instead may reach other projects."""
        return self.gone or self.uses_own_token


@dataclasses.dataclass(frozen=True, slots=True)
class Resource:
    """One listed resource."""

    id: str
    name: str
    owner: str | None  #: the owning project's id as the service shows it; ``None`` when it shows none
    data: Row = dataclasses.field(default_factory=dict)  #: the row as listed


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """Why a listed resource is not deleted."""

    reason: Reason
    message: str
    blocked_by: tuple[Mapping[str, str], ...] = ()  #: of each resource that blocks it, see ``verdicts.blocker``
    accepted: bool = False  #: whether the hook asked for the delete all the same, and the service accepted it
    #: What a person can do about it, as text; empty: what the type, or else the core, has for the reason.
    remedy: str = ""

    def __post_init__(self) -> None:
        """Convert the fields to the types that the report stores.

        A blocker without an owner has an empty one, whatever the hook that made it has put there. What is no blocker
        stays as it is: the sweep fails with it.
        """
        object.__setattr__(self, "reason", Reason(self.reason))
        object.__setattr__(self, "message", str(self.message))
        object.__setattr__(self, "remedy", str(self.remedy or ""))
        if isinstance(self.blocked_by, list | tuple):
            object.__setattr__(self, "blocked_by", tuple(_with_owner(each) for each in self.blocked_by))


def _with_owner(blocker: Any) -> Any:
    if not isinstance(blocker, Mapping):
        return blocker
    return {**blocker, "owner": str(blocker.get("owner") or "")}


class Refused(Exception):
    """Raised by a hook that refuses a delete, with the report's reason."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.message)
        self.verdict = verdict


def fill(value: Any, project: ProjectDefinition, resource: Resource | None = None) -> Any:
    """Fill project, id and row into strings, also inside dicts and lists.

    The templates are ``{project_id}``, ``{id}`` and ``{row[key]}``.
    """
    if isinstance(value, str):
        return value.format(
            project_id=project.id,
            id=resource.id if resource else "",
            row=resource.data if resource else {},
        )
    if isinstance(value, Mapping):
        return {k: fill(v, project, resource) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [fill(v, project, resource) for v in value]
    return value


def word(value: object) -> str:
    """Return a value as one word of a shell, for a command that a person copies: users choose some of them.

    :raises ValueError: the command would read the word as an option
    """
    if str(value).startswith("-"):
        raise ValueError(value)
    return shlex.quote(str(value))


def quoted(resource: Resource) -> Resource:
    """Return a resource whose values are safe in a path.

    Users choose some of the values. An unquoted slash would address another resource.
    """
    data = {key: quote(str(value), safe="") for key, value in resource.data.items()}
    return dataclasses.replace(resource, id=quote(resource.id, safe=""), data=data)


def to_row(value: Any) -> Row:
    """Return an SDK resource, or a mapping, as a plain dict.

    :raises BadAnswer: when it is neither
    """
    if hasattr(value, "to_dict"):
        row: Row = value.to_dict(computed=False, original_names=False)
        return row
    if isinstance(value, Mapping):
        return value
    raise BadAnswer(f"expected an object, got {type(value).__name__}")


def pick(row: Row, path: str) -> Any:
    """Return the value at a dotted path, ``None`` when any part is missing."""
    value: Any = row
    for part in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value


def in_bytes(value: Any, unit: int) -> int | None:
    """Return the size that a service shows, in bytes; ``None`` if it is negative, or too great for a report.

    :param unit: the bytes of one unit
    :raises Exception: it is no number
    """
    if isinstance(value, bool):
        raise BadAnswer(f"{value} is no size")
    number = value if isinstance(value, int) else float(value)
    size = int(number * unit)
    return size if number >= 0 and size <= MAX_BYTES else None
