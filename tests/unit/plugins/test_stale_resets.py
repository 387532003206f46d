"""Which stale states are cleared, and what keeps a state from being cleared."""

import datetime
import types

import pytest

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.plugins import key_manager, registry
from cleanup_orchestrator.plugins.base import Refused, Resource, exceptions
from cleanup_orchestrator.plugins.block_storage import groups, volumes
from cleanup_orchestrator.plugins.network import trunks
from cleanup_orchestrator.plugins.shared_file_system import migrations, shares
from tests.unit.answers import connection, project

OWNER = "os-vol-tenant-attr:tenant_id"
BAD_REQUEST = exceptions.BadRequestException("Volume in group g is attached")


def ago(**time):
    return (datetime.datetime.now(datetime.UTC) - datetime.timedelta(**time)).replace(tzinfo=None).isoformat()


def refusal(hook, *args):
    """Return the verdict with which a hook refuses; ``None``: it does not."""
    try:
        hook(*args)
    except Refused as refused:
        return refused.verdict
    return None


def lists(**collections):
    """A service whose lists end after one page; it accepts every change."""

    def answer(method, path, query, body):
        name = path.strip("/").split("/")[0]
        if method != "GET":
            return 202, {}
        if path.startswith("/os-quota-sets"):
            return 200, {}
        rows = [] if query.get("marker") or query.get("offset") else collections.get(name.replace("-", "_"), [])
        return 200, {name.replace("volume-", "").replace("share-transfers", "transfers"): rows}

    return answer


# ------------------------------------------------------------------------------------------------------ Cinder: groups
MEMBER = {"id": "v", "group_id": "g", OWNER: "p", "status": "available"}
ATTACHED = {"id": "a", "volume_id": "v", "instance": None}
SNAPSHOT = {"id": "s", "volume_id": "v", "os-extended-snapshot-attributes:project_id": "q"}


@pytest.mark.parametrize(
    ("cloud", "error", "again"),
    [
        ({"volumes": [MEMBER]}, BAD_REQUEST, True),
        ({"volumes": [MEMBER]}, exceptions.ConflictException("no"), False),
        ({"volumes": []}, BAD_REQUEST, False),
        ({"volumes": [MEMBER], "attachments": [ATTACHED]}, BAD_REQUEST, False),
        ({"volumes": [MEMBER], "snapshots": [SNAPSHOT]}, BAD_REQUEST, False),
        ({"volumes": [MEMBER, {**MEMBER, "id": "w", OWNER: "q"}]}, BAD_REQUEST, False),
        ({"volumes": [{**MEMBER, "group_id": "other"}]}, BAD_REQUEST, False),
    ],
    ids=["stale", "another error", "no volume", "an attachment", "a snapshot", "another's volume", "another group's"],
)
def test_a_group_is_detached_only_if_nothing_is_attached(cloud, error, again):
    made = connection(block_storage=lists(**cloud))
    group = Resource("g", "", "p", {"id": "g", "status": "available"})
    assert groups.detach_stale(made, made, project(), group, error) is again
    reset = [("POST", "/volumes/v/action", {"os-reset_status": {"attach_status": "detached"}})]
    assert made.block_storage.writes() == (reset if again else [])


OWN = {"host": "h@b", "state": "down"}


@pytest.mark.parametrize(
    ("services", "able"),
    [
        ([OWN], False),
        ([], False),
        ([{**OWN, "state": "up"}], True),
        ([OWN, {"host": "other@b", "state": "up"}], False),
        ([{**OWN, "cluster": "c"}, {"host": "other@b", "state": "up", "cluster": "c"}], True),
        ([{**OWN, "cluster": "c"}, {"host": "other@b", "state": "up", "cluster": "d"}], False),
    ],
)
def test_a_volume_whose_host_is_gone_is_not_reset_again_and_again(services, able):
    made = connection(block_storage=lambda *_: (200, {"services": services}))
    row = {"os-vol-host-attr:host": "h@b#p"}
    if able:
        volumes._refuse_without_host(made, project(), row)
        return
    with pytest.raises(Refused, match="--currenthost h@b#p") as refused:
        volumes._refuse_without_host(made, project(), row)
    assert refused.value.verdict.reason is Reason.UNREACHABLE


