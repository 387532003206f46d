"""The rules of ``plugin check`` that call a plugin on a cloud. They make no write call, see ``plugin_cloud``."""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import uuid
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

from openstack.connection import Connection

from cleanup_orchestrator.cmd.plugin_cloud import Tokens
from cleanup_orchestrator.core.conformance import Finding, Verdict
from cleanup_orchestrator.core.redact import redact
from cleanup_orchestrator.core.step import Token
from cleanup_orchestrator.errors import NoProjectToken, WriteRefused, classify
from cleanup_orchestrator.plugins import admin
from cleanup_orchestrator.plugins.base import (
    SCOPED,
    Paging,
    ProjectDefinition,
    Resource,
    ResourceType,
    Rest,
    Sdk,
    Service,
    pick,
)
from cleanup_orchestrator.worker.sweep.calls import act, is_available, list_resources, show
from cleanup_orchestrator.worker.sweep.selecting import moment

#: Rows after which a list is not read further.
MAX_ROWS = 100_000
#: Resources that are read again.
MAX_SHOWN = 5
#: Pages of a list that is read in small pages.
MAX_PAGES = 20
#: No resource is older: then OpenStack was founded.
EARLIEST = datetime.datetime(2010, 7, 1)
#: By how much the clock of a service may be fast.
CLOCKS = datetime.timedelta(minutes=15)

#: The ids of the rules, in their order.
RULES = ("list", "owner", "created", "size", "pages", "show", "dry-delete", "empty", "proof")


@dataclasses.dataclass(slots=True)
class _Asked:
    """What became of one question to the plugin."""

    value: Any = None
    error: Exception | None = None
    refused: tuple[str, ...] = ()  #: what the guard refused

    @property
    def why(self) -> str:
        """The text of the error."""
        return redact(classify(self.error).message) if self.error else ""


@dataclasses.dataclass(slots=True)
class _Listed:
    """The rows of one list."""

    own: dict[str, Resource] = dataclasses.field(default_factory=dict)
    others: set[str] = dataclasses.field(default_factory=set)
    ownerless: list[str] = dataclasses.field(default_factory=list)
    cut: bool = False  #: whether there are more rows

    @property
    def ids(self) -> set[str]:
        return {*self.own, *self.others, *self.ownerless}


#: What a rule says: the verdict, and a sentence.
_Said = tuple[Verdict, str]


def check(tokens: Tokens, service: Service) -> Iterator[Finding]:
    """Yield what each rule says about each type of a service on a cloud."""
    for type_ in service.types:
        subject = f"{service.service_type}.{type_.name}"
        for rule, (verdict, text) in _TypeCheck(tokens, type_).rules():
            yield Finding(rule, verdict, text, subject)


