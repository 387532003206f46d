"""The emulated cloud answers as the real services do: the same inventory of both, and the shapes of all it saw.

If the emulated cloud lacks a field, plugins pass there and fail in production. A field that only the emulated cloud has
is a defect as well. So keys are compared both ways, kinds of values where both have values, and refusals with their
shapes and statuses.
"""

from __future__ import annotations

import collections
import re
import uuid

import pytest
from keystoneauth1.identity.v3 import Password
from openstack.connection import Connection

from cleanup_orchestrator.cloud.session import GuardedSession, read_only
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.plugins import registry
from cleanup_orchestrator.plugins.base import ProjectDefinition, Rest, Sdk
from tests.cloud import filler
from tests.emulated import Emulated
from tests.emulated.cloud import OWN_PROJECT, USER
from tests.support import sweeps

IDS = re.compile(r"[0-9a-f]{64}|[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{32}")
#: Fields with arbitrary contents of users or operators, and URLs.
FREE = {"binding:profile", "binding:vif_details", "extra", "links", "meta", "options", "resource_request", "used"}
#: Fields that only some rows have.
SOMETIMES = {"os_glance_failed_import", "os_glance_importing_to_stores", "trunk_details"}
#: Headers of Swift that the plugin reads.
READ = ("date", "x-account-meta-", "x-timestamp", "x-versions-enabled", "x-versions-location")


class Seen:
    """The structure of answers: the sets of keys and the kinds of values by the place in the answer."""

    def __init__(self) -> None:
        self.keys: dict[str, list[frozenset[str]]] = collections.defaultdict(list)
        self.kinds: dict[str, set[str]] = collections.defaultdict(set)
        self.statuses: dict[str, set[int]] = collections.defaultdict(set)

    def note(self, method, url, response) -> None:
        path = url.partition("?")[0]
        if (version := re.search(r"/(v\d[\d.]*)(?=/|$)", path)) is None:
            return  # a version document: its format differs by service, and the plugins can read it
        path = re.sub(r"AUTH_[^/]*/.+", "AUTH_*/*", IDS.sub("*", path[version.start() :])).replace("AUTH_*", "ACCOUNT")
        path = re.sub(r"(?<=namespaces/).+", "*", path)
        place = f"{method} {path}"
        self.statuses[place].add(response.status_code)
        if "ACCOUNT" in place:
            names = (name.lower() for name in response.headers)
            read = (next((r for r in READ if name.startswith(r)), "") for name in names)
            self.keys[f"{place} headers"].append(frozenset(read) - {""})
        if "json" in response.headers.get("Content-Type", "") and response.content:
            self.take(f"{place} {response.status_code}", response.json())

    def take(self, place, value) -> None:
        if isinstance(value, dict):
            self.keys[place].append(frozenset(k for k in value if not k.endswith("_links")))
            for key, inner in value.items():
                if key not in FREE and not key.endswith("_links"):
                    self.take(f"{place}.{key}", inner)
        elif isinstance(value, list):
            for inner in value:
                self.take(f"{place}[]", inner)
        else:
            self.kinds[place].add(type(value).__name__)


class Recorder(GuardedSession):
    """A read-only session that records the answers."""

    def __init__(self, seen, **kwargs) -> None:
        super().__init__(read_only, **kwargs)
        self.seen = seen

    def request(self, url, method, **kwargs):
        response = super().request(url, method, **kwargs)
        if "/auth/tokens" not in response.url or method == "POST":
            self.seen.note(method, response.url, response)
        return response


#: What both clouds have.
SERVICES = ("identity", "image", "key-manager", "network", "object-store")


