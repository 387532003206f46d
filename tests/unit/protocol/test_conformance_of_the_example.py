"""The example service of the manual passes the conformance test, over HTTP and with tokens of a fixed table."""

import contextlib
import dataclasses
import sqlite3
import textwrap

import pytest
from keystoneauth1 import token_endpoint

from cleanup_orchestrator import protocol
from cleanup_orchestrator.cloud import session as cloud_session
from cleanup_orchestrator.cmd import protocol_check
from cleanup_orchestrator.protocol import Unavailable, conformance
from cleanup_orchestrator.protocol.conformance import Callers, Options, Verdict
from tests.support import liars
from tests.support.liars import OTHER, PROJECT
from tests.unit.protocol import example

pytestmark = pytest.mark.usefixtures("no_retries")


def with_tokens(application):
    """Return an application behind what keystonemiddleware does: it validates the token and writes what it says."""

    def validated(environ, start_response):
        identity = liars.TOKENS.get(environ.get("HTTP_X_AUTH_TOKEN", ""))
        if identity is None:
            start_response("401 Unauthorized", [("Content-Type", "text/html")])
            return [b"Authentication required"]
        said = {"user": {"id": "u"}, "roles": [{"name": role} for role in identity.roles]}
        said["project"] = {"id": identity.project_id}
        more = {"HTTP_X_IDENTITY_STATUS": "Confirmed", "keystone.token_info": {"token": said}}
        return application({**environ, **more}, start_response)

    return validated


def failing(provider):
    """Return a provider whose store does not answer."""

    def unavailable(*_arguments):
        raise Unavailable("The store does not answer.")

    return dataclasses.replace(provider, list=unavailable, show=unavailable, delete=unavailable)


def resources():
    """Return two rows of each type in each project; orders belong to widgets, so they are deleted first."""
    rows = []
    for mark, project in (("1", PROJECT), ("2", OTHER)):
        for number in range(2):
            ids = {name: f"{mark}{kind}00000{number}-0000-4000-8000-000000000000" for kind, name in enumerate(TYPES)}
            for name, id_ in ids.items():
                widget = ids["widget"] if name in ("part", "order") else None
                rows.append((id_, project, name, name, "2026-03-02T08:00:00Z", widget, OTHER, 0, None))
    return rows


TYPES = ("widget", "part", "order", "note", "rule")


@pytest.fixture
def store(tmp_path):
    """The module of the example service, on a database with resources."""
    return example.configured(tmp_path, resources(), cancel_seconds=0.3)


def checked(provider, api=None):
    """Return the findings about a service with a provider, beside its own API."""

    def served(provider):
        application = protocol.mounted(protocol.app(provider), beside=api)
        # The server has the application at its root.
        return liars.serve(with_tokens(application), endpoint="")

    def sender(url, token, **kwargs):
        session = cloud_session.GuardedSession(
            protocol_check.below([url]), auth=token_endpoint.Token(url, token), session=cloud_session.http_pool()
        )
        return protocol_check.sender(session, url, **kwargs)

    with served(provider) as whole, served(failing(provider)) as broken:
        base, down = f"{whole}/{protocol.PATH}", f"{broken}/{protocol.PATH}"
        callers = Callers(
            service=sender(base, liars.SERVICE_TOKEN),
            anonymous=sender(base, "", authenticated=False),
            member=sender(base, liars.MEMBER_TOKEN),
            without_backend=sender(down, liars.SERVICE_TOKEN),
        )
        options = Options(PROJECT, OTHER, "widget-store", PROJECT, delete=True, wait=10)
        return list(conformance.run(callers, options))


def test_it_passes_every_check(store):
    findings = checked(store.PROVIDER, store.api)
    assert [(one.rule, one.text) for one in findings if one.verdict is not Verdict.OK] == []
    with contextlib.closing(sqlite3.connect(store.SETTINGS.database)) as connection:
        left = connection.execute("SELECT type, COUNT(*) FROM resource WHERE project_id = ? GROUP BY type", (PROJECT,))
        assert dict(left) == {}
        left = connection.execute("SELECT type, COUNT(*) FROM resource WHERE project_id = ? GROUP BY type", (OTHER,))
        assert dict(left) == dict.fromkeys(TYPES, 2)


@dataclasses.dataclass
class Widget:
    """A row of the database that the text of the manual uses."""

    id: str
    owner: str
    name: str


class Database:
    """The database that the text of the manual uses."""

    def __init__(self):
        owners = ((mark, project) for mark, project in (("1", PROJECT), ("2", OTHER)))
        self.rows = [
            Widget(f"{mark}000000{number}-0000-4000-8000-000000000000", project, "wheel")
            for mark, project in owners
            for number in range(3)
        ]

    def widgets(self, owner, after, limit):
        return [row for row in self.rows if row.owner == owner and (after is None or row.id > after)][:limit]

    def widget(self, owner, id):
        return next((row for row in self.rows if (row.owner, row.id) == (owner, id)), None)

    def delete_widget(self, owner, id):
        self.rows.remove(self.widget(owner, id))


def test_the_first_example_of_the_manual_passes_every_check():
    page = (example.ROOT / "doc" / "source" / "protocol" / "joining.rst").read_text()
    code = textwrap.dedent(page.partition("in front of both::\n")[2].partition("    both = ")[0])
    names = {"database": Database()}
    exec(compile(code, "joining.rst", "exec"), names)
    findings = checked(names["PROVIDER"])
    assert [(one.rule, one.text) for one in findings if one.verdict is Verdict.FAILED] == []
    # It has one type, and neither optional functions nor what users wrote.
    assert {one.rule for one in findings if one.verdict is Verdict.NOT_CHECKED} == {
        "member-of-another", "drain", "delete-not-offered", "delete-all", "deleted-with",
    }  # fmt: skip
    assert [row.owner for row in names["database"].rows] == [OTHER] * 3