class _TypeCheck:
    """The rules of one type."""

    def __init__(self, tokens: Tokens, type_: ResourceType) -> None:
        self.tokens, self.type, self.project = tokens, type_, tokens.project
        self.connection: Any = tokens.admin if type_.token is Token.ADMIN else tokens.own

    def rules(self) -> Iterator[tuple[str, _Said]]:
        """Yield the id of each rule and what it says."""
        if isinstance(self.connection, NoProjectToken):
            yield from self._none(RULES, f"the type needs a token of the project; {self.connection}")
            return
        asked = self._ask(lambda: is_available(self.type, self.connection, self.project))
        if asked.value is False and not asked.refused:
            yield from self._none(RULES, "the plugin says that the service lacks this type ('available')")
            return
        listing = self._ask(lambda: self._read(self.type, self.connection, self.project))
        bad = next((each for each in (asked, listing) if each.refused or each.error), None)
        if bad is not None:
            yield "list", (Verdict.FAILED, self._not_listed(bad))
            yield from self._none(RULES[1:], "the list failed")
            return
        listed: _Listed = listing.value
        yield "list", (Verdict.OK, self._numbers(listed))
        yield "owner", self._owner(listed)
        yield "created", self._created(listed)
        yield "size", self._size(listed)
        yield "pages", self._pages(listed)
        yield "show", self._show(listed)
        yield "dry-delete", self._dry_delete(listed)
        yield "empty", self._empty()
        yield "proof", self._proof(listed)

    # -- asking
    def _none(self, rules: tuple[str, ...], why: str) -> Iterator[tuple[str, _Said]]:
        yield from ((rule, (Verdict.NOT_CHECKED, why)) for rule in rules)

    def _ask(self, question: Callable[[], Any]) -> _Asked:
        """Call the plugin, and return the value or the error, and what the guard refused."""
        asked = _Asked()
        watch = self.tokens.watch
        with watch.asking(self.tokens.seconds):
            try:
                asked.value = question()
            except Exception as error:  # plugins may raise any error
                asked.error = error
        asked.refused = tuple(watch.refused)
        return asked

    def _read(self, type_: ResourceType, connection: Connection, project: ProjectDefinition) -> _Listed:
        """Read a list.

        :raises Exception: the list failed
        """
        listed = _Listed()
        for number, resource in enumerate(list_resources(type_, connection, project)):
            self.tokens.watch.expect_time()
            if number >= MAX_ROWS:
                listed.cut = True
                break
            if resource.owner is None:
                listed.ownerless.append(resource.id)
            elif resource.owner == project.id:
                listed.own[resource.id] = resource
            else:
                listed.others.add(resource.id)
        return listed

    # -- the rules
    def _not_listed(self, asked: _Asked) -> str:
        if asked.refused:
            return f"it makes a write call while it lists, which the guard refused: {asked.refused[0]}"
        return f"the list failed: {asked.why}"

    def _numbers(self, listed: _Listed) -> str:
        more = "at least " if listed.cut else ""
        return (
            f"{more}{len(listed.ids)} rows: {len(listed.own)} of the project, {len(listed.others)} of other projects, "
            f"{len(listed.ownerless)} without an owner"
        )

    def _owner(self, listed: _Listed) -> _Said:
        type_ = self.type
        if not listed.ids:
            return Verdict.NOT_CHECKED, "no rows: create a resource of this type in the project"
        if listed.ownerless and not type_.unfiltered:
            return Verdict.FAILED, (
                f"{len(listed.ownerless)} of {len(listed.ids)} rows have no {type_.owner!r}, such as "
                f"{listed.ownerless[0]}: no delete would be made for them; correct 'owner' or the list call"
            )
        if type_.owner == SCOPED:
            return Verdict.NOT_CHECKED, "the rows show no owner (SCOPED)"
        if listed.others and not type_.unfiltered and not callable(type_.list):
            return Verdict.WARNING, (
                f"{len(listed.others)} rows are of other projects: the service ignores the owner filter of the list "
                "call; correct the filter, or say why there is none in 'unfiltered'"
            )
        return Verdict.OK, f"the owner of each row is known by {type_.owner!r}"

    def _created(self, listed: _Listed) -> _Said:
        name, updated = self.type.created, self.type.updated
        if not name and updated is None:
            return Verdict.NOT_CHECKED, "its service does not say when it was created ('created')"
        if not listed.own:
            return Verdict.NOT_CHECKED, "the project has none: create one"
        times = [("created", name, "its age", "its creation")] if name else []
        times += [("updated", updated.attribute, "its last change", "its last change")] if updated else []
        for resource, (field, path, by, of) in itertools.product(listed.own.values(), times):
            value = pick(resource.data, path)
            unchanged = field == "updated" and updated and updated.null_until_changed and path in resource.data
            if value is None and unchanged:
                continue
            if wrong := _wrong_time(value, path, field, by, of):
                return Verdict.FAILED, f"{resource.id} {wrong}"
        shown = " and ".join(repr(path) for _field, path, *_words in times)
        return Verdict.OK, f"{len(listed.own)} resources show when they were created, or changed last, by {shown}"

    def _size(self, listed: _Listed) -> _Said:
        if self.type.size is None:
            return Verdict.OK, "it declares no 'size', so that plans show none"
        if not listed.own:
            return Verdict.NOT_CHECKED, "the project has none: create one"
        known = sum(self.type.size_of(resource.data) is not None for resource in listed.own.values())
        if not known:
            text = f"no resource is listed with a size in {self.type.size[0]!r}; correct 'size' or the list call"
            return Verdict.WARNING, text
        return Verdict.OK, f"{known} of {len(listed.own)} resources are listed with a size in {self.type.size[0]!r}"

    def _pages(self, listed: _Listed) -> _Said:
        call = self.type.list
        if not isinstance(call, Sdk | Rest):
            return Verdict.NOT_CHECKED, "a hook lists it: read a second page in the plugin's own tests"
        least = 3 if isinstance(call, Rest) and call.paging is Paging.PAGES else 2
        if listed.cut or len(listed.ids) < least:
            more = f"more than {MAX_ROWS}" if listed.cut else str(len(listed.ids))
            return Verdict.NOT_CHECKED, f"{more} rows: a second page needs at least {least}"
        size, paged = _in_small_pages(call, len(listed.ids))
        type_, session = dataclasses.replace(self.type, list=paged), self.connection.session
        before = session.calls
        asked = self._ask(lambda: self._read(type_, self.connection, self.project))
        calls, declared = session.calls - before, isinstance(call, Rest) and call.paging is not Paging.NONE
        if asked.error is not None:
            verdict = Verdict.FAILED if declared else Verdict.NOT_CHECKED
            return verdict, f"the list in pages of {size} failed: {asked.why}"
        missing = listed.ids - asked.value.ids
        if missing:  # unless they were deleted meanwhile
            again = self._ask(lambda: self._read(self.type, self.connection, self.project))
            missing &= again.value.ids if again.error is None else set()
        if missing:
            return Verdict.FAILED, (
                f"in pages of {size} it lists {len(listed.ids) - len(missing)} of {len(listed.ids)} rows, without "
                f"{min(missing)}: the call must read all pages; declare 'paging'"
            )
        if calls * size < len(listed.ids):
            if declared:
                return Verdict.NOT_CHECKED, f"the service sent all rows at once, in spite of a limit of {size}"
            return Verdict.OK, "the service does not divide this list into pages"
        return Verdict.OK, f"the same {len(listed.ids)} rows in pages of {size}"

    def _show(self, listed: _Listed) -> _Said:
        if self.type.show is None:
            return Verdict.NOT_CHECKED, f"it is not read again: {self.type.why_no_show or 'it is not deleted'}"
        if not listed.own:
            return Verdict.NOT_CHECKED, "the project has none: create one"
        some = list(itertools.islice(listed.own.values(), MAX_SHOWN))
        for resource in some:
            asked = self._ask(lambda one=resource: show(self.type, self.connection, self.project, one))  # type: ignore[misc]
            if asked.refused:
                return Verdict.FAILED, f"it makes a write call while it reads {resource.id}: {asked.refused[0]}"
            if asked.error is not None:
                return Verdict.FAILED, f"{resource.id} cannot be read again: {asked.why}"
            for what, is_, was in (("id", asked.value.id, resource.id), ("owner", asked.value.owner, resource.owner)):
                if is_ != was:
                    text = f"{resource.id} was listed with the {what} {was!r}, and is shown with {is_!r}"
                    return Verdict.FAILED, text
            if (tags := self.type.tags) and pick(resource.data, tags) and pick(asked.value.data, tags) is None:
                return Verdict.FAILED, f"{resource.id} was listed with {tags!r}, and is shown without: see 'tags'"
        return Verdict.OK, f"{len(some)} resources have the same id and owner when they are read again"

    def _dry_delete(self, listed: _Listed) -> _Said:
        type_ = self.type
        if type_.delete is None or type_.composition.deleted_with:
            return Verdict.NOT_CHECKED, "it has no delete of its own"
        if type_.user_content:
            return Verdict.NOT_CHECKED, "its delete is made with the janitor's token, which this check does not have"
        resource, kept = self._deletable(listed)
        if resource is None:
            return Verdict.NOT_CHECKED, kept or "the project has none: create one"
        wrote = ""
        for what, action in (*(("prepare", one) for one in type_.prepare), ("delete", type_.delete)):
            asked = self._ask(lambda action=action: act(action, self.connection, self.project, resource))  # type: ignore[misc]
            if asked.refused and not _is_refusal(asked.error):
                return Verdict.FAILED, (
                    f"{what} of {resource.id} catches the guard's refusal of {asked.refused[0]}: a plugin catches no "
                    "error to continue"
                )
            if asked.refused and "past its connection" in asked.refused[0]:
                return Verdict.FAILED, f"{what} of {resource.id} makes {asked.refused[0]}: use the connection"
            if asked.error is not None and not asked.refused:
                return Verdict.NOT_CHECKED, f"{what} of {resource.id} failed before any write call: {asked.why}"
            if what == "delete" and not asked.refused:
                return Verdict.FAILED, f"delete of {resource.id} makes no write call, and raises no error"
            wrote = asked.refused[0] if asked.refused else ""
        again = self._ask(lambda: self._read(type_, self.connection, self.project))
        if again.error is not None or resource.id not in again.value.own:
            why = again.why or "it was deleted by another user, or by a call that this check does not see"
            return Verdict.FAILED, f"{resource.id} is not listed after the delete that was refused: {why}"
        if resource.name and quote(resource.name, safe="") in wrote and quote(resource.id, safe="") not in wrote:
            return Verdict.FAILED, f"it deletes by name, not by immutable id: {wrote}"
        return Verdict.OK, f"refused before it was sent: {wrote}"

    def _deletable(self, listed: _Listed) -> tuple[Resource | None, str]:
        """Return a resource that may be deleted as it is read again, or why there is none."""
        why = ""
        for listed_one in itertools.islice(listed.own.values(), MAX_SHOWN):
            asked = self._ask(lambda one=listed_one: self._current(one))  # type: ignore[misc]
            if asked.error is not None:
                return None, f"{listed_one.id} cannot be judged: {asked.why}"
            resource, kept = asked.value
            if not kept:
                return resource, ""
            why = why or f"the project has none that may be deleted; {listed_one.id}: {kept}"
        return None, why

    def _current(self, resource: Resource) -> tuple[Resource, str]:
        """Return a resource as it is read again, and the sentence of the first rule that keeps or protects it."""
        type_, project = self.type, self.project
        if type_.show is not None:
            resource = show(type_, self.connection, project, resource)
        rules = (*type_.keep, *type_.protect)
        return resource, next((str(why) for why in (rule(resource, project) for rule in rules) if why), "")

    def _empty(self) -> _Said:
        project = dataclasses.replace(
            self.project, id=uuid.uuid4().hex, name="", member_ids=(), gone=self.type.token.scoped
        )
        type_ = self.type.for_missing_project(project.gone)
        if type_.token.scoped:
            return Verdict.NOT_CHECKED, "it is listed with a token of the project, and there is none of another project"
        asked = self._ask(lambda: self._read(type_, self.tokens.admin, project))
        if asked.refused:
            return Verdict.FAILED, self._not_listed(asked)
        if asked.error is not None:
            return Verdict.OK, f"for a project that does not exist it raises: {asked.why}"
        if asked.value.own:
            return Verdict.FAILED, (
                f"{len(asked.value.own)} rows, such as {min(asked.value.own)}, count as those of a project that does "
                "not exist: the list shows what belongs to others; correct 'owner' or the list call"
            )
        return Verdict.OK, "nothing belongs to a project that does not exist"

    def _proof(self, listed: _Listed) -> _Said:
        type_, member, proof = self.type, self.tokens.member, self.type.proof
        if type_.token.scoped:
            return Verdict.NOT_CHECKED, "a list with a token of the project needs no proof"
        if proof is not None:
            asked = self._ask(lambda: admin.prove(proof, self.connection, self.project))
            if asked.error is not None:
                return Verdict.FAILED, f"{proof!r} failed: {asked.why}"
            if member is None:
                return Verdict.OK, f"{proof!r} is answered; pass --as-member to see that others are refused"
            asked = self._ask(lambda: admin.prove(proof, member, self.project))
            if asked.error is None:
                return Verdict.FAILED, f"{proof!r} is answered to a user without the admin role: it proves nothing"
            return Verdict.OK, f"{proof!r} is answered to an admin, and refused to others: {asked.why}"
        if member is None:
            return Verdict.NOT_CHECKED, "pass --as-member NAME, a user without the admin role in another project"
        if not listed.own:
            return Verdict.NOT_CHECKED, "the project has none, so that an empty list is true: create one"
        asked = self._ask(lambda: self._read(type_, member, self.project))
        if asked.error is not None:
            return Verdict.OK, f"the list is refused to a user without the admin role: {asked.why}"
        if missing := len(listed.own.keys() - asked.value.own.keys()):
            return Verdict.FAILED, (
                f"a user without the admin role gets a list without {missing} of the project's {len(listed.own)} rows, "
                "and no error: the list would look complete; declare a 'proof'"
            )
        return Verdict.OK, "a user without the admin role gets the same rows"


