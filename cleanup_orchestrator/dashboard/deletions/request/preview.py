"""What dry runs found: what a deletion deletes, keeps and cannot delete."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from django.utils import timezone
from django.utils.dateparse import parse_datetime

from cleanup_orchestrator import sdk
from cleanup_orchestrator.dashboard.deletions.request.forms import SELECTING
from cleanup_orchestrator.sdk.text import FIRST_TYPES

#: Resources that are listed by name.
NAMED = 50
#: Projects below that are read for a page. Each of them needs two calls.
BELOW = 50


@dataclasses.dataclass
class Rows:
    """The first resources of a list, and how many more there are."""

    rows: list[Any]
    more: int = 0
    #: How many there are.
    count: int = 0


@dataclasses.dataclass
class Unseen:
    """A type or a service that was not listed."""

    name: str
    message: str = ""


@dataclasses.dataclass
class Below:
    """The dry run of a project below."""

    dry_run: sdk.Deletion
    plan: sdk.Plan | None = None


@dataclasses.dataclass
class Found:
    """A dry run, and what it found."""

    dry_run: sdk.Deletion
    below: list[Below] = dataclasses.field(default_factory=list)
    #: Whether there are more projects below than are read.
    more_below: bool = False
    plan: sdk.Plan | None = None
    #: Types with what goes, or with what a report found: records with ``number``.
    types: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    names: Rows = dataclasses.field(default_factory=lambda: Rows([]))
    kept: Rows = dataclasses.field(default_factory=lambda: Rows([]))
    protected: Rows = dataclasses.field(default_factory=lambda: Rows([]))
    unseen: list[Unseen] = dataclasses.field(default_factory=list)
    waived: list[Unseen] = dataclasses.field(default_factory=list)
    #: The form that confirms the deletion. ``None``: it cannot be requested.
    confirm: Any = None

    @property
    def moving(self) -> bool:
        """Whether a dry run, also one of a project below, is under way."""
        return any(run.finished_at is None for run in (self.dry_run, *(row.dry_run for row in self.below)))

    @property
    def blockers(self) -> list[Any]:
        """What would block the deletion."""
        return list((self.plan.blockers if self.plan else self.dry_run.blockers) or ())

    @property
    def summary(self) -> str:
        """What would be deleted, as one sentence of the API; empty: nothing, or the API is older."""
        return str(self.plan.get("summary") or "") if self.plan else ""

    @property
    def first_types(self) -> list[dict[str, Any]]:
        """The types that a person asks for first."""
        return [row for name in FIRST_TYPES for row in self.types if _full(row) == name]

    @property
    def other_types(self) -> list[dict[str, Any]]:
        """The other types, which the page folds up."""
        return [row for row in self.types if _full(row) not in FIRST_TYPES]

    @property
    def other_number(self) -> int:
        """Number of resources of the other types."""
        return sum(row["number"] for row in self.other_types)

    @property
    def size(self) -> int | None:
        """The sum of the known sizes in bytes; ``None``: none is known."""
        known = [row["size"] for row in self.types if row.get("size") is not None]
        return sum(known) if known else None

    @property
    def planned(self) -> bool:
        """Whether the dry run ended well."""
        return bool(self.dry_run.status == "planned")

    @property
    def liens_below(self) -> list[Below]:
        """The projects below with liens in force."""
        return [row for row in self.below if row.dry_run.liens]

    @property
    def expired(self) -> bool:
        """Whether the plan is too old for a request."""
        until = parse_datetime(self.plan.expires_at) if self.plan and self.plan.expires_at else None
        return until is not None and until <= timezone.now().astimezone(datetime.timezone.utc)

    @property
    def bound(self) -> bool:
        """Whether the request can be bound to the plan: only what the plan lists is deleted."""
        return bool(self.plan and self.plan.complete and not self.dry_run.include_subtree)

    @property
    def deletes(self) -> bool:
        """Whether the deletion deletes resources."""
        return bool(self.dry_run.mode != "report")

    def requestable(self) -> bool:
        """Whether the deletion can be requested as it was tried."""
        return self.planned and not self.expired and not (self.deletes and self.plan is None)

    def wanted(self, bind: bool = True) -> dict[str, Any]:
        """Return the parameters of the request: those of the dry run.

        :param bind: whether the request is bound to the plan of the dry run, if that is possible
        """
        run = self.dry_run
        parameters: dict[str, Any] = {"project_id": run.project_id, "mode": run.mode}
        if bind and self.bound and self.plan:
            return parameters | {"plan_id": self.plan.id, "plan_hash": self.plan.hash}
        return parameters | {"include_subtree": bool(run.include_subtree), "selection": selection_of(run) or None}


def selection_of(dry_run: sdk.Deletion) -> dict[str, Any]:
    """Return what a dry run selects, as the API takes it; empty: everything."""
    selected = {name: value for name, value in (dry_run.selection or {}).items() if value}
    return {name: selected[name] for name in SELECTING if name in selected}


def read(client: sdk.Proxy, ids: Iterable[str]) -> list[Found]:
    """Return the dry runs. The details are read when all have ended.

    :raises openstack.exceptions.SDKException: if one of them cannot be read
    """
    dry_runs = [Found(client.get_deletion(id_)) for id_ in ids]
    room = BELOW
    for one in dry_runs:
        rows = list(islice(_below(client, one.dry_run), room + 1))
        one.below, one.more_below = rows[:room], len(rows) > room
        room -= len(one.below)
    if not any(one.moving for one in dry_runs):
        for one in dry_runs:
            _add_details(client, one)
    return dry_runs


def _below(client: sdk.Proxy, dry_run: sdk.Deletion) -> Iterator[Below]:
    """Yield the dry runs of all projects below, each before those below it."""
    for child in dry_run.children or ():
        below = Below(client.get_deletion(child["deletion_id"]))
        yield below
        yield from _below(client, below.dry_run)


def _add_details(client: sdk.Proxy, result: Found) -> None:
    if not result.planned:
        return
    if not result.deletes:
        _add_report(client, result)
        return
    result.plan = plan = client.get_plan(result.dry_run)
    result.types = [{**row, "number": row["delete"]} for row in plan.types or () if row.get("delete")]
    result.names = _planned(client, plan, "delete", plan.delete)
    result.kept = _planned(client, plan, "keep", plan.keep)
    result.protected = _planned(client, plan, "protect", plan.protect)
    said = {_name(row): row.get("message") or row.get("reason") or "" for row in plan.types or ()}
    result.unseen = [Unseen(name, said.get(name, "")) for name in plan.unknown or ()]
    result.waived = [Unseen(_name(row), row.get("message") or "") for row in plan.types or () if row.get("waived")]
    for row in result.below:
        if row.dry_run.status == "planned":
            row.plan = client.get_plan(row.dry_run)


def _add_report(client: sdk.Proxy, result: Found) -> None:
    """Add what a report found. It has no plan."""
    run = result.dry_run
    counts = run.counts or ()
    remaining = run.progress.remaining if run.progress else 0
    result.types = [{**row, "number": row["remaining"]} for row in counts if row.get("remaining")]
    rows = list(client.leftovers(run, limit=NAMED)) if remaining else []
    result.names = Rows(rows, max(0, remaining - len(rows)), remaining)
    unknown = [row for row in counts if row.get("outcome") == "unknown"]
    result.unseen = [Unseen(_name(row), row.get("message") or row.get("reason") or "") for row in unknown]
    skipped = [place for waiver in run.waivers or () for place in waiver.get("not_listed") or ()]
    result.waived = [Unseen(f"{place['service']}@{place['region']}") for place in skipped]


def _planned(client: sdk.Proxy, plan: sdk.Plan, action: str, count: int) -> Rows:
    rows = list(client.plan_resources(plan, action=action, limit=NAMED)) if count else []
    return Rows(rows, max(0, count - len(rows)), count)


def _full(row: Any) -> str:
    return f"{row.get('service')}.{row.get('type')}"


def _name(row: Any) -> str:
    """Return the name of a type in a region, as the list of unknown types has it."""
    region = f"@{row['region']}" if row.get("region") else ""
    return f"{_full(row)}{region}"
