"""``openstack project purge``: deletes what is selected, and keeps the project."""

import datetime
import shlex

import pytest

from cleanup_orchestrator.osc import selection
from tests.functional.test_osc import stub

PURGE = ("project", "purge")
BEFORE = "2026-11-01T00:00:00Z"
CHOSEN = {
    "services": ["nova"],
    "types": ["network.port"],
    "skip": ["image", "dns.zone"],
    "tags": ["old", "test"],
    "not_tags": ["keep", "hold"],
    "names": ["web-*", "-x?"],
    "not_names": ["prod [a]"],
    "created_before": BEFORE,
    "updated_before": "2026-11-02T00:00:00Z",
}
WORDS = (
    "services nova and types network.port except image, dns.zone, with the tags old and test, without the tags keep or "
    f"hold, named web-* or -x?, not named prod [a], created before {BEFORE}, changed last before 2026-11-02T00:00:00Z"
)
OPTIONS = [
    *("--service", "nova", "--type", "network.port", "--skip", "image", "--skip", "dns.zone"),
    *("--tag", "old", "--tag", "test", "--not-tag", "keep", "--not-tag", "hold"),
    *("--name", "web-*", "--name=-x?", "--not-name", "prod [a]"),
    *("--created-before", BEFORE, "--updated-before", "2026-11-02T00:00:00Z"),
]


def bodies(cloud):
    return [r["body"] for r in cloud.requests if r["method"] == "POST" and r["path"] == "/cleanup/v1/deletions"]


def plan_of(stub_cloud, demo, **chosen):
    """Record a dry run and its plan; return the id."""
    wanted = stub.NO_SELECTION | chosen
    id_ = stub_cloud.add_deletion(demo, "planned", mode="purge", dry_run=True, selection=wanted)
    types = [{"region": "R1", "service": "compute", "type": "server", "delete": 8, "keep": 2}]
    stub_cloud.plans[id_] = {"id": id_, "mode": "purge", "selection": wanted, "complete": True, "types": types}
    stub_cloud.plans[id_]["created_at"] = "2026-11-21T10:00:00Z"
    return id_


