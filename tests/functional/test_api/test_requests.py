"""What a request says about itself: its date, its reason and its ticket, and who may change them."""

import datetime
import uuid

import pytest

from cleanup_orchestrator.store import tables
from tests.functional.test_api import keystone as ks
from tests.functional.test_api.site import Site
from tests.support.cases import each_case

TIME = "%Y-%m-%dT%H:%M:%SZ"


def in_days(days):
    return (datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days)).strftime(TIME)


def create(site, token=ks.MANAGER, project="p1", **body):
    return site.post("/v1/deletions", {"project_id": project, "mode": "cascade", **body}, token)


def change(site, id_, token=ks.MANAGER, **body):
    return site.call("PATCH", f"/v1/deletions/{id_}", token, body)


def journal(site, id_, type_):
    return [e for e in site.get(f"/v1/deletions/{id_}/events").json["events"] if e["type"] == type_]


def test_a_request_is_recorded_with_what_it_says(any_site):
    date = in_days(30)
    said = {"not_before": date, "request_reason": "  contract ended ", "ticket": " CHG-4711 "}
    made = create(any_site, **said).json["deletion"]
    assert (made["not_before"], made["request_reason"], made["ticket"]) == (date, "contract ended", "CHG-4711")
    listed = any_site.get("/v1/deletions?ticket=CHG-4711").json["deletions"]
    assert [each["id"] for each in listed] == [made["id"]] and listed[0]["not_before"] == date
    assert any_site.get("/v1/deletions?ticket=chg-4711").json["deletions"] == []
    [event] = journal(any_site, made["id"], "deletion.accepted")
    assert f"not before {date}, ticket 'CHG-4711': contract ended" in event["message"]
    assert {name: event["data"][name] for name in said} == {
        "not_before": date, "request_reason": "contract ended", "ticket": "CHG-4711",
    }  # fmt: skip


def test_without_them_the_fields_are_empty(site):
    made = create(site).json["deletion"]
    assert (made["not_before"], made["request_reason"], made["ticket"]) == (None, "", "")


def test_every_deletion_of_a_tree_has_them(site):
    said = {"not_before": in_days(30), "request_reason": "why", "ticket": "T"}
    root = create(site, project="parent", include_subtree=True, **said).json["deletion"]
    listed = site.get("/v1/deletions?ticket=T").json["deletions"]
    assert len(listed) == 3 and root["id"] in {each["id"] for each in listed}
    assert {tuple(each[name] for name in said) for each in listed} == {tuple(said.values())}


@each_case(
    "body,words",
    [
        ({"not_before": "2020-01-01T00:00:00Z"}, "must be later than now, which is"),
        ({"not_before": in_days(367)}, "at most 366 days after the request"),
        ({"not_before": in_days(1), "dry_run": True}, "cannot be given for a dry run"),
        ({"not_before": None}, "must be of type"),
        ({"not_before": "2027-02-30T00:00:00Z"}, "does not exist"),
        ({"ticket": "  "}, ""),
        ({"ticket": "x" * 129}, "at most 128 characters"),
        ({"request_reason": "a\nb"}, ""),
    ],
)
def test_a_wrong_one_is_refused(site, body, words):
    answer = create(site, **body)
    assert answer.status == 400 and answer.error["code"] == "invalid_body", answer.body
    assert answer.error["field"] in body and words in answer.error["detail"]
    assert site.get("/v1/deletions").json["deletions"] == []


