"""Barbican: orders, containers and secrets of all creators are deleted; those that outsiders may use stay."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.plugins import key_manager as plugin
from cleanup_orchestrator.plugins.base import Resource
from cleanup_orchestrator.plugins.key_manager import SERVICE
from tests.cloud.filler import connect_as, fill
from tests.cloud.fillings.base import Rest
from tests.support import sweeps

TYPES = {type_.name: type_ for type_ in SERVICE.types}
CONSUMERS = {"OpenStack-API-Version": "key-manager 1.1"}


def last(reference):
    return reference.rsplit("/", 1)[1]


@pytest.fixture(scope="module")
def projects(admin, projects):
    """The target has more than one page, a colleague's private secret, and what the neighbour uses, too."""
    target, neighbour = projects
    secrets = Rest(target.connection.key_manager, CONSUMERS)
    with ThreadPoolExecutor(4) as pool:
        body = {"payload": "x", "payload_content_type": "text/plain"}
        list(pool.map(lambda n: secrets.call("POST", "/secrets", {"name": f"s{n}", **body}), range(120)))
        list(pool.map(lambda n: secrets.call("POST", "/containers", {"name": f"c{n}", "type": "generic"}), range(15)))
    # A private secret of a colleague.
    colleague = connect_as(admin, f"{target.project_name}-colleague", target.password, target.project_name)
    theirs = Rest(colleague.key_manager, CONSUMERS)
    private = last(theirs.call("POST", "/secrets", {"name": "private", **body})["secret_ref"])
    theirs.call("PUT", f"/secrets/{private}/acl", {"read": {"project-access": False, "users": [target.colleague_id]}})
    consumer = {"service": "block-storage", "resource_type": "volume", "resource_id": "of-somebody"}
    theirs.call("POST", f"/secrets/{private}/consumers", consumer)
    # One of each that the neighbour may read, and uses.
    outsider = Rest(neighbour.connection.key_manager, CONSUMERS)
    shared = last(secrets.call("POST", "/secrets", {"name": "shared", **body})["secret_ref"])
    held = last(secrets.call("POST", "/containers", {"name": "shared", "type": "generic"})["container_ref"])
    for path in (f"/secrets/{shared}", f"/containers/{held}"):
        secrets.call("PUT", f"{path}/acl", {"read": {"users": [neighbour.user_id]}})
    outsider.call("POST", f"/secrets/{shared}/consumers", {**consumer, "resource_id": "the neighbour's"})
    outsider.call("POST", f"/containers/{held}/consumers", {"name": "lb", "URL": "http://the.neighbours/lb"})
    target.note("private", private)
    target.note("shared", shared)
    target.note("shared container", held)
    return target, neighbour


def alive(sweeper, filled):
    """What the database has of a project, by table."""
    sql = "SELECT t.id FROM {} t JOIN projects p ON p.id = t.project_id WHERE p.external_id = ? AND t.deleted = 0"
    tables = (
        "orders",
        "containers",
        "secrets",
        "project_quotas",
        "secret_consumer_metadata",
        "container_consumer_metadata",
    )
    return {
        table: {identity for (identity,) in sweeper.rows("barbican", sql.format(table), filled.project_id)}
        for table in tables
    }


def test_an_inventory_finds_all_resources_and_changes_nothing(projects, sweeper):
    target, _ = projects
    sweeper.inventory(SERVICE, target)  # the first call makes the sweeper known to Barbican
    before = sweeper.dump("barbican")
    found = sweeper.inventory(SERVICE, target)
    assert sweeper.dump("barbican") == before
    there = alive(sweeper, target)
    for type_, table in (("order", "orders"), ("container", "containers"), ("secret", "secrets")):
        assert {left.id for left in found[type_].leftovers} == there[table], type_
        assert found[type_].outcome is Outcome.LEFTOVERS
    assert len(there["secrets"]) > 120 and len(there["containers"]) > 15
    assert [left.id for left in found["project_quota"].leftovers] == [target.project_id]


def test_a_project_without_anything(admin, sweeper):
    listed = sweeper.inventory(SERVICE, fill(admin, "secret-nothing", only=[]))
    assert {name: result.outcome for name, result in listed.items()} == dict.fromkeys(listed, Outcome.CLEAR)


def test_without_a_role_nothing_is_known(projects, sweeper):
    """403 is no empty list."""
    target, _ = projects
    sweeper.cloud.admin.ensure_user("secret-stranger", "stranger", target.project_name, ("stranger",))
    connection = connect_as(target.connection, "secret-stranger", "stranger", target.project_name)
    for name in ("order", "container", "secret", "project_quota"):
        found = sweeps.inventory(TYPES[name], connection, sweeper.definition(SERVICE, target))
        assert (found.outcome, found.reason) == (Outcome.UNKNOWN, Reason.FORBIDDEN), name


def test_what_an_outsider_uses_stays_until_the_operator_says_otherwise(projects, sweeper):
    target, neighbour = projects
    theirs = alive(sweeper, neighbour)
    swept = sweeper.delete(SERVICE, target)
    left = {leftover.id: leftover for name in swept for leftover in swept[name].leftovers}
    shared, held = target.first("shared"), target.first("shared container")
    assert set(left) == {shared, held}
    assert left[shared].reason is left[held].reason is Reason.PROTECTED
    assert left[shared].blocked_by == ({"type": "block-storage.volume", "id": "the neighbour's", "owner": ""},)
    assert left[held].blocked_by == ({"type": "lb", "id": "http://the.neighbours/lb", "owner": ""},)
    assert swept["secret"].found - len(swept["secret"].leftovers) == len(swept["secret"].deleted) > 120

    swept = sweeper.delete(SERVICE, target, delete_shared_secrets=True)
    assert {name: result.outcome for name, result in swept.items()} == dict.fromkeys(swept, Outcome.CLEAR)
    assert not any(alive(sweeper, target).values())
    after = alive(sweeper, neighbour)
    for table in ("orders", "containers", "secrets", "project_quotas"):
        assert after[table] == theirs[table] and after[table], table


# ------------------------------------------------------------------------------------- Barbicans of other ages


class Old:
    """A Barbican that knows microversions up to ``newest``, and one secret with these consumers."""

    def __init__(self, newest, consumers):
        self.newest, self.consumers, self.deleted = newest, consumers, False
        self.key_manager = self

    def get(self, path, params=None, microversion=None):
        if microversion and microversion > self.newest:
            return Reply(406)
        return Reply(200, {"consumers": self.consumers} if path.endswith("consumers") else {"read": {"users": ["u2"]}})

    def delete(self, path, params=None, microversion=None):
        if microversion and microversion > self.newest:
            return Reply(406)
        self.deleted = True
        return Reply(204)


class Reply:
    def __init__(self, status_code, body=None):
        self.status_code, self.body = status_code, body

    def json(self):
        return self.body


@pytest.mark.parametrize("newest", ["1.0", "1.1"])
@pytest.mark.parametrize("consumers", [[], [{"service": "image", "resource_type": "image", "resource_id": "i"}]])
def test_with_an_older_barbican_the_consumers_are_read_before_the_delete(projects, sweeper, newest, consumers):
    target, _ = projects
    definition = sweeper.definition(SERVICE, target)
    barbican = Old(newest, consumers)
    secret = Resource("s", "", target.project_id)
    if consumers and newest == "1.1":
        with pytest.raises(plugin.Refused):
            plugin._delete_secret(barbican, definition, secret)
        assert not barbican.deleted
    else:
        plugin._delete_secret(barbican, definition, secret)
        assert barbican.deleted
