"""The common part of the emulated services: collections of rows, in the formats of each service."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.emulated.http import Request, Response
from tests.emulated.state import Kind, Row, Table, Touch

if TYPE_CHECKING:
    from tests.emulated.cloud import Emulated
    from tests.emulated.identity import Token


class Refusal(Exception):
    """An ordinary refusal."""

    def __init__(self, status: int, message: str, type_: str = "") -> None:
        super().__init__(message)
        self.status, self.message, self.type = status, message, type_


@dataclass(slots=True)
class Call:
    """A request on its way through a service."""

    request: Request
    parts: list[str]  #: of the path, below the service's version
    token: Token
    touched: list[Touch] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Place:
    """The target of a path."""

    kind: Kind
    parent: str = ""
    id: str = ""
    action: str = ""


class Service:
    """A service in one region."""

    type = ""
    version = ""  #: first part of its paths

    def __init__(self, cloud: Emulated, region: str) -> None:
        self.cloud, self.region, self.state = cloud, region, cloud.state
        self._places = {tuple(k.path.split("/")): k for k in cloud.state.kinds if k.service == self.type}

    @property
    def url(self) -> str:
        """Where the catalog says that it is."""
        return f"{self.cloud.url}/{self.region}/{self.type}"

    # -- what each service may override
    def versions(self, request: Request) -> Response:
        """The version document."""
        raise NotImplementedError

    def error(self, refusal: Refusal) -> Response:
        """A refusal in the service's shape."""
        raise NotImplementedError

    def collection(self, call: Call, kind: Kind, parent: str) -> Response:
        """A collection."""
        raise NotImplementedError

    def body(self, row: Row) -> dict[str, Any]:
        """A row as this service shows it."""
        return row.render()

    def allow(self, call: Call, kind: Kind, row: Row | None) -> None:
        """Raise unless the token may do this."""
        if "admin" not in call.token.roles:
            raise Refusal(403, "You are not authorized to perform the requested action.", "Forbidden")

    def check_delete(self, row: Row) -> None:
        """Raise when the service refuses the delete for a reason that is no reference."""

    def action(self, call: Call, place: Place, row: Row) -> Response:
        """Carry out any other action on a row."""
        raise Refusal(404, "The resource could not be found.", "HTTPNotFound")

    # -- what is the same in all services
    def table(self, kind: Kind | str) -> Table:
        return self.state.table(self.region, kind.full if isinstance(kind, Kind) else f"{self.type}.{kind}")

    def find(self, parts: list[str]) -> Place | None:
        """Return the target of a path: a collection, one row of it, or something below a row."""
        for cut in range(min(4, len(parts))):
            head = parts[: len(parts) - cut]
            rest = [*parts[len(head) :], "", ""]
            for star in (None, 1, 2):
                if star is not None and star >= len(head) - 1:
                    continue
                key = tuple(head) if star is None else (*head[:star], "*", *head[star + 1 :])
                if (kind := self._places.get(key)) is not None:
                    return Place(kind, head[star] if star is not None else "", rest[0], rest[1])
        return None

    def row(self, place: Place) -> Row:
        """The row that a path names."""
        row = self.table(place.kind).rows.get(place.id)
        if row is None or (place.parent and row.get(place.kind.parent) != place.parent):
            raise self.missing(place)
        return row

    def missing(self, place: Place) -> Refusal:
        """Return the refusal for a row that does not exist."""
        return Refusal(404, f"{place.kind.name} {place.id} could not be found.", "Not Found")

    def answer(self, call: Call) -> Response:
        """Carry out the request."""
        place = self.find(call.parts)
        if place is None:
            raise Refusal(404, "The resource could not be found.", "HTTPNotFound")
        method = call.request.method
        if not place.id:
            if method != "GET":
                raise Refusal(405, "The method is not allowed for this resource.", "HTTPMethodNotAllowed")
            self.allow(call, place.kind, None)
            return self.collection(call, place.kind, place.parent)
        row = self.row(place)
        self.allow(call, place.kind, row)
        if place.action:
            return self.action(call, place, row)
        if method in ("GET", "HEAD"):
            return Response(200, self.shown(row))
        if method == "DELETE":
            return self.delete(call, row)
        if method in ("PUT", "PATCH"):
            return self.update(call, row)
        raise Refusal(405, "The method is not allowed for this resource.", "HTTPMethodNotAllowed")

    def shown(self, row: Row) -> dict[str, Any]:
        """One row as the body of an answer."""
        return {row.kind.one: self.body(row)} if row.kind.one else self.body(row)

    def delete(self, call: Call, row: Row) -> Response:
        """Delete a row, unless another row refers to it."""
        if row.id in self.cloud.hung or row.id in self.cloud.stuck:
            raise Refusal(500, f"{row.kind.name} {row.id} cannot be deleted: its storage does not answer")
        self.check_delete(row)
        if (held := self.state.holder(self.region, row)) is not None:
            hold, other = held
            text = hold.message.format(id=row.id, by=other.id, kind=other.kind.name)
            raise Refusal(hold.status, text, hold.type)
        call.touched += self.state.delete(self.region, row)
        return Response(204)

    def update(self, call: Call, row: Row) -> Response:
        """Change attributes."""
        values = call.request.json()
        self.change(call, row, values.get(row.kind.one, values) if row.kind.one else values)
        return Response(200, self.shown(row))

    def change(self, call: Call, row: Row, values: dict[str, Any]) -> None:
        """Change a row and record the change."""
        row.table.change(row, values)
        call.touched.append(Touch("changed", row.kind.full, row.id, row.owner))


def matches(row: Row, filters: dict[str, set[str]]) -> bool:
    """Whether a row has one of the wanted values in each of the attributes."""
    for name, wanted in filters.items():
        value = row.get(name)
        values = value if isinstance(value, list) else [value]
        if not any((str(v).lower() if isinstance(v, bool) else str(v)) in wanted for v in values):
            return False
    return True


def candidates(table: Table, filters: dict[str, set[str]], marker: str = "", descending: bool = False) -> Iterator[Row]:
    """Return the rows that match the filters, after the marker, in order; use an index where there is one."""
    rows = table.rows
    owners = next((filters[name] for name in table.kind.owner if name in filters), None)
    if owners is not None:
        found = [table.owned[owner] for owner in owners if owner in table.owned]
        rows = found[0] if len(found) == 1 else dict(sorted(pair for each in found for pair in each.items()))
    else:
        for path, index in table.linked.items():
            if len(values := filters.get(path, ())) == 1:
                rows = index.get(next(iter(values)), {})
                break
    # A row may have been linked after others with a higher id: sort again where it is cheap.
    if rows is not table.rows and owners is None:
        rows = dict(sorted(rows.items()))
    return (row for row in table.after(rows, marker, descending) if matches(row, filters))
