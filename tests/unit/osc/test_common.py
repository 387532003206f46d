"""The client without a process: what it shows of rows that users name, what it waits for, and what it sends."""

import argparse
import io
import types

import pytest
from openstack import exceptions as sdk_exceptions
from osc_lib import exceptions

from cleanup_orchestrator import sdk
from cleanup_orchestrator.osc import cells, common, deletion, lien, lookup, plan, screen, waiver

EVIL = "$(reboot)`x`\x1b[2J\u202e"


class App:
    """What a command gets from the shell."""

    def __init__(self, **client):
        self.stdout = io.StringIO()
        self.client_manager = types.SimpleNamespace(
            project_cleanup=types.SimpleNamespace(**client), sdk_connection=types.SimpleNamespace(identity=None)
        )


def command(kind, **client):
    return kind(App(**client), argparse.Namespace())


def parsed(**values):
    return argparse.Namespace(
        **{"columns": [], "formatter": "table", "max_width": 1, "limit": None, "long": False, **values}
    )


def shown(kind, formatter):
    """Return what a command gives to a formatter for a row with the name of a user."""
    made, seen = command(kind), []
    made.formatter = types.SimpleNamespace(
        emit_one=lambda _columns, data, *_: seen.append(tuple(data)),
        emit_list=lambda _columns, rows, *_: seen.extend(map(tuple, rows)),
    )
    row = (EVIL, 3)
    one = kind is deletion.ShowDeletion
    arguments = parsed(formatter=formatter, sort_columns=[], sort_direction=None)
    made.produce_output(arguments, ("name", "number"), row if one else [row])
    return seen


PRINTABLE = "$(reboot)`x`\\x1b[2J\\u202e"
FOR_A_SHELL = r"\$(reboot)\`x\`\\x1b[2J\\u202e"


@pytest.mark.parametrize(
    ("kind", "formatter", "text"),
    [
        (deletion.ShowDeletion, "table", PRINTABLE),
        (deletion.ShowDeletion, "shell", FOR_A_SHELL),
        (deletion.ShowDeletion, "json", EVIL),
        (deletion.ListDeletion, "table", PRINTABLE),
        (deletion.ListDeletion, "csv", PRINTABLE),
        (deletion.ListDeletion, "yaml", EVIL),
    ],
)
def test_a_name_controls_neither_the_terminal_nor_a_shell(kind, formatter, text):
    assert shown(kind, formatter) == [(text, 3)]


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"outcome": "unknown", "reason": "error"}, "R image.image: unknown (error)"),
        ({"outcome": "unknown", "found": 2}, "R image.image: found 2, deleted 0, remaining 0; unknown"),
        ({"reason": "waived", "outcome": "clear"}, "R image.image: waived (waived)"),
        ({"outcome": "clear", "kept": 1}, "R image.image: found 0, deleted 0, remaining 0, kept 1; clear"),
    ],
)
def test_a_type_that_could_not_be_listed_has_no_zeros(values, text):
    row = {"region": "R", "service": "image", "type": "image", **values}
    assert cells.Counts([row]).line(row) == text


def test_blockers_have_what_is_behind_them_and_a_remedy():
    blocker = {"region": "R", "service": "network", "type": "port", "reason": "in_use", "message": "in use"}
    blocker |= {"blocked_by": [{"type": "compute.server", "id": "s"}], "remedy": "delete the server"}
    assert common.blocker_lines([blocker]) == [
        "R network.port: in use (in_use)",
        "    blocked by: compute.server s",
        "    remedy: delete the server",
    ]


def test_a_remedy_of_several_blockers_is_said_once_with_the_resources_and_the_commands():
    alike = {"region": "R", "service": "image", "type": "image", "reason": "protected", "remedy": "make it private"}
    first = {
        **alike,
        "message": "it is public",
        "resources": [{"id": "i1", "name": "golden\x1b"}, {"id": "i2"}],
        "number": 12,
    }
    first["commands"] = ["openstack image set --private i1"]
    second = {**alike, "type": "member", "message": "it is shared", "resources": [], "commands": first["commands"]}
    other = {**alike, "message": "it is used", "remedy": "delete what uses it"}
    assert [*map(screen.plain, common.blocker_lines([first, other, second]))] == [
        "R image.image: it is public (protected)",
        "    concerns: golden? (i1)",
        "              i2",
        "              and 10 more",
        "R image.member: it is shared (protected)",
        "    remedy: make it private",
        "        openstack image set --private i1",
        "R image.image: it is used (protected)",
        "    remedy: delete what uses it",
    ]


@pytest.mark.parametrize(("name", "found"), [("0" * 32, "0" * 32), ("demo", None)])
def test_a_project_that_is_gone_is_named_by_its_id_only(name, found):
    def unknown(*_, **__):
        raise sdk_exceptions.NotFoundException("none")

    app = App()
    app.client_manager.sdk_connection.identity = types.SimpleNamespace(find_project=unknown)
    arguments = argparse.Namespace(project=name, project_domain=None)
    if found:
        assert common.project_id(app, arguments) == found
    else:
        with pytest.raises(exceptions.CommandError, match="no project with the name or id 'demo'"):
            common.project_id(app, arguments)


