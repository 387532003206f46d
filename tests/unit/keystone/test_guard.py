"""Who may change a fence, and what others may change in a fenced project: decisions. Keystone itself: tests/cloud."""

import contextlib
import sys
import types

import pytest
import sqlalchemy
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import orm

from cleanup_orchestrator.keystone import guard
from cleanup_orchestrator.keystone.assumptions import Unsupported
from cleanup_orchestrator.keystone.fence import Fenced
from cleanup_orchestrator.keystone.guard import Caller
from cleanup_orchestrator.keystone.protocol import (
    CHANGED_BY_OPTION,
    FENCE_OPTION,
    FINAL_HEADER,
    JANITOR_OPTION,
    OPTION_IDS,
    SERIAL_HEADER,
    SERIAL_OPTION,
)
from tests.support.cases import each_case

D, OTHER_D = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
ORCHESTRATOR = Caller("orchestrator", True)
ADMIN = Caller("admin", is_admin=lambda: True)
MANAGER = Caller("domain manager")
CALLERS = {"orchestrator": ORCHESTRATOR, "admin": ADMIN, "manager": MANAGER}
FREE: dict = {}
LIFTED = {SERIAL_OPTION: 8, CHANGED_BY_OPTION: "orchestrator"}
FENCED = {FENCE_OPTION: D, SERIAL_OPTION: 7, CHANGED_BY_OPTION: "orchestrator"}


def status(refusal):
    return refusal.status if refusal else 200


def option(**values):
    return {"options": values}


#: What is changed, in which state, and the answer to the orchestrator, an admin and a domain manager.
UPDATES = {
    "a fence is set": (option(cleanup_fence=D), FREE, (200, 403, 403)),
    "a fence is set again": (option(cleanup_fence=D), LIFTED, (200, 403, 403)),
    "a fence is lifted": (option(cleanup_fence=None), FENCED, (200, 200, 403)),
    "there is no fence to lift": (option(cleanup_fence=None), FREE, (200, 200, 200)),
    "a fence is replaced": (option(cleanup_fence=OTHER_D), FENCED, (200, 403, 403)),
    "a fence is lifted, and the project enabled": (
        {"enabled": True, **option(cleanup_fence=None)},
        FENCED,
        (200, 200, 403),
    ),
    "a fence is lifted, and the serial set back": (
        option(cleanup_fence=None, cleanup_fence_serial=1),
        FENCED,
        (403, 403, 403),
    ),
    "a fence is lifted, and a janitor set": (option(cleanup_fence=None, cleanup_janitor="m"), FENCED, (200, 403, 403)),
    "a janitor is set": (option(cleanup_janitor="m"), FREE, (200, 403, 403)),
    "a janitor is set behind the fence": (option(cleanup_janitor="m"), FENCED, (200, 403, 403)),
    "the serial is set": (option(cleanup_fence_serial=1), FREE, (403, 403, 403)),
    "the serial is removed": (option(cleanup_fence_serial=None), LIFTED, (403, 403, 403)),
    "the author is set": (option(cleanup_fence_changed_by="m"), FREE, (403, 403, 403)),
    # Clients send back what they read, and Keystone itself does when a tag is removed.
    "everything is sent back": ({"tags": [], "options": FENCED}, FENCED, (200, 409, 409)),
    "everything is sent back later": ({"tags": [], "options": LIFTED}, LIFTED, (200, 200, 200)),
    "enabled": ({"enabled": True}, FENCED, (200, 409, 409)),
    "disabled": ({"enabled": False}, FENCED, (200, 409, 409)),
    "immutable": (option(immutable=True), FENCED, (200, 409, 409)),
    "tags": ({"tags": ["x"]}, FENCED, (200, 409, 409)),
    "the name": ({"name": "service"}, FENCED, (200, 409, 409)),
    "no option": ({"options": {}}, FENCED, (200, 409, 409)),
    "a description": ({"description": "x"}, FENCED, (200, 200, 200)),
    "all of it without a fence": (
        {"enabled": False, "name": "x", "tags": ["x"], **option(immutable=True)},
        FREE,
        (200, 200, 200),
    ),
    "all of it after a fence": (
        {"enabled": False, "name": "x", "tags": ["x"], **option(immutable=True)},
        LIFTED,
        (200, 200, 200),
    ),
}


