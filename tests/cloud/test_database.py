"""Trove: a project's databases are deleted with their servers, and no admin's token gets into one of these."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import threading
import time
import uuid

import kombu
import pytest

from cleanup_orchestrator.core.deletion import Mode, Status
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome, Token
from cleanup_orchestrator.plugins.base import BadAnswer
from cleanup_orchestrator.plugins.database import SERVICE
from cleanup_orchestrator.plugins.database.common import one_page
from cleanup_orchestrator.plugins.database.settings import _CONFIGURATIONS
from tests.cloud.filler import fill
from tests.cloud.fillings.base import Rest as RestClient
from tests.cloud.fillings.database import CONTAINER, trove
from tests.cloud.orchestrator import JANITOR, Orchestrator
from tests.support import sweeps

CLOUD = ("neutron", "placement", "nova", "glance", "cinder", "swift", "trove")
STRATEGY, BACKUP, CLUSTER, INSTANCE, CONFIGURATION, MODULE = SERVICE.types
OF_ADMINS = [type_ for type_ in SERVICE.types if type_.token is Token.ADMIN]
OF_MEMBERS = [type_ for type_ in SERVICE.types if type_.token is Token.MEMBER]
FOUND = {"backup_strategy": 2, "backup": 2, "cluster": 1, "instance": 5, "configuration": 2, "module": 2}
#: The rows of a filled project.
ROWS = {
    "trove.backup_strategy": 2, "trove.backups": 2, "trove.clusters": 1, "trove.instances": 5,
    "trove.configurations": 2, "trove.modules": 2,
}  # fmt: skip
SECONDS = 240
#: Trove makes a backup of the instance.
BUILDING = "UPDATE backups SET state = 'BUILDING', instance_id = ? WHERE id = ?"


def named(type_):
    return type_.name


def alive(sweeper, filled):
    return sweeper.live(filled.project_id, "trove.")


def found_by(sweeper, filled, type_, connection=None):
    return sweeps.inventory(type_, connection or sweeper.connection(), sweeper.definition(SERVICE, filled))


def ids(found):
    return {left.id for left in found.leftovers}


def expected(filled):
    return {
        "backup_strategy": {"project", filled.first("instance")},
        "backup": set(filled.ids["backup"]),
        "cluster": set(filled.ids["cluster"]),
        "instance": {*filled.ids["instance"], *filled.ids["cluster member"]},
        "configuration": set(filled.ids["configuration"]),
        "module": set(filled.ids["module"]),
    }


def sweep(sweeper, type_, filled, *, gone=False, **options):
    """Delete once: the orchestrator's token, if Trove treats it as an admin's, shows no configuration groups."""
    definition = dataclasses.replace(sweeper.definition(SERVICE, filled, **options), gone=gone)
    lister = sweeper.janitor(filled.project_id) if type_ in OF_MEMBERS else sweeper.connection(write=True)
    return sweeps.delete(type_, lister, definition, janitor=lambda: sweeper.janitor(filled.project_id))


def swept(sweeper, type_, filled, **options):
    """Delete until Trove has worked off the requests; return what was found at first, and the last result.

    While a member of a cluster vanishes, Trove may answer 500: then the orchestrator tries again, too.
    """
    first = last = sweep(sweeper, type_, filled, **options)
    deadline = time.monotonic() + SECONDS
    while last.outcome is not Outcome.CLEAR and time.monotonic() < deadline:
        if not {left.reason for left in last.leftovers} <= {Reason.DELETING, Reason.QUEUED}:
            break
        time.sleep(2)
        last = sweep(sweeper, type_, filled, **options)
    return first.found, last


def restored_to_completed(sweeper, filled):
    """Make the backups those of Trove, whose objects it deletes, and one an increment of the other."""
    full, increment = filled.ids["backup"]
    sweeper.rows("trove", "UPDATE backups SET state = 'COMPLETED' WHERE tenant_id = ?", filled.project_id)
    sweeper.rows("trove", "UPDATE backups SET parent_id = ? WHERE id = ?", full, increment)


def replicate(sweeper, filled):
    primary, replica, *_ = filled.ids["instance"]
    sweeper.rows("trove", "UPDATE instances SET slave_of_id = ? WHERE id = ?", primary, replica)
    return primary, replica


def objects_in(connection):
    return connection.object_store.get(f"/{CONTAINER}").text.split()


@contextlib.contextmanager
def guest_of(cloud, instance_id):
    """Yield a function that returns what the guest agent of an instance has been sent since the last call.

    A thread reads it, because RabbitMQ drops a message whose sender does not wait any longer.
    """
    topic, found, stop = f"guestagent.{instance_id}", [], threading.Event()
    with kombu.Connection(cloud.site.transport_url.replace("rabbit:", "amqp:")) as bus, bus.channel() as channel:
        exchange = kombu.Exchange("openstack", type="topic", durable=False)
        queue = kombu.Queue(topic, exchange, routing_key=topic, durable=False)(channel)
        queue.declare()
        queue.purge()  # of the request to build it

        def read():
            while not stop.wait(0.1):
                while (got := queue.get(no_ack=True, accept=["json"])) is not None:
                    body = got.payload if isinstance(got.payload, dict) else json.loads(got.payload)
                    found.append(json.loads(body["oslo.message"]))

        def messages(seconds):
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline and not found:
                time.sleep(0.1)
            sent = found[:]
            found.clear()
            return sent

        reader = threading.Thread(target=read)
        reader.start()
        try:
            yield messages
        finally:
            stop.set()
            reader.join()


@pytest.fixture(scope="module")
def projects(projects, further_sweeper):
    for filled in projects:
        replicate(further_sweeper, filled)
    return projects


def test_an_inventory_finds_everything_and_changes_nothing(projects, further_sweeper):
    target, _ = projects
    member = further_sweeper.janitor(target.project_id)
    before = further_sweeper.dump("trove", "nova", "neutron", "cinder", "keystone")
    found = {
        type_.name: found_by(further_sweeper, target, type_, member if type_ in OF_MEMBERS else None)
        for type_ in SERVICE.types
    }
    assert further_sweeper.dump("trove", "nova", "neutron", "cinder", "keystone") == before
    assert {name: ids(result) for name, result in found.items()} == expected(target)
    assert found["cluster"].others_ignored >= 1
    assert alive(further_sweeper, target) == ROWS


@pytest.mark.parametrize("type_", [BACKUP, CLUSTER, INSTANCE], ids=named)
def test_the_list_of_all_projects_shows_those_of_each(type_, projects, further_sweeper):
    for filled in projects:
        assert ids(found_by(further_sweeper, filled, type_.all_projects_view())) == expected(filled)[type_.name]


def test_a_page_is_no_whole_list(projects, further_sweeper):
    target, _ = projects
    definition = further_sweeper.definition(SERVICE, target)
    for path, key in (("/mgmt/instances", "instances"), ("/backups", "backups")):
        cut = one_page(path, key, project_id="{project_id}", limit=1)
        with pytest.raises(BadAnswer, match="a part of the rows"):
            list(cut(further_sweeper.connection(), definition))


@pytest.mark.parametrize("type_", OF_ADMINS, ids=named)
def test_a_caller_without_the_admin_role_never_sees_an_empty_project(type_, projects, further_sweeper):
    target, neighbour = projects
    found = found_by(further_sweeper, target, type_, neighbour.connection)
    assert (found.outcome, found.reason) == (Outcome.UNKNOWN, Reason.FORBIDDEN)


def test_to_an_admin_configuration_groups_have_no_owners_and_modules_are_not_listed(projects, further_sweeper):
    target, neighbour = projects
    further_sweeper.enter(target)
    inside = further_sweeper.connection(target.project_id)
    theirs = {row["id"]: row for row in trove(inside).call("GET", "/configurations")["configurations"]}
    assert set(neighbour.ids["configuration"]) <= set(theirs), "of another project, to a token of this one"
    assert not {"tenant_id", "project_id"} & set(theirs[neighbour.first("configuration")])
    for type_, option in ((CONFIGURATION, "list_configurations"), (MODULE, "list_modules")):
        found = found_by(further_sweeper, target, type_, inside)
        assert (found.outcome, found.reason) == (Outcome.UNKNOWN, Reason.BAD_ANSWER)
        assert f"{option} = false in [service_database]" in found.message
        definition = further_sweeper.definition(SERVICE, target, **{option: False})
        assert sweeps.inventory(type_, inside, definition).outcome is Outcome.CLEAR
    assert inside.database.get("/modules").status_code == 500, "the list of modules can be believed now"


def test_all_pages_of_configuration_groups_are_read(projects, further_sweeper):
    target, _ = projects
    cut = dataclasses.replace(_CONFIGURATIONS, query={"limit": 1})
    rows = list(cut.rows(target.connection, further_sweeper.definition(SERVICE, target)))
    assert {row["id"] for row in rows} == set(target.ids["configuration"])


def test_showing_an_instance_to_an_admin_sends_the_token_into_it_and_an_inventory_does_not(
    projects, further_cloud, further_sweeper
):
    target, _ = projects
    instance = target.first("instance")
    connection = further_sweeper.connection()
    with guest_of(further_cloud, instance) as messages:
        found_by(further_sweeper, target, INSTANCE)
        found_by(further_sweeper, target, CLUSTER)
        assert messages(3) == []
        for path in (f"/instances/{instance}", f"/mgmt/instances/{instance}"):
            assert connection.database.get(path).status_code == 200
            (sent, *_) = messages(20)
            assert sent["_context_auth_token"] == connection.session.get_token()
            assert "admin" in sent["_context_roles"]


def test_reading_the_quotas_of_a_project_writes_rows(further_admin, further_sweeper):
    """So they are not read."""
    sql, unheard_of = "SELECT id FROM quota_usages WHERE tenant_id = ?", uuid.uuid4().hex
    before = further_sweeper.rows("trove", sql, unheard_of)
    assert trove(further_admin).call("GET", f"/mgmt/quotas/{unheard_of}")["quotas"]
    assert (before, bool(further_sweeper.rows("trove", sql, unheard_of))) == ([], True)


def test_what_trove_refuses_is_explained(projects, further_admin, further_sweeper):
    """By the rules of the plugin these requests are not made in this order."""
    target, _ = projects
    primary, replica, single = target.ids["instance"]
    definition = further_sweeper.definition(SERVICE, target)
    connection = further_sweeper.connection()
    explained = lambda id_: INSTANCE.explain(connection, definition, dataclasses.replace(one, id=id_))  # noqa: E731
    one = INSTANCE.resource({"id": primary, "tenant_id": target.project_id}, definition)
    refused = {}
    for id_ in (primary, target.first("cluster member")):
        answer = target.connection.database.delete(f"/instances/{id_}", raise_exc=False)
        verdict = explained(id_)
        refused[id_] = (answer.status_code, verdict.reason, [each["id"] for each in verdict.blocked_by])
    assert refused == {
        primary: (403, Reason.IN_USE, [replica]),
        target.first("cluster member"): (501, Reason.IN_USE, target.ids["cluster"]),
    }
    flavor = "UPDATE instances SET flavor_id = ? WHERE id = ?"
    further_sweeper.rows("trove", flavor, "forgotten", single)
    assert target.connection.database.delete(f"/instances/{single}", raise_exc=False).status_code == 500
    assert "flavor forgotten" in explained(single).message
    further_sweeper.rows("trove", flavor, "database", single)
    assert alive(further_sweeper, target) == ROWS


def test_a_member_of_another_project_deletes_nothing(projects, further_sweeper):
    """Trove compares the owner with the project of the janitor's token."""
    target, neighbour = projects
    theirs = further_sweeper.dump_of(target.project_id)
    janitor_of_neighbour = further_sweeper.janitor(neighbour.project_id)
    for collection, kind in (
        ("instances", "instance"),
        ("clusters", "cluster"),
        ("backups", "backup"),
        ("configurations", "configuration"),
        ("modules", "module"),
    ):
        path = f"/{collection}/{target.first(kind)}"
        assert janitor_of_neighbour.database.delete(path, raise_exc=False).status_code == 404, path
    assert further_sweeper.dump_of(target.project_id) == theirs