def test_a_remedy_of_several_leftovers_is_said_once_with_its_first_commands():
    rows = [{"reason": "protected", "remedy": "unlock\x1b it", "commands": [f"openstack x {n}"]} for n in range(5)]
    rows += [{"reason": "in_use", "remedy": f"remedy {n}"} for n in range(6)]
    assert [*map(screen.plain, deletion.remedy_lines([*rows, {"reason": "error", "remedy": ""}]))] == [
        "What to do:",
        "  5 protected: unlock? it",
        *(f"      openstack x {n}" for n in range(3)),
        "      and 2 more commands: see them with --long",
        *(f"  1 in_use: remedy {n}" for n in range(4)),
        "  and 2 more remedies: see them with --long",
    ]
    assert deletion.remedy_lines([]) == []


UNKNOWN = {"region": "R", "service": "network", "type": "port", "outcome": "unknown", "message": "no answer"}
WHOLE = {"region": "R", "service": "weather", "type": "", "outcome": "unknown", "reason": "unsupported"}
LISTED = {"region": "R", "service": "image", "type": "image", "outcome": "leftovers", "message": "in use"}


@pytest.mark.parametrize(
    ("filters", "named"),
    [
        ({}, ["network.port", "weather"]),
        ({"region": "R"}, ["network.port", "weather"]),
        ({"region": "S"}, []),
        ({"type": "port"}, ["network.port", "weather"]),
        ({"type": "network.port"}, ["network.port", "weather"]),
        ({"type": "router"}, ["weather"]),
    ],
)
def test_types_that_could_not_be_listed_are_named_beside_the_leftovers(filters, named):
    found = deletion.unknown_lines({"counts": [UNKNOWN, WHOLE, LISTED]}, filters)
    assert [line.split()[1].rstrip(":") for line in found[1:]] == named


def test_a_deletion_is_shown_with_the_fields_of_a_newer_server():
    record = {"id": "d", "status": "deleting", "newer": 7, "links": [], "counts": []}
    made = command(deletion.ShowDeletion, get_deletion=lambda _: record)
    made.on_deletion = lambda _arguments, _text, call: call("d")
    names, values = made.take_action(parsed(deletion="d", formatter="json"))
    assert dict(zip(names, values))["newer"] == 7
    assert list(names) == ["id", "status", "newer", "counts"]


def test_a_lien_that_cannot_be_removed_fails_the_command_after_the_others(caplog):
    removed = []

    def remove(id_):
        if id_ == "b":
            raise sdk_exceptions.NotFoundException("no lien has this id")
        removed.append(id_)

    with pytest.raises(exceptions.CommandError, match="1 of 3 liens were not removed"):
        command(lien.DeleteLien, delete_lien=remove).take_action(parsed(ids=["a", "b", "c"]))
    assert removed == ["a", "c"]


def test_an_orphan_scan_shows_the_types_that_it_could_not_judge():
    rows = [
        {"service": "image", "type": "image", "outcome": "clear", "orphans": 0},
        {"service": "network", "type": "port", "outcome": "unknown", "message": "no answer"},
        {"service": "dns", "type": "zone", "outcome": "clear", "undecided": 2},
    ]
    text = cells.Coverage(rows).human_readable()
    assert [line.split(":")[0] for line in text.splitlines()] == ["network.port", "dns.zone", "1 other types"]


def test_the_resources_of_a_plan_are_asked_for_with_every_filter():
    asked = []

    def resources(plan_id, **filters):
        asked.append((plan_id, filters))
        return []

    filters = {"action": "keep", "region": "R", "service": "image", "type": "image"}
    id_ = "0b6d2a9e-6d7c-4d44-a1b7-5f3f0a4f7c11"
    command(plan.ListPlanResource, plan_resources=resources).take_action(
        parsed(plan=id_, project_domain=None, **filters)
    )
    assert asked == [(id_, {"limit": None, **filters})]


def test_a_waiver_is_recorded_for_what_was_named(monkeypatch):
    asked = []

    def create(*args, **more):
        asked.append((args, more))
        return {"id": "w"}

    monkeypatch.setattr(common, "project_id", lambda *_: "p")
    given = {"service": "dns", "reason": "why", "days": None, "expires_at": "T", "region": "R", "not_yet": False}
    command(waiver.CreateWaiver, create_waiver=create).take_action(parsed(project="p", **given))
    assert asked == [(("dns", "why", "T"), {"region": "R", "project_id": "p", "allow_unknown": False})]


# ------------------------------------------------------------------------------------------------------------ the wait


@pytest.mark.parametrize("status", [403, 503])
def test_only_an_unknown_id_is_looked_for_as_a_project(status):
    response = types.SimpleNamespace(
        status_code=status, headers={}, json=dict, url="https://cleanup.example.com", reason="", text=""
    )
    error = sdk.errors.from_response(response)

    def refused(_id):
        raise error

    with pytest.raises(sdk.ApiError) as raised:
        lookup.on_deletion(None, None, "0b6d2a9e-6d7c-4d44-a1b7-5f3f0a4f7c11", None, refused)
    assert raised.value is error
