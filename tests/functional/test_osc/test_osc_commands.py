"""``openstack project deletion …``: what is asked for, and what comes out in every format."""

import csv
import io

import pytest
import yaml

from tests.functional.test_osc import stub

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
        "blocked_by": [{"type": "compute.server", "id": "s1", "owner": "other"}],
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


@pytest.fixture
def demo(cloud):
    return cloud.add_project("demo")


class TestList:
    def test_all_pages(self, openstack, cloud, demo):
        ids = [cloud.add_deletion(demo, "deleted") for _ in range(5)]
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
            "Stalled": False,
            "Remaining": 0,
            "Created At": "2026-11-21T10:00:00Z",
        }
        assert result.json[0] == row
        # the links name an inner host, where no token may go
        assert len(cloud.made("GET", "/cleanup/v1/deletions")) == 3

    def test_limit_and_marker(self, openstack, cloud, demo):
        ids = [cloud.add_deletion(demo, "deleted") for _ in range(6)]
        result = openstack("project", "deletion", "list", "--limit", "3", "--marker", ids[1], "-f", "value", "-c", "ID")
        assert result.out.split() == ids[2:5]
        result = openstack("project", "deletion", "list", "--limit", "1", "-f", "value", "-c", "ID")
        assert result.out.split() == ids[:1]
        assert cloud.requests[-1]["query"] == {"limit": ["1"]}

    def test_filters(self, openstack, cloud, demo):
        args = ["--status", "live", "--status", "failed", "--mode", "cascade", "--project", "demo"]
        args += ["--domain", "Second", "--sort", "status:asc"]
        assert openstack("project", "deletion", "list", *args).code == 0
        assert cloud.requests[-1]["query"] == {
            "status": ["live", "failed"],
            "mode": ["cascade"],
            "project_id": [demo["id"]],
            "domain_id": ["d2"],
            "sort": ["status:asc"],
        }

    def test_project_that_is_gone(self, openstack, cloud, demo):
        other = cloud.add_project("other")
        ids = [cloud.add_deletion(demo, "failed"), cloud.add_deletion(other, "deleted")]
        ids.append(cloud.add_deletion(demo, "deleted"))
        del cloud.projects[demo["id"]]
        for name in ("demo", demo["id"]):
            result = openstack("project", "deletion", "list", "--project", name, "-f", "value", "-c", "ID")
            assert result.out.split() == [ids[0], ids[2]]
        result = openstack(
            "project", "deletion", "list", "--project", "demo", "--limit", "1", "-f", "value", "-c", "ID"
        )
        assert result.out.split() == ids[:1]

    def test_stalled_shows(self, openstack, cloud, demo):
        cloud.add_deletion(demo, {"status": "deleting", "stalled": True})
        assert openstack("project", "deletion", "list", "-f", "json").json[0]["Stalled"] is True

    def test_long(self, openstack, cloud, demo):
        cloud.add_deletion(demo, {"status": "failed", "reason": "project_has_children", "progress": {"unknown": 2}})
        row = openstack("project", "deletion", "list", "--long", "-f", "json").json[0]
        assert (row["Reason"], row["Unknown"], row["User"], row["Attempt"]) == ("project_has_children", 2, "admin", 1)

    def test_unknown_status(self, openstack, cloud):
        result = openstack("project", "deletion", "list", "--status", "nope")
        assert result.code == 2
        assert "invalid choice: 'nope'" in result.err


class TestShow:
    @pytest.fixture
    def id_(self, cloud, demo):
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
        return cloud.add_deletion(demo, state, newer="of a newer server")

    def test_table(self, openstack, id_):
        result = openstack("project", "deletion", "show", id_)
        assert result.code == 0
        cells = [[c.strip() for c in line.split("|")[1:-1]] for line in result.out.splitlines() if "|" in line]
        fields = dict(cells)
        assert fields["project_name"] == "demo"
        assert fields["conditions"] == "stalled: yes (NoProgress, nothing moved for 15 minutes)"
        assert fields["progress"] == "found 3, deleted 1, remaining 2, steps 5/6"
        assert fields["newer"] == "of a newer server"
        assert "links" not in fields
        lines = [value for _, value in cells]
        assert "RegionOne volume.volume: no answer from http://volume.example (unreachable)" in lines
        assert "remedy: start the service, or waive it" in lines
        assert "RegionOne network.port: found 3, deleted 1, remaining 2, kept 1; leftovers" in lines
        assert "RegionOne key-manager.secret: unknown (no answer)" in lines
        assert "4 other: nothing found" in lines
        assert "1 other: not looked at yet" in lines

    def test_json(self, openstack, cloud, id_):
        result = openstack("project", "deletion", "show", id_, "-f", "json")
        assert result.json == {k: v for k, v in cloud.deletions[id_][0].items() if k != "links"}

    def test_yaml(self, openstack, cloud, id_):
        result = openstack("project", "deletion", "show", id_, "-f", "yaml")
        assert yaml.safe_load(result.out)["blockers"] == [stub.BLOCKER]

    def test_one_column(self, openstack, id_):
        assert openstack("project", "deletion", "show", id_, "-f", "value", "-c", "status").out == "deleting\n"


