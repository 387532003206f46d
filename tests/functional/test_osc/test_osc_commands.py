"""``openstack project deletion …``: the requests, and the output in every format."""

import csv
import datetime
import io
import subprocess

import pytest
import yaml

from tests.functional.test_api import contract
from tests.functional.test_osc import stub
from tests.functional.test_osc.stub import PLAN_HASH, PLAN_ID

LEFT = [
    {
        "region": "RegionOne",
        "service": "network",
        "type": "port",
        "id": f"p{n}",
        "name": f"port {n}",
        "reason": "in_use",
        "message": "the port is used",
        "remedy": "delete the server",
        "blocked_by": [
            {"type": "compute.server", "id": "s1", "name": "web", "project_id": "4711", "project_name": "other"}
        ],
    }
    for n in range(5)
]
EVENTS = [
    {
        "id": n,
        "at": f"2026-11-21T10:00:0{n}Z",
        "type": "resource.deleted" if n % 2 else "deletion.moved",
        "message": f"event {n}",
        "actor": "worker-1",
        "request_id": stub.REQUEST_ID,
        "data": {"n": n},
    }
    for n in range(1, 6)
]


class TestList:
    def test_all_pages(self, openstack, stub_cloud, demo):
        ids = [stub_cloud.add_deletion(demo, "deleted") for _ in range(5)]
        result = openstack("project", "deletion", "list", "-f", "json")
        assert result.code == 0
        assert [row["ID"] for row in result.json] == ids
        row = {
            "ID": ids[0],
            "Project": "demo",
            "Project ID": demo["id"],
            "Mode": "report",
            "Dry Run": False,
            "Status": "deleted",
            "Attention": "",
            "Remaining": 0,
            "Created At": "2026-11-21T10:00:00Z",
        }
        assert result.json[0] == row
        # the links name an inner host, where no token may go
        assert len(stub_cloud.made("GET", "/cleanup/v1/deletions")) == 3

    def test_limit_and_marker(self, openstack, stub_cloud, demo):
        ids = [stub_cloud.add_deletion(demo, "deleted") for _ in range(6)]
        result = openstack("project", "deletion", "list", "--limit", "3", "--marker", ids[1], "-f", "value", "-c", "ID")
        assert result.out.split() == ids[2:5]
        result = openstack("project", "deletion", "list", "--limit", "1", "-f", "value", "-c", "ID")
        assert result.out.split() == ids[:1]
        assert stub_cloud.requests[-1]["query"] == {"limit": ["1"]}

    def test_filters(self, openstack, stub_cloud, demo):
        args = ["--status", "live", "--status", "failed", "--mode", "cascade", "--project", "demo"]
        args += ["--domain", "Second", "--sort", "status:asc", "--attention"]
        assert openstack("project", "deletion", "list", *args).code == 0
        assert stub_cloud.requests[-1]["query"] == {
            "status": ["live", "failed"],
            "mode": ["cascade"],
            "project_id": [demo["id"]],
            "domain_id": ["d2"],
            "sort": ["status:asc"],
            "attention": ["True"],
        }

    def test_times(self, openstack, stub_cloud):
        args = ["--since", "2026-11-20", "--until", "2026-11-21T06:00:00Z"]
        assert openstack("project", "deletion", "list", *args).code == 0
        assert stub_cloud.requests[-1]["query"] == {
            "created_since": ["2026-11-20T00:00:00Z"],
            "created_until": ["2026-11-21T06:00:00Z"],
        }
        assert openstack("project", "deletion", "list", "--changed-since", "2026-11-21T05:00:00Z").code == 0
        assert stub_cloud.requests[-1]["query"] == {"changed_since": ["2026-11-21T05:00:00Z"]}

    @pytest.mark.parametrize("time", ["yesterday", "2026-13-01", "2026-02-30T00:00:00Z", "2026-11-21T10:00:00", ""])
    def test_a_time_that_is_none(self, openstack, stub_cloud, time):
        result = openstack("project", "deletion", "list", "--since", time)
        assert result.code == 2 and "is not a time such as 2027-01-31T00:00:00Z" in result.err
        assert not stub_cloud.made("GET", "/cleanup")

    def test_user(self, openstack, stub_cloud, demo):
        alice = stub_cloud.add_deletion(demo, "deleted", user_id="u7", user_name="alice")
        stub_cloud.add_deletion(demo, "deleted", user_id="u8", user_name="bob")
        stub_cloud.users["u9"] = {"id": "u9", "name": "carol", "domain_id": "d2"}
        shown = lambda *args: openstack("project", "deletion", "list", "-f", "value", "-c", "ID", *args)  # noqa: E731
        assert shown("--user", "alice").out == shown("--user", "u7").out == f"{alice}\n"
        assert (shown("--user", "carol").out, shown("--user", "carol").code) == ("", 0)
        result = shown("--user", "mallory")
        assert (result.code, result.out) == (1, "") and "no user has the name or ID 'mallory'" in result.err
        assert shown("--user", "carol", "--user-domain", "Second").code == 0
        assert stub_cloud.requests[-1]["query"]["user_id"] == ["u9"]
        assert shown("--user", "carol", "--user-domain", "Default").code == 1

    def test_project_that_is_gone(self, openstack, stub_cloud, demo):
        other = stub_cloud.add_project("other")
        ids = [stub_cloud.add_deletion(demo, "failed"), stub_cloud.add_deletion(other, "deleted")]
        ids.append(stub_cloud.add_deletion(demo, "deleted"))
        del stub_cloud.projects[demo["id"]]
        for name in ("demo", demo["id"]):
            result = openstack("project", "deletion", "list", "--project", name, "-f", "value", "-c", "ID")
            assert result.out.split() == [ids[0], ids[2]]
        result = openstack(
            "project", "deletion", "list", "--project", "demo", "--limit", "1", "-f", "value", "-c", "ID"
        )
        assert result.out.split() == ids[:1]

    @pytest.mark.parametrize("fields", [{"stalled": True}, {"blocked": "network.network@RegionOne: foreign"}])
    def test_what_needs_a_person_shows(self, openstack, stub_cloud, demo, fields):
        stub_cloud.add_deletion(demo, {"status": "deleting", **fields})
        assert openstack("project", "deletion", "list", "-f", "json").json[0]["Attention"] == next(iter(fields))

    def test_long(self, openstack, stub_cloud, demo):
        stub_cloud.add_deletion(
            demo, {"status": "failed", "reason": "project_has_children", "progress": {"unknown": 2}}
        )
        row = openstack("project", "deletion", "list", "--long", "-f", "json").json[0]
        assert (row["Reason"], row["Unknown"], row["User"], row["Attempt"]) == ("project_has_children", 2, "admin", 1)

    def test_unknown_status(self, openstack, stub_cloud):
        result = openstack("project", "deletion", "list", "--status", "nope")
        assert result.code == 2
        assert "invalid choice: 'nope'" in result.err


