"""What Cinder's answers are taken for, and out of which states things are got."""

from __future__ import annotations

import dataclasses
import datetime

import pytest

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import DeleteRecord, Outcome
from cleanup_orchestrator.errors import BadAnswer
from cleanup_orchestrator.plugins import block_storage
from cleanup_orchestrator.plugins.base import Refused, Resource, exceptions
from cleanup_orchestrator.plugins.block_storage import groups, volumes
from cleanup_orchestrator.worker.sweep.item import History
from tests.support import sweeps
from tests.support.sweeps import before_delete, inventory
from tests.unit.answers import connection, project, resource
from tests.unit.plugins.test_key_manager import lists
from tests.unit.plugins.test_orchestration import of_gone

OWNER = "os-vol-tenant-attr:tenant_id"
SNAPSHOT_OWNER = "os-extended-snapshot-attributes:project_id"
TYPES = {type_.name: type_ for type_ in block_storage.SERVICE.types}
REFUSED = (400, {"badRequest": {"message": "Volume status must be available or error"}})


def ago(**time):
    """As Cinder says it: in UTC, without saying so."""
    return (datetime.datetime.now(datetime.UTC) - datetime.timedelta(**time)).replace(tzinfo=None).isoformat()


def volume(**row):
    shown = {"id": "v", OWNER: "p", "status": "available", "updated_at": None, "created_at": ago(days=9)}
    return Resource("v", "data", "p", {**shown, **row})


def cinder(server_owner=None, delete=(202, {}), **collections):
    """Cinder with these rows in its collections, and Nova with one server or none. Lists end after one page."""

    def answer(method, path, query, body):
        if method == "DELETE":
            return delete.pop(0) if isinstance(delete, list) else delete
        if method == "POST":
            return 202, {}
        name = path.strip("/").split("/")[0]
        if path.startswith("/os-quota-sets"):
            return 200, {"quota_set": {}}
        if path.endswith("/detail"):
            rows = [] if query.get("marker") else collections.get(name, [])
            return 200, {name.removeprefix("volume-"): rows}
        found = [row for row in collections.get(name, []) if row["id"] == path.rpartition("/")[2]]
        return (200, {name.removesuffix("s"): found[0]}) if found else (404, {"itemNotFound": {"message": "no"}})

    def nova(method, path, query, body):
        if server_owner is None:
            return 404, {"itemNotFound": {"message": "no"}}
        return 200, {"server": {"id": "s", "tenant_id": server_owner}}

    return connection(block_storage=answer, compute=nova)


def reset(**status):
    return [("POST", "/volumes/v/action", {"os-reset_status": status})]


ATTACHMENT = {"id": "a", "volume_id": "v", "instance": "s"}
GROUP = {"id": "g", "project_id": "p"}


