"""The token fence against a real Keystone of several processes: what it stops, how fast, and what if it fails.

Run with ``-s`` to see the table of logins and the times to effect.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import itertools
import pathlib
import sqlite3
import statistics
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import requests
from oslo_config import cfg

from cleanup_orchestrator import opts
from cleanup_orchestrator.cloud.connections import Clouds
from cleanup_orchestrator.cloud.projects import Projects
from cleanup_orchestrator.core.journal import Change
from cleanup_orchestrator.drain import base
from cleanup_orchestrator.drain.fence import Fence
from cleanup_orchestrator.drain.revoke import Revoke
from cleanup_orchestrator.keystone import protocol
from tests.cloud.conftest import ROOT, free_port_base
from tests.cloud.errors import CloudError
from tests.cloud.flows import Flows, token_of, until_known
from tests.cloud.identity import Rest
from tests.cloud.launcher import Cloud
from tests.cloud.router import routed
from tests.cloud.services import STOCK_KEYSTONE

PATCHED_KEYSTONE = "cleanup_orchestrator.keystone.wsgi:application"
USER = "fencer"

CONFIGURATION = """
[orchestrator]
auth_type = password
auth_url = {auth_url}
username = fencer
password = {password}
project_name = service
user_domain_id = default
project_domain_id = default
interface = public
trusted_endpoints = {keystones}
"""


def keystone(directory: pathlib.Path, venv: pathlib.Path, **parameters: Any) -> Cloud:
    """A cloud of only Keystone, with the user of the orchestrator in its configuration."""
    made = Cloud(
        directory,
        venv,
        port_base=free_port_base(),
        services=(),
        python_path=(str(ROOT),),
        **{"keystone_module": PATCHED_KEYSTONE, "cleanup_user": USER} | parameters,
    )
    made.install()
    return made


@pytest.fixture(scope="module")
def shared(cloud_venv: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """Three processes with one cache, as with memcached."""
    directory = tmp_path_factory.mktemp("shared")
    with keystone(directory, cloud_venv, keystone_processes=3, keystone_cache="shared") as made:
        yield made


@pytest.fixture(scope="module")
def apart(cloud_venv: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """Three processes, each with a cache that the others cannot clear: the hardest case for a fence."""
    with keystone(tmp_path_factory.mktemp("apart"), cloud_venv, keystone_processes=3) as made:
        yield made


@pytest.fixture(scope="module")
def mixed(cloud_venv: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """Two processes, one of them without the fence plugin."""
    with keystone(
        tmp_path_factory.mktemp("mixed"), cloud_venv, keystone_module=(PATCHED_KEYSTONE, STOCK_KEYSTONE)
    ) as made:
        yield made


@pytest.fixture(scope="module")
def beside(cloud_venv: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """The same, with one cache: a service that works well beside Keystone, and does not know the fence."""
    modules = (PATCHED_KEYSTONE, STOCK_KEYSTONE)
    directory = tmp_path_factory.mktemp("beside")
    with keystone(directory, cloud_venv, keystone_module=modules, keystone_cache="shared") as made:
        yield made


class Orchestrator:
    """The user of the orchestrator in a cloud, and the context of a drain driver for one project."""

    def __init__(self, cloud: Cloud, directory: pathlib.Path, project_id: str, url: str = "") -> None:
        """Take the cloud.

        :param url: of Keystone; by default that of the cloud
        """
        self.cloud, self.changes = cloud, list[Change]()
        path = directory / "orchestrator.conf"
        keystones = ", ".join(filter(None, (*cloud.keystone_urls, url)))  # the catalog names the first alone
        values = {"auth_url": url or cloud.auth_url, "password": cloud.site.password, "keystones": keystones}
        path.write_text(CONFIGURATION.format(**values))
        conf = cfg.ConfigOpts()
        opts.register(conf)
        conf(["--config-file", str(path)], project="cleanup-orchestrator")
        clouds = Clouds(conf)
        if url:  # instead of the one in the catalog
            by_catalog = clouds.identity
            clouds.identity = lambda session: self._at(by_catalog(session), url)
        guard = lambda method, url: None  # noqa: E731
        self.projects = Projects(clouds.identity(clouds.admin_session(guard)))
        self.ground = base.DrainContext(
            str(uuid.uuid4()), project_id, clouds.user_id(), clouds, self.projects, guard, self._record_intent
        )

    @staticmethod
    def _at(identity: Any, url: str) -> Any:
        identity.endpoint_override = url
        return identity

    def _record_intent(self, type_: str, data: Mapping[str, Any]) -> None:
        self.changes.append(Change(str(uuid.uuid4()), self.ground.deletion_id, len(self.changes) + 1, type_, data))

    def undo(self) -> list[str]:
        """Undo what is recorded, the latest first."""
        texts = [base.undo(self.projects, self.ground.project_id, change) for change in reversed(self.changes)]
        self.changes.clear()
        return texts


A_DELETION, ANOTHER = "0a0a0a0a-1111-4111-8111-111111111111", "0b0b0b0b-2222-4222-8222-222222222222"


def orchestrator_of(cloud: Cloud) -> Rest:
    """Return Keystone's API with a token of the orchestrator's user."""
    return Rest(cloud.auth_url, USER, cloud.site.password, "service")


def fence_by_hand(cloud: Cloud, project_id: str, value: str | None, url: str = "") -> None:
    """Set a fence, or lift it, as the orchestrator's user."""
    body = {"project": {"options": {protocol.FENCE_OPTION: value}}}
    orchestrator_of(cloud).call("PATCH", f"{url or cloud.auth_url}/projects/{project_id}", body)