class View:
    """The sessions of an administrator in one cloud, real or emulated."""

    def __init__(self, auth_url, user, password, project) -> None:
        self.seen = Seen()
        self._auth = {"auth_url": auth_url, "username": user, "password": password, "user_domain_id": "default"}
        self._project = project

    def connection(self, project_id=None) -> Connection:
        scope = {"project_name": self._project, "project_domain_id": "default"}
        auth = Password(**self._auth, **({"project_id": project_id} if project_id else scope))
        return Connection(session=Recorder(self.seen, auth=auth), region_name="RegionOne")

    def inventory(self, project_id, name, members) -> dict[str, Outcome]:
        """List every type, and read the first resource of each again."""
        outcomes = {}
        for service in (each for name, each in registry.load().services.items() if name in SERVICES):
            options = {option.dest: option.default for option in service.options}
            project = ProjectDefinition(project_id, name, "default", "RegionOne", members, options)
            for type_ in service.types:
                connection = self.connection(project_id if type_.token.scoped else None)
                outcome = sweeps.inventory(type_, connection, project).outcome
                outcomes[f"{service.service_type}.{type_.name}"] = outcome
                if type_.show is not None and outcome is Outcome.LEFTOVERS:
                    self.show(type_, connection, project)
        return outcomes

    @staticmethod
    def show(type_, connection, project) -> None:
        """Read the first resource of the project again."""
        declared = isinstance(type_.list, Sdk | Rest)
        rows = type_.list.rows(connection, project) if declared else type_.list(connection, project)
        resources = (type_.resource(row, project) for row in rows)
        first = next(resource for resource in resources if resource.owner == project.id)
        (type_.show.row if isinstance(type_.show, Sdk | Rest) else type_.show)(connection, project, first)


@pytest.fixture(scope="module")
def emulated():
    with Emulated(projects=1, seed=1, everything=True, plugged=False) as cloud:
        # Rows with more than the minimal fields.
        project = cloud.projects[0]
        cloud.state.add("RegionOne", "image.image", project, os_hidden=True, name="hidden")
        cloud.state.add("RegionOne", "image.image", project, visibility="shared", members=[cloud.bystanders[0]])
        cloud.grant(project, cloud.orchestrator_id, "admin")
        yield cloud


@pytest.fixture(scope="module")
def views(admin, sweeper, emulated):
    """Both clouds after the same inventory."""
    neighbour = filler.fill(admin, "like-neighbour", only=["network", "identity"])
    filled = filler.fill(admin, "like-real", objects=5, partner=neighbour.project_id)
    sweeper.enter(filled)
    real = View(sweeper.cloud.auth_url, sweeper.NAME, sweeper.PASSWORD, sweeper.PROJECT)
    like = View(emulated.auth_url, USER, USER, OWN_PROJECT)
    outcomes = (
        real.inventory(filled.project_id, filled.project_name, (filled.user_id, filled.colleague_id)),
        like.inventory(emulated.projects[0], "doomed-0", ()),
    )
    return real, like, outcomes


def differences(real: Seen, like: Seen) -> list[str]:
    """Return the differences in all places that both have."""
    found = []
    for place in sorted(real.keys.keys() & like.keys.keys()):
        always, ever = frozenset.intersection(*real.keys[place]), frozenset.union(*real.keys[place])
        for keys in set(like.keys[place]):
            found += [f"{place}: {key} is missing" for key in sorted(always - keys - SOMETIMES)]
            found += [f"{place}: {key} is not there in the real one" for key in sorted(keys - ever)]
    for place in sorted(real.kinds.keys() & like.kinds.keys()):
        real_kinds, kinds = real.kinds[place] - {"NoneType"}, like.kinds[place] - {"NoneType"}
        if real_kinds and not kinds <= real_kinds:
            found.append(f"{place}: {sorted(kinds)} instead of {sorted(real_kinds)}")
    for place in sorted(real.statuses.keys() & like.statuses.keys()):
        if not like.statuses[place] <= real.statuses[place]:
            found.append(f"{place}: answers {like.statuses[place]} instead of {real.statuses[place]}")
    return sorted(set(found))


def test_the_same_inventory_of_both_sees_the_same_shapes(views):
    real, like, _ = views
    assert "\n".join(differences(real.seen, like.seen)) == ""


