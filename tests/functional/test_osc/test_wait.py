"""``--wait``: the output on a terminal, the output for a script, and the exit code."""

import fcntl
import io
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import pytest

from cleanup_orchestrator.osc import deletion_actions, screen, wait
from tests.functional.test_osc import stub
from tests.functional.test_osc.conftest import SHELL

PORTS = stub.count("network", "port", found=3, remaining=3, outcome="leftovers")
SECRETS = stub.count("key-manager", "secret", outcome="unknown", reason="unreachable", message="no answer")
CLEAR = stub.count("image", "image", found=2, deleted=2)


def run_to_deleted(**fields):
    """The states of a cascade that goes well."""
    return [
        {"status": "accepted"} | fields,
        {"status": "inventory", "progress": {"purpose": "inventory", "steps": 9, "steps_done": 4, "found": 4}} | fields,
        {"status": "deleting", "progress": {"purpose": "delete", "found": 4, "deleted": 1, "remaining": 3}} | fields,
        {
            "status": "verifying",
            "settle_until": "2026-11-21T10:05:00Z",
            "progress": {"purpose": "inventory", "found": 4, "deleted": 4},
        }
        | fields,
        {"status": "deleted", "progress": {"found": 4, "deleted": 4}} | fields,
    ]


class TestToTheEnd:
    def test_deleted(self, openstack, stub_cloud):
        demo = stub_cloud.add_project("demo")
        stub_cloud.script(demo, *run_to_deleted())
        result = openstack("project", "delete", "--async", "--cascade", "--wait", "demo", "-f", "json")
        assert result.code == 0
        (id_,) = stub_cloud.deletions
        row = {"Project": "demo", "Project ID": demo["id"], "Deletion ID": id_, "Status": "deleted"}
        assert result.json == [row]
        assert [re.sub(r"\d+s$", "Ns", line) for line in result.err.splitlines()] == [
            f"demo: deletion {id_} (cascade mode)",
            "demo: inventory; found 4, deleted 0, remaining 0, steps 4/9; Ns",
            "demo: deleting; found 4, deleted 1, remaining 3; Ns",
            "demo: verifying; found 4, deleted 4, remaining 0; settles until 10:05:00 UTC; Ns",
            "demo: deleted after 0s; found 4, deleted 4, remaining 0",
        ]

    def test_no_line_without_a_change(self, openstack, stub_cloud):
        demo = stub_cloud.add_project("demo")
        stub_cloud.script(demo, "accepted", *["deleting"] * 5, "deleted")
        result = openstack("project", "delete", "--async", "--cascade", "--wait", "demo")
        assert result.err.count("demo: deleting") == 1

    def test_leftovers_are_not_success(self, openstack, stub_cloud):
        demo = stub_cloud.add_project("demo")
        left = {
            "status": "leftovers",
            "message": "the project still owns 3 resources",
            "progress": {"found": 5, "remaining": 3, "unknown": 1},
            "counts": [PORTS, SECRETS, CLEAR],
            "blockers": [stub.BLOCKER],
        }
        stub_cloud.script(demo, "accepted", left)
        result = openstack("project", "delete", "--async", "--wait", "demo", "-f", "value", "-c", "Status")
        assert (result.code, result.out) == (1, "leftovers\n")
        (id_,) = stub_cloud.deletions
        lines = result.err.splitlines()
        assert lines[1] == "demo: leftovers after 0s; found 5, deleted 0, remaining 3, unknown 1"
        assert lines[2] == "    the project still owns 3 resources"
        cells = [[c.strip() for c in line.split("|")[1:-1]] for line in lines if "|" in line]
        assert cells == [
            ["Region", "Service", "Type", "Left", "Not known because"],
            ["RegionOne", "key-manager", "secret", "?", "no answer"],
            ["RegionOne", "network", "port", "3", ""],
        ]
        assert "  RegionOne volume.volume: no answer from http://volume.example (unreachable)" in lines
        assert "      remedy: start the service, or waive it" in lines
        cascade = f"openstack project delete --async --cascade --wait {demo['id']}"
        assert lines[-3:] == [
            f"    List all resources with: openstack project deletion leftovers {id_}",
            f"    Delete them and the project with: {cascade}",
            f"    Clear the blockers, then retry with: openstack project deletion retry {id_}",
        ]

    def test_a_dry_run_ends_well_as_planned(self, openstack, stub_cloud):
        demo = stub_cloud.add_project("demo")
        stub_cloud.script(demo, "accepted", {"status": "planned", "counts": [PORTS], "progress": {"remaining": 3}})
        result = openstack("project", "delete", "--async", "--cascade", "--dry-run", "--wait", "demo")
        assert result.code == 0
        assert "demo: planned after 0s" in result.err
        assert "| Found |" in result.err
        assert "dry run, cascade mode" in result.err
        assert "retry" not in result.err

    def test_a_dry_run_says_what_it_would_not_delete_and_what_it_could_not_see(self, openstack, stub_cloud):
        demo = stub_cloud.add_project("demo")
        foreign = stub.count("network", "network", found=1, remaining=1, outcome="leftovers", reason="foreign")
        foreign["message"] = "it is used by another project's port"
        seen = {
            "type": "plan_complete",
            "status": False,
            "reason": "unreachable",
            "message": "it could not see secrets",
        }
        ended = {"status": "planned", "counts": [PORTS, foreign, SECRETS], "conditions": [seen], "mode": "cascade"}
        stub_cloud.script(demo, "accepted", ended)
        result = openstack("project", "delete", "--async", "--cascade", "--dry-run", "--wait", "demo")
        assert result.code == 4
        lines = result.err.splitlines()
        cells = [[c.strip() for c in line.split("|")[1:-1]] for line in lines if "|" in line]
        assert cells == [
            ["Region", "Service", "Type", "Found", "Not known, or not all deleted, because"],
            ["RegionOne", "key-manager", "secret", "?", "no answer"],
            ["RegionOne", "network", "network", "1", "it is used by another project's port"],
            ["RegionOne", "network", "port", "3", ""],
        ]
        assert "    INCOMPLETE: it could not see secrets" in lines
        (id_,) = stub_cloud.deletions
        shown = openstack("project", "deletion", "show", id_).out
        assert "plan_complete: no (unreachable, it could not see secrets)" in shown

    def test_planned_is_no_success_of_a_real_one(self, openstack, stub_cloud):
        demo = stub_cloud.add_project("demo")
        stub_cloud.script(demo, {"status": "accepted"}, {"status": "planned", "dry_run": False})
        assert openstack("project", "delete", "--async", "--cascade", "--wait", "demo").code == 1

    @pytest.mark.parametrize("status", ["failed", "cancelled"])
    def test_other_ends(self, openstack, stub_cloud, status):
        demo = stub_cloud.add_project("demo")
        stub_cloud.script(demo, "accepted", {"status": status, "message": "it has children"})
        result = openstack("project", "delete", "--async", "--cascade", "--wait", "demo")
        assert result.code == 1
        (id_,) = stub_cloud.deletions
        assert f"demo: {status} after 0s" in result.err
        assert "    it has children" in result.err
        assert f"openstack project deletion show {id_}" in result.err
        assert ("openstack project deletion retry" in result.err) == (status == "failed")

    def test_one_that_has_ended_already(self, openstack, stub_cloud):
        demo = stub_cloud.add_project("demo")
        stub_cloud.script(demo, "deleted")
        assert openstack("project", "delete", "--async", "--wait", "demo").code == 0

    def test_a_status_that_only_a_newer_server_knows(self, openstack, stub_cloud):
        demo = stub_cloud.add_project("demo")
        stub_cloud.is_newer = True
        stub_cloud.script(demo, "accepted", "pondering", {"status": "archived", "finished_at": "2026-11-21T10:09:00Z"})
        result = openstack("project", "delete", "--async", "--wait", "demo", "-f", "value", "-c", "Status")
        assert (result.code, result.out) == (1, "archived\n")
        assert "demo: pondering" in result.err

    def test_several_projects(self, openstack, stub_cloud):
        one, two = stub_cloud.add_project("one"), stub_cloud.add_project("two")
        stub_cloud.script(one, *run_to_deleted())
        stub_cloud.script(two, "accepted", {"status": "leftovers", "counts": [PORTS]})
        result = openstack("project", "delete", "--async", "--wait", "one", "nope", "two", "-f", "json")
        assert result.code == 1
        assert [(r["Project"], r["Status"]) for r in result.json] == [("one", "deleted"), ("two", "leftovers")]
        assert "no project with the name or id 'nope'" in result.err
        assert "one: deleted after" in result.err

    def test_a_request_that_failed_spoils_the_exit_code(self, openstack, stub_cloud):
        stub_cloud.script(stub_cloud.add_project("one"), "deleted")
        assert openstack("project", "delete", "--async", "--wait", "one", "nope").code == 1

    def test_quiet(self, openstack, stub_cloud):
        stub_cloud.script(stub_cloud.add_project("demo"), *run_to_deleted())
        result = openstack("-q", "project", "delete", "--async", "--wait", "demo", "-f", "value", "-c", "Status")
        assert (result.code, result.out, result.err) == (0, "deleted\n", "")

    def test_names_cannot_write_to_the_terminal(self, openstack, stub_cloud):
        stub_cloud.script(stub_cloud.add_project("de\x1b[2Jmo\nx"), "accepted", "deleted")
        result = openstack("project", "delete", "--async", "--wait", list(stub_cloud.projects)[-1])
        assert "\x1b" not in result.err
        assert "de?[2Jmo x: deleted" in result.err


