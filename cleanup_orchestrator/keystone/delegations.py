"""Lists by project what Keystone's own API lists by user only.

The owner of an application credential or an OAuth1 access token may have lost every role that shows, and Keystone may
not know the user at all: a federated user, or a user of a directory. Keystone's API then lists the row to a caller who
names the user, and to no other. So a deletion could not find it. These lists read the tables by the column
``project_id``, also of projects that are gone::

    GET /v3/OS-PROJECT-CLEANUP
    GET /v3/OS-PROJECT-CLEANUP/projects/{project_id}/{kind}?limit=1000&marker=...

The project id ``-`` stands for all projects. The first call answers which kinds there are. The lists are for the
orchestrator alone: its user, logged in with its password, with the role of an admin. They show ids, names and users,
and no secret, no hash of one and no blob. Each page is one query with a limit.

A kind is not served if this Keystone has another driver for it, or if the model lacks a column: the tables that are
read here would be empty, or another release's. The caller then gets a 404 for it, and asks by user.

Access rules are not here: they name a user and no project, and stay with the user.
"""

from __future__ import annotations

import dataclasses
import datetime
import importlib
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from oslo_log import log

from cleanup_orchestrator.keystone.protocol import DELEGATIONS_PATH, ID_PATTERN

if TYPE_CHECKING:
    import flask

    from cleanup_orchestrator.keystone.guard import Guard

LOG = log.getLogger(__name__)

#: Rows of a page: the default, and the most that a caller may ask for.
PAGE = 1000
#: Stands for all projects, as the id of one.
ALL = "-"
_ID = re.compile(ID_PATTERN)
_NUMBER = re.compile(r"[0-9]{1,18}")


@dataclasses.dataclass(frozen=True)
class Kind:
    """One table that is listed, and what of it is shown."""

    name: str  #: in the path, and the key of the list in the answer
    api: str  #: Keystone's name of the manager whose driver has the table
    driver: str  #: the module of the only driver whose table is read
    model: str  #: the class in that module
    #: What a row shows: the name in the answer, and attributes of the model, of which the first with a value counts.
    fields: tuple[tuple[str, tuple[str, ...]], ...]
    key: str = "id"  #: the attribute by which pages follow each other: unique, and in an index
    deleted: str = ""  #: the attribute that is set in a row that counts as deleted

    def attributes(self) -> tuple[str, ...]:
        """Return all attributes of the model that are read."""
        shown = (name for _, names in self.fields for name in names)
        return tuple(dict.fromkeys((self.key, "project_id", *shown, *filter(None, (self.deleted,)))))