def test_enough_was_seen_of_both_to_say_so(views):
    real, like, (real_outcomes, outcomes) = views
    assert Outcome.UNKNOWN not in {*real_outcomes.values(), *outcomes.values()}
    left = {name for name, outcome in real_outcomes.items() if outcome is Outcome.LEFTOVERS}
    # The emulated Neutron has no highly available routers. Their network is a row like that of any other network.
    assert left - {"network.ha_network"} <= {name for name, outcome in outcomes.items() if outcome is Outcome.LEFTOVERS}
    asked_in_vain = {
        place for place in real.seen.statuses.keys() - like.seen.statuses.keys() if place.startswith("GET")
    }
    assert asked_in_vain == set(), "the inventory of the emulated cloud asked less"
    compared = {p for p in real.seen.keys.keys() & like.seen.keys.keys() if p.endswith("[]")}
    assert len(compared) >= 40


NOWHERE = str(uuid.UUID(int=7))
#: (service, method, path, body): requests that both have to refuse in the same way.
ASKED = (
    ("identity", "GET", f"/projects/{NOWHERE}", None),
    ("identity", "PATCH", f"/projects/{NOWHERE}", {"project": {"enabled": True}}),
    ("identity", "GET", f"/users/{NOWHERE}", None),
    ("identity", "GET", f"/users/{NOWHERE}/application_credentials", None),  # none, and no error
    ("identity", "GET", f"/users/{NOWHERE}/OS-OAUTH1/access_tokens", None),
    ("identity", "GET", f"/OS-TRUST/trusts/{NOWHERE}", None),
    ("identity", "DELETE", f"/credentials/{NOWHERE}", None),
    ("identity", "GET", f"/role_assignments?scope.project.id={NOWHERE}&effective", None),
    ("network", "GET", f"/networks/{NOWHERE}", None),
    ("network", "DELETE", f"/ports/{NOWHERE}", None),
    ("network", "GET", f"/floatingips/{NOWHERE}", None),
    ("network", "GET", f"/security-groups/{NOWHERE}", None),
    ("network", "GET", f"/subnetpools/{NOWHERE}", None),
    ("network", "GET", f"/qos/policies/{NOWHERE}", None),
    ("network", "GET", f"/rbac-policies/{NOWHERE}", None),
    ("network", "GET", f"/trunks/{NOWHERE}", None),
    ("network", "GET", f"/floatingips/{NOWHERE}/port_forwardings", None),
    ("network", "GET", f"/routers/{NOWHERE}/conntrack_helpers", None),
    ("network", "PUT", "/routers/{router}/remove_router_interface", {"port_id": NOWHERE}),
    ("network", "GET", "/networks?no_such_attribute=1", None),
    ("network", "GET", "/ndp_proxies?project_id=1", None),
    ("network", "GET", f"/ports?limit=1&marker={NOWHERE}", None),
    ("network", "GET", "/no-such-collection", None),
    ("network", "DELETE", "/networks/{network}", None),
    ("network", "DELETE", "/routers/{router}", None),
    ("network", "DELETE", "/subnets/{subnet}", None),
    ("network", "DELETE", "/ports/{trunk_port}", None),
    ("network", "DELETE", "/ports/{interface}", None),
    ("network", "DELETE", "/subnetpools/{pool}", None),
    ("network", "DELETE", "/address-scopes/{scope}", None),
    ("network", "DELETE", "/qos/policies/{qos}", None),
    ("network", "DELETE", f"/quotas/{NOWHERE}", None),
    ("image", "GET", f"/images/{NOWHERE}", None),
    ("image", "GET", f"/images?marker={NOWHERE}", None),
    ("image", "DELETE", "/images/{image}", None),
    ("image", "DELETE", "/tasks/{task}", None),
    ("key_manager", "GET", f"/project-quotas/{NOWHERE}", None),
    ("key_manager", "DELETE", f"/secrets/{NOWHERE}", None),
    ("object_store", "DELETE", "/{container}", None),
    ("object_store", "DELETE", "/no-such-container", None),
)