class TestShow:
    @pytest.fixture
    def id_(self, stub_cloud, demo):
        counts = [
            stub.count("network", "port", found=3, deleted=1, remaining=2, kept=1, outcome="leftovers"),
            stub.count("key-manager", "secret", outcome="unknown", message="no answer"),
            *[stub.count("image", f"image{n}") for n in range(4)],
            stub.count("orchestration", "stack", outcome="", state="idle"),
        ]
        state = {
            "status": "deleting",
            "stalled": True,
            "counts": counts,
            "blockers": [stub.BLOCKER],
            "progress": {"found": 3, "deleted": 1, "remaining": 2, "steps": 6, "steps_done": 5},
        }
        stub_cloud.is_newer = True
        return stub_cloud.add_deletion(demo, state, newer="of a newer server")

    def test_table(self, openstack, id_):
        result = openstack("project", "deletion", "show", id_)
        assert result.code == 0
        cells = [[c.strip() for c in line.split("|")[1:-1]] for line in result.out.splitlines() if "|" in line]
        fields = dict(cells)
        assert fields["project_name"] == "demo"
        assert fields["conditions"] == "stalled: yes (NoProgress, nothing moved for 15 minutes)"
        assert fields["progress"] == "found 3, deleted 1, remaining 2, steps 5/6"
        assert fields["newer"] == "of a newer server"
        assert fields["attention"] == "stalled"
        assert "links" not in fields
        for name in ("forced", "retryable", "dry_run", "drained_at", "request_id"):
            assert name not in fields, "empty, or only for programs"
        assert len(result.out.splitlines()) <= 24
        lines = [value for _, value in cells]
        assert "RegionOne volume.volume: no answer from http://volume.example (unreachable)" in lines
        assert "remedy: start the service, or waive it" in lines
        assert "RegionOne network.port: found 3, deleted 1, remaining 2, kept 1; leftovers" in lines
        assert "RegionOne key-manager.secret: unknown (no answer)" in lines
        assert "4 other: nothing found" in lines
        assert "1 other: not listed yet" in lines

    def test_json(self, openstack, stub_cloud, id_):
        result = openstack("project", "deletion", "show", id_, "-f", "json")
        answer = {"deletion": stub_cloud.deletions[id_][0]}
        whole = contract.complete_answer("GET", f"/v1/deletions/{id_}", 200, answer)["deletion"]
        assert result.json == {k: v for k, v in whole.items() if k != "links"}

    def test_yaml(self, openstack, stub_cloud, id_):
        result = openstack("project", "deletion", "show", id_, "-f", "yaml")
        assert yaml.safe_load(result.out)["blockers"] == [stub.BLOCKER]

    def test_a_column_that_is_asked_for(self, openstack, id_):
        result = openstack("project", "deletion", "show", id_, "-c", "request_id", "-c", "forced")
        assert f"| request_id | {stub.REQUEST_ID}" in result.out

    def test_children(self, openstack, stub_cloud, demo):
        rows = [
            {
                "deletion_id": "d1",
                "project_id": "p1",
                "project_name": "a",
                "status": "deleting",
                "attention": "blocked",
            },
            {"deletion_id": "d2", "project_id": "p2", "project_name": "", "status": "deleted", "attention": ""},
        ]
        id_ = stub_cloud.add_deletion(demo, "accepted", children=rows)
        out = openstack("project", "deletion", "show", id_).out
        assert "a: deleting, blocked" in out
        assert "p2: deleted" in out
        assert openstack("project", "deletion", "show", id_, "-f", "json").json["children"] == rows

    def test_one_column(self, openstack, id_):
        assert openstack("project", "deletion", "show", id_, "-f", "value", "-c", "status").out == "deleting\n"

    def test_grants_removed(self, openstack, stub_cloud, demo):
        grants = [{"actor": "group", "actor_id": "g7", "role_id": "r8"}]
        id_ = stub_cloud.add_deletion(demo, "recoverable", grants_removed=grants)
        assert "| role r8 of group g7" in openstack("project", "deletion", "show", id_).out
        assert openstack("project", "deletion", "show", id_, "-f", "json").json["grants_removed"] == grants

    @pytest.mark.parametrize(
        "name", ["$(echo got in)", "`echo got in`", '";echo "got in', "\\$(echo got in)", "\\", "a\nb"]
    )
    def test_a_name_runs_nothing_in_a_shell(self, openstack, stub_cloud, demo, name):
        """``eval "$(openstack project deletion show -f shell ...)"`` is what the format is for."""
        id_ = stub_cloud.add_deletion(demo, "leftovers", message=name, blockers=[{**stub.BLOCKER, "message": name}])
        out = openstack("project", "deletion", "show", id_, "-f", "shell").out
        script = 'eval "$1"; printf "%s" "$message"'
        ran = subprocess.run(["sh", "-c", script, "sh", out], capture_output=True, text=True, check=True)
        assert ran.stdout == name.replace("\n", "\\n")
        assert ran.stderr == ""


