"""``openstack project deletion summary``: the numbers of the deletions that match."""

import datetime

from cleanup_orchestrator.osc.summary import summed_up
from tests.support.cases import each_case

NOW = datetime.datetime(2026, 11, 21, 10, tzinfo=datetime.timezone.utc)
SCHEDULED = {"type": "scheduled", "status": True}


def row(status, finished_at=None, **fields):
    return {"id": "d", "project_name": "p", "status": status, "finished_at": finished_at, **fields}


def ended(minutes_ago, status="deleted"):
    return row(status, (NOW - datetime.timedelta(minutes=minutes_ago)).strftime("%Y-%m-%dT%H:%M:%SZ"))


def test_each_deletion_is_counted_once():
    rows = [
        row("deleting"),
        row("deleting", attention=["blocked"], attention_message="clear what blocks it"),
        row("accepted", conditions=[SCHEDULED], not_before="2027-01-31T00:00:00Z"),
        row("accepted", conditions=[SCHEDULED], not_before="2027-02-28T00:00:00Z"),
        ended(10),
        ended(70),
    ]
    found = summed_up(rows, NOW)
    assert found["deletions"] == 6
    assert found["statuses"] == {"accepted": 2, "deleted": 2, "deleting": 2}
    assert [each["attention"] for each in found["need_person"]] == [["blocked"]]
    assert (found["scheduled"], found["under_way"], found["ended_in_last_hour"]) == (2, 1, 1)
    assert (found["first_date"], found["last_date"]) == ("2027-01-31T00:00:00Z", "2027-02-28T00:00:00Z")


@each_case(
    "moving,lately,words",
    [
        (0, 5, "none is under way"),
        (3, 0, "not known"),
        (3, 6, "about 30 minutes, if"),
        (1, 60, "about 1 minute, if"),
        (100, 30, "about 200 minutes, if"),
    ],
)
def test_how_long_it_may_still_take(moving, lately, words):
    rows = [row("deleting")] * moving + [ended(5)] * lately
    assert summed_up(rows, NOW)["time_left"].startswith(words)


def test_without_the_time_of_the_server_nothing_is_guessed():
    assert summed_up([row("deleting"), ended(5)], None)["time_left"].startswith("not known")


def test_no_deletion_matches():
    assert summed_up([], NOW)["deletions"] == 0


def test_the_command(openstack, stub_cloud, demo):
    stub_cloud.add_deletion(demo, "deleting", ticket="CHG-1", attention=["blocked"], attention_message="clear it")
    stub_cloud.add_deletion(demo, "planned", ticket="CHG-1", dry_run=True)
    stub_cloud.add_deletion(demo, "deleting", ticket="CHG-2")
    command = ("project", "deletion", "summary", "--ticket", "CHG-1")
    found = openstack(*command, "-f", "json").json
    assert found["deletions"] == 1 and found["statuses"] == {"deleting": 1}
    assert found["need_person"][0]["project_name"] == "demo"
    table = openstack(*command).out
    assert "demo (" in table and "clear it" in table