class TestTrouble:
    def test_stalled_is_said_once_for_each_change(self, openstack, stub_cloud):
        demo = stub_cloud.add_project("demo")
        stuck = {"status": "deleting", "stalled": True, "blockers": [stub.BLOCKER]}
        other = stub.BLOCKER | {"service": "compute", "type": "server", "message": "is locked", "remedy": "unlock it"}
        more = {"status": "deleting", "stalled": True, "blockers": [stub.BLOCKER, other]}
        stub_cloud.script(demo, "accepted", stuck, stuck, stuck, more, more, "deleting", "deleted")
        result = openstack("project", "delete", "--async", "--cascade", "--wait", "demo")
        assert result.code == 0
        assert result.err.count("demo: stalled\n") == 2
        assert result.err.count("remedy: start the service, or waive it") == 2
        assert result.err.count("  RegionOne compute.server: is locked (unreachable)\n      remedy: unlock it\n") == 1
        assert result.err.count("demo: no longer stalled\n") == 1
        assert "; stalled, 1 blocker; " in result.err
        assert "; stalled, 2 blockers; " in result.err

    def test_blocked_is_said_at_once(self, openstack, stub_cloud):
        demo = stub_cloud.add_project("demo")
        stuck = {"status": "deleting", "blocked": "volume.volume@RegionOne: foreign", "blockers": [stub.BLOCKER]}
        stub_cloud.script(demo, "accepted", stuck, stuck, "deleting", "deleted")
        result = openstack("project", "delete", "--async", "--cascade", "--wait", "demo")
        assert result.code == 0
        assert result.err.count("demo: blocked\n  RegionOne volume.volume: no answer") == 1
        assert "; blocked, 1 blocker; " in result.err
        assert result.err.count("demo: no longer blocked\n") == 1

    def test_a_script_can_stop_when_it_is_blocked(self, openstack, stub_cloud):
        demo = stub_cloud.add_project("demo")
        stuck = {"status": "deleting", "blocked": "volume.volume@RegionOne: foreign", "blockers": [stub.BLOCKER]}
        stub_cloud.script(demo, "accepted", "deleting", stuck)
        command = ["project", "delete", "--async", "--cascade", "--wait", "--stop-when-blocked", "demo", "-f", "json"]
        result = openstack(*command)
        assert result.code == 3
        assert result.json[0]["Status"] == "deleting"
        (id_,) = stub_cloud.deletions
        assert "demo: blocked\n  RegionOne volume.volume: no answer from http://volume.example" in result.err
        assert result.err.splitlines()[-4:] == [
            "demo: stopped waiting because it is blocked; the deletion continues when the blockers are cleared.",
            f"    Retry it at once with: openstack project deletion retry {id_}",
            f"    Follow it with: openstack project deletion events --follow {id_}",
            f"    Cancel it with: openstack project deletion cancel {id_}",
        ]

    def test_after_a_retry_the_blocker_of_before_does_not_stop_the_wait(self, openstack, stub_cloud):
        """The first answers may still be those of before: the workers have not tried again yet."""
        stuck = {"status": "deleting", "blocked": "volume.volume@RegionOne: foreign", "blockers": [stub.BLOCKER]}
        demo = stub_cloud.add_project("demo")
        id_ = stub_cloud.add_deletion(demo, stuck)
        states = [
            stub.deletion(demo, **dict(stuck)),
            stub.deletion(demo, **dict(stuck)),
            stub.deletion(demo, "deleted"),
        ]
        stub_cloud.after[id_, "retry"] = states
        result = openstack("project", "deletion", "retry", "--wait", "--stop-when-blocked", id_)
        assert result.code == 0
        assert "demo: deleted after" in result.err

    def test_after_a_retry_what_stays_blocked_stops_the_wait(self, openstack, stub_cloud, monkeypatch):
        monkeypatch.setattr(deletion_actions.RetryDeletion, "patience", 0.05)
        stuck = {"status": "deleting", "blocked": "volume.volume@RegionOne: foreign", "blockers": [stub.BLOCKER]}
        demo = stub_cloud.add_project("demo")
        id_ = stub_cloud.add_deletion(demo, stuck)
        stub_cloud.after[id_, "retry"] = [stub.deletion(demo, **dict(stuck))]
        command = ["project", "deletion", "retry", "--wait", "--stop-when-blocked", "--wait-timeout", "1", id_]
        result = openstack(*command)
        assert result.code == 3
        assert "demo: stopped waiting because it is blocked" in result.err

    def test_that_option_needs_a_wait(self, openstack, stub_cloud):
        stub_cloud.add_project("demo")
        result = openstack("project", "delete", "--async", "--stop-when-blocked", "demo")
        assert (result.code, result.err) == (2, "--stop-when-blocked needs --wait\n")
        assert not stub_cloud.made("POST", "/cleanup")

    def test_a_parent_shows_what_is_below_it(self, openstack, stub_cloud):
        parent, child = stub_cloud.add_project("parent"), stub_cloud.add_project("child")
        tree = {"include_subtree": True, "status": "accepted"}
        stub_cloud.script(parent, tree, tree, tree, {"include_subtree": True, "status": "deleted"})
        id_ = "0b6d2a9e-6d7c-4d44-a1b7-5f3f0a4f7c11"
        stuck = {"status": "deleting", "blocked": "volume.volume@RegionOne: foreign", "blockers": [stub.BLOCKER]}
        state = stub.deletion(child, **stuck, progress={"found": 4, "remaining": 3}, id=id_)
        stub_cloud.deletions[id_] = [state]
        stub_cloud.below = {id_}
        result = openstack("project", "delete", "--async", "--cascade", "--include-subtree", "--wait", "parent")
        assert result.code == 0
        assert "parent/child: blocked\n  RegionOne volume.volume: no answer" in result.err
        assert "parent/child: deleting; found 4, deleted 0, remaining 3; blocked, 1 blocker; " in result.err
        assert result.err.splitlines()[-1].startswith("parent: deleted after")

    def test_a_blocked_child_stops_the_wait_for_its_parent(self, openstack, stub_cloud):
        parent, child = stub_cloud.add_project("parent"), stub_cloud.add_project("child")
        stub_cloud.script(parent, {"include_subtree": True, "status": "accepted"})
        id_ = "0b6d2a9e-6d7c-4d44-a1b7-5f3f0a4f7c11"
        state = stub.deletion(child, status="deleting", blocked="volume.volume@RegionOne: foreign", id=id_)
        stub_cloud.deletions[id_] = [state | {"blockers": [stub.BLOCKER]}]
        stub_cloud.below = {id_}
        command = ["project", "delete", "--async", "--cascade", "--include-subtree", "--wait", "--stop-when-blocked"]
        result = openstack(*command, "parent")
        assert result.code == 3
        assert "remedy: start the service" in result.err
        above = next(each for each in stub_cloud.deletions if each != id_)
        assert result.err.splitlines()[-4:] == [
            "parent: stopped waiting because a deletion below it is blocked; the deletion continues when the blockers "
            "are cleared.",
            f"    Retry parent/child at once with: openstack project deletion retry {id_}",
            f"    Follow it with: openstack project deletion events --follow {above}",
            f"    Cancel it with: openstack project deletion cancel {above}",
        ]

    @pytest.mark.parametrize("own", [False, True])
    def test_a_retry_is_offered_for_what_is_blocked_itself(self, openstack, stub_cloud, own):
        """The condition of a parent is true if one below needs a person: a retry of the parent has no effect on it."""
        parent, middle, child, failed = (
            stub_cloud.add_project(name) for name in ("parent", "middle", "child", "failed")
        )
        ids = [f"0b6d2a9e-6d7c-4d44-a1b7-{n:012}" for n in range(3)]

        def below(*rows):
            names = ("deletion_id", "project_name", "status", "attention")
            return [dict(zip(names, (id_, project["name"], status, [why]))) for id_, project, status, why in rows]

        tree = {"include_subtree": True, "status": "accepted", "blocked": "project middle: blocked"}
        rows = (ids[0], middle, "accepted", "blocked"), (ids[2], failed, "failed", "failed")
        stub_cloud.script(parent, tree | {"children": below(*rows), "blockers": [stub.BLOCKER] if own else []})
        children = below((ids[1], child, "deleting", "blocked"))
        states = [
            stub.deletion(middle, "accepted", blocked="project child: blocked", children=children, id=ids[0]),
            stub.deletion(child, "deleting", blocked="foreign", blockers=[stub.BLOCKER], id=ids[1]),
        ]
        stub_cloud.deletions |= {state["id"]: [state] for state in states}
        stub_cloud.below = set(ids[:2])
        command = ["project", "delete", "--async", "--cascade", "--include-subtree", "--wait", "--stop-when-blocked"]
        result = openstack(*command, "parent")
        assert result.code == 3
        above = next(each for each in stub_cloud.deletions if each not in ids)
        what = "it" if own else "a deletion below it"
        assert f"parent: stopped waiting because {what} is blocked; " in result.err
        retries = [line.strip() for line in result.err.splitlines() if line.startswith("    Retry ")]
        assert retries == [
            *([f"Retry it at once with: openstack project deletion retry {above}"] if own else []),
            f"Retry parent/failed at once with: openstack project deletion retry {ids[2]}",
            f"Retry parent/child at once with: openstack project deletion retry {ids[1]}",
        ]

    def test_a_child_that_cannot_be_read_does_not_end_the_wait_for_its_parent(self, openstack, stub_cloud):
        parent, child = stub_cloud.add_project("parent"), stub_cloud.add_project("child")
        tree = {"include_subtree": True, "status": "accepted"}
        stub_cloud.script(parent, tree, tree, tree, {"include_subtree": True, "status": "deleted"})
        id_ = "0b6d2a9e-6d7c-4d44-a1b7-5f3f0a4f7c11"
        stub_cloud.deletions[id_] = [stub.deletion(child, status="deleting", blocked="foreign", id=id_)]
        stub_cloud.below = {id_}
        refused = stub_cloud.error(404, "deletion_not_found", "no deletion has this id")
        stub_cloud.answers["GET", f"/cleanup/v1/deletions/{id_}"] = [refused]
        result = openstack("project", "delete", "--async", "--cascade", "--include-subtree", "--wait", "parent")
        assert result.code == 0
        assert "parent/child: blocked\n  foreign\n" in result.err

    def test_a_child_is_read_once_for_each_change(self, openstack, stub_cloud):
        parent, child = stub_cloud.add_project("parent"), stub_cloud.add_project("child")
        tree = {"include_subtree": True, "status": "accepted"}
        stub_cloud.script(parent, *[tree] * 9, {"include_subtree": True, "status": "deleted"})
        id_ = "0b6d2a9e-6d7c-4d44-a1b7-5f3f0a4f7c11"
        stuck = stub.deletion(child, status="deleting", blocked="foreign", blockers=[stub.BLOCKER], id=id_)
        stub_cloud.deletions[id_] = [stuck]
        changed = stuck | {"progress": stuck["progress"] | {"calls": 9}}
        listed = [(200, {"deletions": [row], "links": []}, {}) for row in (stuck, stuck, stuck, changed)]
        stub_cloud.answers["GET", "/cleanup/v1/deletions"] = listed
        result = openstack("project", "delete", "--async", "--cascade", "--include-subtree", "--wait", "parent")
        assert result.code == 0
        assert stub_cloud.made("GET", f"/cleanup/v1/deletions/{id_}") == [f"/cleanup/v1/deletions/{id_}"] * 2

    def test_a_child_that_was_retried_is_shown_again(self, openstack, stub_cloud):
        parent, child = stub_cloud.add_project("parent"), stub_cloud.add_project("child")
        tree = {"include_subtree": True, "status": "accepted"}
        stub_cloud.script(parent, *[tree] * 6, {"include_subtree": True, "status": "deleted"})
        id_ = "0b6d2a9e-6d7c-4d44-a1b7-5f3f0a4f7c11"
        stuck = stub.deletion(child, status="deleting", blocked="foreign", blockers=[stub.BLOCKER], id=id_)
        stub_cloud.deletions[id_] = [stuck]
        failed = stub.deletion(child, status="failed", id=id_)
        listed = [(200, {"deletions": [row], "links": []}, {}) for row in (failed, failed, stuck)]
        stub_cloud.answers["GET", "/cleanup/v1/deletions"] = listed
        result = openstack("project", "delete", "--async", "--cascade", "--include-subtree", "--wait", "parent")
        assert result.code == 0
        assert result.err.count("parent/child: failed\n") == 1
        assert result.err.count("parent/child: blocked\n  RegionOne volume.volume: no answer") == 1

    def test_timeout_with_blockers(self, openstack, stub_cloud):
        demo = stub_cloud.add_project("demo")
        stuck = {"status": "deleting", "stalled": True, "blockers": [stub.BLOCKER]}
        stub_cloud.script(demo, "accepted", stuck)
        result = openstack("project", "delete", "--async", "--wait", "--wait-timeout", "0.3", "demo", "-f", "json")
        assert result.code == 1
        (id_,) = stub_cloud.deletions
        assert result.json[0]["Status"] == "deleting"
        end = result.err[result.err.index("; 0s\n  RegionOne volume.volume") :].splitlines()
        assert end[2:] == [
            "      remedy: start the service, or waive it",
            "Timed out after 0s of waiting; the deletion continues.",
            "demo:",
            f"    follow it with: openstack project deletion events --follow {id_}",
            f"    cancel it with: openstack project deletion cancel {id_}",
        ]

    def test_the_api_comes_back(self, openstack, stub_cloud):
        demo = stub_cloud.add_project("demo")
        id_ = stub_cloud.add_deletion(demo, "deleted")
        state = stub_cloud.deletions[id_][0]
        accepted = state | {"status": "accepted", "finished_at": None}
        stub_cloud.answers["POST", "/cleanup/v1/deletions"] = [(202, {"deletion": accepted}, {})]
        down = (503, "<html><body><h1>503 Service Unavailable</h1>\nNo server is available.</body></html>", {})
        stub_cloud.answers["GET", f"/cleanup/v1/deletions/{id_}"] = [down, down, down, (200, {"deletion": state}, {})]
        result = openstack("project", "delete", "--async", "--wait", "demo")
        assert result.code == 0
        assert result.err.count("503 Service Unavailable No server is available (HTTP 503") == 1
        assert "; trying again\n" in result.err
        assert "demo: the API answers again\n" in result.err

    def test_the_api_stays_away(self, openstack, stub_cloud, monkeypatch):
        monkeypatch.setattr(wait, "GIVE_UP", 0.2)
        demo = stub_cloud.add_project("demo")
        id_ = stub_cloud.add_deletion(demo, "accepted")
        stub_cloud.answers["POST", "/cleanup/v1/deletions"] = [(202, {"deletion": stub_cloud.deletions[id_][0]}, {})]
        stub_cloud.answers["GET", f"/cleanup/v1/deletions/{id_}"] = [(502, "<html>Bad gateway</html>", {})]
        result = openstack("project", "delete", "--async", "--wait", "demo", "-f", "value", "-c", "Deletion ID")
        assert (result.code, result.out) == (1, f"{id_}\n")
        assert "demo: waiting ended: " in result.err
        assert f"The deletion continues. Follow it with: openstack project deletion events --follow {id_}" in (
            result.err
        )

    def test_a_refusal_ends_the_waiting_for_that_one_only(self, openstack, stub_cloud):
        one, two = stub_cloud.add_project("one"), stub_cloud.add_project("two")
        id_ = stub_cloud.add_deletion(one, "accepted")
        created = (202, {"deletion": stub_cloud.deletions[id_][0]}, {})
        id2 = stub_cloud.add_deletion(two, "accepted", "deleting", "deleted")
        created2 = (202, {"deletion": stub_cloud.deletions[id2][0]}, {})
        stub_cloud.answers["POST", "/cleanup/v1/deletions"] = [created, created2]
        stub_cloud.answers["GET", f"/cleanup/v1/deletions/{id_}"] = [
            stub_cloud.error(403, "forbidden", "Not yours any more.")
        ]
        result = openstack("project", "delete", "--async", "--wait", "one", "two", "-f", "json")
        assert result.code == 1
        assert "one: waiting ended: Not yours any more (HTTP 403, forbidden" in result.err
        assert [r["Status"] for r in result.json] == ["accepted", "deleted"]

    def test_a_login_that_is_gone(self, openstack, stub_cloud):
        demo = stub_cloud.add_project("demo")
        id_ = stub_cloud.add_deletion(demo, "accepted")
        stub_cloud.answers["POST", "/cleanup/v1/deletions"] = [(202, {"deletion": stub_cloud.deletions[id_][0]}, {})]
        refused = (401, {"error": {"code": 401, "message": "The request you have made requires authentication."}}, {})
        stub_cloud.answers["GET", f"/cleanup/v1/deletions/{id_}"] = [refused]
        again = (201, {"token": stub_cloud.token()}, {"X-Subject-Token": "the-token"})
        stub_cloud.answers["POST", "/identity/v3/auth/tokens"] = [again, refused]
        result = openstack("project", "delete", "--async", "--wait", "demo")
        assert result.code == 1
        assert "if you are logged in to the project that is being deleted, log in to another one" in result.err