@each_case(
    "first,second,status",
    [
        ({"ticket": "A"}, {"ticket": "A"}, 202),
        ({"ticket": "A", "request_reason": "x"}, {}, 202),
        ({"ticket": "A"}, {"ticket": "B"}, 409),
        ({}, {"ticket": "B"}, 409),
        ({"request_reason": "x"}, {"request_reason": "y"}, 409),
        ({"not_before": in_days(30)}, {"not_before": in_days(31)}, 409),
        ({"not_before": in_days(30)}, {}, 409),
        ({}, {"not_before": in_days(30)}, 409),
    ],
)
def test_another_request_is_not_taken_for_the_one_under_way(site, first, second, status):
    """Its date or its ticket would be dropped without a word."""
    project = uuid.uuid4().hex  # the cases have one site
    site.keystone.project(project, "x", "d1")
    made = create(site, project=project, **first).json["deletion"]
    answer = create(site, project=project, **second)
    assert answer.status == status
    if status == 409:
        assert answer.error["deletion_id"] == made["id"]
    else:
        assert answer.json["deletion"]["id"] == made["id"]


def test_the_refusal_names_the_date_and_the_ticket(site):
    date = in_days(30)
    create(site, not_before=date, ticket="A")
    assert f"(cascade, not before {date}, ticket 'A') is under way" in create(site).error["detail"]


# -------------------------------------------------------------------------------------------- what an operator requires
@pytest.fixture
def strict(tmp_path, keystone):
    found = Site(tmp_path, keystone=keystone, extra="[deletion]\nrequired = reason, ticket\nmax_delay = 0\n")
    yield found
    found.close()


@each_case(
    "body,missing", [({}, "request_reason"), ({"request_reason": "x"}, "ticket"), ({"ticket": "x"}, "request_reason")]
)
def test_what_the_operator_requires_is_required(strict, body, missing):
    answer = create(strict, **body)
    assert answer.status == 400 and answer.error["field"] == missing
    assert "is required in this cloud" in answer.error["detail"]


def test_a_dry_run_needs_no_ticket(strict):
    assert create(strict, dry_run=True).status == 202
    assert create(strict, request_reason="x", ticket="y").status == 202


def test_an_operator_can_refuse_dates(strict):
    answer = create(strict, request_reason="x", ticket="y", not_before=in_days(1))
    assert answer.status == 400 and "at most 0 days" in answer.error["detail"]


# ---------------------------------------------------------------------------------------------------------- the change
def test_a_date_is_moved_and_removed(any_site):
    id_ = create(any_site, not_before=in_days(30)).json["deletion"]["id"]
    date = in_days(40)
    answer = change(any_site, id_, not_before=date)
    assert answer.status == 200 and answer.json["deletion"]["not_before"] == date
    before = any_site.store.now()
    now = change(any_site, id_, not_before=None).json["deletion"]["not_before"]
    assert before.strftime(TIME) <= now <= any_site.store.now().strftime(TIME), "it stays on record when it began"
    assert any_site.store.get(id_).wake_at <= any_site.store.now()
    assert any_site.bus.casts.count(id_) == 3
    first, second = journal(any_site, id_, "deletion.changed")
    assert f"it begins at '{date}' instead of" in first["message"]
    assert second["data"]["not_before"] == {"from": date, "to": now}


def test_the_longest_delay_counts_from_the_request(site):
    id_ = create(site, not_before=in_days(366 - 0.001)).json["deletion"]["id"]
    answer = change(site, id_, not_before=in_days(367))
    assert answer.status == 400 and "at most 366 days after the request" in answer.error["detail"]


def test_a_change_of_a_tree_reaches_each_deletion_below(site):
    root = create(site, project="parent", include_subtree=True, not_before=in_days(30)).json["deletion"]["id"]
    date = in_days(40)
    assert change(site, root, not_before=date, ticket="T").status == 200
    assert {each["not_before"] for each in site.get("/v1/deletions?ticket=T").json["deletions"]} == {date}
    assert len(site.get("/v1/deletions?ticket=T").json["deletions"]) == 3