def rows(cloud: Cloud, project_id: str, *options: str) -> list[tuple]:
    """Return the rows of a project's options, by default of the fence itself."""
    with sqlite3.connect(cloud.site.database("keystone"), timeout=30) as database:
        query = "SELECT option_id, option_value FROM project_option WHERE project_id = ?"
        found = database.execute(query, (project_id,)).fetchall()
    database.close()
    return [row for row in found if row[0] in (options or (protocol.FENCE_OPTION_ID,))]


# ------------------------------------------------------------------------------------------------- what it stops
#: The status of a login, and of the validation of an earlier token, in each state of the project.
TABLE = {
    #                          none       fence      revoke     revoke+close  fence+close
    "password":               ("201/200", "401/404", "401/404", "401/404", "401/404"),
    "token, rescoped":        ("201/200", "401/404", "401/404", "401/404", "401/404"),
    "application credential": ("201/200", "401/404", "401/404", "404/404", "404/404"),
    "trust (trustee)":        ("201/200", "401/404", "403/403", "401/404", "401/404"),
    "EC2":                    ("200/200", "401/404", "401/404", "401/404", "401/404"),
    "S3":                     ("200/-",   "401/-",   "401/-",   "401/-",   "401/-"),
    "OAuth1":                 ("201/200", "401/404", "401/404", "404/404", "404/404"),
    "OAuth2 client":          ("200/200", "401/404", "401/404", "404/404", "404/404"),
    "federated (mapped)":     ("201/200", "401/404", "401/404", "401/404", "401/404"),
    "group's role":           ("201/200", "401/404", "401/404", "401/404", "401/404"),
    "inherited role":         ("201/200", "401/404", "201/200", "401/404", "401/404"),
    "the orchestrator":       ("201/200", "201/200", "201/200", "401/404", "401/404"),
}  # fmt: skip
STATES = ("none", "fence", "revoke", "revoke+close", "fence+close")


