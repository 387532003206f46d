"""Who may follow deletions: readers of a scope, and who asked for one; and that reading is all they may."""

import datetime

import pytest

from cleanup_orchestrator.cloud import connections
from cleanup_orchestrator.engine.keystone_listener import Listener
from cleanup_orchestrator.store import tables
from tests.functional.test_api import keystone as ks
from tests.functional.test_api.site import Site
from tests.functional.test_api.test_blocking import FOREIGN, blocked

READERS = {"p1": [ks.DOMAIN_READER, ks.SYSTEM_READER], "p2": [ks.OTHER_READER, ks.SYSTEM_READER]}
#: Calls that change something, with their body.
WRITES = [
    ("POST", "/v1/deletions", {"project_id": "p1"}),
    ("POST", "/v1/deletions/{id}/cancel", None),
    ("POST", "/v1/deletions/{id}/retry", None),
    ("POST", "/v1/deletions/{id}/restore", None),
    ("POST", "/v1/deletions/{id}/approve", {"reason": "x"}),
    ("DELETE", "/v1/projects/p1/force", {"reason": "x"}),
    ("POST", "/v1/brake", {"reason": "x"}),
    ("DELETE", "/v1/brake", None),
    ("POST", "/v1/liens", {"project_id": "p1", "origin": "o", "reason": "x"}),
    ("POST", "/v1/waivers", {"service_type": "dns", "reason": "x", "expires_at": "2099-01-01T00:00:00Z"}),
    ("POST", "/v1/orphan-scans", None),
]


def paths(id_):
    return [f"/v1/deletions/{id_}{part}" for part in ("", "/leftovers", "/events")]


@pytest.mark.parametrize(("project_id", "tokens"), READERS.items())
def test_readers_see_the_deletions_of_their_scope_and_no_other(site, project_id, tokens):
    made = {name: site.ask(name)["id"] for name in ("p1", "p2")}
    other = made["p2" if project_id == "p1" else "p1"]
    for token in tokens:
        assert [site.get(path, token).status for path in paths(made[project_id])] == [200] * 3
        everywhere = token == ks.SYSTEM_READER
        assert [site.get(path, token).status for path in paths(other)] == [200 if everywhere else 404] * 3
        listed = {d["id"] for d in site.get("/v1/deletions", token).json["deletions"]}
        assert listed == (set(made.values()) if everywhere else {made[project_id]})


def test_readers_see_plans_and_services(site):
    id_ = blocked(site, FOREIGN, dry_run=True)
    for token, status in ((ks.DOMAIN_READER, 200), (ks.SYSTEM_READER, 200), (ks.OTHER_READER, 404)):
        assert [site.get(f"/v1/plans/{id_}{part}", token).status for part in ("", "/resources")] == [status] * 2
        assert site.get("/v1/services", token).status == 200


@pytest.mark.parametrize("path", ["/v1/brake", "/v1/liens", "/v1/waivers", "/v1/orphan-scans"])
def test_readers_of_the_system_see_what_concerns_every_domain(site, path):
    assert site.get(path, ks.SYSTEM_READER).status == 200
    assert site.get(path, ks.DOMAIN_READER).status == 403


def test_readers_see_the_role_assignments_that_the_lock_removed_and_who_asked_does_not(site):
    made = site.ask(token=ks.MANAGER)
    shown = {
        token: site.get(f"/v1/deletions/{made['id']}", token).json["deletion"]["grants_removed"]
        for token in (ks.ADMIN, ks.MANAGER, ks.DOMAIN_READER, ks.SYSTEM_READER, ks.MANAGERS_OTHER)
    }
    assert shown == {
        ks.ADMIN: [], ks.MANAGER: [], ks.DOMAIN_READER: [], ks.SYSTEM_READER: [], ks.MANAGERS_OTHER: None,
    }  # fmt: skip


@pytest.mark.parametrize("token", [ks.DOMAIN_READER, ks.MANAGERS_OTHER, ks.SYSTEM_READER])
def test_readers_of_a_domain_and_who_asked_see_which_lien_protects_and_not_why(site, token):
    """A reader of the system may read liens."""
    made = site.ask(token=ks.MANAGER)
    fields = {"project_id": "p1", "origin": "legal", "reason": "the court case"}
    lien = site.post("/v1/liens", fields).json["lien"]
    answers = [site.get(path, token) for path in paths(made["id"])]
    assert [answer.status for answer in answers] == [200] * 3
    [shown] = answers[0].json["deletion"]["liens"]
    assert (shown["id"], shown["origin"], shown["expires_at"]) == (lien["id"], "legal", None)
    told = any(word in answer.body for answer in answers for word in (b"the court case", b"admin-id"))
    assert told is (token == ks.SYSTEM_READER)


