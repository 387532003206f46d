"""Reads every row of every database of a cloud, without the services.

    before = rows.read(cloud)
    mine = before.of(project_id)              # every row that names the project, in any column
    left = rows.read(cloud).of(project_id)    # history and rows that a service never removes are marked

MariaDB or SQLite, whichever the cloud has, and Swift's disks: a table each for accounts, containers, objects and files.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.cloud.launcher import Cloud

Row = dict[str, Any]
Place = tuple[str, str]  #: database, table

#: Tables with internal numbers of projects, and the column with the id of Keystone.
ALIASES = {("barbican", "projects"): "external_id", ("placement", "projects"): "external_id"}
#: A possible id: not a part of a longer word, with dashes or without.
ID = re.compile(r"(?<![0-9A-Za-z])(?:[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?![0-9A-Za-z])")
OWNER_COLUMNS = ("project_id", "tenant_id", "owner", "tenant", "account")
#: The time that Tacker writes as `deleted_at` into rows that are not deleted.
NOT_DELETED = "0001-01-01 00:00:00"
SYSTEM = {"information_schema", "mysql", "performance_schema", "sys"}


#: Rows without a deletion mark that are purged with another row: the table of that row, and the column that names it.
PART_OF: Mapping[Place, tuple[str, str]] = {
    ("designate", "recordsets"): ("zones", "zone_id"),
    ("designate", "records"): ("zones", "zone_id"),
    ("designate", "zone_masters"): ("zones", "zone_id"),
    ("heat", "stack_tag"): ("stack", "stack_id"),
    ("octavia", "tags"): ("load_balancer", "resource_id"),
    ("octavia", "vip"): ("load_balancer", "load_balancer_id"),
}


@dataclass(frozen=True)
class Kept:
    """Live rows that stay after all resources of a project are gone, and why; `when` selects them."""

    database: str
    table: str
    why: str
    when: Callable[[Row, str], bool] = lambda row, project_id: True


def expires(row: Row, project_id: str) -> bool:
    return row["expires_at"] is not None


RBAC_TABLES = (
    "networkrbacs", "qospolicyrbacs", "securitygrouprbacs", "subnetpoolrbacs", "addressgrouprbacs", "addressscoperbacs",
)  # fmt: skip

#: Rows that name a project that is gone, and are no resources of it. The service leaves each of them after an ordinary
#: delete call, and no call removes it. The documentation lists the same rows.
KEPT = (
    Kept("barbican", "projects", "Barbican's record of the project: no call removes it"),
    Kept("barbican", "kek_data", "the project's key-encryption key: no call removes it"),
    Kept("glance", "tasks", "Glance's record of an import: it goes when it expires, and no call removes it"),
    Kept("glance", "task_info", "the parameters of that import"),
    Kept("keystone", "trust_role", "rows of trusts that are marked as deleted"),
    Kept("keystone", "revocation_event", "a list of revoked tokens: purged when they expire"),
    Kept("neutron", "quotausages", "a counter: no call removes it"),
    Kept("neutron", "reservations", "a counter: Neutron removes it when it expires"),
    *(Kept("neutron", table, "another project's share with this project: it belongs to the other project",
           lambda row, project_id: row["project_id"] != project_id) for table in RBAC_TABLES),
    Kept("nova", "instance_actions", "history of deleted servers: nova-manage archives it with them"),
    Kept("nova", "migrations", "history of deleted servers: nova-manage archives it with them"),
    Kept("nova", "security_groups", "the group named default, created with the first server: no call deletes it",
         lambda row, project_id: row["name"] == "default"),
    Kept("nova_api", "instance_mappings", "history of deleted servers: nova-manage archives it with them",
         lambda row, project_id: bool(row["queued_for_delete"])),
    Kept("nova_api", "request_specs", "history of deleted servers: nova-manage archives it with them"),
    Kept("nova_api", "aggregate_metadata", "the operator's setting: hosts that are reserved for the project"),
    Kept("nova", "instance_system_metadata", "a counter that Nova writes after a server's delete: archived with it",
         lambda row, project_id: row["key"] == "clean_attempts"),
    # A row that was created with a server has its key pairs, even if there are none.
    Kept("nova", "instance_extra", "the flavor, written again by a second delete of a server: archived with it",
         lambda row, project_id: row["keypairs"] is None),
    Kept("nova", "compute_nodes", "the number of servers of each project on a host: Nova counts again within a minute"),
    Kept("nova", "s3_images", "a number for each image that a server was created from: no call removes it"),
    Kept("placement", "projects", "Placement's record of the project: no call removes it"),
    Kept("cinder", "quota_usages", "a counter: no call removes it"),
    Kept("cinder", "reservations", "a counter of a group that an admin deleted: Cinder removes it when it expires"),
    Kept("cinder", "messages", "a message to users: it is removed when it expires", expires),
    Kept("manila", "quota_usages", "a counter: no call removes it"),
    Kept("manila", "messages", "a message to users: it is removed when it expires", expires),
    Kept("designate", "recordsets",
         "of a reverse zone: Designate gives it to the first project with a PTR record there",
         lambda row, project_id: row["type"] in ("SOA", "NS")),
    Kept("designate", "records", "the contents of those recordsets",
         lambda row, project_id: bool(row["managed"])),
    Kept("designate", "shared_zones", "another project's share of a zone: it belongs to the other project",
         lambda row, project_id: row["project_id"] != project_id),
    Kept("designate", "zone_transfer_requests", "another project's offer of a zone: it belongs to the other project",
         lambda row, project_id: row["tenant_id"] != project_id),
    Kept("trove", "quotas", "the project's quota: no call removes it"),
    Kept("trove", "quota_usages", "a counter: no call removes it"),
    Kept("magnum", "x509keypair",
         "two of the four certificates of each cluster: Magnum loses them, and no call removes them"),
    Kept("octavia", "load_balancer", "marked as deleted: Octavia keeps it for a while as history",
         lambda row, project_id: row["provisioning_status"] == "DELETED"),
    Kept("octavia", "amphora", "marked as deleted: Octavia keeps it for a while as history",
         lambda row, project_id: row["status"] == "DELETED"),
    Kept("octavia", "quotas", "the row with the counters: the delete call only clears the limits",
         lambda row, project_id: all(
             row[c] in (None, -1) for c in row if not c.startswith(("project_id", "in_use")))),
    Kept("cloudkitty", "cloudkitty_storage_states", "until when the project is rated: no call removes it"),
    Kept("cloudkitty", "storage_scope_reprocessing_schedule",
         "a request to rate the project again: no call removes it"),
    Kept("cloudkitty", "hashmap_mappings", "a price of the operator, unless delete_prices is set"),
    Kept("cloudkitty", "hashmap_thresholds", "a price of the operator, unless delete_prices is set"),
    Kept("tacker", "vimauths", "encrypted credentials of a deleted VIM: their key is gone, and no call removes them"),
    Kept("tacker", "vnfd",
         "of a package that had a VNF instance: it can be deleted only after the row of the instance is purged"),
    Kept("tacker", "vnf_lcm_op_occs", "history of deleted VNF instances: no call removes it"),
    Kept("heat", "event", "history of deleted stacks: heat-manage purges it with them"),
    Kept("heat", "user_creds",
         "of a delete that Heat answered with an error: no call removes it; its trust is deleted"),
    Kept("heat", "snapshot",
         "of a stack whose delete Heat began again: Heat may lose it, and no call removes it then"),
    Kept("heat", "resource_properties_data", "the properties in those events"),
    Kept("heat", "sync_point",
         "of a delete that was repeated before its end: heat-manage purges it with the stack"),
)  # fmt: skip

#: Columns that change without a request, by table; "*" means all columns. None of them belongs to a project.
VOLATILE: Mapping[Place, Collection[str]] = {
    ("keystone", "user"): ("last_active_at",),
    ("nova", "services"): "*",
    ("nova", "compute_nodes"): "*",
    ("nova_api", "host_mappings"): "*",
    ("cinder", "services"): "*",
    ("cinder", "workers"): "*",
    ("manila", "services"): "*",
    ("manila", "share_servers"): ("updated_at",),
    ("neutron", "agents"): "*",
    ("heat", "service"): "*",
    ("designate", "service_statuses"): "*",
    ("ironic", "conductors"): "*",
    ("magnum", "magnum_service"): "*",
    ("placement", "resource_providers"): ("generation", "updated_at"),
}


def is_history(row: Row) -> bool:
    """Return whether a service has marked the row as deleted, as most services do instead of removing it."""
    if str(row.get("deleted_at") or NOT_DELETED) != NOT_DELETED:
        return True
    return row.get("deleted") not in (None, 0, "0", "", b"0", False, "False")  # the last one is Manila's


def has_ended(row: Row) -> bool:
    """Return whether the row is marked as deleted, by itself or by another row."""
    return is_history(row) or row.get("provisioning_status") == "DELETED"


def why_kept(place: Place, row: Row, project_id: str) -> str:
    """Return why the row is no leftover of the project; "" if it is one."""
    if is_history(row):
        return "marked as deleted"
    of_table = (kept for kept in KEPT if (kept.database, kept.table) == place)
    return next((kept.why for kept in of_table if kept.when(row, project_id)), "")


@dataclass(frozen=True)
class Rows:
    """Rows by database and table."""

    tables: Mapping[Place, tuple[Row, ...]]

    def of(self, project_id: str) -> Rows:
        """Return the rows that name the project, in any column or within a text."""
        if not project_id:
            raise ValueError("no project id")
        aliases = {
            (place[0], row["id"])
            for place, column in ALIASES.items()
            for row in self.tables.get(place, ())
            if row[column] == project_id
        }
        raw = project_id.encode()

        def names_it(database: str, row: Row) -> bool:
            if (database, row.get("project_id")) in aliases:
                return True
            return any(
                (isinstance(value, str) and project_id in value) or (isinstance(value, bytes) and raw in value)
                for value in row.values()
            )

        return self._only(lambda place, row: names_it(place[0], row))

    def naming(self, ids: Collection[str]) -> Rows:
        """Return the rows that name one of several ids."""
        return self._only(lambda place, row: any(not ids.isdisjoint(found) for found in ids_in(row)))

    def ids(self) -> set[str]:
        """Return the ids of the resources of these rows."""
        return {
            value
            for rows in self.tables.values()
            for row in rows
            for column in ("id", "uuid")
            if isinstance(value := row.get(column), str) and ID.fullmatch(value)
        }

    def left_of(self, project_id: str) -> Rows:
        """Return the rows without those marked as deleted, and without those that are never removed (`KEPT`)."""
        return self._only(lambda place, row: not why_kept(place, row, project_id))

    def live(self, project_id: str) -> Rows:
        """Return the rows of the project that count: its resources, or its leftovers."""
        return self.of(project_id).left_of(project_id)

    def not_owned_by(self, project_id: str) -> Rows:
        """Return the rows that do not name this project in a column for the owner."""
        owners = lambda row: (str(row.get(column, "")) for column in OWNER_COLUMNS)  # noqa: E731
        return self._only(lambda place, row: not any(project_id in owner for owner in owners(row)))

    def without(self, other: Rows) -> Rows:
        """Return the rows that the other does not have with the same values."""
        known = {place: {frozen(row) for row in rows} for place, rows in other.tables.items()}
        return self._only(lambda place, row: frozen(row) not in known.get(place, ()))

    def without_ended(self, other: Rows) -> Rows:
        """Return the rows without those that the other has marked as deleted."""
        known = {(place, row["id"]) for place, rows in other.tables.items() for row in rows if "id" in row}
        return self._only(lambda place, row: not (is_history(row) and (place, row.get("id")) in known))

    def steady(self) -> Rows:
        """Return the rows without columns that change by themselves (`VOLATILE`)."""
        kept = {}
        for place, rows in self.tables.items():
            columns = VOLATILE.get(place, ())
            if columns != "*":
                kept[place] = tuple({c: v for c, v in row.items() if c not in columns} for row in rows)
        return Rows(kept)

    def count(self) -> dict[str, int]:
        """Return the number of rows by database."""
        return dict(Counter(database for (database, _), rows in self.tables.items() for _ in rows))

    def named(self) -> dict[str, int]:
        """Return the number of rows by database and table."""
        return {f"{database}.{table}": len(rows) for (database, table), rows in sorted(self.tables.items())}

    def lines(self, width: int = 300) -> list[str]:
        """Return each row as a line, for the message of a failed test."""
        return [
            f"{database}.{table}: { {c: v for c, v in row.items() if v is not None} }"[:width]
            for (database, table), rows in sorted(self.tables.items())
            for row in rows
        ]

    def _only(self, wanted: Callable[[Place, Row], bool]) -> Rows:
        found = {place: tuple(row for row in rows if wanted(place, row)) for place, rows in self.tables.items()}
        return Rows({place: rows for place, rows in found.items() if rows})

    def __bool__(self) -> bool:
        return any(self.tables.values())


def without_serials(found: Rows, zones: Collection[str]) -> Rows:
    """Return the same rows; for these zones of Designate without columns that change with each of their records."""
    soas = {row["id"] for row in found.tables["designate", "recordsets"] if row["type"] == "SOA"}
    moved: Mapping[str, Callable[[Row], bool]] = {
        "zones": lambda row: row["id"] in zones,
        "recordsets": lambda row: row["zone_id"] in zones and row["id"] in soas,
        "records": lambda row: row["zone_id"] in zones and row["recordset_id"] in soas,
    }
    columns = {"serial", "increment_serial", "version", "updated_at"}
    tables = dict(found.tables)
    for table, is_moved in moved.items():
        left_out = columns | ({"data", "hash"} if table == "records" else set())
        tables["designate", table] = tuple(
            {c: v for c, v in row.items() if c not in left_out} if is_moved(row) else row
            for row in found.tables["designate", table]
        )
    return Rows(tables)


def ids_in(row: Row) -> Iterator[set[str]]:
    """The ids in each column of a row."""
    for value in row.values():
        if isinstance(value, bytes):
            value = value.decode("latin-1")
        if isinstance(value, str) and len(value) >= 32:
            yield set(ID.findall(value))


def frozen(row: Row) -> tuple[tuple[str, str], ...]:
    """A row that can be in a set."""
    return tuple((column, repr(value)) for column, value in row.items())


# ---------------------------------------------------------------- reading
def read(cloud: Cloud) -> Rows:
    """Return everything in the databases of a cloud and on the disks of Swift."""
    tables: dict[Place, tuple[Row, ...]] = {}
    for database in databases(cloud):
        with connect(cloud, database) as ask:
            for table in tables_of(cloud, ask):
                tables[database, table] = tuple(ask(f"SELECT * FROM {quoted(cloud, table)}"))
    if "swift" in cloud.site.services:
        tables |= swift(cloud.site.home("swift") / "devices")
    for (database, part), (table, column) in PART_OF.items():
        ended = {row["id"] for row in tables.get((database, table), ()) if has_ended(row)}
        if parts := tables.get((database, part)):
            tables[database, part] = tuple({**row, "deleted": row[column] in ended} for row in parts)
    return Rows(tables)


def databases(cloud: Cloud) -> list[str]:
    """The names of the databases; most are those of their services."""
    if cloud.on_mariadb:
        return sorted({name for (name,) in cloud.mariadb.sql("SHOW DATABASES")} - SYSTEM)
    return sorted(name for name in cloud.site.services if cloud.site.database(name).exists())


Ask = Callable[..., list[Row]]


@contextlib.contextmanager
def connect(cloud: Cloud, database: str) -> Iterator[Ask]:
    """A function that answers SELECTs of one database; arguments stand for question marks, as in SQLite."""
    if not cloud.on_mariadb:
        path = cloud.site.database(database)
        connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=30)
        connection.row_factory = sqlite3.Row
        try:
            yield lambda sql, *arguments: [dict(row) for row in connection.execute(sql, arguments)]
        finally:
            connection.close()
        return
    import pymysql.cursors

    from tests.cloud.schemas import cursor

    with cursor(cloud.mariadb, database, pymysql.cursors.DictCursor) as do:

        def ask(sql: str, *arguments: object) -> list[Row]:
            do.execute(sql.replace("%", "%%").replace("?", "%s") if arguments else sql, arguments or None)
            return list(do.fetchall())

        yield ask


def tables_of(cloud: Cloud, ask: Ask) -> list[str]:
    """The tables of the database that is asked."""
    sql = "SHOW TABLES" if cloud.on_mariadb else "SELECT name FROM sqlite_master WHERE type = 'table'"
    return sorted(next(iter(row.values())) for row in ask(sql))


def quoted(cloud: Cloud, name: str) -> str:
    """The name of a table or column, which may be a word of SQL."""
    return f"`{name}`" if cloud.on_mariadb else f'"{name}"'


def swift(devices: pathlib.Path) -> dict[Place, tuple[Row, ...]]:
    """Return what the servers of Swift have on disk; each row names its account."""
    found: dict[str, list[Row]] = {name: [] for name in ("accounts", "containers", "objects", "files")}
    for path in devices.glob("*/accounts/*/*/*/*.db"):
        (about,), listed = swift_database(path, "account_stat", "container")
        found["accounts"].append(
            {"account": about["account"], "status": about["status"], "deleted": about["status"] == "DELETED",
             "metadata": about["metadata"]}
        )  # fmt: skip
        found["containers"] += [{"account": about["account"], "listed": True, **row} for row in listed]
    for path in devices.glob("*/containers/*/*/*/*.db"):
        (about,), listed = swift_database(path, "container_info", "object")
        whose = {"account": about["account"], "container": about["container"]}
        gone = about["delete_timestamp"] > about["put_timestamp"]
        found["containers"].append({**whose, "listed": False, "deleted": gone, "metadata": about["metadata"]})
        found["objects"] += [{**whose, **row} for row in listed]
    for path in devices.glob("*/objects*/*/*/*/*.data"):
        found["files"].append({"name": object_name(path), "size": path.stat().st_size})
    return {("swift", table): tuple(rows) for table, rows in found.items()}


def swift_database(path: pathlib.Path, about: str, listed: str) -> tuple[list[Row], list[Row]]:
    """Return the subject of a database of Swift, and its entries."""
    connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=30)
    connection.row_factory = sqlite3.Row
    try:
        return tuple([dict(row) for row in connection.execute(f"SELECT * FROM {name}")] for name in (about, listed))
    finally:
        connection.close()


def object_name(path: pathlib.Path) -> str:
    """Return /account/container/object from the extended attributes, a pickle or JSON in several pieces."""
    raw = b""
    with contextlib.suppress(OSError):
        raw = os.getxattr(path, "user.swift.metadata")
        for number in range(1, 10):
            raw += os.getxattr(path, f"user.swift.metadata{number}")
    match = re.search(rb"/AUTH_[0-9a-zA-Z_-]+/[^\x00-\x1f]*", raw)
    return match.group().decode(errors="replace") if match else path.name


def summary(columns: Mapping[str, Rows]) -> Iterable[str]:
    """Return a table with the number of rows of each database in each of these."""
    counts = {title: rows.count() for title, rows in columns.items()}
    names = sorted({database for count in counts.values() for database in count})
    yield f"  {'Database':12}" + "".join(f"{title:>14}" for title in counts)
    for name in [*names, ""]:
        numbers = [sum(count.values()) if not name else count.get(name, 0) for count in counts.values()]
        yield f"  {name or 'all':12}" + "".join(f"{number:>14}" for number in numbers)