def test_what_every_way_in_is_answered_behind_every_lock(shared, tmp_path):
    """Checks all flows in each of the three processes, with tokens that all of them have validated before."""
    flows = Flows(shared, USER, shared.site.password)
    orchestrator = Orchestrator(shared, tmp_path, flows.project_id)
    ground, before = orchestrator.ground, None
    seen: dict[str, dict[str, str]] = {}

    def check(state: str) -> None:
        answers = flows.answers()
        assert [name for name, both in answers.items() if any(len(a) > 1 for a in both)] == [], "not all the same"
        shown = {n: "/".join("".join(map(str, codes)) or "-" for codes in both) for n, both in answers.items()}
        if state in seen:
            assert shown == seen[state], "undoing did not bring everything back"
        seen[state] = shown

    for driver, state in ((None, "none"), (Fence(), "fence"), (Revoke(), "revoke")):
        base.ensure_access(ground, "admin")
        if driver is None:
            flows.first_tokens()
            before = rows(shared, flows.project_id)
            check(state)
            continue
        driver.drain(ground)
        assert driver.held(ground) is (state == "fence"), "revoke leaves inherited grants"
        check(state)
        driver.close(ground)
        check(f"{state}+close")
        orchestrator.undo()
        time.sleep(protocol.FENCE_MAX_AGE)  # a fence is lifted within a second, not at once
        base.ensure_access(ground, "admin")
        flows.first_tokens()
        check("none")
    assert rows(shared, flows.project_id) == before

    print()
    print(f"{'login / token of before':24} " + " ".join(f"{state:13}" for state in STATES))
    for name in flows.logins:
        print(f"{name:24} " + " ".join(f"{seen[state][name]:13}" for state in STATES))
    assert {name: tuple(seen[state][name] for state in STATES) for name in flows.logins} == TABLE


def test_a_fenced_project_s_token_opens_nothing_in_keystone_itself(shared):
    """It is refused as the token of a caller, and cannot be exchanged for another token."""
    flows = Flows(shared, only=("password",))
    flows.first_tokens()
    fence_by_hand(shared, flows.project_id, A_DELETION)
    time.sleep(protocol.FENCE_MAX_AGE)
    token = flows.tokens["password"]
    for url in shared.keystone_urls:
        assert requests.get(f"{url}/auth/catalog", headers={"X-Auth-Token": token}, timeout=60).status_code == 401
        body = {"auth": {"identity": {"methods": ["token"], "token": {"id": token}}}}
        assert requests.post(f"{url}/auth/tokens", json=body, timeout=60).status_code in (401, 404)
        allow_expired = f"{url}/auth/tokens?allow_expired=1"
        headers = flows.admin | {"X-Subject-Token": token}
        assert requests.get(allow_expired, headers=headers, timeout=60).status_code == 404
        assert requests.head(allow_expired, headers=headers, timeout=60).status_code == 404


def test_users_with_other_projects_keep_their_access_there(shared):
    """The fence applies to the project and not to users: unscoped tokens and other scopes stay valid."""
    flows = Flows(shared, only=())
    other = shared.admin.call("POST", "/projects", {"project": {"name": "other", "domain_id": flows.domain_id}})
    other_id = other["project"]["id"]
    path = f"/users/{flows.user_id}/roles/{flows.role_id}"
    shared.admin.call("PUT", f"/projects/{other_id}{path}")
    shared.admin.call("PUT", f"/domains/{flows.domain_id}{path}")
    fence_by_hand(shared, flows.project_id, A_DELETION)
    time.sleep(protocol.FENCE_MAX_AGE)
    scopes = ("unscoped", {"domain": {"id": flows.domain_id}}, {"project": {"id": other_id}})
    for url, scope in itertools.product(shared.keystone_urls, scopes):
        answer = until_known(functools.partial(flows.login, url, flows._password(flows.user_id), scope))
        assert answer.status_code == 201, scope
        assert flows.validate(url, str(token_of(answer))) == 200


def test_a_canary_admits_no_user_and_stops_only_the_orchestrator_of_the_named_deletion(shared, tmp_path):
    flows = Flows(shared, USER, shared.site.password, only=("password",))
    orchestrator = Orchestrator(shared, tmp_path, flows.project_id)
    base.ensure_access(orchestrator.ground, "admin")
    flows.first_tokens()
    fence_by_hand(shared, flows.project_id, A_DELETION)
    time.sleep(protocol.FENCE_MAX_AGE)
    own_token, theirs = flows.tokens["the orchestrator"], flows.tokens["password"]
    for url in shared.keystone_urls:
        for canary, expected in ((A_DELETION, 404), (ANOTHER, 200), ("", 200)):
            own = flows.validation(url, own_token, **{protocol.CANARY_HEADER: canary})
            assert own.status_code == expected
            assert own.headers.get(protocol.FENCED_HEADER) == (A_DELETION if expected == 404 else None)
            others = flows.validation(url, theirs, **{protocol.CANARY_HEADER: canary})
            assert others.status_code == 404
            assert protocol.FENCED_HEADER not in others.headers


