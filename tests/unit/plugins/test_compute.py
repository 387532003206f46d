"""What Nova's answers are taken for."""

from __future__ import annotations

import dataclasses
import datetime
import types

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.errors import BadAnswer
from cleanup_orchestrator.plugins import compute
from cleanup_orchestrator.plugins.base import Refused, Resource
from tests.support.sweeps import inventory
from tests.unit.answers import connection, ids, project
from tests.unit.plugins.test_orchestration import of_gone

TASK = "OS-EXT-STS:task_state"
TYPES = {type_.name: type_ for type_ in compute.SERVICE.types}


def server(**row):
    return Resource("s", "web", "p", {"id": "s", "tenant_id": "p", "status": "ACTIVE", TASK: None, **row})


def ago(**time):
    return (datetime.datetime.now(datetime.UTC) - datetime.timedelta(**time)).strftime("%Y-%m-%dT%H:%M:%SZ")


def nova(after, actions=()):
    """Nova: what a server is after its delete, ``None`` when it is gone."""

    def answer(method, path, query, body):
        if method == "POST":
            return 202, {}
        if after is None:
            return 404, {"itemNotFound": {"message": "no"}}
        if path.endswith("/os-instance-actions"):
            return 200, {"instanceActions": [{"action": action} for action in actions]}
        return 200, {"server": after.data}

    return connection(compute=answer)


JUST_NOW = ago(hours=-9)  # the cases are collected long before the last one of them is run
FORCE = ("POST", "/servers/s/action", {"forceDelete": None})
RESET = ("POST", "/servers/s/action", {"os-resetState": {"state": "error"}})
FAULT = {"fault": {"message": "no such domain"}}


@pytest.mark.parametrize(
    ("listed", "after", "actions", "writes", "reason"),
    [
        (server(), None, (), [FORCE], None),
        (server(), server(**{TASK: "deleting"}), (), [FORCE], None),
        (server(status="SOFT_DELETED"), None, (), [FORCE], None),
        (server(**{TASK: "powering-off"}), None, (), [FORCE], None),
        (server(**{TASK: "deleting"}, updated=JUST_NOW), None, (), [], None),
        (server(**{TASK: "soft-deleting"}, updated=JUST_NOW), None, (), [], None),
        (server(status="DELETED", updated=JUST_NOW), None, (), [], None),
        (server(), server(status="DELETED"), (), [FORCE], None),
        (server(**{TASK: "deleting"}, updated=ago(hours=1)), None, (), [RESET, FORCE], None),
        (server(**{TASK: "deleting"}), None, (), [], None),
        (server(), server(), (), [FORCE], Reason.REFUSED),
        (server(), server(), ("create",), [FORCE], Reason.REFUSED),
        (server(status="VERIFY_RESIZE"), server(), ("delete", "confirmResize"), [FORCE], None),
        (server(), server(status="ERROR", **FAULT), ("delete", "create"), [FORCE], Reason.ERROR),
    ],
    ids=[
        "gone at once",
        "under way",
        "soft-deleted",
        "busy with something else",
        "just being deleted",
        "just being soft-deleted",
        "its row is about to go",
        "gone but for its row",
        "deleting for an hour",
        "deleting, it does not say since when",
        "accepted and ignored",
        "accepted and ignored, with a past",
        "its resize is being confirmed first",
        "failed at once",
    ],
)
def test_an_accepted_delete_of_nova_is_verified(listed, after, actions, writes, reason):
    cloud = nova(after, actions)
    if reason is None:
        compute.servers.delete_server(cloud, project(), listed)
    else:
        with pytest.raises(Refused) as refused:
            compute.servers.delete_server(cloud, project(), listed)
        assert refused.value.verdict.reason is reason
    assert cloud.compute.writes() == writes


