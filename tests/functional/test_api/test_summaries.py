"""The sentence before a decision over the API: it is true of the holds and limits of now, and tells no secret."""

import pytest

from cleanup_orchestrator.core.deletion import Status
from tests.functional.test_api import keystone as ks
from tests.functional.test_api.site import Site
from tests.functional.test_api.test_plans import ended, inventory, planned

GOES = "4 resources in 1 service will be deleted, and the project is removed after that"
LIEN = {"project_id": "p1", "origin": "legal", "reason": "a secret of the court"}


def summary(site, id_, token=ks.ADMIN):
    return site.get(f"/v1/deletions/{id_}", token).json["deletion"]["summary"]


def reported(site, number=2):
    made = site.ask()
    inventory(site, made["id"], "port", [str(n) for n in range(number)])
    inventory(site, made["id"], "image", [], kept_resources=["kept"], service="image")
    ended(site, made["id"], status=Status.LEFTOVERS)
    return made["id"]


def test_a_dry_run_has_the_sentence_of_its_plan(site):
    id_ = planned(site)
    assert summary(site, id_) == f"{GOES}; blocked by 1 resource"
    assert site.get(f"/v1/plans/{id_}").json["plan"]["summary"] == summary(site, id_)


def test_a_report_speaks_of_the_cascade_that_may_follow(site):
    id_ = reported(site)
    assert summary(site, id_).startswith("2 resources in 1 service will be deleted, and the project is removed")
    assert summary(site, id_).endswith("; nothing blocks it")


def test_what_is_under_way_and_what_deleted_has_no_such_sentence(site):
    assert summary(site, site.ask()["id"]) == ""


@pytest.mark.parametrize("token", [ks.ADMIN, ks.MANAGER, ks.DOMAIN_READER])
def test_holds_of_now_are_counted_and_their_reasons_are_not_told(site, token):
    id_ = reported(site)
    assert site.post("/v1/liens", LIEN).status == 201
    assert site.post("/v1/brake", {"reason": "a secret of the operator"}).status == 200
    shown = site.get(f"/v1/deletions/{id_}", token)
    assert shown.json["deletion"]["summary"].endswith("; blocked by 1 lien and the brake")
    assert token == ks.ADMIN or b"secret" not in shown.body


@pytest.mark.parametrize(("number", "blocked"), [(3, False), (4, True)])
def test_more_resources_than_the_limit_need_an_approval(tmp_path, keystone, number, blocked):
    site = Site(tmp_path, keystone=keystone, extra="[approval]\nresources = 3\n")
    said = summary(site, reported(site, number))
    site.close()
    above = "blocked by the approval for more than 3 resources"
    assert said.endswith(above if blocked else "nothing blocks it")
