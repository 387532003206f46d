"""Commands that change all deletions that options select: the preview, the question, and what is changed."""

import datetime

import pytest

from tests.support.cases import each_case

CANCEL = ("project", "deletion", "cancel")
SET = ("project", "deletion", "set")


@pytest.fixture
def campaign(stub_cloud):
    """Two deletions with a ticket that can be cancelled, one that has ended, and one with another ticket."""
    ids = {}
    for name, status, ticket, cancellable in (
        ("one", "deleting", "CHG-1", True),
        ("two", "accepted", "CHG-1", True),
        ("over", "deleted", "CHG-1", False),
        ("other", "deleting", "CHG-2", True),
    ):
        project = stub_cloud.add_project(name)
        ended = "2026-11-21T10:00:00Z" if status == "deleted" else None
        fields = {"ticket": ticket, "cancellable": cancellable, "finished_at": ended}
        ids[name] = stub_cloud.add_deletion(project, status, **fields)
        stub_cloud.after[ids[name], "cancel"] = [stub_cloud.deletions[ids[name]][0] | {"status": "cancelling"}]
    return ids


def sent(cloud, method):
    return [each for each in cloud.requests if each["method"] == method and "/v1/deletions/" in each["path"]]


def changed(cloud, method="POST"):
    return [each["path"].split("/")[4] for each in sent(cloud, method)]


def test_only_what_matches_and_can_be_changed_is_changed(openstack, stub_cloud, campaign):
    result = openstack(*CANCEL, "--ticket", "CHG-1", "--yes")
    assert result.code == 0, result.err
    assert sorted(changed(stub_cloud)) == sorted([campaign["one"], campaign["two"]])
    assert "2 deletions to cancel: 1 accepted, 1 deleting" in result.err
    assert "1 deletion more matches, and cannot be changed so now" in result.err


def test_dry_runs_are_left_out(openstack, stub_cloud, campaign):
    openstack(*CANCEL, "--ticket", "CHG-1", "--preview")
    lists = [each for each in stub_cloud.requests if each["path"] == "/cleanup/v1/deletions"]
    assert lists and all(each["query"]["dry_run"] == ["false"] for each in lists)


def test_the_preview_changes_nothing(openstack, stub_cloud, campaign):
    result = openstack(*CANCEL, "--ticket", "CHG-1", "--preview")
    assert result.code == 0 and changed(stub_cloud) == []
    assert "2 deletions to cancel" in result.err and "one (" in result.err and "[y/N]" not in result.err


def test_without_a_terminal_yes_is_needed(openstack, stub_cloud, campaign):
    result = openstack(*CANCEL, "--ticket", "CHG-1")
    assert result.code == 1 and "--yes is needed" in result.err and changed(stub_cloud) == []


@pytest.mark.parametrize(("answer", "number"), [("y\n", 2), ("n\n", 0), ("", 0)])
def test_at_a_terminal_it_asks(openstack, stub_cloud, campaign, terminal, answer, number):
    terminal(answer)
    result = openstack(*CANCEL, "--ticket", "CHG-1")
    assert "Cancel 2 deletions? [y/N]" in result.err and len(changed(stub_cloud)) == number


@each_case(
    "options",
    [(), ("demo", "--ticket", "CHG-1"), ("--preview",), ("demo", "--preview"), ("demo", "--attention"), ("--yes",)],
)
def test_deletions_are_named_or_selected(openstack, stub_cloud, options):
    """A variable of a script that is empty must not select every deletion."""
    result = openstack(*CANCEL, *options)
    assert result.code == 2 and len(result.err.splitlines()) == 1
    assert not stub_cloud.made("POST", "/cleanup")


@pytest.mark.parametrize("option", ["--ticket", "--project", "--user", "--domain", "--parent"])
def test_an_empty_value_is_refused(openstack, stub_cloud, campaign, option):
    """The variable of a script can be unset: that must not widen what is changed."""
    assert openstack(*CANCEL, "--status", "live", option, "", "--yes").code == 2
    assert changed(stub_cloud) == []