def test_an_admins_token_deletes_an_object_of_the_admins_project(further_admin, further_sweeper):
    """So backups are not deleted with such a token."""
    attacker = fill(further_admin, "database-attacker", only=[])
    victim = further_sweeper.connection(write=True)
    victim.object_store.put(f"/{CONTAINER}")
    victim.object_store.put(f"/{CONTAINER}/precious", data=b"of the admin's project")
    sql = (
        "INSERT INTO backups (id, name, location, tenant_id, state, instance_id, deleted, created, updated, "
        "storage_driver) VALUES ('0d9f0c6e-5f7f-4d6c-9f0a-6d4f3f1b2c01', 'forged', ?, ?, 'COMPLETED', '', 0, NOW(), "
        "NOW(), 'swift')"
    )
    location = f"http://127.0.0.1/v1/AUTH_{attacker.project_id}/{CONTAINER}/precious"
    for careful in (True, False):
        further_sweeper.rows("trove", sql, location, attacker.project_id)
        type_ = BACKUP if careful else dataclasses.replace(BACKUP, user_content="")
        sweeps.delete(
            type_,
            further_sweeper.connection(write=True),
            further_sweeper.definition(SERVICE, attacker),
            janitor=lambda: further_sweeper.janitor(attacker.project_id),
        )
        deadline = time.monotonic() + 20
        while alive(further_sweeper, attacker) and time.monotonic() < deadline:
            time.sleep(0.5)
        assert objects_in(victim) == (["precious"] if careful else [])
        further_sweeper.rows("trove", "DELETE FROM backups WHERE tenant_id = ?", attacker.project_id)


