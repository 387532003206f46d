"""What a token of the project does not show: hidden credentials, filtered and disabled endpoints, a disabled domain.

One light cloud has a Keystone with this package in it; a stock Keystone shows what is said where it is not.
"""

from __future__ import annotations

import contextlib
import pathlib
import secrets
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests

from cleanup_orchestrator.core.blockers import blockers
from cleanup_orchestrator.core.deletion import Mode, Status
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.plugins.base import ProjectDefinition
from cleanup_orchestrator.plugins.identity import SERVICE as IDENTITY
from tests.cloud import filler
from tests.cloud.conftest import Sweeper, free_port_base
from tests.cloud.fillings.base import Filled, Rest
from tests.cloud.flows import Flows, until_known
from tests.cloud.launcher import FENCED, Cloud
from tests.cloud.orchestrator import Orchestrator
from tests.support import sweeps

OPTIONS = """
[orchestrator]
password = {password}
[drain]
driver = {driver}
"""
#: Keystone lists two of everything at most, and says that there are more: HTTP 200 with ``"truncated": true``.
SHORT = {"keystone": {"DEFAULT": {"list_limit": 2}}}


class Site:
    """A cloud with its orchestrator."""

    def __init__(self, cloud: Cloud, folder: pathlib.Path, driver: str) -> None:
        self.cloud = cloud
        password = cloud.site.password if driver == "fence" else "orchestrator"
        self.running = Orchestrator(cloud, folder, OPTIONS.format(password=password, driver=driver))
        self.sweeper = Sweeper(cloud)

    @property
    def admin(self):
        return filler.connect(self.cloud.auth_url, "admin", self.cloud.site.password, "admin")

    def call(self, method: str, path: str, body: object = None) -> Any:
        return self.cloud.admin.call(method, path, body)

    def rows(self, table: str, project_id: str) -> set[str]:
        query = f"SELECT id FROM {table} WHERE project_id = ?"
        return {id_ for (id_,) in self.sweeper.rows("keystone", query, project_id)}

    def project(self) -> Filled:
        """Make a project with a secret, a container with an object, and an image."""
        name = f"hidden-{secrets.token_hex(3)}"
        filled = filler.make_project(self.admin, name, password=None, partner=None)
        user = filled.connection
        made = Rest(user.key_manager).call(
            "POST", "/secrets", {"name": name, "payload": "x", "payload_content_type": "text/plain"}
        )
        filled.note("secret", made["secret_ref"].rsplit("/", 1)[1])
        store = Rest(user.object_store)
        store.raw("PUT", f"/{name}")
        store.raw("PUT", f"/{name}/object", data=b"data")
        body = {"name": name, "container_format": "bare", "disk_format": "raw"}
        filled.note("image", Rest(user.image).call("POST", "/images", body)["id"])
        return filled

    def left(self, filled: Filled) -> dict[str, bool]:
        """Return which of its resources are still there, from the databases, and from Swift as its reseller."""
        (secret,) = filled.ids["secret"]
        (image,) = filled.ids["image"]
        found = {
            "secret": self.sweeper.rows("barbican", "SELECT deleted FROM secrets WHERE id = ?", secret),
            "image": self.sweeper.rows("glance", "SELECT deleted FROM images WHERE id = ?", image),
        }
        there = {name: any(not deleted for (deleted,) in rows) for name, rows in found.items()}
        reader = filler.connect(self.cloud.auth_url, "auditor", self.cloud.site.password, "service")
        url = f"{reader.object_store.get_endpoint().rpartition('/')[0]}/AUTH_{filled.project_id}"
        answer = requests.get(url, headers={"X-Auth-Token": reader.auth_token}, timeout=60)
        there["container"] = answer.status_code == 200 and filled.project_name in answer.text
        return there

    def blocked(self, deletion_id: str) -> dict[str, Any]:
        """Return the blockers of a deletion, by service and type."""
        record, steps = self.running.store.get(deletion_id), self.running.store.steps(deletion_id)
        return {f"{b.service}.{b.type}": b for b in blockers(record, steps)}

    def wait_for(
        self, deletion_id: str, until: Callable[[dict[str, Any]], Any], seconds: float = 240
    ) -> dict[str, Any]:
        """Wait until the blockers of a deletion are as wanted; return them."""
        self.running.wait(deletion_id, until=lambda _: until(self.blocked(deletion_id)), seconds=seconds)
        return self.blocked(deletion_id)

    def journal(self, deletion_id: str) -> list[tuple[str, str]]:
        return [(row.event.type, row.event.message) for row in self.running.store.events(deletion_id, 1000)]

    def endpoints(self, type_: str) -> list[dict[str, Any]]:
        (entry,) = self.call("GET", f"/services?type={type_}")["services"]
        return self.call("GET", f"/endpoints?service_id={entry['id']}")["endpoints"]

    def enable(self, what: str, id_: str, enabled: bool) -> None:
        self.call("PATCH", f"/{what}s/{id_}", {what: {"enabled": enabled}})
        self.forget()

    def forget(self) -> None:
        """Make the orchestrator read the catalog anew: it comes with tokens, and the endpoints are kept for a while."""
        self.running.parts.clouds.forget("")


