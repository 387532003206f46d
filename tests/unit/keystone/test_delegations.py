"""The lists by project in Keystone: who gets them, what they show, and their pages. Keystone itself: tests/cloud."""

import contextlib
import datetime
import json
import sys
import types
from typing import Optional
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
import sqlalchemy
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import orm

from cleanup_orchestrator.keystone import delegations
from cleanup_orchestrator.keystone.delegations import ALL, KINDS, PAGE, BadQuery, Page
from cleanup_orchestrator.keystone.guard import Caller

BY_NAME = {kind.name: kind for kind in KINDS}
#: Columns that no answer may contain.
SECRET = {"secret_hash", "access_secret", "_encrypted_blob", "key_hash", "blob"}


class Base(orm.DeclarativeBase):
    """The tables of Keystone, with the columns that are read and those that must not be."""


class ApplicationCredentialModel(Base):
    __tablename__ = "application_credential"
    internal_id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    id: orm.Mapped[str]
    name: orm.Mapped[str]
    secret_hash: orm.Mapped[str]
    user_id: orm.Mapped[str]
    project_id: orm.Mapped[Optional[str]]


class AccessToken(Base):
    __tablename__ = "access_token"
    id: orm.Mapped[str] = orm.mapped_column(primary_key=True)
    access_secret: orm.Mapped[str]
    authorizing_user_id: orm.Mapped[str]
    project_id: orm.Mapped[str]
    consumer_id: orm.Mapped[str]


class TrustModel(Base):
    __tablename__ = "trust"
    id: orm.Mapped[str] = orm.mapped_column(primary_key=True)
    trustor_user_id: orm.Mapped[str]
    trustee_user_id: orm.Mapped[str]
    project_id: orm.Mapped[Optional[str]]
    deleted_at: orm.Mapped[Optional[datetime.datetime]]
    _expires_at: orm.Mapped[Optional[datetime.datetime]] = orm.mapped_column("expires_at")
    expires_at_int: orm.Mapped[Optional[datetime.datetime]]
    remaining_uses: orm.Mapped[Optional[int]]


class CredentialModel(Base):
    __tablename__ = "credential"
    id: orm.Mapped[str] = orm.mapped_column(primary_key=True)
    user_id: orm.Mapped[str]
    project_id: orm.Mapped[Optional[str]]
    _encrypted_blob: orm.Mapped[str] = orm.mapped_column("encrypted_blob")
    type: orm.Mapped[str]
    key_hash: orm.Mapped[str]


MODELS = {
    "application_credentials": ApplicationCredentialModel,
    "oauth1_access_tokens": AccessToken,
    "trusts": TrustModel,
    "credentials": CredentialModel,
}
SERVED = {name: (BY_NAME[name], model) for name, model in MODELS.items()}


class Error(Exception):
    """One of Keystone's."""


ERRORS = {"Unauthorized": 401, "ForbiddenNotSecurity": 403, "NotFound": 404, "ValidationError": 400}


@contextlib.contextmanager
def database():
    """An empty database, and the modules of Keystone and Flask that are imported late."""
    engine = sqlalchemy.create_engine("sqlite://", poolclass=sqlalchemy.StaticPool)
    Base.metadata.create_all(engine)
    errors = types.SimpleNamespace(**{name: type(name, (Error,), {"code": code}) for name, code in ERRORS.items()})
    common = types.SimpleNamespace(sql=types.SimpleNamespace(session_for_read=lambda: orm.Session(engine)))
    flask = types.SimpleNamespace(jsonify=json.dumps)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setitem(sys.modules, "keystone", types.SimpleNamespace(exception=errors, common=common))
        monkeypatch.setitem(sys.modules, "keystone.common", common)
        monkeypatch.setitem(sys.modules, "flask", flask)
        yield lambda *rows: add(engine, rows)
    engine.dispose()


@pytest.fixture
def keystone():
    with database() as fill:
        yield fill


def add(engine, rows):
    with orm.Session(engine) as session, session.begin():
        session.add_all(rows)


def credential(number, project_id="p", user_id="u"):
    return ApplicationCredentialModel(
        internal_id=number, id=f"{1000 - number:x}", name=f"n{number}", secret_hash="SECRET", user_id=user_id,
        project_id=project_id,
    )  # fmt: skip


class Answer:
    def __init__(self, status_code, text=""):
        self.status_code, self.text = status_code, text

    @property
    def json(self):
        return json.loads(self.text)