@pytest.mark.parametrize(
    ("row", "cloud", "writes"),
    [
        ({}, {}, []),
        ({"status": "error"}, {}, []),
        ({"status": "error_restoring"}, {}, []),
        ({"status": "error_deleting"}, {}, reset(status="error")),
        ({"status": "error_backing-up"}, {}, reset(status="error")),
        ({"status": "maintenance"}, {}, reset(status="error")),
        ({"status": "awaiting-transfer"}, {}, reset(status="error")),
        ({"status": "in-use"}, {}, reset(status="error", attach_status="detached")),
        ({"status": "reserved"}, {}, reset(status="error", attach_status="detached")),
        ({"status": "detaching"}, {}, reset(status="error", attach_status="detached")),
        ({"attachments": [{"server_id": "s"}]}, {}, reset(status="error", attach_status="detached")),
        ({"status": "creating"}, {}, reset(status="error")),
        ({"status": "deleting"}, {}, reset(status="error")),
        ({"migration_status": "success"}, {}, []),
        ({"migration_status": "migrating"}, {}, reset(status="error", migration_status="none")),
        ({"migration_status": "target:x", "updated_at": ago()}, {}, reset(status="error", migration_status="none")),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_state_that_nothing_stands_behind_is_reset(row, cloud, writes):
    made = cinder(**cloud)
    block_storage.volumes.make_volume_deletable(made, project(), volume(**row))
    assert made.block_storage.writes() == writes


@pytest.mark.parametrize(
    ("row", "cloud", "reason", "blocker"),
    [
        ({"status": "creating", "created_at": ago()}, {}, Reason.IN_USE, None),
        ({"status": "uploading", "updated_at": ago(hours=3)}, {}, Reason.IN_USE, None),
        ({"status": "deleting", "updated_at": ago()}, {}, Reason.DELETING, None),
        ({"status": "deleting", "created_at": None}, {}, Reason.DELETING, None),
        ({"migration_status": "migrating", "updated_at": ago()}, {}, Reason.IN_USE, None),
        ({"group_id": "g"}, {"groups": [GROUP]}, Reason.IN_USE, ("block-storage.group", "g", "p")),
        (
            {"group_id": "g"},
            {"groups": [{"id": "g", "project_id": "q"}]},
            Reason.FOREIGN,
            ("block-storage.group", "g", "q"),
        ),
        (
            {"group_id": "g", "consistencygroup_id": "g"},
            {},
            Reason.IN_USE,
            ("block-storage.consistency_group", "g", "p"),
        ),
        (
            {"status": "in-use"},
            {"attachments": [ATTACHMENT], "server_owner": "p"},
            Reason.IN_USE,
            ("compute.server", "s", "p"),
        ),
        (
            {"status": "in-use"},
            {"attachments": [ATTACHMENT], "server_owner": "q"},
            Reason.FOREIGN,
            ("compute.server", "s", "q"),
        ),
        (
            {"status": "awaiting-transfer"},
            {"volume-transfers": [{"id": "t", "volume_id": "v"}]},
            Reason.IN_USE,
            ("block-storage.transfer", "t", "p"),
        ),
        ({"status": "reserved"}, {"attachments": [ATTACHMENT]}, Reason.IN_USE, ("block-storage.attachment", "a", "p")),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_volume_that_something_has_is_left_to_it_and_it_is_named(row, cloud, reason, blocker):
    made = cinder(**cloud)
    with pytest.raises(Refused) as refused:
        block_storage.volumes.make_volume_deletable(made, project(), volume(**row))
    verdict = refused.value.verdict
    assert verdict.reason is reason
    assert [(b["type"], b["id"], b["owner"]) for b in verdict.blocked_by] == ([blocker] if blocker else [])
    assert not made.block_storage.writes()


def test_a_snapshot_of_a_group_goes_with_that():
    (make_deletable,) = TYPES["snapshot"].prepare
    row = {"id": "s", "status": "available", "group_snapshot_id": "gs"}
    cloud = cinder()
    with pytest.raises(Refused) as refused:
        make_deletable(cloud, project(), Resource("s", "", "p", row))
    assert refused.value.verdict.reason is Reason.IN_USE
    make_deletable(cloud, project(), Resource("s", "", "p", row | {"group_snapshot_id": None}))
    assert not cloud.block_storage.asked


def test_a_list_whose_marker_is_deleted_is_read_again():
    there = list("abc")

    def answer(method, path, query, body):
        if path.startswith("/os-quota-sets"):
            return 200, {"quota_set": {}}
        marker = query.get("marker")
        if marker and marker not in there:
            return 404, {"itemNotFound": {"message": f"Volume {marker} could not be found."}}
        page = there[there.index(marker) + 1 if marker else 0 :][:1]
        if page == ["b"]:
            there.remove("b")  # it goes between two pages
        return 200, {"volumes": [{**volume().data, "id": n} for n in page]}

    found = inventory(TYPES["volume"], connection(block_storage=answer), project())
    assert [leftover.id for leftover in found.leftovers] == ["a", "b", "c"]


def test_a_list_whose_marker_is_always_deleted_is_an_error():
    def answer(method, path, query, body):
        return (404, {}) if query.get("marker") else (200, {"volumes": [volume().data]})

    assert inventory(TYPES["volume"], connection(block_storage=answer), project()).reason == Reason.BAD_ANSWER


def test_an_operator_says_after_how_long_something_is_stuck():
    made, row = cinder(), volume(status="creating", created_at=ago(minutes=10))
    with pytest.raises(Refused):
        block_storage.volumes.make_volume_deletable(made, project(reset_after=3600), row)
    block_storage.volumes.make_volume_deletable(made, project(reset_after=60), row)
    assert made.block_storage.writes() == reset(status="error")


@pytest.mark.parametrize(
    ("owner", "reason"), [("p", Reason.IN_USE), ("q", Reason.FOREIGN), (None, Reason.FOREIGN)], ids=str
)
def test_a_volume_is_never_deleted_with_its_snapshots(owner, reason):
    cloud = cinder(delete=REFUSED, snapshots=[{"id": "s", "volume_id": "v", SNAPSHOT_OWNER: owner}])
    with pytest.raises(Refused) as refused:
        block_storage.volumes.delete_volume(cloud, project(), volume())
    assert refused.value.verdict.reason is reason
    assert [(b["id"], b["owner"]) for b in refused.value.verdict.blocked_by] == [("s", owner or "")]
    assert cloud.block_storage.writes() == [("DELETE", "/volumes/v", None)]


def test_a_refusal_that_nothing_explains_is_a_stale_attachment():
    cloud = cinder(delete=[REFUSED, (202, {})], volumes=[volume().data])
    block_storage.volumes.delete_volume(cloud, project(), volume())
    detached = reset(attach_status="detached")  # and its state stays: a frozen backend is refused in the same words
    assert cloud.block_storage.writes() == [("DELETE", "/volumes/v", None), *detached, ("DELETE", "/volumes/v", None)]


@pytest.mark.parametrize(
    ("id_", "survives"),
    [
        ("5f1c7d9e4ab24b0f8f6f3c7a9d2e1b0c", True),
        ("12345678901234567890123456789012", False),
        ("1234567890123456e890123456789012", False),
        ("12345678901234567890123456789e01", False),
        ("01234567890123456789012345678901", True),
        ("5e5e5678901234567890123456789012", True),
        ("1234567890123456-7890123456789012", True),
        ("None", False),
    ],
)
def test_a_project_id_that_reads_as_a_number_is_not_sent_as_a_filter(id_, survives):
    queries = []

    def answer(method, path, query, body):
        queries.append((path, query))
        return 200, {"volumes": [], "quota_set": {}}

    found = inventory(TYPES["volume"], connection(block_storage=answer), project(id_))
    assert found.outcome is Outcome.CLEAR
    ((_, query),) = [each for each in queries if each[0] == "/volumes/detail"]
    assert query.get("project_id") == (id_ if survives else None) and query["all_tenants"] == "1"


def test_the_copy_of_a_migration_is_kept_as_long_as_what_it_is_a_copy_of_is_there():
    copies = [{"id": n, OWNER: "p", "migration_status": f"target:{of}"} for n, of in (("copy", "v"), ("orphan", "x"))]
    cloud = cinder(volumes=[volume().data, *copies])
    found = inventory(TYPES["volume"], cloud, project())
    assert found.kept == 1 and {leftover.id for leftover in found.leftovers} == {"v", "orphan"}


@pytest.mark.parametrize("name", ["volume", "snapshot", "group", "group_snapshot", "attachment", "transfer"])
def test_a_user_without_admin_rights_gets_no_list(name):
    """Cinder would give him his own, and no word about it: that would look empty."""

    def answer(method, path, query, body):
        if path.startswith("/os-quota-sets"):
            return 403, {"forbidden": {"message": "no"}}
        return 200, {
            key: [] for key in ("volumes", "snapshots", "groups", "group_snapshots", "attachments", "transfers")
        }

    found = inventory(TYPES[name], connection(block_storage=answer), project())
    assert (found.outcome, found.reason) == (Outcome.UNKNOWN, Reason.FORBIDDEN)


@pytest.mark.parametrize("name", ["backup", "consistency_group", "consistency_group_snapshot"])
def test_what_is_seen_from_the_project_alone_takes_a_token_of_it(name):
    cloud = connection("own", block_storage=lambda *_: (200, {"backups": [], "consistencygroups": []}))
    found = inventory(TYPES[name], cloud, project())
    assert (found.outcome, found.reason) == (Outcome.UNKNOWN, Reason.BAD_ANSWER)
    assert not [path for _, path, _ in cloud.block_storage.asked if not path.startswith("/os-quota-sets")]


def test_the_old_kind_of_group_is_what_the_new_list_does_not_show():
    old = [{"id": "old"}, {"id": "new"}]

    def answer(method, path, query, body):
        rows = old if path.startswith("/consistencygroups") else [{"id": "new", "project_id": "p"}]
        return 200, {path.split("/")[1]: [] if query.get("marker") else rows}

    found = inventory(TYPES["consistency_group"], connection("p", block_storage=answer), project())
    assert [leftover.id for leftover in found.leftovers] == ["old"]


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ([volume(group_id="g").data], None),
        ([{**volume(group_id="g").data, OWNER: "q"}], Reason.FOREIGN),
        ([{**volume(group_id="g").data, OWNER: None}], Reason.FOREIGN),
        ([{**volume(group_id="other").data, OWNER: "q"}], None),
    ],
    ids=["of the project", "of another project", "without a project", "the filter was ignored"],
)
def test_a_group_is_not_deleted_with_what_is_not_the_projects(members, reason):
    group = Resource("g", "group", "p", {**GROUP, "status": "available"})
    found = before_delete(TYPES["group"], cinder(volumes=members), project(), group)
    assert (found and found.reason) is reason


@pytest.mark.parametrize(
    ("server", "owner", "reason"),
    [(None, None, None), ("s", None, None), ("s", "p", Reason.IN_USE), ("s", "q", Reason.FOREIGN)],
    ids=["to no server", "to one that is gone", "to an own one", "to another project's"],
)
def test_an_attachment_is_only_deleted_when_there_is_no_server(server, owner, reason):
    attachment = Resource("a", "", "p", {"id": "a", "volume_id": "v", "instance": server})
    found = before_delete(TYPES["attachment"], cinder(server_owner=owner), project(), attachment)
    assert (found and found.reason) is reason


def test_where_there_is_no_nova_no_server_has_a_volume():
    attachment = Resource("a", "", "p", {"id": "a", "volume_id": "v", "instance": "s"})
    block_storage.volumes.check_attachment(connection(block_storage=lambda *_: (500, "no")), project(), attachment)


def test_an_attachment_is_its_volumes_and_its_secrets_are_not_passed_on():
    rows = [{**ATTACHMENT, "connection_info": {"auth_password": "secret"}}, {"id": "b", "volume_id": "w"}]
    cloud = cinder(attachments=rows, volumes=[volume().data, {"id": "w", OWNER: "q"}])
    listed = list(TYPES["attachment"].list(cloud, project()))
    assert [row["project_id"] for row in listed] == ["p", "q"]
    assert not any("connection_info" in row for row in listed)


@pytest.mark.parametrize(("owner", "reason"), [("p", Reason.IN_USE), ("them", Reason.FOREIGN)])
def test_a_backup_that_others_build_on_waits_for_them(owner, reason):
    backup = Resource("full", "", "p", {"id": "full", "status": "available", "has_dependent_backups": True})
    child = {"id": "second", "os-backup-project-attr:project_id": owner}
    cloud = cinder(backups=[child])
    with pytest.raises(Refused) as refused:
        block_storage.backups.delete_backup(cloud, project(), backup)
    assert refused.value.verdict.reason is reason
    assert [(b["id"], b["owner"]) for b in refused.value.verdict.blocked_by] == [("second", owner)]
    assert not cloud.block_storage.writes()


def backup(id_, volume="v", incremental=False, base=False):
    owner = {"os-backup-project-attr:project_id": "p"}
    return {"id": id_, "volume_id": volume, "is_incremental": incremental, "has_dependent_backups": base, **owner}


@pytest.mark.parametrize(
    ("rows", "bases"),
    [
        ([backup("full")], {"full": ()}),
        ([backup("second", incremental=True), backup("full", base=True)], {"second": ("full",), "full": ()}),
        (
            [backup("3", incremental=True), backup("2", incremental=True, base=True), backup("1", base=True)],
            {"3": ("2",), "2": ("1",), "1": ()},
        ),
        (
            [backup("2", incremental=True), backup("failed"), backup("1", base=True)],
            {"2": ("1",), "failed": (), "1": ()},
        ),
        ([backup("2", incremental=True), backup("1", "other", base=True)], {"2": (), "1": ()}),
        (
            [backup("3", incremental=True), backup("2", incremental=True), backup("1", base=True)],
            {"3": ("1",), "2": ("1",), "1": ()},
        ),
    ],
    ids=["alone", "one", "a chain", "a full one between", "another volume", "two of one base"],
)
def test_an_incremental_backup_refers_to_its_base(rows, bases):
    made = cinder(backups=rows)
    made.session.get_project_id = lambda: "p"
    found = [Resource(row["id"], "", "p", row) for row in TYPES["backup"].list(made, project())]
    assert {each.id: TYPES["backup"].refers_to(each) for each in found} == bases


@pytest.mark.parametrize(("there", "reason"), [(True, Reason.UNREACHABLE), (False, None)])
def test_a_backup_whose_delete_returns_404_is_listed(there, reason):
    row = {"id": "full", "status": "available"}
    cloud = cinder(
        delete=(404, {"itemNotFound": {"message": "Service cinder-backup could not be found."}}),
        backups=[row] if there else [],
    )
    backup = Resource("full", "", "p", row)
    if reason is None:
        block_storage.backups.delete_backup(cloud, project(), backup)
        return
    with pytest.raises(Refused) as refused:
        block_storage.backups.delete_backup(cloud, project(), backup)
    assert refused.value.verdict.reason is reason


def test_an_accepted_transfer_is_history():
    rows = [
        {"id": "open", "volume_id": "v", "source_project_id": "p", "accepted": False},
        {"id": "done", "volume_id": "v", "source_project_id": "p", "accepted": True},
        {"id": "before Train", "volume_id": "v", "source_project_id": None},
    ]
    cloud = cinder(**{"volume-transfers": rows, "volumes": [volume().data]})
    found = inventory(TYPES["transfer"], cloud, project())
    assert found.kept == 1 and {leftover.id for leftover in found.leftovers} == {"open", "before Train"}


# ------------------------------------------------------------------------------------------------------------- force
FORCED = [
    *reset(status="error", attach_status="detached", migration_status="none"),
    ("POST", "/volumes/v/action", {"os-force_delete": {}}),
]


@pytest.mark.parametrize(
    ("row", "cloud", "reason", "blocker"),
    [
        ({"status": "creating"}, {}, None, ""),
        ({"status": "deleting"}, {}, None, ""),
        ({"status": "available", "migration_status": "migrating"}, {}, None, ""),
        ({"status": "in-use"}, {"attachments": [ATTACHMENT]}, None, ""),  # of an unknown server
        ({"status": "in-use"}, {"attachments": [ATTACHMENT], "server_owner": "p"}, Reason.IN_USE, "compute.server"),
        ({"status": "in-use"}, {"attachments": [ATTACHMENT], "server_owner": "x"}, Reason.FOREIGN, "compute.server"),
        ({"group_id": "g"}, {"groups": [GROUP]}, Reason.IN_USE, "block-storage.group"),
        ({"group_id": "g"}, {"groups": [{**GROUP, "project_id": "x"}]}, Reason.FOREIGN, "block-storage.group"),
    ],
    ids=str,
)
def test_by_force_a_busy_volume_is_reset_and_deleted_and_one_that_something_has_is_not(row, cloud, reason, blocker):
    made = cinder(**cloud)
    if reason is None:
        TYPES["volume"].force.act(made, project(), volume(**row))
        assert made.block_storage.writes() == FORCED
        return
    with pytest.raises(Refused) as caught:
        TYPES["volume"].force.act(made, project(), volume(**row))
    assert (caught.value.verdict.reason, caught.value.verdict.blocked_by[0]["type"]) == (reason, blocker)
    assert made.block_storage.writes() == []


@pytest.mark.parametrize(("owner", "reason"), [("p", Reason.IN_USE), ("x", Reason.FOREIGN)])
def test_by_force_a_volume_with_snapshots_stays_and_they_are_named(owner, reason):
    snapshots = [{"id": "s", "volume_id": "v", SNAPSHOT_OWNER: owner}]
    ordinary = cinder(snapshots=snapshots).block_storage.answer

    def refusing(method, path, query, body):
        return REFUSED if "os-force_delete" in (body or {}) else ordinary(method, path, query, body)

    with pytest.raises(Refused) as caught:
        TYPES["volume"].force.act(connection(block_storage=refusing), project(), volume(status="deleting"))
    assert caught.value.verdict.reason is reason
    assert [b["id"] for b in caught.value.verdict.blocked_by] == ["s"]


@pytest.mark.parametrize(("name", "path"), [("snapshot", "/snapshots/r/action"), ("backup", "/backups/r/action")])
def test_by_force_a_busy_snapshot_or_backup_is_reset_and_deleted(name, path):
    made = cinder()
    TYPES[name].force.act(made, project(), Resource("r", "", "p", {"id": "r", "status": "deleting"}))
    assert made.block_storage.writes() == [
        ("POST", path, {"os-reset_status": {"status": "error"}}),
        ("POST", path, {"os-force_delete": {}}),
    ]


def test_a_backup_whose_driver_has_no_forced_delete_is_reset_and_deleted():
    """Cinder's own answer, of a driver without support_force_delete."""
    ordinary = cinder().block_storage.answer

    def answer(method, path, query, body):
        if "os-force_delete" in (body or {}):
            return 405, {"badMethod": {"message": "Operation not supported: force delete."}}
        return ordinary(method, path, query, body)

    made = connection(block_storage=answer)
    TYPES["backup"].force.act(made, project(), Resource("b", "", "p", {"id": "b", "status": "deleting"}))
    assert [(method, path) for method, path, _ in made.block_storage.writes()] == [
        ("POST", "/backups/b/action"),
        ("POST", "/backups/b/action"),
        ("DELETE", "/backups/b"),
    ]


def test_by_force_neither_the_base_of_other_backups_goes_nor_the_snapshot_of_a_group():
    base = Resource("r", "", "p", {"id": "r", "status": "deleting", "has_dependent_backups": True})
    made = cinder(backups=[{"id": "child", "os-backup-project-attr:project_id": "p"}])
    with pytest.raises(Refused, match="base of"):
        TYPES["backup"].force.act(made, project(), base)
    member = Resource("r", "", "p", {"id": "r", "status": "deleting", "group_snapshot_id": "g"})
    with pytest.raises(Refused, match="is deleted with"):
        TYPES["snapshot"].force.act(made, project(), member)
    assert made.block_storage.writes() == []


OURS, THEIRS = "p", "them"
PROJECT = project(OURS)


def cinder_of(**rows):
    """Cinder: rows by collection, and volumes by id."""

    def answer(method, path, query, body):
        parts = path.strip("/").split("/")
        if parts[0] == "volumes" and len(parts) == 2 and parts[1] != "detail":
            return 200, {"volume": next(v for v in rows["volumes"] if v["id"] == parts[1])}
        key = {"types": "volume_types"}.get(parts[0], parts[0])
        if parts[-1] == "os-volume-type-access":
            key = "volume_type_access"
        return 200, {key: [] if "marker" in query or query.get("offset") else rows.get(key, [])}

    return connection(scope=OURS, block_storage=answer, compute=lambda *_: (404, {}))


def volume_of(id_, owner, **row):
    return {"id": id_, "os-vol-tenant-attr:tenant_id": owner, "attachments": [], **row}


def test_an_attachment_is_its_volumes_owners():
    rows = [{"id": "a1", "volume_id": "v1"}, {"id": "a2", "volume_id": "v2"}]
    cloud = cinder_of(volumes=[volume_of("v1", OURS), volume_of("v2", THEIRS)], attachments=rows)
    found = {row["id"]: row["project_id"] for row in block_storage.volumes.list_attachments(cloud, PROJECT)}
    assert found == {"a1": OURS, "a2": THEIRS}


def test_a_group_with_a_volume_of_another_project_stays():
    mine, theirs = volume_of("v1", OURS, group_id="1"), volume_of("v2", THEIRS, group_id="1")
    group = resource(status="available")
    type_ = block_storage.groups.GROUP
    assert before_delete(type_, cinder_of(volumes=[mine]), PROJECT, group) is None
    verdict = before_delete(type_, cinder_of(volumes=[mine, theirs]), PROJECT, group)
    assert (verdict.reason, [b["id"] for b in verdict.blocked_by]) == (Reason.FOREIGN, ["v2"])


def test_a_list_that_rests_on_its_token_takes_a_token_of_the_project():
    block_storage.common.check_scope(connection(scope=OURS), PROJECT)
    with pytest.raises(BadAnswer, match="scoped into project them"):
        block_storage.common.check_scope(connection(scope=THEIRS), PROJECT)


def test_volume_type_access_is_the_projects():
    access = [{"volume_type_id": "t", "project_id": who} for who in (THEIRS, OURS)]
    cloud = cinder_of(volume_types=[{"id": "t", "name": "t"}], volume_type_access=access)
    assert [row["project_id"] for row in block_storage.settings.list_type_access(cloud, PROJECT)] == [OURS]


DEAD = dataclasses.replace(project("dead"), gone=True)


def old_cinder(filtered=True, old=(), new=(), snapshots=()):
    """Cinder: ids of old groups, of new ones, of the group snapshots of snapshots; the old list shows both kinds."""

    def answer(method, path, query, body):
        if path.startswith("/os-quota-sets"):
            return 200, {"quota_set": {}}
        key = path.split("/")[1]
        owner = {"os-extended-snapshot-attributes:project_id": "dead"}
        rows = {
            "consistencygroups": [{"id": i} for i in (*old, *new)],
            "groups": [{"id": i} for i in new],
            "group_snapshots": [{"id": i} for i in new],
            "snapshots": [{"id": f"of {i}", "group_snapshot_id": i, **owner} for i in snapshots],
        }[key]
        if query.get("marker") or (filtered and query.get("project_id") not in (None, "dead")):
            rows = []
        return 200, {key: rows}

    return connection(block_storage=answer)


def test_old_consistency_groups_are_listed_by_the_filter_alone():
    sweep = inventory(of_gone(block_storage)["consistency_group"], old_cinder(old=["a"], new=["b"]), DEAD)
    assert [one.id for one in sweep.leftovers] == ["a"]
    blind = inventory(of_gone(block_storage)["consistency_group"], old_cinder(filtered=False, old=["a"]), DEAD)
    assert (blind.outcome, blind.reason) == (Outcome.UNKNOWN, Reason.BAD_ANSWER)


def test_old_group_snapshots_are_found_by_their_snapshots():
    listed = inventory(
        of_gone(block_storage)["consistency_group_snapshot"], old_cinder(new=["b"], snapshots=["a", "b", "a"]), DEAD
    )
    assert [one.id for one in listed.leftovers] == ["a"]


BAD_REQUEST = exceptions.BadRequestException("Volume in group g is attached")
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


# ------------------------------------------------------------------------------------------------ deletes taken back
NOW = datetime.datetime(2026, 1, 2, 12)  # UTC


@pytest.mark.parametrize(
    ("status", "clone", "asked_before", "reason"),
    [
        ("available", None, 0, Reason.DELETING),  # the first delete
        ("available", None, 1, Reason.DELETING),  # one was taken back: the back end may have been busy
        ("available", None, 2, Reason.ERROR),
        ("available", "p", 2, Reason.DELETING),  # the volume is deleted as well
        ("available", "another project", 2, Reason.ERROR),
        ("error_deleting", "p", 2, Reason.ERROR),
    ],
)
def test_a_snapshot_that_is_available_again_was_not_deleted(status, clone, asked_before, reason):
    """The back end keeps it for a volume that was made from it, which may be another project's by now."""
    row = {"id": "s", "name": "s", "status": status, SNAPSHOT_OWNER: "p", "updated_at": NOW.isoformat()}
    made = [{"id": "v", OWNER: clone, "snapshot_id": "s"}] if clone == "p" else []  # the list is the project's
    records = {"s": DeleteRecord("s", asked_before, max(0, asked_before - 1), "", NOW, NOW)} if asked_before else {}
    cloud = cinder(snapshots=[row], volumes=made)
    history = History(records=records, now=NOW)
    (left,) = sweeps.delete(TYPES["snapshot"], cloud, project(), history=history).leftovers
    assert left.reason == reason
    assert ("snapshot_id=" in left.remedy) is (reason is Reason.ERROR)