@each_case("what", UPDATES)
def test_who_may_change_a_project(what):
    change, options, expected = UPDATES[what]
    assert tuple(status(guard.update(change, options, caller)) for caller in CALLERS.values()) == expected


@pytest.mark.parametrize(("options", "expected"), [(FREE, (200, 200, 200)), (FENCED, (200, 409, 409))])
def test_who_may_change_role_assignments(options, expected):
    assert tuple(status(guard.change(options, caller)) for caller in CALLERS.values()) == expected


@pytest.mark.parametrize(
    ("project", "parent", "expected"),
    [
        ({}, FREE, (200, 200, 200)),
        (option(immutable=True), LIFTED, (200, 200, 200)),
        (option(cleanup_fence=D), FREE, (403, 403, 403)),
        (option(cleanup_janitor="m"), FREE, (403, 403, 403)),
        (option(cleanup_fence_serial=9), FREE, (403, 403, 403)),
        ({}, FENCED, (200, 409, 409)),
    ],
)
def test_no_project_begins_with_a_fence_or_below_one(project, parent, expected):
    project = {"name": "x", "parent_id": "p", **project}
    assert tuple(status(guard.create(project, parent, caller)) for caller in CALLERS.values()) == expected


FINAL = {FINAL_HEADER: D}
SERIAL = {**FINAL, SERIAL_HEADER: "7"}


@pytest.mark.parametrize(
    ("fenced", "headers", "expected"),
    [
        ({}, {}, (200, 200, 200)),
        ({"p": LIFTED}, {}, (200, 200, 200)),
        ({"p": FENCED}, {}, (409, 409, 409)),
        ({"p": FENCED}, FINAL, (200, 409, 409)),  # with another driver the deletion knows no serial
        ({"p": FENCED}, SERIAL, (200, 409, 409)),
        ({"p": FENCED}, {**SERIAL, FINAL_HEADER: OTHER_D}, (409, 409, 409)),
        ({"p": {**FENCED, SERIAL_OPTION: 8}}, SERIAL, (409, 409, 409)),  # lifted and set again
        ({"p": LIFTED}, SERIAL, (409, 200, 200)),
        ({}, SERIAL, (409, 200, 200)),
        ({"p": {SERIAL_OPTION: 7}}, SERIAL, (409, 200, 200)),  # lifted by a client that set no new serial
        ({"below": FENCED}, {}, (409, 409, 409)),  # p is a domain
        ({"below": FENCED}, FINAL, (409, 409, 409)),
    ],
)
def test_who_may_delete_a_project_or_a_domain(fenced, headers, expected):
    assert tuple(status(guard.delete("p", fenced, caller, headers)) for caller in CALLERS.values()) == expected


def test_a_refusal_names_the_deletion_and_the_way_out():
    text = guard.change(FENCED, MANAGER).message
    assert D in text
    assert "openstack project deletion" in text
    assert "{'options': {'cleanup_fence': null}}" in text
    assert f"{D} (project p)" in guard.create({"parent_id": "p"}, FENCED, ADMIN).message
    many = guard.delete("dom", {f"p{i:02}": FENCED for i in range(12)}, ADMIN, {}).message
    assert "(project p09) and 2 more" in many


CLOCK = 1_000