def client(caller, served=None):
    """Return a function that calls the view of a path as Flask does, for a caller."""
    lists = delegations.Lists(SERVED if served is None else served, types.SimpleNamespace(caller=lambda: caller))
    kinds, rows = lists.views().values()

    def get(url):
        parts = urlsplit(url)
        base, _, path = parts.path.partition("/OS-PROJECT-CLEANUP")
        assert base.endswith("/v3")
        sys.modules["flask"].request = types.SimpleNamespace(
            args=dict(parse_qsl(parts.query, keep_blank_values=True)), base_url=f"http://keystone{parts.path}"
        )
        try:
            if not path:
                return Answer(200, kinds())
            _, projects, project_id, kind = path.split("/")
            assert projects == "projects"
            return Answer(200, rows(project_id=unquote(project_id), kind=kind))
        except Error as error:
            return Answer(error.code, str(error))

    return types.SimpleNamespace(get=get)


ORCHESTRATOR = Caller("orchestrator", True, lambda: True)
CALLERS = {
    "without a token": (None, 401),
    "a member": (Caller("m"), 403),
    "an admin": (Caller("admin", False, lambda: True), 403),
    "the orchestrator's user with a derived token": (Caller("orchestrator", False, lambda: True), 403),
    "the orchestrator without the role admin": (Caller("orchestrator", True, lambda: False), 403),
    "the orchestrator": (ORCHESTRATOR, 200),
}
PATHS = (
    "",
    f"/projects/p/{KINDS[0].name}",
    f"/projects/{ALL}/trusts",
    "/projects/p/nothing",
    "/projects/p/trusts?limit=0",
)


@pytest.mark.parametrize("who", CALLERS)
@pytest.mark.parametrize("path", PATHS)
def test_the_orchestrator_alone_gets_the_lists(keystone, who, path):
    """The answer to another caller does not tell which lists there are."""
    caller, expected = CALLERS[who]
    answer = client(caller).get(f"/v3/OS-PROJECT-CLEANUP{path}").status_code
    own = {"/projects/p/nothing": 404, "/projects/p/trusts?limit=0": 400}.get(path, 200)
    assert answer == (own if expected == 200 else expected)


def test_the_lists_are_those_that_the_plugin_asks_for():
    assert {"application_credentials", "oauth1_access_tokens", "trusts", "credentials"} == set(BY_NAME)


def test_no_secret_is_even_read():
    for kind in KINDS:
        assert not set(kind.attributes()) & SECRET, kind.name


UTC = datetime.timezone.utc
LONG_AGO = datetime.datetime(2026, 1, 1)
ROWS = (
    credential(1),
    credential(2, "other"),
    credential(3, None),  # of the system
    AccessToken(id="a", access_secret="SECRET", authorizing_user_id="u", project_id="p", consumer_id="c"),
    AccessToken(id="b", access_secret="SECRET", authorizing_user_id="u", project_id="other", consumer_id="c"),
    TrustModel(id="t", trustor_user_id="u", trustee_user_id="v", project_id="p", remaining_uses=3),
    TrustModel(id="g", trustor_user_id="u", trustee_user_id="v", project_id="p", deleted_at=LONG_AGO),
    TrustModel(id="o", trustor_user_id="u", trustee_user_id="v", _expires_at=LONG_AGO, project_id="p"),
    TrustModel(
        id="q", trustor_user_id="u", trustee_user_id="v", project_id="p",
        _expires_at=LONG_AGO, expires_at_int=datetime.datetime(2026, 1, 1, 0, 0, 0, 5),
    ),
    CredentialModel(id="e", user_id="u", project_id="p", _encrypted_blob="SECRET", type="ec2", key_hash="SECRET"),
    CredentialModel(id="m", user_id="u", project_id=None, _encrypted_blob="SECRET", type="totp", key_hash="SECRET"),
)  # fmt: skip
TRUST = {"trustor_user_id": "u", "trustee_user_id": "v", "project_id": "p", "remaining_uses": None, "expires_at": None}
EXPECTED = {
    "application_credentials": [{"id": "3e7", "name": "n1", "user_id": "u", "project_id": "p"}],
    "oauth1_access_tokens": [{"id": "a", "consumer_id": "c", "project_id": "p", "user_id": "u"}],
    "trusts": [
        {**TRUST, "id": "o", "expires_at": "2026-01-01T00:00:00+00:00"},
        {**TRUST, "id": "q", "expires_at": "2026-01-01T00:00:00.000005+00:00"},
        {**TRUST, "id": "t", "remaining_uses": 3},
    ],
    "credentials": [{"id": "e", "type": "ec2", "user_id": "u", "project_id": "p"}],
}


