"""The lines about a deletion that has ended: what the numbers mean, and the next command that is right."""

import pytest

from cleanup_orchestrator.osc import endings, screen

ID, PROJECT = "0b6d2a9e-6d7c-4d44-a1b7-5f3f0a4f7c11", "0123456789abcdef0123456789abcdef"
PORTS = {"region": "R", "service": "network", "type": "port", "remaining": 3, "outcome": "leftovers"}
BLOCKER = {"region": "R", "service": "image", "type": "image", "message": "it is public", "remedy": "make it private"}
RETRY = f"openstack project deletion retry {ID}"
CASCADE = f"openstack project delete --async --cascade --wait {PROJECT}"


def told(good=False, before=0, **fields):
    record = {"id": ID, "project_id": PROJECT, "project_name": "demo", "retryable": True, **fields}
    return [screen.plain(line).strip() for line in endings.lines(record, good, "3s", before)]


def test_after_a_report_the_next_step_is_a_cascade():
    lines = told(status="leftovers", mode="report", counts=[PORTS], summary="3 resources will be deleted")
    assert lines[-3:] == [
        "With --cascade: 3 resources will be deleted",
        f"Delete them and the project with: {CASCADE}",
        f"Or delete them yourself, then retry with: {RETRY}",
    ]
    assert not any("blocker" in line for line in lines)


def test_a_report_with_blockers_names_them_and_the_retry():
    lines = told(status="leftovers", mode="report", blockers=[BLOCKER])
    assert lines[-2:] == [
        f"Delete them and the project with: {CASCADE}",
        f"Clear the blockers, then retry with: {RETRY}",
    ]


@pytest.mark.parametrize(
    ("blockers", "words"), [([BLOCKER], "Clear the blockers, then"), ([], "When that is cleared,")]
)
@pytest.mark.parametrize("status", ["leftovers", "failed"])
def test_blockers_are_to_be_cleared_only_where_there_are_some(status, blockers, words):
    lines = told(status=status, mode="cascade", blockers=blockers, message="why")
    assert lines[-1] == f"{words} retry with: {RETRY}"
    assert not any("--cascade" in line for line in lines)


def test_a_dry_run_begins_with_its_summary_and_ends_with_the_command_of_its_plan():
    lines = told(good=True, status="planned", dry_run=True, mode="cascade", counts=[PORTS], summary="3 resources")
    assert lines[1:3] == ["3 resources", "3 resources: 3 network.port"]
    assert lines[-1].endswith(f"openstack project delete --async --cascade --wait --plan {ID} {PROJECT}")


def test_the_next_step_of_a_dry_run_has_its_mode():
    record = {"good": True, "status": "planned", "dry_run": True, "counts": [PORTS]}
    assert told(mode="purge", **record)[-1].endswith(f": openstack project purge --wait --plan {ID} {PROJECT}")
    assert not any("--plan" in line for line in told(mode="report", **record))


@pytest.mark.parametrize(
    "record",
    [
        {"status": "leftovers", "mode": "report", "origin": "noticed"},
        {"good": True, "status": "planned", "dry_run": True, "mode": "cascade", "origin": "adopted"},
    ],
)
def test_a_project_that_keystone_does_not_know_is_adopted(record):
    lines = told(counts=[PORTS], **record)
    assert any(line.endswith(f" with: openstack project orphan adopt --wait {PROJECT}") for line in lines)
    assert not any("project delete" in line for line in lines)


def test_an_incomplete_dry_run_offers_no_delete():
    condition = {"type": "plan_complete", "status": False, "message": "no answer"}
    record = {"status": "planned", "dry_run": True, "mode": "cascade", "conditions": [condition]}
    lines = told(good=True, **record)
    assert "INCOMPLETE: no answer" in lines and not any("--plan" in line for line in lines)
    assert endings.is_incomplete(record)
    assert not endings.is_incomplete({**record, "conditions": [{**condition, "status": True}]})
    assert not endings.is_incomplete({**record, "status": "cancelled"})


def test_numbers_that_seem_to_contradict_are_explained():
    lines = told(good=True, before=75, status="deleted", progress={"found": 80, "deleted": 80, "kept": 4})
    assert lines[0] == "demo: deleted after 3s; found 80, deleted 80, remaining 0, kept 4"
    assert lines[1].startswith("kept 4: what a service made or owns")
    assert lines[2].startswith("found 80: 5 more than when the deletes began.")
    assert len(told(good=True, before=80, status="deleted", progress={"found": 80, "deleted": 80})) == 1


def test_at_a_terminal_the_table_fits():
    unknown = {**PORTS, "remaining": 0, "outcome": "unknown", "message": "no answer from " + "x" * 200}
    record = {"counts": [PORTS, unknown]}
    assert max(map(screen.width, map(screen.plain, endings.left_table(record, False, 80)))) <= 80
    assert any("x" * 200 in line for line in endings.left_table(record, False))


def test_the_next_step_of_a_tree_has_its_projects_below():
    """A cascade of the project alone is refused, and so is a plan with the projects below."""
    tree = {"include_subtree": True, "counts": [PORTS]}
    cascade = f"openstack project delete --async --cascade --include-subtree --wait {PROJECT}"
    told_by_report = told(status="leftovers", mode="report", **tree)
    assert f"Delete them, the projects below, and the project with: {cascade}" in told_by_report
    told_by_plan = told(good=True, status="planned", dry_run=True, mode="cascade", **tree)
    assert told_by_plan[-1] == f"Delete these, the projects below, and the project with: {cascade}"


def test_a_long_message_is_cut_between_words():
    types_ = ", ".join(["network.network", "network.router", "network.router_port", "network.subnet"])
    message = f"5 left in {types_}, object-store.container; and so on"
    lines = told(status="leftovers", mode="report", counts=[PORTS], message=message)
    assert f"5 left in {types_}, …" in lines