@pytest.mark.parametrize(
    ("volumes", "new_enough", "released"),
    [
        (
            [{"id": "root", "delete_on_termination": True}, {"id": "data", "delete_on_termination": False}],
            True,
            ["root"],
        ),
        ([{"id": "root", "delete_on_termination": True}], False, []),
        ([{"id": "data"}], True, []),
        ([], True, []),
        (None, True, []),
    ],
    ids=["one goes with it", "an old Nova", "it does not say", "none", "none is shown"],
)
@pytest.mark.parametrize("status", [202, 404], ids=["done", "detached meanwhile"])
def test_no_volume_goes_with_its_server(volumes, new_enough, released, status):
    cloud = connection(compute=lambda *_: (status, {}))
    cloud.compute.get_endpoint_data = lambda: types.SimpleNamespace(max_microversion=(2, 100 if new_enough else 84))
    compute.servers.release_volumes(cloud, project(), server(**{"os-extended-volumes:volumes_attached": volumes}))
    body = {"delete_on_termination": False}
    assert cloud.compute.writes() == [
        ("PUT", f"/servers/s/os-volume_attachments/{id_}", {"volumeAttachment": {"volumeId": id_, **body}})
        for id_ in released
    ]


@pytest.mark.parametrize("data", [None, types.SimpleNamespace(max_microversion=None)])
def test_a_nova_whose_version_cannot_be_read_is_not_treated_as_old(data):
    """A document that cannot be read looks the same: the server stays, for its volumes would go with it."""
    cloud = connection(compute=lambda *_: (202, {}))
    cloud.compute.service_type, cloud.compute.get_endpoint_data = "compute", lambda: data
    volumes = [{"id": "root", "delete_on_termination": True}]
    with pytest.raises(BadAnswer, match="compute does not say"):
        compute.servers.release_volumes(cloud, project(), server(**{"os-extended-volumes:volumes_attached": volumes}))
    assert cloud.compute.asked == []


def test_an_unrequested_server_in_a_list_shows_that_nova_ignores_the_filters():
    """And with them the one without which soft-deleted servers are in no list."""
    cloud = connection(compute=lambda *_: (200, {"servers": [{"id": "s", "tenant_id": "other"}]}))
    found = inventory(TYPES["server"], cloud, project())
    assert (found.outcome, found.reason) == (Outcome.UNKNOWN, Reason.BAD_ANSWER)


def test_a_server_without_an_owner_is_protected():
    def answer(method, path, query, body):
        return 200, {"servers": [{"id": "s", "tenant_id": None}] if "soft_deleted" not in query else []}

    found = inventory(TYPES["server"], connection(compute=answer), project())
    assert [leftover.reason for leftover in found.leftovers] == [Reason.OWNER_UNKNOWN]


def test_of_a_cell_that_does_not_answer_the_servers_are_named():
    rows = [{"id": "up", "name": "web"}, {"id": "down", "status": "UNKNOWN"}]
    cloud = connection("p", compute=lambda *_: (200, {"servers": rows}))
    found = inventory(TYPES["unreachable_server"], cloud, project())
    assert [leftover.id for leftover in found.leftovers] == ["down"]
    with pytest.raises(BadAnswer):
        list(
            compute.servers.list_unreachable_servers(
                connection("own", compute=lambda *_: (200, {"servers": []})), project()
            )
        )


def test_no_server_is_deleted_that_cannot_be_reached():
    with pytest.raises(Refused) as refused:
        compute.servers.refuse_unreachable(connection(), project(), server())
    assert refused.value.verdict.reason is Reason.UNREACHABLE


@given(
    count=st.integers(0, 30),
    gone=st.lists(st.lists(st.integers(0, 29), max_size=6), max_size=20),
    pages=st.tuples(st.integers(2, 6), st.integers(1, 4)),  # pages of one cannot overlap: no Nova has such
)
def test_no_group_is_passed_over_when_others_go_while_they_are_paged(count, gone, pages):
    """Either every group that is there to the end is listed, or it is said that there may be more."""
    there = [{"id": str(number), "project_id": "p"} for number in range(count)]
    steps = iter(gone)

    def answer(method, path, query, body):
        if path != "/os-server-groups":
            return 200, {"servers": []}
        page = there[query["offset"] :][: query["limit"]]
        for number in next(steps, ()):
            there[:] = [row for row in there if row["id"] != str(number)]
        return 200, {"server_groups": page}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compute.groups, "PAGE", pages[0])
        patch.setattr(compute.groups, "OVERLAP", pages[1])
        try:
            listed = {row["id"] for row in compute.groups.list_server_groups(connection(compute=answer), project())}
        except BadAnswer:
            return
    assert listed >= {row["id"] for row in there}


