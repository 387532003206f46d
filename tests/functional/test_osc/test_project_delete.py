"""``openstack project delete``: the stock command without ``--async``, a cleanup with it."""

import pytest
from openstackclient.identity.v3 import project as stock

from cleanup_orchestrator.osc.project_delete import DeleteProject
from tests.functional.test_osc import stub


def bodies(stub_cloud):
    return [r["body"] for r in stub_cloud.requests if r["method"] == "POST" and r["path"] == "/cleanup/v1/deletions"]


class TestWithoutAsync:
    def test_it_is_the_stock_command(self, openstack, stub_cloud):
        demo = stub_cloud.add_project("demo")
        result = openstack("project", "delete", "demo")
        assert (result.code, result.out, result.err) == (0, "", "")
        assert stub_cloud.made("DELETE") == [f"/identity/v3/projects/{demo['id']}"]
        assert not stub_cloud.made("POST", "/cleanup")
        assert not stub_cloud.made("GET", "/cleanup")

    def test_with_no_project_cleanup_in_the_cloud(self, openstack, stub_cloud):
        stub_cloud.catalog = False
        stub_cloud.add_project("demo")
        assert openstack("project", "delete", "demo").code == 0
        assert len(stub_cloud.made("DELETE")) == 1

    def test_the_command_has_the_errors_of_the_stock_command(self, openstack, stub_cloud):
        stub_cloud.add_project("demo")
        result = openstack("project", "delete", "nope", "demo")
        assert result.code == 1
        assert "Failed to delete project with name or ID 'nope'" in result.err
        assert "1 of 2 projects failed to delete." in result.err
        assert result.out == ""
        assert len(stub_cloud.made("DELETE")) == 1

    def test_domain(self, openstack, stub_cloud):
        stub_cloud.add_project("demo")
        other = stub_cloud.add_project("demo", "d2")
        assert openstack("project", "delete", "--domain", "Second", "demo").code == 0
        assert stub_cloud.made("DELETE") == [f"/identity/v3/projects/{other['id']}"]

    @pytest.mark.parametrize(
        "options",
        [["--cascade"], ["--dry-run"], ["--wait"], ["--wait-timeout", "5"], ["--cascade", "--wait"], ["-f", "json"]],
    )
    def test_options_of_async_delete_nothing(self, openstack, stub_cloud, options):
        stub_cloud.add_project("demo")
        result = openstack("project", "delete", *options, "demo")
        assert result.code == 2
        assert "only with --async; nothing was deleted" in result.err
        assert len(result.err.splitlines()) == 1
        assert not stub_cloud.made("DELETE")
        assert not stub_cloud.made("POST", "/cleanup")

    def test_every_stock_option_is_there_unchanged(self):
        def options(command):
            parser = command(None, None).get_parser("x")
            return {
                tuple(a.option_strings) or a.dest: (a.dest, a.help, a.nargs, a.default, a.required)
                for a in parser._actions
            }

        extended, theirs = options(DeleteProject), options(stock.DeleteProject)
        projects = theirs.pop("projects")
        assert {name: extended[name] for name in theirs} == theirs
        assert extended["projects"] == tuple("*" if each == "+" else each for each in projects), "or a file names them"

    def test_without_a_project_nothing_is_deleted(self, openstack, stub_cloud):
        for options in ((), ("--async",), ("--async", "--from-file", "x", "demo")):
            result = openstack("project", "delete", *options)
            assert result.code == 2 and "name the projects to delete" in result.err
        assert not stub_cloud.made("DELETE")

    def test_exit_code_of_a_process(self, process, stub_cloud):
        demo = stub_cloud.add_project("demo")
        assert process("project", "delete", demo["id"]).code == 0
        assert process("project", "delete", demo["id"]).code == 1