# ------------------------------------------------------------------------------------------------------ Manila: shares
MOVING = {"id": "i", "status": "migrating", "updated_at": ago(hours=1)}
LOST = {**MOVING, "updated_at": ago(days=3)}
STILL = {"id": "i", "status": "available", "updated_at": ago(hours=1)}
UNKNOWN = {"id": "i", "status": "migrating_to"}
RESET = ("POST", "/shares/s/action", {"reset_task_state": {"task_state": None}})
CANCEL = ("POST", "/shares/s/action", {"migration_cancel": None})
FREED = ("POST", "/share_instances/i/action", {"reset_status": {"status": "error"}})


@pytest.mark.parametrize(
    ("task", "instances", "writes", "refused"),
    [
        (None, [MOVING], [], False),
        ("migration_success", [MOVING], [], False),
        ("data_copying_in_progress", [STILL], [RESET], False),
        ("data_copying_in_progress", [], [RESET], False),
        ("data_copying_in_progress", [STILL, MOVING], [], True),
        ("data_copying_in_progress", [STILL, UNKNOWN], [], True),
        ("data_copying_in_progress", [STILL, LOST], [FREED, RESET], False),
        ("data_copying_completed", [STILL, MOVING], [CANCEL], True),
        ("data_copying_completed", [STILL, LOST], [CANCEL], True),  # an admin may take days to complete it
        ("migration_driver_phase1_done", [MOVING], [CANCEL], True),
        ("migration_driver_phase1_done", [STILL], [RESET], False),
    ],
)
def test_a_task_state_is_reset_unless_a_migration_may_be_in_progress(task, instances, writes, refused):
    made = connection(shared_file_system=lambda *_: (200, {"share_instances": instances}))
    share = Resource("s", "", "p", {"id": "s", "task_state": task})
    verdict = refusal(migrations.end_migration, made, project(), share)
    assert (verdict and verdict.reason) == (Reason.IN_USE if refused else None)
    assert made.shared_file_system.writes() == writes


@pytest.mark.parametrize(
    ("status", "answer", "changed"),
    [
        ("deleting", (200, {"share_instances": [LOST, STILL, UNKNOWN]}), STILL["updated_at"]),
        ("deleting", (200, {"share_instances": [UNKNOWN]}), None),
        ("deleting", (404, {}), None),
        ("available", (500, {}), None),
    ],
    ids=["the latest", "none", "it is gone", "it is not asked for"],
)
def test_what_manila_deletes_has_the_time_of_its_instances(status, answer, changed):
    made = connection(shared_file_system=lambda *_: answer)
    row = {"id": "s", "status": status}
    aged = shares._aged(made, project(), row, shares.rest("/shares/s/instances", key="share_instances"))
    assert aged == (row | {shares._CHANGED: changed} if changed else row)


@pytest.mark.parametrize(
    ("status", "transfers", "writes", "refused"),
    [
        ("available", [], 0, False),
        ("awaiting_transfer", [], 1, False),
        ("awaiting_transfer", [{"id": "t", "resource_id": "another"}], 1, False),
        ("awaiting_transfer", [{"id": "t", "resource_id": "s", "source_project_id": "p"}], 0, True),
    ],
)
def test_an_offer_without_a_transfer_is_taken_back(monkeypatch, status, transfers, writes, refused):
    monkeypatch.setattr(migrations, "since", lambda _version: lambda *_: True)
    made = connection(shared_file_system=lists(share_transfers=transfers))
    share = Resource("s", "", "p", {"id": "s", "status": status})
    verdict = refusal(migrations.end_transfer, made, project(), share)
    assert (verdict and [b["id"] for b in verdict.blocked_by]) == (["t"] if refused else None)
    assert len(made.shared_file_system.writes()) == writes


# ----------------------------------------------------------------------------------------------------- Neutron: trunks
PORT = {
    "id": "parent", "project_id": "p", "device_id": "server", "device_owner": "compute:nova", "binding_host_id": "gone",
}  # fmt: skip


@pytest.mark.parametrize(
    ("port", "server", "nova", "cleared"),
    [
        (PORT, False, True, True),
        ({**PORT, "device_id": "", "device_owner": ""}, True, True, True),
        ({**PORT, "device_id": "", "device_owner": ""}, False, False, True),
        (PORT, True, True, False),
        (PORT, False, False, False),  # no Nova: whether there is such a server is not known
        ({**PORT, "device_owner": "baremetal:none"}, False, True, False),
        ({**PORT, "device_owner": "network:dhcp"}, False, True, False),
        ({**PORT, "project_id": "q"}, False, True, False),
        ({**PORT, "binding_host_id": ""}, False, True, False),
    ],
)
def test_a_binding_is_cleared_only_if_no_device_has_the_port(port, server, nova, cleared):
    answer = (200, {"server": {"id": "server", "tenant_id": "p"}}) if server else (404, {})
    made = connection(**({"compute": lambda *_: answer} if nova else {}))
    updated = []
    made.network = types.SimpleNamespace(
        get_port=lambda _id: port, update_port=lambda id_, **change: updated.append((id_, change))
    )
    trunk = Resource("t", "", "p", {"id": "t", "port_id": "parent"})
    error = exceptions.ConflictException("Trunk t is currently in use.")
    assert trunks.clear_stale_binding(made, made, project(), trunk, error) is cleared
    assert updated == ([("parent", {"binding_host_id": ""})] if cleared else [])
    assert not trunks.clear_stale_binding(made, made, project(), trunk, exceptions.BadRequestException("no"))