def test_a_tree_of_which_one_deletion_has_begun_keeps_its_dates(site):
    root = create(site, project="parent", include_subtree=True, not_before=in_days(30)).json["deletion"]["id"]
    rows = site.get("/v1/deletions").json["deletions"]
    child = next(each for each in rows if each["project_id"] == "child-1")
    change(site, child["id"], not_before=None)
    rows = site.get("/v1/deletions").json["deletions"]
    others = {each["id"]: each["not_before"] for each in rows if each["id"] != child["id"]}
    step = next(each for each in site.store.steps(child["id"]) if str(each.kind) == "survey")
    begun = tables.steps.update().where(tables.steps.c.id == step.id).values(round=1)
    with site.store.database.begin() as c:
        c.execute(begun)
    answer = change(site, root, not_before=in_days(40))
    assert answer.status == 409 and child["id"] in answer.error["detail"], answer.body
    for id_, date in others.items():
        assert site.get(f"/v1/deletions/{id_}").json["deletion"]["not_before"] == date


def test_nothing_to_change_is_no_error_and_no_line(site):
    id_ = create(site, ticket="T").json["deletion"]["id"]
    assert change(site, id_, ticket="T").status == 200
    assert change(site, id_).status == 200
    assert journal(site, id_, "deletion.changed") == []


def test_others_learn_nothing_and_change_nothing(site):
    id_ = create(site, not_before=in_days(30)).json["deletion"]["id"]
    assert change(site, id_, ks.OTHER_MANAGER, ticket="T").error["code"] == "deletion_not_found"
    assert change(site, id_, ks.MEMBER, ticket="T").error["code"] == "forbidden"
    assert change(site, "not-an-id", ticket="T").error["code"] == "deletion_not_found"
    assert site.store.get(id_).ticket == ""


OWNERS = """
"cleanup:deletions:postpone": "rule:admin_required or (role:member and project_id:%(target.project.id)s)"
"""


def test_an_operator_lets_the_owners_postpone_and_nothing_else(tmp_path, keystone):
    policy = tmp_path / "policy.yaml"
    policy.write_text(OWNERS)
    site = Site(tmp_path, keystone=keystone, extra=f"[oslo_policy]\npolicy_file = {policy}\n")
    owner = keystone.token("owner-token", "member", project_id="p1")
    id_ = create(site, ks.ADMIN, not_before=in_days(30)).json["deletion"]["id"]
    date = in_days(40)
    assert change(site, id_, owner, not_before=date).status == 200
    assert change(site, id_, owner, not_before=date).status == 200, "also if the first answer was lost"
    for body in ({"not_before": in_days(20)}, {"not_before": None}, {"not_before": in_days(41), "ticket": "x"}, {}):
        assert change(site, id_, owner, **body).error["code"] == "forbidden", body
    assert change(site, id_, owner, not_before=in_days(400)).error["code"] == "invalid_body"
    assert change(site, id_, ks.MANAGER, not_before=in_days(50)).error["code"] == "forbidden", "an admin's deletion"
    found = site.store.get(id_)
    assert found.not_before.strftime(TIME) == date and found.ticket == ""
    site.close()


def test_a_retry_does_not_begin_it_early(site):
    id_ = create(site, not_before=in_days(30)).json["deletion"]["id"]
    answer = site.post(f"/v1/deletions/{id_}/retry", token=ks.MANAGER)
    assert answer.status == 409 and answer.error["code"] == "not_retryable"
    assert site.post(f"/v1/deletions/{id_}/cancel", token=ks.MANAGER).status == 202


def test_cascades_of_a_day_are_counted_by_their_dates(any_site):
    """Many cascades that are recorded over days begin at one date: only the limit of that day counts them."""
    for project in ("own-1", "own-2"):
        any_site.keystone.project(project, project, "d1")
    first = create(any_site, ks.ADMIN, "p1", not_before=in_days(30)).json["deletion"]["id"]
    second = create(any_site, ks.ADMIN, "own-1", not_before=in_days(30.5)).json["deletion"]["id"]
    now = create(any_site, ks.ADMIN, "own-2").json["deletion"]["id"]
    before = {each: any_site.store.load(each)[0].cascades_before for each in (first, second, now)}
    assert before == {first: 0, second: 1, now: 0}