# ------------------------------------------------------------------------------------------------- how fast
class Watch:
    """Validates one token in one process without end, and records when the answer changed."""

    def __init__(self, flows: Flows, url: str, token: str) -> None:
        self.answers: list[tuple[float, float, int]] = []  # asked, answered, status
        self._over = threading.Event()
        self._headers = flows.admin | {"X-Subject-Token": token}
        self._url = f"{url}/auth/tokens?nocatalog"
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with requests.Session() as session:
            while not self._over.is_set():
                asked = time.monotonic()
                status = session.get(self._url, headers=self._headers, timeout=60).status_code
                self.answers.append((asked, time.monotonic(), status))
                time.sleep(0.005)

    def stop(self) -> None:
        self._over.set()
        self._thread.join(30)

    def wait_for_an_answer(self, since: float) -> None:
        """Wait until a request has been answered that was sent after `since`: a busy machine takes its time."""
        deadline = since + 60
        while not self.answers or self.answers[-1][0] < since:
            assert time.monotonic() < deadline, "Keystone no longer answers"
            time.sleep(0.05)

    def last_other(self, status: int, since: float) -> float:
        """Seconds after `since` when the latest request was sent that got another answer."""
        return max([asked - since for asked, _, got in self.answers if got != status and asked > since], default=0.0)


@pytest.mark.long
def test_fence_and_unfence_take_effect_within_a_second_in_every_process(apart, tmp_path, capsys):
    flows = Flows(apart, only=("password",))
    flows.first_tokens()
    watches = [Watch(flows, url, flows.tokens["password"]) for url in apart.keystone_urls]
    times: dict[str, list[float]] = {"fence": [], "unfence": []}
    try:
        for round_, (what, value, status) in itertools.product(
            range(6), (("fence", A_DELETION, 404), ("unfence", None, 200))
        ):
            fence_by_hand(apart, flows.project_id, value, apart.keystone_urls[round_ % 3])
            done = time.monotonic()
            for watch in watches:
                watch.wait_for_an_answer(done + 1)
            times[what] += [watch.last_other(status, done) for watch in watches]
            assert [w.answers[-1][2] for w in watches] == [status] * 3
    finally:
        for watch in watches:
            watch.stop()
    with capsys.disabled():
        for what, seconds in times.items():
            median, longest = statistics.median(seconds), max(seconds)
            print(f"\n{what}: in effect {median:.2f} s (median), {longest:.2f} s (longest) after the PATCH", end="")
    assert max(itertools.chain(*times.values())) < 1
    assert {status for w in watches for *_, status in w.answers} == {200, 404}, "nothing but yes and no"


# ------------------------------------------------------------------------------------------------- what fails
#: The faults of the source: the action that causes each, and the action that repairs it.
BREAKS = {
    # Only the query of the fence plugin fails: the rest of Keystone goes on.
    "a row that is no JSON": (
        "INSERT INTO project_option VALUES ('no-project', 'CLFN', '{')",
        "DELETE FROM project_option WHERE project_id = 'no-project'",
    ),
    # Here requests of Keystone fail as well, unless their data is cached.
    "the table is away": (
        "ALTER TABLE project_option RENAME TO hidden_option",
        "ALTER TABLE hidden_option RENAME TO project_option",
    ),
}


@contextlib.contextmanager
def broken(cloud: Cloud, how: str) -> Iterator[None]:
    """The fences cannot be read inside."""
    database = sqlite3.connect(cloud.site.database("keystone"), timeout=30, isolation_level=None)
    breaks, mends = BREAKS[how]
    database.execute(breaks)
    try:
        yield
    finally:
        database.execute(mends)
        database.close()


