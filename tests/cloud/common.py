"""The tests that the files of several services have in common, and the helpers of these files.

A file describes its service in `CASE`, and imports from here the tests that hold for the service.
"""

from __future__ import annotations

import dataclasses
import time
from collections import abc
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from cleanup_orchestrator.core.deletion import Mode, Status
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome, StepResult, Token
from cleanup_orchestrator.plugins.base import Collection, ResourceType, Rest, Service
from tests.cloud.fillings.base import Filled

SECONDS = 600.0  # a service deletes a resource in seconds, on a busy machine in minutes
Leftovers = dict[tuple[str, str], Any]


# ------------------------------------------------------------------------------------------------------------- helpers
def ids(found: StepResult) -> set[str]:
    return {left.id for left in found.leftovers}


def reasons(found: StepResult) -> dict[str, str]:
    return {left.id: left.reason for left in found.leftovers}


def left(swept: Mapping[str, StepResult]) -> Leftovers:
    """Return the leftovers of all types by type and id."""
    return {(name, leftover.id): leftover for name, each in swept.items() for leftover in each.leftovers}


def named(leftover: Any) -> set[tuple[str, str, str]]:
    """Return what a leftover names as the reason for it: type, id and owner of each."""
    return {(blocker["type"], blocker["id"], blocker["owner"]) for blocker in leftover.blocked_by}


def unknown(swept: Mapping[str, StepResult]) -> dict[str, str]:
    """Return the messages of the types whose resources are not known."""
    return {name: each.message for name, each in swept.items() if each.outcome is Outcome.UNKNOWN}


def until(get: Callable[[], Any], enough: Callable[[Any], bool], seconds: float = SECONDS, pause: float = 1) -> Any:
    """Return what is enough; ask again until it is."""
    deadline = time.monotonic() + seconds
    while not enough(got := get()):
        assert time.monotonic() < deadline, got
        time.sleep(pause)
    return got


def sweep_until(
    sweeper: Any,
    service: Service,
    filled: Filled,
    enough: Callable[[dict[str, StepResult]], bool] = lambda swept: not left(swept),
    **options: object,
) -> dict[str, StepResult]:
    """Sweep as the engine does, again while a delete is under way; by default until nothing is left."""

    def sweep() -> dict[str, StepResult]:
        swept = sweeper.delete(service, filled, **options)
        assert unknown(swept) == {}
        return swept

    return until(sweep, enough)