class TestLeftovers:
    @pytest.fixture
    def id_(self, stub_cloud, demo):
        id_ = stub_cloud.add_deletion(demo, "leftovers")
        stub_cloud.leftovers[id_] = LEFT
        return id_

    def test_all_pages(self, openstack, id_):
        result = openstack("project", "deletion", "leftovers", id_, "-f", "json")
        assert [row["ID"] for row in result.json] == ["p0", "p1", "p2", "p3", "p4"]
        assert list(result.json[0]) == [
            "Region", "Service", "Type", "ID", "Name", "Size", "Reason", "Blocked By", "Remedy",
        ]  # fmt: skip

    def test_what_could_not_be_listed_is_named(self, openstack, stub_cloud, demo):
        unknown = [
            stub.count(*place, outcome="unknown", reason=reason, message="why")
            for *place, reason in (("key-manager", "secret", "no_project_token"), ("dns", "zone", "unreachable"))
        ]
        blocker = {**stub.BLOCKER, "service": "dns", "type": "zone", "reason": "unreachable"}
        id_ = stub_cloud.add_deletion(demo, "leftovers", counts=[stub.count("image", "image"), *unknown],
                                      blockers=[blocker])  # fmt: skip
        result = openstack("project", "deletion", "leftovers", id_, "-f", "json")
        assert result.json == []
        assert result.err.splitlines() == [
            "Unknown, because they could not be listed:",
            "  RegionOne key-manager.secret: why (no_project_token)",
            "  RegionOne dns.zone: why (unreachable)",
            "      remedy: start the service, or waive it",
        ]
        result = openstack("project", "deletion", "leftovers", "--type", "zone", id_, "-f", "json")
        assert "dns.zone" in result.err and "secret" not in result.err

    def test_long(self, openstack, id_):
        result = openstack("project", "deletion", "leftovers", "--long", id_, "-f", "json")
        assert result.json[0]["Message"] == "the port is used"

    def test_what_blocks_a_leftover_is_in_the_default_columns(self, openstack, id_):
        result = openstack("project", "deletion", "leftovers", id_, "-f", "json")
        assert result.json[0]["Blocked By"] == LEFT[0]["blocked_by"]
        said = openstack("project", "deletion", "leftovers", id_, "-c", "Blocked By").out
        assert "compute.server s1 (web) of project other (4711)" in said

    def test_filters(self, openstack, stub_cloud, id_):
        args = ["--region", "R", "--service", "network", "--type", "port", "--reason", "in_use"]
        args += ["--limit", "2"]
        assert openstack("project", "deletion", "leftovers", id_, *args).code == 0
        assert stub_cloud.requests[-1]["query"] == {
            "region": ["R"],
            "service": ["network"],
            "type": ["port"],
            "reason": ["in_use"],
            "limit": ["2"],
        }

    def test_of_all_projects(self, openstack, stub_cloud, id_, demo):
        other = stub_cloud.add_deletion(stub_cloud.add_project("other"), "failed")
        stub_cloud.leftovers[other] = [{**LEFT[0], "id": "v", "service": "block-storage", "type": "volume"}]
        result = openstack("project", "deletion", "leftovers", "--all", "-f", "json")
        assert [row["ID"] for row in result.json] == ["p0", "p1", "p2", "p3", "p4", "v"]
        heads = ["Project", "Project ID", "Region", "Service", "Type", "ID", "Name", "Size", "Reason"]
        assert list(result.json[0]) == heads
        assert (result.json[0]["Project"], result.json[5]["Project"]) == ("demo", "other")
        args = ["--service", "block-storage", "--type", "volume", "--reason", "in_use", "--long"]
        result = openstack("project", "deletion", "leftovers", "--all", "-f", "json", *args)
        assert [row["Deletion ID"] for row in result.json] == [other]
        assert result.json[0]["Remedy"] == "delete the server"
        assert stub_cloud.requests[-1]["path"] == "/cleanup/v1/leftovers"

    @pytest.mark.parametrize("args", [[], ["demo", "--all"]])
    def test_of_one_project_or_of_all(self, openstack, stub_cloud, args):
        result = openstack("project", "deletion", "leftovers", *args)
        assert (result.code, result.err) == (2, "give a project, the ID of a deletion, or --all\n")
        assert not stub_cloud.made("GET", "/cleanup")

    @pytest.mark.parametrize("format_", ["table", "value", "csv", "json", "yaml"])
    def test_a_name_cannot_control_the_terminal(self, openstack, stub_cloud, id_, format_):
        name = "\x1b[2Jgone\r\x9b31m\u202e"
        stub_cloud.leftovers[id_] = [{**LEFT[0], "name": name, "id": "a  b"}]
        result = openstack("project", "deletion", "leftovers", id_, "-f", format_)
        assert not set(name) - set("[2Jgone31m") & set(result.out)
        assert "a  b" in result.out  # ids are copied from here
        if format_ == "json":
            assert result.json[0]["Name"] == name

    def test_a_size_is_text_for_people_and_bytes_for_programs(self, openstack, stub_cloud, id_):
        sizes = [340 * 2**30, None, 512, 5 * 2**30]
        stub_cloud.leftovers[id_] = [{**LEFT[0], "id": f"v{n}", "size": size} for n, size in enumerate(sizes)]
        command = ["project", "deletion", "leftovers", id_, "-c", "ID", "-c", "Size"]
        assert [row["Size"] for row in openstack(*command, "-f", "json").json] == sizes
        table = openstack(*command, "--sort-column", "Size").out
        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if "| v" in line]
        assert rows == [["v1", ""], ["v2", "512 B"], ["v3", "5 GiB"], ["v0", "340 GiB"]]

    def test_csv_and_sorting(self, openstack, id_):
        args = ["--sort-column", "ID", "--sort-descending"]
        result = openstack("project", "deletion", "leftovers", id_, "-f", "csv", *args)
        rows = list(csv.DictReader(io.StringIO(result.out)))
        assert [row["ID"] for row in rows] == ["p4", "p3", "p2", "p1", "p0"]