def _in_small_pages(call: Sdk | Rest, rows: int) -> tuple[int, Sdk | Rest]:
    """Return the size of small pages, and the call with them."""
    size = -(-rows // MAX_PAGES)
    if isinstance(call, Sdk):
        return size, Sdk(call.proxy, call.method, *call.args, **{**call.kwargs, "limit": size})
    if call.paging is Paging.PAGES:  # the last page must not be full
        size = next(each for each in range(max(2, size), rows) if rows % each)
    if call.paging in (Paging.OFFSET, Paging.MARKER, Paging.PAGES):
        return size, dataclasses.replace(call, limit=size)
    return size, dataclasses.replace(call, query={**call.query, "limit": size})


def _is_refusal(error: BaseException | None) -> bool:
    """Return whether an error is the guard's refusal, or was raised because of it."""
    while error is not None:
        if isinstance(error, WriteRefused):
            return True
        error = error.__cause__ or error.__context__
    return False


def _wrong_time(value: Any, path: str, field: str, by: str, of: str) -> str:
    """Return what is wrong with a time of a resource, to follow its ID; empty: nothing is.

    :param field: the declaration that names the attribute
    :param by: what the resource would never be selected by
    :param of: what the time should be the time of
    """
    if value in (None, ""):
        return f"is listed without {path!r}, and would never be selected by {by}; correct '{field}' or the list call"
    at, said = moment(value), f"has {path!r} = {str(value)[:40]!r}, which is"
    if at is None:
        return f"{said} neither ISO 8601 nor seconds since 1970: it would never be selected by {by}"
    latest = datetime.datetime.now(datetime.UTC).replace(tzinfo=None) + CLOCKS
    if EARLIEST <= at <= latest:
        return ""
    when = "in the future" if at > latest else f"before {EARLIEST.year}"
    return f"{said} {when}: it is not the time of {of}, or not in UTC"