# ----------------------------------------------------------------------------------------------------- the description
@dataclasses.dataclass(frozen=True)
class Case:
    """A service, and what its database and its types have of a filled project.

    :param rows: the number of live rows, by table. The database of the service has no other live rows of the project
    :param database: of the service; by default that of the first of `rows`
    :param found: how many resources each type finds
    :param kept: the types whose resources are no leftovers, such as those that a service made
    :param unlisted: the types that a list for reading alone does not find
    :param kinds: the kinds of the filling, for types of another name; none: the ids are not compared
    :param options: of the service, in all inventories and deletes
    :param ignored: for types without a filter, the number of listed resources of others
    :param unchanged: further databases in which an inventory changes nothing
    :param volatile: tables whose rows change by themselves
    :param mine: returns the rows of a project, in a cloud that other tests use as well
    :param beside: returns what the service has beside the databases, of a project or at all
    :param prepare: changes a filled project; the third argument is its neighbour, if it is not the neighbour
    :param neighbours: those of `rows` that are different for the neighbour
    :param refused: the types that are refused to a caller without the admin role; by default those of an admin's token
    :param believed: types without the check of the caller: to such a caller they show an empty project
    :param system: what a token of the system shows of each type: everything (""), or the reason why it is unknown
    :param views: the types with a list of all projects
    :param limit: the size of a page in the lists of the types; 0: they stay as they are
    :param pages: the sizes of pages in other places: the object, the name of the attribute, the size
    :param at_once: the types of which the journal says one number; others are deleted in several steps
    :param in_order: whether the types are deleted in the order of `found`, and nothing of another service
    :param settles: seconds within which the service removes the rows of what is deleted
    """

    service: Service
    rows: Mapping[str, int] = dataclasses.field(default_factory=dict)
    database: str = ""
    found: Mapping[str, int] = dataclasses.field(default_factory=dict)
    kept: abc.Collection[str] = ()
    unlisted: abc.Collection[str] = ()
    kinds: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    options: Mapping[str, object] = dataclasses.field(default_factory=dict)
    ignored: Mapping[str, int] = dataclasses.field(default_factory=dict)
    unchanged: tuple[str, ...] = ()
    volatile: tuple[str, ...] = ()
    mine: Callable[[Any, Filled], object] | None = None
    beside: Callable[[Any, Filled | None], object] = lambda sweeper, filled: None
    prepare: Callable[[Any, Filled, Filled | None], object] = lambda sweeper, filled, neighbour: None
    neighbours: Mapping[str, int] = dataclasses.field(default_factory=dict)
    refused: abc.Collection[str] | None = None
    believed: tuple[ResourceType, ...] = ()
    system: Mapping[str, str] = dataclasses.field(default_factory=dict)
    views: abc.Collection[str] = ()
    limit: int = 1
    pages: tuple[tuple[object, str, object], ...] = ()
    at_once: abc.Collection[str] | None = None
    in_order: bool = False
    settles: float = 0

    @property
    def types(self) -> dict[str, ResourceType]:
        return {type_.name: type_ for type_ in self.service.types}

    @property
    def listed(self) -> dict[str, int]:
        return {name: number for name, number in self.found.items() if name not in self.unlisted}

    def alive(self, sweeper: Any, filled: Filled) -> dict[str, int]:
        """Return the number of live rows of a project by table: of the service's database, and of tables of `rows`."""
        own = f"{self.database or next(iter(self.rows)).partition('.')[0]}."
        found = sweeper.live(filled.project_id, own, *(table for table in self.rows if not table.startswith(own)))
        return {table: count for table, count in found.items() if table not in self.volatile}

    def settled(self, sweeper: Any, filled: Filled, wanted: Mapping[str, int]) -> None:
        """Check the live rows of a project, at once or within `settles` seconds."""
        deadline = time.monotonic() + self.settles
        while (found := self.alive(sweeper, filled)) != wanted and time.monotonic() < deadline:
            time.sleep(0.5)
        assert found == wanted

    def expected(self, filled: Filled) -> dict[str, set[str]]:
        """Return the ids that each type has to find."""
        kinds = {name: self.kinds.get(name, (name,)) for name in (*self.found, *self.kinds)}
        return {name: {id_ for each in of for id_ in filled.ids.get(each, ())} for name, of in kinds.items() if of}

    def ids(self, found: Mapping[str, StepResult]) -> dict[str, set[str]]:
        """Return the ids that each type found."""
        return {
            name: {left.id for left in (each.kept_resources if name in self.kept else each.leftovers)}
            for name, each in found.items()
        }

    def steady(self, text: str) -> list[str]:
        """Return the lines of a dump without rows that change by themselves."""
        return [line for line in text.splitlines() if not line.startswith(tuple(f"{each}:" for each in self.volatile))]

    def all_rows(self, sweeper: Any, filled: Filled) -> object:
        """Return everything that the service and Keystone have; in a cloud of other tests, what a project has."""
        if self.mine:
            return self.mine(sweeper, filled)
        places = {table.partition(".")[0] for table in self.rows} | {"keystone", *self.unchanged}
        return self.steady(sweeper.dump(*sorted(places))), self.beside(sweeper, None)

    def rows_of(self, sweeper: Any, filled: Filled) -> object:
        """Return everything that any service has of a project."""
        if self.mine:
            return self.mine(sweeper, filled)
        return self.steady(sweeper.dump_of(filled.project_id)), self.beside(sweeper, filled)

    def found_by(
        self, sweeper: Any, filled: Filled, type_: ResourceType | str, connection: Any = None, **options: object
    ) -> StepResult:
        """Return the inventory of one type, by default with the token that the orchestrator uses for the type."""
        type_ = self.types[type_] if isinstance(type_, str) else type_
        return sweeper.inventory_of(self.service, filled, type_, connection, **{**self.options, **options})

    def deleted_by(
        self, sweeper: Any, filled: Filled, type_: ResourceType | str, *, gone: bool = False, **options: object
    ) -> StepResult:
        """Delete what the project has of one type, with the tokens that the orchestrator uses for the type."""
        type_ = self.types[type_] if isinstance(type_, str) else type_
        return sweeper.delete_of(self.service, filled, type_, gone, **{**self.options, **options})

    def refusing(self) -> Iterable[ResourceType]:
        names = [name for name, type_ in self.types.items() if type_.token is Token.ADMIN]
        return [self.types[name] for name in (names if self.refused is None else self.refused)]


