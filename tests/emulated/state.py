"""The rows of the cloud in tables, with indexes by owner and by each reference to another row.

A row keeps only what differs from its kind's shape, so that a project of 100,000 fits into little memory.
"""

from __future__ import annotations

import bisect
import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Hold:
    """Refuses a delete while rows of another kind refer to the row."""

    kind: str  #: within the same service
    by: str  #: the referring attribute
    type: str  #: the service's name for the refusal
    status: int = 409
    message: str = "{id} is in use by {kind} {by}."
    unless: Callable[[Row], bool] = lambda row: False


@dataclass(frozen=True)
class Kind:
    """One collection of a service's API."""

    service: str
    name: str  #: the name of the type in the plugins: ``floating_ip``
    path: str  #: below the version; ``*`` is the parent's id: ``routers/*/conntrack_helpers``
    one: str  #: key of a single one in a body; empty: the body itself
    many: str
    shape: dict[str, Any]  #: a row as the real service shows it
    owner: tuple[str, ...] = ("project_id", "tenant_id")
    id: str = "id"
    parent: str = ""  #: the attribute that has the id of the parent in the path
    links: tuple[str, ...] = ()  #: attributes that refer to other rows; ``fixed_ips.subnet_id`` goes through a list
    holds: tuple[Hold, ...] = ()
    takes: tuple[tuple[str, str], ...] = ()  #: (kind, attribute) of rows that are deleted together with the row
    clears: tuple[tuple[str, str], ...] = ()  #: (kind, attribute) of rows that only lose the reference
    extension: str = ""  #: Neutron's alias
    project_setting: bool = False  #: internal row of the service: a project with only such rows is empty
    history: bool = False  #: it cannot be deleted, and does not have to be

    @property
    def full(self) -> str:
        """Its name in the whole cloud."""
        return f"{self.service}.{self.name}"


class Row:
    """One resource."""

    __slots__ = ("id", "more", "owner", "table")

    def __init__(self, table: Table, id_: str, owner: str, more: dict[str, Any]) -> None:
        self.table, self.id, self.owner, self.more = table, id_, owner, more

    @property
    def kind(self) -> Kind:
        return self.table.kind

    def get(self, name: str) -> Any:
        """An attribute as the service shows it."""
        if name == self.kind.id:
            return self.id
        if name in self.kind.owner:
            return self.owner
        return self.more[name] if name in self.more else self.kind.shape.get(name)

    def render(self) -> dict[str, Any]:
        """All attributes."""
        body = {**self.kind.shape, **self.more, self.kind.id: self.id}
        for name in self.kind.owner:
            body[name] = self.owner
        return body

    def links(self, path: str) -> list[str]:
        """The ids that an attribute refers to."""
        name, _, inner = path.partition(".")
        value = self.get(name)
        if isinstance(value, dict) and not inner:  # each key leads to the ids in its list
            value = [*value, *itertools.chain.from_iterable(value.values())]
        found = value if isinstance(value, list) else [value]
        return [str(v[inner] if inner else v) for v in found if v]


class Table:
    """The rows of one kind in one region, in the order of their ids."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.rows: dict[str, Row] = {}
        self.owned: dict[str, dict[str, Row]] = {}
        self.linked: dict[str, dict[str, dict[str, Row]]] = {path: {} for path in kind.links}

    def add(self, row: Row) -> Row:
        self.rows[row.id] = row
        self.owned.setdefault(row.owner, {})[row.id] = row
        self._link(row)
        return row

    def _link(self, row: Row) -> None:
        for path, index in self.linked.items():
            for target in row.links(path):
                index.setdefault(target, {})[row.id] = row

    def _unlink(self, row: Row) -> None:
        for path, index in self.linked.items():
            for target in row.links(path):
                rows = index.get(target, {})
                rows.pop(row.id, None)
                if not rows:
                    index.pop(target, None)

    def change(self, row: Row, values: dict[str, Any]) -> None:
        self._unlink(row)
        row.more = {**row.more, **values}
        self._link(row)

    def remove(self, row: Row) -> None:
        self._unlink(row)
        del self.rows[row.id]
        rows = self.owned[row.owner]
        del rows[row.id]
        if not rows:
            del self.owned[row.owner]

    def after(self, rows: dict[str, Row], marker: str = "", descending: bool = False) -> Iterator[Row]:
        """Rows of one of the indexes behind a marker. Ids grow, so the order of insertion is that of ids."""
        ids = list(rows)
        if descending:
            stop = bisect.bisect_left(ids, marker) if marker else len(ids)
            return (rows[ids[at]] for at in range(stop - 1, -1, -1))
        start = bisect.bisect_right(ids, marker) if marker else 0
        return (rows[ids[at]] for at in range(start, len(ids)))


@dataclass
class Touch:
    """A row that a request made, changed or deleted."""

    what: str  #: ``made``, ``changed`` or ``deleted``
    kind: str
    id: str
    owner: str


@dataclass
class State:
    """All rows of the cloud. It needs no lock: the cloud handles one request at a time."""

    kinds: tuple[Kind, ...]
    regions: tuple[str, ...]
    seed: int = 0
    tables: dict[tuple[str, str], Table] = field(init=False)

    def __post_init__(self) -> None:
        self.tables = {}
        for kind in self.kinds:
            for region in ("",) if kind.service == "identity" else self.regions:
                self.tables[region, kind.full] = Table(kind)
        self.random = random.Random(self.seed)
        self._number = 0

    def new_id(self, dashes: bool = True) -> str:
        """Return an id that is greater than all earlier ones and has the format of the services."""
        self._number += 1
        tail = f"{self.random.getrandbits(80):020x}"
        head = f"{self._number:08x}"
        return (
            f"{head}-{tail[:4]}-4{tail[5:8]}-8{tail[9:12]}-{tail[12:]}{head[-4:]}"
            if dashes
            else f"{head}{tail}{head[-4:]}"
        )

    def add(self, region: str, kind: str, owner: str, /, *, id: str = "", **more: Any) -> Row:
        """Put a row in."""
        table = self.tables["" if kind.startswith("identity.") else region, kind]
        id = id or self.new_id(dashes=not kind.startswith("identity."))
        return table.add(Row(table, id, owner, more))

    def table(self, region: str, kind: str) -> Table:
        return self.tables["" if kind.startswith("identity.") else region, kind]

    def holder(self, region: str, row: Row) -> tuple[Hold, Row] | None:
        """Return the row that refuses the delete of this row, and the rule."""
        for hold in row.kind.holds:
            others = self.table(region, f"{row.kind.service}.{hold.kind}").linked[hold.by].get(row.id, {})
            for other in others.values():
                if not hold.unless(other):
                    return hold, other
        return None

    def delete(self, region: str, row: Row) -> list[Touch]:
        """Remove a row and all that is deleted with it; return the changed rows, the row itself first."""
        if row.id not in row.table.rows:
            return []
        row.table.remove(row)
        touched = [Touch("deleted", row.kind.full, row.id, row.owner)]
        for name, attribute in row.kind.clears:
            table = self.table(region, f"{row.kind.service}.{name}")
            for other in list(table.linked[attribute].get(row.id, {}).values()):
                table.change(other, {attribute: None})
                touched.append(Touch("changed", other.kind.full, other.id, other.owner))
        for name, attribute in row.kind.takes:
            table = self.table(region, f"{row.kind.service}.{name}")
            for other in list(table.linked[attribute].get(row.id, {}).values()):
                touched += self.delete(region, other)
        return touched
