"""Waivers over the API: what is refused, the longest duration, and the policies."""

import datetime

import pytest

from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.core.holds import Waiver
from cleanup_orchestrator.core.step import Step, StepKind
from cleanup_orchestrator.store import records, tables
from tests.functional.test_api.site import Site
from tests.support.cases import each_case
from tests.support.stores import create

HOUR = datetime.timedelta(hours=1)
GOOD = {"service_type": "weather", "reason": "it is retired"}


def text(time):
    return time.isoformat(timespec="seconds") + "Z"


def until(site, **delta):
    return text(site.store.now() + datetime.timedelta(**delta))


def waive(site, **fields):
    answer = site.post("/v1/waivers", {**GOOD, "expires_at": until(site, days=1), **fields})
    assert answer.status == 201, answer.body
    return answer.json["waiver"]


@each_case(
    "fields,field",
    [
        ({"service_type": None}, "service_type"),
        ({"service_type": ""}, "service_type"),
        ({"service_type": "no spaces"}, "service_type"),
        ({"service_type": "x" * 129}, "service_type"),
        ({"service_type": ["dns"]}, "service_type"),
        ({"region": ""}, "region"),
        ({"region": "a\nb"}, "region"),
        ({"region": 1}, "region"),
        ({"project_id": ""}, "project_id"),
        ({"project_id": "a b"}, "project_id"),
        ({"project_id": 0}, "project_id"),
        ({"reason": ""}, "reason"),
        ({"reason": "   "}, "reason"),
        ({"reason": "a\nb"}, "reason"),
        ({"reason": "x" * 1001}, "reason"),
        ({"reason": None}, "reason"),
        ({"expires_at": None}, "expires_at"),
        ({"expires_at": 1}, "expires_at"),
        ({"expires_at": ""}, "expires_at"),
        ({"expires_at": "tomorrow"}, "expires_at"),
        ({"expires_at": "2027-01-01"}, "expires_at"),
        ({"expires_at": "2027-01-01T00:00:00"}, "expires_at"),
        ({"expires_at": "2027-01-01T00:00:00+01:00"}, "expires_at"),
        ({"expires_at": "2027-02-30T00:00:00Z"}, "expires_at"),
        ({"expires_at": "2027-01-01T25:00:00Z"}, "expires_at"),
        ({"expires_at": "0000-01-01T00:00:00Z"}, "expires_at"),
        ({"user_id": "somebody else"}, "user_id"),
        ({"created_at": "2027-01-01T00:00:00Z"}, "created_at"),
        ({"id": "11111111-2222-3333-4444-555555555555"}, "id"),
    ],
)
def test_a_bad_waiver_is_refused_and_not_recorded(site, fields, field):
    answer = site.post("/v1/waivers", {**GOOD, "expires_at": until(site, days=1), **fields})
    assert (answer.status, answer.error["code"], answer.error["field"]) == (400, "invalid_body", field)
    assert f"'{field}'" in answer.error["detail"]
    assert site.get("/v1/waivers?state=all").json["waivers"] == []


@pytest.mark.parametrize("field", sorted({*GOOD, "expires_at"}))
def test_a_waiver_says_what_why_and_until_when(site, field):
    body = {name: value for name, value in {**GOOD, "expires_at": until(site, days=1)}.items() if name != field}
    answer = site.post("/v1/waivers", body)
    assert (answer.status, answer.error["field"], answer.error["detail"]) == (400, field, f"'{field}' is required")


@pytest.mark.parametrize(
    ("delta", "status"),
    [({"seconds": -1}, 400), ({"minutes": 1}, 201), ({"days": 89, "hours": 23}, 201), ({"days": 90, "hours": 1}, 400)],
    ids=str,
)
def test_every_waiver_expires(site, delta, status):
    answer = site.post("/v1/waivers", {**GOOD, "expires_at": until(site, **delta)})
    assert answer.status == status, answer.body
    if status == 400:
        assert (answer.error["code"], answer.error["field"]) == ("invalid_body", "expires_at")


def test_the_operator_says_how_long_one_may_hold(tmp_path, keystone):
    site = Site(tmp_path, keystone=keystone, extra="[catalog]\nwaiver_limit = 2\n")
    refused = site.post("/v1/waivers", {**GOOD, "expires_at": until(site, days=3)})
    assert refused.status == 400 and "2 days" in refused.error["detail"]
    waive(site)
    site.close()