def short_collections(rows: int) -> tuple[object, str, object]:
    """Return what makes the lists of all collections short, for ``Case.pages``: those that are made from now on."""
    where = Collection.where
    return Collection, "where", lambda self, **query: dataclasses.replace(where(self, **query), limit=rows)


def in_short_pages(case: Case, monkeypatch: pytest.MonkeyPatch, types: Iterable[ResourceType]) -> list[ResourceType]:
    """Return types with lists in pages of a few rows."""
    short: list[tuple[object, object]] = []
    for where, name, value in case.pages:
        whole = getattr(where, name)
        lists = [(whole.own, value.own), (whole.all, value.all)] if isinstance(whole, Collection) else [(whole, value)]
        short += lists
    for where, name, value in case.pages:
        monkeypatch.setattr(where, name, value)

    def list_of(type_: ResourceType) -> Any:
        if found := [value for whole, value in short if type_.list == whole]:
            return found[0]
        limited = case.limit and isinstance(type_.list, Rest)
        return dataclasses.replace(type_.list, limit=case.limit) if limited else type_.list

    return [dataclasses.replace(type_, list=list_of(type_)) for type_ in types]


# ----------------------------------------------------------------------------------------------------------- the tests
def test_an_inventory_finds_everything_and_changes_nothing(case, projects, own_sweeper):
    target, _ = projects
    own_sweeper.enter(target)
    own_sweeper.janitor(target.project_id)
    before = case.all_rows(own_sweeper, target)
    found = own_sweeper.inventory(case.service, target, **case.options)
    assert case.all_rows(own_sweeper, target) == before
    assert set(unknown(found)) <= {*case.unlisted}
    expected, seen = case.expected(target), case.ids(found)
    assert {name: seen[name] for name in expected} == expected
    assert all(expected[name] for name in expected if case.found.get(name, 1)), "the filling has one of each"
    assert {name: len(seen[name]) for name in case.listed} == case.listed
    assert {name: found[name].others_ignored for name in case.ignored} == case.ignored
    assert not case.rows or case.alive(own_sweeper, target) == case.rows


def test_a_caller_without_the_admin_role_never_sees_an_empty_project(case, projects, own_sweeper):
    """Many services answer with what the caller's project has."""
    target, neighbour = projects
    seen = {each.name: case.found_by(own_sweeper, target, each, neighbour.connection) for each in case.refusing()}
    refused = dict.fromkeys(seen, (Outcome.UNKNOWN, Reason.FORBIDDEN))
    assert seen and {name: (found.outcome, found.reason) for name, found in seen.items()} == refused
    for careless in case.believed:
        believed = case.found_by(own_sweeper, target, careless, neighbour.connection)
        assert believed.outcome is Outcome.CLEAR, f"{careless.name}: the check is no longer needed"


def test_a_token_of_the_system_never_shows_an_empty_project(case, projects, own_sweeper):
    target, _ = projects
    expected, connection = case.expected(target), own_sweeper.system_scoped()
    found = {name: case.found_by(own_sweeper, target, name, connection) for name in case.system}
    listed = case.ids(found)
    seen = {name: each.reason if each.outcome is Outcome.UNKNOWN else listed[name] for name, each in found.items()}
    assert seen and seen == {name: reason or expected[name] for name, reason in case.system.items()}


