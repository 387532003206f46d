"""Keystone: objects that name the project are deleted last; those of its users for other projects stay."""

from __future__ import annotations

import dataclasses
import datetime
import json
import uuid

import pytest
from openstack.connection import Connection

from cleanup_orchestrator.cloud.session import GuardedSession, read_only
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.plugins.base import EVERYTHING, Rest
from cleanup_orchestrator.plugins.identity import SERVICE
from tests.cloud.filler import connect_as
from tests.cloud.fillings.base import Rest as Api
from tests.support import sweeps

TYPES = {type_.name: type_ for type_ in SERVICE.types}


def give_trust(giver, taker, **more):
    body = {
        "trustor_user_id": giver.user_id,
        "trustee_user_id": taker.user_id,
        "project_id": giver.project_id,
        "impersonation": False,
        "roles": [{"name": "member"}],
        **more,
    }
    return Api(giver.connection.identity).call("POST", "/OS-TRUST/trusts", {"trust": body})["trust"]["id"]


@pytest.fixture(scope="module")
def projects(admin, sweeper, projects):
    """The target has credentials, trusts and tokens that name the neighbour, too."""
    target, neighbour = projects
    everything = Api(admin.identity)
    # The target's user works for the neighbour, too: everything that names the neighbour has to stay.
    sweeper.cloud.admin.ensure_role(neighbour.project_id, target.user_id, "member")
    elsewhere = connect_as(admin, target.user_name, target.password, neighbour.project_name)
    mine = Api(elsewhere.identity)
    path = f"/users/{target.user_id}"
    mine.call("POST", f"{path}/application_credentials", {"application_credential": {"name": "for the neighbour"}})
    mine.call("POST", f"{path}/credentials/OS-EC2", {"tenant_id": neighbour.project_id})
    totp = {"type": "totp", "blob": "GEZDGNBVGY3TQOJQ", "user_id": target.user_id}
    everything.call("POST", "/credentials", {"credential": totp})
    blob = {"type": "cert", "blob": "secret", "user_id": target.user_id, "project_id": target.project_id}
    everything.call("POST", "/credentials", {"credential": blob})
    # A user with access through a group, and a user who has left the project since.
    colleague = connect_as(admin, f"{target.project_name}-colleague", target.password, target.project_name)
    path = f"/users/{target.colleague_id}/application_credentials"
    body = {"application_credential": {"name": "the colleague's"}}
    target.note(
        "application credential", Api(colleague.identity).call("POST", path, body)["application_credential"]["id"]
    )
    # Trusts: used up, expired, redelegated, and one from the neighbour's.
    give_trust(target, neighbour, remaining_uses=3)
    soon = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    expired = give_trust(target, neighbour, expires_at=soon)
    used = give_trust(target, neighbour, remaining_uses=1)
    sweeper.rows(
        "keystone",
        "UPDATE trust SET expires_at = '2020-01-01', expires_at_int = 1577836800000000 WHERE id = ?",
        expired,
    )
    sweeper.rows("keystone", "UPDATE trust SET remaining_uses = 0 WHERE id = ?", used)
    target.note("dead trust", expired, used)
    # A token of OAuth1 needs signed requests, so the test writes it into the database.
    consumer = everything.call("POST", "/OS-OAUTH1/consumers", {"consumer": {"description": "c"}})["consumer"]["id"]
    for project_id in (target.project_id, neighbour.project_id):
        values = (uuid.uuid4().hex, "secret", target.user_id, project_id, json.dumps([]), consumer, None)
        sweeper.rows("keystone", "INSERT INTO access_token VALUES (?, ?, ?, ?, ?, ?, ?)", *values)
    endpoint = everything.call("GET", "/endpoints")["endpoints"][0]["id"]
    for filled in (target, neighbour):
        everything.call("PUT", f"/OS-EP-FILTER/projects/{filled.project_id}/endpoints/{endpoint}")
    return target, neighbour


def alive(sweeper, project_id):
    """What names the project, straight from the database."""
    found = {}
    for table, condition in (
        ("application_credential", ""),
        ("credential", ""),
        ("access_token", ""),
        ("trust", " AND deleted_at IS NULL"),
        ("limit", ""),
        ("project_endpoint", ""),
        ("project_tag", ""),
    ):
        column = {"application_credential": "id", "project_endpoint": "endpoint_id", "project_tag": "name"}.get(
            table, "id"
        )
        rows = sweeper.rows("keystone", f'SELECT {column} FROM "{table}" WHERE project_id = ?{condition}', project_id)
        found[table] = {value for (value,) in rows}
    return found


GONE = "0" * 32  # a member that has been deleted since


def test_all_of_it_is_last():
    assert all(type_.after == (EVERYTHING,) for type_ in SERVICE.types)
    assert not SERVICE.regional


def test_an_inventory_finds_all_resources_and_changes_nothing(projects, sweeper):
    target, _ = projects
    sweeper.enter(target)
    before = sweeper.dump("keystone")
    found = sweeper.inventory(SERVICE, target, GONE)
    assert sweeper.dump("keystone") == before
    there = alive(sweeper, target.project_id)
    assert {left.id for left in found["application_credential"].leftovers} == there["application_credential"]
    assert len(there["application_credential"]) == 3
    named = found["credential"]  # every user may create one: they are named, and none is a leftover
    assert (named.outcome, named.leftovers) == (Outcome.CLEAR, ())
    assert {one.id for one in named.kept_resources} == there["credential"] and len(there["credential"]) == 2
    assert all(target.user_id in one.message for one in named.kept_resources)
    assert {left.id for left in found["oauth1_access_token"].leftovers} == there["access_token"]
    dead = set(target.ids["dead trust"])
    assert {left.id for left in found["trust"].leftovers} == there["trust"] - dead
    assert found["trust"].kept == 2
    assert (found["limit"].outcome, found["limit"].kept) == (Outcome.CLEAR, 1)
    assert (found["endpoint_association"].outcome, found["endpoint_association"].kept) == (Outcome.CLEAR, 1)
    assert found["endpoint_group_association"].outcome is Outcome.CLEAR
    users = found["default_project_user"]  # the user and the colleague
    assert (users.outcome, users.found, users.kept) == (Outcome.CLEAR, 0, 2)


