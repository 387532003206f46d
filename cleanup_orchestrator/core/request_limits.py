"""How many deletions a requester without the admin's rights on the cloud may request. Pure."""

from __future__ import annotations

import dataclasses
import datetime

DAY = datetime.timedelta(days=1)


@dataclasses.dataclass(frozen=True, slots=True)
class RequestLimits:
    """The limits, or the counts that are compared with them. Each name is an option of ``[api]``.

    All deletions count: every mode and every origin, with dry runs. As a limit, 0 means no limit.
    """

    live_per_requester: int = 0
    live_per_domain: int = 0
    daily_per_requester: int = 0
    daily_per_domain: int = 0


UNLIMITED = RequestLimits()


@dataclasses.dataclass(frozen=True, slots=True)
class Exceeded:
    """A limit that is reached, so that no further deletion may be requested."""

    option: str
    limit: int
    count: int

    @property
    def daily(self) -> bool:
        """Whether the requests of 24 hours count, and not the deletions under way."""
        return self.option.startswith("daily")

    @property
    def per_domain(self) -> bool:
        """Whether the deletions of the domain count, and not those that the user requested."""
        return self.option.endswith("domain")

    def __str__(self) -> str:
        """Say what is exceeded, and the way out."""
        whose = "in this domain" if self.per_domain else "by this user"
        if self.daily:
            text = f"{self.count} deletions, dry runs included, were requested {whose} within 24 hours"
            way = "try again later, or ask an admin of the cloud"
        else:
            text = f"{self.count} deletions that were requested {whose}, dry runs included, are under way"
            way = "wait for the end of some or cancel some, or ask an admin of the cloud"
        return f"{text}, and [api] {self.option} is {self.limit}: {way}"


def exceeded(limits: RequestLimits, counts: RequestLimits) -> Exceeded | None:
    """Return the first limit that is reached.

    A request for a tree of projects is accepted as a whole below the limits. ``[deletion] max_subtree`` limits it.
    """
    for field in dataclasses.fields(RequestLimits):
        limit, count = getattr(limits, field.name), getattr(counts, field.name)
        if limit and count >= limit:
            return Exceeded(field.name, limit, count)
    return None
