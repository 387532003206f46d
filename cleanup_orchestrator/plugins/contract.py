"""Resource types and services as frozen data: what a plugin declares."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Token
from cleanup_orchestrator.errors import BadAnswer
from cleanup_orchestrator.plugins.calls import Rest, Sdk
from cleanup_orchestrator.plugins.old_names import renamed
from cleanup_orchestrator.plugins.values import (
    SCOPED,
    ProjectDefinition,
    Resource,
    Row,
    Verdict,
    fill,
    in_bytes,
    pick,
    word,
)

if TYPE_CHECKING:
    from openstack.connection import Connection
    from oslo_config import cfg

#: The version of the plugin contract that this release implements.
CONTRACT_VERSION = 2

#: The versions that the registry accepts. A deprecated version has the first release that refuses it, any other version
#: an empty string. The manual of plugins has the deprecation policy.
SUPPORTED_VERSIONS: Mapping[int, str] = {1: "0.4.0", CONTRACT_VERSION: ""}

#: The bytes of a gibibyte, for :attr:`ResourceType.size`.
GIB = 2**30

#: How a type is listed: a declared call, or a named hook that yields rows.
Listing = Sdk | Rest | Callable[["Connection", ProjectDefinition], Iterable[Row]]
#: What is done to one resource: a declared call, or a named hook. A hook raises :class:`Refused` to explain a refusal.
Action = Sdk | Rest | Callable[["Connection", ProjectDefinition, Resource], Any]
#: A named rule over a listed resource. It returns a sentence, or ``None`` when it does not apply.
Rule = Callable[[Resource, ProjectDefinition], "str | None"]
#: A rule that makes calls, for what the row alone does not show.
Explain = Callable[["Connection", ProjectDefinition, Resource], "Verdict | None"]
#: Takes the type's connection, the connection that the delete was made with, project, resource, and the error that the
#: delete raised. True: the delete is made once more.
Unblock = Callable[["Connection", "Connection", ProjectDefinition, Resource, Exception], bool]
#: Returns the id of a leftover that needs a resource, or ``None``.
Needs = Callable[[Resource], "str | None"]
#: Returns the ids, or the titles, of the resources of the same type that a listed resource needs.
RefersTo = Callable[[Resource], Iterable[str]]
#: Takes resources of one type. Returns, by id, a verdict on each that others use. It only reads; an error makes the use
#: of all of them unknown.
FindsUses = Callable[["Connection", ProjectDefinition, Sequence[Resource]], Mapping[str, Verdict]]
#: Yields what the service deletes with a resource, of other types: the full name of the type, and the id. The name may
#: be that of the service with a dot (``dns.``) if the type is not known, and empty if the service is not known either.
Contains = Callable[["Connection", ProjectDefinition, Resource], Iterable[tuple[str, str]]]
#: Takes the ids of another type's leftovers. It only reads; an error makes the whole sweep unknown.
NeededBy = Callable[["Connection", ProjectDefinition, Collection[str]], Needs]


class Run(StrEnum):
    """Whether a resource runs."""

    ON = "on"  #: it runs, and no operation on it is in progress
    OFF = "off"  #: it does not run, as after :attr:`Halt.stop`, and no operation on it is in progress
    BUSY = "busy"  #: an operation on it is in progress and will end; its result is not known yet
    OTHER = "other"  #: none of these; the resource is left as it is


@dataclasses.dataclass(frozen=True)
class Halt:
    """How a resource is stopped for the recovery window, and started again.

    A type with ``halt`` needs a ``show``: the resource is read again right before each of the two actions.
    """

    state: Callable[[Row], Run]  #: reads a row as listed or shown
    stop: Action  #: of a resource that is ``ON``. Once it is accepted, the state is ``BUSY`` until it is ``OFF``
    start: Action  #: of a resource that is ``OFF``


#: :attr:`Use.harm` where the service refuses the delete of what others use.
REFUSED = "is refused by the service"


@dataclasses.dataclass(frozen=True)
class Use:
    """How resources of other projects may depend on a resource of a type, so that its delete harms them.

    The delete of a resource of which a use is found is refused. ``[protection] ignored_uses`` changes this for all
    deletions, and an admin's decision about the named users of one resource changes it for one deletion.
    """

    by: tuple[str, ...]  #: what depends on it, by full name: ``network.port_forwarding``
    harm: str  #: what its delete would do to these, to end the sentence "The delete ...": ``ends their connections``
    #: A sweep calls it right before it deletes resources, before it prepares anything. ``None``: the service itself
    #: refuses the delete, to an admin as well; or see ``unseen``.
    find: FindsUses | None = None
    #: A sweep calls it in place of ``find`` in the inventory of a dry run, and in every inventory if the type is in
    #: ``[protection] lien_types``. So a plan says what a cascade would refuse. It makes few calls, and leaves out what
    #: a cascade deletes before. ``None``: the same as ``find``.
    foresee: FindsUses | None = None
    #: Whether a plan looks for it. False: that takes a call for each resource, and a project may have thousands.
    planned: bool = True
    #: The call by which a use ends, to be copied: a template as in ``plugins.endings``, which has those of known users.
    ends: str = ""
    option: str = ""  #: the option of the service under which the resource is deleted all the same
    #: Why it is not looked for, as a sentence without a full stop. The resource is deleted although others may use it.
    unseen: str = ""


@dataclasses.dataclass(frozen=True)
class LastChange:
    """Where a service shows when a resource, or a part of one, was changed last.

    The time is that of the service, whatever it counts as a change: Nova does not count a change of metadata. It may
    change at other times than when a user changes something, too.
    """

    attribute: str  #: of the row, as listed and as shown; the time is as in :attr:`ResourceType.created`
    #: Whether the service shows ``null`` until the first change. Then the time of creation counts. False: it never
    #: shows ``null``, or it is not certain what that means. Then the time is unknown.
    null_until_changed: bool = False


@dataclasses.dataclass(frozen=True)
class Parts:
    """What a service deletes together with a resource, and what is no type of its own: the rules of a security group.

    A deletion that selects by age must not delete a part that is too young. If neither ``created`` nor ``changed`` says
    how old a part is, its age is unknown, and the whole stays. So it does in a deletion that selects by the last change
    if neither ``updated`` nor ``changed`` says when a part was changed last.
    """

    name: str  #: of one part, for messages: ``rule``
    #: The attribute of the whole's row, as listed and as shown, with the list of its parts. Or a hook that yields the
    #: rows of the parts of one resource, of any owner. It only reads, and is called only for a resource that is old
    #: enough.
    list: str | Callable[[Connection, ProjectDefinition, Resource], Iterable[Row]]
    created: str = ""  #: the attribute of a part with the time of its creation, as in :attr:`ResourceType.created`
    updated: LastChange | None = None  #: where a part shows when it was changed last
    #: The attribute of the whole's row with the time of its last change, where each new part changes it. It counts for
    #: a part that does not show its own time.
    changed: str = ""
    #: The full name of the type that the parts are of, where they are resources that users may skip or name
    #: (``network.port``), and the type is not related by a :class:`Composition`.
    type: str = ""

    def of(self, connection: Connection, project: ProjectDefinition, whole: Resource) -> Iterable[Any]:
        """Return the parts of a resource: rows, or whatever its row lists.

        :raises BadAnswer: when the row does not have the list
        """
        if callable(self.list):
            return self.list(connection, project, whole)
        parts = pick(whole.data, self.list)
        if not isinstance(parts, list | tuple):
            raise BadAnswer(f"{whole.id} was listed without {self.list!r}")
        return parts


@dataclasses.dataclass(frozen=True)
class ForcedDelete:
    """What is done to a resource in a deletion under force, and only if ``prepare`` and ``delete`` left it."""

    #: It resets the state of the resource, forces its delete, or abandons it. It is called instead of ``prepare`` and
    #: ``delete``, and refuses what they refuse for the sake of others.
    act: Action
    #: A worker calls it before force is accepted. It raises :class:`Refused` where force is switched off or forbidden.
    #: It changes nothing: it makes a write call only on :data:`NIL_UUID`.
    allowed: Callable[[Connection, ProjectDefinition], None] | None = None
    #: ``act`` deletes nothing of what the resource contains: what prevents the delete of that does not prevent ``act``.
    keeps_contents: bool = False


@dataclasses.dataclass(frozen=True)
class Composition:
    """What is deleted with what."""

    deleted_with: tuple[str, ...] = ()  #: types whose delete removes this one as well. It is listed, never deleted
    part_of: tuple[tuple[str, str], ...] = ()  #: (type, this row's attribute with that one's id): it is deleted with it
    #: Resources of other types that its service deletes with it, without any check of this program: those of a stack.
    #: What protects one of these, and what other projects use of it, keeps the whole. So does one that a selection
    #: skips or excludes. It only reads.
    contains: Contains | None = None


@dataclasses.dataclass(frozen=True)
class Fallback:
    """With which token the calls are made where a token of the project cannot be used."""

    #: Once the project is gone, the calls are made with this token, and ``ProjectDefinition.gone`` tells the hooks.
    #: ``None``: the same token as before. Only where the service shows with that token, too, what is the project's.
    if_gone: Token | None = None
    #: A sweep calls it if a name in the project's token is not Latin-1: that of the project, its domain or the user.
    #: It returns whether the service fails to read such a token. Then the calls are made with the orchestrator's own
    #: token, and ``ProjectDefinition.uses_own_token`` tells the hooks. That token reaches other projects as well: so
    #: only for types whose every call names the project by its id, and whose deletes make the service act on nothing
    #: that users wrote.
    unreadable: Callable[[Connection, ProjectDefinition], bool] | None = None


@renamed(
    {"force": ForcedDelete, "composition": Composition, "fallback": Fallback},
    acts_on="user_content",
    acts_on_if="has_user_content",
    fresh="why_no_show",
    force="force.act",
    may_force="force.allowed",
    force_keeps_contents="force.keeps_contents",
    deleted_with="composition.deleted_with",
    part_of="composition.part_of",
    contains="composition.contains",
    token_if_gone="fallback.if_gone",  # noqa: S106
    unreadable="fallback.unreadable",
)
@dataclasses.dataclass(frozen=True)
class ResourceType:
    """One type of resource that a project owns in one service."""

    name: str  #: singular, as in the SDK: ``security_group``
    list: Listing  #: every resource that the project owns, over all pages. It may yield more: the owner is compared
    delete: Action | None  #: by immutable id; ``None``: no API deletes it (it is then kept or a leftover)
    owner: str = "project_id"  #: the row's attribute (dotted path) with the owning project's id, or :data:`SCOPED`
    id: str = "id"  #: the row's attribute with the immutable id
    title: str = "name"  #: the row's attribute by which a person knows the resource
    show: Action | None = None  #: reads it again, for the owner check right before the delete; see ``why_no_show``
    why_no_show: str = ""  #: without ``show``: why the listing, or the scope, proves the owner
    after: tuple[str, ...] = ()  #: types confirmed gone first: ``port``, ``compute.server``, or :data:`EVERYTHING`
    #: Types in ``after`` whose leftovers need only some of these resources, each with the rule that names these. While
    #: such a leftover cannot be deleted, the other resources of this type are. Without a rule, none is.
    needed_by: tuple[tuple[str, NeededBy], ...] = ()
    #: Types that reach others through these resources, although the service does not refuse the delete: each with the
    #: rule that names the resources which its leftovers use. Only in a deletion that keeps its project (mode ``purge``)
    #: they count as in ``after`` and ``needed_by``. Any other deletion deletes these resources at once.
    serves: tuple[tuple[str, NeededBy], ...] = ()
    #: It returns which resources of this type a listed one needs, and makes no call. The listed one is deleted before
    #: these. If the service works on its delete (``deleting``), these wait until it is gone.
    refers_to: RefersTo | None = None
    #: The type of the same service that users mean, too, when they name that one: ``stack`` for stacks whose delete
    #: failed. If a deletion skips that type, it skips this one, too.
    variant_of: str = ""
    composition: Composition = dataclasses.field(default_factory=lambda: Composition())  #: what is deleted with what
    #: A sentence when the resource is not the user's, or is deleted with its parent: neither deleted nor a leftover.
    keep: tuple[Rule, ...] = ()
    protect: tuple[Rule, ...] = ()  #: a sentence when it must not be deleted: always a leftover
    #: A sentence when its service works on its delete, by the row as listed: no call is made for it, and a sweep with
    #: nothing else to do does not list again. ``None`` once the delete counts as stuck, so that it is requested again.
    deleting: Rule | None = None
    #: A sentence, with the service's fault if its row has one, when a delete of it was tried and failed, by the row as
    #: listed: ``error_deleting``, ``DELETE_FAILED``. The delete is requested again; after the second failure the
    #: resource is an error, and no longer counts as being deleted.
    failed: Rule | None = None
    #: The row's attribute with the time of its last change, as in ``created``: since when it is being deleted. Empty:
    #: the service shows none, and the age counts from the first list of this deletion that showed it in ``deleting``.
    changed: str = ""
    #: Seconds for which it may be in ``deleting`` before it counts as stuck; ``None``: ``[worker] deleting_patience``.
    patience: float | None = None
    prepare: tuple[Action, ...] = ()  #: idempotent actions before the delete: clear routes, detach, unprotect
    explain: Explain | None = None  #: called after a refused delete: which resources block it
    #: How other projects may depend on it, as far as the row does not show it. An empty tuple says that no other
    #: project can. ``None``: not declared.
    used_by: tuple[Use, ...] | None = None
    force: ForcedDelete | None = None  #: what is done under force to one that ``prepare`` and ``delete`` left
    #: How it is stopped while its project can still be restored, where the operator enables that.
    halt: Halt | None = None
    #: What a person can do about a leftover, by its reason: templates for :func:`fill` with the resource. Each names a
    #: call that can be copied, who may make it, and what happens then. For any other reason the core has a remedy.
    remedies: Mapping[Reason, str] = dataclasses.field(default_factory=dict)
    by_hand: str = ""  #: how a person removes an abandoned one; a template for :func:`fill` with the id alone
    if_abandoned: str = ""  #: what an abandoned one still uses and does, as sentences for the admin who forces
    describe: Rule | None = None  #: what the report says about it besides its name: how much a container holds
    #: The row's attribute with its tags, a list of strings (maybe empty), where the service has tags. ``show`` returns
    #: it as well: a resource that is selected by a tag is deleted only if that row still has the tag.
    tags: str = ""
    #: The row's attribute with the time of its creation, where its service has one: text in ISO 8601, in UTC unless it
    #: says otherwise, or seconds since 1970. A resource that does not show it is never selected by its age.
    created: str = ""
    #: Where it shows when it was changed last. ``None``: it is never selected by the time of its last change.
    updated: LastChange | None = None
    #: What is deleted with it and is no type of its own; what is a type has a ``composition``. An empty
    #: tuple says that there is nothing. ``None``: not declared, so that a resource is never selected by its age.
    parts: tuple[Parts, ...] | None = None
    #: The attribute of the row as listed that has its size, and the bytes of one unit of it. It is for people alone:
    #: nothing is decided by it.
    size: tuple[str, int] | None = None
    objects: str = ""  #: of a container: the attribute of the row as listed that has the number of its objects
    properties: str = ""  #: the row's attribute with the keys and values that its owner set, or :data:`ROW`
    token: Token = Token.ADMIN  #: the token that the calls are made with
    fallback: Fallback = dataclasses.field(default_factory=lambda: Fallback())  #: where ``token`` cannot be used
    #: What users of the project wrote that the service acts on, with the token of the request, when one is deleted: a
    #: template, a workflow, a hook. ``delete`` and ``force`` are then called with the janitor's token, which can do
    #: what a member of the project can. Once the project is gone, there is no such token. They are called with the
    #: type's token, see ``ProjectDefinition.gone``, and must not let the service act on it.
    user_content: str = ""
    #: The resources that ``user_content`` holds for, by the row that ``show`` returns; ``None``: all of them.
    has_user_content: Callable[[Resource], bool] | None = None
    #: A sweep calls it after a refused delete: it removes what caused the refusal, as far as that is the project's.
    unblock: Unblock | None = None
    project_setting: bool = False  #: quota rows and the like: no leftover, removed right before the project
    #: Of project settings only: a user owns the resource and it merely names the project, so that any user can make
    #: one, with no role on the project. A report names each, with ``describe``. It never is a leftover, does not make
    #: an inventory non-empty, and no type waits for it. Only for what is worth nothing without the project.
    informational: bool = False
    #: Returns why a list that succeeds may miss resources of the project, and how a person checks; empty: it misses
    #: none. It only reads. The step and the journal say it, and nothing else follows from it: the resources that it is
    #: about must give no access once the project is gone. An orphan scan does not list the type then.
    may_miss: Callable[[Connection, ProjectDefinition], str] | None = None
    #: False: the service says that it lacks the type. Any answer but True and False is an error. A type with
    #: ``Token.MEMBER`` is asked with the orchestrator's own token, too.
    available: Callable[[Connection, ProjectDefinition], bool] | None = None
    proof: Rest | None = None  #: called before a list is believed; see :attr:`Service.proof`
    unfiltered: str = ""  #: why the list call carries no owner filter, where it does not
    all_projects: Listing | str = ""  #: how the resources of all projects are listed; see :meth:`all_projects_view`
    note: str = ""  #: for the documentation: a trap that this declaration avoids
    source: str = ""  #: which service call, and where its behaviour was read

    def all_projects_view(self) -> ResourceType | None:
        """Return the type with the list of all projects in place of its own.

        ``all_projects`` is listed page by page with an admin's token, whatever ``token`` says, and each row shows its
        owner. The project that the call is given does not exist.

        :returns: ``None`` when there is no such list; ``all_projects`` then is a sentence that says why
        """
        if isinstance(self.all_projects, str):
            return None
        return dataclasses.replace(self, list=self.all_projects, token=Token.ADMIN)

    def for_missing_project(self, gone: bool) -> ResourceType:
        """Return the type with the token that its calls are made with.

        :param gone: whether Keystone no longer knows the project; then ``fallback.if_gone`` applies
        """
        if not gone or self.fallback.if_gone is None:
            return self
        return dataclasses.replace(self, token=self.fallback.if_gone)

    @property
    def keeps_contents_under_force(self) -> bool:
        """Whether force deletes nothing of what a resource contains."""
        return self.force is not None and self.force.keeps_contents

    def acts_on_user_content(self, resource: Resource) -> bool:
        """Return whether the delete of a resource acts on what users wrote, by the row that ``show`` returns."""
        return bool(self.user_content) and (self.has_user_content is None or self.has_user_content(resource))

    def resource(self, row: Row, project: ProjectDefinition) -> Resource:
        """Read id, name and owner out of a listed row. A blank owner is none.

        :raises BadAnswer: when the row has no id, or an owner that is no text: it must not pass for another project's
        """
        identity = pick(row, self.id)
        if not identity:
            raise BadAnswer(f"a {self.name} was listed without {self.id!r}")
        owner = project.id if self.owner == SCOPED else pick(row, self.owner)
        if owner is not None and not isinstance(owner, str):
            raise BadAnswer(f"the {self.owner} of {self.name} {str(identity)[:64]!r} is no text: {str(owner)[:64]!r}")
        owner = owner if owner and not owner.isspace() else None
        return Resource(str(identity), str(pick(row, self.title) or ""), owner, row)

    def size_of(self, row: Row) -> int | None:
        """Return the size of a listed resource in bytes; ``None`` if its row shows none that can be read.

        It never raises: neither a row nor a wrong declaration of a size may make the list of a type unknown.
        """
        if self.size is None:
            return None
        try:
            path, unit = self.size
            return in_bytes(pick(row, path), int(unit))
        except Exception:
            return None

    def objects_of(self, row: Row) -> int | None:
        """Return the number of objects in a listed container; ``None`` if its row shows none. It never raises."""
        try:
            return in_bytes(pick(row, self.objects), 1) if self.objects else None
        except Exception:
            return None

    def remedy_for(self, reason: str, project: ProjectDefinition, resource: Resource | None = None) -> str:
        """Return what the type says that a person can do about a reason; empty: nothing.

        A template that the row cannot fill says nothing: a remedy must not make the list of a type unknown.

        :param resource: of the leftover; ``None``: the list failed, and only a template without a resource applies
        """
        template = next((text for known, text in self.remedies.items() if known == reason), "")
        if not template or (resource is None and ("{id}" in template or "{row" in template)):
            return ""
        try:
            named = resource and dataclasses.replace(resource, id=word(resource.id))
            return str(fill(template, project, named))
        except (LookupError, ValueError, AttributeError, TypeError):
            return ""

    def remedy(self, identity: str, project: ProjectDefinition) -> str:
        """Return how a person removes a resource that was abandoned."""
        if self.by_hand:
            return str(fill(self.by_hand, project, Resource(identity, "", None)))
        one, call = Resource(identity, "", None), self.delete
        if isinstance(call, Rest) and "{row" not in call.path:
            return f"as an admin: {dataclasses.replace(call, path=fill(call.path, project, one))!r}"
        if isinstance(call, Sdk) and "{row" not in repr(call):
            filled = Sdk(call.proxy, call.method, *fill(call.args, project, one), **fill(call.kwargs, project, one))
            return f"as an admin, with openstacksdk: {filled!r}"
        return f"as an admin, with the calls of: {self.source}"


@dataclasses.dataclass(frozen=True)
class Service:
    """A plugin: one service and every type that a project may own there."""

    service_type: str  #: official, as in os-service-types: ``key-manager``
    types: tuple[ResourceType, ...]
    regional: bool = True  #: swept in every region of the catalog; identity is swept once
    after: tuple[str, ...] = ()  #: other services' types that each type here (project settings aside) waits for
    options: tuple[cfg.Opt, ...] = ()  #: registered in the group ``[service_<type with underscores>]``
    roles: str = ""  #: for the documentation: which roles the orchestrator needs there
    #: A call that the service answers to admins only. It is made before a list of any type counts, because the service
    #: answers such a list to all callers, and shows only the caller's project to one without the role admin. It is not
    #: made with a token of the project, to which the list shows the project's resources. ``None``: no list needs it, or
    #: each type that needs it has its own.
    proof: Rest | None = None
    #: The version of the contract that the plugin was written for. The registry refuses a version that this release
    #: does not support. The default is the first version, whatever :data:`CONTRACT_VERSION` is.
    contract_version: int = 1

    def __post_init__(self) -> None:
        """Set ``proof`` on each type that has none."""
        if self.proof is not None:
            types = (dataclasses.replace(t, proof=self.proof) if t.proof is None else t for t in self.types)
            object.__setattr__(self, "types", tuple(types))