def test_a_retry_leaves_out_what_cannot_be_retried(openstack, stub_cloud):
    stub_cloud.add_deletion(stub_cloud.add_project("waits"), "accepted", ticket="CHG-1", retryable=False)
    failed = stub_cloud.add_deletion(stub_cloud.add_project("failed"), "failed", ticket="CHG-1", retryable=True)
    stub_cloud.after[failed, "retry"] = [stub_cloud.deletions[failed][0] | {"status": "accepted"}]
    openstack("project", "deletion", "retry", "--ticket", "CHG-1", "--yes")
    assert changed(stub_cloud) == [failed]


def test_nothing_matches(openstack, stub_cloud, campaign):
    result = openstack(*CANCEL, "--ticket", "CHG-3", "--yes")
    assert result.code == 0 and "0 deletions to cancel" in result.err and changed(stub_cloud) == []


def test_the_cancel_of_a_parent_is_that_of_its_children(openstack, stub_cloud, campaign):
    for state in stub_cloud.deletions[campaign["two"]]:
        state["parent_deletion_id"] = campaign["one"]
    assert openstack(*CANCEL, "--ticket", "CHG-1", "--yes").code == 0
    assert changed(stub_cloud) == [campaign["one"]]


def test_an_approval_is_for_those_that_wait_for_one(openstack, stub_cloud, campaign):
    waits = {
        "type": "approval",
        "status": True,
        "reason": "too_many_resources",
        "message": "",
        "last_transition_at": "",
    }
    stub_cloud.deletions[campaign["one"]][0]["conditions"] = [waits]
    stub_cloud.after[campaign["one"], "approve"] = True
    command = ("project", "deletion", "approve", "--reason", "agreed", "--ticket", "CHG-1", "--yes")
    assert openstack(*command).code == 0
    assert changed(stub_cloud) == [campaign["one"]]


# ------------------------------------------------------------------------------------------------------------------ set
@each_case(
    "options,body",
    [
        (("--at", "2027-01-31"), {"not_before": "2027-01-31T00:00:00Z"}),
        (("--now",), {"not_before": None}),
        (("--reason", "why"), {"request_reason": "why"}),
        (("--new-ticket", "CHG-7", "--now"), {"ticket": "CHG-7", "not_before": None}),
    ],
)
def test_a_deletion_is_changed(openstack, stub_cloud, options, body):
    project = next(iter(stub_cloud.projects.values()), None) or stub_cloud.add_project("demo")
    stub_cloud.add_deletion(project, "accepted")
    assert openstack(*SET, *options, project["id"]).code == 0
    assert sent(stub_cloud, "PATCH")[-1]["body"] == body


def test_a_date_can_be_a_duration(openstack, stub_cloud, demo):
    stub_cloud.add_deletion(demo, "accepted")
    assert openstack(*SET, "--delay", "14d", "demo").code == 0
    at = sent(stub_cloud, "PATCH")[-1]["body"]["not_before"]
    ahead = datetime.datetime.fromisoformat(at.replace("Z", "+00:00")) - datetime.datetime.now(datetime.timezone.utc)
    assert abs(ahead - datetime.timedelta(days=14)) < datetime.timedelta(minutes=5)


@each_case(
    "options,words",
    [
        ((), "nothing to change"),
        (("--at", "2027-01-31", "--now"), "not allowed with"),
        (("--at", "2027-01-31", "--delay", "3d"), "not allowed with"),
        (("--delay", "soon"), "is not an age"),
        (("--ticket", "CHG-9", "--now"), "and not both"),
    ],
)
def test_a_change_that_is_not_clear_is_refused(openstack, stub_cloud, options, words):
    result = openstack(*SET, *options, "demo")
    assert result.code == 2 and words in result.err and not sent(stub_cloud, "PATCH")


def test_all_of_a_ticket_get_another_date(openstack, stub_cloud, campaign):
    assert openstack(*SET, "--ticket", "CHG-1", "--at", "2027-01-31", "--yes").code == 0
    assert sorted(changed(stub_cloud, "PATCH")) == sorted([campaign["one"], campaign["two"]])