def test_a_backup_that_is_made_is_waited_for_with_its_instance_and_a_stuck_one_is_ended(further_admin, further_sweeper):
    filled = fill(further_admin, "database-running", only=["database"])
    instance, backup = filled.first("instance"), filled.first("backup")
    further_sweeper.rows("trove", BUILDING, instance, backup)
    left = next(left for left in sweep(further_sweeper, BACKUP, filled).leftovers if left.id == backup)
    assert (left.reason, "it is BUILDING" in left.message) == (Reason.IN_USE, True)
    (_, rule), *_ = INSTANCE.needed_by
    needs = rule(further_sweeper.connection(), further_sweeper.definition(SERVICE, filled), {backup})
    resource = lambda id_: INSTANCE.resource({"id": id_}, further_sweeper.definition(SERVICE, filled))  # noqa: E731
    assert [needs(resource(id_)) for id_ in filled.ids["instance"]] == [backup, None, None]
    _, last = swept(further_sweeper, BACKUP, filled, reset_after=0)
    assert last.outcome is Outcome.CLEAR
    _, last = swept(further_sweeper, STRATEGY, filled)
    assert last.outcome is Outcome.CLEAR


def test_everything_is_deleted_and_the_neighbour_keeps_all(projects, further_cloud, further_sweeper):
    target, neighbour = projects
    restored_to_completed(further_sweeper, target)
    theirs, objects = further_sweeper.dump_of(neighbour.project_id), objects_in(neighbour.connection)
    assert len(objects_in(target.connection)) == 2
    result = {}
    with guest_of(further_cloud, target.first("instance")) as messages:
        for type_ in SERVICE.types:
            found, last = swept(further_sweeper, type_, target)
            result[type_.name] = (found, last.outcome, [left.message for left in last.leftovers])
        sent = messages(1)
    # The instances of the cluster are deleted with it.
    assert result == {name: (3 if name == "instance" else number, Outcome.CLEAR, []) for name, number in FOUND.items()}
    assert alive(further_sweeper, target) == {}
    assert objects_in(target.connection) == []
    assert {message["method"] for message in sent} == {"stop_db"}
    assert {message["_context_project_id"] for message in sent} == {target.project_id}
    assert all("admin" not in message["_context_roles"] for message in sent)
    assert further_sweeper.dump_of(neighbour.project_id) == theirs
    assert objects_in(neighbour.connection) == objects
    assert sorted(alive(further_sweeper, neighbour)) == sorted(ROWS)