def test_only_former_members_are_read(projects, sweeper):
    """Without the recorded members, users whose role the drain removed would not be found."""
    target, _ = projects
    role = sweeper.cloud.admin.call("GET", "/roles?name=member")["roles"][0]["id"]
    path = f"/projects/{target.project_id}/groups/{target.group_id}/roles/{role}"
    sweeper.cloud.admin.call("DELETE", path)
    try:
        found = sweeper.inventory(SERVICE, target)["application_credential"]
        there = alive(sweeper, target.project_id)["application_credential"]
        assert {left.id for left in found.leftovers} == there and len(there) == 3
        without = sweeper.definition(SERVICE, target)
        without = dataclasses.replace(without, member_ids=())
        fewer = sweeps.inventory(TYPES["application_credential"], sweeper.connection(), without)
        assert {left.id for left in fewer.leftovers} < there  # the colleague's is out of sight, and not gone
    finally:
        sweeper.cloud.admin.call("PUT", path)


def test_an_application_credential_must_not_list_credentials(projects, sweeper):
    """Keystone shows it an empty list, and says 200."""
    target, _ = projects
    from keystoneauth1.identity.v3 import ApplicationCredential

    mine = Connection(session=sweeper.session(write=True), region_name="RegionOne")
    path = f"/users/{sweeper.user_id}/application_credentials"
    body = {"application_credential": {"name": uuid.uuid4().hex, "unrestricted": True}}
    made = Api(mine.identity).call("POST", path, body)["application_credential"]
    auth = ApplicationCredential(
        sweeper.cloud.auth_url, application_credential_id=made["id"], application_credential_secret=made["secret"]
    )
    connection = Connection(session=GuardedSession(read_only, auth=auth), region_name="RegionOne")
    assert connection.identity.get("/credentials").json()["credentials"] == []
    found = sweeps.inventory(TYPES["credential"], connection, sweeper.definition(SERVICE, target))
    assert (found.outcome, found.reason) == (Outcome.UNKNOWN, Reason.BAD_ANSWER)


def test_an_inventory_by_a_member_is_unknown(projects, sweeper):
    target, _ = projects
    definition = sweeper.definition(SERVICE, target)
    for name in ("application_credential", "oauth1_access_token", "trust", "endpoint_association"):
        found = sweeps.inventory(TYPES[name], target.connection, definition)
        assert (found.outcome, found.reason) == (Outcome.UNKNOWN, Reason.FORBIDDEN), name


@pytest.mark.parametrize("name", [type_.name for type_ in SERVICE.types])
def test_a_list_cut_short_is_no_list(projects, sweeper, monkeypatch, name):
    target, _ = projects
    request = Rest._request

    def cut(self, *arguments):
        return {**request(self, *arguments), "truncated": True}

    monkeypatch.setattr(Rest, "_request", cut)
    found = sweeps.inventory(TYPES[name], sweeper.connection(), sweeper.definition(SERVICE, target))
    assert (found.outcome, found.reason) == (Outcome.UNKNOWN, Reason.BAD_ANSWER)


def test_a_list_that_is_not_there_is_not_empty(projects, sweeper, monkeypatch):
    """404 for a user that exists: that Keystone does not know the call."""
    target, _ = projects
    from cleanup_orchestrator.plugins import exceptions

    request = Rest._request

    def missing(self, connection, path, *arguments):
        if "application_credentials" in path:
            raise exceptions.failure(404, "no such resource")
        return request(self, connection, path, *arguments)

    monkeypatch.setattr(Rest, "_request", missing)
    found = sweeps.inventory(TYPES["application_credential"], sweeper.connection(), sweeper.definition(SERVICE, target))
    assert (found.outcome, found.reason) == (Outcome.UNKNOWN, Reason.BAD_ANSWER)


def test_everything_goes_and_what_is_for_others_stays(projects, sweeper):
    target, neighbour = projects
    theirs = alive(sweeper, neighbour.project_id)
    assert all(theirs.values())
    totp = sweeper.rows("keystone", "SELECT id FROM credential WHERE type = 'totp'")
    rules = sweeper.rows("keystone", "SELECT id FROM access_rule")
    swept = sweeper.delete(SERVICE, target, GONE)
    assert {name: result.outcome for name, result in swept.items()} == dict.fromkeys(swept, Outcome.CLEAR)
    left = alive(sweeper, target.project_id)
    for table in ("application_credential", "credential", "access_token"):
        assert not left[table], table
    assert left["trust"] == set(target.ids["dead trust"])
    assert alive(sweeper, neighbour.project_id) == theirs
    assert totp and sweeper.rows("keystone", "SELECT id FROM credential WHERE type = 'totp'") == totp
    assert rules and sweeper.rows("keystone", "SELECT id FROM access_rule") == rules
    # The kept ones are deleted with the project.
    sweeper.cloud.admin.call("DELETE", f"/projects/{target.project_id}")
    assert not any(alive(sweeper, target.project_id).values())
