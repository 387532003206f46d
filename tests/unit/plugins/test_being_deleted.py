"""Which listed rows say that their service works on their delete, type by type."""

import datetime
import itertools

import pytest

from cleanup_orchestrator.plugins import container_infrastructure_management, load_balancer
from cleanup_orchestrator.plugins.base import ProjectDefinition, Resource
from cleanup_orchestrator.plugins.block_storage import backups, groups, volumes
from cleanup_orchestrator.plugins.compute import servers
from cleanup_orchestrator.plugins.dns import zones
from cleanup_orchestrator.plugins.orchestration import stacks
from cleanup_orchestrator.plugins.shared_file_system import common as shares

US = ProjectDefinition("us", "Us", "default", "R1")
NOW = datetime.datetime(2026, 1, 1, 12, 0, 0, tzinfo=datetime.UTC)


def ago(**values):
    return (datetime.datetime.now(datetime.UTC) - datetime.timedelta(**values)).isoformat()


JUST_NOW = ago(hours=-9)  # the cases are collected long before the last one of them is run


def volume(deleted_with_the_server):
    return {"id": "v", "delete_on_termination": deleted_with_the_server}


_TASK, _VOLUMES = "OS-EXT-STS:task_state", "os-extended-volumes:volumes_attached"
LOAD_BALANCER = load_balancer.SERVICE.types[0]
CLUSTER = container_infrastructure_management.SERVICE.types[0]
SHARE = shares.simple_type("thing", shares.SHARES)


@pytest.mark.parametrize(
    ("type_", "row", "going"),
    [
        (servers.SERVER, {_TASK: "deleting", "updated": JUST_NOW}, True),
        (servers.SERVER, {_TASK: "deleting", "updated": ago(minutes=16)}, False),  # it is reset, and deleted again
        (servers.SERVER, {_TASK: "deleting", "updated": JUST_NOW, _VOLUMES: [volume(False)]}, True),
        (servers.SERVER, {_TASK: "deleting", "updated": JUST_NOW, _VOLUMES: [volume(True)]}, False),
        (servers.SERVER, {_TASK: None, "status": "ACTIVE"}, False),
        (servers.SERVER, {_TASK: None, "status": "SOFT_DELETED"}, False),
        (LOAD_BALANCER, {"provisioning_status": "PENDING_DELETE"}, True),
        (LOAD_BALANCER, {"provisioning_status": "PENDING_UPDATE"}, False),
        (LOAD_BALANCER, {"provisioning_status": "ERROR"}, False),
        (zones.ZONE, {"action": "DELETE", "status": "PENDING"}, True),
        (zones.ZONE, {"action": "DELETE", "status": "ERROR"}, False),
        (zones.ZONE, {"action": "NONE", "status": "ACTIVE"}, False),
        (SHARE, {"status": "deleting"}, True),
        (SHARE, {"status": "error_deleting"}, False),
        (volumes.VOLUME, {"status": "deleting", "updated_at": ago(minutes=5)}, True),
        (volumes.VOLUME, {"status": "deleting", "updated_at": ago(hours=5)}, False),
        (volumes.VOLUME, {"status": "error_deleting", "updated_at": ago(minutes=5)}, False),
        (volumes.SNAPSHOT, {"status": "deleting", "updated_at": ago(minutes=5)}, True),
        (volumes.SNAPSHOT, {"status": "deleting", "updated_at": ago(minutes=5), "group_snapshot_id": "g"}, False),
        (backups.BACKUP, {"status": "deleting", "updated_at": ago(minutes=5)}, True),
        (groups.GROUP, {"status": "deleting", "created_at": ago(minutes=5)}, True),
        (groups.GROUP_SNAPSHOT, {"status": "deleting", "created_at": ago(minutes=5)}, True),
        (CLUSTER, {"status": "DELETE_IN_PROGRESS"}, True),
        (CLUSTER, {"status": "DELETE_FAILED"}, False),
    ],
)
def test_rows(type_, row, going):
    assert bool(type_.deleting(Resource("r", "r", "us", row), US)) is going


@pytest.mark.parametrize(
    ("status", "seconds", "going"),
    [
        ("DELETE_IN_PROGRESS", 0, False),  # hooks that pause the delete are looked for
        ("DELETE_IN_PROGRESS", 9, False),
        ("DELETE_IN_PROGRESS", 10, True),
        ("DELETE_IN_PROGRESS", 29, True),
        ("DELETE_IN_PROGRESS", 30, False),
        ("DELETE_IN_PROGRESS", 3590, True),
        ("DELETE_IN_PROGRESS", 3611, False),  # its engine was lost
        ("DELETE_FAILED", 15, False),
        ("CREATE_COMPLETE", 15, False),
    ],
)
def test_a_stack(monkeypatch, status, seconds, going):
    monkeypatch.setattr(stacks, "_now", lambda: NOW)
    row = {"stack_status": status, "updated_time": (NOW - datetime.timedelta(seconds=seconds)).isoformat()}
    assert bool(stacks.being_deleted(Resource("s", "s", "us", row), US)) is going


def test_hooks_of_a_stack_are_looked_for_at_least_every_thirty_seconds(monkeypatch):
    """Polls are at most ten seconds apart: one of them falls into each span in which hooks are looked for."""
    for start in range(10):
        looked = []
        for second in range(start, 3000, 10):
            monkeypatch.setattr(stacks, "_now", lambda second=second: NOW + datetime.timedelta(seconds=second))
            row = {"stack_status": "DELETE_IN_PROGRESS", "updated_time": NOW.isoformat()}
            if not stacks.being_deleted(Resource("s", "s", "us", row), US):
                looked.append(second)
        assert max(b - a for a, b in itertools.pairwise(looked)) <= 30
