"""The cells of tables: how sizes are shown and sorted, and which cell a field has."""

from typing import Any

import pytest

from cleanup_orchestrator import shapes
from cleanup_orchestrator.osc import cells, common, screen
from cleanup_orchestrator.osc.cells import Size


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (None, ""),
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (1024**2 - 1, "1 MiB"),
        (340 * 2**30, "340 GiB"),
        (1000 * 2**30, "1000 GiB"),
        (2**63 - 1, "8 EiB"),
        (2**73, "8192 EiB"),
    ],
)
def test_a_size_is_shown_in_the_greatest_unit(size, shown):
    assert Size(size).human_readable() == shown
    assert Size(size).machine_readable() == size


@pytest.mark.parametrize(
    ("size", "objects", "text"),
    [(None, 230, "size not known, 230 objects"), (1024, 1, "1 KiB, 1 object"), (None, 0, "size not known, 0 objects")],
)
def test_an_unknown_size_is_not_0_bytes(size, objects, text):
    row = {
        "service": "object-store",
        "type": "container",
        "delete": 10,
        "known": True,
        "size": size,
        "objects": objects,
    }
    assert cells.Types([row]).line(row) == f"object-store.container: delete 10 ({text})"
    ((shown,),) = cells.listed(shapes.Leftover, ["size"], [row])[1]
    assert (shown.human_readable(), shown.machine_readable()) == (text, size)


def test_a_table_has_the_id_of_what_has_no_name_unless_it_has_a_column():
    row = {"project_name": "", "project_id": "p1", "type": "port", "id": "r1", "name": ""}
    ((project, name),) = cells.listed(shapes.ProjectLeftover, ["project_name", "name"], [row])[1]
    assert (project.human_readable(), name.human_readable(), name.machine_readable()) == ("p1", "r1", "")
    assert list(cells.listed(shapes.ProjectLeftover, ["id", "name"], [row])[1]) == [("r1", "")]


def test_the_commands_of_blockers_follow_the_table():
    blocker = {"message": "public", "remedy": "make it private", "commands": ["openstack image set --private i"]}
    made = cells.Blockers([blocker, blocker])
    assert made.human_readable().splitlines() == ["deletion: public", "deletion: public", "    remedy: make it private"]
    assert [*map(screen.plain, made.after[1:])] == ["  openstack image set --private i"]
    assert cells.Blockers([{**blocker, "commands": []}]).after == []


def test_sizes_are_sorted_by_their_bytes_and_unknown_ones_come_first():
    assert [one.machine_readable() for one in sorted(map(Size, [2000, None, 3, 0]))] == [None, 0, 3, 2000]


def test_a_field_has_the_cell_of_its_shape_or_type():
    row = {"id": "x", "progress": {"found": 3}, "waivers": [], "grants_removed": None, "of_a_newer_server": 1}
    names, values = cells.details(shapes.Deletion, row)
    assert names == tuple(row)
    assert [type(each) for each in values] == [str, cells.Progress, cells.Waivers, type(None), int]


def test_a_field_of_a_newer_server_is_no_list_of_python():
    _, values = cells.details(shapes.Plan, {"words": ["a", "b\x1b"], "facts": {"a": 1}, "number": 3})
    assert [each.human_readable() for each in values[:2]] == ["a, b\\x1b", "a='1'"]
    assert values[2] == 3


def test_a_column_reaches_into_an_object():
    heads, rows = cells.listed(shapes.Deletion, ("id", "progress.found"), [{"id": "x", "progress": {"found": 3}}, {}])
    assert (heads, list(rows)) == (("ID", "Found"), [("x", 3), (None, None)])


@pytest.mark.parametrize("name", shapes.__all__)
def test_every_column_is_a_field(name):
    shape = getattr(shapes, name)
    heads, _rows = cells.listed(shape, (*shape.columns, *shape.wide), [])
    assert len(set(heads)) == len(heads)


#: Erases a screen, rings, reverses the direction of writing, and begins new lines.
HOSTILE = "a\x1b[2J\x07\x9b\u202e\r\n\t\u2028b"


def record(shape, text=HOSTILE):
    """Return a record in which each text, also those inside, is the given one."""
    made = {}
    for name, field in shape.fields.items():
        inner = record(field.nested, text) if field.nested else {text: text} if field.kind == dict[str, Any] else text
        if field.kind in (int, bool):
            inner = field.kind(1)
        depth = str(field.kind).count("list[")
        made[name] = [[inner]] if depth == 2 else [inner] if depth else inner
    return made


def shown(row, shape):
    """Return what a table shows of each field of a record."""
    names, values = cells.details(shape, row)
    texts = ((each.human_readable() if hasattr(each, "human_readable") else each) for each in common._shown(values))
    return dict(zip(names, map(str, texts)))


@pytest.mark.parametrize("name", shapes.__all__)
def test_a_table_has_no_control_characters(name):
    shape = getattr(shapes, name)
    for field, text in shown(record(shape), shape).items():
        assert all(map(str.isprintable, text.split("\n"))), field


@pytest.mark.parametrize("name", shapes.__all__)
def test_an_older_server_sends_fewer_fields(name):
    shape = getattr(shapes, name)
    bare = {field: [{}] if "list[" in str(each.kind) else {} for field, each in shape.fields.items() if each.nested}
    assert shown(bare, shape).keys() == shape.fields.keys() & bare.keys() - {"links"}
