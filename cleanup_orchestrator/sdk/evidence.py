"""The report of a deletion: what it proves, and the journal with which a reader checks it.

Written by ``python -m tests.sdk_source`` from the shapes of the API: change these, and write it anew.
"""

from __future__ import annotations

from openstack import resource

from cleanup_orchestrator.sdk.base import CleanupResource
from cleanup_orchestrator.sdk.deletions import Deletion
from cleanup_orchestrator.sdk.places import TypeInRegion
from cleanup_orchestrator.sdk.reports import Event


class NamedLine(CleanupResource):
    """A line of the journal that a fact comes from."""

    #: Number of the line in the journal.
    sequence: int = resource.Body("sequence", type=int)
    #: When the line was recorded.
    at: str = resource.Body("at", type=str)
    #: The line as text.
    message: str = resource.Body("message", type=str)


class RequestLine(NamedLine):
    """A line by which a person, or another client, began or changed the deletion."""

    #: Type of the line, such as ``deletion.accepted``.
    type: str = resource.Body("type", type=str)
    #: ID of the user. Empty: none is recorded.
    actor: str = resource.Body("actor", type=str)
    #: ID of the request. Empty: no request.
    request_id: str = resource.Body("request_id", type=str)


class EmptyInventory(CleanupResource):
    """A complete inventory of all services that found nothing."""

    #: Number of the line of the journal.
    sequence: int = resource.Body("sequence", type=int)
    #: When its round began. Empty: the journal does not say.
    began_at: str = resource.Body("began_at", type=str)
    #: When its last list was read.
    ended_at: str = resource.Body("ended_at", type=str)
    #: The line as text: what was left out.
    message: str = resource.Body("message", type=str)


class JournaledType(TypeInRegion):
    """How many resources of a type the journal names."""

    #: Resources whose delete was announced before it was sent, each time.
    announced: int = resource.Body("announced", type=int)
    #: Resources that were gone afterwards.
    deleted: int = resource.Body("deleted", type=int)
    #: Resources that were abandoned by force.
    abandoned: int = resource.Body("abandoned", type=int)


class Facts(CleanupResource):
    """What the lines of the journal say. A reader computes the same from the lines."""

    #: Status of the deletion after the last line.
    status: str = resource.Body("status", type=str)
    #: When the deletion entered that status, if it has ended. Empty: it has not.
    ended_at: str = resource.Body("ended_at", type=str)
    #: The requests, at most 100.
    requests: list[RequestLine] = resource.Body("requests", type=list, list_type=RequestLine)
    #: Number of further requests and further entries of ``unseen``.
    omitted: int = resource.Body("omitted", type=int)
    #: The line that says since when the lock holds. ``null``: none, in this attempt.
    lock: NamedLine | None = resource.Body("lock", type=NamedLine)
    #: The line that says since when the project is disabled. ``null``: none.
    closed: NamedLine | None = resource.Body("closed", type=NamedLine)
    #: The last two empty inventories in a row. Fewer: there is no proof.
    inventories: list[EmptyInventory] = resource.Body("inventories", type=list, list_type=EmptyInventory)
    #: Number of resources that were deleted.
    deleted: int = resource.Body("deleted", type=int)
    #: Number of resources that were abandoned by force.
    abandoned: int = resource.Body("abandoned", type=int)
    #: Types that were abandoned and could not be seen, at most 100.
    unseen: list[NamedLine] = resource.Body("unseen", type=list, list_type=NamedLine)
    #: The waivers that the deletion relied on.
    waivers: list[NamedLine] = resource.Body("waivers", type=list, list_type=NamedLine)
    #: The same counts for each type in each region.
    types: list[JournaledType] = resource.Body("types", type=list, list_type=JournaledType)


class Lock(CleanupResource):
    """What kept users out while the deletion was proved."""

    #: The driver, as far as ``evidence`` tells it. Empty: it does not.
    driver: str = resource.Body("driver", type=str)
    #: What the driver saw of the lock when it took hold. Empty: there was no lock.
    evidence: str = resource.Body("evidence", type=str)
    #: When the lock took hold. ``null``: there is none now.
    held_since: str | None = resource.Body("held_since", type=str)
    #: When the project was found or made disabled. ``null``: it was not.
    closed_since: str | None = resource.Body("closed_since", type=str)
    #: When the last token from before the lock had left the caches of all services. ``null``: there is no lock.
    settled_at: str | None = resource.Body("settled_at", type=str)
    #: The longest time in seconds for which a service caches a token, as configured when the report was made.
    token_cache_time: int = resource.Body("token_cache_time", type=int)
    #: Who could have changed this lock without a trace. Empty: only Keystone's operator.
    unseen_changes: str = resource.Body("unseen_changes", type=str)


class Journal(CleanupResource):
    """The hash chain of the journal, as the report was made."""

    #: Number of lines.
    length: int = resource.Body("length", type=int)
    #: Digest of the last line: it stands for all of them. Empty: there is no line.
    digest: str = resource.Body("digest", type=str)
    #: Why the stored lines do not lead to the digest. Empty: they do.
    problem: str = resource.Body("problem", type=str)
    #: Number of lines of which the reader may not see all. Their content cannot be checked; their order can.
    withheld: int = resource.Body("withheld", type=int)
    #: SHA-256 of the lines as this report has them: each as canonical JSON, and a line feed.
    shown: str = resource.Body("shown", type=str)


class Report(CleanupResource):
    """What the orchestrator says of a deletion. The signature covers this object."""

    #: Name and version of this form.
    format: str = resource.Body("format", type=str)
    #: When the report was made.
    made_at: str = resource.Body("made_at", type=str)
    #: Name and release of the program.
    made_by: str = resource.Body("made_by", type=str)
    #: Thumbprint (RFC 7638) of the key that signed. Empty: the report is unsigned.
    key: str = resource.Body("key", type=str)
    #: Whether the report proves that the deletion was done.
    proven: bool = resource.Body("proven", type=bool)
    #: The same as one sentence, with the exceptions.
    verdict: str = resource.Body("verdict", type=str)
    #: The deletion, as ``GET /v1/deletions/{id}`` shows it to the reader.
    deletion: Deletion = resource.Body("deletion", type=Deletion)
    #: What kept users out while the deletion was proved.
    lock: Lock = resource.Body("lock", type=Lock)
    #: What the lines of the journal say. A reader computes the same from the lines.
    facts: Facts = resource.Body("facts", type=Facts)
    #: The hash chain of the journal, as the report was made.
    journal: Journal = resource.Body("journal", type=Journal)
    #: What stays outside of the APIs after a deletion, as the operator says.
    remains: str = resource.Body("remains", type=str)
    #: What the report rests on, and who can make it say something false.
    rests_on: list[str] = resource.Body("rests_on", type=list, list_type=str)


class ReportLine(Event):
    """A line of the journal in a report. ``at`` has microseconds: the digest covers them."""

    #: Whether the reader may not see all of the line.
    withheld: bool = resource.Body("withheld", type=bool)


class SignedReport(CleanupResource):
    """A report, the journal with which a reader checks it, and its signature."""

    #: All lines of the journal, the oldest first.
    journal: list[ReportLine] = resource.Body("journal", type=list, list_type=ReportLine)
    #: What the orchestrator says of a deletion. The signature covers this object.
    report: Report = resource.Body("report", type=Report)
    #: Detached JWS (RFC 7515, appendix F) of the canonical JSON (RFC 8785) of ``report``. ``null``: the API has no key.
    signature: str | None = resource.Body("signature", type=str)
