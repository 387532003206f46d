"""Where Horizon shows a resource, in a panel that shows the resources of all projects."""

from __future__ import annotations

from typing import NamedTuple

import horizon
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from horizon.base import NotRegistered


class Place(NamedTuple):
    """A page of a panel that takes the ID of a resource."""

    panel: str
    #: Name of the page in the panel.
    page: str = "detail"


#: The panels of the dashboard Admin. A page of the dashboard Project shows only the resources of the current project.
_PLACES = {
    "block-storage.backup": Place("backups"),
    "block-storage.group": Place("volume_groups"),
    "block-storage.group_snapshot": Place("vg_snapshots"),
    "block-storage.snapshot": Place("snapshots"),
    "block-storage.volume": Place("volumes"),
    "compute.server": Place("instances"),
    "image.image": Place("images"),
    "network.floating_ip": Place("floating_ips"),
    "network.network": Place("networks"),
    "network.port": Place("networks", "ports:detail"),
    "network.router": Place("routers"),
    "network.subnet": Place("networks", "subnets:detail"),
    "network.trunk": Place("trunks"),
    "shared-file-system.share": Place("shares"),
    "shared-file-system.share_network": Place("share_networks", "share_network_detail"),
    "shared-file-system.snapshot": Place("share_snapshots", "share_snapshot_detail"),
}


def of_resource(request: HttpRequest, type_: str, id_: str, region: str = "") -> str:
    """Return the URL of a resource's page, or an empty text if the user sees none.

    :param type_: as ``service.type``
    :param region: region of the resource; Horizon shows those of one region at a time. Empty: unknown, or none
    """
    place = _PLACES.get(type_)
    if place is None or not id_ or (region and region != request.user.services_region):
        return ""
    return _url(request, "admin", place, id_)


def of_project(request: HttpRequest, project_id: str | None) -> str:
    """Return the URL of a project's page, or an empty text if the user sees none."""
    return _url(request, "identity", Place("projects"), project_id) if project_id else ""


def _url(request: HttpRequest, dashboard: str, place: Place, id_: str) -> str:
    if id_ in (".", ".."):  # a browser takes them for folders, and opens another page
        return ""
    try:
        registered = horizon.get_dashboard(dashboard)
        context = {"request": request}
        if not registered.can_access(context) or not registered.get_panel(place.panel).can_access(context):
            return ""
        return str(reverse(f"horizon:{dashboard}:{place.panel}:{place.page}", args=[id_]))
    except (NotRegistered, NoReverseMatch):
        return ""
