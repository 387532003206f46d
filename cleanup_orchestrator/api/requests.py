"""What a request for a deletion says about itself: its date, its reason and its ticket."""

from __future__ import annotations

import datetime
from typing import Any

from cleanup_orchestrator.api import inputs
from cleanup_orchestrator.api.context import ApiContext, Body
from cleanup_orchestrator.core.deletion import Deletion
from cleanup_orchestrator.core.times import utc

#: By name in ``[deletion] required``: the field of the body.
_REQUIRED = {"reason": "request_reason", "ticket": "ticket"}


def read(context: ApiContext, body: Body) -> dict[str, Any]:
    """Return the fields of a new deletion.

    :raises ApiError: 400 invalid_body: a field that the operator requires is missing, or the date is not allowed
    """
    dry_run = body.get("dry_run", False)
    for name in () if dry_run else context.required:
        if _REQUIRED[name] not in body:
            raise inputs.invalid_field(_REQUIRED[name], "is required in this cloud ([deletion] required)")
    if dry_run and "not_before" in body:
        raise inputs.invalid_field(
            "not_before", "cannot be given for a dry run: it changes nothing, and begins at once"
        )
    now = context.store.now() if "not_before" in body else datetime.datetime.min
    return texts(body) | ({"not_before": date(context, body["not_before"], now, now)} if "not_before" in body else {})


def texts(body: Body) -> dict[str, str]:
    """Return the reason and the ticket, as far as they are given."""
    return {name: body[name].strip() for name in ("request_reason", "ticket") if name in body}


def said(record: Deletion) -> tuple[str, dict[str, str]]:
    """Return the date, the reason and the ticket of a deletion for its first journal line: its text, and its data."""
    data = {name: value for name in ("request_reason", "ticket") if (value := getattr(record, name))}
    text = f", ticket '{record.ticket}'" if record.ticket else ""
    text += f": {record.request_reason}" if record.request_reason else ""
    if record.not_before is None:
        return text, data
    at = utc(record.not_before)
    return f", not before {at}{text}", data | {"not_before": at}


def agree(existing: Deletion, wanted: Deletion) -> bool:
    """Return whether the date, the reason and the ticket of a request are those of the deletion under way.

    A request without a reason or a ticket agrees with every one.
    """
    texts = ((existing.request_reason, wanted.request_reason), (existing.ticket, wanted.ticket))
    return existing.not_before == wanted.not_before and all(asked in ("", known) for known, asked in texts)


def date(
    context: ApiContext, text: str | None, requested_at: datetime.datetime, now: datetime.datetime
) -> datetime.datetime:
    """Return the date of a deletion; ``None``: now.

    :param requested_at: the request of the deletion, by the database's clock, as ``now``
    :raises ApiError: 400 invalid_body: it is not later than now, or too late
    """
    if text is None:
        return now
    at = inputs.moment(text, "not_before")
    if at <= now:
        raise inputs.invalid_field("not_before", f"must be later than now, which is {utc(now)}")
    if at - requested_at > context.max_delay:
        days = context.max_delay.days
        text = f"may be at most {days} days after the request ([deletion] max_delay): {utc(requested_at)}"
        raise inputs.invalid_field("not_before", text)
    return at