def test_a_list_that_may_lack_a_group_is_no_answer(monkeypatch):
    """While the first page is read, three of its groups are deleted: the second page begins behind two others."""
    monkeypatch.setattr(compute.groups, "PAGE", 4)
    monkeypatch.setattr(compute.groups, "OVERLAP", 1)
    there = [{"id": str(number), "project_id": "p"} for number in range(10)]

    def answer(method, path, query, body):
        if path != "/os-server-groups":
            return 200, {"servers": []}
        page = there[query["offset"] :][: query["limit"]]
        there[:] = there if query["offset"] else there[3:]
        return 200, {"server_groups": page}

    with pytest.raises(BadAnswer, match="some may have been skipped"):
        list(compute.groups.list_server_groups(connection(compute=answer), project()))


def test_undisturbed_every_group_is_listed_once():
    there = [{"id": str(number), "project_id": "p"} for number in range(2500)]

    def answer(method, path, query, body):
        if path != "/os-server-groups":
            return 200, {"servers": []}
        return 200, {"server_groups": there[query["offset"] :][: query["limit"]]}

    cloud = connection(compute=answer)
    assert list(compute.groups.list_server_groups(cloud, project())) == there
    assert len(cloud.compute.asked) <= 6


def test_a_user_without_admin_rights_gets_no_list_of_groups():
    def answer(method, path, query, body):
        return (200, {"server_groups": []}) if path == "/os-server-groups" else (403, {"forbidden": {"message": "no"}})

    found = inventory(TYPES["server_group"], connection(compute=answer), project())
    assert (found.outcome, found.reason) == (Outcome.UNKNOWN, Reason.FORBIDDEN)


@pytest.mark.parametrize(
    ("metadata", "kept"),
    [
        ({"filter_tenant_id": "p"}, 1),
        ({"filter_tenant_id3": "q, p"}, 1),
        ({"filter_tenant_id": "pp"}, 0),
        ({"colour": "p"}, 0),
        ({}, 0),
        (None, 0),
    ],
)
def test_an_aggregate_that_is_set_apart_for_the_project_is_counted(metadata, kept):
    rows = [{"id": 7, "name": "rack", "metadata": metadata}]
    found = inventory(TYPES["aggregate"], connection(compute=lambda *_: (200, {"aggregates": rows})), project())
    assert (found.outcome, found.kept) == (Outcome.CLEAR, kept)


@pytest.mark.parametrize(
    ("own", "of_member", "there"),
    [({"cores": 20}, {"cores": 20}, False), ({"cores": 7}, {"cores": 7}, True), ({"cores": 20}, {"cores": 3}, True)],
    ids=["the default", "another", "another for a member"],
)
def test_quotas_are_there_when_they_are_not_the_default(own, of_member, there):
    def answer(method, path, query, body):
        if path.endswith("/defaults"):
            return 200, {"quota_set": {"id": "p", "cores": 20}}
        return 200, {"quota_set": {"id": "p", **(of_member if query else own)}}

    found = inventory(TYPES["quota_set"], connection(compute=answer), project(members=("u",)))
    assert bool(found.leftovers) is there


def test_flavor_access_is_not_listed_when_the_option_is_off():
    cloud = connection(compute=lambda *_: (500, "no"))
    assert inventory(TYPES["flavor_access"], cloud, project(sweep_flavor_access=False)).outcome is Outcome.CLEAR
    assert not cloud.compute.asked


def test_by_force_a_server_is_reset_and_deleted_in_every_state():
    listed = server(**{TASK: "deleting"}, updated=JUST_NOW)
    cloud = nova(None)
    TYPES["server"].force.act(cloud, project(), listed)
    assert cloud.compute.writes() == [RESET, FORCE]


