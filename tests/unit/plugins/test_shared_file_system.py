"""Manila: which types an old release lacks, which states are cleared, and what other projects use."""

from __future__ import annotations

import datetime

import pytest
from openstack import exceptions

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.errors import BadAnswer
from cleanup_orchestrator.plugins import shared_file_system
from cleanup_orchestrator.plugins.base import ProjectDefinition, Refused, Resource
from cleanup_orchestrator.plugins.shared_file_system import migrations, shares
from tests.support import sweeps
from tests.support.sweeps import before_delete, foreseen
from tests.unit.answers import connection, ids, listing, project, refusal
from tests.unit.plugins.canned import Canned, canned, thing
from tests.unit.plugins.test_foreseen import declared
from tests.unit.plugins.test_key_manager import lists
from tests.unit.plugins.test_uses import answers, named, neutron, type_of

NAMED = ProjectDefinition("ours", "name", "default", "RegionOne")


@pytest.mark.parametrize(
    ("maximum", "wanted", "known"),
    [((2, 81), "2.81", True), ((2, 80), "2.81", False), ((2, 99), "2.81", True), ((2, 9), "2.81", False)],
)
def test_what_a_manila_is_too_old_for_is_not_there(maximum, wanted, known):
    connection = canned(shared_file_system=Canned(maximum=maximum))
    assert shared_file_system.common.since(wanted)(connection, NAMED) is known


def test_a_manila_whose_versions_cannot_be_read_is_not_treated_as_old():
    with pytest.raises(BadAnswer):
        shared_file_system.common.since("2.81")(canned(shared_file_system=Canned(maximum=None)), NAMED)


@pytest.mark.parametrize(
    ("status", "reset", "refused"),
    [
        ("available", False, False),
        ("error", False, False),
        ("error_deleting", True, False),
        ("extending_error", True, False),
        ("manage_error", True, False),
        ("creating", False, False),  # Manila itself refuses these, and the status is named
        ("migrating", False, False),
        ("deleting", False, True),
        ("deferred_deleting", False, True),
        ("error_deferred_deleting", True, False),
    ],
)
def test_a_failed_change_is_got_out_of_and_one_under_way_is_left(status, reset, refused):
    service = Canned()
    prepare = shared_file_system.common.reset_to_error(shared_file_system.common.SHARES)
    try:
        prepare(canned(shared_file_system=service), NAMED, thing(status=status))
        assert not refused
    except Refused as why:
        assert refused and why.verdict.reason is Reason.DELETING
    assert [path for _, path, _, _ in service.asked] == (["/shares/id/action"] if reset else [])


@pytest.mark.parametrize(
    ("shares", "snapshots", "named"),
    [
        ([], [], None),
        ([{"id": "s", "project_id": "ours", "share_group_id": "g"}], [], "shared-file-system.share"),
        ([], [{"id": "p", "project_id": "ours", "share_group_id": "g"}], "shared-file-system.group_snapshot"),
        ([], [{"id": "p", "project_id": "ours", "share_group_id": "another"}], None),
    ],
    ids=["empty", "a share", "a snapshot", "a snapshot of another group"],
)
def test_by_force_no_share_group_is_deleted_that_has_shares_or_snapshots(shares, snapshots, named):
    """Manila's forced delete removes the rows of the snapshots of the group, and then fails if it has shares."""

    class Manila(Canned):
        def request(self, path, method, params=None, **more):
            whole = method == "GET" and params["offset"] == 0
            self.answers["GET /shares/detail"] = {"shares": shares if whole else []}
            self.answers["GET /share-group-snapshots/detail"] = {"share_group_snapshots": snapshots if whole else []}
            return super().request(path, method, params, **more)

    manila = Manila()
    [group] = (type_ for type_ in shared_file_system.SERVICE.types if type_.name == "share_group")
    try:
        group.force.act(canned(shared_file_system=manila), NAMED, thing("g", status="deleting"))
        refused = None
    except Refused as error:
        refused = error.verdict.blocked_by[0]["type"]
    written = [path for method, path, *_ in manila.asked if method == "POST"]
    assert refused == named and written == ([] if named else ["/share-groups/g/action"] * 2)