class TestRequest:
    def test_without_options_it_requests_everything(self, openstack, stub_cloud, demo):
        result = openstack(*PURGE, "demo", "-f", "json")
        assert result.code == 0 and "[y/N]" not in result.err
        assert bodies(stub_cloud) == [{"project_id": demo["id"], "mode": "purge", "dry_run": False}]
        assert [row["Status"] for row in result.json] == ["accepted"]

    def test_the_options_are_the_selection(self, openstack, stub_cloud, demo):
        assert openstack(*PURGE, *OPTIONS, "--dry-run", "demo").code == 0
        assert bodies(stub_cloud) == [{"project_id": demo["id"], "mode": "purge", "dry_run": True, "selection": CHOSEN}]

    @pytest.mark.parametrize(
        ("option", "field"), [("--older-than", "created_before"), ("--not-updated-for", "updated_before")]
    )
    def test_an_age_is_the_same_time_for_all_projects(self, openstack, stub_cloud, demo, option, field):
        stub_cloud.add_project("other")
        now = datetime.datetime.now(datetime.timezone.utc)
        assert openstack(*PURGE, option, "30d", "demo", "other").code == 0
        [first, second] = [body["selection"] for body in bodies(stub_cloud)]
        assert first == second and set(first) == {field}
        found = datetime.datetime.fromisoformat(first[field].replace("Z", "+00:00"))
        assert datetime.timedelta(days=30) - datetime.timedelta(minutes=2) <= now - found
        assert now - found <= datetime.timedelta(days=30) + datetime.timedelta(seconds=1)
        assert not found.microsecond and found.tzinfo is not None

    def test_a_plan(self, openstack, stub_cloud, demo):
        assert openstack(*PURGE, "--plan", stub.PLAN_ID, "--plan-hash", stub.PLAN_HASH, "demo").code == 0
        expected = {
            "project_id": demo["id"],
            "mode": "purge",
            "dry_run": False,
            "plan_id": stub.PLAN_ID,
            "plan_hash": stub.PLAN_HASH,
        }
        assert bodies(stub_cloud) == [expected]

    def test_async_and_keep_project_always_hold(self, openstack, stub_cloud, demo):
        assert openstack(*PURGE, "--async", "--keep-project", "demo").code == 0
        assert bodies(stub_cloud) == [{"project_id": demo["id"], "mode": "purge", "dry_run": False}]

    def test_the_domain_of_a_name(self, openstack, stub_cloud, demo):
        other = stub_cloud.add_project("demo", "d2")
        assert openstack(*PURGE, "--domain", "Second", "demo").code == 0
        assert bodies(stub_cloud)[0]["project_id"] == other["id"]

    @pytest.mark.parametrize(
        "options",
        [
            ["--plan", "p", "--tag", "old"],
            ["--plan", "p", "--older-than", "30d"],
            ["--plan", "p", "--service", "nova"],
            ["--plan", "p", "--type", "a.b"],
            ["--plan", "p", "--created-before", "2026-01-01"],
            *(["--plan", "p", option, "x"] for option in ("--skip", "--not-tag", "--name", "--not-name")),
            ["--plan", "p", "--updated-before", "2026-01-01"],
            ["--plan", "p", "--not-updated-for", "30d"],
            *([option, value] for option in ("--skip", "--not-tag", "--name", "--not-name") for value in ("", " ")),
            ["--not-updated-for", "30d", "--updated-before", "2026-01-01"],
            ["--not-updated-for", "9999999d"],
            ["--updated-before", "yesterday"],
            ["--plan", "p", "--dry-run"],
            ["--plan-hash", "h"],
            ["--plan", ""],
            ["--plan", "p", "--plan-hash", " "],
            ["--tag", ""],
            ["--service", " "],
            ["--type", ""],
            ["--older-than", "30d", "--created-before", "2026-01-01"],
            ["--older-than", "30"],
            ["--older-than", "0d"],
            ["--older-than", "1.5d"],
            ["--older-than", "-1d"],
            ["--older-than", "999999999w"],
            ["--older-than", "9999999d"],
            ["--created-before", "yesterday"],
            ["--wait-timeout", "5"],
        ],
    )
    def test_wrong_command_lines_delete_nothing(self, openstack, stub_cloud, demo, options):
        assert openstack(*PURGE, *options, "demo").code == 2
        assert not bodies(stub_cloud)

    def test_a_plan_is_of_one_project(self, openstack, stub_cloud, demo):
        stub_cloud.add_project("other")
        result = openstack(*PURGE, "--plan", "p", "demo", "other")
        assert (result.code, bodies(stub_cloud)) == (2, [])
        assert result.err == "--plan needs exactly one project, and no --dry-run; nothing was deleted\n"

    def test_a_typo_is_said_in_the_words_of_the_command_line(self, openstack, stub_cloud, demo):
        where = {"field": "selection", "path": "$.selection"}
        where["expected"] = "names no service of this cloud; did you mean network?"
        stub_cloud.answers["POST", "/cleanup/v1/deletions"] = [
            stub_cloud.error(400, "invalid_body", f"'selection' {where['expected']}", **where)
        ]
        result = openstack(*PURGE, "--service", "netwrk", "demo")
        assert result.code == 2
        assert "--service, --type or --skip names no service of this cloud; did you mean network?" in result.err

    @pytest.mark.parametrize("option", ["--plan", "--plan-hash"])
    def test_an_empty_plan_of_a_cascade_deletes_nothing(self, openstack, stub_cloud, demo, option):
        """An unset variable of a script must not turn a deletion by a plan into one of everything."""
        assert openstack("project", "delete", "--async", "--cascade", option, "", "demo").code == 2
        assert not bodies(stub_cloud)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("5m", 300), ("12h", 43200), ("30d", 2592000), ("2w", 1209600)]
)
def test_an_age_has_a_unit(text, seconds):
    assert selection.age(text).total_seconds() == seconds


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ({}, ""),
        (None, ""),
        ({"services": ["compute", "network"]}, "services compute, network"),
        ({"tags": ["a"]}, "with the tag a"),
        ({"skip": ["image"]}, "all types except image"),
        ({"not_tags": ["a"], "not_names": ["b*"]}, "without the tag a, not named b*"),
        (CHOSEN, WORDS),
        ({"tags": ["a\x1b[2J"]}, "with the tag a?[2J"),
    ],
)
def test_a_selection_in_words(chosen, words):
    assert selection.text(chosen) == words