@pytest.mark.parametrize("token", [ks.DOMAIN_READER, ks.SYSTEM_READER, ks.MANAGERS_OTHER])
@pytest.mark.parametrize(("method", "path", "body"), WRITES, ids=str)
def test_reading_is_all_they_may(site, method, path, body, token):
    """Also who asked for a deletion, with a token without further rights."""
    id_ = site.ask(token=ks.MANAGER)["id"]
    assert site.call(method, path.format(id=id_), token, body).status in (403, 404)
    assert site.count() == 1 and site.store.get(id_).status == "accepted"


def test_who_asked_follows_a_deletion_with_any_token(site):
    mine, others = site.ask(token=ks.MANAGER)["id"], site.ask("parent", include_subtree=True)["id"]
    assert [site.get(path, ks.MANAGERS_OTHER).status for path in paths(mine)] == [200] * 3
    assert [site.get(path, ks.MANAGERS_OTHER).status for path in paths(others)] == [403] * 3
    assert [d["id"] for d in site.get("/v1/deletions", ks.MANAGERS_OTHER).json["deletions"]] == [mine]
    assert site.get(f"/v1/deletions?marker={mine}", ks.MANAGERS_OTHER).status == 200
    assert site.get(f"/v1/deletions?marker={others}", ks.MANAGERS_OTHER).status == 400
    assert site.get("/v1/deletions?project_id=parent", ks.MANAGERS_OTHER).json["deletions"] == []


def test_who_asked_for_a_dry_run_sees_its_plan_with_any_token(site):
    mine, others = blocked(site, dry_run=True, by=ks.MANAGER), blocked(site, dry_run=True, by=ks.ADMIN)
    assert site.get(f"/v1/plans/{mine}", ks.MANAGERS_OTHER).status == 200
    assert site.get(f"/v1/plans/{others}", ks.MANAGERS_OTHER).status == 403


def test_the_user_of_a_notification_reads_nothing(site):
    """Any service on the bus can name any user."""
    listener = Listener(site.store, connections.Clouds(site.conf), site.bus)
    payload = {"resource_info": "c" * 32, "initiator": {"user_id": "manager-id"}}
    listener.info({}, "identity.host", "identity.project.deleted", payload, {})
    [noticed] = site.get("/v1/deletions").json["deletions"]
    assert (noticed["origin"], noticed["user_id"]) == ("noticed", "")
    assert [site.get(path, ks.MANAGERS_OTHER).status for path in paths(noticed["id"])] == [403] * 3
    assert site.get("/v1/deletions", ks.MANAGERS_OTHER).status == 403
    [event] = site.get(f"/v1/deletions/{noticed['id']}/events").json["events"]
    assert event["actor"] == "manager-id"


def end(site, id_, days):
    """Have a deletion that ended some days ago."""
    at = site.store.now() - datetime.timedelta(days=days)
    with site.store.database.begin() as c:
        live = {"live_project_id": None, "finished_at": at, "status": "cancelled"}
        c.execute(tables.deletions.update().where(tables.deletions.c.id == id_).values(live))


def test_who_asked_reads_what_ended_for_a_month_and_what_is_under_way_for_ever(site):
    old, live = site.ask(token=ks.MANAGER)["id"], site.ask("parent", ks.MANAGER, include_subtree=True)["id"]
    for days, expected in ((29, 200), (31, 403)):
        end(site, old, days)
        assert [site.get(path, ks.MANAGERS_OTHER).status for path in paths(old)] == [expected] * 3
        assert [site.get(path, ks.MANAGERS_OTHER).status for path in paths(live)] == [200] * 3
        listed = {d["id"] for d in site.get("/v1/deletions", ks.MANAGERS_OTHER).json["deletions"]}
        assert (old in listed, live in listed) == (expected == 200, True)
    unknown = site.get("/v1/deletions/11111111-2222-3333-4444-555555555555", ks.MANAGERS_OTHER)
    hidden = site.get(f"/v1/deletions/{old}", ks.MANAGERS_OTHER)
    assert {**hidden.error, "request_id": ""} == {**unknown.error, "request_id": ""}
    assert site.get(f"/v1/deletions?marker={old}", ks.MANAGERS_OTHER).status == 400
    assert [site.get(path, ks.MANAGER).status for path in paths(old)] == [200] * 3, "the right on the domain stays"


def test_a_requester_with_a_right_elsewhere_gets_404_like_for_an_unknown_one(site):
    """The reader of another domain who requested it while being a manager here."""
    id_ = site.ask(token=ks.MANAGER)["id"]
    end(site, id_, 31)
    with site.store.database.begin() as c:
        c.execute(tables.deletions.update().values(user_id="other-reader-id"))
    assert [site.get(path, ks.OTHER_READER).status for path in paths(id_)] == [404] * 3