class TestEvents:
    @pytest.fixture
    def id_(self, stub_cloud, demo):
        id_ = stub_cloud.add_deletion(demo, "deleting", "deleting", "deleted")
        stub_cloud.events[id_] = EVENTS
        return id_

    def test_all_pages(self, openstack, id_):
        result = openstack("project", "deletion", "events", id_, "-f", "json")
        assert [row["ID"] for row in result.json] == [1, 2, 3, 4, 5]
        assert list(result.json[0]) == ["ID", "At", "Type", "Message", "Actor"]

    def test_long_and_type(self, openstack, stub_cloud, id_):
        result = openstack("project", "deletion", "events", "--long", "--type", "resource.deleted", id_, "-f", "json")
        assert [(row["ID"], row["Data"]) for row in result.json] == [(n, {"n": n}) for n in (1, 3, 5)]

    @pytest.mark.parametrize("format_", ["table", "value", "csv", "json", "yaml"])
    def test_data_cannot_control_the_terminal(self, openstack, stub_cloud, id_, format_):
        name = "\x1b[2Jgone\r\x9b31m\u202e\a\n"
        data = {"a": name, name: "b", "deep": {name: name}, "list": [name], "none": None, "n": 1, "id": "a  b"}
        stub_cloud.events[id_] = [{**EVENTS[0], "data": data}]
        result = openstack("project", "deletion", "events", "--long", id_, "-f", format_)
        assert result.code == 0
        assert not set("\x1b\r\x9b\u202e\a") & set(result.out)
        if format_ == "table":
            assert len(result.out.splitlines()) == 5
            assert "a='\\x1b[2Jgone\\r\\x9b31m\\u202e\\x07\\n'" in result.out
            assert "id='a  b'" in result.out and "n='1'" in result.out and "none=" in result.out
        if format_ == "json":
            assert result.json[0]["Data"] == data
        if format_ == "yaml":
            assert yaml.safe_load(result.out)[0]["Data"] == data

    def test_of_a_resource(self, openstack, stub_cloud, id_, demo):
        other = stub_cloud.add_deletion(stub_cloud.add_project("other"), "deleted")
        gone = {**EVENTS[0], "data": {"resources": [{"id": "r1", "name": "web"}]}}
        stub_cloud.events[other] = [{**gone, "id": 9}]
        stub_cloud.events[id_] = [*EVENTS[1:], {**gone, "id": 7}]
        result = openstack("project", "deletion", "events", "--resource", "r1", "-f", "json")
        assert list(result.json[0]) == ["Project", "Project ID", "Deletion ID", "At", "Type", "Message"]
        assert {(row["Project"], row["Deletion ID"]) for row in result.json} == {("demo", id_), ("other", other)}
        assert stub_cloud.requests[-1]["query"]["resource_id"] == ["r1"]
        result = openstack("project", "deletion", "events", "--resource", "r1", id_, "-f", "json")
        assert [row["ID"] for row in result.json] == [7]

    @pytest.mark.parametrize("args", [[], ["--type", "resource.deleted"], ["--resource", "r1", "--follow"]])
    def test_of_a_deletion_or_of_a_resource(self, openstack, stub_cloud, args):
        result = openstack("project", "deletion", "events", *args)
        assert (result.code, len(result.err.splitlines())) == (2, 1)
        assert not stub_cloud.made("GET", "/cleanup")

    def test_follow(self, openstack, stub_cloud, id_):
        result = openstack("project", "deletion", "events", "--follow", id_)
        assert result.code == 0
        assert result.out.splitlines() == [f"{e['at']}  {e['type']}  {e['message']}" for e in EVENTS]

    def test_follow_picks_up_what_is_new(self, process, stub_cloud, demo):
        id_ = stub_cloud.add_deletion(demo, "deleting", "leftovers")
        stub_cloud.events[id_] = EVENTS[:2]
        answer = stub_cloud.answer

        def answering(method, path, query, body):
            if path.endswith("/events") and query.get("marker") == ["2"]:
                stub_cloud.events[id_] = EVENTS
            return answer(method, path, query, body)

        stub_cloud.answer = answering
        result = process("project", "deletion", "events", "--follow", id_, "-f", "json")
        assert result.code == 1
        assert [line[:8] for line in result.out.splitlines()] == [f'{{"id": {n}' for n in range(1, 6)]

    def test_follow_has_no_other_format(self, openstack, id_):
        for args in (["-f", "csv"], ["-c", "ID"], ["--limit", "3"]):
            result = openstack("project", "deletion", "events", "--follow", id_, *args)
            assert (result.code, len(result.err.splitlines())) == (2, 1)

    def test_follow_an_unknown_deletion(self, openstack):
        result = openstack("project", "deletion", "events", "--follow", "nope")
        assert result.code == 1
        assert "List the deletions with: openstack project deletion list" in result.err


class TestServices:
    def test_json(self, openstack, stub_cloud):
        stub_cloud.services = [
            {
                "region": "RegionOne",
                "service_type": "network",
                "name": "neutron",
                "answered_by": "plugin",
                "types": ["network", "port"],
                "message": "",
            },
            {
                "region": "RegionOne",
                "service_type": "rating",
                "name": "cloudkitty",
                "answered_by": "unsupported",
                "types": [],
                "message": "no plugin",
            },
        ]
        result = openstack("project", "deletion", "service", "list", "--long", "-f", "json")
        assert result.json[0] == {
            "Region": "RegionOne",
            "Service Type": "network",
            "Name": "neutron",
            "Answered By": "plugin",
            "Types": ["network", "port"],
            "Message": "",
        }
        assert "network, port" in openstack("project", "deletion", "service", "list", "--long").out
        table = openstack("project", "deletion", "service", "list").out
        assert "network, port" not in table
        assert "no plugin" in table

    def test_project_that_is_gone(self, openstack, stub_cloud):
        gone = "0" * 32
        assert openstack("project", "deletion", "service", "list", "--project", gone).code == 0
        assert stub_cloud.requests[-1]["query"]["project_id"] == [gone]

    @pytest.mark.parametrize("format_", ["table", "value", "csv", "json", "yaml"])
    def test_a_type_cannot_control_the_terminal(self, openstack, stub_cloud, format_):
        """A plugin of another party names its types."""
        name = "\x1b[2Jgone\r\x9b31m\u202e\a\n"
        stub_cloud.services = [{"region": "R", "service_type": "x", "types": [name, "port"]}]
        result = openstack("project", "deletion", "service", "list", "--long", "-f", format_)
        assert result.code == 0
        assert not set("\x1b\r\x9b\u202e\a") & set(result.out)
        if format_ == "table":
            assert "| \\x1b[2Jgone\\r\\x9b31m\\u202e\\x07\\n, port |" in result.out
        if format_ == "json":
            assert result.json[0]["Types"] == [name, "port"]
        if format_ == "yaml":
            assert yaml.safe_load(result.out)[0]["Types"] == [name, "port"]


