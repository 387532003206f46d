"""How many deletions a requester without the admin's rights may request, over the API and on each database."""

import dataclasses
import datetime

import pytest
import sqlalchemy as sa

from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.core.request_limits import RequestLimits
from cleanup_orchestrator.store import tables
from tests.functional.test_api import keystone as ks
from tests.functional.test_api.site import Site
from tests.support.stores import save

HOUR = datetime.timedelta(hours=1)


@pytest.fixture
def limited(tmp_path, database_url, keystone):
    """Return a function that makes an application with limits."""
    made = []

    def make(**limits):
        lines = "".join(f"{name} = {value}\n" for name, value in limits.items())
        made.append(Site(tmp_path, database_url, keystone, extra=f"[api]\n{lines}"))
        for number in range(9):
            made[-1].keystone.project(f"e{number}", f"e{number}", "d1")
        return made[-1]

    yield make
    for site in made:
        site.close()


def refused(site, project_id, token=ks.MANAGER, **fields):
    answer = site.post("/v1/deletions", {"project_id": project_id, **fields}, token)
    assert (answer.status, answer.error["code"]) == (429, "deletion_limit_reached"), answer.body
    return answer


@pytest.mark.parametrize("fields", [{"dry_run": True}, {}, {"mode": "cascade"}, {"mode": "purge"}])
def test_a_user_may_have_so_many_deletions_under_way(limited, fields):
    site = limited(live_per_requester=2)
    first = site.ask("e0", ks.MANAGER, **fields)
    site.ask("e1", ks.MANAGER, **fields)
    answer = refused(site, "e2", **fields)
    assert answer.error["limit"] == 2
    assert answer.headers["Retry-After"] == "60"
    assert answer.error["detail"] == (
        "2 deletions that were requested by this user, dry runs included, are under way, and [api] live_per_requester "
        "is 2: wait for the end of some or cancel some, or ask an admin of the cloud"
    )
    assert site.count() == 2
    record = site.store.get(first["id"])
    save(site.store, record, dataclasses.replace(record, status=Status.PLANNED))
    site.ask("e2", ks.MANAGER, **fields)


def test_the_users_of_a_domain_share_a_limit_and_other_domains_do_not(limited):
    site = limited(live_per_domain=2)
    site.ask("e0", ks.MANAGER)
    site.ask("e1", ks.ADMIN)
    answer = refused(site, "e2")
    assert "2 deletions that were requested in this domain" in answer.error["detail"]
    site.ask("p2", ks.OTHER_MANAGER)


def test_an_admin_of_the_cloud_is_not_limited(limited):
    site = limited(live_per_requester=1, live_per_domain=1, daily_per_requester=1, daily_per_domain=1)
    for number in range(9):
        site.ask(f"e{number}", ks.ADMIN)


def test_the_same_request_again_is_no_further_one(limited):
    site = limited(live_per_requester=1, daily_per_requester=1)
    made = site.ask("e0", ks.MANAGER)
    assert site.ask("e0", ks.MANAGER)["id"] == made["id"]
    refused(site, "e0", dry_run=True)
    assert site.count() == 1


def test_a_tree_is_accepted_as_a_whole_and_counts_with_each_project(limited):
    site = limited(live_per_requester=2)
    site.ask("e0", ks.MANAGER)
    site.ask("parent", ks.MANAGER, include_subtree=True)
    assert site.count() == 4
    refused(site, "e1")
    assert site.ask("parent", ks.MANAGER, include_subtree=True)["project_id"] == "parent"


def test_requests_of_a_day_are_limited_also_those_that_have_ended(limited):
    site = limited(daily_per_requester=3)
    ids = [site.ask(f"e{number}", ks.MANAGER, dry_run=True)["id"] for number in range(3)]
    now = site.store.now()
    for number, id_ in enumerate(ids):
        values = {"created_at": now - (23 - number) * HOUR, "status": "planned", "live_project_id": None}
        with site.store.database.begin() as c:
            c.execute(sa.update(tables.deletions).where(tables.deletions.c.id == id_).values(**values))
    answer = refused(site, "e3")
    assert 3590 <= int(answer.headers["Retry-After"]) <= 3600, "when the first of them is a day old"
    assert "were requested by this user within 24 hours, and [api] daily_per_requester is 3" in answer.error["detail"]
    with site.store.database.begin() as c:
        old = {"created_at": now - 25 * HOUR}
        c.execute(sa.update(tables.deletions).where(tables.deletions.c.id == ids[0]).values(**old))
    site.ask("e3", ks.MANAGER)


def test_a_retry_makes_one_more_deletion_live_and_is_limited_too(limited):
    site = limited(live_per_requester=1, daily_per_requester=2)
    made = site.ask("e0", ks.MANAGER)
    record = site.store.get(made["id"])
    save(site.store, record, dataclasses.replace(record, status=Status.LEFTOVERS))
    other = site.ask("e1", ks.MANAGER)
    answer = site.post(f"/v1/deletions/{made['id']}/retry", token=ks.MANAGER)
    assert (answer.status, answer.error["code"]) == (429, "deletion_limit_reached")
    assert site.post(f"/v1/deletions/{other['id']}/retry", token=ks.MANAGER).status == 202, "it is live already"
    assert site.post(f"/v1/deletions/{made['id']}/retry", token=ks.ADMIN).status == 202


def test_a_retry_is_no_further_request_of_the_day(limited):
    site = limited(daily_per_requester=1, daily_per_domain=1)
    made = site.ask("e0", ks.MANAGER)
    record = site.store.get(made["id"])
    save(site.store, record, dataclasses.replace(record, status=Status.LEFTOVERS))
    assert site.post(f"/v1/deletions/{made['id']}/retry", token=ks.MANAGER).status == 202


def test_simultaneous_requests_do_not_exceed_a_limit(limited):
    from concurrent.futures import ThreadPoolExecutor

    site = limited(live_per_requester=3)
    ask = lambda n: site.post("/v1/deletions", {"project_id": f"e{n}"}, ks.MANAGER).status  # noqa: E731
    with ThreadPoolExecutor(8) as threads:
        statuses = sorted(threads.map(ask, range(8)))
    assert statuses == [202] * 3 + [429] * 5
    assert site.count() == 3


def test_the_limits_are_on_by_default(site):
    defaults = RequestLimits(**{f.name: site.conf.api[f.name] for f in dataclasses.fields(RequestLimits)})
    assert defaults == RequestLimits(50, 200, 2500, 5000)
    assert defaults.daily_per_requester > 2 * site.conf.deletion.max_subtree, "a dry run and a cascade of a large tree"