OURS, THEIRS = "p", "them"
PROJECT = project(OURS)


def test_servers_out_of_reach_are_read_from_a_list_of_the_project_alone():
    answer = lambda *_: (200, {"servers": [{"id": "s", "status": "UNKNOWN"}]})  # noqa: E731
    assert ids(compute.servers.list_unreachable_servers(connection(scope=OURS, compute=answer), PROJECT)) == ["s"]
    with pytest.raises(BadAnswer, match="scoped into project them"):
        list(compute.servers.list_unreachable_servers(connection(scope=THEIRS, compute=answer), PROJECT))


@pytest.mark.parametrize(("owner", "ours"), [(OURS, True), ("", True), (THEIRS, False)])
def test_a_list_of_servers_with_one_of_another_project_is_no_answer(owner, ours):
    """Nova ignores filters that its policy does not allow; one without an owner is protected by the sweep."""

    def answer(method, path, query, body):
        return 200, {"servers": [] if query.get("soft_deleted") else [{"id": "s", "tenant_id": owner}]}

    cloud = connection(compute=answer)
    if ours:
        assert ids(compute.servers.list_servers(cloud, PROJECT)) == ["s"]
        return
    with pytest.raises(BadAnswer, match="listed one of another project"):
        list(compute.servers.list_servers(cloud, PROJECT))


def test_flavor_access_is_the_projects():
    def answer(method, path, query, body):
        if path == "/flavors":
            return 200, {"flavors": [{"id": "f", "name": "f"}]}
        return 200, {"flavor_access": [{"flavor_id": "f", "tenant_id": who} for who in (THEIRS, OURS)]}

    found = list(compute.settings.list_flavor_access(connection(compute=answer), PROJECT))
    assert [row["tenant_id"] for row in found] == [OURS]


DEAD = dataclasses.replace(project("dead"), gone=True)


def nova_out_of_reach(servers, cut=False):
    """Nova: ids to owners of the servers in a cell that does not answer."""

    def answer(method, path, query, body):
        if path == "/servers":
            assert query == {"all_tenants": "1"}, "with any other filter Nova leaves them out"
            rows = [{"id": identity, "status": "UNKNOWN"} for identity in servers] + [{"id": "up", "name": "up"}]
            return 200, {"servers": rows, **({"servers_links": [{"rel": "next"}]} if cut else {})}
        return 200, {"server": {"id": path.rpartition("/")[2], "tenant_id": servers[path.rpartition("/")[2]]}}

    return connection(compute=answer)


@pytest.mark.parametrize(("servers", "found"), [({}, 0), ({"a": "alive"}, 0), ({"a": "alive", "b": "dead"}, 1)])
def test_servers_out_of_reach_are_distinguished_by_owner(servers, found):
    sweep = inventory(of_gone(compute)["unreachable_server"], nova_out_of_reach(servers), DEAD)
    assert (sweep.found, sweep.outcome) == (found, Outcome.LEFTOVERS if found else Outcome.CLEAR)


def test_a_list_of_servers_that_is_cut_short_says_nothing():
    sweep = inventory(of_gone(compute)["unreachable_server"], nova_out_of_reach({}, cut=True), DEAD)
    assert (sweep.outcome, sweep.reason) == (Outcome.UNKNOWN, Reason.PROJECT_GONE)
    assert "max_limit" in sweep.message


@pytest.mark.parametrize(("limit", "found"), [(10, 0), (33, 1)])
def test_nova_shows_no_quotas_of_a_project_that_keystone_does_not_know_but_limits(limit, found):
    def answer(method, path, query, body):
        if path != "/limits":
            return 400, {"badRequest": {"message": "Project ID dead is not a valid project."}}
        own = limit if query["tenant_id"] == "dead" else 10
        return 200, {"limits": {"absolute": {"maxServerGroups": own, "totalServerGroupsUsed": limit}}}

    assert inventory(of_gone(compute)["quota_set"], connection(compute=answer), DEAD).found == found
