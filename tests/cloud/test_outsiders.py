"""Resources that a user without a role puts into a project do not block its deletion. Over the whole cloud."""

from __future__ import annotations

import contextlib
import secrets
import threading
import uuid
from collections.abc import Iterator

import pytest
from openstack.connection import Connection

from cleanup_orchestrator.core.deletion import Mode, Origin, Status, accepted
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.step import TASKS, Outcome
from tests.cloud import filler
from tests.cloud.fillings.base import Filled, Rest
from tests.cloud.launcher import Cloud
from tests.cloud.orchestrator import Orchestrator

#: How the deletion of a project with nothing in it ends, and what its message says.
ENDS = {
    Mode.REPORT: (Status.DELETED, "removed; nothing is left"),
    Mode.CASCADE: (Status.DELETED, "removed; nothing is left"),
    Mode.PURGE: (Status.PURGED, "what was selected is gone, and the project is given back"),
}


@pytest.fixture(scope="module")
def orchestrator(full_cloud: Cloud, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Orchestrator]:
    """Engine and workers in this process, which read at most five resources of a type at a time."""
    made = Orchestrator(full_cloud, tmp_path_factory.mktemp("orchestrator"), "[worker]\nmost_listed = 5\n")
    yield made
    made.running.close()


@pytest.fixture
def victim(full_admin: Connection) -> Filled:
    """A project with nothing in it."""
    return filler.fill(full_admin, f"victim-{secrets.token_hex(3)}", only=())


@pytest.fixture(scope="module")
def outsider(full_admin: Connection) -> Filled:
    """A project of a user without a role on any other project."""
    return filler.fill(full_admin, f"outsider-{secrets.token_hex(3)}", only=())


def put_credential(outsider: Filled, project_id: str) -> str:
    """Make a credential of the outsider's that names a project; Keystone asks for no role on it."""
    body = {"type": "cert", "blob": "x", "user_id": outsider.user_id, "project_id": project_id}
    return Rest(outsider.connection.identity).call("POST", "/credentials", {"credential": body})["credential"]["id"]


@contextlib.contextmanager
def putting_credentials(outsider: Filled, project_id: str) -> Iterator[list[str]]:
    """Create credentials repeatedly; yield the ids so far."""
    made = [put_credential(outsider, project_id)]
    over = threading.Event()

    def work() -> None:
        while not over.wait(0.3):
            made.append(put_credential(outsider, project_id))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield made
    finally:
        over.set()
        thread.join()


def credentials(full_sweeper, project_id: str) -> set[str]:
    """Return the existing credentials from the database of Keystone."""
    return {
        id_ for (id_,) in full_sweeper.rows("keystone", "SELECT id FROM credential WHERE project_id = ?", project_id)
    }


@pytest.mark.parametrize("mode", ENDS)
def test_credentials_that_keep_coming_do_not_keep_the_project(orchestrator, full_cloud, victim, outsider, mode):
    with putting_credentials(outsider, victim.project_id) as made:
        deletion_id = orchestrator.request(victim.project_id, mode)
        record = orchestrator.wait(deletion_id, seconds=180)
    assert (record.status, record.message.split(";")[0]) == ENDS[mode]
    assert len(made) > 5


def test_a_report_names_them_and_their_owners(orchestrator, full_admin, victim, outsider):
    image = victim.connection.image.create_image(name="in-the-way", container_format="bare", disk_format="raw")
    put = put_credential(outsider, victim.project_id)
    deletion_id = orchestrator.request(victim.project_id, Mode.REPORT)
    record = orchestrator.wait(deletion_id, Status.LEFTOVERS)
    assert record.message == "1 left in image.image"
    rows = {row.leftover.id: row for row in orchestrator.store.leftovers(deletion_id, 100)}
    assert rows.keys() == {image.id, put}
    named = rows[put]
    assert (named.service, named.type, str(named.leftover.reason)) == ("identity", "credential", "informational")
    assert outsider.user_id in named.leftover.message
    step = orchestrator.step(deletion_id, "identity.credential")
    assert (step.outcome, step.found, step.remaining) == (Outcome.CLEAR, 1, 0)
    full_admin.image.delete_image(image.id)