class TestQuestion:
    @pytest.mark.parametrize(("words", "yes"), [("y\n", True), ("\n", False)])
    def test_only_yes_goes_on(self, openstack, stub_cloud, demo, terminal, words, yes):
        terminal(words)
        result = openstack(*PURGE, "demo")
        assert (result.code, len(bodies(stub_cloud))) == ((0, 1) if yes else (1, 0))
        assert f"Nothing is selected. So ALL resources of project demo ({demo['id']}) will be deleted." in result.err
        assert "The project stays." in result.err
        assert f"List it first with: openstack project purge --dry-run --wait {demo['id']}\n" in result.err

    @pytest.mark.parametrize("option", ["--yes", "--dry-run"])
    def test_it_is_not_asked(self, openstack, stub_cloud, demo, terminal, option):
        terminal("")
        assert openstack(*PURGE, option, "demo").code == 0
        assert len(bodies(stub_cloud)) == 1

    def test_it_names_the_selection(self, openstack, demo, terminal):
        terminal("n\n")
        said = openstack(*PURGE, *OPTIONS, "demo").err
        assert f"Of project demo ({demo['id']}), only this is selected: {WORDS}. These resources" in said
        hint = shlex.join(OPTIONS)
        assert f"openstack project purge {hint} --dry-run --wait {demo['id']}\n" in said

    def test_it_names_what_the_dry_run_of_the_same_selection_found(self, openstack, stub_cloud, demo, terminal):
        plan_of(stub_cloud, demo, types=["compute.server"], created_before="2026-10-22T09:59:00Z")
        terminal("n\n")
        said = openstack(*PURGE, "--type", "compute.server", "--older-than", "30d", "demo").err
        assert "(dry run of 2026-11-21T10:00:00Z): 8 resources in 1 service\n    8 servers\n" in said

    @pytest.mark.parametrize(
        "options",
        [
            [],
            ["--type", "compute.server"],
            ["--tag", "b", "--older-than", "1d"],
            ["--tag", "a", "--older-than", "1d", "--skip", "image"],
            ["--tag", "a", "--older-than", "1d", "--not-updated-for", "1d"],
        ],
    )
    def test_the_dry_run_of_another_selection_says_nothing(self, openstack, stub_cloud, demo, terminal, options):
        plan_of(stub_cloud, demo, tags=["a"], created_before=BEFORE)
        terminal("n\n")
        assert "What it has is not known yet." in openstack(*PURGE, *options, "demo").err

    def test_the_dry_run_of_a_cascade_says_nothing(self, openstack, stub_cloud, demo, terminal):
        id_ = stub_cloud.add_deletion(demo, "planned", mode="cascade", dry_run=True)
        stub_cloud.plans[id_] = {"id": id_, "created_at": "2026-11-21T10:00:00Z", "types": []}
        terminal("n\n")
        assert "What it has is not known yet." in openstack(*PURGE, "demo").err

    def test_it_names_the_plan_and_its_selection(self, openstack, stub_cloud, demo, terminal):
        id_ = plan_of(stub_cloud, demo, tags=["old"])
        terminal("n\n")
        said = openstack(*PURGE, "--plan", id_, "demo").err
        assert f"The resources of project demo ({demo['id']}) that the plan names will be deleted." in said
        assert "  The plan selects: with the tag old\n" in said and "    8 servers\n" in said

    def test_a_purge_that_is_under_way_is_only_followed(self, openstack, stub_cloud, demo, terminal):
        stub_cloud.add_deletion(demo, "deleting", mode="purge")
        terminal("")
        result = openstack(*PURGE, "demo")
        assert result.code == 0 and "[y/N]" not in result.err