class TestRetryAndCancel:
    def test_retry(self, openstack, stub_cloud):
        demo = stub_cloud.add_project("demo")
        id_ = stub_cloud.add_deletion(demo, "leftovers")
        stub_cloud.after[id_, "retry"] = [stub.deletion(demo, s) for s in ("accepted", "inventory", "deleted")]
        result = openstack("project", "deletion", "retry", "--wait", id_, "-f", "json")
        assert result.code == 0
        assert result.json[0]["Status"] == "deleted"
        assert stub_cloud.made("POST", "/cleanup") == [f"/cleanup/v1/deletions/{id_}/retry"]

    def test_cancel_ends_well_as_cancelled(self, openstack, stub_cloud):
        demo = stub_cloud.add_project("demo")
        id_ = stub_cloud.add_deletion(demo, "deleting")
        stub_cloud.after[id_, "cancel"] = [stub.deletion(demo, s) for s in ("cancelling", "cancelled")]
        result = openstack("project", "deletion", "cancel", "--wait", id_)
        assert result.code == 0
        assert "demo: cancelled after 0s" in result.err

    def test_a_cancel_that_came_too_late(self, openstack, stub_cloud):
        demo = stub_cloud.add_project("demo")
        id_ = stub_cloud.add_deletion(demo, "deleting")
        stub_cloud.after[id_, "cancel"] = [stub.deletion(demo, s) for s in ("cancelling", "deleted")]
        assert openstack("project", "deletion", "cancel", "--wait", id_).code == 1

    def test_without_wait(self, openstack, stub_cloud):
        demo = stub_cloud.add_project("demo")
        one, two = stub_cloud.add_deletion(demo, "deleting"), stub_cloud.add_deletion(demo, "deleted")
        stub_cloud.after[one, "cancel"] = [stub.deletion(demo, "cancelling")]
        result = openstack("project", "deletion", "cancel", two, one, "-f", "json")
        assert result.code == 1
        assert [(r["Deletion ID"], r["Status"]) for r in result.json] == [(one, "cancelling")]
        assert result.err.splitlines() == [
            f"Cannot cancel deletion '{two}': No cancel now: it is over (HTTP 409, not_cancellable, {stub.REQUEST_ID})",
            "1 of 2 requests failed",
        ]

    def test_an_unknown_id(self, openstack, stub_cloud):
        result = openstack("project", "deletion", "retry", "nope")
        assert result.code == 1
        assert result.out == ""
        assert result.err == (
            "Cannot retry deletion 'nope': no deletion and no project has the name or ID 'nope'. "
            "List the deletions with: openstack project deletion list\n"
        )