def test_an_adoption_deletes_them_though_the_secrets_cannot_be_listed(
    orchestrator, full_cloud, full_sweeper, victim, outsider
):
    """Secrets of a missing project stay unknown; objects of Keystone that name the project do not wait for them."""
    full_cloud.admin.call("DELETE", f"/projects/{victim.project_id}")
    put = put_credential(outsider, victim.project_id)
    assert put in credentials(full_sweeper, victim.project_id)
    record = accepted(
        id=str(uuid.uuid4()),
        project_id=victim.project_id,
        project_name="",
        domain_id="",
        mode=Mode.CASCADE,
        dry_run=False,
        origin=Origin.ADOPTED,
    )
    orchestrator.store.create(record, TASKS, Event("deletion.accepted", "a test asks for it"))
    orchestrator.parts.bus.decide(record.id)
    ended = orchestrator.wait(record.id, Status.LEFTOVERS)
    assert (ended.reason, "key-manager.secret" in ended.message) == ("project_gone", True)
    assert "identity.credential" not in ended.message
    assert not credentials(full_sweeper, victim.project_id)
    assert orchestrator.step(record.id, "identity.credential").deleted == 1


def call(connection: Connection, service: str, method: str, path: str, body: object = None, **headers: str):
    """Send a request of a user; return the answer, also a refusal."""
    return Rest(getattr(connection, service)).raw(method, path, range(400, 600), json=body, headers=headers)


def made(answer, *keys: str) -> str:
    """Return the id of the resource that a call has created."""
    assert answer.status_code < 400, answer.text
    found = answer.json()
    for key in keys:
        found = found[key]
    return found