def _plain(*names: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return tuple((name, (name,)) for name in names)


KINDS = (
    Kind(
        "application_credentials",
        "application_credential_api",
        "keystone.application_credential.backends.sql",
        "ApplicationCredentialModel",
        _plain("id", "name", "user_id", "project_id"),
        key="internal_id",
    ),
    Kind(
        "oauth1_access_tokens",
        "oauth_api",
        "keystone.oauth1.backends.sql",
        "AccessToken",
        (*_plain("id", "consumer_id", "project_id"), ("user_id", ("authorizing_user_id",))),
    ),
    Kind(
        "trusts",
        "trust_api",
        "keystone.trust.backends.sql",
        "TrustModel",
        (
            *_plain("id", "trustor_user_id", "trustee_user_id", "project_id", "remaining_uses"),
            ("expires_at", ("expires_at_int", "_expires_at")),
        ),
        deleted="deleted_at",
    ),
    Kind(
        "credentials",
        "credential_api",
        "keystone.credential.backends.sql",
        "CredentialModel",
        _plain("id", "type", "user_id", "project_id"),
    ),
)


class BadQuery(ValueError):
    """A parameter of the request is malformed."""


@dataclasses.dataclass(frozen=True)
class Page:
    """Which rows are wanted."""

    limit: int = PAGE
    marker: str = ""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Page:
        """Read a page from the query of a request.

        :raises BadQuery: the limit is no number of rows that a page may have, or the marker is malformed
        """
        limit, marker = query.get("limit", str(PAGE)), query.get("marker", "")
        if not _NUMBER.fullmatch(limit) or not 1 <= int(limit) <= PAGE:
            raise BadQuery(f"limit must be between 1 and {PAGE}")
        if marker and not _ID.fullmatch(marker):
            raise BadQuery("marker is not one that this list gave")
        return cls(int(limit), marker)


def shown(kind: Kind, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the answer shows of a row.

    :param row: the values by attribute of the model
    """
    return {
        name: _json(next((row[each] for each in attributes if row[each] is not None), None))
        for name, attributes in kind.fields
    }


def _json(value: Any) -> Any:
    """Return a value as JSON has it; a time without a zone is in UTC."""
    if isinstance(value, datetime.datetime):
        value = value if value.tzinfo else value.replace(tzinfo=datetime.timezone.utc)
        return value.isoformat()
    return value


# --------------------------------------------------------------------------------------------------- around Keystone
def served(apis: Any) -> dict[str, tuple[Kind, Any]]:
    """Return the kinds that this Keystone has, each with its model.

    :param apis: Keystone's ``ProviderAPIs``
    """
    kinds = {}
    for kind in KINDS:
        driver = getattr(getattr(apis, kind.api, None), "driver", None)
        if driver is None or type(driver).__module__ != kind.driver:
            LOG.warning("%s are not listed by project: their driver is not %s", kind.name, kind.driver)
            continue
        model = getattr(importlib.import_module(kind.driver), kind.model, None)
        lacks = [name for name in kind.attributes() if not hasattr(model, name)]
        if lacks:
            LOG.warning("%s are not listed by project: %s lacks %s", kind.name, kind.model, ", ".join(lacks))
            continue
        kinds[kind.name] = (kind, model)
    return kinds


def read(kind: Kind, model: Any, project_id: str, page: Page) -> tuple[list[dict[str, Any]], str]:
    """Return the rows of a page, and the marker of the next one, by one query in a new transaction.

    :param project_id: :data:`ALL`: of all projects
    :returns: an empty marker after the last page
    :raises BadQuery: the marker is not one that this list gave
    """
    from keystone.common import sql

    key, names = getattr(model, kind.key), kind.attributes()
    with sql.session_for_read() as session:
        query = session.query(*(getattr(model, name) for name in names))
        owner = model.project_id
        query = query.filter(owner.isnot(None) if project_id == ALL else owner == project_id)
        if kind.deleted:
            query = query.filter(getattr(model, kind.deleted).is_(None))
        if page.marker:
            query = query.filter(key > _marker(key, page.marker))
        # One row more than the page: it tells whether another page follows.
        rows = [dict(zip(names, row)) for row in query.order_by(key).limit(page.limit + 1)]
    following = str(rows[page.limit - 1][kind.key]) if len(rows) > page.limit else ""
    return [shown(kind, row) for row in rows[: page.limit]], following


def _marker(key: Any, marker: str) -> Any:
    if not issubclass(key.type.python_type, int):
        return marker
    if not _NUMBER.fullmatch(marker):
        raise BadQuery("marker is not one that this list gave")
    return int(marker)


def install(application: flask.Flask, guard: Guard) -> None:
    """Add the lists to Keystone's Flask application."""
    from keystone.common import provider_api

    lists = Lists(served(provider_api.ProviderAPIs), guard)
    for path, view in lists.views().items():
        application.add_url_rule(f"/v3{DELEGATIONS_PATH}{path}", f"project_cleanup{path}", view, methods=["GET"])


class Lists:
    """The views. Each raises Keystone's own errors, which Keystone's application turns into answers."""

    def __init__(self, kinds: Mapping[str, tuple[Kind, Any]], guard: Guard) -> None:
        self._kinds, self._guard = kinds, guard

    def views(self) -> dict[str, Callable[..., Any]]:
        """Return the views by path."""
        return {"": self.kinds, "/projects/<string:project_id>/<string:kind>": self.rows}

    def kinds(self) -> Any:
        """Answer which kinds there are."""
        import flask

        self._expect_orchestrator()
        return flask.jsonify({"kinds": sorted(self._kinds)})

    def rows(self, project_id: str, kind: str) -> Any:
        """Answer a page of a list."""
        import flask
        from keystone import exception

        self._expect_orchestrator()
        if kind not in self._kinds or not _ID.fullmatch(project_id):
            raise exception.NotFound("There is no such list.")
        try:
            page = Page.of(flask.request.args)
            rows, following = read(*self._kinds[kind], project_id, page)
        except BadQuery as error:
            raise exception.ValidationError(str(error)) from None
        query = urlencode({"limit": page.limit, "marker": following})
        link = f"{flask.request.base_url}?{query}" if following else None
        return flask.jsonify({kind: rows, "links": {"next": link}})

    def _expect_orchestrator(self) -> None:
        """Refuse each caller but the orchestrator.

        It must be an admin, too: an operator who takes that role away from it takes these lists away.
        """
        from keystone import exception

        caller = self._guard.caller()
        if caller is None:
            raise exception.Unauthorized("These lists are for cleanup-orchestrator.")
        if not caller.orchestrator or not caller.is_admin():
            raise exception.ForbiddenNotSecurity(
                "These lists are for cleanup-orchestrator: the user of [project_cleanup] user_id in keystone.conf, "
                "logged in with its password, with the role admin."
            )