def test_a_waiver_is_written_read_listed_and_withdrawn(any_site):
    made = waive(any_site, region="RegionOne", reason="  ünïcødé 🗑  ")
    assert made["reason"] == "ünïcødé 🗑"
    assert any_site.get(f"/v1/waivers/{made['id']}").json["waiver"] == made
    assert any_site.get("/v1/waivers").json["waivers"] == [made]
    answer = any_site.call("DELETE", f"/v1/waivers/{made['id']}")
    assert (answer.status, answer.body) == (204, b"")
    assert any_site.get("/v1/waivers").json["waivers"] == []
    ended = any_site.get(f"/v1/waivers/{made['id']}").json["waiver"]
    assert ended == {**made, "state": "withdrawn", "deleted_at": ended["deleted_at"], "deleted_by": "admin-id"}


def test_pages_walk_over_every_waiver_once(any_site):
    ids = {waive(any_site, service_type=f"kind-{n % 3}", allow_unknown=True)["id"] for n in range(7)}
    for sort in ("", "&sort=service_type:asc", "&sort=expires_at:desc,region:asc"):
        seen, path = [], f"/v1/waivers?limit=3{sort}"
        while path:
            page = any_site.get(path).json
            seen += [w["id"] for w in page["waivers"]]
            path = page["links"][0]["href"].removeprefix("http://cleanup.example.com") if "links" in page else None
        assert sorted(seen) == sorted(ids)


def test_an_expired_waiver_has_no_effect_and_stays_on_record(site):
    past = site.store.now() - HOUR
    expired = site.store.add_waiver(
        Waiver("11111111-2222-3333-4444-555555555555", "weather", "it was retired", past, past)
    )
    assert site.get("/v1/waivers").json["waivers"] == []
    [shown] = site.get("/v1/waivers?state=ended").json["waivers"]
    assert (shown["id"], shown["state"]) == (expired.id, "expired")
    assert {s["answered_by"] for s in site.get("/v1/services").json["services"]} == {
        "plugin",
        "nothing_to_own",
        "unsupported",
    }


def test_the_catalog_shows_a_project_waiver_only_for_that_project(site):
    waive(site, service_type="weather", project_id="p1")
    answers = lambda query="": {  # noqa: E731
        s["service_type"]: s["answered_by"] for s in site.get(f"/v1/services{query}").json["services"]
    }
    assert answers()["weather"] == "unsupported"
    assert answers("?project_id=p2")["weather"] == "unsupported"
    assert answers("?project_id=p1")["weather"] == "waived"


@pytest.mark.parametrize(
    ("token", "project_id", "status"),
    [
        ("manager-token", "p1", 200),
        ("manager-token", "p2", 403),
        ("manager-token", "nobody-knows-it", 403),
        ("member-token", "p1", 403),
        ("admin-token", "nobody-knows-it", 200),
    ],
)
def test_a_waiver_for_a_project_is_not_shown_to_another_domain(site, token, project_id, status):
    waive(site, service_type="weather", project_id=project_id)
    answer = site.get(f"/v1/services?project_id={project_id}", token=token)
    assert answer.status == status
    assert (b"not listed" in answer.body) is (status == 200)
    assert (b"it is retired" in answer.body) is (token == "admin-token"), "why is for those who may read waivers"


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("state=gone", "state"),
        ("service_type=", "service_type"),
        ("region=%00", "region"),
        ("project_id=a%20b", "project_id"),
        ("sort=reason", "sort"),
        ("sort=created_at,created_at", "sort"),
        ("limit=0", "limit"),
        ("marker=x", "marker"),
        ("marker=11111111-2222-3333-4444-555555555555", "marker"),
        ("status=live", "status"),
    ],
)
def test_a_bad_query(site, query, field):
    answer = site.get(f"/v1/waivers?{query}")
    assert (answer.status, answer.error["code"], answer.error["field"]) == (400, "invalid_query", field)


def test_the_keys_to_sort_by_are_named(site):
    detail = site.get("/v1/waivers?sort=reason").error["detail"]
    assert "created_at, expires_at, service_type, region, project_id, id" in detail


def test_an_operators_policy_counts(tmp_path, keystone):
    (tmp_path / "policy.yaml").write_text('"cleanup:waivers:list": "role:manager"\n')
    site = Site(tmp_path, keystone=keystone, extra=f"[oslo_policy]\npolicy_file = {tmp_path}/policy.yaml\n")
    assert site.get("/v1/waivers", token="manager-token").status == 200
    assert site.get("/v1/waivers").status == 403
    site.close()


