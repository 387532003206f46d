"""The actions on the table of Identity → Projects."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterable
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy
from horizon import tables

from cleanup_orchestrator.dashboard import calls

_PERMISSIONS = ("openstack.services.project-cleanup",)
_RULE = "cleanup:deletions:create"
#: The setting of Horizon that says what becomes of its own delete of projects, and its values.
SETTING = "PROJECT_CLEANUP_KEYSTONE_DELETE"
KEEP, RENAME, HIDE = "keep", "rename", "hide"


def request_url(project_ids: Iterable[str]) -> str:
    """Return the URL of the page that requests the deletion of projects."""
    query = urllib.parse.urlencode([("project", project_id) for project_id in project_ids])
    return f"{reverse('horizon:identity:project_deletions:request')}?{query}"


class DeleteWithContents(tables.LinkAction):
    """Opens the request page for the project of a row."""

    name = "delete_with_contents"
    verbose_name = _("Delete with contents…")
    url = "horizon:identity:project_deletions:request"
    action_type = "danger"

    def get_link_url(self, datum: Any = None) -> str:
        """Return the URL of the request page."""
        return request_url([datum.id] if datum is not None else [])

    def allowed(self, request: HttpRequest, datum: Any) -> bool:
        """Return whether the user may request the deletion of the project."""
        domain_id, project_id = getattr(datum, "domain_id", None), getattr(datum, "id", None)
        return bool(request.user.has_perms(_PERMISSIONS)) and calls.allowed(request, _RULE, domain_id, project_id)


class DeleteSelectedWithContents(tables.BatchAction):
    """Opens the request page for the selected rows.

    Horizon disables the button of a batch action while no row is selected.
    """

    name = "delete_selected_with_contents"
    help_text = ""
    icon = "trash"

    @staticmethod
    def action_present(count: int) -> Any:
        """Return the label."""
        return _("Delete with contents…")

    @staticmethod
    def action_past(count: int) -> Any:
        """Return the label: the request page says what was done."""
        return _("Delete with contents…")

    def allowed(self, request: HttpRequest, datum: Any) -> bool:
        """Return whether the user may request deletions of some projects."""
        return bool(request.user.has_perms(_PERMISSIONS)) and calls.allowed_somewhere(request, _RULE)

    def handle(self, table: Any, request: HttpRequest, obj_ids: Iterable[str]) -> HttpResponseRedirect:
        """Redirect to the request page. Nothing is requested yet."""
        return HttpResponseRedirect(request_url(obj_ids))


def _renamed(action: type) -> Any:
    """Return the delete of Horizon with a label that says what it leaves behind."""

    def label(count: int) -> Any:
        return ngettext_lazy("Delete Project (leaves its resources)", "Delete Projects (leaves their resources)", count)

    return type(action.__name__, (action,), {"action_present": staticmethod(label)})


def _change_delete(table: Any, delete: Any, choice: str) -> None:
    """Rename or hide Horizon's own delete of projects, which leaves their resources behind.

    The actions of other plugins stay, also one that has the same name.

    :param delete: class of Horizon's action
    :raises django.core.exceptions.ImproperlyConfigured: if the setting has another value
    """
    if choice not in (KEEP, RENAME, HIDE):
        raise ImproperlyConfigured(f"{SETTING} is {choice!r}; it must be 'keep', 'rename' or 'hide'")
    if choice == KEEP:
        return
    instead = (_renamed(delete),) if choice == RENAME else ()
    named = list[Any]()
    for name in ("row_actions", "table_actions", "table_actions_menu"):
        old = getattr(table._meta, name)
        new = tuple(each for action in old for each in (instead if action is delete else (action,)))
        setattr(table._meta, name, new)
        named += [action for action in new if action.name == delete.name]
    # Horizon finds an action of these lists by its name alone.
    table.base_actions.pop(delete.name, None)
    if named:
        others = [action for action in named if action not in instead]
        table.base_actions[delete.name] = (others or named)[0]()


def add() -> None:
    """Add the row action and the table action, once."""
    from openstack_dashboard.dashboards.identity.projects.tables import DeleteTenantsAction, TenantsTable

    options = TenantsTable._meta
    if DeleteWithContents.name in TenantsTable.base_actions:
        return
    _change_delete(TenantsTable, DeleteTenantsAction, getattr(settings, SETTING, KEEP))
    # Horizon makes one object of each action when it makes the class of the table.
    TenantsTable.base_actions |= {action.name: action() for action in (DeleteWithContents, DeleteSelectedWithContents)}
    options.row_actions = (*options.row_actions, DeleteWithContents)
    options.table_actions = (*options.table_actions, DeleteSelectedWithContents)