@pytest.fixture(scope="module")
def site(
    request: pytest.FixtureRequest, cloud_venv: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """The light cloud, whose Keystone has this package in it.

    ``stock``: Keystone alone, as it is shipped. ``short``: the same, with a limit for its lists.

    One after the other: orchestrators in one process share its bus.
    """
    kind = getattr(request, "param", "")
    folder = tmp_path_factory.mktemp("cloud")
    swift = {"swift": {"app:proxy-server": {"allow_account_management": "yes"}}}
    config = {"stock": {}, "short": SHORT}.get(kind, swift)
    options: dict[str, Any] = {"services": ()} if kind else {**FENCED, "cleanup_user": "orchestrator"}
    with Cloud(folder, cloud_venv, port_base=free_port_base(), extra_config=config, **options) as cloud:
        made = Site(cloud, folder, "revoke" if kind else "fence")
        yield made
        made.running.running.close()


#: The stock Keystone. Its tests are the first ones.
stock = pytest.mark.parametrize("site", ["stock"], indirect=True)


# ------------------------------------------------------------------------------ credentials of users who do not show
def hidden_credential(flows: Flows, kind: str) -> str:
    """Make an application credential of a user who then has no role that shows; return its id."""
    call = flows.cloud.admin.call
    if kind == "federated":
        login = flows._federated()
        # Otherwise Keystone does not see the role of a mapping, and refuses the credential.
        idp = {"identity_provider": {"authorization_ttl": 60}}
        call("PATCH", f"/OS-FEDERATION/identity_providers/flows-{flows.suffix}", idp)
    else:
        member, group = flows.person(), flows._make("groups", name=f"g-{flows.suffix}", domain_id=flows.domain_id)["id"]
        call("PUT", f"/groups/{group}/users/{member}")
        flows._grant(f"projects/{flows.project_id}/groups/{group}")
        login = lambda url: flows.login(url, flows._password(member))  # noqa: E731
    answer = until_known(lambda: login(flows.cloud.auth_url))
    assert answer.status_code == 201, answer.text
    user_id = answer.json()["token"]["user"]["id"]
    answer = requests.post(
        f"{flows.cloud.auth_url}/users/{user_id}/application_credentials",
        json={"application_credential": {"name": kind}},
        headers={"X-Auth-Token": answer.headers["X-Subject-Token"]},
        timeout=60,
    )
    assert answer.status_code == 201, answer.text
    if kind == "former member of a group":
        call("DELETE", f"/projects/{flows.project_id}/groups/{group}/roles/{flows.role_id}")
    return str(answer.json()["application_credential"]["id"])


HIDDEN = ("federated", "former member of a group")


@stock
@pytest.mark.parametrize("kind", HIDDEN)
def test_a_stock_keystone_hides_them_and_the_report_says_so(site, kind):
    flows = Flows(site.cloud, only=())
    credential = hidden_credential(flows, kind)
    deletion_id = site.running.run(flows.project_id, Mode.CASCADE, Status.DELETED)
    assert site.rows("application_credential", flows.project_id) == {credential}
    step = site.running.step(deletion_id, "identity.application_credential")
    assert "may have been missed" in step.message
    assert [text for type_, text in site.journal(deletion_id) if type_ == "sweep.clear" and "may have been" in text]
    # The query that it names shows the row.
    query = next(part for part in step.message.split(": ") if part.startswith("SELECT")).split(";")[0]
    ((found, user_id, project_id),) = site.sweeper.rows("keystone", query)
    assert (found, project_id) == (credential, flows.project_id)
    site.call("DELETE", f"/users/{user_id}/application_credentials/{found}")
    assert site.rows("application_credential", flows.project_id) == set()


@pytest.mark.parametrize("site", ["short"], indirect=True)
def test_a_catalog_that_list_limit_cuts_is_unknown(site):
    """``[DEFAULT] list_limit`` of Keystone answers 200 with a part of the endpoints: no service may count as absent."""
    assert site.call("GET", "/endpoints")["truncated"] is True
    flows = Flows(site.cloud, only=())
    deletion_id = site.running.request(flows.project_id, Mode.CASCADE)
    site.running.tried_again(deletion_id, "survey")
    found = site.blocked(deletion_id)
    assert {name: (each.reason, each.message) for name, each in found.items()} == {
        ".survey": ("bad_answer", "Keystone did not list the whole catalog")
    }
    assert site.call("GET", f"/projects/{flows.project_id}")["project"]["enabled"] is True
    site.running.cancel(deletion_id)


@pytest.mark.parametrize("kind", HIDDEN)
def test_credentials_of_users_who_do_not_show_are_deleted(site, kind):
    """Other projects' rows of the same user stay."""
    flows, other = Flows(site.cloud, only=()), Flows(site.cloud, only=())
    credential, theirs = hidden_credential(flows, kind), hidden_credential(other, kind)
    assert site.rows("application_credential", flows.project_id) == {credential}
    site.running.run(flows.project_id, Mode.CASCADE, Status.DELETED)
    assert site.rows("application_credential", flows.project_id) == set()
    assert site.rows("application_credential", other.project_id) == {theirs}


def test_those_of_a_project_that_is_gone_are_found_and_deleted(site):
    flows = Flows(site.cloud, only=())
    made = {hidden_credential(flows, kind) for kind in HIDDEN}
    site.call("DELETE", f"/projects/{flows.project_id}")
    assert site.rows("application_credential", flows.project_id) == made
    own = site.running.parts.clouds
    type_ = next(each for each in IDENTITY.types if each.name == "application_credential")
    gone = ProjectDefinition(flows.project_id, "flows", flows.domain_id, "", gone=True)
    connection = own.connection(own.admin_session(lambda *_: None), "")
    everything = {row["id"] for row in type_.all_projects(connection, gone)}  # as an orphan scan lists them
    assert made <= everything
    assert sweeps.delete(type_, connection, gone).outcome is Outcome.CLEAR
    assert site.rows("application_credential", flows.project_id) == set()


def test_the_lists_by_project_are_for_the_orchestrator_alone(site):
    flows = Flows(site.cloud, only=("application credential",))
    credential = hidden_credential(flows, HIDDEN[1])
    base = f"{site.cloud.auth_url}/OS-PROJECT-CLEANUP"
    paths = ("", f"/projects/{flows.project_id}/application_credentials", "/projects/-/trusts")
    own = site.running.parts.clouds.admin_session().get_token()
    rescoped = requests.post(
        f"{site.cloud.auth_url}/auth/tokens",
        json={"auth": {"identity": {"methods": ["token"], "token": {"id": own}}}},
        timeout=60,
    ).headers["X-Subject-Token"]
    member = flows.login(site.cloud.auth_url, flows._password(flows.user_id)).headers["X-Subject-Token"]
    callers = {"admin": flows.admin["X-Auth-Token"], "member": member, "the orchestrator, rescoped": rescoped}
    for who, token in callers.items():
        for path in paths:
            answer = requests.get(base + path, headers={"X-Auth-Token": token}, timeout=60)
            assert answer.status_code == 403, (who, path, answer.text)
    assert [requests.get(base + path, timeout=60).status_code for path in paths] == [401] * 3
    answers = [requests.get(base + path, headers={"X-Auth-Token": own}, timeout=60) for path in paths]
    assert [answer.status_code for answer in answers] == [200] * 3
    listed = answers[1].json()["application_credentials"]
    assert credential in {row["id"] for row in listed} and len(listed) == 2
    assert {frozenset(row) for row in listed} == {frozenset({"id", "name", "user_id", "project_id"})}
    pages = requests.get(f"{base}{paths[1]}?limit=1", headers={"X-Auth-Token": own}, timeout=60).json()
    following = requests.get(pages["links"]["next"], headers={"X-Auth-Token": own}, timeout=60).json()
    key = "application_credentials"
    assert pages[key] + following[key] == listed and following["links"]["next"] is None
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        answer = requests.request(method, base + paths[1], headers={"X-Auth-Token": own}, json={}, timeout=60)
        assert answer.status_code == 405, method


# --------------------------------------------------------------------------------------- filtered endpoints
@contextlib.contextmanager
def filtered(site: Site, project_id: str, *endpoint_ids: str) -> Iterator[None]:
    for id_ in endpoint_ids:
        site.call("PUT", f"/OS-EP-FILTER/projects/{project_id}/endpoints/{id_}")
    yield


def bystanders(site: Site) -> tuple[Filled, str]:
    """Return a full project, and a container of the orchestrator's own project: Swift's URLs differ by the account."""
    own = filler.connect(site.cloud.auth_url, "orchestrator", site.cloud.site.password, "service")
    role = site.call("GET", "/roles?name=ResellerAdmin")["roles"][0]["id"]
    site.call("PUT", f"/projects/{own.current_project_id}/users/{site.running.user_id}/roles/{role}")
    own = filler.connect(site.cloud.auth_url, "orchestrator", site.cloud.site.password, "service")
    name = f"own-{secrets.token_hex(3)}"
    Rest(own.object_store).raw("PUT", f"/{name}")
    return site.project(), name


def test_a_project_with_an_endpoint_filter_is_listed_whole(site):
    other, container = bystanders(site)
    filled = site.project()
    shown = [each["id"] for type_ in ("identity", "network") for each in site.endpoints(type_)]
    with filtered(site, filled.project_id, *shown):
        deletion_id = site.running.run(filled.project_id, Mode.CASCADE, Status.DELETED)
    assert site.left(filled) == {"secret": False, "image": False, "container": False}
    assert site.left(other) == {"secret": True, "image": True, "container": True}
    own = filler.connect(site.cloud.auth_url, "orchestrator", site.cloud.site.password, "service")
    assert container in {each["name"] for each in Rest(own.object_store).call("GET", "?format=json")}
    assert not [text for type_, text in site.journal(deletion_id) if type_ == "sweep.unknown"]


def test_a_filter_that_shows_another_service_of_the_type_hides_nothing(site):
    """The token of the project has the second service of the type alone. What is called is the first all the same."""
    filled = site.project()
    service = {"type": "object-store", "name": "second-store", "enabled": True}
    second = site.call("POST", "/services", {"service": service})["service"]["id"]
    endpoint = {"service_id": second, "interface": "public", "region_id": "RegionOne", "url": "http://127.0.0.1:1/x"}
    shown = site.call("POST", "/endpoints", {"endpoint": endpoint})["endpoint"]["id"]
    identity = [each["id"] for each in site.endpoints("identity")]
    try:
        with filtered(site, filled.project_id, shown, *identity):
            deletion_id = site.running.request(filled.project_id, Mode.CASCADE)
            found = site.wait_for(deletion_id, lambda found: found and not any(site.left(filled).values()))
            assert {name: each.reason for name, each in found.items()} == {
                "object-store.second-store.unsupported": "no_plugin"
            }
    finally:
        site.call("DELETE", f"/services/{second}")
        site.running.cancel(deletion_id)


# --------------------------------------------------------------------------------------- disabled endpoints
@pytest.mark.parametrize(
    ("type_", "what"), [("object-store", "endpoint"), ("image", "service"), ("key-manager", "endpoint")]
)
def test_what_is_disabled_in_keystone_is_unknown_and_named_with_the_call(site, type_, what):
    """It is missing in everybody's catalog, and the data is there."""
    filled = site.project()
    endpoint = next(each for each in site.endpoints(type_) if each["interface"] == "public")
    id_ = endpoint["service_id"] if what == "service" else endpoint["id"]
    site.enable(what, id_, False)
    try:
        deletion_id = site.running.request(filled.project_id, Mode.CASCADE)
        mine = lambda found: [b for name, b in found.items() if name.startswith(type_)]  # noqa: E731
        named = lambda found: mine(found) and {b.reason for b in mine(found)} == {"no_endpoint"}  # noqa: E731
        found = site.wait_for(deletion_id, named)
        assert all(f"openstack {what} set --enable {id_}" in b.message for b in mine(found))
        assert all("waiver would leave" in b.remedy for b in mine(found))
    finally:
        site.enable(what, id_, True)
    site.running.wait(deletion_id, Status.DELETED)
    assert not any(site.left(filled).values())


def test_a_service_without_the_interface_that_is_called_is_named(site):
    filled = site.project()
    endpoint = next(each for each in site.endpoints("key-manager") if each["interface"] == "public")
    site.call("DELETE", f"/endpoints/{endpoint['id']}")
    site.forget()
    again = {name: endpoint[name] for name in ("service_id", "interface", "region_id", "url")}
    try:
        deletion_id = site.running.request(filled.project_id, Mode.CASCADE)
        name = "key-manager.secret"
        found = site.wait_for(deletion_id, lambda found: name in found and found[name].reason == "no_endpoint")[name]
        assert "has no public endpoint in Keystone, only admin, internal" in found.message
        assert f"openstack endpoint create --region RegionOne {endpoint['service_id']} public URL" in found.message
    finally:
        site.call("POST", "/endpoints", {"endpoint": again})
        site.forget()
    site.running.wait(deletion_id, Status.DELETED)
    assert not any(site.left(filled).values())


# --------------------------------------------------------------------------------------- a disabled domain
def in_a_domain(site: Site) -> tuple[Filled, str]:
    """Return a project in a domain of its own, with a secret, and the id of the domain."""
    flows = Flows(site.cloud, only=())
    answer = flows.login(site.cloud.auth_url, flows._password(flows.user_id))
    token = {"X-Auth-Token": answer.headers["X-Subject-Token"]}
    url = next(each["url"] for each in site.endpoints("key-manager") if each["interface"] == "public")
    body = {"name": "x", "payload": "x", "payload_content_type": "text/plain"}
    made = requests.post(f"{url.rstrip('/').removesuffix('/v1')}/v1/secrets", json=body, headers=token, timeout=60)
    assert made.status_code == 201, made.text
    secret = made.json()["secret_ref"].rsplit("/", 1)[1]
    filled = Filled(flows.project_id, "flows", flows.user_id, "", "", "", "", None, "", {"secret": [secret]})
    return filled, flows.domain_id


def secret_is_there(site: Site, filled: Filled) -> bool:
    (secret,) = filled.ids["secret"]
    return any(
        not deleted for (deleted,) in site.sweeper.rows("barbican", "SELECT deleted FROM secrets WHERE id = ?", secret)
    )


@pytest.mark.parametrize("when", ["before the request", "while it is locked"])
def test_a_disabled_domain_is_named_with_the_call(site, when):
    filled, domain_id = in_a_domain(site)
    call = f"openstack domain set --enable {domain_id}"
    if when == "before the request":
        site.enable("domain", domain_id, False)
        deletion_id = site.running.request(filled.project_id, Mode.CASCADE)
    else:
        deletion_id = site.running.request(filled.project_id, Mode.CASCADE)
        site.running.wait(deletion_id, until=lambda record: record.drained_at is not None, seconds=120)
        site.enable("domain", domain_id, False)
    try:
        found = site.wait_for(deletion_id, lambda found: any(call in each.message for each in found.values()))
        reasons = {name: each.reason for name, each in found.items() if call in each.message}
        assert set(reasons.values()) == {"no_project_token"}
        assert all("the message names" in found[name].remedy for name in reasons)
        texts = " ".join(each.message + each.remedy for each in found.values())
        assert "keystone.conf" not in texts
        assert secret_is_there(site, filled)
    finally:
        site.enable("domain", domain_id, True)
    site.running.wait(deletion_id, Status.DELETED)
    assert not secret_is_there(site, filled)


# --------------------------------------------------------------------------------------- revoked tokens
def test_tokens_that_are_revoked_midway_are_no_condition(site):
    """The orchestrator's user is put into a group and taken out of it, again and again: each time all tokens end."""
    filled = site.project()
    group = site.call("POST", "/groups", {"group": {"name": secrets.token_hex(4), "domain_id": "default"}})["group"][
        "id"
    ]
    over = threading.Event()
    times = []

    def revoke() -> None:
        while not over.wait(3):
            site.call("PUT", f"/groups/{group}/users/{site.running.user_id}")
            site.call("DELETE", f"/groups/{group}/users/{site.running.user_id}")
            times.append(1)

    thread = threading.Thread(target=revoke)
    thread.start()
    try:
        deletion_id = site.running.run(filled.project_id, Mode.CASCADE, Status.DELETED)
    finally:
        over.set()
        thread.join()
    assert len(times) >= 3
    journal = site.journal(deletion_id)
    assert not [text for type_, text in journal if type_ in ("condition.blocked", "condition.stalled")]
    assert not [text for _, text in journal if "user_id in the keystone.conf" in text or "401" in text]
    assert not any(site.left(filled).values())


# --------------------------------------------------------------------------------------- networks without a project
def test_the_network_of_replicated_routers_is_found_by_its_name(site):
    """A network of the same name that has a project is that project's."""
    filled, other = site.project(), site.project()
    name = f"HA network tenant {filled.project_id}"
    admin, theirs = Rest(site.admin.network), Rest(other.connection.network)
    body = {"name": name, "project_id": ""}
    networks = [admin.call("POST", "/networks", {"network": body})["network"]["id"]]
    subnet = {"network_id": networks[0], "ip_version": 4, "cidr": "169.254.192.0/18", "project_id": ""}
    admin.call("POST", "/subnets", {"subnet": {**subnet, "gateway_ip": None, "enable_dhcp": False}})
    networks.append(theirs.call("POST", "/networks", {"network": {"name": name}})["network"]["id"])
    another = {"name": f"HA network tenant {other.project_id}", "project_id": ""}
    networks.append(admin.call("POST", "/networks", {"network": another})["network"]["id"])
    assert [
        row[0] for row in site.sweeper.rows("neutron", "SELECT project_id FROM networks WHERE id = ?", networks[0])
    ] == [""]
    site.running.run(filled.project_id, Mode.CASCADE, Status.DELETED)
    left = {id_ for (id_,) in site.sweeper.rows("neutron", "SELECT id FROM networks")}
    assert left & set(networks) == set(networks[1:])