@pytest.mark.parametrize("how", BREAKS)
def test_fences_that_cannot_be_read_refuse_every_project_s_token_until_they_can(apart, tmp_path, how):
    fenced, free = (Flows(apart, *user, only=("password",)) for user in ((), (USER, apart.site.password)))
    base.ensure_access(Orchestrator(apart, tmp_path, free.project_id).ground, "admin")
    fenced.first_tokens()
    free.first_tokens()
    unscoped = str(token_of(free.login(apart.auth_url, free._password(free.user_id), "unscoped")))
    fence_by_hand(apart, fenced.project_id, A_DELETION)
    time.sleep(protocol.FENCE_MAX_AGE)

    def ask(url: str, token: str) -> int:
        # The caller is the orchestrator, which no fence stops. The project of an administrator is no exception.
        headers = {"X-Auth-Token": free.tokens["the orchestrator"], "X-Subject-Token": token}
        return requests.get(f"{url}/auth/tokens?nocatalog", headers=headers, timeout=60).status_code

    known = (fenced.tokens["password"], free.tokens["password"], unscoped, free.tokens["the orchestrator"])
    # Separate caches: a process may not yet know the role that another one gave the caller.
    deadline = time.monotonic() + 60
    for url in apart.keystone_urls:
        while [ask(url, token) for token in known] != [404, 200, 200, 200]:  # and from now on in its caches
            assert time.monotonic() < deadline, "what is known was not answered rightly before anything broke"
            time.sleep(0.2)
    statuses: set[int] = set()
    with broken(apart, how):
        deadline = time.monotonic() + 60
        # An earlier reading is valid for FENCE_MAX_AGE. Afterwards the process has to answer that it does not know.
        while (now := {ask(url, fenced.tokens["password"]) for url in apart.keystone_urls}) & {404}:
            statuses |= now
            assert time.monotonic() < deadline, "the fences of before are still believed"
        statuses |= now
        answers = [[ask(url, token) for token in known] for url in apart.keystone_urls]
        logins = {free.login(url, free._password(free.user_id)).status_code for url in apart.keystone_urls}
    print(f"\n{how}: {statuses}, then {answers}, logins {logins}")
    assert 200 not in statuses, "a fenced project's token was accepted"
    assert all(code >= 500 for two in answers for code in two[:2]), "unknown is not unfenced"
    assert all(code >= 500 for code in logins)
    if how == "a row that is no JSON":
        assert statuses <= {404, 503}
        assert answers == [[503, 503, 200, 200]] * 3, (
            "a token without a project and that of the orchestrator need no reading"
        )
        assert logins == {503}
    deadline = time.monotonic() + 60
    while any(ask(url, free.tokens["password"]) != 200 for url in apart.keystone_urls):
        assert time.monotonic() < deadline, "it did not recover by itself"
    assert [ask(url, fenced.tokens["password"]) for url in apart.keystone_urls] == [404] * 3


def test_a_hundred_requests_at_once_after_an_idle_time_are_all_answered_rightly(apart):
    fenced, free = Flows(apart, only=("password",)), Flows(apart, only=("password",))
    fenced.first_tokens()
    free.first_tokens()
    fence_by_hand(apart, fenced.project_id, A_DELETION)
    time.sleep(protocol.FENCE_MAX_AGE)
    headers = free.admin

    def ask(number: int) -> tuple[int, int]:
        whose, expected = ((fenced, 404), (free, 200))[number % 2]
        url = apart.keystone_urls[number % 3]
        subject = {"X-Subject-Token": whose.tokens["password"]}
        answer = requests.get(f"{url}/auth/tokens?nocatalog", headers=headers | subject, timeout=60)
        return answer.status_code, expected

    with concurrent.futures.ThreadPoolExecutor(24) as pool:
        assert [pair for pair in pool.map(ask, range(100)) if pair[0] != pair[1]] == []


# ------------------------------------------------------------------------------------------------- the driver
@pytest.fixture
def project(shared: Cloud) -> str:
    name = f"project-{uuid.uuid4().hex[:8]}"
    made = shared.admin.call("POST", "/projects", {"project": {"name": name, "domain_id": "default"}})
    return str(made["project"]["id"])