class TestProcess:
    @pytest.mark.slow
    def test_exit_codes(self, process, stub_cloud):
        stub_cloud.script(stub_cloud.add_project("good"), "accepted", "deleted")
        stub_cloud.script(stub_cloud.add_project("bad"), "accepted", {"status": "leftovers", "counts": [PORTS]})
        assert process("project", "delete", "--async", "--wait", "good").code == 0
        assert process("project", "delete", "--async", "--wait", "bad").code == 1

    @pytest.mark.slow
    def test_no_escape_codes_where_there_is_no_terminal(self, process, stub_cloud):
        stub_cloud.script(stub_cloud.add_project("demo"), "accepted", "deleting", "deleted")
        result = process("project", "delete", "--async", "--cascade", "--wait", "demo")
        assert "\x1b" not in result.err
        assert "\r" not in result.err

    @pytest.mark.slow
    def test_ctrl_c_leaves_the_deletion_alone(self, stub_cloud, env):
        demo = stub_cloud.add_project("demo")
        stub_cloud.script(demo, "deleting")
        command = [*SHELL, "project", "delete", "--async", "--cascade", "--wait", "demo", "-f", "value"]
        # What a script starts in the background ignores SIGINT, and so would everything below it.
        heeding = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
        running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **heeding)
        first = running.stderr.readline()
        assert "cascade mode" in first
        running.stderr.readline()
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=180)
        assert running.returncode == 130
        (id_,) = stub_cloud.deletions
        assert out == f"demo {demo['id']} {id_} deleting\n"
        assert err.splitlines() == [
            "Stopped waiting; the deletion continues.",
            "demo:",
            f"    follow it with: openstack project deletion events --follow {id_}",
            f"    cancel it with: openstack project deletion cancel {id_}",
        ]
        assert stub_cloud.made("POST", "/cleanup") == ["/cleanup/v1/deletions"]


