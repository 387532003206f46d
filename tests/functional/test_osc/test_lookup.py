"""A deletion is found by the name or id of its project: the live one, or else the latest; never a guess."""

import pytest

from tests.functional.test_osc import stub


def gone(cloud, *projects):
    for project in projects:
        del cloud.projects[project["id"]]


def at(hour):
    return {"created_at": f"2026-11-21T{hour:02}:00:00Z"}


def shown(openstack, *args):
    """Return the id of the deletion that a command shows."""
    result = openstack("project", "deletion", "show", "-f", "value", "-c", "id", *args)
    assert result.code == 0, result.err
    return result.out.strip()


def refused(openstack, *args, command="show"):
    result = openstack("project", "deletion", command, *args)
    assert (result.code, result.out) == (1, "")
    [line] = result.err.splitlines()
    return line


def test_by_name_or_id_the_live_deletion_comes_before_a_later_one(openstack, stub_cloud, demo):
    live = stub_cloud.add_deletion(demo, "deleting", **at(9))
    planned = stub_cloud.add_deletion(demo, "planned", **at(11))
    for name in ("demo", demo["id"], live):
        assert shown(openstack, name) == live
    assert shown(openstack, planned) == planned


def test_without_a_live_deletion_the_latest_is_meant(openstack, stub_cloud, demo):
    stub_cloud.add_deletion(demo, "failed", **at(9))
    latest = stub_cloud.add_deletion(demo, "deleted", **at(11))
    stub_cloud.add_deletion(demo, "leftovers", **at(10))
    for name in ("demo", demo["id"]):
        assert shown(openstack, name) == latest
    gone(stub_cloud, demo)
    for name in ("demo", demo["id"]):
        assert shown(openstack, name) == latest


def test_each_command_takes_a_project(openstack, stub_cloud, demo):
    id_ = stub_cloud.add_deletion(demo, "leftovers")
    stub_cloud.after[id_, "retry"] = [stub.deletion(demo, "leftovers")]
    stub_cloud.after[id_, "cancel"] = [stub.deletion(demo, "leftovers")]
    stub_cloud.after[id_, "restore"] = [stub.deletion(demo, "leftovers")]
    stub_cloud.after[id_, "approve"] = True
    for command in ("retry", "cancel", "restore", "approve --reason x", "leftovers", "events", "events --follow"):
        verb = command.split()[0]
        result = openstack("project", "deletion", *command.split(), "demo")
        assert result.code == (1 if command == "events --follow" else 0), result.err
        method = "GET" if verb in ("leftovers", "events") else "POST"
        assert stub_cloud.made(method)[-1] == f"/cleanup/v1/deletions/{id_}/{verb}"


def test_several_projects_of_one_command(openstack, stub_cloud, demo):
    other = stub_cloud.add_project("other")
    ids = [stub_cloud.add_deletion(project, "leftovers") for project in (demo, other)]
    for id_, project in zip(ids, (demo, other)):
        stub_cloud.after[id_, "retry"] = [stub.deletion(project, "accepted")]
    result = openstack("project", "deletion", "retry", "demo", "nosuch", ids[1], "-f", "value", "-c", "Deletion ID")
    assert (result.code, result.out.split()) == (1, ids)
    assert "Cannot retry deletion 'nosuch': no deletion and no project has the name or ID 'nosuch'" in result.err


@pytest.mark.parametrize("left", ["both", "one", "none"])
def test_a_name_in_two_domains_is_refused_with_the_ids(openstack, stub_cloud, demo, left):
    """Also if only one of them is left, or has a deletion under way."""
    second = stub_cloud.add_project("demo", "d2")
    ids = [stub_cloud.add_deletion(demo, "deleting"), stub_cloud.add_deletion(second, "failed")]
    gone(stub_cloud, *{"both": [], "one": [], "none": [demo, second]}[left])
    if left == "one":
        del stub_cloud.deletions[ids[1]]
    for command in ("show", "leftovers", "events"):
        line = refused(openstack, "demo", command=command)
        assert "more than one project has the name 'demo'" in line and "--project-domain" in line
        assert f"{demo['id']} (domain default)" in line and f"{second['id']} (domain d2)" in line
    for command in ("retry", "cancel"):
        assert openstack("project", "deletion", command, "demo").code == 1
    assert not stub_cloud.made("POST", "/cleanup")
    assert shown(openstack, "demo", "--project-domain", "Default") == ids[0]
    assert shown(openstack, demo["id"]) == ids[0]


