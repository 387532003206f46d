"""The reasons of liens, the brake and waivers are shown only to users who may read these."""

from __future__ import annotations

import datetime
import json
import uuid

import pytest

from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.core.holds import Brake, Lien, Waiver
from tests.emulated.orchestrator import Orchestrator
from tests.functional.test_api import keystone as ks
from tests.functional.test_api.site import Site
from tests.support.emulated_site import LEAN
from tests.support.timing import wait

LONG = 300
CLOUD = {**LEAN, "things": {"image.image": 2, "key-manager.secret": 1}}
SECRETS = ("SECRET-LIEN", "SECRET-WAIVER", "SECRET-BRAKE", "secret-person")


@pytest.fixture
def keystone():
    keystone = ks.Keystone()
    keystone.token("default-manager-token", "manager", domain_id="default")
    yield keystone
    keystone.close()


def seen(site, token, *ids):
    """Return all that a token shows of deletions, by path."""
    paths = ["/v1/deletions", *(f"/v1/deletions/{id_}{more}" for id_ in ids for more in ("", "/events?limit=50"))]
    paths += [f"/v1/plans/{ids[0]}", f"/v1/plans/{ids[0]}/resources", f"/v1/deletions/{ids[0]}/leftovers"]
    found = {}
    while paths:
        path = paths.pop(0)
        answer = site.get(path, token)
        if answer.status != 200:
            assert (path.split("/")[2], answer.status) == ("plans", 404), (path, answer.body)
            continue
        found[path] = answer.json
        paths += [x["href"].removeprefix("http://cleanup.example.com") for x in answer.json.get("links", ())]
    return found


def told(found):
    return {secret: [path for path, body in found.items() if secret in json.dumps(body)] for secret in SECRETS}


@pytest.mark.slow
def test_what_admins_wrote_is_not_shown_to_a_manager_of_the_domain(emulated, tmp_path, keystone):
    who = {"user_id": "secret-person", "user_name": "alice"}
    none_shown: dict[str, list[str]] = {secret: [] for secret in SECRETS}
    with Orchestrator(emulated, tmp_path) as made:
        (tmp_path / "api").mkdir()
        site = Site(tmp_path / "api", keystone=keystone, store=made.store)
        [project] = emulated.projects
        now = made.store.now()
        until = now + datetime.timedelta(days=1)
        waived = Waiver(str(uuid.uuid4()), "key-manager", "SECRET-WAIVER", now, until, **who)
        made.store.add_waiver(waived)
        lien = made.store.add_lien(Lien(str(uuid.uuid4()), project, "legal", "SECRET-LIEN", now, **who))
        dry = made.request(project, dry_run=True)
        assert made.wait([dry], LONG) == {dry: Status.PLANNED}
        made.store.set_brake(Brake(True, "SECRET-BRAKE", **who))
        id_ = made.request(project)
        wait("it is held", lambda: any(c.type == "on_hold" and c.status for c in made.store.get(id_).conditions), LONG)

        assert told(seen(site, "default-manager-token", dry, id_)) == none_shown
        shown = site.get(f"/v1/deletions/{id_}", "default-manager-token").json["deletion"]
        assert shown["liens"] == [{"id": lien.id, "project_id": project, "origin": "legal", "expires_at": None}]
        conditions = {c["type"]: (c["reason"], c["message"]) for c in shown["conditions"]}
        assert conditions["on_hold"][0] == "lien" and "admin" in conditions["on_hold"][1]

        all_of_it = told(seen(site, ks.ADMIN, dry, id_))
        texts = [paths for secret, paths in all_of_it.items() if secret.isupper()]
        assert len(texts) == 3 and all(f"/v1/deletions/{id_}" in paths for paths in texts), all_of_it

        made.store.remove_lien(lien.id, "admin")
        made.store.set_brake(Brake(False))
        assert made.wait([id_], LONG) == {id_: Status.DELETED}
        assert told(seen(site, "default-manager-token", dry, id_)) == none_shown
        shown = site.get(f"/v1/deletions/{id_}", "default-manager-token").json["deletion"]
        assert "not listed: key-manager" in shown["message"], "every reader sees what was left out"
        [shown] = shown["waivers"]
        assert (shown["id"], shown["service_type"]) == (waived.id, "key-manager")
        assert shown["user_name"] == "alice", "whom to ask"
        assert "reason" not in shown and [x["service"] for x in shown["not_listed"]] == ["key-manager"]
        [full] = site.get(f"/v1/deletions/{id_}", ks.ADMIN).json["deletion"]["waivers"]
        assert (full["reason"], full["user_name"]) == ("SECRET-WAIVER", "alice")


def _with_policy(tmp_path, keystone, text):
    (tmp_path / "policy.yaml").write_text(text)
    return Site(tmp_path, keystone=keystone, extra=f"[oslo_policy]\npolicy_file = {tmp_path}/policy.yaml\n")


@pytest.mark.parametrize("noun", ["lien", "waiver"])
def test_a_list_has_no_reasons_for_a_caller_who_may_list_and_not_read(tmp_path, keystone, noun):
    site = _with_policy(tmp_path, keystone, f'"cleanup:{noun}s:list": "role:manager or role:admin"\n')
    now, id_ = site.store.now(), "11111111-2222-4333-8444-555555555555"
    if noun == "lien":
        site.store.add_lien(Lien(id_, "p1", "legal", "the court case", now))
    else:
        site.store.add_waiver(Waiver(id_, "dns", "the court case", now, now + datetime.timedelta(days=1)))
    try:
        assert site.get(f"/v1/{noun}s/{id_}", ks.MANAGER).status == 403
        listed = site.get(f"/v1/{noun}s", ks.MANAGER)
        assert [row["id"] for row in listed.json[f"{noun}s"]] == [id_]
        assert b"the court case" not in listed.body
    finally:
        site.close()


def test_setting_a_brake_that_is_on_shows_its_reason_only_to_a_caller_who_may_read_it(tmp_path, keystone):
    site = _with_policy(tmp_path, keystone, '"cleanup:brake:set": "role:member or role:admin"\n')
    site.store.set_brake(Brake(True, "the court case", user_id="x", user_name="alice"))
    try:
        answer = site.post("/v1/brake", {"reason": "mine"}, ks.MEMBER)
        assert (answer.status, answer.json["brake"]["on"]) == (200, True)
        assert b"the court case" not in answer.body
        assert b"alice" not in answer.body
    finally:
        site.close()