def test_no_token_of_an_admin_gets_into_an_instance_of_a_project_that_is_gone(
    further_admin, further_cloud, further_sweeper
):
    filled = fill(further_admin, "database-orphan", only=["database"])
    further_sweeper.cloud.admin.call("DELETE", f"/projects/{filled.project_id}")
    strategies = sweep(further_sweeper, STRATEGY, filled, gone=True)
    assert strategies.outcome is Outcome.CLEAR
    with guest_of(further_cloud, filled.first("instance")) as messages:
        for type_ in (BACKUP, CLUSTER, INSTANCE):
            left = sweep(further_sweeper, type_, filled, gone=True).leftovers
            assert {each.reason for each in left} <= {Reason.PROJECT_GONE, Reason.IN_USE}, left
            assert {each.id for each in left} == expected(filled)[type_.name]
        assert messages(3) == []
        compute = RestClient(further_admin.compute)
        servers = further_sweeper.rows(
            "trove", "SELECT compute_instance_id FROM instances WHERE tenant_id = ?", filled.project_id
        )
        for (server,) in servers:
            if server:
                compute.call("DELETE", f"/servers/{server}", ok={404})
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and any(
            compute.raw("GET", f"/servers/{server}", ok={404}).status_code == 200 for (server,) in servers if server
        ):
            time.sleep(1)
        assert swept(further_sweeper, CLUSTER, filled, gone=True)[1].outcome is Outcome.CLEAR
        assert swept(further_sweeper, INSTANCE, filled, gone=True)[1].outcome is Outcome.CLEAR
        assert messages(3) == []
    left = set(alive(further_sweeper, filled))
    assert left == {"trove.backups", "trove.configurations", "trove.modules"}, "no API deletes them any more"