def test_the_domain_may_be_gone_too(openstack, stub_cloud):
    domain = "0" * 32
    first = stub_cloud.add_project("demo", domain)
    second = stub_cloud.add_project("demo", "d2")
    ids = [stub_cloud.add_deletion(project, "deleted") for project in (first, second)]
    gone(stub_cloud, first, second)
    assert shown(openstack, "demo", "--project-domain", domain) == ids[0]
    assert shown(openstack, "demo", "--project-domain", "Second") == ids[1]
    assert "no domain" in refused(openstack, "demo", "--project-domain", "nosuch")


def test_the_project_of_today_is_not_mistaken_for_an_earlier_one(openstack, stub_cloud, demo):
    """demo was renamed after its deletion had ended, and a new project has its name."""
    id_ = stub_cloud.add_deletion(demo, "leftovers")
    stub_cloud.after[id_, "retry"] = [stub.deletion(demo, "accepted")]
    demo["name"] = "archive"
    new = stub_cloud.add_project("demo")
    result = openstack("project", "deletion", "retry", "demo")
    assert result.code == 1 and f"project 'demo' ({new['id']}) has no deletion" in result.err
    assert f"give the ID of one: {demo['id']}" in result.err
    assert not stub_cloud.made("POST", "/cleanup")
    later = stub_cloud.add_deletion(new, "failed")
    assert shown(openstack, "demo") == later
    # the record has the name of that time; the project of today has another
    assert shown(openstack, "archive") == shown(openstack, demo["id"]) == id_


def test_projects_of_one_name_one_after_the_other(openstack, stub_cloud, demo):
    stub_cloud.add_deletion(demo, "deleted", **at(9))
    again = stub_cloud.add_project("demo")
    latest = stub_cloud.add_deletion(again, "deleted", **at(11))
    gone(stub_cloud, demo, again)
    assert shown(openstack, "demo") == latest


def test_two_projects_of_one_name_with_live_deletions(openstack, stub_cloud, demo):
    again = stub_cloud.add_project("demo")
    for project in (demo, again):
        stub_cloud.add_deletion(project, "deleting")
    gone(stub_cloud, demo, again)
    line = refused(openstack, "demo")
    assert "more than one project has the name 'demo'" in line and demo["id"] in line and again["id"] in line


def test_a_project_without_a_deletion(openstack, stub_cloud, demo):
    assert refused(openstack, "demo") == f"project 'demo' ({demo['id']}) has no deletion"
    assert "no deletion and no project has the name or ID 'nosuch'" in refused(openstack, "nosuch")


def test_a_project_whose_name_is_like_the_id_of_a_deletion(openstack, stub_cloud):
    name = "0b6d2a9e-6d7c-4d44-a1b7-5f3f0a4f7c11"
    id_ = stub_cloud.add_deletion(stub_cloud.add_project(name), "leftovers")
    assert shown(openstack, name) == id_
    assert openstack("project", "deletion", "leftovers", name).code == 0


def test_a_name_with_any_characters(openstack, stub_cloud):
    for name in ("ünïcødé/../?&=#", "two words", "-x"):
        project = stub_cloud.add_project(name)
        id_ = stub_cloud.add_deletion(project, "deleted")
        gone(stub_cloud, project)
        assert shown(openstack, "--", name) == id_


def deny(cloud, *paths):
    """Make Keystone refuse to read these paths."""
    denied = {"error": {"code": 403, "title": "Forbidden", "message": "You are not authorized"}}
    for path in paths:
        cloud.answers["GET", f"/identity/v3/{path}"] = [(403, denied, {})]


def test_without_the_right_to_list_projects_the_records_decide(openstack, stub_cloud, demo):
    id_ = stub_cloud.add_deletion(demo, "failed")
    deny(stub_cloud, "projects", f"projects/{demo['id']}")
    assert shown(openstack, "demo") == id_


def test_keystone_decides_before_the_records_are_read(openstack, stub_cloud, demo):
    id_ = stub_cloud.add_deletion(demo, "leftovers")
    assert shown(openstack, "demo") == id_
    lists = [r["query"] for r in stub_cloud.requests if r["path"] == "/cleanup/v1/deletions"]
    assert lists and all("project_id" in query and query["limit"] == ["1"] for query in lists)


