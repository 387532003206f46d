"""Deletions over the API, beyond the sentences of gabbi: races, lost writes, paging, logs, and failures of others."""

import concurrent.futures
import dataclasses
import datetime
import io
import logging
import threading
import types
import uuid

import pytest
import sqlalchemy as sa
import tenacity
import webob
from oslo_context import context as oslo_context
from oslo_log import formatters
from sqlalchemy import exc as sa_exc

from cleanup_orchestrator import log
from cleanup_orchestrator import store as storage
from cleanup_orchestrator.api import root, views
from cleanup_orchestrator.api.errors import ApiError
from cleanup_orchestrator.core import actions, transitions
from cleanup_orchestrator.core.deletion import Origin, RoundPurpose, Status
from cleanup_orchestrator.core.journal import Event
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import TASKS, Leftover, Outcome, Step, StepKind, StepResult, StepState
from cleanup_orchestrator.core.tally import tally
from cleanup_orchestrator.core.transitions import By
from cleanup_orchestrator.store import records, tables
from tests.functional.test_api import keystone as ks
from tests.functional.test_api.site import Site
from tests.support import stores
from tests.support.stores import save
from tests.unit.world import deletion


def journal(site, deletion_id):
    return [row.event for row in site.store.events(deletion_id, 1000)]


# ---------------------------------------------------------------------------------------------------------------- races
@pytest.mark.parametrize("modes", [("report",) * 8, ("report", "cascade") * 4], ids=["same", "conflicting"])
def test_simultaneous_requests_make_one_record(any_site, modes):
    barrier = threading.Barrier(len(modes))

    def ask(mode):
        barrier.wait()
        return any_site.post("/v1/deletions", {"project_id": "p1", "mode": mode})

    with concurrent.futures.ThreadPoolExecutor(len(modes)) as pool:
        answers = list(pool.map(ask, modes))
    [record] = any_site.store.list(storage.Page(10))
    assert [e.type for e in journal(any_site, record.id)] == ["deletion.accepted"]
    assert len(any_site.store.steps(record.id)) == len(TASKS)
    for mode, answer in zip(modes, answers, strict=True):
        if mode == record.mode:
            assert (answer.status, answer.json["deletion"]["id"]) == (202, record.id)
        else:
            assert (answer.status, answer.error["code"]) == (409, "deletion_under_way")
            assert answer.error["deletion_id"] == record.id


def test_simultaneous_cancels_and_an_engine_that_writes(any_site):
    made = any_site.ask(mode="cascade")
    stop = threading.Event()

    def engine():
        while not stop.is_set():
            before = any_site.store.get(made["id"])
            try:
                save(any_site.store, before, dataclasses.replace(before, message=uuid.uuid4().hex))
            except storage.Conflict:
                pass
            stop.wait(0.1)  # an engine does not write all the time, also where a request takes long

    thread = threading.Thread(target=engine)
    thread.start()
    try:
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda _: any_site.post(f"/v1/deletions/{made['id']}/cancel"), range(4)))
    finally:
        stop.set()
        thread.join()
    assert sorted(a.status for a in answers) == [202, 409, 409, 409]
    assert {a.error["code"] for a in answers if a.status == 409} == {"not_cancellable"}
    assert [e.type for e in journal(any_site, made["id"])].count("deletion.cancelling") == 1


def test_a_move_that_always_conflicts_is_given_up(site, monkeypatch):
    made = site.ask()
    monkeypatch.setattr(site.store, "propose", lambda *_: (_ for _ in ()).throw(storage.Conflict("always")))
    answer = site.post(f"/v1/deletions/{made['id']}/cancel")
    assert (answer.status, answer.error["code"]) == (409, "conflict")


# ----------------------------------------------------------------------------------------------------- when others fail
def test_a_failing_cast_does_not_fail_the_request(site, caplog):
    site.bus.broken = True
    made = site.ask()
    assert site.count() == 1
    assert "no cast to the engine" in caplog.text
    assert site.post(f"/v1/deletions/{made['id']}/cancel").status == 202


