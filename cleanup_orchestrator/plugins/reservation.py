"""Blazar: leases, with their reservations and events.

Hosts and floating IPs that can be reserved are the operator's.

Blazar deletes a lease with its own user, and with a token for the trust of the user who created the lease. Keystone
issues no such token while that user has no access to the project. Both drains take this access away. So a cascade
cannot delete leases: they must be deleted before the project is drained. The trust is checked before each delete: an
active lease whose delete fails in Blazar can no longer be deleted, also when the trust is valid again.

At the end of a lease Blazar deletes the floating IPs that have the addresses of the lease, and does not compare their
owner. Blazar lends an address to other projects at other times. So the delete of a lease that has not begun would
delete the floating IP of the project that has the address now. Such a lease gives its addresses back before its delete.

This was tested with floating IPs. Leases of hosts and of servers were not met.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections import abc
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from oslo_config import cfg

from cleanup_orchestrator.plugins.base import (
    CONTROLLERS,
    FENCE_OPTION,
    BadAnswer,
    Blocker,
    Collection,
    LastChange,
    Needs,
    OneByOne,
    Paging,
    Parts,
    ProjectDefinition,
    Reason,
    Refused,
    Resource,
    ResourceType,
    Rest,
    Row,
    Service,
    Use,
    Verdict,
    blocker,
    exceptions,
    failed_in,
    refuse,
    show_leftover,
    state_remedies,
    verdict_naming,
)
from cleanup_orchestrator.plugins.nova import foreign_servers

if TYPE_CHECKING:
    from openstack.connection import Connection

TYPE = "reservation"

_FLOATING_IP, _HOSTS = "virtual:floatingip", "physical:host"  #: types of reservations
#: A lease that begins within this time counts as begun: the clocks of two machines differ.
_SOON = datetime.timedelta(minutes=5)
#: Blazar waits up to ten minutes for the deletes of the servers of each reservation.
_STUCK = datetime.timedelta(hours=1)
#: States in which Blazar refuses each change of a lease (blazar status.py, LeaseStatus.is_valid_transition).
_TRANSITIONS = ("CREATING", "STARTING", "UPDATING", "TERMINATING", "DELETING")
#: A time at which no address is lent.
_FAR = {"start_date": "2099-01-01 00:00", "end_date": "2099-01-02 00:00"}
#: What an operator does about a lease that Blazar cannot delete.
_BY_HAND = "an operator must set its trust_id to NULL in the table leases of Blazar's database, and delete it in Blazar"

# Below the endpoint in the catalog, which has the API version 1, as Blazar's own client expects. The discovery would
# find version 2, which is deprecated and lists in another form.
_LEASES = Collection(TYPE, "/leases", one="lease", from_root=True)
_LENT = Rest(TYPE, "/floatingips", key="floatingips", from_root=True)
_ADDRESS = Rest("network", "/floatingips/{id}", key="floatingip")
_TRUST = Rest("identity", "/OS-TRUST/trusts/{row[trust_id]}", key="trust")
_USER = Rest("identity", "/users/{id}", key="user")
_PROJECT = Rest("identity", "/projects/{project_id}", key="project")


def _list(connection: Connection, project: ProjectDefinition) -> Iterator[Row]:
    """Yield the leases of all projects, which Blazar shows to callers with the role admin.

    It has no call that it answers to admins only, whatever it is configured to lend.

    :raises ForbiddenException: without this role, Blazar would show the leases of the token's project
    """
    if "admin" not in connection.session.auth.get_access(connection.session).role_names:
        raise exceptions.failure(403, "the token has no role admin: Blazar shows it one project")
    yield from _LEASES.all.rows(connection, project)


def _reservations(lease: Row) -> list[dict[str, Any]]:
    """Return the reservations of a lease that have not ended, and that have resources."""
    reservations = lease.get("reservations")
    if not isinstance(reservations, list):
        raise BadAnswer("a lease was shown without 'reservations'")
    return [each for each in reservations if each["status"] != "deleted" and each.get("amount") != 0]


def _describe(lease: Resource, project: ProjectDefinition) -> str | None:
    """Say that a cascade cannot delete the lease."""
    state = str(lease.data.get("status")).lower()
    return f"{state}, until {lease.data.get('end_date')}; it must be deleted before the project is locked"


def _deleting(lease: Resource, project: ProjectDefinition) -> str | None:
    """Wait while Blazar ends the reservations."""
    changed = lease.data.get("updated_at")
    if lease.data.get("status") != "DELETING" or not changed or _now() - _time(changed) > _STUCK:
        return None
    return "Blazar is deleting it"


def _protect_servers(lease: Resource, project: ProjectDefinition) -> str | None:
    """Protect leases of hosts and servers: Blazar would delete all servers there, also those of other projects."""
    if project.options["delete_compute_leases"]:
        return None
    if all(each["resource_type"] == _FLOATING_IP for each in _reservations(lease.data)):
        return None
    return (
        "its delete deletes every server on its hosts or with its flavor, also those of other projects: an admin must "
        "delete it, or an operator must set [service_reservation] delete_compute_leases"
    )


def _foreign_servers(connection: Connection, project: ProjectDefinition, lease: Resource) -> Verdict | None:
    """Name the servers of others that Blazar deletes at the end of a lease.

    These are the servers on the hosts of the host aggregate that has the id of a reservation as its name, and those
    with the flavor that has it as its id.
    """
    reservations = [each for each in _reservations(lease.data) if each["resource_type"] != _FLOATING_IP]
    if not reservations:
        return None
    blockers: list[Blocker] = []
    ids = {str(each["id"]) for each in reservations}
    for row in Rest("compute", "/os-aggregates", key="aggregates").rows(connection, project):
        if row.get("name") in ids:
            for host in row.get("hosts") or ():
                blockers += foreign_servers(connection, project, host=str(host))
    for each in reservations:
        if each["resource_type"] != _HOSTS:
            blockers += foreign_servers(connection, project, flavor=str(each["id"]))
    return verdict_naming(project, "its end would delete", blockers)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _time(text: str) -> datetime.datetime:
    """Return a time as Blazar shows it, without its time zone."""
    return datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC)


def _overlap(one: Row, other: Row) -> bool:
    """Return whether two leases have a common time. Then they have no address in common."""
    return _time(one["start_date"]) < _time(other["end_date"]) and _time(other["start_date"]) < _time(one["end_date"])


def _explain_addresses(connection: Connection, project: ProjectDefinition, lease: Resource) -> Verdict | None:
    """Name what other projects may have at an address of the lease: floating IPs, and leases that begin now.

    Blazar does not show which addresses a lease has. So all addresses that it lends in the same network count, except
    those of leases at the same time.
    """
    ours = {each["network_id"] for each in _reservations(lease.data) if each["resource_type"] == _FLOATING_IP}
    if not ours:
        return None
    lent = {(row["floating_network_id"], row["floating_ip_address"]) for row in _LENT.rows(connection, project)}
    networks = ours & {network for network, _ in lent}
    others = [row for row in _LEASES.all.rows(connection, project) if row["id"] != lease.id]
    apart = [row for row in others if not _overlap(lease.data, row)]
    ids = {lease.id, *(row["id"] for row in apart)}
    safe = {f"reservation:{each['id']}" for row in others if row["id"] not in ids for each in row["reservations"]}
    blockers: list[Blocker] = []
    for network in sorted(networks):
        for row in _addresses(network).rows(connection, project):
            here = (network, row["floating_ip_address"]) in lent and row["project_id"] != project.id
            if here and safe.isdisjoint(row.get("tags") or ()):
                blockers.append(blocker("network.floating_ip", row["id"], row["project_id"]))
    for row in apart:
        theirs = {each["network_id"] for each in _reservations(row) if each["resource_type"] == _FLOATING_IP}
        begins = _time(row["start_date"]) <= _now() + _SOON
        if row["project_id"] != project.id and theirs & networks and begins:
            blockers.append(blocker("reservation.lease", row["id"], row["project_id"]))
    return verdict_naming(project, "Blazar may have lent its address to, and would then delete,", blockers)


def _addresses(network: str) -> Rest:
    """Return the call that lists the floating IPs of all projects in an external network."""
    query = {"floating_network_id": network}
    return Rest("network", "/floatingips", key="floatingips", query=query, paging=Paging.LINKS)


def _give_addresses_back(connection: Connection, project: ProjectDefinition, lease: Resource) -> None:
    """Make a lease that has not begun give its addresses back, if Blazar would delete others' floating IPs with it.

    Blazar first looks for as many free addresses as the lease has, at the new time. At the old time its own are taken.

    :raises Refused: other projects may still have an address of the lease
    """
    verdict = _explain_addresses(connection, project, lease)
    mine = (each for each in _reservations(lease.data) if each["resource_type"] == _FLOATING_IP)
    idle = [each["id"] for each in mine if each["status"] in ("pending", "error")]
    if verdict is not None and idle:
        body = {**_FAR, "reservations": [{"id": id_, "amount": 0} for id_ in idle]}
        try:
            changed = _LEASES.call("/{id}", key="lease", method="PUT", body=body).row(connection, project, lease)
        except exceptions.HttpException as error:
            raise Refused(dataclasses.replace(verdict, message=f"{verdict.message}; Blazar: {error}")) from error
        verdict = _explain_addresses(connection, project, dataclasses.replace(lease, data=changed))
    refuse(verdict)


def _refuse_stuck(connection: Connection, project: ProjectDefinition, lease: Resource) -> None:
    """Refuse a lease that Blazar can no longer delete."""
    ends = [each for each in lease.data.get("events") or () if each["event_type"] == "end_lease"]
    status = lease.data.get("status")
    if status == "ERROR" and any(each["status"] == "IN_PROGRESS" for each in ends):
        raise Refused(
            Verdict(
                Reason.REFUSED,
                "a delete of it failed, and Blazar refuses each further one: an operator must set the status of its "
                "event end_lease to UNDONE in the table events of Blazar's database",
            )
        )
    if status in _TRANSITIONS:
        changed = lease.data.get("updated_at")
        if changed and _now() - _time(changed) > _STUCK:
            text = (
                f"its status has been {status} for more than an hour, and Blazar refuses each change of it: an "
                "operator must set its status to ERROR in the table leases, and that of its event end_lease to UNDONE "
                "in the table events of Blazar's database"
            )
            raise Refused(Verdict(Reason.STUCK, text))
        raise Refused(Verdict(Reason.IN_USE, f"its status is {status}: Blazar refuses each change until that is over"))


def _refuse_without_trust(connection: Connection, project: ProjectDefinition, lease: Resource) -> None:
    """Refuse a lease if Keystone issues no token for its trust: its delete would fail, and may make it undeletable."""
    if not lease.data.get("trust_id"):  # then Blazar uses its own token
        return
    if project.gone:
        text = f"Blazar deletes it with a token for its project, which is gone: {_BY_HAND}"
        raise Refused(Verdict(Reason.PROJECT_GONE, text))
    try:
        trust = _TRUST.row(connection, project, lease)
    except exceptions.NotFoundException:
        text = f"the trust with which Blazar deletes it is gone: {_BY_HAND}"
        raise Refused(Verdict(Reason.REFUSED, text)) from None
    if trust["project_id"] != project.id:
        foreign = (blocker("reservation.lease", lease.id, trust["project_id"]),)
        text = "it was created in another project, and a user moved it here: an admin must delete it in Blazar"
        raise Refused(Verdict(Reason.FOREIGN, text, foreign))
    if why := _why_no_token(connection, project, trust):
        raise Refused(
            Verdict(
                Reason.REFUSED,
                f"Blazar deletes it with a token for the trust of its user, and Keystone issues none, because {why}. "
                "If the lock is the cause: cancel the deletion, delete the lease, and request the deletion again",
            )
        )


def _why_no_token(connection: Connection, project: ProjectDefinition, trust: Row) -> str:
    """Return why Keystone issues no token for a trust; empty if it issues one."""
    trustor = trust["trustor_user_id"]
    shown = _PROJECT.call(connection, project)["project"]
    if not shown["enabled"]:
        return "the project is disabled"
    if FENCE_OPTION in shown["options"] and trustor != connection.session.get_user_id():
        return "the project has a token fence"
    try:
        user = _USER.row(connection, project, Resource(trustor, "", None))
    except exceptions.NotFoundException:
        return "the user is gone"
    if not user["enabled"]:
        return "the user is disabled"
    query = {"user.id": trustor, "scope.project.id": project.id, "effective": "true"}
    assignments = Rest("identity", "/role_assignments", key="role_assignments", query=query)
    roles = {row["role"]["id"] for row in assignments.rows(connection, project)}
    missing = {role["id"] for role in trust["roles"]} - roles
    return "the user no longer has the roles on the project" if missing else ""


def _needed_by_addresses(connection: Connection, project: ProjectDefinition, left: abc.Collection[str]) -> Needs:
    """Leave the leases of floating IPs that are left: Blazar would delete these."""
    shown = {id_: show_leftover(_ADDRESS, connection, project, id_) for id_ in left}

    def needs(lease: Resource) -> str | None:
        named = {f"reservation:{each['id']}" for each in _reservations(lease.data)}
        return next((id_ for id_, row in shown.items() if row is None or not named.isdisjoint(row["tags"])), None)

    return needs


def _needed_by_servers(_connection: Connection, _project: ProjectDefinition, left: abc.Collection[str]) -> Needs:
    """Leave leases of hosts and servers while a server is left: Blazar would delete it."""

    def needs(lease: Resource) -> str | None:
        only_addresses = all(each["resource_type"] == _FLOATING_IP for each in _reservations(lease.data))
        return None if only_addresses else next(iter(left), None)

    return needs


SERVICE = Service(
    service_type=TYPE,
    contract_version=2,
    after=CONTROLLERS,
    roles="admin on one project: with it Blazar lists and deletes the leases of all projects, and Keystone and Neutron "
    "show trusts and floating IPs. A system-scoped token is answered with an error",
    options=(
        cfg.BoolOpt(
            "delete_compute_leases",
            default=False,
            help="Delete leases of hosts and servers. Blazar then deletes every server on the hosts or with the flavor "
            "of the lease, and does not compare the owner of the server.",
        ),
    ),
    types=(
        ResourceType(
            name="lease",
            if_abandoned="The reserved hosts stay reserved until the lease ends.",
            list=_list,
            all_projects=_list,
            show=_LEASES.show,
            delete=_LEASES.delete,
            after=("compute.server", "network.floating_ip"),
            needed_by=(("compute.server", _needed_by_servers), ("network.floating_ip", _needed_by_addresses)),
            protect=(_protect_servers,),
            used_by=(
                Use(
                    ("compute.server",),
                    "deletes the server, if it is on a host or has the flavor of the lease",
                    OneByOne(_foreign_servers),
                ),
                # The preparation looks for them itself, because the lease may give its addresses back.
                Use(("network.floating_ip",), "is refused, if the lease cannot give the address back before"),
            ),
            deleting=_deleting,
            failed=failed_in("Blazar", "ERROR"),
            changed="updated_at",
            remedies=state_remedies(
                "the log of blazar-manager has the cause",
                "UPDATE leases SET status = 'ERROR' WHERE id = '{id}', and UPDATE events SET status = 'UNDONE' WHERE "
                "lease_id = '{id}' AND event_type = 'end_lease', in Blazar's database; then openstack reservation "
                "lease delete {id}",
                "an operator",
            ),
            describe=_describe,
            created="created_at",
            updated=LastChange("updated_at"),
            parts=(Parts("reservation", "reservations", created="created_at", updated=LastChange("updated_at")),),
            prepare=(_refuse_stuck, _refuse_without_trust, _give_addresses_back),
            unfiltered="Blazar lists the leases of all projects to an admin, on one page and without a filter",
            source="GET, DELETE /v1/leases; blazar api/v1/leases, manager/service.py (delete_lease), utils/trusts.py, "
            "plugins/floatingips/floatingip_plugin.py (on_end), utils/openstack/neutron.py "
            "(delete_reserved_floatingip), plugins/oshosts/host_plugin.py (on_end)",
            note="To callers without the role admin Blazar lists only the leases of the token's project. So the role "
            "is looked for in the token before the list. A user can move a lease to another project, with a PUT of its "
            "project_id. Such a lease is recognized by its trust, and left. A lease that a user has moved out of the "
            "project is not found. The trust of a lease is not deleted with the lease, but with the trusts of the "
            "project.",
        ),
    ),
)
