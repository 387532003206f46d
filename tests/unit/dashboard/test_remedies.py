"""Remedies stand once, with all that they are for."""

from cleanup_orchestrator import sdk
from tests.unit.dashboard import stand_in

with stand_in.horizon():
    from cleanup_orchestrator.dashboard.deletions import remedies


def leftover(service, id_, remedy="", commands=()):
    return sdk.Leftover.received({"service": service, "id": id_, "remedy": remedy, "commands": list(commands)})


def test_a_remedy_stands_once_with_all_records_and_each_command():
    rows = [leftover("image", "1", "make it private", ["set 1"]), leftover("image", "2", "wait"),
            leftover("image", "3", "make it private", ["set 3", "set 1"])]  # fmt: skip
    first, second = remedies.grouped(rows)
    assert (first.text, [row.id for row in first.rows], first.commands) == (
        "make it private", ["1", "3"], ["set 1", "set 3"])  # fmt: skip
    assert (second.text, [row.id for row in second.rows], second.commands) == ("wait", ["2"], [])


def test_leftovers_that_come_in_any_order_stand_together_by_service():
    rows = [leftover("network", "1"), leftover("image", "2"), leftover("network", "3")]
    found = [(service, [row.id for each in of for row in each.rows]) for service, of in remedies.by_service(rows)]
    assert found == [("image", ["2"]), ("network", ["1", "3"])]


def test_a_record_of_an_older_api_has_no_commands():
    (found,) = remedies.grouped([sdk.Blocker.received({"service": "image", "type": "image"})])
    assert (found.text, found.commands) == ("", [])