def test_every_page_is_read(case, projects, own_sweeper, monkeypatch):
    target, _ = projects
    whole = case.ids(own_sweeper.inventory(case.service, target, **case.options))
    paged = dataclasses.replace(case.service, types=tuple(in_short_pages(case, monkeypatch, case.service.types)))
    assert case.ids(own_sweeper.inventory(paged, target, **case.options)) == whole
    assert max(map(len, whole.values())) > (case.limit or 2), "this is more than a page"


def test_a_list_of_all_projects_shows_what_each_has(case, projects, own_sweeper, monkeypatch):
    views = [case.types[name].all_projects_view() for name in case.views]
    for name, view in zip(case.views, in_short_pages(case, monkeypatch, views), strict=True):
        for filled in projects:
            found = {name: case.found_by(own_sweeper, filled, view, own_sweeper.connection())}
            assert case.ids(found)[name] == case.expected(filled)[name], name
    assert case.views


def test_everything_goes_and_the_neighbour_keeps_all(case, projects, own_sweeper):
    """Runs after the other tests of this module. For services of a cloud in which the orchestrator would find more."""
    target, neighbour = projects
    theirs = case.rows_of(own_sweeper, neighbour)
    sweep_until(own_sweeper, case.service, target, **case.options)
    assert case.alive(own_sweeper, target) == {}
    assert case.rows_of(own_sweeper, neighbour) == theirs


def test_what_a_project_that_keystone_has_deleted_had_is_deleted(case, neighbour, another, own_sweeper):
    filled = another("orphan")
    theirs = case.rows_of(own_sweeper, neighbour)
    own_sweeper.cloud.admin.call("DELETE", f"/projects/{filled.project_id}")
    swept = {type_.name: case.deleted_by(own_sweeper, filled, type_, gone=True) for type_ in case.service.types}
    expected = {name: (Outcome.CLEAR, number) for name, number in case.found.items()}
    assert {name: (result.outcome, result.found) for name, result in swept.items()} == expected
    case.settled(own_sweeper, filled, {})
    assert case.rows_of(own_sweeper, neighbour) == theirs


def test_the_orchestrator_deletes_the_project_with_everything(case, neighbour, another, orchestrator, own_sweeper):
    """And the neighbour keeps everything. The catalog may have the service under an alias of its official type."""
    filled = another("whole")
    theirs = case.rows_of(own_sweeper, neighbour)
    grants = own_sweeper.assignments(filled.project_id)
    report = orchestrator.run(filled.project_id, Mode.REPORT, Status.LEFTOVERS)
    service = case.service.service_type
    resources = [name for name in case.found if not case.types[name].project_setting]
    steps = {name: orchestrator.step(report, f"{service}.{name}") for name in resources}
    seen = {name: step.reason if step.outcome is Outcome.UNKNOWN else step.found for name, step in steps.items()}
    assert seen == {name: case.found[name] for name in resources}
    assert case.alive(own_sweeper, filled) == case.rows
    assert own_sweeper.assignments(filled.project_id) == grants, "the janitor's role is taken back"
    deletion = orchestrator.run(filled.project_id, Mode.CASCADE, Status.DELETED)
    case.settled(own_sweeper, filled, {})
    assert own_sweeper.live(filled.project_id) == {}, "in no database"
    assert case.alive(own_sweeper, neighbour) == {**case.rows, **case.neighbours}
    assert case.rows_of(own_sweeper, neighbour) == theirs
    said = [line for line in orchestrator.deleted(deletion) if line.startswith(f"{service}.")]
    lines = {name: f"{service}.{name}: {number} gone" for name, number in case.found.items() if number}
    if case.at_once is not None:
        assert {lines[name] for name in case.at_once} <= {*said}
    elif case.in_order:
        assert orchestrator.deleted(deletion) == [*lines.values()]
    else:
        assert sorted(said) == sorted(lines.values())