def test_the_rows_of_the_project_are_shown_without_a_secret(keystone):
    keystone(*ROWS)
    for kind, rows in EXPECTED.items():
        answer = client(ORCHESTRATOR).get(f"/v3/OS-PROJECT-CLEANUP/projects/p/{kind}")
        assert answer.json == {kind: rows, "links": {"next": None}}
        assert "SECRET" not in answer.text
    everything = client(ORCHESTRATOR).get(f"/v3/OS-PROJECT-CLEANUP/projects/{ALL}/application_credentials").json
    assert [row["project_id"] for row in everything["application_credentials"]] == ["p", "other"]
    assert client(ORCHESTRATOR).get("/v3/OS-PROJECT-CLEANUP").json == {"kinds": sorted(MODELS)}


@pytest.mark.parametrize("project_id", ["p%27 OR 1=1", "p'", "x" * 65, "..", "%2e%2e", "p q", "ü"])
def test_an_id_that_is_none_is_not_found(keystone, project_id):
    keystone(*ROWS)
    assert client(ORCHESTRATOR).get(f"/v3/OS-PROJECT-CLEANUP/projects/{project_id}/trusts").status_code == 404


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=1001",
        "limit=-1",
        "limit=",
        "limit=a",
        "limit=1e3",
        "limit=" + "9" * 19,
        "marker=a'b",
        "marker=a",
    ],
)
def test_a_malformed_page_is_refused(keystone, query):
    """A marker of application credentials is a number."""
    path = f"/v3/OS-PROJECT-CLEANUP/projects/p/application_credentials?{query}"
    assert client(ORCHESTRATOR).get(path).status_code == 400


def test_the_default_page_is_the_largest():
    assert (Page.of({}), Page.of({"limit": "7", "marker": "m"})) == (Page(PAGE, ""), Page(7, "m"))
    with pytest.raises(BadQuery):
        Page.of({"limit": str(PAGE + 1)})


@given(count=st.integers(0, 25), limit=st.integers(1, 9), all_=st.booleans())
def test_all_pages_together_have_each_row_once(count, limit, all_):
    with database() as fill:
        fill(*(credential(n, "p" if n % 3 else "other") for n in range(1, count + 1)))
        path = f"/v3/OS-PROJECT-CLEANUP/projects/{ALL if all_ else 'p'}/application_credentials?limit={limit}"
        found, pages = [], 0
        while path:
            body = client(ORCHESTRATOR).get(path).json
            assert len(body["application_credentials"]) <= limit
            found += [row["name"] for row in body["application_credentials"]]
            path, pages = body["links"]["next"], pages + 1
        expected = [f"n{n}" for n in range(1, count + 1) if all_ or n % 3]
        assert found == expected
        assert pages == max(1, -(-len(expected) // limit))


# --------------------------------------------------------------------------------------------------- which are served
def apis(monkeypatch, **changes):
    """Return Keystone's managers with the drivers of SQL, or others."""
    found = {}
    for kind in KINDS:
        model = MODELS[kind.name]
        monkeypatch.setitem(
            sys.modules, kind.driver, types.SimpleNamespace(**{kind.model: changes.get(kind.model, model)})
        )
        driver = type("Driver", (), {"__module__": changes.get(kind.api, kind.driver)})()
        found[kind.api] = types.SimpleNamespace(driver=driver)
    return types.SimpleNamespace(**found)


def test_all_kinds_are_served_by_the_drivers_of_sql(monkeypatch):
    assert delegations.served(apis(monkeypatch)) == SERVED


def test_a_kind_with_another_driver_is_not_served(monkeypatch):
    """Its table in Keystone's database would be empty."""
    found = delegations.served(apis(monkeypatch, trust_api="vendor.trusts"))
    assert sorted(found) == sorted(set(MODELS) - {"trusts"})


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_kind_whose_model_lacks_a_column_is_not_served(monkeypatch, kind):
    for lacking in kind.attributes():
        columns = {name: object() for name in kind.attributes() if name != lacking}
        found = delegations.served(apis(monkeypatch, **{kind.model: types.SimpleNamespace(**columns)}))
        assert kind.name not in found, lacking
        assert len(found) == len(KINDS) - 1


def test_a_kind_that_is_not_served_is_not_found(keystone):
    without = {name: both for name, both in SERVED.items() if name != "trusts"}
    asked = client(ORCHESTRATOR, without)
    assert asked.get("/v3/OS-PROJECT-CLEANUP/projects/p/trusts").status_code == 404
    assert "trusts" not in asked.get("/v3/OS-PROJECT-CLEANUP").json["kinds"]