# ---------------------------------------------------------------------------------------------------- Barbican: secrets
CONSUMER = {"service": "block-storage", "resource_type": "volume", "resource_id": "v"}


def barbican(acl=()):
    def answer(method, path, query, body):
        if method == "DELETE":
            return (400, {"title": "has consumers"}) if path == "/secrets/k" and not query.get("force") else (204, "")
        if path.endswith("/acl"):
            return 200, {"read": {"users": list(acl)}}
        return 200, {"consumers": [CONSUMER]}

    return answer


@pytest.mark.parametrize(
    ("volume_key", "acl", "reason", "writes"),
    [
        ("k", (), Reason.IN_USE, [("DELETE", "/secrets/k", None), ("DELETE", "/secrets/k/consumers", CONSUMER)]),
        ("k", ("stranger",), Reason.PROTECTED, [("DELETE", "/secrets/k", None)]),
        ("other", (), None, [("DELETE", "/secrets/k", None), ("DELETE", "/secrets/k", None)]),
    ],
    ids=["its volume is there", "others may read it", "its volume is gone"],
)
def test_the_key_of_a_volume_that_is_there_loses_its_consumers_and_stays(volume_key, acl, reason, writes):
    rows = [{"id": "v", "encryption_key_id": volume_key}]
    made = connection(key_manager=barbican(acl), block_storage=lists(volumes=rows))
    made.config.get_session_endpoint = lambda name: "http://cloud"
    secret = Resource("k", "", "p", {"id": "k"})
    verdict = refusal(key_manager._delete_secret, made, project(members=("own",)), secret)
    assert (verdict and verdict.reason) == reason
    assert made.key_manager.writes() == writes


@pytest.mark.parametrize(
    ("row", "needed"),
    [
        ({"status": "available", "encryption_key_id": "k"}, {"k"}),
        ({"status": "error_deleting", "encryption_key_id": "k"}, set()),  # _delete_secret removes the consumer
        ({"status": "available", "metadata": {"certificate": "other"}}, {"other"}),
        (None, {"k", "other"}),
    ],
)
def test_a_volume_that_is_left_needs_what_it_names(monkeypatch, row, needed):
    monkeypatch.setattr(key_manager.needs, "knows_microversion", lambda *_: True)
    found = (200, {"volume": {"id": "v", **row}}) if row else (404, {})
    made = connection(key_manager=barbican(), block_storage=lambda *_: found)
    needs = key_manager.needs.keys_of("volume")(made, project(), ["v"])
    assert {id_ for id_ in ("k", "other") if needs(Resource(id_, "", "p", {"id": id_}))} == needed


def test_if_cinder_does_not_show_keys_each_secret_waits(monkeypatch):
    monkeypatch.setattr(key_manager.needs, "knows_microversion", lambda *_: False)
    needs = key_manager.needs.keys_of("volume")(connection(block_storage=lambda *_: (500, "")), project(), ["v"])
    assert needs(Resource("k", "", "p", {"id": "k"})) == "v"


@pytest.mark.parametrize(("kept", "needed"), [(False, {"tpm", "unnamed"}), (True, {"tpm", "unnamed", "password"})])
def test_a_server_that_is_left_needs_its_own_secrets_and_all_where_the_project_is_kept(kept, needed):
    known = registry.load()
    service = known.services["key-manager"]
    type_ = known.find("key-manager", "secret")
    rows = {"tpm": "vTPM secret for instance server", "unnamed": None, "password": "of the database"}
    made = connection(compute=lambda *_: (200, {"server": {"id": "server"}}))
    needs = known.needed_by(service, type_, kept)["compute.server"](made, project(), ["server"])
    found = {id_ for id_, name in rows.items() if needs(Resource(id_, "", "p", {"id": id_, "name": name}))}
    assert found == needed