class TestTerminal:
    def run(self, command, env=None, output=subprocess.PIPE):
        """Run a command whose error output is a terminal; return exit code, output, and what the terminal got.

        :param output: ``None``: the output is the terminal, too
        """
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        env, output = {**os.environ, **(env or {})}, slave if output is None else output
        running = subprocess.Popen(command, stdin=slave, stdout=output, stderr=slave, env=env)
        os.close(slave)
        seen = b""
        until = time.monotonic() + 180
        while time.monotonic() < until:
            if select.select([master], [], [], 0.1)[0]:
                try:
                    got = os.read(master, 65536)
                except OSError:
                    break
                if not got:
                    break
                seen += got
            elif running.poll() is not None:
                break
        out = ""
        if running.stdout is not None:
            with running.stdout as stream:
                out = stream.read().decode()
        os.close(master)
        return running.wait(60), out, seen.decode().replace("\r\n", "\n")

    def test_the_line_redraws(self, stub_cloud, env):
        demo = stub_cloud.add_project("demo")
        stuck = {"status": "deleting", "stalled": True, "blockers": [stub.BLOCKER]}
        stub_cloud.script(demo, *run_to_deleted()[:3], stuck, *run_to_deleted()[3:])
        command = [
            *SHELL,
            "project",
            "delete",
            "--async",
            "--cascade",
            "--yes",
            "--wait",
            "demo",
            "-f",
            "value",
            "-c",
            "Status",
        ]
        code, out, seen = self.run(command)
        assert (code, out) == (0, "deleted\n")
        assert "\r\x1b[Jdemo: deleting; found 4, deleted 1, remaining 3; " in seen
        assert "demo: stalled\n  RegionOne volume.volume: no answer from http://volume.example (unreachable)\n" in seen
        assert render(seen)[-1].startswith("demo: deleted after ")
        # Of what was drawn in between only the lines that were meant to stay are left.
        kept = [line.split(";")[0].split(" after ")[0] for line in render(seen)]
        assert kept == [
            f"demo: deletion {next(iter(stub_cloud.deletions))} (cascade mode)",
            "demo: stalled",
            "  RegionOne volume.volume: no answer from http://volume.example (unreachable)",
            "      remedy: start the service, or waive it",
            "demo: no longer stalled",
            "demo: deleted",
        ]

    @pytest.mark.slow
    def test_a_table_is_no_wider_than_the_terminal(self, stub_cloud, env):
        long = {**stub.BLOCKER, "message": "no answer " * 30}
        id_ = stub_cloud.add_deletion(stub_cloud.add_project("demo"), {"status": "failed", "blockers": [long]})
        command = [*SHELL, "project", "deletion", "show", id_]
        code, _, out = self.run(command, output=None)
        assert code == 0
        assert "no answer" in out
        assert max(map(len, out.splitlines())) <= 80

    @pytest.mark.slow
    def test_several_at_once(self, stub_cloud, env):
        for name in ("one", "two", "three"):
            stub_cloud.script(stub_cloud.add_project(name), *run_to_deleted()[:3], "deleted")
        command = [*SHELL, "project", "delete", "--async", "--cascade", "--yes", "--wait", "one", "two", "three"]
        code, _, seen = self.run(command)
        assert code == 0
        assert "\x1b[2A\x1b[J" in seen
        assert [line.split(";")[0].split(" after ")[0].split(" deletion ")[0] for line in render(seen)] == [
            "one:",
            "two:",
            "three:",
            "one: deleted",
            "two: deleted",
            "three: deleted",
        ]

    def test_each_child_has_one_line_below_the_parent_that_waits_for_it(self):
        names = {"p1": "same", "p2": "same", "c1": "same/x", "c2": "x", "g2": "y"}
        parents = {"c1": "p1", "c2": "p2", "g2": "c2"}

        class Client:
            def get_deletion(self, id_):
                tree = {"include_subtree": id_ in parents.values(), "status": "accepted"}
                return {"id": id_, "project_id": id_, "project_name": names[id_], "conditions": [], **tree}

            def deletions(self, parent_deletion_id):
                return [self.get_deletion(id_) for id_, above in parents.items() if above == parent_deletion_id]

        waiter = wait.Waiter(Client(), io.StringIO(), wait.WaitOptions(timeout=0.05))
        unnamed = [Client().get_deletion(id_) | {"project_name": ""} for id_ in ("p1", "p2")]
        assert waiter.wait(unnamed)[1] == 1
        labels = [w.label for w in waiter._shown()]
        assert labels == ["same", "same/same/x", "same", "same/x", "same/x/y"]

    @pytest.mark.slow
    def test_a_dumb_terminal_gets_lines(self, stub_cloud, env):
        stub_cloud.script(stub_cloud.add_project("demo"), "accepted", "deleting", "deleted")
        command = [*SHELL, "project", "delete", "--async", "--cascade", "--yes", "--wait", "demo"]
        code, _, seen = self.run(command, {"TERM": "dumb"})
        assert code == 0
        assert "\x1b" not in seen
        assert "demo: deleting" in seen