def test_the_driver_writes_it_down_first_and_can_be_repeated(shared, project, tmp_path):
    orchestrator = Orchestrator(shared, tmp_path, project)
    base.ensure_access(orchestrator.ground, "admin")
    written: list[list[tuple]] = []
    record_intent = orchestrator._record_intent

    def noted(type_: str, data: Mapping[str, Any]) -> None:
        written.append(rows(shared, project))
        record_intent(type_, data)

    object.__setattr__(orchestrator.ground, "record_intent", noted)
    assert Fence().drain(orchestrator.ground).full
    assert written == [[]], "no fence yet when it was written down"
    assert rows(shared, project) == [(protocol.FENCE_OPTION_ID, f'"{orchestrator.ground.deletion_id}"')]
    assert Fence().drain(orchestrator.ground).full
    assert Fence().held(orchestrator.ground)
    assert "lifted the fence" in orchestrator.undo()
    assert rows(shared, project) == []


@pytest.mark.parametrize(
    "how",
    [
        lambda cloud, project_id: fence_by_hand(cloud, project_id, None),
        lambda cloud, project_id: fence_by_hand(cloud, project_id, ANOTHER),
    ],
    ids=["lifted", "replaced"],
)
def test_a_lost_fence_is_noticed(shared, project, tmp_path, how):
    orchestrator = Orchestrator(shared, tmp_path, project)
    base.ensure_access(orchestrator.ground, "admin")
    Fence().drain(orchestrator.ground)
    how(shared, project)
    time.sleep(protocol.FENCE_MAX_AGE)
    assert not Fence().held(orchestrator.ground)


def test_a_fence_of_another_deletion_is_left_alone(shared, project, tmp_path):
    orchestrator = Orchestrator(shared, tmp_path, project)
    base.ensure_access(orchestrator.ground, "admin")
    fence_by_hand(shared, project, ANOTHER)
    with pytest.raises(base.NotHeld, match=ANOTHER):
        Fence().drain(orchestrator.ground)
    assert [change.type for change in orchestrator.changes] == [base.GRANT_ADDED]
    orchestrator._record_intent(base.PROJECT_FENCED, {"fence": orchestrator.ground.deletion_id})
    assert "the fence is no longer there, or is another deletion's" in orchestrator.undo()
    assert rows(shared, project) == [(protocol.FENCE_OPTION_ID, f'"{ANOTHER}"')]


def test_a_disabled_project_is_fenced_and_not_said_to_be_proven(shared, project, tmp_path):
    orchestrator = Orchestrator(shared, tmp_path, project)
    shared.admin.call("PATCH", f"/projects/{project}", {"project": {"enabled": False}})
    result = Fence().drain(orchestrator.ground)
    assert (result.full, result.reason) == (False, "no_project_token")
    assert rows(shared, project) == [(protocol.FENCE_OPTION_ID, f'"{orchestrator.ground.deletion_id}"')]


def test_the_fence_goes_with_the_project(shared, project):
    fence_by_hand(shared, project, A_DELETION)
    orchestrator_of(shared).call("DELETE", f"/projects/{project}", headers={protocol.FINAL_HEADER: A_DELETION})
    assert rows(shared, project, *protocol.OPTION_IDS.values()) == []


def test_a_stock_keystone_is_distinguished_from_a_broken_one(cloud_venv, tmp_path_factory, tmp_path):
    with keystone(tmp_path_factory.mktemp("stock"), cloud_venv, keystone_module=STOCK_KEYSTONE) as stock:
        made = stock.admin.call("POST", "/projects", {"project": {"name": "stock", "domain_id": "default"}})
        orchestrator = Orchestrator(stock, tmp_path, made["project"]["id"])
        base.ensure_access(orchestrator.ground, "admin")
        with pytest.raises(base.NotHeld, match=r"has no token fence.*driver = revoke"):
            Fence().drain(orchestrator.ground)
        assert len(orchestrator.undo()) == 2, "what was written down for nothing is undone like anything else"