class TestLeftovers:
    @pytest.fixture
    def id_(self, cloud, demo):
        id_ = cloud.add_deletion(demo, "leftovers")
        cloud.leftovers[id_] = LEFT
        return id_

    def test_all_pages(self, openstack, id_):
        result = openstack("project", "deletion", "leftovers", id_, "-f", "json")
        assert [row["ID"] for row in result.json] == ["p0", "p1", "p2", "p3", "p4"]
        assert list(result.json[0]) == ["Region", "Service", "Type", "ID", "Name", "Reason", "Remedy"]

    def test_long(self, openstack, id_):
        result = openstack("project", "deletion", "leftovers", "--long", id_, "-f", "json")
        assert result.json[0]["Blocked By"] == LEFT[0]["blocked_by"]
        assert result.json[0]["Message"] == "the port is used"
        assert "compute.server s1 of other" in openstack("project", "deletion", "leftovers", "--long", id_).out

    def test_filters(self, openstack, cloud, id_):
        args = ["--region", "R", "--service", "network", "--type", "port", "--reason", "in_use"]
        args += ["--limit", "2"]
        assert openstack("project", "deletion", "leftovers", id_, *args).code == 0
        assert cloud.requests[-1]["query"] == {
            "region": ["R"],
            "service": ["network"],
            "type": ["port"],
            "reason": ["in_use"],
            "limit": ["2"],
        }

    def test_csv_and_sorting(self, openstack, id_):
        args = ["--sort-column", "ID", "--sort-descending"]
        result = openstack("project", "deletion", "leftovers", id_, "-f", "csv", *args)
        rows = list(csv.DictReader(io.StringIO(result.out)))
        assert [row["ID"] for row in rows] == ["p4", "p3", "p2", "p1", "p0"]


class TestEvents:
    @pytest.fixture
    def id_(self, cloud, demo):
        id_ = cloud.add_deletion(demo, "deleting", "deleting", "deleted")
        cloud.events[id_] = EVENTS
        return id_

    def test_all_pages(self, openstack, id_):
        result = openstack("project", "deletion", "events", id_, "-f", "json")
        assert [row["ID"] for row in result.json] == [1, 2, 3, 4, 5]
        assert list(result.json[0]) == ["ID", "At", "Type", "Message", "Actor"]

    def test_long_and_type(self, openstack, cloud, id_):
        result = openstack("project", "deletion", "events", "--long", "--type", "resource.deleted", id_, "-f", "json")
        assert [(row["ID"], row["Data"]) for row in result.json] == [(n, {"n": n}) for n in (1, 3, 5)]

    def test_follow(self, openstack, cloud, id_):
        result = openstack("project", "deletion", "events", "--follow", id_)
        assert result.code == 0
        assert result.out.splitlines() == [f"{e['at']}  {e['type']}  {e['message']}" for e in EVENTS]

    def test_follow_picks_up_what_is_new(self, process, cloud, demo):
        id_ = cloud.add_deletion(demo, "deleting", "leftovers")
        cloud.events[id_] = EVENTS[:2]
        answer = cloud.answer

        def answering(method, path, query, body):
            if path.endswith("/events") and query.get("marker") == ["2"]:
                cloud.events[id_] = EVENTS
            return answer(method, path, query, body)

        cloud.answer = answering
        result = process("project", "deletion", "events", "--follow", id_, "-f", "json")
        assert result.code == 1
        assert [line[:8] for line in result.out.splitlines()] == [f'{{"id": {n}' for n in range(1, 6)]

    def test_follow_has_no_other_format(self, openstack, id_):
        for args in (["-f", "csv"], ["-c", "ID"], ["--limit", "3"]):
            result = openstack("project", "deletion", "events", "--follow", id_, *args)
            assert (result.code, len(result.err.splitlines())) == (1, 1)

    def test_follow_an_unknown_deletion(self, openstack):
        result = openstack("project", "deletion", "events", "--follow", "nope")
        assert result.code == 1
        assert "Find its id with: openstack project deletion list" in result.err


class TestServices:
    def test_json(self, openstack, cloud):
        cloud.services = [
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
                "answered_by": "nobody",
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
        table = openstack("project", "deletion", "service", "list").out
        assert "network, port" not in table
        assert "no plugin" in table


COMMANDS = [
    "project delete",
    "project deletion list",
    "project deletion show",
    "project deletion leftovers",
    "project deletion events",
    "project deletion retry",
    "project deletion cancel",
    "project deletion service list",
]


class TestHelp:
    @pytest.mark.parametrize("command", COMMANDS)
    def test_every_command_has_examples(self, openstack, cloud, command):
        result = openstack(*command.split(), "--help")
        assert result.code == 0
        examples = [line for line in result.out.splitlines() if line.strip().startswith(f"openstack {command}")]
        assert examples
        assert all(line.startswith("  ") for line in examples)
        assert "This command is provided by the cleanup-orchestrator plugin." in result.out
        assert not cloud.requests

    @pytest.mark.parametrize("command", COMMANDS)
    def test_examples_parse(self, openstack, cloud, command):
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