@pytest.fixture(scope="module")
def orchestrator(further_cloud, tmp_path_factory):
    """With the default options and a janitor: the orchestrator is an admin of the project, and the janitor is not."""
    made = Orchestrator(further_cloud, tmp_path_factory.mktemp("orchestrator"), JANITOR)
    yield made
    made.running.close()


def test_the_orchestrator_deletes_the_project_with_everything(projects, orchestrator, further_admin, further_sweeper):
    _, neighbour = projects
    filled = fill(further_admin, "database-whole", only=["database"])
    replicate(further_sweeper, filled)
    restored_to_completed(further_sweeper, filled)
    theirs = further_sweeper.dump_of(neighbour.project_id)
    grants = further_sweeper.assignments(filled.project_id)
    report = orchestrator.run(filled.project_id, Mode.REPORT, Status.LEFTOVERS)
    steps = {type_.name: orchestrator.step(report, f"database.{type_.name}") for type_ in OF_MEMBERS}
    assert {name: step.found for name, step in steps.items()} == {name: FOUND[name] for name in steps}
    assert alive(further_sweeper, filled) == ROWS
    assert further_sweeper.assignments(filled.project_id) == grants, "the janitor's role is taken back"
    deletion = orchestrator.run(filled.project_id, Mode.CASCADE, Status.DELETED)
    assert further_sweeper.live(filled.project_id) == {}
    servers = further_sweeper.rows("nova", "SELECT COUNT(*) FROM instances WHERE deleted = 0")
    instances = further_sweeper.rows("trove", "SELECT COUNT(*) FROM instances WHERE deleted = 0")
    assert servers <= instances, "each server that is left is that of an instance"
    assert further_sweeper.dump_of(neighbour.project_id) == theirs
    deleted = {*orchestrator.deleted(deletion)}
    # Trove works off the other deletes later.
    at_once = {"backup_strategy", "configuration", "module"}
    assert {f"database.{name}: {number} gone" for name, number in FOUND.items() if name in at_once} <= deleted
