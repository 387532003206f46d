"""The client without a process: what it shows of rows that users name, what it waits for, and what it sends."""

import argparse
import io
import types

import pytest
from openstack import exceptions as sdk_exceptions
from osc_lib import exceptions

from cleanup_orchestrator import sdk
from cleanup_orchestrator.osc import common, deletion, lien, lookup, orphan, plan, screen, wait, waiver
from cleanup_orchestrator.osc.wait import Waiter, WaitOptions
from tests.support.timing import SleepClock

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
    return argparse.Namespace(**{"columns": [], "formatter": "table", "max_width": 1, "limit": None, **values})


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
    assert common.Counts([row]).line(row) == text


def test_blockers_have_what_is_behind_them_and_a_remedy():
    blocker = {"region": "R", "service": "network", "type": "port", "reason": "in_use", "message": "in use"}
    blocker |= {"blocked_by": [{"type": "compute.server", "id": "s"}], "remedy": "delete the server"}
    assert common.blocker_lines([blocker]) == [
        "R network.port: in use (in_use)",
        "    blocked by: compute.server s",
        "    remedy: delete the server",
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
    assert dict(zip(names, values, strict=True))["newer"] == 7
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
    text = orphan.Coverage(rows).human_readable()
    assert [line.split(":")[0] for line in text.splitlines()] == ["network.port", "dns.zone", "1 other types"]


def test_the_resources_of_a_plan_are_asked_for_with_every_filter():
    asked = []

    def resources(plan_id, **filters):
        asked.append((plan_id, filters))
        return []

    filters = {"action": "keep", "region": "R", "service": "image", "type": "image"}
    command(plan.ListPlanResource, plan_resources=resources).take_action(parsed(plan="p", **filters))
    assert asked == [("p", {"limit": None, **filters})]


def test_a_waiver_is_recorded_for_what_was_named(monkeypatch):
    asked = []

    def create(*args, **more):
        asked.append((args, more))
        return {"id": "w"}

    monkeypatch.setattr(common, "project_id", lambda *_: "p")
    given = {"service": "dns", "reason": "why", "days": None, "expires_at": "T", "region": "R", "not_yet": False}
    command(waiver.CreateWaiver, create_waiver=create).take_action(parsed(project="p", **given))
    assert asked == [(("dns", "why", "T"), {"region": "R", "project_id": "p", "allow_unknown": False})]


# -------------------------------------------------------------------------------------------------------- the terminal
class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("text", "columns", "expected"),
    [("abcd", 3, "abc"), ("日本語", 5, "日本"), ("é" * 3, 3, "é" * 3), ("abc", 3, "abc")],
)
def test_a_text_is_cut_where_it_would_wrap(text, columns, expected):
    assert screen.cut(text, columns) == expected


def test_more_lines_than_the_terminal_has_are_counted(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    made = screen.Screen(Terminal())
    made._size = lambda: (80, 5)
    made.draw([f"line {n}" for n in range(10)])
    assert made.stream.getvalue().splitlines() == ["line 0", "line 1", "line 2", "... and 7 more"]


# ------------------------------------------------------------------------------------------------------------ the wait
class Api:
    """An API whose deletion has one status after the other; the last one stays."""

    def __init__(self, *records):
        self.records = [{"id": "d", "project_name": "demo", "mode": "cascade", **each} for each in records]

    def get_deletion(self, _id):
        return self.records.pop(0) if len(self.records) > 1 else self.records[0]

    def deletions(self, **_):
        return []


BLOCKED = {"status": "deleting", "conditions": [{"type": "blocked", "status": True, "message": "a port is in use"}]}
MOVING = {"status": "deleting"}


def waited(monkeypatch, api, **options):
    monkeypatch.setattr(wait, "time", SleepClock())
    return Waiter(api, io.StringIO(), WaitOptions(**options)).wait([dict(api.records[0])])[1]


@pytest.mark.parametrize(
    ("record", "code"),
    [
        ({"status": "deleted"}, 0),
        ({"status": "emptied", "mode": "empty"}, 0),
        ({"status": "planned", "dry_run": True}, 0),
        ({"status": "emptied"}, 1),
        ({"status": "deleted", "dry_run": True}, 1),
        ({"status": "leftovers"}, 1),
        ({"status": "failed"}, 1),
        ({"status": "cancelled"}, 1),
    ],
)
def test_a_wait_succeeds_only_if_the_deletion_ended_as_requested(monkeypatch, record, code):
    assert waited(monkeypatch, Api(MOVING, record)) == code


def test_a_wait_goes_on_while_a_person_may_help_unless_it_is_to_stop(monkeypatch):
    assert waited(monkeypatch, Api(BLOCKED, {"status": "deleted"})) == 0
    assert waited(monkeypatch, Api(BLOCKED), stop_when_blocked=True, timeout=3600.0) == wait.BLOCKED
    assert waited(monkeypatch, Api(BLOCKED), timeout=60.0) == 1


def test_what_was_blocked_before_a_retry_does_not_end_the_wait_for_it(monkeypatch):
    api = Api(BLOCKED, BLOCKED, MOVING, {"status": "deleted"})
    assert waited(monkeypatch, api, stop_when_blocked=True, patience=600.0) == 0


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