@pytest.mark.parametrize(
    ("states", "spare"),
    [
        ({}, []),
        ({"a": "active"}, []),
        ({"a": "in_sync", "b": "active"}, ["a"]),
        ({"a": "active", "b": "active", "c": "error"}, ["b", "c"]),  # writable replication: each is active
        ({"a": "out_of_sync", "b": "error"}, ["b"]),  # none is active: Manila refuses or takes the last one
    ],
)
def test_of_the_replicas_the_share_itself_is_left(states, spare):
    rows = [{"id": identity, "replica_state": state, "share_id": "s"} for identity, state in states.items()]
    theirs = {"id": "theirs", "replica_state": "in_sync", "share_id": "other"}
    pages = iter([{"share_replicas": [*rows, theirs]}, {"share_replicas": []}])

    class Paged(Canned):
        def request(self, path, method, **more):
            self.answers = {f"GET {path}": next(pages)}
            return super().request(path, method, **more)

    share = {"id": "s", "has_replicas": True}
    found = shared_file_system.shares._spare_replicas(canned(shared_file_system=Paged()), NAMED, share)
    assert [row["id"] for row in found] == spare


@pytest.mark.parametrize(("there", "status"), [(False, 400), (False, 404), (True, 400), (True, 500)])
def test_a_share_that_is_deleted_while_its_backups_are_listed_has_none(there, status):
    """But an answer that tells nothing is no answer as long as the share is there."""

    class Manila(Canned):
        def request(self, path, method, params=None, **more):
            first = params and (params.get("offset"), params.get("is_soft_deleted")) == (0, "false")
            self.answers["GET /shares/detail"] = {"shares": [{"id": "s", "project_id": "ours"}] if first else []}
            return super().request(path, method, params, **more)

    service = Manila(
        {
            "GET /share-servers": {"share_servers": []},
            "GET /share-backups/detail": status,
            "GET /shares/s": {"share": {"id": "s"}} if there else 404,
        }
    )
    type_ = next(t for t in shared_file_system.SERVICE.types if t.name == "backup")
    rows = type_.list(canned(shared_file_system=service), NAMED)
    if not there:
        assert list(rows) == []
    else:
        with pytest.raises(exceptions.HttpException, match=str(status)):
            list(rows)


def test_security_services_are_listed_without_a_limit():
    """Manila would look for services that have such an attribute, and find none."""
    answers = {"GET /share-servers": {"share_servers": []}, "GET /security-services/detail": {"security_services": []}}
    service = Canned(answers)
    type_ = next(t for t in shared_file_system.SERVICE.types if t.name == "security_service")
    assert list(type_.list(canned(shared_file_system=service), NAMED)) == []
    assert service.asked[-1][2] == {"all_tenants": "1", "project_id": "ours"}


def test_a_list_of_manila_counts_only_after_it_showed_something_for_admins_only():
    service = Canned({"GET /share-servers": 403, "GET /shares/detail": {"shares": []}})
    type_ = next(t for t in shared_file_system.SERVICE.types if t.name == "share")
    found = sweeps.inventory(type_, canned(shared_file_system=service), NAMED)
    assert (found.outcome, found.reason) == (Outcome.UNKNOWN, Reason.FORBIDDEN)
    assert [path for _, path, _, _ in service.asked] == ["/share-servers"]


OURS, THEIRS = "p", "them"
PROJECT = project(OURS)


def manila(**rows):
    def answer(method, path, query, body):
        key = path.strip("/").split("/")[0].replace("-", "_")
        if path.endswith("/share_type_access"):
            key = "share_type_access"
        elif path.startswith("/types"):
            key = "share_types"
        return 200, {key: [] if query.get("offset") else rows.get(key, [])}

    return connection(shared_file_system=answer)


def test_replicas_and_backups_are_listed_for_the_shares_of_the_project():
    shares = [{"id": "s1", "project_id": OURS}, {"id": "s2", "project_id": THEIRS}]
    assert set(ids(shared_file_system.shares._own_shares(manila(shares=shares), PROJECT))) == {"s1"}