@pytest.mark.parametrize(
    ("wanted", "now", "stored"),
    [
        ({FENCE_OPTION: D}, {}, {FENCE_OPTION: D, SERIAL_OPTION: CLOCK, CHANGED_BY_OPTION: "admin"}),
        (
            {FENCE_OPTION: D},
            {SERIAL_OPTION: 2_000},
            {FENCE_OPTION: D, SERIAL_OPTION: 2_001, CHANGED_BY_OPTION: "admin"},
        ),
        ({FENCE_OPTION: D}, {FENCE_OPTION: D, SERIAL_OPTION: 5}, {FENCE_OPTION: D}),
        (
            {FENCE_OPTION: None},
            {FENCE_OPTION: D, SERIAL_OPTION: 5},
            {FENCE_OPTION: None, SERIAL_OPTION: CLOCK, CHANGED_BY_OPTION: "admin", JANITOR_OPTION: None},
        ),
        ({JANITOR_OPTION: "j"}, {FENCE_OPTION: D}, {JANITOR_OPTION: "j"}),
        ({"immutable": True, SERIAL_OPTION: 3}, {SERIAL_OPTION: 5}, {"immutable": True}),
    ],
)
def test_each_change_of_a_fence_has_another_serial_and_an_author(wanted, now, stored):
    assert guard.next_options(wanted, now, ADMIN, CLOCK) == stored


CHANGES = st.lists(
    st.tuples(
        st.sampled_from([D, OTHER_D, None, "tag"]), st.sampled_from([0, 0, 1, -5]), st.booleans(), st.integers(0, 9)
    ),
    max_size=30,
)


@given(CHANGES)
def test_for_every_history_a_fence_that_was_not_there_all_the_time_has_another_serial(changes):
    """The clock stands still or goes back, clients send old serials, and another package's options are written."""
    now, clock, seen, serials = {}, 1_000, {}, []
    for fence, tick, stale, number in changes:
        clock += tick
        wanted = {"immutable": True} if fence == "tag" else {FENCE_OPTION: fence}
        wanted |= {SERIAL_OPTION: number} if stale else {}
        before = now.get(FENCE_OPTION)
        now = {
            name: value
            for name, value in (now | guard.next_options(wanted, now, None, clock)).items()
            if value is not None
        }
        if now.get(FENCE_OPTION) != before:
            assert now[SERIAL_OPTION] not in serials
            assert now[SERIAL_OPTION] > max(serials, default=0)
            serials.append(now[SERIAL_OPTION])
        state = now.get(FENCE_OPTION), now.get(SERIAL_OPTION)
        assert seen.setdefault(state[1], state[0]) == state[0], "one serial, two states"


# ------------------------------------------------------------------------------------------------------- the caller
@pytest.fixture
def request_of(monkeypatch):
    """Return a function that makes a request of Keystone current."""
    keys = types.SimpleNamespace(AUTH_CONTEXT_ENV="auth", REQUEST_CONTEXT_ENV="request")
    environ = {}
    monkeypatch.setitem(sys.modules, "keystone", types.SimpleNamespace())
    monkeypatch.setitem(sys.modules, "keystone.common", types.SimpleNamespace(authorization=keys, context=keys))
    flask = types.SimpleNamespace(has_request_context=lambda: True, request=types.SimpleNamespace(environ=environ))
    monkeypatch.setitem(sys.modules, "flask", flask)

    def make(user_id, methods=("password",), authenticated=True):
        environ["request"] = types.SimpleNamespace(user_id=user_id, authenticated=authenticated)
        environ["auth"] = {"token": types.SimpleNamespace(user_id=user_id, methods=list(methods))}

    make.flask = flask
    return make


@pytest.mark.parametrize(
    ("user_id", "methods", "orchestrator"),
    [
        ("me", ["password"], True),
        ("me", ["password", "token"], False),
        ("me", ["ec2credential"], False),
        ("other", ["password"], False),
    ],
)
def test_the_orchestrator_is_its_user_with_a_token_of_its_password(request_of, user_id, methods, orchestrator):
    request_of(user_id, methods)
    caller = guard.Guard("me").caller()
    assert (caller.user_id, caller.orchestrator) == (user_id, orchestrator)


