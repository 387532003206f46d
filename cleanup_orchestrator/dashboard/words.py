"""What the API's words are called on the pages. A word that is not known here is shown as the API says it."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext_lazy as _

from cleanup_orchestrator.sdk import success

_STATUSES = {
    "accepted": _("Accepted"),
    "draining": _("Locking"),
    "inventory": _("Inventory"),
    "recoverable": _("Recoverable"),
    "deleting": _("Deleting"),
    "verifying": _("Verifying"),
    "deleted": _("Deleted"),
    "purged": _("Purged"),
    "leftovers": _("Leftovers"),
    "planned": _("Planned"),
    "cancelling": _("Cancelling"),
    "cancelled": _("Cancelled"),
    "failed": _("Failed"),
}

_CLASSES = {
    **dict.fromkeys(success.STATUSES, "good"),
    "leftovers": "warn",
    "cancelled": "plain",
    "failed": "bad",
}

_CONDITIONS = {
    "approval": _("Needs approval"),
    "blocked": _("Blocked"),
    "drained": _("Locked"),
    "forced": _("Forced"),
    "halted": _("Stopped for the recovery window"),
    "on_hold": _("On hold"),
    "plan_complete": _("Plan complete"),
    "project_gone": _("Project gone"),
    "scheduled": _("Waits for its date"),
    "settled": _("Old tokens expired"),
    "stalled": _("Stalled"),
    "waiting": _("Waiting for projects below"),
    "waived": _("Relies on waivers"),
}

_MODES = {
    "report": _("Report"),
    "cascade": _("Cascade"),
    "purge": _("Purge, keep the project"),
}


def status(value: str) -> Any:
    """Return a status in words."""
    return _STATUSES.get(value, value)


def status_class(value: str) -> str:
    """Return the CSS class of the label of a status."""
    return f"pc-label-{_CLASSES.get(value, 'moving')}"


def condition(value: str) -> Any:
    """Return the type of a condition in words."""
    return _CONDITIONS.get(value, value.replace("_", " ").capitalize())


def mode(value: str) -> Any:
    """Return a mode in words."""
    return _MODES.get(value, value)


#: All statuses, in the order of a deletion, with their words.
STATUSES = tuple(_STATUSES.items())
#: All modes, with their words.
MODES = tuple(_MODES.items())

_SCAN_STATUSES = {
    "accepted": _("Accepted"),
    "running": _("Running"),
    "waiting": _("Waiting for the second read"),
    "completed": _("Completed"),
    "incomplete": _("Incomplete"),
    "failed": _("Failed"),
    "cancelled": _("Cancelled"),
}

_SCAN_CLASSES = {"completed": "good", "incomplete": "warn", "failed": "bad", "cancelled": "plain"}


def scan_status(value: str) -> Any:
    """Return the status of an orphan scan in words."""
    return _SCAN_STATUSES.get(value, value)


def scan_status_class(value: str) -> str:
    """Return the CSS class of the label of the status of an orphan scan."""
    return f"pc-label-{_SCAN_CLASSES.get(value, 'moving')}"