def test_pages_of_who_asked_have_no_gap_where_a_deletion_is_hidden(site):
    made = [site.ask(name, ks.MANAGER)["id"] for name in ("child-2", "p1")]
    end(site, made[1], 31)
    made.append(site.ask("p1", ks.MANAGER)["id"])
    first = site.get("/v1/deletions?limit=1", ks.MANAGERS_OTHER).json
    second = site.get(f"/v1/deletions?limit=1&marker={first['deletions'][0]['id']}", ks.MANAGERS_OTHER).json
    assert [page["deletions"][0]["id"] for page in (first, second)] == [made[2], made[0]]
    assert not second.get("links")


def test_who_asked_for_a_dry_run_sees_its_plan_for_a_month(site):
    id_ = blocked(site, dry_run=True, by=ks.MANAGER)
    end(site, id_, 31)
    assert site.get(f"/v1/plans/{id_}", ks.MANAGERS_OTHER).status == 403
    assert site.get(f"/v1/plans/{id_}/resources", ks.MANAGERS_OTHER).status == 403


def test_who_has_asked_only_for_what_ended_long_ago_is_told_who_may_see_deletions(site):
    end(site, site.ask(token=ks.MANAGER)["id"], 31)
    answer = site.get("/v1/deletions", ks.MANAGERS_OTHER)
    assert (answer.status, answer.error["code"]) == (403, "forbidden")


def test_without_a_limit_who_asked_reads_for_ever(tmp_path, keystone):
    site = Site(tmp_path, keystone=keystone, extra="[api]\nrequester_reads_days = 0\n")
    try:
        id_ = site.ask(token=ks.MANAGER)["id"]
        end(site, id_, 3000)
        assert [site.get(path, ks.MANAGERS_OTHER).status for path in paths(id_)] == [200] * 3
        assert [d["id"] for d in site.get("/v1/deletions", ks.MANAGERS_OTHER).json["deletions"]] == [id_]
    finally:
        site.close()


def test_who_has_asked_for_nothing_is_told_who_may_see_deletions(site):
    site.ask(token=ks.MANAGER)
    answer = site.get("/v1/deletions", ks.MEMBER)
    assert (answer.status, answer.error["code"]) == (403, "forbidden")
    assert "reader" in answer.error["detail"] and "requested the deletion" in answer.error["detail"]


@pytest.mark.parametrize("path", ["/v1/leftovers", "/v1/events?resource_id=r"])
@pytest.mark.parametrize(("token", "domain"), [(ks.MANAGERS_OTHER, ""), (ks.MEMBER, ""), (ks.DOMAIN_READER, "d2")])
def test_who_may_not_search_all_deletions_is_told_who_may(site, path, token, domain):
    """Also who asked for a deletion, who may list it."""
    site.ask(token=ks.MANAGER)
    answer = site.get(path + (f"{'&' if '?' in path else '?'}domain_id={domain}" if domain else ""), token)
    assert (answer.status, answer.error["code"]) == (403, "forbidden")
    assert answer.error["detail"] == (
        "only an admin, a reader of the system, or a reader or manager of a domain with a token of that domain "
        "may search the records of all deletions"
    )


@pytest.mark.parametrize("query", ["", "?project_id=p1"])
def test_who_may_not_see_the_services_is_told_who_may(site, query):
    site.ask(token=ks.MANAGER)
    answer = site.get(f"/v1/services{query}", ks.MEMBER)
    assert (answer.status, answer.error["code"]) == (403, "forbidden")
    assert "a reader of the system" in answer.error["detail"] and "a reader or manager" in answer.error["detail"]


def test_who_may_not_see_the_waivers_of_a_project_is_told_who_may(site):
    answer = site.get("/v1/services?project_id=p2", ks.DOMAIN_READER)
    assert (answer.status, answer.error["code"]) == (403, "forbidden")
    assert "a reader of the system" in answer.error["detail"] and "a reader or manager" in answer.error["detail"]


def test_a_manager_keeps_the_list_of_the_domain(site):
    """Not only the own requests: the right on the domain goes first."""
    made = {site.ask("p1", ks.ADMIN)["id"], site.ask("parent", ks.MANAGER, include_subtree=True)["id"]}
    listed = {d["id"] for d in site.get("/v1/deletions", ks.MANAGER).json["deletions"]}
    assert made < listed
    assert site.get("/v1/deletions?domain_id=d2", ks.MANAGER).status == 403