def test_share_type_access_is_the_projects():
    types_ = [{"id": "t", "name": "t", "share_type_access:is_public": False}]
    access = [{"share_type_id": "t", "project_id": who} for who in (THEIRS, OURS)]
    cloud = manila(share_types=types_, share_type_access=access)
    found = list(listing(shared_file_system, "type_access")(cloud, PROJECT))
    assert [row["project_id"] for row in found] == [OURS]


def ago(**time):
    return (datetime.datetime.now(datetime.UTC) - datetime.timedelta(**time)).replace(tzinfo=None).isoformat()


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


@pytest.mark.parametrize(
    ("rule", "port", "network", "stays"),
    [
        ("10.0.0.5", {}, {"shared": True}, True),
        ("10.0.0.5/32", {}, {"router:external": True}, True),
        ("fd00::5", {}, {"shared": True}, True),
        ("10.0.0.5", {"project_id": OURS}, {"shared": True}, False),
        ("10.0.0.5", {}, {}, False),  # the same address in a network of their own says nothing
        ("10.0.0.5", {"network_id": "of the share"}, {}, True),
        ("10.0.0.0/24", {}, {"shared": True}, False),
        ("alice", {}, {"shared": True}, False),
    ],
)
def test_a_share_that_a_client_of_another_project_mounts_stays(rule, port, network, stays):
    rows = {
        "/share-access-rules": {"access_list": [{"access_type": "ip", "access_to": rule}]},
        "/share-networks/sn": {"share_network": {"share_network_subnets": [{"neutron_net_id": "of the share"}]}},
    }
    port = {"id": "port", "network_id": "net", "project_id": THEIRS, "fixed_ips": [], **port}
    asked = neutron([port], networks=[{"id": "net", **network}])
    cloud = connection(shared_file_system=answers(rows), network=asked)
    cloud.config.get_session_endpoint = lambda name: "x" if name == "network" else None
    cloud.network.extensions = lambda: iter([{"alias": "router"}])
    share = Resource("sh", "", OURS, {"id": "sh", "share_network_id": "sn"})
    verdict = before_delete(type_of(shared_file_system, "share"), cloud, PROJECT, share)
    assert named(verdict) == ((Reason.FOREIGN, [("network.port", THEIRS)]) if stays else None)


@pytest.mark.parametrize(
    ("owner", "extension", "stays"), [(OURS, "router", False), (THEIRS, "router", True), (THEIRS, "binding", False)]
)
def test_a_share_that_is_mounted_from_a_floating_ip_of_another_project_stays(owner, extension, stays):
    """A Neutron without routers has no list of floating IPs."""
    rows = {"/share-access-rules": {"access_list": [{"access_type": "ip", "access_to": "192.0.2.1"}]}}
    addresses = [{"id": "f", "project_id": owner, "floating_ip_address": "192.0.2.1"}]
    cloud = connection(shared_file_system=answers(rows), network=neutron(addresses=addresses))
    cloud.network.extensions = lambda: iter([{"alias": extension}])
    verdict = before_delete(type_of(shared_file_system, "share"), cloud, PROJECT, Resource("sh", "", OURS, {}))
    assert named(verdict) == ((Reason.FOREIGN, [("network.floating_ip", THEIRS)]) if stays else None)


@pytest.mark.parametrize(("owner", "blocks"), [(OURS, False), (THEIRS, True)])
def test_shares_of_others_block_their_network(owner, blocks):
    def answer(_method, path, query, _body):
        key = path.split("/")[1].replace("-", "_")
        first = key == "shares" and not query.get("offset")
        rows = [{"id": "s", "project_id": owner, "share_network_id": "1"}] if first else []
        return 200, {key: rows}

    cloud = connection(shared_file_system=answer)
    verdict = foreseen(declared(shared_file_system, "share_network"), cloud, PROJECT, Resource("1", "", OURS, {}))
    assert (verdict and verdict.reason) == (Reason.FOREIGN if blocks else None)