class TestWaivers:
    WHY = ("--reason", "it is retired")

    def create(self, openstack, *args):
        until = () if {"--days", "--expires-at"} & set(args) else ("--expires-at", "2026-12-01T00:00:00Z")
        return openstack("project", "deletion", "waiver", "create", *self.WHY, *until, *args)

    def test_create(self, openstack, stub_cloud, demo):
        result = self.create(openstack, "dns", "--region", "RegionTwo", "--project", "demo", "-f", "json")
        assert (result.code, result.err) == (0, "")
        assert stub_cloud.requests[-1]["body"] == {
            "service_type": "dns",
            "reason": "it is retired",
            "expires_at": "2026-12-01T00:00:00Z",
            "region": "RegionTwo",
            "project_id": demo["id"],
        }
        assert (result.json["service_type"], result.json["state"]) == ("dns", "in_force")
        assert "links" not in result.json

    def test_create_a_waiver_for_all_projects_and_regions_for_some_days(self, openstack, stub_cloud):
        before = datetime.datetime.now(datetime.UTC)
        assert self.create(openstack, "dns", "--days", "2").code == 0
        body = stub_cloud.requests[-1]["body"]
        assert set(body) == {"service_type", "reason", "expires_at"}
        until = datetime.datetime.strptime(body["expires_at"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=datetime.UTC)
        assert abs(until - before - datetime.timedelta(days=2)) < datetime.timedelta(minutes=2)

    def test_create_for_what_the_catalog_does_not_have_yet(self, openstack, stub_cloud):
        assert self.create(openstack, "dns", "--not-yet").code == 0
        assert stub_cloud.requests[-1]["body"]["allow_unknown"] is True

    def test_create_for_what_the_catalog_does_not_have(self, openstack, stub_cloud):
        text = "the catalog has no such service; a waiver for what the catalog will have later needs allow_unknown"
        stub_cloud.answers["POST", "/cleanup/v1/waivers"] = [stub_cloud.error(400, "not_in_catalog", text)]
        result = self.create(openstack, "dsn")
        assert result.code == 2 and "needs --not-yet" in result.err and "allow_unknown" not in result.err

    def test_create_for_a_project_that_is_gone(self, openstack, stub_cloud):
        gone = "0" * 32
        assert self.create(openstack, "dns", "--project", gone).code == 0
        assert stub_cloud.requests[-1]["body"]["project_id"] == gone
        assert self.create(openstack, "dns", "--project", "no-such-name").code == 1

    @pytest.mark.parametrize("args", [[], ["--days", "1", "--expires-at", "2026-12-01T00:00:00Z"], ["--days", "0"]])
    def test_a_waiver_ends_at_one_time(self, openstack, stub_cloud, args):
        result = openstack("project", "deletion", "waiver", "create", "dns", *self.WHY, *args)
        assert result.code == 2
        assert stub_cloud.waivers == {}

    def test_a_waiver_has_a_reason(self, openstack, stub_cloud):
        assert openstack("project", "deletion", "waiver", "create", "dns", "--days", "1").code == 2
        assert stub_cloud.waivers == {}

    def test_list_all_pages(self, openstack, stub_cloud):
        for n in range(5):
            self.create(openstack, f"kind-{n}")
        result = openstack("project", "deletion", "waiver", "list", "-f", "json")
        assert [row["Service Type"] for row in result.json] == [f"kind-{n}" for n in range(5)]
        assert result.json[0]["Reason"] == "it is retired"
        assert result.json[0]["Project ID"] is None

    def test_filters(self, openstack, stub_cloud, demo):
        args = ["--service", "volumev3", "--region", "R", "--project", "demo", "--ended", "--limit", "2"]
        assert openstack("project", "deletion", "waiver", "list", *args).code == 0
        query = {"service_type": ["volumev3"], "region": ["R"], "project_id": [demo["id"]], "state": ["ended"]}
        assert stub_cloud.requests[-1]["query"] == {**query, "limit": ["2"]}
        openstack("project", "deletion", "waiver", "list", "--all")
        assert stub_cloud.requests[-1]["query"] == {"state": ["all"]}
        assert openstack("project", "deletion", "waiver", "list", "--all", "--ended").code == 2

    def test_show_and_delete(self, openstack, stub_cloud):
        ids = [self.create(openstack, "dns", "-f", "value", "-c", "id").out.strip() for _ in range(2)]
        assert (
            openstack("project", "deletion", "waiver", "show", ids[0], "-f", "json").json["reason"] == "it is retired"
        )
        result = openstack("project", "deletion", "waiver", "delete", *ids)
        assert (result.code, result.out) == (0, "")
        assert [stub_cloud.waivers[i]["state"] for i in ids] == ["withdrawn", "withdrawn"]

    def test_one_that_fails_does_not_hide_the_others(self, openstack, stub_cloud):
        id_ = self.create(openstack, "dns", "-f", "value", "-c", "id").out.strip()
        result = openstack("project", "deletion", "waiver", "delete", "nope", id_)
        assert result.code == 1
        assert "nope" in result.err and "waiver_not_found" in result.err
        assert stub_cloud.waivers[id_]["state"] == "withdrawn"

    def test_an_unknown_one(self, openstack):
        result = openstack("project", "deletion", "waiver", "show", "nope")
        assert (result.code, len(result.err.splitlines())) == (1, 1)

    def test_the_catalog_as_one_project_sees_it(self, openstack, stub_cloud, demo):
        assert openstack("project", "deletion", "service", "list", "--project", "demo").code == 0
        assert stub_cloud.requests[-1]["query"] == {"project_id": [demo["id"]]}

    def test_a_deletion_says_what_it_goes_on_without(self, openstack, stub_cloud, demo):
        entries = [{"region": "RegionTwo", "service": "dns"}]
        waiver = {"id": "w1", "user_name": "alice", "reason": "retired", "expires_at": "2026-12-01T00:00:00Z"}
        count = stub.count("dns", "zone", outcome="", state="idle", reason="waived", message="by alice: retired")
        state = {"status": "deleting", "counts": [count], "waivers": [{**waiver, "not_listed": entries}]}
        table = openstack("project", "deletion", "show", stub_cloud.add_deletion(demo, state)).out
        assert "skipped: RegionTwo dns; alice until 2026-12-01T00:00:00Z: retired (w1)" in table
        assert "RegionOne dns.zone: waived (by alice: retired)" in table
        assert "not listed yet" not in table and "nothing found" not in table


class TestForce:
    def test_reason_and_types_are_sent_and_the_project_is_found_by_name(self, openstack, stub_cloud, demo):
        id_ = stub_cloud.add_deletion(demo, "deleting")
        args = ["--reason", "burnt down", "--type", "block-storage.volume", "--type", "orchestration.stack"]
        result = openstack("project", "deletion", "force", "demo", *args, "-f", "json")
        assert result.code == 0
        assert [(row["Deletion ID"], row["Status"]) for row in result.json] == [(id_, "deleting")]
        assert (stub_cloud.requests[-1]["method"], stub_cloud.requests[-1]["path"]) == (
            "DELETE",
            f"{stub.CLEANUP}/v1/projects/{demo['id']}/force",
        )
        types = ["block-storage.volume", "orchestration.stack"]
        assert stub_cloud.requests[-1]["body"] == {"reason": "burnt down", "types": types}

    @pytest.mark.parametrize(("args", "more"), [([], {}), (["--no-type"], {"types": []})], ids=str)
    def test_all_types_or_none(self, openstack, stub_cloud, demo, args, more):
        stub_cloud.add_deletion(demo, "deleting")
        assert openstack("project", "deletion", "force", demo["id"], "--reason", "x", *args).code == 0
        assert stub_cloud.requests[-1]["body"] == {"reason": "x", **more}

    def test_it_does_nothing_without_a_reason(self, openstack, stub_cloud, demo):
        stub_cloud.add_deletion(demo, "deleting")
        result = openstack("project", "deletion", "force", "demo")
        assert result.code == 2
        assert "--reason" in result.err
        assert not stub_cloud.made("DELETE")

    def test_without_a_deletion_one_line_says_what_to_do(self, openstack, demo):
        result = openstack("project", "deletion", "force", "demo", "--reason", "x")
        assert (result.code, len(result.err.splitlines())) == (1, 1)
        assert "request one first" in result.err

    def test_wait_ends_with_the_project(self, openstack, stub_cloud, demo):
        stub_cloud.add_deletion(demo, "deleting", "deleting", "deleted")
        args = ["--wait", "--reason", "x"]
        assert openstack("project", "deletion", "force", "demo", *args).code == 0

    def test_show_names_the_user_who_forced_and_what_was_abandoned_unseen(self, openstack, stub_cloud, demo):
        unseen = [{"region": "RegionTwo", "service": "dns", "type": "zone", "reason": "unreachable", "message": "no"}]
        forced = {"user_name": "alice", "at": "2026-11-21T10:00:00Z", "reason": "burnt down", "types": []}
        id_ = stub_cloud.add_deletion(
            demo, {"status": "deleted", "forced": {**forced, "abandoned": 3, "unseen": unseen}}
        )
        table = openstack("project", "deletion", "show", id_).out
        assert "by alice at 2026-11-21T10:00:00Z: burnt down" in table
        assert "3 abandoned" in table
        assert "abandoned unseen: RegionTwo dns.zone" in table
        assert openstack("project", "deletion", "show", id_, "-f", "json").json["forced"]["unseen"] == unseen

    def test_what_was_abandoned_is_listed_with_its_owner(self, openstack, stub_cloud, demo):
        id_ = stub_cloud.add_deletion(demo, "deleted")
        stub_cloud.leftovers[id_] = [{**LEFT[0], "abandoned": True, "owner": "p"}]
        result = openstack("project", "deletion", "leftovers", "--abandoned", "--long", id_, "-f", "json")
        assert (result.json[0]["Abandoned"], result.json[0]["Owner"]) == (True, "p")
        assert stub_cloud.requests[-1]["query"]["abandoned"] == ["true"]


class TestPlans:
    PLAN = {
        "id": PLAN_ID,
        "hash": PLAN_HASH,
        "complete": False,
        "unknown": ["dns.zone@RegionOne"],
        "delete": 3,
        "order": [["compute.server"], ["network.port", "network.router"]],
        "types": [
            {
                "region": "R1",
                "service": "compute",
                "type": "server",
                "delete": 1,
                "keep": 0,
                "protect": 2,
                "size": None,
                "known": True,
            },
            {
                "region": "R1",
                "service": "block-storage",
                "type": "volume",
                "delete": 12,
                "keep": 1,
                "protect": 0,
                "size": 340 * 2**30,
                "known": True,
            },
            {"region": "R1", "service": "dns", "type": "zone", "delete": 0, "known": False, "message": "no answer"},
            {"region": "R1", "service": "image", "type": "image", "delete": 0, "keep": 0, "protect": 0, "known": True},
        ],
        "blockers": [],
        "links": [],
    }
    ROWS = [
        {"action": action, "region": "R1", "service": "network", "type": "port", "id": f"p{n}", "name": f"port {n}"}
        | ({"size": 1024} if n else {})  # an older server shows none
        for n, action in enumerate(["delete", "delete", "keep", "delete", "protect"])
    ]

    def test_show(self, openstack, stub_cloud):
        stub_cloud.plans[PLAN_ID] = self.PLAN
        table = openstack("project", "deletion", "plan", "show", PLAN_ID).out
        for line in (
            "network.port, network.router",
            "R1 compute.server: delete 1, protect 2",
            "R1 block-storage.volume: delete 12 (340 GiB), keep 1",
            "R1 dns.zone: not known (no answer)",
            "1 other: nothing found",
        ):
            assert line in table
        shown = openstack("project", "deletion", "plan", "show", PLAN_ID, "-f", "json").json
        plan = contract.complete_answer("GET", f"/v1/plans/{PLAN_ID}", 200, {"plan": self.PLAN})["plan"]
        assert (shown["order"], shown["types"]) == (plan["order"], plan["types"])
        assert "links" not in shown

    def test_resources_of_all_pages(self, openstack, stub_cloud):
        stub_cloud.plans[PLAN_ID], stub_cloud.resources[PLAN_ID] = self.PLAN, self.ROWS
        args = ["project", "deletion", "plan", "resources", PLAN_ID, "-f", "json"]
        assert [row["ID"] for row in openstack(*args).json] == ["p0", "p1", "p2", "p3", "p4"]
        assert [row["ID"] for row in openstack(*args, "--action", "delete").json] == ["p0", "p1", "p3"]
        assert [row["Size"] for row in openstack(*args).json] == [None, 1024, 1024, 1024, 1024]

    def test_an_unknown_one(self, openstack):
        result = openstack("project", "deletion", "plan", "show", "nope")
        assert (result.code, len(result.err.splitlines())) == (1, 1)
        assert "--status planned" in result.err

    def test_delete_by_a_plan(self, openstack, stub_cloud, demo):
        args = ["project", "delete", "--async", "--cascade", "--plan", PLAN_ID, "--plan-hash", PLAN_HASH, "demo"]
        assert openstack(*args).code == 0
        body = stub_cloud.requests[-1]["body"]
        assert (body["plan_id"], body["plan_hash"], body["mode"]) == (PLAN_ID, PLAN_HASH, "cascade")

    @pytest.mark.parametrize(
        "args",
        [
            ["--async", "--plan", "p", "demo"],
            ["--async", "--cascade", "--plan", "p", "demo", "test"],
            ["--async", "--cascade", "--plan", "p", "--include-subtree", "demo"],
            ["--async", "--cascade", "--plan-hash", PLAN_HASH, "demo"],
            ["--plan", "p", "demo"],
        ],
    )
    def test_what_a_plan_does_not_go_with(self, openstack, stub_cloud, demo, args):
        result = openstack("project", "delete", *args)
        assert result.code == 2 and "nothing was deleted" in result.err
        assert not stub_cloud.made("POST", "/cleanup") and not stub_cloud.made("DELETE")

    def test_approve(self, openstack, stub_cloud, demo):
        id_ = stub_cloud.add_deletion(demo, "recoverable")
        stub_cloud.after[id_, "approve"] = True
        result = openstack(
            "project", "deletion", "approve", "--reason", "ticket 4711", id_, "-f", "value", "-c", "Status"
        )
        assert (result.code, result.out) == (0, "recoverable\n")
        assert stub_cloud.requests[-1]["body"] == {"reason": "ticket 4711"}

    def test_a_user_cannot_approve_their_own_deletion(self, openstack, stub_cloud, demo):
        result = openstack(
            "project", "deletion", "approve", "--reason", "x", stub_cloud.add_deletion(demo, "recoverable")
        )
        assert (result.code, len(result.err.splitlines())) == (1, 1)
        assert "self_approval" in result.err

    def test_an_approval_has_a_reason(self, openstack, stub_cloud, demo):
        assert openstack("project", "deletion", "approve", stub_cloud.add_deletion(demo, "recoverable")).code == 2
        assert not stub_cloud.made("POST", "/cleanup")

    def test_restore_and_wait(self, openstack, stub_cloud, demo):
        id_ = stub_cloud.add_deletion(demo, "recoverable")
        stub_cloud.after[id_, "restore"] = [stub.deletion(demo, "cancelling"), stub.deletion(demo, "cancelled")]
        assert openstack("project", "deletion", "restore", "--wait", id_).code == 0
        assert stub_cloud.made("POST")[-1].endswith("/restore")

    @pytest.fixture
    def locked(self, stub_cloud, demo):
        """A deletion that took two roles away, and one of a project below that took one."""
        stub_cloud.users["u7"] = {"id": "u7", "name": "mallory\x1b[2J", "domain_id": "default"}
        stub_cloud.roles["r7"] = {"id": "r7", "name": "member"}
        taken = [{"actor": "user", "actor_id": "u7", "role_id": "r7"}]
        below = stub_cloud.add_deletion(stub_cloud.add_project("below"), "recoverable", grants_removed=taken)
        grants = [*taken, {"actor": "group", "actor_id": "g7", "role_id": "r8"}]
        children = [{"deletion_id": below, "project_id": "below", "status": "recoverable"}]
        id_ = stub_cloud.add_deletion(demo, "recoverable", grants_removed=grants, children=children)
        stub_cloud.after[id_, "restore"] = [stub.deletion(demo, "cancelling")]
        return id_

    def test_restore_names_the_users_who_get_their_roles_back(self, openstack, stub_cloud, locked):
        result = openstack("project", "deletion", "restore", locked)
        assert result.code == 0 and stub_cloud.made("POST")[-1].endswith("/restore")
        said = result.err.splitlines()
        assert "Restoring gives back 3 role assignments:" in said
        assert "  project demo: user mallory?[2J (u7), role member (r7)" in said
        assert "  project demo: group g7, role r8" in said
        assert "  project below: user mallory?[2J (u7), role member (r7)" in said

    @pytest.mark.parametrize(("words", "asked"), [("y\n", True), ("yes\n", True), ("n\n", False), ("", False)])
    def test_at_a_terminal_it_asks_first(self, openstack, stub_cloud, locked, monkeypatch, words, asked):
        terminal = io.StringIO(words)
        terminal.isatty = lambda: True
        monkeypatch.setattr("sys.stdin", terminal)
        result = openstack("project", "deletion", "restore", locked)
        assert result.code == (0 if asked else 1)
        assert [path.endswith("/restore") for path in stub_cloud.made("POST", "/cleanup")] == [True] * asked
        assert "[y/N]" in result.err

    def test_with_yes_there_is_no_prompt(self, openstack, stub_cloud, locked, monkeypatch):
        terminal = io.StringIO("")
        terminal.isatty = lambda: True
        monkeypatch.setattr("sys.stdin", terminal)
        result = openstack("project", "deletion", "restore", "--yes", locked)
        assert result.code == 0 and "[y/N]" not in result.err and "3 role assignments" in result.err

    def test_too_late_to_restore(self, openstack, stub_cloud, demo):
        result = openstack("project", "deletion", "restore", stub_cloud.add_deletion(demo, "deleting"))
        assert result.code == 1 and "not_restorable" in result.err

    def test_wait_shows_what_the_deletion_waits_for(self, openstack, stub_cloud, demo):
        asks = {"type": "approval", "status": True, "reason": "too_many_resources", "message": "m"}
        rests = {"status": "recoverable", "point_of_no_return_at": "2026-11-28T10:00:00Z"}
        stub_cloud.script(demo, "accepted", rests, rests | {"conditions": [asks]}, "deleted")
        result = openstack("project", "delete", "--async", "--cascade", "--wait", "demo")
        assert "recoverable until 2026-11-28T10:00:00Z" in result.err
        assert "recoverable, waiting for an approval" in result.err

    def test_show_names_the_approver(self, openstack, stub_cloud, demo):
        given = {"needed": "too_many_resources", "resources": 9, "user_name": "bob", "at": "2026", "reason": "ticket"}
        table = openstack("project", "deletion", "show", stub_cloud.add_deletion(demo, {"approvals": [given]})).out
        assert "bob at 2026 (too_many_resources, 9 resources): ticket" in table


class TestOrphans:
    GONE = "0" * 32

    @pytest.fixture
    def scan(self, stub_cloud):
        running = {"id": "s2", "status": "running", "message": "the second read"}
        parts = [
            {"region": "R1", "service": "network", "type": "port", "listed": 9, "candidates": 2, "orphans": 2,
             "outcome": "clear"},
            {"region": "R1", "service": "dns", "type": "zone", "outcome": "unknown", "message": "no answer"},
            {"region": "R1", "service": "image", "type": "image", "listed": 3, "outcome": "clear"},
        ]  # fmt: skip
        skipped = [{"region": "R1", "service": "object-store", "type": "container", "reason": "Swift has no list"}]
        ended = {"id": "s1", "status": "incomplete", "message": "2 orphans", "counts": {"orphans": 2, "calls": 7}}
        stub_cloud.scans = [running, {**ended, "coverage": parts, "not_covered": skipped, "links": []}]
        common = {"project_id": self.GONE, "region": "R1", "service": "network"}
        stub_cloud.orphans = [
            {**common, "type": "port", "id": "p1", "name": "=1+1", "project_setting": False},
            {**common, "type": "quota", "id": "q1", "name": "quota", "project_setting": True},
            {**common, "type": "port", "id": "p2", "name": "web", "project_setting": False},
        ]
        counts = [{"type": "network.port", "count": 2}]
        stub_cloud.orphan_projects = [
            {"project_id": self.GONE, "project_name": "demo", "orphans": 2, "counts": counts, "project_settings": []}
        ]

    def test_a_scan_is_begun_and_ended(self, openstack, stub_cloud):
        result = openstack("project", "orphan", "scan", "create", "-f", "json")
        assert (result.code, result.json["status"]) == (0, "accepted")
        result = openstack("project", "orphan", "scan", "cancel", result.json["id"])
        assert (result.code, result.out, stub_cloud.scans[0]["status"]) == (0, "", "cancelled")

    def test_scans_are_listed(self, openstack, stub_cloud, scan):
        rows = openstack("project", "orphan", "scan", "list", "-f", "json").json
        assert [(row["ID"], row["Status"]) for row in rows] == [("s2", "running"), ("s1", "incomplete")]
        openstack("project", "orphan", "scan", "list", "--status", "failed", "--limit", "3")
        assert stub_cloud.requests[-1]["query"] == {"status": ["failed"], "limit": ["3"]}

    def test_a_scan_says_what_it_could_not_see(self, openstack, scan):
        table = openstack("project", "orphan", "scan", "show", "s1").out
        for text in ("R1 network.port: listed 9, candidates 2, orphans 2, clear", "no answer", "1 other types"):
            assert text in table
        assert "R1 object-store.container: Swift has no list" in table
        shown = openstack("project", "orphan", "scan", "show", "s1", "-f", "json").json
        assert (shown["orphans"], shown["calls"], len(shown["coverage"])) == (2, 7, 3)

    def test_orphans_of_the_latest_scan_that_has_ended(self, openstack, stub_cloud, scan):
        rows = openstack("project", "orphan", "list", "-f", "json").json
        assert [row["ID"] for row in rows] == ["p1", "q1", "p2"]
        assert any(request["path"].endswith("/orphan-scans/s1/orphans") for request in stub_cloud.requests)
        rows = openstack("project", "orphan", "list", "--no-project-settings", "--type", "port", "-f", "json").json
        assert [row["ID"] for row in rows] == ["p1", "p2"]
        openstack("project", "orphan", "list", "--scan", "s1", "--project", self.GONE, "--type", "quota")
        assert stub_cloud.requests[-1]["query"] == {"project_id": [self.GONE], "type": ["quota"]}

    def test_no_cell_of_the_csv_is_a_formula(self, openstack, scan):
        lines = openstack("project", "orphan", "list", "-f", "csv", "-c", "Name").out.splitlines()
        assert lines[1] == '"\'=1+1"'
        assert openstack("project", "orphan", "list", "-f", "value", "-c", "Name").out.splitlines()[0] == "=1+1"

    def test_projects(self, openstack, scan):
        [row] = openstack("project", "orphan", "project", "list", "-f", "json").json
        assert (row["Project Name"], row["Counts"]) == ("demo", [{"type": "network.port", "count": 2}])
        assert "network.port: 2" in openstack("project", "orphan", "project", "list").out

    def test_adopt(self, openstack, stub_cloud, scan):
        result = openstack("project", "orphan", "adopt", self.GONE, "--dry-run", "-f", "json")
        assert (result.code, result.json["origin"], result.json["dry_run"]) == (0, "adopted", True)
        assert stub_cloud.requests[-1]["body"] == {"project_id": self.GONE, "dry_run": True}
        assert stub_cloud.requests[-1]["path"].endswith("/orphan-scans/s1/adopt")

    def test_without_a_scan_that_has_ended_it_says_what_to_do(self, openstack, stub_cloud):
        for command in (("list",), ("project", "list"), ("adopt", self.GONE)):
            result = openstack("project", "orphan", *command)
            assert (result.code, len(result.err.splitlines())) == (1, 1)
            assert "openstack project orphan scan create" in result.err

    def test_an_unknown_scan(self, openstack, stub_cloud):
        result = openstack("project", "orphan", "scan", "show", "nope")
        assert (result.code, len(result.err.splitlines())) == (1, 1)


COMMANDS = [
    "project delete",
    "project deletion list",
    "project deletion show",
    "project deletion leftovers",
    "project deletion events",
    "project deletion retry",
    "project deletion cancel",
    "project deletion force",
    "project deletion brake set",
    "project deletion brake show",
    "project deletion brake unset",
    "project deletion lien create",
    "project deletion lien list",
    "project deletion lien show",
    "project deletion lien delete",
    "project deletion approve",
    "project deletion restore",
    "project deletion plan show",
    "project deletion plan resources",
    "project deletion service list",
    "project deletion waiver create",
    "project deletion waiver list",
    "project deletion waiver show",
    "project deletion waiver delete",
    "project orphan adopt",
    "project orphan list",
    "project orphan project list",
    "project orphan scan cancel",
    "project orphan scan create",
    "project orphan scan list",
    "project orphan scan show",
    "project purge",
]


class TestHelp:
    @pytest.mark.parametrize("command", COMMANDS)
    def test_every_command_has_examples(self, openstack, stub_cloud, command):
        result = openstack(*command.split(), "--help")
        assert result.code == 0
        examples = [line for line in result.out.splitlines() if line.strip().startswith(f"openstack {command}")]
        assert examples
        assert all(line.startswith("  ") for line in examples)
        assert "This command is provided by the cleanup-orchestrator plugin." in result.out
        assert not stub_cloud.requests

    @pytest.mark.parametrize("command", COMMANDS)
    def test_examples_parse(self, openstack, stub_cloud, command):
        """Every example of the help is a command line that the command takes."""
        import importlib
        import shlex

        from openstackclient import shell

        for group in ("openstack.extension", "openstack.project_cleanup.v1"):
            for entry in importlib.metadata.entry_points(group=group):
                if entry.name.replace("_", " ") != command:
                    continue
                text = entry.load()._epilog
                for line in (x.strip() for x in text.splitlines()):
                    if line.startswith("openstack "):
                        words = shlex.split(line.partition(" | ")[0])[1 + len(command.split()) :]
                        entry.load()(shell.OpenStackShell(), None).get_parser("x").parse_args(words)
                return
        raise AssertionError(f"no entry point for {command}")