def test_a_login_and_a_command_on_the_server_have_no_caller(request_of):
    request_of("", authenticated=False)
    assert guard.Guard("me").caller() is None
    for path in ("/v3/auth/tokens", "/v3/OS-FEDERATION/identity_providers/x/protocols/y/auth"):
        request_of("u")
        request_of.flask.request.environ["PATH_INFO"] = path
        assert guard.Guard("me").caller() is None
    del request_of.flask.request.environ["PATH_INFO"]
    assert guard.Guard("me").caller().user_id == "u"
    request_of.flask.has_request_context = lambda: False
    assert guard.Guard("me").caller() is None


class Refused(Exception):
    """Keystone's error."""

    def __init__(self, message):
        super().__init__(message)


@pytest.mark.parametrize(
    ("user_id", "credential", "trust"),
    [("me", False, False), ("janitor", False, True), ("u", True, True), ("", True, True), (None, True, True)],
)
def test_for_whom_credentials_and_trusts_are_made(monkeypatch, user_id, credential, trust):
    """An authorization of OAuth1 is a credential."""
    errors = types.SimpleNamespace(ForbiddenNotSecurity=Refused, Conflict=Refused)
    monkeypatch.setitem(sys.modules, "keystone", types.SimpleNamespace(exception=errors))
    monkeypatch.setattr(guard, "read_fences", lambda: {"p": Fenced(D, "janitor"), "q": Fenced(OTHER_D)})
    made = guard.Guard("me")

    def passes(check, body):
        try:
            check(body)
        except Refused:
            return False
        return True

    assert passes(made.credential, {"user_id": user_id}) is credential
    assert passes(made.authorization, user_id) is credential
    assert passes(made.trust, {"trustor_user_id": user_id}) is trust


# ---------------------------------------------------------------------------------------------------- the options
class Base(orm.DeclarativeBase):
    """The tables of Keystone, with the columns that are read."""


class Project(Base):
    __tablename__ = "project"
    id: orm.Mapped[str] = orm.mapped_column(primary_key=True)
    domain_id: orm.Mapped[str]


class ProjectOption(Base):
    __tablename__ = "project_option"
    project_id: orm.Mapped[str] = orm.mapped_column(primary_key=True)
    option_id: orm.Mapped[str] = orm.mapped_column(primary_key=True)
    option_value: orm.Mapped[object] = orm.mapped_column(sqlalchemy.JSON)


@pytest.fixture
def database(monkeypatch):
    """Two domains; each has a fenced project and one without a fence. Another package's option is in each project."""
    engine = sqlalchemy.create_engine("sqlite://")
    Base.metadata.create_all(engine)
    projects = {"d": "no domain", "fenced": "d", "free": "d", "e": "no domain", "other": "e", "other free": "e"}
    options = {"fenced": FENCED, "other": {FENCE_OPTION: OTHER_D}, "e": {JANITOR_OPTION: "j"}}
    with orm.Session(engine) as session, session.begin():
        for id_, domain_id in projects.items():
            session.add(Project(id=id_, domain_id=domain_id))
            session.add(ProjectOption(project_id=id_, option_id="IMMU", option_value=True))
            for name, value in options.get(id_, {}).items():
                session.add(ProjectOption(project_id=id_, option_id=OPTION_IDS[name], option_value=value))
    models = types.SimpleNamespace(Project=Project, ProjectOption=ProjectOption)
    common = types.SimpleNamespace(sql=types.SimpleNamespace(session_for_read=lambda: orm.Session(engine)))
    monkeypatch.setitem(sys.modules, "keystone.common", common)
    monkeypatch.setitem(sys.modules, "keystone.resource.backends.sql_model", models)
    yield
    engine.dispose()


