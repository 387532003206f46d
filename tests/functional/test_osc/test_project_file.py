"""``openstack project delete --async --from-file``: the file, and what is requested."""

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleanup_orchestrator.osc import project_file
from cleanup_orchestrator.osc.project_file import Entry
from cleanup_orchestrator.osc.usage import UsageError
from tests.support.cases import each_case
from tests.support.examples import examples

DATE = (("not_before", "2027-01-31T00:00:00Z"),)


@each_case(
    "text,entries,ignored",
    [
        ("demo\ntest\n", [Entry("demo"), Entry("test")], []),
        ("# offboarding\n\n demo \r\n", [Entry("demo")], []),
        ('"ID","Name"\n"a1","demo"\n', [Entry("a1")], ["Name"]),
        ("name,domain\ndemo,research\n", [Entry("demo", "research")], []),
        ("Project,AT\ndemo,2027-01-31\n", [Entry("demo", None, DATE)], []),
        ("project,at\ndemo,\n", [Entry("demo")], []),
        (
            'project,reason,ticket\ndemo,"over, at last",CHG-1\n',
            [Entry("demo", None, (("request_reason", "over, at last"), ("ticket", "CHG-1")))],
            [],
        ),
        ("project_id,tiket\na1,CHG-1\n", [Entry("a1")], ["tiket"]),
        ("domain,domain_id,id\nx,y,a1\n", [Entry("a1", "x")], ["domain_id"]),
        ("demo\u2028test\x0cx\x85y\n", [Entry("demo\u2028test\x0cx\x85y")], []),
        ("\ufeffid\na1\r\na2\n", [Entry("a1"), Entry("a2")], []),
    ],
)
def test_a_file_is_understood(text, entries, ignored):
    assert project_file.parse(text) == (entries, ignored)


@each_case(
    "text,words",
    [
        ("", "names no project"),
        ("# only a comment\n", "names no project"),
        ("project,domain\n", "names no project"),
        ("demo,research\n", "line 1 of the file has several columns"),
        ("demo\ntest,x\n", "line 2 of the file has several columns"),
        ("project,domain\n\ndemo\n", "line 3 of the file has 1 columns, and the titles are 2"),
        ("project,domain\n,research\n", "line 2 of the file names no project"),
        ("project,at\ndemo,tomorrow\n", "line 2 of the file has a wrong date"),
        ('project,reason\ndemo,"open\n', "of the file is no CSV"),
    ],
)
def test_a_mistake_names_its_line(text, words):
    with pytest.raises(UsageError) as found:
        project_file.parse(text)
    assert words in str(found.value) and str(found.value).endswith("nothing was deleted")


@given(st.text(max_size=60))
@settings(max_examples=examples(100))
def test_any_text_is_understood_or_refused(text):
    try:
        entries, _ = project_file.parse(text)
    except UsageError:
        return
    assert entries and all(entry.project.strip() for entry in entries)


COMMAND = ("project", "delete", "--async", "--cascade", "--from-file")


def created(cloud):
    return [
        each["body"] for each in cloud.requests if (each["method"], each["path"]) == ("POST", "/cleanup/v1/deletions")
    ]


def test_each_project_of_the_file_is_requested(openstack, stub_cloud, tmp_path):
    demo, test = (stub_cloud.add_project(name) for name in ("demo", "test"))
    file = tmp_path / "projects.csv"
    file.write_text("project,at,ticket\ndemo,2027-01-31,CHG-1\ntest,,\n")
    result = openstack(*COMMAND, str(file), "--ticket", "CHG-9", "--reason", "over", "-f", "json")
    assert result.code == 0 and len(result.json) == 2
    first, second = created(stub_cloud)
    assert (first["project_id"], first["ticket"], first["not_before"]) == (demo["id"], "CHG-1", "2027-01-31T00:00:00Z")
    assert (second["project_id"], second["ticket"]) == (test["id"], "CHG-9") and "not_before" not in second
    assert first["request_reason"] == second["request_reason"] == "over"


def test_a_mistake_in_the_last_line_requests_nothing(openstack, stub_cloud, tmp_path):
    stub_cloud.add_project("demo")
    file = tmp_path / "projects.csv"
    file.write_text("project,at\ndemo,2027-01-31\ntest,soon\n")
    result = openstack(*COMMAND, str(file))
    assert result.code == 2 and "line 3" in result.err and created(stub_cloud) == []


@pytest.mark.parametrize("lines", ["demo\ndemo\n", "project,ticket\ndemo,A\ndemo,A\n"])
def test_a_project_that_is_named_twice_is_requested_once(openstack, stub_cloud, tmp_path, lines):
    stub_cloud.add_project("demo")
    file = tmp_path / "projects.csv"
    file.write_text(lines)
    assert openstack(*COMMAND, str(file)).code == 0 and len(created(stub_cloud)) == 1


def test_a_project_with_two_tickets_is_refused(openstack, stub_cloud, tmp_path):
    stub_cloud.add_project("demo")
    file = tmp_path / "projects.csv"
    file.write_text("project,ticket\ndemo,A\ndemo,B\n")
    result = openstack(*COMMAND, str(file))
    assert result.code == 2 and "twice, with different values" in result.err and created(stub_cloud) == []


def test_a_file_that_is_not_there_is_one_line(openstack, stub_cloud, tmp_path):
    result = openstack(*COMMAND, str(tmp_path / "none"))
    assert result.code == 2 and len(result.err.splitlines()) == 1 and "cannot read" in result.err


def test_the_standard_input_is_a_file(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("demo\n"))
    assert project_file.read("-") == ([Entry("demo")], [])


def test_a_mark_at_the_beginning_of_a_file_is_no_part_of_a_title(tmp_path):
    file = tmp_path / "projects.csv"
    file.write_bytes("\ufeffid\na1\n".encode())
    assert project_file.read(str(file)) == ([Entry("a1")], [])


@pytest.mark.parametrize(("answer", "requested"), [("y\n", 2), ("n\n", 0)])
def test_at_a_terminal_it_asks_once_for_all(openstack, stub_cloud, terminal, tmp_path, answer, requested):
    for name in ("demo", "test"):
        stub_cloud.add_project(name)
    file = tmp_path / "projects.csv"
    file.write_text("demo\ntest\n")
    terminal(answer)
    result = openstack(*COMMAND, str(file), "--ticket", "CHG-1")
    assert len(created(stub_cloud)) == requested
    assert result.err.count("[y/N]") == 1
    assert "2 projects and all their resources will be deleted" in result.err and "demo, test" in result.err
    assert "ticket: CHG-1" in result.err
