"""What each type says about a delete that failed or does not end, and what a person does about it."""

import datetime
import string

import pytest

from cleanup_orchestrator.core.reasons import REMEDIES, Reason
from cleanup_orchestrator.plugins import (
    application_container,
    baremetal,
    block_storage,
    compute,
    container_infrastructure_management,
    database,
    dns,
    load_balancer,
    network,
    orchestration,
    registry,
    reservation,
    shared_file_system,
)
from cleanup_orchestrator.plugins.base import ProjectDefinition, Resource, fill

US = ProjectDefinition("us", "Us", "default", "R1", options={"delete_compute_leases": False})
SERVICES = registry.load().services.values()
TYPES = [(f"{service.service_type}.{type_.name}", type_) for service in SERVICES for type_ in service.types]
#: Manila's types that share a rule, although Manila deletes them at once: they have no state of a delete.
AT_ONCE = {f"shared-file-system.{name}" for name in ("resource_lock", "transfer", "security_service")}


def ago(**values):
    return (datetime.datetime.now(datetime.UTC) - datetime.timedelta(**values)).isoformat()


def of(service, name):
    return next(type_ for type_ in service.SERVICE.types if type_.name == name)


VOLUME, BACKUP, GROUP = (of(block_storage, name) for name in ("volume", "backup", "group"))
SHARE = of(shared_file_system, "share")
SERVER, BALANCER, ZONE = of(compute, "server"), of(load_balancer, "load_balancer"), of(dns, "zone")
STACK, CLUSTER = of(orchestration, "failed_stack"), of(container_infrastructure_management, "failed_cluster")
CONTAINER, LEASE, INSTANCE = of(application_container, "container"), of(reservation, "lease"), of(database, "instance")
NODE, LEASED, TAP = of(baremetal, "instance"), of(baremetal, "lease"), of(network, "tap_flow")


@pytest.mark.parametrize(
    ("type_", "row", "fault"),
    [
        (VOLUME, {"status": "error_deleting"}, "error_deleting"),
        (VOLUME, {"status": "error"}, None),
        (VOLUME, {"status": "deleting"}, None),
        (BACKUP, {"status": "error_deleting", "fail_reason": "no such container"}, "no such container"),
        (GROUP, {"status": "error"}, "error"),
        (GROUP, {"status": "available"}, None),
        (SHARE, {"status": "error_deleting"}, "error_deleting"),
        (SHARE, {"status": "error_deferred_deleting"}, "error_deferred_deleting"),
        (SHARE, {"status": "error"}, None),
        (SERVER, {"status": "ERROR", "fault": {"message": "no host"}}, "no host"),
        (SERVER, {"status": "ERROR", "OS-EXT-STS:task_state": "deleting"}, None),
        (SERVER, {"status": "ACTIVE"}, None),
        (BALANCER, {"provisioning_status": "ERROR"}, "ERROR"),
        (BALANCER, {"provisioning_status": "PENDING_DELETE"}, None),
        (ZONE, {"action": "DELETE", "status": "ERROR"}, "name servers"),
        (ZONE, {"action": "CREATE", "status": "ERROR"}, None),
        (STACK, {"stack_status": "DELETE_FAILED", "stack_status_reason": "port in use"}, "port in use"),
        (STACK, {"stack_status": "DELETE_IN_PROGRESS"}, None),
        (CLUSTER, {"status": "DELETE_FAILED", "status_reason": "no driver"}, "no driver"),
        (CLUSTER, {"status": "CREATE_FAILED"}, None),
        (CONTAINER, {"status": "Error", "status_reason": "no host"}, "no host"),
        (CONTAINER, {"status": "Running"}, None),
        (LEASE, {"status": "ERROR"}, "ERROR"),
        (LEASE, {"status": "ACTIVE"}, None),
        (INSTANCE, {"status": "ERROR", "fault": {"message": "no flavor"}}, "no flavor"),
        (INSTANCE, {"status": "SHUTDOWN"}, None),
        (NODE, {"provision_state": "error", "last_error": "power"}, "power"),
        (NODE, {"provision_state": "active"}, None),
        (LEASED, {"provision_state": "clean failed", "last_error": "disk"}, "disk"),
        (TAP, {"status": "ERROR"}, "ERROR"),
        (TAP, {"status": "ACTIVE"}, None),
    ],
)
def test_a_delete_that_failed_is_named_with_the_fault(type_, row, fault):
    said = type_.failed(Resource("r", "r", "us", row), US)
    assert (fault in said) if fault else said is None


def test_a_type_that_is_deleted_later_says_what_helps():
    later = {name: type_ for name, type_ in TYPES if type_.deleting is not None and type_.delete is not None}
    assert later.keys() > AT_ONCE
    helpless = [
        name
        for name, type_ in later.items()
        if name not in AT_ONCE and not {Reason.ERROR, Reason.STUCK} <= type_.remedies.keys()
    ]
    assert helpless == []
    # The task of a cluster of Trove shows no failure.
    assert {name for name, type_ in later.items() if type_.failed is None} - AT_ONCE == {"database.cluster"}


@pytest.mark.parametrize(
    ("type_", "row", "going"),
    [
        (ZONE, {"action": "DELETE", "status": "PENDING", "updated_at": ago(minutes=9)}, True),
        (ZONE, {"action": "DELETE", "status": "PENDING", "updated_at": ago(hours=2)}, False),
        (CLUSTER, {"status": "DELETE_IN_PROGRESS", "updated_at": ago(minutes=9)}, True),
        (CLUSTER, {"status": "DELETE_IN_PROGRESS", "updated_at": ago(hours=3)}, False),
        (CONTAINER, {"task_state": "container_deleting", "updated_at": ago(minutes=9)}, True),
        (CONTAINER, {"task_state": "container_deleting", "updated_at": ago(hours=2)}, False),
        (GROUP, {"status": "deleting", "created_at": ago(days=9)}, True),  # it does not show when that began
        (
            BALANCER,
            {"provisioning_status": "PENDING_DELETE", "updated_at": ago(days=3)},
            True,
        ),  # Octavia refuses another
    ],
)
def test_a_delete_that_was_lost_is_requested_again(type_, row, going):
    assert bool(type_.deleting(Resource("r", "r", "us", row), US)) is going


def test_each_remedy_can_be_filled_and_names_the_resource():
    """A row of a leftover is not kept. So only the id and the project's id can be filled in."""
    wrong = {}
    for name, type_ in TYPES:
        for reason, text in type_.remedies.items():
            fields = {field for _, field, _, _ in string.Formatter().parse(text) if field is not None}
            filled = fields <= {"id", "project_id"} and fill(text, US, Resource("the-id", "", "us"))
            if not filled or "the-id" not in filled or text == REMEDIES[reason]:
                wrong[f"{name}: {reason}"] = text
    assert wrong == {}


def test_an_age_is_read_from_what_a_type_shows():
    assert [name for name, type_ in TYPES if type_.changed and not (type_.deleting or type_.failed)] == []
    assert [name for name, type_ in TYPES if type_.patience is not None and type_.patience <= 0] == []
