"""``openstack project deletion …``: the requests, and the output in every format."""

import csv
import importlib.metadata
import io
import subprocess

import pytest
import yaml

from tests.functional.test_api import contract
from tests.functional.test_osc import stub

CLIFF = tuple(int(part) for part in importlib.metadata.version("cliff").split(".")[:2])
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
            "Attention": [],
            "Remaining": 0,
            "Created At": "2026-11-21T10:00:00Z",
        }
        assert result.json[0].items() >= row.items()
        # the links name an inner host, where no token may go
        assert len(stub_cloud.made("GET", "/cleanup/v1/deletions")) == 3

    def test_limit_and_marker(self, openstack, stub_cloud, demo):
        ids = [stub_cloud.add_deletion(demo, "deleted") for _ in range(6)]
        result = openstack("project", "deletion", "list", "--limit", "3", "--marker", ids[1], "-f", "value", "-c", "ID")
        assert result.out.split() == ids[2:5]
        result = openstack("project", "deletion", "list", "--limit", "1", "-f", "value", "-c", "ID")
        assert result.out.split() == ids[:1]
        assert stub_cloud.requests[-1]["query"] == {"limit": ["1"]}

    @pytest.mark.parametrize("format_", ["json", "value", "table"])
    def test_a_column_that_cannot_be_sorted_loses_no_row(self, openstack, stub_cloud, demo, format_):
        ids = [stub_cloud.add_deletion(demo, "purged", selection={"tags": [f"t{n}"]}) for n in range(3)]
        result = openstack("project", "deletion", "list", "--long", "--sort-column", "Selection", "-f", format_)
        if CLIFF < (4, 16):  # it takes the number of the column for that of the option, and ends with an error
            assert result.code == 1 and result.err == "list index out of range\n"
            return
        assert result.code == 0 and "Could not sort on field 'Selection'" in result.err
        assert all(id_ in result.out for id_ in ids)

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
        assert openstack("project", "deletion", "list", "-f", "json").json[0]["Attention"] == [*fields]
        assert f"| {next(iter(fields))} " in openstack("project", "deletion", "list").out

    def test_long(self, openstack, stub_cloud, demo):
        stub_cloud.add_deletion(
            demo, {"status": "failed", "reason": "project_has_children", "progress": {"unknown": 2}}
        )
        row = openstack("project", "deletion", "list", "--long", "-f", "json").json[0]
        assert (row["Reason"], row["Unknown"], row["User"], row["Attempt"]) == ("project_has_children", 2, "admin", 1)

    def test_a_list_without_a_deletion_that_needs_a_person_says_so(self, openstack, stub_cloud, demo):
        result = openstack("project", "deletion", "list", "--attention", "-f", "json")
        assert (result.code, result.out.strip(), result.err) == (0, "[]", "No deletion needs you.\n")
        result = openstack("project", "deletion", "list", "--attention", "--mode", "purge", "-f", "json")
        assert (result.json, result.err) == ([], "None of these deletions needs you.\n")
        assert openstack("project", "deletion", "list", "-f", "json").err == ""

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
        assert "1 other: not listed in this attempt" in lines

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
                "attention": ["blocked"],
                "attention_message": "clear what blocks it",
            },
            {
                "deletion_id": "d2",
                "project_id": "p2",
                "project_name": "",
                "status": "deleted",
                "attention": [],
                "attention_message": "",
            },
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
            "Type", "ID", "Name", "Reason", "Region", "Service", "Size", "Blocked By", "Remedy", "Commands", "Message",
            "Abandoned", "Owner",
        ]  # fmt: skip
        assert openstack("project", "deletion", "leftovers", id_).out.splitlines()[1].split("|")[1:-1] == [
            " Type ", " ID ", " Name   ", " Reason ",
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

    def test_what_to_do_follows_a_table(self, openstack, stub_cloud, id_):
        told = "What to do:\n  5 in_use: delete the server\n"
        assert openstack("project", "deletion", "leftovers", id_).err == told
        for more in (["--long"], ["-c", "ID"], ["-f", "json"]):
            assert openstack("project", "deletion", "leftovers", id_, *more).err == ""

    def test_what_blocks_a_leftover_is_a_column(self, openstack, id_):
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
        heads = ["Project", "Type", "ID", "Reason", "Project ID", "Region", "Service", "Name", "Size", "Blocked By"]
        assert list(result.json[0])[:10] == heads
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
        names = ["At", "Message", "Actor", "ID", "Type", "Request ID", "Data", "Sequence", "Digest"]
        assert list(result.json[0]) == names

    def test_a_table_has_one_line_for_each_event_and_the_name_of_the_user(self, openstack, stub_cloud, id_):
        stub_cloud.deletions[id_][0] |= {"user_id": "u7", "user_name": "alice"}
        rows = [{**EVENTS[0], "actor": "u7"}, {**EVENTS[1], "actor": "u9"}]
        stub_cloud.events[id_] = [*rows, {**EVENTS[2], "message": "two\nlines"}]
        lines = openstack("project", "deletion", "events", id_).out.splitlines()
        assert [line.split("|")[3].strip() for line in lines if "|" in line] == ["Actor", "alice", "u9", "worker-1"]
        result = openstack("project", "deletion", "events", id_, "-f", "json")
        assert [row["Actor"] for row in result.json] == ["u7", "u9", "worker-1"]

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
        assert list(result.json[0])[:6] == ["Deletion ID", "Project", "Type", "Project ID", "At", "Message"]
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
    "project deletion brake lift",
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

        groups = ("openstack.extension", "openstack.project_cleanup.v1")
        for entry in importlib.metadata.distribution("cleanup-orchestrator").entry_points:
            if entry.group not in groups or entry.name.replace("_", " ") != command:
                continue
            text = entry.load()._epilog
            for line in (x.strip() for x in text.splitlines()):
                if line.startswith("openstack "):
                    words = shlex.split(line.partition(" | ")[0])[1 + len(command.split()) :]
                    entry.load()(shell.OpenStackShell(), None).get_parser("x").parse_args(words)
            return
        raise AssertionError(f"no entry point for {command}")