@pytest.mark.parametrize(
    ("project_id", "domain", "expected"),
    [
        ("fenced", False, {"fenced": FENCED}),
        ("fenced", True, {"fenced": FENCED}),
        ("free", True, {}),
        ("d", False, {}),
        ("d", True, {"fenced": FENCED}),
        ("e", False, {"e": {JANITOR_OPTION: "j"}}),
        ("e", True, {"e": {JANITOR_OPTION: "j"}, "other": {FENCE_OPTION: OTHER_D}}),
        ("unknown", True, {}),
    ],
)
def test_the_options_of_a_domain_are_those_of_its_projects_too(database, project_id, domain, expected):
    assert guard.options_of(project_id, domain) == expected


# --------------------------------------------------------------------------------------------------- the wrapping
def test_a_method_is_called_only_if_its_check_passes():
    called = []

    class Manager:
        def update(self, project_id, project, initiator=None):
            called.append((project_id, project, initiator))
            return "done"

    def check(project_id, project):
        if project == "bad":
            raise ValueError(project_id)

    guard._check_before(Manager, "update", check, ("project_id", "project"))
    assert Manager().update("p", project="good", initiator="i") == "done"
    for call in (lambda: Manager().update("p", "bad"), lambda: Manager().update(project="bad", project_id="p")):
        with pytest.raises(ValueError, match="p"):
            call()
    assert called == [("p", "good", "i")]


@pytest.mark.parametrize(("name", "parameters"), [("gone", ("a",)), ("method", ("a", "b"))])
def test_a_keystone_that_lacks_what_the_guard_needs_does_not_start(name, parameters):
    class Manager:
        def method(self, a):
            pass

    with pytest.raises(Unsupported, match=name):
        guard._check_before(Manager, name, lambda *_: None, parameters)


@pytest.mark.parametrize(
    ("caller", "options", "stored"),
    [
        (MANAGER, FENCED, None),  # there was no fence when the request was checked
        (MANAGER, FREE, {FENCE_OPTION: None}),
        (
            ORCHESTRATOR,
            FENCED,
            {FENCE_OPTION: None, SERIAL_OPTION: 9, CHANGED_BY_OPTION: "orchestrator", JANITOR_OPTION: None},
        ),
        (None, FENCED, {FENCE_OPTION: None, SERIAL_OPTION: 9, CHANGED_BY_OPTION: None, JANITOR_OPTION: None}),
    ],
)
def test_a_change_of_the_fence_is_decided_in_the_transaction_that_stores_it(monkeypatch, caller, options, stored):
    done = []

    class Row:
        def filter(self, _):
            return self

        def update(self, *_, **__):
            done.append("locked")

    @contextlib.contextmanager
    def session_for_write():
        yield types.SimpleNamespace(query=lambda _: Row())

    errors = types.SimpleNamespace(ForbiddenNotSecurity=Refused, Conflict=Refused)
    model = types.SimpleNamespace(Project=types.SimpleNamespace(id="p", enabled=True))
    sql = types.SimpleNamespace(session_for_write=session_for_write)
    for name, module in {
        "keystone": types.SimpleNamespace(exception=errors),
        "keystone.common": types.SimpleNamespace(sql=sql),
        "keystone.resource.backends.sql_model": model,
    }.items():
        monkeypatch.setitem(sys.modules, name, module)

    class Driver:
        def update_project(self, project_id, project):
            done.append(project["options"])

    def now(_project_id):
        done.append("read")
        return {"p": {**options, SERIAL_OPTION: 8} if options else {}}

    made = guard.Guard("me")
    monkeypatch.setattr(guard, "options_of", now)
    monkeypatch.setattr(made, "caller", lambda: caller)
    monkeypatch.setattr(guard.time, "time", lambda: 0.001)
    guard._count_changes(Driver, made)
    if stored is None:
        with pytest.raises(Refused, match="only an admin lifts a fence"):
            Driver().update_project("p", option(cleanup_fence=None))
        assert done == ["locked", "read"]
    else:
        Driver().update_project("p", option(cleanup_fence=None))
        assert done == ["locked", "read", stored]
