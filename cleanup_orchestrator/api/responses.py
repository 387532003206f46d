"""What operations answer: the form of a success, the errors and the versions."""

from __future__ import annotations

import dataclasses
from enum import StrEnum

from cleanup_orchestrator import shapes
from cleanup_orchestrator.api import errors
from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.core.orphan_scan import ScanStatus
from cleanup_orchestrator.shapes.base import SELF, JsonSchema, Link, Shape, field, time, uuid, word
from cleanup_orchestrator.shapes.schema import Nested


class Form(StrEnum):
    """What the JSON of a success has."""

    NOTHING = "nothing"  #: there is no body
    ONE = "one"  #: one record, by its name
    ALL = "all"  #: all records
    PAGE = "page"  #: a page of the records
    ITSELF = "itself"  #: one record, not below a name
    OTHER = "other"  #: an object of no shape


@dataclasses.dataclass(frozen=True, slots=True)
class Response:
    """The answer of an operation that succeeds."""

    about: str
    form: Form = Form.NOTHING
    shape: type[Shape] = Shape
    location: bool = False  #: whether the header ``Location`` has the URL of the record
    csv: bool = False  #: whether it can also be CSV

    def schema(self, nested: Nested) -> JsonSchema:
        """Return the schema of the JSON.

        :param nested: returns the schema that stands for a shape
        """
        if self.form is Form.OTHER:
            return {"type": "object"}
        if self.form is Form.ITSELF:
            return nested(self.shape)
        if self.form is Form.ONE:
            return _object({self.shape.one: nested(self.shape)})
        records = {self.shape.many: {"type": "array", "items": nested(self.shape)}}
        return _object(records, {"links": _next(nested)} if self.form is Form.PAGE else {})


def _object(required: JsonSchema, optional: JsonSchema | None = None) -> JsonSchema:
    return {"type": "object", "properties": required | (optional or {}), "required": list(required)}


def _next(nested: Nested) -> JsonSchema:
    about = "One link with ``rel`` ``next``: the URL of the next page. Absent on the last page."
    return {"type": "array", "items": nested(Link), "description": about}


def one(about: str, shape: type[Shape], location: bool = False) -> Response:
    """Return the answer with one record."""
    return Response(about, Form.ONE, shape, location)


def itself(about: str, shape: type[Shape]) -> Response:
    """Return the answer that is a record."""
    return Response(about, Form.ITSELF, shape)


def every(about: str, shape: type[Shape]) -> Response:
    """Return the answer with all records."""
    return Response(about, Form.ALL, shape)


def page(about: str, shape: type[Shape], csv: bool = False) -> Response:
    """Return the answer with a page of records."""
    return Response(about, Form.PAGE, shape, csv=csv)


class Version(Shape, one="version", many="versions"):
    """A version of the API."""

    id: str = field("ID of the version.")
    status: str = word(["CURRENT"], "Status of the version.")
    links: list[Link] = SELF
    min_version: str = field("The lowest microversion that the API serves.")
    max_version: str = field("The highest microversion that the API serves.")


class Error(Shape):
    """What is wrong with a request."""

    status: int = field("The HTTP status.", minimum=400, maximum=599)
    code: str = word(errors.CODES, "Code of the error. It does not change between releases.")
    title: str = field("The phrase of the HTTP status.")
    detail: str = field("Text for a person: what is wrong, and what to do.")
    request_id: str = field("ID of the request. The log of the API has it, too.")
    links: list[Link] = field("One link with ``rel`` ``help``: explains the code.")
    path: str = field("JSON path of the invalid part of the body.", optional=True)
    line: int = field("Line at which the body is not JSON, from 1.", minimum=1, optional=True)
    column: int = field("Column at which the body is not JSON, from 1.", minimum=1, optional=True)
    limit: int = field("The limit that is exceeded: bytes of a body, projects of a tree, or deletions.", optional=True)
    min_version: str = field("The lowest microversion that the API serves.", optional=True)
    max_version: str = field("The highest microversion that the API serves.", optional=True)
    project_id: str = field("ID of the project.", optional=True)
    projects: int = field("Number of projects below the project.", optional=True)
    children: list[str] = field("IDs of all projects below the project.", optional=True)
    deletion_id: str = uuid("ID of the deletion that conflicts with the request.", optional=True)
    status_now: str = word([*Status, *ScanStatus], "Present status of the deletion or the orphan scan.", optional=True)
    liens: list[shapes.Lien] = field("With ``project_has_liens``: the liens in force.", optional=True)
    plan_id: str = uuid("ID of the plan.", optional=True)
    orphan_scan_id: str = uuid("ID of the orphan scan.", optional=True)
    point_of_no_return_at: str | None = time("When deletes began or can begin.", optional=True)
    expected: str = field(
        "What ``detail`` says of ``field``, after its name. Absent: see ``problem``.",
        optional=True,
    )
    problem: str = word(
        errors.PROBLEMS,
        "What exactly is wrong, if ``detail`` names calls or fields of this API.",
        optional=True,
    )
    known: list[str] = field("With ``not_in_catalog``: names of services or regions.", optional=True)
    refusals: list[str] = field("With ``force_refused``: why each service refuses its forced delete.", optional=True)
    field: str = field("Name of the field or the parameter that is wrong.", optional=True)


class Errors(Shape):
    """The answer to a request that fails."""

    errors: list[Error] = field("One error.", minItems=1, maxItems=1)
