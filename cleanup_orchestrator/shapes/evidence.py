"""The report of a deletion: what it proves, and the journal with which a reader checks it."""

from __future__ import annotations

from cleanup_orchestrator.shapes.base import Shape, field, time
from cleanup_orchestrator.shapes.deletions import Deletion
from cleanup_orchestrator.shapes.places import TypeInRegion
from cleanup_orchestrator.shapes.reports import Event


class NamedLine(Shape):
    """A line of the journal that a fact comes from."""

    sequence: int = field("Number of the line in the journal.", minimum=1)
    at: str = time("When the line was recorded.")
    message: str = field("The line as text.")


class RequestLine(NamedLine):
    """A line by which a person, or another client, began or changed the deletion."""

    type: str = field("Type of the line, such as ``deletion.accepted``.")
    actor: str = field("ID of the user. Empty: none is recorded.")
    request_id: str = field("ID of the request. Empty: no request.")


class EmptyInventory(Shape):
    """A complete inventory of all services that found nothing."""

    sequence: int = field("Number of the line of the journal.", minimum=1)
    began_at: str = field("When its round began. Empty: the journal does not say.")
    ended_at: str = time("When its last list was read.")
    message: str = field("The line as text: what was left out.")


class JournaledType(TypeInRegion):
    """How many resources of a type the journal names."""

    announced: int = field("Resources whose delete was announced before it was sent, each time.")
    deleted: int = field("Resources that were gone afterwards.")
    abandoned: int = field("Resources that were abandoned by force.")


class Facts(Shape):
    """What the lines of the journal say. A reader computes the same from the lines."""

    status: str = field("Status of the deletion after the last line.")
    ended_at: str = field("When the deletion entered that status, if it has ended. Empty: it has not.")
    requests: list[RequestLine] = field("The requests, at most 100.")
    omitted: int = field("Number of further requests and further entries of ``unseen``.", minimum=0)
    lock: NamedLine | None = field("The line that says since when the lock holds. ``null``: none, in this attempt.")
    closed: NamedLine | None = field("The line that says since when the project is disabled. ``null``: none.")
    inventories: list[EmptyInventory] = field("The last two empty inventories in a row. Fewer: there is no proof.")
    deleted: int = field("Number of resources that were deleted.", minimum=0)
    abandoned: int = field("Number of resources that were abandoned by force.", minimum=0)
    unseen: list[NamedLine] = field("Types that were abandoned and could not be seen, at most 100.")
    waivers: list[NamedLine] = field("The waivers that the deletion relied on.")
    types: list[JournaledType] = field("The same counts for each type in each region.")


class Lock(Shape):
    """What kept users out while the deletion was proved."""

    driver: str = field("The driver, as far as ``evidence`` tells it. Empty: it does not.")
    evidence: str = field("What the driver saw of the lock when it took hold. Empty: there was no lock.")
    held_since: str | None = time("When the lock took hold. ``null``: there is none now.")
    closed_since: str | None = time("When the project was found or made disabled. ``null``: it was not.")
    settled_at: str | None = time(
        "When the last token from before the lock had left the caches of all services. ``null``: there is no lock.",
    )
    token_cache_time: int = field(
        "The longest time in seconds for which a service caches a token, as configured when the report was made."
    )
    unseen_changes: str = field("Who could have changed this lock without a trace. Empty: only Keystone's operator.")


class Journal(Shape):
    """The hash chain of the journal, as the report was made."""

    length: int = field("Number of lines.", minimum=0)
    digest: str = field("Digest of the last line: it stands for all of them. Empty: there is no line.")
    problem: str = field("Why the stored lines do not lead to the digest. Empty: they do.")
    withheld: int = field(
        "Number of lines of which the reader may not see all. Their content cannot be checked; their order can.",
        minimum=0,
    )
    shown: str = field("SHA-256 of the lines as this report has them: each as canonical JSON, and a line feed.")


class Report(Shape):
    """What the orchestrator says of a deletion. The signature covers this object."""

    format: str = field("Name and version of this form.")
    made_at: str = time("When the report was made.")
    made_by: str = field("Name and release of the program.")
    key: str = field("Thumbprint (RFC 7638) of the key that signed. Empty: the report is unsigned.")
    proven: bool = field("Whether the report proves that the deletion was done.")
    verdict: str = field("The same as one sentence, with the exceptions.")
    deletion: Deletion = field("The deletion, as ``GET /v1/deletions/{id}`` shows it to the reader.")
    lock: Lock = field()
    facts: Facts = field()
    journal: Journal = field()
    remains: str = field("What stays outside of the APIs after a deletion, as the operator says.")
    rests_on: list[str] = field("What the report rests on, and who can make it say something false.")


class ReportLine(Event):
    """A line of the journal in a report. ``at`` has microseconds: the digest covers them."""

    withheld: bool = field("Whether the reader may not see all of the line.")


class SignedReport(Shape):
    """A report, the journal with which a reader checks it, and its signature."""

    journal: list[ReportLine] = field("All lines of the journal, the oldest first.")
    report: Report = field()
    signature: str | None = field(
        "Detached JWS (RFC 7515, appendix F) of the canonical JSON (RFC 8785) of ``report``. ``null``: the API has no "
        "key.",
    )
