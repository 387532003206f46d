"""The tabs of the page of a deletion: which there are, and what each of them shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from openstack import exceptions as sdk_exceptions

from cleanup_orchestrator import sdk
from cleanup_orchestrator.dashboard import calls, pages
from cleanup_orchestrator.dashboard.deletions import listing, progress, remedies, states
from cleanup_orchestrator.dashboard.deletions.request.forms import SELECTING

Content = Callable[[HttpRequest, sdk.Proxy, sdk.Deletion], dict[str, Any]]

#: Where a person does what a deletion needs: the page, and the rule of the policy; "?": a tab of this page.
_PLACES = {
    "blocked": ("?tab=leftovers", ""),
    "leftovers": ("?tab=leftovers", ""),
    "lien": ("horizon:identity:project_liens:index", "cleanup:liens:list"),
    "brake": ("horizon:identity:project_brake:index", "cleanup:brake:get"),
}
#: Entries of a page of the journal.
_ENTRIES = 100
#: Resources of a page.
_RESOURCES = 50
#: What a plan does with a resource.
_ACTIONS = {"delete": _("To delete"), "keep": _("To keep"), "protect": _("Protected")}


#: Fields of a deletion that the pages show in their own way, or that concern only programs. A field that is not here,
#: such as one of a newer server, is shown with the facts.
_PLACED = frozenset(
    {
        *("id", "project_id", "project_name", "domain_id", "mode", "dry_run", "include_subtree", "parent_deletion_id"),
        *("origin", "status", "reason", "message", "summary", "attention", "attention_message", "attempt"),
        *("cancellable", "retryable", "restorable", "forcible", "plan_id", "plan_hash", "point_of_no_return_at"),
        *("user_id", "user_name", "request_id", "created_at", "updated_at", "status_at", "progress_at"),
        *("request_reason", "ticket", "not_before", "finished_at", "drained_at", "project_gone_at", "settle_until"),
    }
)


class Tab(NamedTuple):
    """A tab."""

    name: str
    label: Any
    content: Content
    #: Number behind the label; ``None``: no number.
    number: int | None = None


def of_deletion(request: HttpRequest, deletion: sdk.Deletion) -> list[Tab]:
    """Return the tabs that have content for a deletion."""
    tabs = [
        Tab("overview", _("Overview"), _overview),
        Tab(
            "leftovers",
            _("Found resources") if deletion.dry_run else _("Leftovers"),
            _leftovers,
            deletion.progress.remaining,
        ),
        Tab("journal", _("Journal"), _journal),
    ]
    if deletion.children:
        tabs.append(Tab("children", _("Projects below"), _children, len(deletion.children)))
    if states.plan_of(deletion) and calls.allowed_for(request, "cleanup:plans:get", deletion):
        tabs.append(Tab("plan", _("Plan"), _plan))
    return tabs


def _attention_url(request: HttpRequest, deletion: sdk.Deletion) -> str:
    page, rule = next((_PLACES[cause] for cause in deletion.attention if cause in _PLACES), ("", ""))
    if not rule:
        return page
    return str(reverse(page)) if calls.allowed(request, rule) else ""


def _overview(request: HttpRequest, proxy: sdk.Proxy, deletion: sdk.Deletion) -> dict[str, Any]:
    counts = deletion.counts or []
    notable = [each for each in counts if each.found or each.kept or each.outcome not in ("clear", "")]
    others = [each for each in counts if each not in notable]
    selection = deletion.selection
    criteria = selection and any(getattr(selection, name) for name in SELECTING)
    # What the blockers say stands there, and not a second time beside the numbers and in the conditions.
    blocked = {(each.region, each.service, each.type) for each in deletion.blockers or ()}
    said = [each.message if (each.region, each.service, each.type) not in blocked else "" for each in notable]
    conditions = [each for each in deletion.conditions or () if not (blocked and each.type == "blocked")]
    return {
        "steps": states.steps(deletion),
        "counts": list(zip(notable, said)),
        "shown_conditions": conditions,
        "nothing": [each for each in others if each.outcome],
        "not_listed": [each for each in others if not each.outcome],
        "lists_only": states.lists_only(deletion),
        "now": progress.of(deletion, timezone.now()),
        "selects": bool(criteria),
        "attention_url": _attention_url(request, deletion),
        "further": _further(deletion),
    }


def _further(deletion: sdk.Deletion) -> dict[str, str]:
    """Return by title the texts and numbers of a deletion that the page shows nowhere else."""
    simple = {name: value for name, value in deletion.items() if name not in _PLACED and isinstance(value, (str, int))}
    return {name.replace("_", " ").capitalize(): str(value) for name, value in simple.items() if value != ""}


def _leftovers(request: HttpRequest, proxy: sdk.Proxy, deletion: sdk.Deletion) -> dict[str, Any]:
    wanted = {name: request.GET.get(name) or None for name in ("region", "service", "type")}
    path, marker = listing.of_deletion(deletion.id, "leftovers"), request.GET.get("marker", "")
    try:
        rows, following = listing.page_of(proxy, sdk.Leftover, path, marker, _RESOURCES, **wanted)
    except sdk.ApiError as exc:
        if exc.status_code != 400:
            raise
        rows, following = [], ""  # a service or a type that the cloud does not have
    return {
        "services": remedies.by_service(rows),
        "wanted": {name: value for name, value in wanted.items() if value},
        **_links(request, marker, following),
    }


def _journal(request: HttpRequest, proxy: sdk.Proxy, deletion: sdk.Deletion) -> dict[str, Any]:
    path, marker = listing.of_deletion(deletion.id, "events"), request.GET.get("marker", "")
    rows, following = listing.page_of(proxy, sdk.Event, path, marker, _ENTRIES)
    return {"rows": rows, **_links(request, marker, following)}


def _children(request: HttpRequest, proxy: sdk.Proxy, deletion: sdk.Deletion) -> dict[str, Any]:
    return {"rows": deletion.children}


def _plan(request: HttpRequest, proxy: sdk.Proxy, deletion: sdk.Deletion) -> dict[str, Any]:
    plan_id, action = states.plan_of(deletion), request.GET.get("action", "")
    if action not in _ACTIONS:
        action = ""
    context = {"plan_id": plan_id, "action": action, "plan_actions": _ACTIONS.items()}
    try:
        plan = proxy.get_plan(plan_id)
        path, marker = listing.of_plan(plan_id), request.GET.get("marker", "")
        rows, following = listing.page_of(proxy, sdk.PlannedResource, path, marker, _RESOURCES, action=action)
    except sdk_exceptions.NotFoundException:
        return context | {"plan": None}
    types = [each for each in plan.types if each.delete or each.keep or each.protect or not each.known]
    return context | {"plan": plan, "types": types, "rows": rows, **_links(request, marker, following)}


def _links(request: HttpRequest, marker: str, following: str) -> dict[str, str]:
    return {
        "next_url": pages.next_link(request, following) if following else "",
        "first_url": pages.first_link(request) if marker else "",
    }