def test_what_an_outsider_cannot_put_into_a_project(full_admin, victim, outsider):
    """The services refuse it by themselves: with their policies, or because the outsider does not see the project's."""
    v, tag = victim.connection, secrets.token_hex(3)
    network = made(call(v, "network", "POST", "/networks", {"network": {"name": "v"}}), "network", "id")
    body = {"subnet": {"network_id": network, "ip_version": 4, "cidr": "10.9.0.0/24"}}
    subnet = made(call(v, "network", "POST", "/subnets", body), "subnet", "id")
    port = made(call(v, "network", "POST", "/ports", {"port": {"network_id": network}}), "port", "id")
    body = {"security_group": {"name": "v"}}
    group = made(call(v, "network", "POST", "/security-groups", body), "security_group", "id")
    image = made(call(v, "image", "POST", "/images", {"name": "v", "visibility": "community"}), "id")
    body = {"name": "v", "payload": "x", "payload_content_type": "text/plain"}
    secret = made(call(v, "key_manager", "POST", "/secrets", body), "secret_ref").rpartition("/")[2]
    body = {"share": {"share_proto": "NFS", "size": 1}}
    share = made(call(v, "shared_file_system", "POST", "/shares", body), "share", "id")
    volume = made(call(v, "block_storage", "POST", "/volumes", {"volume": {"size": 1}}), "volume", "id")
    zone = {"name": f"deep.{tag}.example.", "email": "v@example.org"}
    zone_id = made(call(v, "dns", "POST", "/zones", zone), "id")

    o = outsider.connection
    own = {"project_id": victim.project_id}
    mine = made(call(o, "network", "POST", "/networks", {"network": {"name": "o"}}), "network", "id")
    body = {"security_group": {"name": "o"}}
    my_group = made(call(o, "network", "POST", "/security-groups", body), "security_group", "id")
    router = made(call(o, "network", "POST", "/routers", {"router": {"name": "o"}}), "router", "id")
    my_image = made(call(o, "image", "POST", "/images", {"name": "o"}), "id")
    patch = {"Content-Type": "application/openstack-images-v2.1-json-patch"}
    people = {"trustor_user_id": outsider.user_id, "trustee_user_id": outsider.colleague_id, "impersonation": False}
    account = v.object_store.get_endpoint().rstrip("/")
    attempts = {
        "a trust": (
            "identity",
            "POST",
            "/OS-TRUST/trusts",
            {"trust": {**people, **own, "roles": [{"name": "member"}]}},
        ),
        "a trust without roles": ("identity", "POST", "/OS-TRUST/trusts", {"trust": {**people, **own, "roles": []}}),
        "a network": ("network", "POST", "/networks", {"network": own}),
        "a port on its own network": ("network", "POST", "/ports", {"port": {"network_id": mine, **own}}),
        "a port on the project's network": ("network", "POST", "/ports", {"port": {"network_id": network}}),
        "a subnet of the project's network": (
            "network",
            "POST",
            "/subnets",
            {"subnet": {"network_id": network, "ip_version": 4, "cidr": "10.8.0.0/24"}},
        ),
        "a port with the project's group": (
            "network",
            "POST",
            "/ports",
            {"port": {"network_id": mine, "security_groups": [group]}},
        ),
        "a rule that names the project's group": (
            "network",
            "POST",
            "/security-group-rules",
            {"security_group_rule": {"security_group_id": my_group, "direction": "ingress", "remote_group_id": group}},
        ),
        "a router on the subnet": ("network", "PUT", f"/routers/{router}/add_router_interface", {"subnet_id": subnet}),
        "a router on the port": ("network", "PUT", f"/routers/{router}/add_router_interface", {"port_id": port}),
        "a share of the project's network": (
            "network",
            "POST",
            "/rbac-policies",
            {
                "rbac_policy": {
                    "object_type": "network",
                    "object_id": network,
                    "target_tenant": outsider.project_id,
                    "action": "access_as_shared",
                }
            },
        ),
        "an image": ("image", "POST", "/images", {"name": "x", "owner": victim.project_id}),
        "a metadef namespace": (
            "image",
            "POST",
            "/metadefs/namespaces",
            {"namespace": tag, "owner": victim.project_id},
        ),
        "a member of the community image": (
            "image",
            "POST",
            f"/images/{image}/members",
            {"member": outsider.project_id},
        ),
        "a keep mark on the community image": ("image", "PUT", f"/images/{image}/tags/keep", None),
        "a container of objects": ("object_store", "PUT", f"{account}/c", None),
        "metadata of the account": ("object_store", "POST", account, None),
        "a consumer of the secret": (
            "key_manager",
            "POST",
            f"/secrets/{secret}/consumers",
            {"service": "image", "resource_type": "image", "resource_id": "1"},
            {"OpenStack-API-Version": "key-manager 1.1"},
        ),
        "a zone below the project's": ("dns", "POST", "/zones", {**zone, "name": f"x.{zone['name']}"}),
        "a zone above the project's": ("dns", "POST", "/zones", {**zone, "name": f"{tag}.example."}),
        "a zone of the project": (
            "dns",
            "POST",
            "/zones",
            {**zone, "name": f"{tag}.example.org."},
            {"X-Auth-Sudo-Project-ID": victim.project_id},
        ),
        "a recordset": (
            "dns",
            "POST",
            f"/zones/{zone_id}/recordsets",
            {"name": f"w.{zone['name']}", "type": "A", "records": ["192.0.2.1"]},
        ),
        "a lock on the share": (
            "shared_file_system",
            "POST",
            "/resource-locks",
            {"resource_lock": {"resource_id": share, "resource_type": "share", "resource_action": "delete"}},
            {"X-OpenStack-Manila-API-Version": "2.82"},
        ),
        "an access rule on the share": (
            "shared_file_system",
            "POST",
            f"/shares/{share}/action",
            {"allow_access": {"access_type": "ip", "access_to": "192.0.2.1"}},
            {"X-OpenStack-Manila-API-Version": "2.82"},
        ),
        "a snapshot of the share": (
            "shared_file_system",
            "POST",
            "/snapshots",
            {"snapshot": {"share_id": share}},
            {"X-OpenStack-Manila-API-Version": "2.82"},
        ),
        "a snapshot of the volume": ("block_storage", "POST", "/snapshots", {"snapshot": {"volume_id": volume}}),
        "an attachment of the volume": (
            "block_storage",
            "POST",
            "/attachments",
            {"attachment": {"volume_uuid": volume, "instance_uuid": volume}},
            {"OpenStack-API-Version": "volume 3.54"},
        ),
        "a transfer of the volume": (
            "block_storage",
            "POST",
            "/os-volume-transfer",
            {"transfer": {"volume_id": volume}},
        ),
        "a volume": (
            "block_storage",
            "POST",
            o.block_storage.get_endpoint().rstrip("/") + f"/{victim.project_id}/volumes",
            {"volume": {"size": 1}},
        ),
        "a load balancer": (
            "load_balancer",
            "POST",
            "/lbaas/loadbalancers",
            {"loadbalancer": {"vip_subnet_id": subnet, **own}},
        ),
        # One on the project's subnet is refused by the Neutron that Octavia asks, which only pretends here.
        "a stack": (
            "orchestration",
            "POST",
            v.orchestration.get_endpoint().rstrip("/") + "/stacks",
            {"stack_name": "x", "template": {"heat_template_version": "2018-08-31"}},
        ),
        "a public share": (
            "shared_file_system",
            "POST",
            "/shares",
            {"share": {"share_proto": "NFS", "size": 1, "is_public": True}},
        ),
    }
    answers = {
        name: call(o, service, method, path, body, **(headers[0] if headers else {})).status_code
        for name, (service, method, path, body, *headers) in attempts.items()
    }
    gift = [{"op": "replace", "path": "/owner", "value": victim.project_id}]
    answers["an image that was the outsider's"] = call(
        o, "image", "PATCH", f"/images/{my_image}", gift, **patch
    ).status_code
    print("\n" + "\n".join(f"{status} {name}" for name, status in answers.items()))
    assert {name: status for name, status in answers.items() if status not in (400, 403, 404)} == {}