def words(connection, project_id):
    """The ids that go into the paths, found in the same way in both."""
    get = lambda path, key: connection.network.get(f"{path}?project_id={project_id}").json()[key]  # noqa: E731
    ports = get("/ports", "ports")
    fixed = next(p for p in ports if p["fixed_ips"] and p["device_owner"] in ("", "compute:nova"))
    interface = next(p for p in ports if p["device_owner"] == "network:router_interface")
    protected = {"owner": project_id, "visibility": "all"}
    images = connection.image.get("/images", params=protected).json()["images"]
    return {
        "network": interface["network_id"],
        "router": interface["device_id"],
        "interface": interface["id"],
        "subnet": fixed["fixed_ips"][0]["subnet_id"],
        "trunk_port": get("/trunks", "trunks")[0]["port_id"],
        "pool": next(s["subnetpool_id"] for s in get("/subnets", "subnets") if s["subnetpool_id"]),
        "scope": get("/address-scopes", "address_scopes")[0]["id"],
        "qos": next(n["qos_policy_id"] for n in get("/networks", "networks") if n["qos_policy_id"]),
        "image": next(i["id"] for i in images if i["protected"]),
        "task": connection.image.get("/tasks", params={"owner": project_id}).json()["tasks"][0]["id"],
    }


def refusal(connection, service, method, path, body):
    """Return (status, kind of the body, its keys), on which a client may rely."""
    response = getattr(connection, service).request(path, method, json=body, raise_exc=False)
    kind = response.headers.get("Content-Type", "").partition(";")[0] if response.content else ""
    keys = {}
    if kind == "application/json":
        keys = {k: sorted(v) if isinstance(v, dict) else type(v).__name__ for k, v in response.json().items()}
    said = keys | ({"type": response.json()["NeutronError"]["type"]} if "NeutronError" in keys else {})
    return response.status_code, kind, said


def test_emulated_services_refuse_with_the_same_text_as_real_ones(admin, sweeper, emulated):
    filled = filler.fill(admin, "like-refused", objects=2)
    sweeper.enter(filled)
    ours = emulated.projects[0]
    subnet = emulated.state.table("RegionOne", "network.subnet")
    emulated.state.add("RegionOne", "image.image", ours, protected=True)
    for row in subnet.owned[ours].values():
        pool = next(iter(emulated.state.table("RegionOne", "network.subnet_pool").owned[ours]))
        subnet.change(row, {"subnetpool_id": pool})
        add = {"network_id": row.get("network_id"), "fixed_ips": [{"subnet_id": row.id, "ip_address": "10.0.0.8"}]}
        emulated.state.add("RegionOne", "network.port", ours, **add)
    both = {}
    for name, view, project_id, container in (
        ("real", lambda p=None: sweeper.connection(p, write=True), filled.project_id, "like-refused-plain"),
        ("like", lambda p=None: _writing(emulated, p), ours, "plain"),
    ):
        outside, inside = view(), view(project_id)
        named = {**words(outside, project_id), "container": container}
        for service, method, path, body in ASKED:
            connection = inside if service == "object_store" or "secrets" in path else outside
            asked = f"{service} {method} {path}"
            both.setdefault(asked, {})[name] = refusal(connection, service, method, path.format(**named), body)
    unlike = [f"{asked}: {each['like']} instead of {each['real']}" for asked, each in both.items()
              if each["real"] != each["like"]]  # fmt: skip
    assert "\n".join(unlike) == ""
    refused = [asked for asked, each in both.items() if each["real"][0] >= 400]
    assert len(refused) >= len(ASKED) - 3


def _writing(cloud, project_id):
    scope = {"project_id": project_id} if project_id else {"project_name": OWN_PROJECT, "project_domain_id": "default"}
    auth = Password(cloud.auth_url, username=USER, password=USER, user_domain_id="default", **scope)
    return Connection(session=GuardedSession(lambda method, url: None, auth=auth), region_name="RegionOne")