class TestEnd:
    def ends(self, stub_cloud, demo, status, **fields):
        counts = [
            stub.count("compute", "server", found=3, deleted=3),
            stub.count(
                *("network", "port"), found=5, deleted=1, remaining=4, unselected=4, outcome="leftovers",
                reason="not_selected",
            ),
        ]  # fmt: skip
        end = {"status": status, "counts": counts, "progress": {"found": 8, "deleted": 4, "remaining": 4}}
        stub_cloud.script(demo, {"status": "accepted"}, end | fields)

    def test_purged_is_what_was_requested(self, openstack, stub_cloud, demo):
        self.ends(stub_cloud, demo, "purged", message="what was selected is gone")
        result = openstack(*PURGE, "--wait", "demo")
        assert result.code == 0
        assert "(purge mode)" in result.err
        assert "demo: purged after 0s; found 8, deleted 4, remaining 4, not selected 4\n" in result.err
        assert "what was selected is gone\n" in result.err
        assert "| RegionOne | network | port |    4 | 4 not selected" in result.err
        assert "openstack project deletion leftovers" in result.err and "retry" not in result.err

    @pytest.mark.parametrize("status", ["leftovers", "failed", "cancelled", "deleted"])
    def test_any_other_end_is_none(self, openstack, stub_cloud, demo, status):
        self.ends(stub_cloud, demo, status)
        assert openstack(*PURGE, "--wait", "demo").code == 1

    def test_a_dry_run_ends_as_planned(self, openstack, stub_cloud, demo):
        self.ends(stub_cloud, demo, "planned")
        result = openstack(*PURGE, "--dry-run", "--wait", "demo")
        assert result.code == 0
        assert (
            "4 not selected" in result.err and "See the plan with: openstack project deletion plan show" in result.err
        )

    def test_a_cascade_that_ends_as_emptied_did_not_end_as_requested(self, openstack, stub_cloud, demo):
        self.ends(stub_cloud, demo, "purged")
        assert openstack("project", "delete", "--async", "--cascade", "--wait", "demo").code == 1


class TestShow:
    def test_a_deletion_has_its_selection_in_words(self, openstack, stub_cloud, demo):
        id_ = stub_cloud.add_deletion(demo, "purged", mode="purge", selection=CHOSEN)
        assert "| selection    | services nova and types" in openstack("project", "deletion", "show", id_).out
        shown = openstack("project", "deletion", "show", id_, "-f", "json").json
        assert shown["selection"] == CHOSEN
        [row] = openstack("project", "deletion", "list", "--mode", "purge", "--long", "-f", "json").json
        assert row["Selection"] == CHOSEN and row["Status"] == "purged"

    def test_a_deletion_of_everything_has_none(self, openstack, stub_cloud, demo):
        id_ = stub_cloud.add_deletion(demo, "purged", mode="purge")
        assert "selection" not in openstack("project", "deletion", "show", id_).out

    def test_a_plan_has_its_selection_in_words(self, openstack, stub_cloud, demo):
        id_ = plan_of(stub_cloud, demo, tags=["old"])
        said = openstack("project", "deletion", "plan", "show", id_).out
        assert "with the tag old" in said and "| purge" in said
        assert openstack("project", "deletion", "plan", "show", id_, "-f", "json").json["selection"]["tags"] == ["old"]