class TestRequest:
    def test_report_is_the_default(self, openstack, stub_cloud):
        demo = stub_cloud.add_project("demo")
        result = openstack("project", "delete", "--async", "demo", "-f", "json")
        assert result.code == 0
        assert bodies(stub_cloud) == [{"project_id": demo["id"], "mode": "report", "dry_run": False}]
        (id_,) = stub_cloud.deletions
        row = {"Project": "demo", "Project ID": demo["id"], "Deletion ID": id_, "Status": "accepted"}
        assert result.json == [row]
        assert result.err == (
            "The deletion goes on in the background. Follow it with: "
            f"openstack project deletion events --follow {id_}\n"
        )
        assert openstack("-q", "project", "delete", "--async", "demo").err == ""
        assert not stub_cloud.made("DELETE")

    def test_cascade_and_dry_run(self, openstack, stub_cloud):
        demo = stub_cloud.add_project("demo")
        assert openstack("project", "delete", "--async", "--cascade", "--dry-run", demo["id"]).code == 0
        assert bodies(stub_cloud) == [{"project_id": demo["id"], "mode": "cascade", "dry_run": True}]

    def test_a_subtree(self, openstack, stub_cloud):
        demo = stub_cloud.add_project("demo")
        assert openstack("project", "delete", "--async", "--include-subtree", "demo").code == 0
        assert bodies(stub_cloud) == [
            {"project_id": demo["id"], "mode": "report", "dry_run": False, "include_subtree": True}
        ]

    def test_output_for_scripts(self, openstack, stub_cloud):
        one, two = stub_cloud.add_project("one"), stub_cloud.add_project("two")
        result = openstack("project", "delete", "--async", one["id"], "two", "-f", "value", "-c", "Deletion ID")
        assert result.out.split() == list(stub_cloud.deletions)
        assert {b["project_id"] for b in bodies(stub_cloud)} == {one["id"], two["id"]}

    def test_one_that_fails_hides_none(self, openstack, stub_cloud):
        stub_cloud.add_project("one")
        stub_cloud.add_project("two")
        result = openstack("project", "delete", "--async", "one", "nope", "two", "-f", "json")
        assert result.code == 1
        assert [row["Project"] for row in result.json] == ["one", "two"]
        assert result.err.splitlines() == [
            "Cannot delete project 'nope': no project with the name or id 'nope'",
            "1 of 3 requests failed",
            "The 2 deletions go on in the background. See them with: openstack project deletion list --status live",
        ]

    @pytest.mark.parametrize(
        "options", [["--async", "--cascad"], ["--asyn", "--cascade"], ["--async", "--cascade", "--ye"], ["--cas"]]
    )
    def test_the_beginning_of_an_option_is_not_the_option(self, openstack, stub_cloud, options):
        stub_cloud.add_project("demo")
        result = openstack("project", "delete", *options, "demo")
        assert result.code == 2 and "unrecognized arguments" in result.err
        assert not bodies(stub_cloud) and not stub_cloud.made("DELETE")

    def test_the_options_of_the_client_itself_keep_their_short_forms(self, openstack, stub_cloud):
        stub_cloud.add_project("demo")
        assert openstack("--os-project-n", "admin", "project", "delete", "--async", "demo").code == 0

    def test_the_refusal_of_a_subtree_has_names_and_ids(self, openstack, stub_cloud):
        stub_cloud.add_project("demo")
        child = stub_cloud.add_project("chi\x1bld")
        refused = stub_cloud.error(409, "project_has_children", "text", children=[child["id"], "0" * 32])
        stub_cloud.answers["POST", "/cleanup/v1/deletions"] = [refused]
        said = openstack("project", "delete", "--async", "demo").err
        assert f"there are projects below this one: chi?ld ({child['id']}); {'0' * 32}; delete them first" in said

    def test_the_same_project_twice_is_one_deletion(self, openstack, stub_cloud):
        demo = stub_cloud.add_project("demo")
        id_ = stub_cloud.add_deletion(demo, "accepted")
        stub_cloud.answers["POST", "/cleanup/v1/deletions"] = [(202, {"deletion": stub_cloud.deletions[id_][0]}, {})]
        result = openstack("project", "delete", "--async", "demo", demo["id"], "-f", "json")
        assert [row["Deletion ID"] for row in result.json] == [id_]

    def test_domain_of_a_name(self, openstack, stub_cloud):
        stub_cloud.add_project("demo")
        other = stub_cloud.add_project("demo", "d2")
        assert openstack("project", "delete", "--async", "--domain", "Second", "demo").code == 0
        assert bodies(stub_cloud)[0]["project_id"] == other["id"]

    def test_a_name_that_two_projects_have(self, openstack, stub_cloud):
        stub_cloud.add_project("demo")
        stub_cloud.add_project("demo", "d2")
        result = openstack("project", "delete", "--async", "demo")
        assert result.code == 1
        expected = "Cannot delete project 'demo': more than one project has the name 'demo': give its id, or --domain\n"
        assert result.err == expected
        assert result.out == ""
        assert not bodies(stub_cloud)

    def test_an_unknown_domain(self, openstack, stub_cloud):
        stub_cloud.add_project("demo")
        result = openstack("project", "delete", "--async", "--domain", "nope", "demo")
        assert result.code == 1
        assert result.err == "Cannot delete project 'demo': no domain with the name or id 'nope'\n"

    def test_ids_work_for_a_user_who_cannot_read_projects(self, openstack, stub_cloud):
        demo = stub_cloud.add_project("demo")
        forbidden = [(403, {"error": {"code": 403, "message": "no"}}, {})]
        stub_cloud.answers["GET", "/identity/v3/projects"] = forbidden
        stub_cloud.answers["GET", f"/identity/v3/projects/{demo['id']}"] = forbidden
        assert openstack("project", "delete", "--async", demo["id"]).code == 0
        assert bodies(stub_cloud)[0]["project_id"] == demo["id"]

    def test_conflict_names_the_deletion_under_way(self, openstack, stub_cloud):
        stub_cloud.add_project("demo")
        detail = "Another deletion of the project is under way."
        stub_cloud.answers["POST", "/cleanup/v1/deletions"] = [
            stub_cloud.error(409, "deletion_under_way", detail, deletion_id="the-other")
        ]
        result = openstack("project", "delete", "--async", "--cascade", "demo")
        assert result.code == 1
        assert result.err == (
            "Cannot delete project 'demo': Another deletion of the project is under way "
            f"(HTTP 409, deletion_under_way, {stub.REQUEST_ID}). "
            "See it with: openstack project deletion show the-other\n"
        )

    @pytest.mark.parametrize("value", ["0", "-1", "nan", "soon"])
    def test_wait_timeout_is_a_number_above_zero(self, openstack, stub_cloud, value):
        stub_cloud.add_project("demo")
        result = openstack("project", "delete", "--async", "--wait", f"--wait-timeout={value}", "demo")
        assert result.code == 2
        assert "is not a number above 0" in result.err
        assert not bodies(stub_cloud)

    def test_wait_timeout_needs_wait(self, openstack, stub_cloud):
        stub_cloud.add_project("demo")
        result = openstack("project", "delete", "--async", "--wait-timeout", "5", "demo")
        assert (result.code, result.err) == (2, "--wait-timeout needs --wait\n")
        assert not bodies(stub_cloud)