def test_the_store_is_down(site, monkeypatch, caplog):
    def refuse(_engine):
        raise sa_exc.OperationalError("SELECT secret FROM t", {}, Exception("connection refused"))

    monkeypatch.setattr(sa.Engine, "connect", refuse)
    for retry in stores.retries():  # without the retries of 20 seconds
        monkeypatch.setattr(retry, "stop", tenacity.stop_after_attempt(1))
    for answer in (
        site.get("/v1/deletions"),
        site.get(f"/v1/deletions/{uuid.uuid4()}"),
        site.post("/v1/deletions", {"project_id": "p1"}),
    ):
        assert (answer.status, answer.error["code"]) == (503, "store_unavailable")
        assert b"secret" not in answer.body and b"refused" not in answer.body
    answer = site.get("/healthcheck", token=None)
    assert (answer.status, answer.body) == (503, b"store unavailable")
    assert site.get("/", token=None).status == 200


def test_keystone_fails_after_the_token_was_checked(site, monkeypatch):
    def answer(method, path, environ, inner=site.keystone._answer):
        if path.startswith(("/v3/projects", "/v3/services")):
            return 500, {"error": {"code": 500, "title": "x", "message": "x"}}, []
        return inner(method, path, environ)

    monkeypatch.setattr(site.keystone, "_answer", answer)
    for got in (site.post("/v1/deletions", {"project_id": "p1"}), site.get("/v1/services")):
        assert (got.status, got.error["code"]) == (503, "keystone_unavailable")
    assert site.count() == 0


@pytest.mark.parametrize("body", [b'{"project": {"id": "p1", "subt', b"<html>Welcome</html>", b"[]", b"{}"])
@pytest.mark.parametrize(
    "about", ["/v3/projects/p1?", "/v3/projects/p1?subtree_as_ids", "/v3/services?", "/v3/endpoints?"]
)
def test_an_answer_of_keystone_that_was_cut_off_or_is_not_keystones(site, monkeypatch, about, body):
    def answer(method, path, environ, inner=site.keystone._answer):
        asked = f"{path}?{environ.get('QUERY_STRING', '')}"
        return (200, body, []) if asked == about else inner(method, path, environ)

    monkeypatch.setattr(site.keystone, "_answer", answer)
    got = site.post("/v1/deletions", {"project_id": "p1"}) if "projects" in about else site.get("/v1/services")
    assert (got.status, got.error["code"]) == (503, "keystone_unavailable")
    assert site.count() == 0


@pytest.mark.parametrize("body", [b'{"token": {"user": {"id": "u1"}, "expi', b"<html>Welcome</html>", b"[]", b"{}"])
def test_an_answer_to_the_token_check_that_was_cut_off_or_is_not_keystones(site, monkeypatch, body):
    def answer(method, path, environ, inner=site.keystone._answer):
        checks = (method, path) == ("GET", "/v3/auth/tokens")
        return (200, body, []) if checks else inner(method, path, environ)

    monkeypatch.setattr(site.keystone, "_answer", answer)
    got = site.post("/v1/deletions", {"project_id": "p1"})
    assert (got.status, got.error["code"]) == (503, "keystone_unavailable")
    assert site.count() == 0


def test_keystone_answers_about_another_project(site, monkeypatch):
    monkeypatch.setitem(site.keystone.projects, "p1", site.keystone.projects["p2"])
    answer = site.post("/v1/deletions", {"project_id": "p1"})
    assert (answer.status, answer.error["code"]) == (503, "keystone_unavailable")
    assert site.count() == 0


def test_an_unexpected_error_shows_nothing_and_is_logged_with_its_request(site, monkeypatch, caplog):
    monkeypatch.setattr(site.store, "shown", lambda _: {}["a secret detail"])
    answer = site.get(f"/v1/deletions/{uuid.uuid4()}")
    assert (answer.status, answer.error["code"]) == (500, "internal_error")
    assert b"secret" not in answer.body and b"Traceback" not in answer.body
    assert answer.headers["content-type"].startswith("application/json")
    [record] = [r for r in caplog.records if r.levelno == logging.ERROR]
    assert record.exc_info and "a secret detail" in str(record.exc_info[1])