def test_a_keystone_process_without_the_fence_is_detected(mixed, tmp_path):
    """The kernel gives it about every second connection."""
    name = f"project-{uuid.uuid4().hex[:8]}"
    made = mixed.admin.call("POST", "/projects", {"project": {"name": name, "domain_id": "default"}})
    orchestrator = Orchestrator(mixed, tmp_path, made["project"]["id"])
    base.ensure_access(orchestrator.ground, "admin")
    with pytest.raises(base.NotHeld, match="in every Keystone"):
        Fence().drain(orchestrator.ground)


#: Which requests a proxy in front of Keystone routes to an identity service without the fence.
ROUTES = {
    "issues tokens": lambda method, path: (method, path.partition("?")[0]) == ("POST", "/v3/auth/tokens"),
    "validates tokens": lambda method, path: (method, path.partition("?")[0]) == ("GET", "/v3/auth/tokens"),
    "another version": lambda _method, path: path.startswith("/v4"),
}


@pytest.mark.parametrize("route", [None, *ROUTES])
def test_a_service_without_the_fence_behind_the_same_proxy_is_detected(beside, tmp_path, route):
    """As Keystone-NG, which shares the database and the keys of the tokens."""
    name = f"project-{uuid.uuid4().hex[:8]}"
    made = beside.admin.call("POST", "/projects", {"project": {"name": name, "domain_id": "default"}})
    fenced, stock = (int(url.removesuffix("/v3").rpartition(":")[2]) for url in beside.keystone_urls)
    with routed(fenced, stock, ROUTES.get(route, lambda *_: False)) as url:
        orchestrator = Orchestrator(beside, tmp_path, made["project"]["id"], f"{url}/v3")
        base.ensure_access(orchestrator.ground, "admin")
        if route is None:
            assert Fence().drain(orchestrator.ground).full
            assert Fence().held(orchestrator.ground)
        else:
            with pytest.raises(base.NotHeld, match=r"serve|route all requests for tokens"):
                Fence().drain(orchestrator.ground)
            assert not Fence().held(orchestrator.ground)
        orchestrator.undo()


def test_a_fence_is_lifted_through_a_keystone_process_that_does_not_know_it(mixed, tmp_path):
    """Else the users would stay locked out: for that process the project has no fence to lift."""
    name = f"project-{uuid.uuid4().hex[:8]}"
    made = mixed.admin.call("POST", "/projects", {"project": {"name": name, "domain_id": "default"}})
    project_id = made["project"]["id"]
    orchestrator = Orchestrator(mixed, tmp_path, project_id)
    fenced, stock = mixed.keystone_urls
    identity = orchestrator.projects._identity
    for url in (fenced, stock):
        orchestrator._record_intent(base.PROJECT_FENCED, {"fence": orchestrator.ground.deletion_id})
        fence_by_hand(mixed, project_id, orchestrator.ground.deletion_id, fenced)
        identity.endpoint_override = url
        orchestrator.undo()
        assert rows(mixed, project_id) == [], url


def test_a_wrong_user_in_keystone_s_configuration_is_named_as_such(cloud_venv, tmp_path_factory, tmp_path):
    wrong = {"keystone": {"project_cleanup": {"user_id": "nobody"}}}
    directory = tmp_path_factory.mktemp("wrong")
    made = keystone(directory, cloud_venv, cleanup_user="", extra_config=wrong)
    with made:
        made.admin.ensure_user(USER, made.site.password, "service", ("admin", "service"))
        body = {"project": {"name": "wrong", "domain_id": "default"}}
        project_id = made.admin.call("POST", "/projects", body)["project"]["id"]
        orchestrator = Orchestrator(made, tmp_path, project_id)
        base.ensure_access(orchestrator.ground, "admin")
        with pytest.raises(base.NotHeld, match="user_id"):
            Fence().drain(orchestrator.ground)
        assert rows(made, project_id) == [], "Keystone lets no other user set a fence"
        assert "the fence is no longer there, or is another deletion's" in orchestrator.undo()


def test_keystone_does_not_start_without_knowing_the_orchestrator(cloud_venv, tmp_path_factory):
    made = keystone(tmp_path_factory.mktemp("nobody"), cloud_venv, cleanup_user="")
    with pytest.raises(CloudError, match="did not start"), made:
        pass
    assert "[project_cleanup] user_id is empty in keystone.conf" in made.log("keystone").read_text()