def test_the_log_names_user_and_service_of_a_waiver(site, caplog):
    made = waive(site, service_type="weather")
    site.call("DELETE", f"/v1/waivers/{made['id']}")
    said = [r.getMessage() for r in caplog.records if r.name == "cleanup_orchestrator.api.waivers"]
    assert len(said) == 2
    assert all("admin-id" in line and "weather" in line and "it is retired" in line for line in said)
    assert said[0].startswith("waived by") and said[1].startswith("withdrawn by")


def test_a_limit_beyond_the_last_date_is_no_limit(tmp_path, keystone):
    """It once caused a server error."""
    site = Site(tmp_path, keystone=keystone, extra="[catalog]\nwaiver_limit = 3650000\n")
    body = {"service_type": "weather", "reason": "down", "expires_at": "9999-12-31T23:59:59Z"}
    assert site.post("/v1/waivers", body).status == 201
    site.close()


# ------------------------------------------------------------------------------------------------------- the catalog
@pytest.mark.parametrize(
    ("fields", "field", "text"),
    [
        ({"service_type": "wether"}, "service_type", "it has identity, network, placement, weather"),
        ({"service_type": "volumev3"}, "service_type", "no such service"),
        ({"region": "RegionTwo"}, "region", "no such region; it has RegionOne, RegionThree"),
        ({"region": "RegionThree"}, "region", "only in RegionOne"),
        ({"service_type": "wether", "region": "RegionTwo", "allow_unknown": False}, "service_type", "no such service"),
    ],
)
def test_a_typo_in_a_waiver_is_refused_unless_it_is_meant(site, monkeypatch, fields, field, text):
    answer = site.keystone._answer

    def with_another_region(method, path, environ):
        status, body, headers = answer(method, path, environ)
        if path == "/v3/endpoints":
            body["endpoints"].append({"id": "e3", "service_id": "network", "region_id": "RegionThree"})
        return status, body, headers

    monkeypatch.setattr(site.keystone, "_answer", with_another_region)
    body = {**GOOD, "expires_at": until(site, days=1), **fields}
    refused = site.post("/v1/waivers", body)
    assert (refused.status, refused.error["code"], refused.error["field"]) == (400, "not_in_catalog", field)
    assert text in refused.error["detail"] and "wether" not in refused.error["detail"]
    assert site.get("/v1/waivers?state=all").json["waivers"] == []
    made = site.post("/v1/waivers", {**body, "allow_unknown": True})
    assert made.status == 201
    assert "allow_unknown" not in made.json["waiver"]


@pytest.mark.parametrize(("status", "expected"), [(Status.DELETING, 201), (Status.FAILED, 400)])
def test_a_service_that_left_the_catalog_can_be_waived_while_it_blocks_a_deletion(site, status, expected):
    record = create(site.store, status=status)
    step = Step("s", record.id, StepKind.SWEEP, "RegionTwo", "dns", "zone")
    with site.store.database.begin() as c:
        c.execute(tables.steps.insert(), [records.step_values(step)])
    for region in (None, "RegionTwo"):
        body = {**GOOD, "service_type": "designate", "region": region, "expires_at": until(site, days=1)}
        assert site.post("/v1/waivers", body).status == expected
    other = {**GOOD, "service_type": "dns", "region": "RegionOne", "expires_at": until(site, days=1)}
    assert site.post("/v1/waivers", other).status == 400


@pytest.mark.parametrize("name", ["identity", "keystone"])
@pytest.mark.parametrize("more", [{}, {"allow_unknown": True}])
def test_keystone_cannot_be_waived(site, name, more):
    refused = site.post("/v1/waivers", {**GOOD, "service_type": name, "expires_at": until(site, days=1), **more})
    assert (refused.status, refused.error["code"], refused.error["field"]) == (400, "not_waivable", "service_type")
    assert site.get("/v1/waivers").json["waivers"] == []


def test_a_waiver_can_name_a_service_by_its_project(site):
    assert waive(site, service_type="neutron", region="RegionOne")["service_type"] == "network"


def test_without_keystone_only_a_waiver_that_may_be_unknown_is_recorded(site, monkeypatch):
    body = {**GOOD, "expires_at": until(site, days=1)}
    answer = site.keystone._answer
    down = lambda method, path, environ: (503, {}, []) if path == "/v3/services" else answer(method, path, environ)  # noqa: E731
    monkeypatch.setattr(site.keystone, "_answer", down)
    refused = site.post("/v1/waivers", body)
    assert (refused.status, refused.error["code"]) == (503, "keystone_unavailable")
    assert site.post("/v1/waivers", {**body, "allow_unknown": True}).status == 201
