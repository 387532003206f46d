"""What services answered when they were asked whether they speak the project resources protocol."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from cleanup_orchestrator.core import storable
from cleanup_orchestrator.store import records
from cleanup_orchestrator.store import tables as t
from cleanup_orchestrator.store.database import CLOCK, Repository, database_time
from cleanup_orchestrator.store.transient import retry_duplicate, retry_transient


class Spoken(StrEnum):
    """What a service answered last."""

    DOCUMENT = "document"  #: a valid document: it speaks the protocol
    ABSENT = "absent"  #: 404: it does not speak the protocol
    INVALID = "invalid"  #: a document that cannot be used
    SILENT = "silent"  #: an error, or nothing: whether it speaks the protocol is unknown


@dataclasses.dataclass(frozen=True, slots=True)
class ProtocolService:
    """One service in one region that was asked."""

    region: str
    service_type: str  #: as in steps: for the second service of a type with its name
    url: str  #: of the capabilities
    spoken: Spoken
    asked_at: datetime.datetime | None = None  #: UTC; set when it is saved
    document: Mapping[str, Any] | None = None  #: the last valid one; ``None``: there never was one
    digest: str = ""  #: of the document
    read_at: datetime.datetime | None = None  #: UTC; when the document was read
    error: str = ""  #: why the last answer is no valid document


class ProtocolServices(Repository):
    """Reads and writes what services answered."""

    @retry_transient
    def list(self, region: str | None = None) -> tuple[tuple[ProtocolService, ...], datetime.datetime]:
        """Return the services of a region, or of all regions, and the time of the database."""
        query = sa.select(t.protocol_services).order_by(
            t.protocol_services.c.region, t.protocol_services.c.service_type
        )
        if region is not None:
            query = query.where(t.protocol_services.c.region == region)
        with self._database.read() as c:
            rows = c.execute(query.add_columns(CLOCK)).all()
            now = database_time(rows[0] if rows else c)
        names = [field.name for field in dataclasses.fields(ProtocolService)]
        values = [{name: row._mapping[name] for name in names} for row in rows]
        return tuple(ProtocolService(**{**each, "spoken": Spoken(each["spoken"])}) for each in values), now

    @retry_transient
    @retry_duplicate
    def save(self, answer: ProtocolService) -> None:
        """Save what a service answered just now.

        An answer without a document leaves the last document, with its digest and time, on record.
        """
        table = t.protocol_services
        mine = sa.and_(table.c.region == answer.region, table.c.service_type == answer.service_type)
        with self._database.begin() as c:
            now = database_time(c)
            error = storable.text(answer.error)
            values = {"url": answer.url, "spoken": str(answer.spoken), "asked_at": now, "error": error}
            if answer.document is not None:
                values |= {"document": records.plain(answer.document), "digest": answer.digest, "read_at": now}
            if c.execute(table.update().where(mine).values(values)).rowcount:
                return
            key = {"region": answer.region, "service_type": answer.service_type}
            c.execute(table.insert().values({"document": None, "digest": "", "read_at": None, **key, **values}))