# ------------------------------------------------------------------------------------------------------------ the lines
@pytest.fixture
def lines(site):
    """Return the log, formatted as the process does it."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatters.ContextFormatter(config=site.conf))
    factory, level = logging.getLogRecordFactory(), logging.getLogger().level
    logging.setLogRecordFactory(log._Factory(factory))
    logging.getLogger().addHandler(handler)
    logging.getLogger().setLevel(logging.DEBUG)
    yield lambda: stream.getvalue().splitlines()
    logging.getLogger().removeHandler(handler)
    logging.getLogger().setLevel(level)
    logging.setLogRecordFactory(factory)


def test_every_line_has_the_ids_and_none_a_secret(site, lines, monkeypatch):
    site.keystone.token("gAAAA-secret-token", "admin", project_id=ks.OWN_PROJECT)
    answer = site.post("/v1/deletions", {"project_id": "p1"}, token="gAAAA-secret-token")
    made = answer.json["deletion"]
    request_id = answer.headers["x-openstack-request-id"]
    of_package = [line for line in lines() if " cleanup_orchestrator." in line]
    assert [line.split("] ", 1)[1][:20] for line in of_package if " INFO " in line] == [
        "accepted: report del",
        "POST /v1/deletions: ",
    ]
    for line in of_package:
        assert f"[{request_id} deletion={made['id']} project=p1]" in line
    monkeypatch.setattr(site.store, "shown", lambda _: {}["x"])
    failed = site.get(f"/v1/deletions/{made['id']}")
    trace = [line for line in lines() if "Traceback" in line or "KeyError" in line]
    assert trace and all(f"[{failed.headers['x-openstack-request-id']} deletion=" in line for line in trace)
    text = "\n".join(lines())
    assert "gAAAA-secret-token" not in text and "a-very-secret-password" not in text


def test_every_line_has_the_request_id_that_the_caller_sent(site, lines):
    """As the clients of OpenStack send it, so that one id finds the lines of all services."""
    sent = f"req-{uuid.UUID(int=7)}"
    headers = {"X-OpenStack-Request-Id": sent}
    answer = site.post("/v1/deletions", {"project_id": "p1"}, headers=headers)
    own = answer.headers["x-openstack-request-id"]
    assert own != sent
    ids = f"[{own} deletion={answer.json['deletion']['id']} project=p1 global_request_id={sent}]"
    of_package = [line for line in lines() if " cleanup_orchestrator." in line and " INFO " in line]
    assert len(of_package) == 2 and all(ids in line for line in of_package)
    assert site.get("/v1/nothing", headers=headers).status == 404
    assert f"global_request_id={sent}] GET /v1/nothing: 404" in lines()[-1]


@pytest.mark.parametrize(
    "sent", ["x", "req-", f"req-{uuid.UUID(int=7)} forged", f"REQ-{uuid.UUID(int=7)}", "req-\u00fc"]
)
def test_a_request_id_of_another_form_is_not_logged(site, lines, sent):
    answer = site.get("/v1/deletions", headers={"X-OpenStack-Request-Id": sent})
    assert answer.status == 200
    assert lines() and not [line for line in lines() if "global_request_id" in line]


def test_a_line_outside_of_any_request_is_well_formed(lines):
    before = oslo_context.get_current()
    with log.context("d1", "p1", "req-1"):
        logging.getLogger("x").warning("inside")
        with log.context("d2", "p2"):
            logging.getLogger("x").warning("deeper")
        logging.getLogger("x").warning("inside again")
    oslo_context.RequestContext(request_id="req-2")  # a library's own
    logging.getLogger("x").warning("a library")
    oslo_context._request_store.context = before
    logging.getLogger("x").warning("outside")
    text = [line.split(" x ", 1)[1] for line in lines()]
    assert text == [
        "[req-1 deletion=d1 project=p1] inside",
        "[- deletion=d2 project=p2] deeper",
        "[req-1 deletion=d1 project=p1] inside again",
        "[req-2 deletion=- project=-] a library",
        "[- deletion=- project=-] outside",
    ]


def test_a_request_leaves_no_context_behind(site):
    before = oslo_context.get_current()
    site.ask()
    assert oslo_context.get_current() is before


# -------------------------------------------------------------------------------------------------------------- details
def test_counts_leftovers_and_blockers(any_site):
    site = any_site
    made = site.ask(mode="cascade")
    record, _, now = site.store.load(made["id"])
    rows = [
        Step(str(uuid.uuid4()), record.id, StepKind.SWEEP, "RegionOne", "network", name, round=1,
             state=StepState.DISPATCHED, attempt=1, dispatched_at=now)
        for name in ("port", "network")
    ]  # fmt: skip
    record = dataclasses.replace(record, status=Status.DELETING, purpose=RoundPurpose.DELETE)
    save(site.store, site.store.get(record.id), record)
    with site.store.database.begin() as c:
        c.execute(tables.steps.insert(), [records.step_values(row) for row in rows])
    lost = Leftover("port-1", "ünïcode", Reason.IN_USE, "still used", ({"type": "router", "id": "r1"},), size=2048)
    held = site.store.claim(rows[0].id, "w", 60)
    gone = (("a", ""), ("b", ""))
    sweep = StepResult(Outcome.LEFTOVERS, "in_use", "1 left", found=3, kept=1, calls=5, leftovers=(lost,), deleted=gone)
    assert site.store.finish(held[1], sweep)
    shown = site.get(f"/v1/deletions/{record.id}").json["deletion"]
    assert shown["progress"] == {
        "steps": 2, "steps_done": 0, "found": 3, "deleted": 2, "remaining": 1, "kept": 1, "unknown": 0, "calls": 5,
        "abandoned": 0, "round": 1, "purpose": "delete",
    }  # fmt: skip
    assert shown["counts"] == [
        {"region": "RegionOne", "service": "network", "type": "network", "found": 0, "deleted": 0, "remaining": 0,
         "abandoned": 0, "kept": 0, "unplanned": 0, "unselected": 0, "calls": 0, "outcome": "", "state": "dispatched",
         "reason": "", "message": ""},
        {"region": "RegionOne", "service": "network", "type": "port", "found": 3, "deleted": 2, "remaining": 1,
         "abandoned": 0, "kept": 1, "unplanned": 0, "unselected": 0, "calls": 5, "outcome": "leftovers",
         "state": "done", "reason": "in_use", "message": "1 left"},
    ]  # fmt: skip
    [blocker] = shown["blockers"]
    assert (blocker["service"], blocker["type"], blocker["reason"]) == ("network", "port", "in_use")
    assert blocker["remedy"]
    assert (blocker["number"], blocker["resources"]) == (1, [{"id": "port-1", "name": "ünïcode"}])
    assert blocker["commands"] == [f"openstack project deletion leftovers --long --type network.port {record.id}"]
    path = f"/v1/deletions/{record.id}/leftovers"
    [row] = site.get(path).json["leftovers"]
    assert row == {
        "region": "RegionOne", "service": "network", "type": "port", "id": "port-1", "name": "ünïcode",
        "size": 2048, "objects": None, "reason": "in_use", "message": "still used",
        "remedy": "its owner, or an admin, deletes what blocks it, unless that is being deleted: 'openstack project "
        f"deletion leftovers --long --type network.port {record.id}' names it; the delete is tried again automatically",
        "commands": [f"openstack project deletion leftovers --long --type network.port {record.id}"],
        "abandoned": False, "owner": None,
        "blocked_by": [{"type": "router", "id": "r1", "name": "", "project_id": None, "project_name": None}],
    }  # fmt: skip
    query = "?region=RegionOne&service=network&type=port&reason=in_use&limit=1"
    assert site.get(path + query).json == {"leftovers": [row]}
    for other in ("type=network", "service=identity", "reason=error"):
        assert site.get(f"{path}?{other}").json == {"leftovers": []}
    for unknown in ("region=x", "service=x", "type=x", "region=%27;--"):
        assert site.get(f"{path}?{unknown}").error["field"] == unknown.partition("=")[0]
    site.store.decide(record.id, lambda d, steps, now: actions.apply(d, steps, (), now))
    listed = site.get("/v1/deletions").json["deletions"][0]
    assert listed["progress"] == shown["progress"]
    assert "counts" not in listed and "blockers" not in listed


def test_pages_of_the_journal(any_site):
    made = any_site.ask()
    record = any_site.store.get(made["id"])
    save(any_site.store, record, record, events=[Event("note", str(n), data={"n": n}) for n in range(7)])
    path, seen, pages = f"/v1/deletions/{made['id']}/events?limit=3&type=note", [], 0
    while path:
        body = any_site.get(path).json
        pages += 1
        seen += [e["data"]["n"] for e in body["events"]]
        path = body.get("links", [{}])[0].get("href", "").removeprefix("http://cleanup.example.com")
    assert (seen, pages) == (list(range(7)), 3)


def test_a_stall_and_a_settling_time_are_shown(site):
    made = site.ask()
    record, _, now = site.store.load(made["id"])
    save(site.store, record, dataclasses.replace(record, drained_at=now.replace(microsecond=0)))
    shown = site.get(f"/v1/deletions/{made['id']}").json["deletion"]
    begin, end = (datetime.datetime.fromisoformat(shown[name]) for name in ("drained_at", "settle_until"))
    assert end - begin == datetime.timedelta(seconds=300)


# --------------------------------------------------------------------------------------------------------- never delete
@pytest.mark.parametrize("name", ["admin", "ADMIN", "Service"])
def test_names_are_protected_in_every_domain_and_case(site, name):
    site.keystone.project("some", name, "d2")
    answer = site.post("/v1/deletions", {"project_id": "some"})
    assert (answer.status, answer.error["code"]) == (403, "project_protected")
    assert site.count() == 0


def test_very_many_children_are_all_named(site):
    for n in range(120):
        site.keystone.project(f"many-{n:03}", "x", "d1", parent="p2")
    answer = site.post("/v1/deletions", {"project_id": "p2"})
    for n in range(120):
        del site.keystone.projects[f"many-{n:03}"]
    assert answer.error["children"] == [f"many-{n:03}" for n in range(120)]
    assert "many-049 and 70 more" in answer.error["detail"]


# ---------------------------------------------------------------------------------------------------------------- trees
def tree(site, **body):
    return site.post("/v1/deletions", {"project_id": "parent", "include_subtree": True, **body})


def by_project(site):
    listed = site.get("/v1/deletions?sort=created_at:asc").json["deletions"]
    return {d["project_id"]: d for d in listed}


def test_a_tree_is_one_deletion_for_each_project_and_each_is_known_to_the_one_above(site):
    answer = tree(site, mode="cascade")
    assert answer.status == 202
    made = by_project(site)
    assert set(made) == {"parent", "child-1", "child-2"}
    root, middle, leaf = made["parent"], made["child-1"], made["child-2"]
    assert answer.json["deletion"]["id"] == root["id"]
    assert [d["parent_deletion_id"] for d in (root, middle, leaf)] == ["", root["id"], middle["id"]]
    assert [d["include_subtree"] for d in (root, middle, leaf)] == [True, True, False]
    assert {d["mode"] for d in made.values()} == {"cascade"}
    (child,) = answer.json["deletion"]["children"]
    ids = {"deletion_id": middle["id"], "project_id": "child-1", "project_name": middle["project_name"]}
    assert child == {**ids, "status": "accepted", "attention": [], "attention_message": ""}
    below = site.get(f"/v1/deletions?parent_deletion_id={root['id']}").json["deletions"]
    assert [d["id"] for d in below] == [middle["id"]]


def test_the_engines_are_notified_of_the_deepest_project_first(site):
    made = tree(site).json and by_project(site)
    told = [site.store.get(deletion_id).project_id for deletion_id in site.bus.casts]
    assert told == ["child-2", "child-1", "parent"]
    assert len(made) == 3


def test_the_same_tree_twice_is_one_set_of_deletions(site):
    first, second = tree(site), tree(site)
    assert first.json["deletion"]["id"] == second.json["deletion"]["id"]
    assert site.count() == 3


def test_a_tree_takes_in_a_deletion_that_is_under_way_below_it(site):
    alone = site.post("/v1/deletions", {"project_id": "child-2"}).json["deletion"]
    assert tree(site).status == 202
    made = by_project(site)
    assert made["child-2"]["id"] == alone["id"]
    assert site.count() == 3


def test_a_deletion_below_one_that_is_under_way_belongs_to_the_next_deletion_above(site):
    """The project below was created after the deletion of the project between was requested."""
    below = site.keystone.projects.pop("child-2")
    alone = site.post("/v1/deletions", {"project_id": "child-1"}).json["deletion"]
    site.keystone.projects["child-2"] = below
    root = tree(site).json["deletion"]
    made = by_project(site)
    assert made["child-1"]["id"] == alone["id"]
    assert made["child-2"]["parent_deletion_id"] == root["id"]
    assert [c["deletion_id"] for c in root["children"]] == [made["child-2"]["id"]]


def test_an_adoption_under_way_is_not_the_deletion_that_a_user_requests(site):
    """It ends without a delete, because Keystone knows the project."""
    made = site.ask("p1", mode="cascade")
    before = site.store.get(made["id"])
    save(site.store, before, dataclasses.replace(before, origin=Origin.ADOPTED))
    answer = site.post("/v1/deletions", {"project_id": "p1", "mode": "cascade"})
    assert (answer.status, answer.error["code"]) == (409, "deletion_under_way")


def test_a_tree_with_another_kind_of_deletion_below_it_is_refused_as_a_whole(site):
    alone = site.post("/v1/deletions", {"project_id": "child-2"}).json["deletion"]
    answer = tree(site, mode="cascade")
    assert (answer.status, answer.error["code"], answer.error["deletion_id"]) == (
        409,
        "deletion_under_way",
        alone["id"],
    )
    assert "child-2" in answer.error["detail"]
    assert site.count() == 1


def test_a_protected_project_below_refuses_the_whole_tree(site):
    site.keystone.project("kept", "service", "d1", parent="child-2")
    try:
        answer = tree(site)
    finally:
        del site.keystone.projects["kept"]
    assert (answer.status, answer.error["code"], answer.error["project_id"]) == (403, "project_protected", "kept")
    assert site.count() == 0


def test_noticed_deletions_differ_from_requested_ones(site):
    site.post("/v1/deletions", {"project_id": "p1"})
    assert len(site.get("/v1/deletions?origin=request").json["deletions"]) == 1
    assert site.get("/v1/deletions?origin=noticed").json["deletions"] == []


# --------------------------------------------------------------------------------------------------------------- paging


def test_the_api_moves_deletions_only_as_the_user(site):
    """The tests above move by the table. This one checks that the API moves only as the user."""
    assert {by for (_, to), by in transitions.MOVES.items() if to in (Status.ACCEPTED, Status.CANCELLING)} == {By.USER}


# ------------------------------------------------------------------------------------------------------------- the rest
def test_without_the_token_check_headers_prove_nothing():
    """If the token check is missing in the pipeline, no request is handled."""
    request = webob.Request.blank("/v1/deletions")
    request.headers.update({"X-Identity-Status": "Confirmed", "X-Roles": "admin", "X-User-Id": "mallory"})
    with pytest.raises(ApiError) as caught:
        root.Identity().on_route(types.SimpleNamespace(request=request))
    assert caught.value.status == 401


def test_an_operators_policy_counts(tmp_path, keystone):
    (tmp_path / "policy.yaml").write_text(
        '"cleanup:deletions:create": "role:member and project_id:%(target.project.id)s"\n'
        '"cleanup:deletions:list": "@"\n'
    )
    site = Site(tmp_path, keystone=keystone, extra=f"[oslo_policy]\npolicy_file = {tmp_path}/policy.yaml\n")
    try:
        assert site.post("/v1/deletions", {"project_id": "p1"}, ks.MEMBER).status == 202
        assert site.post("/v1/deletions", {"project_id": "p2"}, ks.MEMBER).status == 403
        assert site.post("/v1/deletions", {"project_id": "p2"}, ks.ADMIN).status == 403
        assert len(site.get("/v1/deletions", ks.MEMBER).json["deletions"]) == 1
    finally:
        site.close()


def test_numbers_of_a_deletion_over_its_life():
    record = deletion(status=Status.DELETING, purpose=RoundPurpose.DELETE, round=4, since_round=3)
    base = Step(
        "s", "d", StepKind.SWEEP, "R", "network", "port", state=StepState.DONE, outcome=Outcome.LEFTOVERS, calls=2
    )
    now_seen = dataclasses.replace(base, round=4, found=3, deleted=7, remaining=1, kept=2)
    emptier = dataclasses.replace(base, type="net", round=3, found=0, deleted=5, outcome=Outcome.CLEAR)
    history = dataclasses.replace(base, type="old", round=2, found=9, deleted=1, remaining=9, kept=4)
    project_setting = dataclasses.replace(
        base, type="quota", round=0, project_setting=True, state=StepState.IDLE, calls=0
    )
    lost = dataclasses.replace(base, kind=StepKind.UNSUPPORTED, type="", round=4, outcome=Outcome.UNKNOWN, calls=0)
    task = Step("t", "d", StepKind.SURVEY, round=3, state=StepState.DONE, outcome=Outcome.CLEAR, calls=4)
    steps = [now_seen, emptier, history, project_setting, lost, task]
    assert views.progress(dataclasses.replace(record, tally=tally(record, steps))) == {
        "steps": 4, "steps_done": 0, "found": 14, "deleted": 13, "remaining": 1, "kept": 2, "unknown": 1, "calls": 10,
        "abandoned": 0, "round": 4, "purpose": "delete",
    }  # fmt: skip
    shown = {c["type"]: c for c in views.counts(record, steps)}
    assert list(shown) == ["", "net", "old", "port", "quota"]
    assert shown["old"] | {"found": 1, "remaining": 0, "kept": 0, "outcome": "", "state": "idle"} == shown["old"]
    assert (shown["port"]["found"], shown["net"]["found"]) == (8, 5)
    listing = dataclasses.replace(record, purpose=RoundPurpose.INVENTORY)
    assert tally(listing, steps).steps_done == 1  # what is unknown is listed again
    between = dataclasses.replace(record, purpose=RoundPurpose.NONE)
    assert tally(between, steps).steps_done == 3


# --------------------------------------------------------------------------------------------- what a tree costs
@pytest.fixture
def grove(tmp_path):
    """A site with a separate Keystone, in which "top" has 200 projects: 20 with nine below each of them."""
    site = Site(tmp_path, extra="[deletion]\nmax_subtree = 200\n")
    site.keystone.project("top", "top", "d1")
    for n in range(20):
        site.keystone.project(f"b{n}", f"branch {n}", "d1", parent="top")
        for m in range(9):
            site.keystone.project(f"l{n}-{m}", f"leaf {n} {m}", "d1", parent=f"b{n}")
    yield site
    site.close()


def about_projects(site):
    return [path for _method, path in site.keystone.requests if path.startswith("/v3/projects")]


def test_a_tree_costs_keystone_a_list_for_each_inner_project_and_no_call_for_each_project(grove):
    made = grove.ask("top", mode="cascade", include_subtree=True)
    assert len(about_projects(grove)) == 2 + 21
    rows = grove.store.list(storage.Page(1000))
    assert len(rows) == 201
    assert {r.project_id: r.project_name for r in rows}["l3-4"] == "leaf 3 4"
    assert next(r for r in rows if r.id == made["id"]).include_subtree


def test_projects_that_keystone_leaves_out_of_a_list_are_read_OneByOne(grove):
    grove.keystone.list_limit = 8
    grove.ask("top", mode="cascade", include_subtree=True)
    assert {r.project_id for r in grove.store.list(storage.Page(1000))} == {
        p["id"] for p in grove.keystone.projects.values() if p["id"][0] in "bl" and p["domain_id"] == "d1"
    } | {"top"}


@pytest.mark.parametrize("token", ["admin-token", "manager-token"])
def test_a_tree_over_the_limit_is_refused_before_each_project_is_read(grove, token):
    grove.keystone.project("one-more", "one more", "d1", parent="b0")
    answer = grove.post("/v1/deletions", {"project_id": "top", "mode": "cascade", "include_subtree": True}, token)
    assert (answer.status, answer.error["code"]) == (409, "subtree_too_large")
    assert (answer.error["projects"], answer.error["limit"]) == (201, 200)
    assert "max_subtree" in answer.error["detail"] and grove.count() == 0
    assert len(about_projects(grove)) == 2


def test_a_project_of_the_tree_that_may_not_be_deleted_refuses_all_of_it(grove):
    grove.keystone.projects["l7-7"]["name"] = "service"
    answer = grove.post("/v1/deletions", {"project_id": "top", "mode": "cascade", "include_subtree": True})
    assert (answer.status, answer.error["code"], answer.error["project_id"]) == (403, "project_protected", "l7-7")
    assert grove.count() == 0