def render(text):
    """Return what a terminal shows in the end."""
    lines, row, col = [""], 0, 0
    for part in re.findall(r"\x1b\[(\d*)([A-Z])|([\n\r])|([^\x1b\n\r]+)", text):
        number, letter, move, plain = part
        if letter == "A":
            row -= int(number or 1)
        elif letter == "J":
            lines[row:] = [lines[row][:col]]
        elif move == "\r":
            col = 0
        elif move == "\n":
            row, col = row + 1, 0
            if row == len(lines):
                lines.append("")
        else:
            lines[row] = lines[row][:col] + plain + lines[row][col + len(plain) :]
            col += len(plain)
    return [line for line in lines if line]


class TestText:
    @pytest.mark.parametrize(
        ("seconds", "text"), [(0, "0s"), (59.9, "59s"), (60, "1m00s"), (3599, "59m59s"), (3661, "1h01m01s")]
    )
    def test_duration(self, seconds, text):
        assert wait.duration(seconds) == text

    def test_a_line_is_cut_by_what_it_takes_on_the_screen(self):
        assert screen.cut("abc", 3) == "abc"
        assert screen.cut("abcd", 3) == "abc"
        assert screen.cut("日本語", 5) == "日本"
        assert screen.cut("e\u0301e", 2) == "e\u0301e"


def test_a_failed_request_counts_more_than_an_incomplete_dry_run(openstack, stub_cloud, demo):
    """Exit code 4 would say that there is a plan of each project."""
    seen = {"type": "plan_complete", "status": False, "reason": "unreachable", "message": "it could not see secrets"}
    stub_cloud.script(demo, "accepted", {"status": "planned", "conditions": [seen], "mode": "cascade", "dry_run": True})
    command = ("project", "delete", "--async", "--cascade", "--dry-run", "--wait")
    assert openstack(*command, "demo", "unknown").code == 1
