"""The brake and liens, which hold deletions, and waivers, which let them go on."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

from cleanup_orchestrator.core.times import utc


@dataclasses.dataclass(frozen=True, slots=True)
class Brake:
    """The switch that stops every lock and every delete until it is lifted."""

    on: bool
    reason: str = ""  #: why it was set; kept when it is lifted
    since: datetime.datetime | None = None  #: when it was set or lifted; none: never
    user_id: str = ""  #: the user who did
    user_name: str = ""
    request_id: str = ""  #: of that API call

    def to_dict(self) -> dict[str, Any]:
        """Return the values for JSON, with the time as text."""
        return _plain(dataclasses.asdict(self))

    @property
    def explained(self) -> str:
        """Return who set the brake, when and why, only for users who may read the brake."""
        since = f" at {utc(self.since)}" if self.since else ""
        return f"the brake, set by {self.user_name or self.user_id or 'an unknown user'}{since}: {self.reason}"


@dataclasses.dataclass(frozen=True, slots=True)
class Lien:
    """A protection of one project: while in force, it allows no lock and no delete."""

    id: str
    project_id: str  #: Keystone may not know it
    origin: str  #: the department or system that needs it, such as ``billing`` or ``legal``
    reason: str
    created_at: datetime.datetime
    expires_at: datetime.datetime | None = None  #: none: it is in force until it is removed
    user_id: str = ""  #: the user who recorded it
    user_name: str = ""
    request_id: str = ""  #: of the API call that recorded it
    deleted_at: datetime.datetime | None = None  #: when it was removed; the record is kept
    deleted_by: str = ""  #: id of the user who removed it

    def in_force(self, now: datetime.datetime) -> bool:
        """Whether the lien is in force at a time of the database's clock."""
        return self.deleted_at is None and (self.expires_at is None or now < self.expires_at)

    def to_dict(self) -> dict[str, Any]:
        """Return the values for JSON, with times as text."""
        return _plain(dataclasses.asdict(self))

    def __str__(self) -> str:
        """Return project, origin and end, for all users who see the deletion."""
        until = f"until {utc(self.expires_at)}" if self.expires_at else "until it is removed"
        return f"lien {self.id} of {self.origin} on project {self.project_id} {until}"

    @property
    def explained(self) -> str:
        """Return the text with the reason, only for users who may read liens."""
        return f"{self}: {self.reason}"


@dataclasses.dataclass(frozen=True, slots=True)
class Waiver:
    """An admin's decision that deletions do not list a service. Empty: not limited."""

    id: str
    service_type: str  #: official
    reason: str
    created_at: datetime.datetime
    expires_at: datetime.datetime
    region: str = ""  #: empty: in every region
    project_id: str = ""  #: empty: for every project
    user_id: str = ""  #: the user who recorded it
    user_name: str = ""
    request_id: str = ""  #: of the API call that recorded it
    deleted_at: datetime.datetime | None = None  #: when it was withdrawn; the record is kept
    deleted_by: str = ""  #: id of the user who withdrew it

    def in_force(self, now: datetime.datetime) -> bool:
        """Whether the waiver is in force at a time of the database's clock."""
        return self.deleted_at is None and now < self.expires_at

    def covers(self, service_type: str, region: str) -> bool:
        """Whether the waiver covers a catalog entry."""
        return self.service_type == service_type and self.region in ("", region)

    def to_dict(self) -> dict[str, Any]:
        """Return the values for JSON, with times as text."""
        return _plain(dataclasses.asdict(self))

    def __str__(self) -> str:
        """Return service, user and end, for all users who see a deletion with it."""
        where = f"in region {self.region}" if self.region else "in every region"
        who = self.user_name or self.user_id or "an unknown user"
        return f"{self.service_type} {where}: waiver {self.id} of {who} until {utc(self.expires_at)}"

    @property
    def explained(self) -> str:
        """Return the text with the reason, only for users who may read waivers."""
        return f"{self}: {self.reason}"


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """Return values with times as text, for JSON."""
    return {k: v.isoformat() if isinstance(v, datetime.datetime) else v for k, v in values.items()}