@pytest.mark.parametrize("mode", ENDS)
def test_what_an_outsider_can_name_the_project_in_does_not_keep_it(orchestrator, victim, outsider, mode):
    """Each row belongs to the outsider: shares, memberships and transfers that were not accepted."""
    o, tag, target = outsider.connection, secrets.token_hex(3), victim.project_id
    network = made(call(o, "network", "POST", "/networks", {"network": {"name": "o"}}), "network", "id")
    body = {"security_group": {"name": "o"}}
    group = made(call(o, "network", "POST", "/security-groups", body), "security_group", "id")
    for kind, id_ in (("network", network), ("security_group", group)):
        body = {"object_type": kind, "object_id": id_, "target_tenant": target, "action": "access_as_shared"}
        assert call(o, "network", "POST", "/rbac-policies", {"rbac_policy": body}).status_code == 201
    image = made(call(o, "image", "POST", "/images", {"name": "o"}), "id")
    assert call(o, "image", "POST", f"/images/{image}/members", {"member": target}).status_code == 200
    zone = made(call(o, "dns", "POST", "/zones", {"name": f"{tag}.example.", "email": "o@example.org"}), "id")
    shares = f"/zones/{zone}/shares"
    assert call(o, "dns", "POST", shares, {"target_project_id": target}).status_code == 201
    transfers = f"/zones/{zone}/tasks/transfer_requests"
    assert call(o, "dns", "POST", transfers, {"target_project_id": target}).status_code == 201
    key = f"/users/{outsider.user_id}/credentials/OS-EC2"
    assert call(o, "identity", "POST", key, {"tenant_id": target}).status_code == 201
    deletion_id = orchestrator.request(target, mode)
    record = orchestrator.wait(deletion_id, seconds=180)
    assert (record.status, record.message.split(";")[0]) == ENDS[mode]


def test_an_outsider_on_a_shared_network_is_named_and_an_admin_clears_it(orchestrator, full_admin, victim, outsider):
    """A member has to share the network first. The outsider's port is never deleted, and the report names its owner."""
    v, o = victim.connection, outsider.connection
    network = made(call(v, "network", "POST", "/networks", {"network": {"name": "v"}}), "network", "id")
    share = {"object_type": "network", "object_id": network, "target_tenant": outsider.project_id}
    body = {"rbac_policy": {**share, "action": "access_as_shared"}}
    assert call(v, "network", "POST", "/rbac-policies", body).status_code == 201
    port = made(call(o, "network", "POST", "/ports", {"port": {"network_id": network}}), "port", "id")
    deletion_id = orchestrator.request(victim.project_id, Mode.CASCADE)
    foreign = {"network.network": "foreign"}
    orchestrator.wait(deletion_id, until=lambda _: orchestrator.blockers(deletion_id) == foreign, seconds=180)
    rows = {row.type: row.leftover for row in orchestrator.store.leftovers(deletion_id, 100)}
    whose = {"project_name": outsider.project_name, "domain_id": "default"}
    assert rows["network"].blocked_by == ({"type": "network.port", "id": port, "owner": outsider.project_id, **whose},)
    full_admin.network.delete_port(port)
    orchestrator.wait(deletion_id, Status.DELETED, seconds=180)


def test_a_member_with_more_than_a_worker_reads_is_reported_and_deleted_all_the_same(orchestrator, victim):
    v = victim.connection
    for n in range(13):
        made(call(v, "image", "POST", "/images", {"name": f"{n}"}), "id")
        made(call(v, "network", "POST", "/networks", {"network": {"name": f"{n}"}}), "network", "id")
    reported = orchestrator.request(victim.project_id, Mode.REPORT)
    orchestrator.wait(reported, Status.LEFTOVERS)
    for name in ("image.image", "network.network"):
        step = orchestrator.step(reported, name)
        assert (step.outcome, step.remaining) == (Outcome.LEFTOVERS, 5)
        assert step.message == "at least 5, and there are more: the list is longer than [worker] most_listed"
    deletion_id = orchestrator.request(victim.project_id, Mode.CASCADE)
    orchestrator.wait(deletion_id, Status.DELETED, seconds=180)
    for name in ("image.image", "network.network"):
        assert orchestrator.step(deletion_id, name).deleted == 13
