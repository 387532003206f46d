"""The proof of the whole job: which rows belong to a project, and which of them are no leftovers.

A row that the proof overlooks would let each test with real services pass.
"""

import os
import sqlite3

import pytest

from tests.cloud import rows
from tests.cloud.rows import KEPT, Rows, is_history, object_name, swift, why_kept

MINE, OTHER = "1" * 32, "2" * 32
SECRET = "00000000-0000-4000-8000-000000000001"


def of(database, table, **row):
    """Whether a row is found as the project's."""
    return bool(Rows({(database, table): (row,)}).of(MINE))


@pytest.mark.parametrize(
    ("row", "found"),
    [
        ({"project_id": MINE}, True),
        ({"owner": MINE, "id": 7}, True),
        ({"spec": f'{{"instance": {{"project_id": "{MINE}"}}}}'}, True),
        ({"spec": f'{{"project_id": "{MINE}"}}'.encode()}, True),
        ({"account": f"AUTH_{MINE}"}, True),
        ({"project_id": OTHER}, False),
        ({"project_id": None, "count": 1}, False),
    ],
)
def test_a_row_belongs_to_a_project_that_any_column_names(row, found):
    assert of("nova", "anything", **row) is found


def test_a_row_belongs_to_a_project_under_the_name_that_the_service_uses():
    everything = Rows(
        {
            ("barbican", "projects"): ({"id": "internal", "external_id": MINE}, {"id": "theirs", "external_id": OTHER}),
            ("barbican", "secrets"): ({"id": SECRET, "project_id": "internal"}, {"id": "s2", "project_id": "theirs"}),
            ("placement", "projects"): ({"id": 3, "external_id": MINE},),
            ("placement", "consumers"): ({"id": 9, "project_id": 3}, {"id": 10, "project_id": 4}),
            ("nova", "internal"): ({"project_id": "internal"},),  # the same word in another service says nothing
        }
    )
    assert everything.of(MINE).named() == {
        "barbican.projects": 1, "barbican.secrets": 1, "placement.consumers": 1, "placement.projects": 1,
    }  # fmt: skip


def test_an_empty_project_id_is_refused():
    with pytest.raises(ValueError, match="no project id"):
        Rows({}).of("")


@pytest.mark.parametrize(
    ("row", "shared"),
    [
        ({"image_id": SECRET, "member": OTHER}, True),
        ({"port_id": SECRET, "security_group_id": "theirs"}, True),
        ({"network_id": SECRET, "project_id": OTHER}, False),
        ({"image_id": SECRET, "owner": OTHER}, False),
        ({"name": SECRET, "account": f"AUTH_{OTHER}"}, False),
    ],
)
def test_what_says_that_the_other_owns_it_is_not_merely_shared(row, shared):
    assert bool(Rows({("any", "table"): (row,)}).not_owned_by(OTHER)) is shared


def test_what_was_there_before_and_is_marked_as_deleted_now_has_ended():
    before = Rows({("glance", "image_members"): ({"id": 1, "deleted": 0}, {"id": 2, "deleted": 0})})
    rows_after = ({"id": 1, "deleted": 1}, {"id": 2, "deleted": 0}, {"id": 3, "deleted": 1})
    after = Rows({("glance", "image_members"): rows_after})
    left = after.without_ended(before)
    assert [row["id"] for row in left.tables["glance", "image_members"]] == [2, 3]


def test_a_zone_and_its_soa_record_may_get_a_new_serial_number_and_nothing_else():
    def zone(serial, address):
        return Rows(
            {
                ("designate", "zones"): ({"id": "z", "serial": serial, "name": "a.", "version": serial},),
                ("designate", "recordsets"): (
                    {"id": "soa", "zone_id": "z", "type": "SOA", "version": serial},
                    {"id": "a", "zone_id": "z", "type": "A", "version": 1},
                ),
                ("designate", "records"): (
                    {"id": "r1", "zone_id": "z", "recordset_id": "soa", "data": f"ns. {serial}"},
                    {"id": "r2", "zone_id": "z", "recordset_id": "a", "data": address},
                ),
            }
        )

    def changed(before, after, zones):
        return rows.without_serials(before, zones).without(rows.without_serials(after, zones)).named()

    assert changed(zone(1, "192.0.2.1"), zone(2, "192.0.2.1"), {"z"}) == {}
    assert changed(zone(1, "192.0.2.1"), zone(2, "192.0.2.2"), {"z"}) == {"designate.records": 1}
    assert changed(zone(1, "192.0.2.1"), zone(2, "192.0.2.1"), {"other"}) == {
        "designate.records": 1, "designate.recordsets": 1, "designate.zones": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("row", "history"),
    [
        ({"id": 1}, False),
        ({"deleted": 0}, False),
        ({"deleted": "0"}, False),  # Designate's
        ({"deleted": "False"}, False),  # Manila's
        ({"deleted": False, "deleted_at": None}, False),
        ({"deleted": None}, False),
        ({"deleted": 17}, True),  # Nova's: the row's own number
        ({"deleted": "8f14e45f"}, True),
        ({"deleted": True}, True),
        ({"deleted_at": "2026-11-21"}, True),  # Heat has nothing else
        ({"deleted": 0, "deleted_at": "2026-11-21"}, True),
    ],
)
def test_a_row_that_is_marked_as_deleted_is_history(row, history):
    assert is_history(row) is history