class TestChanges:
    """A command that changes something uses a recorded name only if the project has no other name today."""

    COMMANDS = ("retry", "cancel", "restore", "approve --reason x")

    @pytest.fixture
    def deletion(self, stub_cloud, demo):
        id_ = stub_cloud.add_deletion(demo, "failed")
        for verb in ("retry", "cancel", "restore"):
            stub_cloud.after[id_, verb] = [stub.deletion(demo, "accepted")]
        stub_cloud.after[id_, "approve"] = True
        return id_

    def changed(self, openstack, stub_cloud, command, name="demo"):
        """Return the error output if the command was refused, or else nothing."""
        result = openstack("project", "deletion", *command.split(), name)
        made = stub_cloud.made("POST", "/cleanup")
        assert (result.code, len(made)) in ((0, 1), (1, 0)), result.err
        return result.err

    @pytest.mark.parametrize("listing", ["allowed", "forbidden"])
    @pytest.mark.parametrize("command", COMMANDS)
    def test_a_project_that_was_renamed_is_refused(self, openstack, stub_cloud, demo, deletion, command, listing):
        demo["name"] = "prod"
        if listing == "forbidden":
            deny(stub_cloud, "projects")
        [line] = self.changed(openstack, stub_cloud, command).splitlines()
        assert line.endswith(
            f"project 'demo' is now 'prod' ({demo['id']}): give the ID of the deletion or of the project"
        )
        assert shown(openstack, "demo") == deletion

    @pytest.mark.parametrize("given", ["deletion", "project", "name"])
    def test_a_project_that_was_renamed_has_ids_and_a_new_name(self, openstack, stub_cloud, demo, deletion, given):
        demo["name"] = "prod"
        text = {"deletion": deletion, "project": demo["id"], "name": "prod"}[given]
        assert not self.changed(openstack, stub_cloud, "retry", text)

    @pytest.mark.parametrize("command", COMMANDS)
    def test_a_project_that_is_gone_is_found(self, openstack, stub_cloud, demo, deletion, command):
        gone(stub_cloud, demo)
        assert not self.changed(openstack, stub_cloud, command)

    def test_a_user_who_may_read_only_the_project(self, openstack, stub_cloud, demo, deletion):
        """Keystone lets a token of the project read the project, and not list projects."""
        deny(stub_cloud, "projects")
        assert not self.changed(openstack, stub_cloud, "cancel")

    @pytest.mark.parametrize("command", COMMANDS)
    def test_a_user_who_may_read_no_project_gives_an_id(self, openstack, stub_cloud, demo, deletion, command):
        deny(stub_cloud, "projects", f"projects/{demo['id']}")
        [line] = self.changed(openstack, stub_cloud, command).splitlines()
        assert f"Keystone does not tell whether project 'demo' ({demo['id']}) still has this name" in line
        assert line.endswith("give the ID of the deletion or of the project")

    def test_another_project_may_have_the_name_of_one_that_is_gone(self, openstack, stub_cloud, demo, deletion):
        stub_cloud.add_project("demo")
        gone(stub_cloud, demo)
        deny(stub_cloud, "projects")
        assert "Keystone does not tell whether" in self.changed(openstack, stub_cloud, "retry")


class TestList:
    def ids(self, openstack, *args):
        result = openstack("project", "deletion", "list", "-f", "value", "-c", "ID", *args)
        assert result.code == 0, result.err
        return result.out.split()

    def test_all_projects_of_a_name(self, openstack, stub_cloud, demo):
        second = stub_cloud.add_project("demo", "d2")
        ids = [stub_cloud.add_deletion(project, "deleted") for project in (demo, second)]
        assert self.ids(openstack, "--project", "demo") == ids
        assert self.ids(openstack, "--project", "demo", "--project-domain", "d2") == ids[1:]
        assert self.ids(openstack, "--project", demo["id"]) == ids[:1]

    def test_a_project_that_was_renamed(self, openstack, stub_cloud, demo):
        id_ = stub_cloud.add_deletion(demo, "cancelled")
        demo["name"] = "archive"
        assert self.ids(openstack, "--project", "archive") == [id_]

    def test_a_project_without_deletions(self, openstack, demo):
        assert self.ids(openstack, "--project", "demo") == []

    @pytest.mark.parametrize("name", ["nosuch", "0" * 32, "no such"])
    def test_an_unknown_project_is_no_empty_list(self, openstack, name):
        result = openstack("project", "deletion", "list", "--project", name)
        assert (result.code, result.out) == (1, "")
        assert f"no deletion and no project has the name or ID '{name}'" in result.err
