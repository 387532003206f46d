"""Magnum: when a cluster is deleted, what Heat abandons before, and which templates stay."""

from __future__ import annotations

import dataclasses
import datetime

import pytest

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.plugins import container_infrastructure_management, exceptions
from cleanup_orchestrator.plugins import container_infrastructure_management as magnum
from cleanup_orchestrator.plugins import orchestration as heat
from cleanup_orchestrator.plugins.base import NIL_UUID, ProjectDefinition, Refused, Resource
from cleanup_orchestrator.worker.sweep.calls import list_resources
from tests.unit.answers import project, resource
from tests.unit.plugins.test_orchestration import cloud, outside, page, stack

ID = "0123456789abcdef0123456789abcdef"
US = ProjectDefinition(ID, "Us", "default", "R1", options={"stack_user_domain": "heat"})
NOW = datetime.datetime(2026, 6, 1, 12, 0, tzinfo=datetime.UTC)


@pytest.mark.parametrize("name", ["cluster_template", "cluster", "failed_cluster"])
def test_a_user_without_admin_rights_in_magnum_gets_no_list_of_other_projects(name):
    """As with Heat."""
    empty = {"GET /clustertemplates": page([], "clustertemplates"), "GET /clusters/detail": page([], "clusters")}
    api = {magnum.TYPE.replace("-", "_"): {"GET /quotas": (403, {"errors": []}), **empty}}
    with pytest.raises(exceptions.ForbiddenException):
        list(list_resources(outside(magnum, name), cloud(**api), US))
    api = {magnum.TYPE.replace("-", "_"): {"GET /quotas": page([], "quotas"), **empty}}
    assert list(list_resources(outside(magnum, name), cloud(**api), US)) == []


CLUSTER = "/clusters/c"


@pytest.mark.parametrize(
    ("status", "then", "asked", "reason"),
    [
        ("CREATE_COMPLETE", "DELETE_IN_PROGRESS", True, None),
        ("CREATE_FAILED", "CREATE_FAILED", True, Reason.DELETING),  # accepted, and nothing came of it yet
        ("DELETE_FAILED", None, True, Reason.ERROR),
        ("DELETE_IN_PROGRESS", None, False, None),
    ],
)
def test_a_cluster_delete_is_sent_once_and_its_result_is_reported(status, then, asked, reason):
    api = cloud(
        container_infrastructure_management={
            f"DELETE {CLUSTER}": (204, None),
            f"GET {CLUSTER}": (200, {"uuid": "c", "status": then}),
        }
    )
    cluster = Resource("c", "", ID, {"uuid": "c", "status": status, "status_reason": "no driver"})
    found = None
    try:
        magnum._delete_cluster(api, US, cluster)
    except Refused as refused:
        found = refused.verdict.reason
    assert found is reason
    assert (f"DELETE {CLUSTER}" in api.container_infrastructure_management.asked) is asked


ABANDON = "DELETE /stacks/n-s/s/abandon"
NONE_ABANDONED = (400, {"error": {"type": "NotSupported", "message": "Stack Abandon is not supported."}})


@pytest.mark.parametrize(
    ("rows", "abandon", "asked", "reason"),
    [
        ([], None, False, None),
        ([stack("s")], (200, {}), True, Reason.DELETING),  # Heat says yes before it is done
        ([stack("s", "DELETE_IN_PROGRESS", updated_time=NOW.isoformat())], None, False, Reason.DELETING),
        ([stack("s", "DELETE_FAILED")], (200, {}), True, Reason.PROJECT_GONE),
        ([stack("s")], NONE_ABANDONED, True, Reason.PROJECT_GONE),
        ([stack("s", project="theirs")], None, False, Reason.FOREIGN),
    ],
)
def test_of_a_project_that_is_gone_heat_abandons_the_stack_before_the_cluster_goes(
    rows, abandon, asked, reason, monkeypatch
):
    """Magnum would have Heat delete it with an admin's token, by a template that its users could write."""
    monkeypatch.setattr(heat.stacks, "_now", lambda: NOW)
    answers = {
        "GET /stacks": page(rows),
        "GET /stacks/n-s/s/events": page([], "events"),
        f"DELETE /stacks/none/{NIL_UUID}/abandon": NONE_ABANDONED,
    }
    api = cloud(
        container_infrastructure_management={
            f"DELETE {CLUSTER}": (204, None),
            f"GET {CLUSTER}": (200, {"uuid": "c", "status": "DELETE_IN_PROGRESS"}),
        },
        orchestration=answers | ({ABANDON: abandon} if abandon else {}),
    )
    cluster = Resource("c", "", ID, {"uuid": "c", "status": "CREATE_COMPLETE", "stack_id": "s"})
    found = None
    try:
        magnum._delete_cluster(api, dataclasses.replace(US, gone=True), cluster)
    except Refused as refused:
        found = refused.verdict.reason
    assert found is reason
    assert (ABANDON in api.orchestration.asked) is asked
    assert (f"DELETE {CLUSTER}" in api.container_infrastructure_management.asked) is (not rows)


@pytest.mark.parametrize(
    ("clusters", "reason", "owners"),
    [
        ([], None, []),
        ([("a", ID)], Reason.IN_USE, [ID]),
        ([("a", ID), ("b", "theirs")], Reason.FOREIGN, ["theirs"]),
    ],
)
def test_the_users_of_a_template_are_named(clusters, reason, owners):
    rows = [{"uuid": u, "project_id": owner, "cluster_template_id": "t"} for u, owner in clusters]
    rows.append({"uuid": "z", "project_id": "theirs", "cluster_template_id": "another"})
    api = cloud(container_infrastructure_management={"GET /clusters/detail": (200, {"clusters": rows})})
    verdict = magnum._explain_template(api, US, Resource("t", "", ID, {}))
    assert (verdict and verdict.reason) is reason
    assert [b["owner"] for b in verdict.blocked_by] == owners if verdict else not owners


@pytest.mark.parametrize(
    ("public", "wished", "protected"),
    [(False, False, False), (True, False, True), (True, True, False), (None, False, True)],
)
def test_a_public_template_is_protected(public, wished, protected):
    project = ProjectDefinition(ID, "", "", "", options={"delete_public_templates": wished})
    assert bool(magnum._protect_public(Resource("t", "", ID, {"public": public}), project)) is protected


OURS, THEIRS = "p", "them"
PROJECT = project(OURS)


@pytest.mark.parametrize(("public", "protected"), [(False, False), (True, True), (None, True)])
def test_a_public_cluster_template_is_protected(public, protected):
    template = resource(public=public)
    assert bool(container_infrastructure_management._protect_public(template, PROJECT)) is protected


@pytest.mark.parametrize("rows", [[stack("s")], []], ids=["stack", "no stack"])
def test_a_cluster_contains_its_stack_or_something_that_is_not_known(rows, monkeypatch):
    """What a driver makes without a stack, no list says: skipped resources may be among it."""
    monkeypatch.setattr(magnum, "contents_of", lambda *_: iter([("compute.server", "v")]))
    api = cloud(orchestration={"GET /stacks": page(rows)})
    cluster = Resource("c", "", ID, {"uuid": "c", "stack_id": "s"})
    expected = [("orchestration.stack", "s"), ("compute.server", "v")] if rows else [("", "c")]
    assert list(magnum._contents_of(api, US, cluster)) == expected