@pytest.mark.parametrize("table", rows.RBAC_TABLES)
def test_a_grant_to_the_project_belongs_to_the_granter_and_a_grant_by_it_is_a_leftover(table):
    place = ("neutron", table)
    assert why_kept(place, {"project_id": OTHER, "target_project": MINE}, MINE)
    assert not why_kept(place, {"project_id": MINE, "target_project": OTHER}, MINE)


@pytest.mark.parametrize(
    ("place", "row"),
    [
        (("octavia", "load_balancer"), {"provisioning_status": "ACTIVE"}),
        (("octavia", "amphora"), {"status": "ALLOCATED"}),
        (("octavia", "quotas"), {"project_id": MINE, "in_use_pool": 0, "pool": 5}),
        (("cinder", "messages"), {"expires_at": None}),
        (("nova", "instances"), {"deleted": 0}),
        (("nova", "instance_extra"), {"deleted": 0, "keypairs": "{}"}),
    ],
)
def test_what_is_there_for_good_is_a_leftover(place, row):
    assert not why_kept(place, row, MINE)


def test_each_exception_says_why():
    assert all(len(kept.why) > 5 for kept in KEPT)
    assert len({(kept.database, kept.table) for kept in KEPT}) == len(KEPT)


def test_a_changed_row_is_a_difference_and_what_moves_by_itself_is_none():
    def cloud(reports=1, **changed):
        row = {"id": "u", "name": "ann", "last_active_at": "yesterday"} | changed
        return Rows({("keystone", "user"): (row,), ("nova", "services"): ({"report_count": reports},)})

    assert not cloud().steady().without(cloud(reports=2, last_active_at="today").steady())
    assert cloud(name="bob").steady().without(cloud().steady()).named() == {"keystone.user": 1}


def test_ids_are_found_within_texts_and_not_within_longer_words():
    place = ("nova", "request_specs")
    found = Rows({place: ({"spec": f'{{"volume_id": "{SECRET}"}}'}, {"spec": f"x{MINE}"}, {"spec": MINE + "0"})})
    assert found.naming({SECRET, MINE}).lines() == [
        f"nova.request_specs: {{'spec': '{{\"volume_id\": \"{SECRET}\"}}'}}"
    ]


def test_swifts_disks_are_read_as_tables(tmp_path):
    account, container, data = (
        tmp_path / "sda" / kind / "1" / "abc" / "hash"
        for kind in ("accounts", "containers", "objects")
    )  # fmt: skip
    for folder in (account, container, data):
        folder.mkdir(parents=True)
    for path, sql in (
        (account / "hash.db", f"""
            CREATE TABLE account_stat (account, status, metadata);
            INSERT INTO account_stat VALUES ('AUTH_{MINE}', 'DELETED', '');
            CREATE TABLE container (name, deleted); INSERT INTO container VALUES ('pictures', 1)"""),
        (container / "hash.db", f"""
            CREATE TABLE container_info (account, container, put_timestamp, delete_timestamp, metadata);
            INSERT INTO container_info VALUES ('AUTH_{MINE}', 'pictures', '1', '0', '');
            CREATE TABLE object (name, deleted); INSERT INTO object VALUES ('cat', 0)"""),
    ):  # fmt: skip
        connection = sqlite3.connect(path)
        connection.executescript(sql)
        connection.close()
    file = data / "1.data"
    file.write_bytes(b"meow")
    try:
        os.setxattr(file, "user.swift.metadata", b'{"name": "/AUTH_%s/pictures/cat"}' % MINE.encode())
    except OSError:
        pytest.skip("this file system has no extended attributes")
    found = Rows(swift(tmp_path))
    assert found.of(MINE).named() == {
        "swift.accounts": 1, "swift.containers": 2, "swift.files": 1, "swift.objects": 1,
    }  # fmt: skip
    # The account and its list of containers are marked as deleted; the container itself, its list and a file are not.
    assert found.live(MINE).named() == {"swift.containers": 1, "swift.files": 1, "swift.objects": 1}
    assert object_name(file).startswith(f"/AUTH_{MINE}/pictures/cat")
