"""Heat: what is asked of the service, and what is made of its answer."""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import json
import types

import pytest
import requests
from keystoneauth1.adapter import Adapter

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.errors import BadAnswer
from cleanup_orchestrator.plugins import exceptions, orchestration
from cleanup_orchestrator.plugins import orchestration as heat
from cleanup_orchestrator.plugins.base import NIL_UUID, ProjectDefinition, Refused, Resource
from cleanup_orchestrator.worker.sweep.calls import list_resources
from tests.support.sweeps import before_delete
from tests.unit.answers import connection, ids, project, resource

ID = "0123456789abcdef0123456789abcdef"
US = ProjectDefinition(ID, "Us", "default", "R1", options={"stack_user_domain": "heat"})
NOW = datetime.datetime(2026, 6, 1, 12, 0, tzinfo=datetime.UTC)
_numbers = itertools.count()


class Api(Adapter):
    """Answers by method and path with (status, body), or with what a function of the query returns."""

    def __init__(self, answers):
        super().__init__(session=None, endpoint_override=f"http://cloud/{next(_numbers)}")
        self.answers, self.asked = answers, []

    def request(self, url, method, params=None, **_):
        self.asked.append(f"{method} {url}")
        answer = self.answers[f"{method} {url}"]
        status, body = answer(dict(params or {})) if callable(answer) else answer
        response = requests.Response()
        response.status_code, response.url = status, url
        response._content = json.dumps(body).encode() if body is not None else b""
        response.headers["Content-Type"] = "application/json"
        response.request = requests.Request(method, f"http://cloud{url}").prepare()
        return response

    def get_endpoint(self, *_, **__):
        return "http://cloud"


def cloud(**apis):
    session = types.SimpleNamespace(get_user_id=lambda: "we")
    config = types.SimpleNamespace(get_session_endpoint=lambda name: "http://cloud" if name in apis else None)
    return types.SimpleNamespace(session=session, config=config, **{name: Api(each) for name, each in apis.items()})


def page(rows, key="stacks"):
    """A list that pages by marker."""

    def answer(query):
        ids = [row["id"] for row in rows]
        start = ids.index(query["marker"]) + 1 if "marker" in query else 0
        return 200, {key: rows[start : start + int(query.get("limit") or len(rows))]}

    return answer


def stack(id_, status="CREATE_COMPLETE", parent=None, project=ID, **values):
    return {"id": id_, "stack_name": f"n-{id_}", "project": project, "stack_status": status, "parent": parent, **values}


def listed_as(row):
    return Resource(str(row["id"]), "", ID, row)


@pytest.mark.parametrize(
    ("rows", "orphans", "why"),
    [
        ([stack("root")], [], "no nested one"),
        ([stack("root"), stack("child", parent="root")], [], "it goes with its root"),
        ([stack("root"), stack("c", parent="root"), stack("g", parent="c")], [], "so does a grandchild"),
        ([stack("child", parent="gone")], ["child"], "its root is gone"),
        ([stack("g", parent="c"), stack("c", parent="gone"), stack("r")], ["g", "c"], "the whole branch"),
        ([stack("a", parent="b"), stack("b", parent="a")], ["a", "b"], "a ring has no root, and ends"),
    ],
)
def test_a_nested_stack_is_an_orphan_without_its_root(rows, orphans, why):
    found = heat.listing.orphaned_stacks(cloud(orchestration={"GET /stacks": page(rows)}), US)
    assert [row["id"] for row in found] == orphans, why


def test_an_orphaned_stack_is_deleted_before_those_that_heat_deletes_with_it():
    rows = [stack("g", parent="c"), stack("c", parent="gone"), stack("d", parent="c"), stack("r")]
    type_ = next(t for t in heat.SERVICE.types if t.name == "nested_stack")
    found = type_.list(cloud(orchestration={"GET /stacks": page(rows)}), US)
    assert {row["id"]: sorted(type_.refers_to(listed_as(row))) for row in found} == {"g": [], "c": ["d", "g"], "d": []}
    assert type_.refers_to(listed_as(stack("as shown"))) == []


def test_failed_stacks_are_those_whose_delete_failed_or_is_under_way():
    statuses = ["CREATE_COMPLETE", "CREATE_FAILED", "DELETE_FAILED", "UPDATE_IN_PROGRESS", "DELETE_IN_PROGRESS"]
    rows = [stack(status, status) for status in statuses]
    found = heat.listing.failed_stacks(cloud(orchestration={"GET /stacks": page(rows)}), US)
    assert [row["id"] for row in found] == ["DELETE_FAILED", "DELETE_IN_PROGRESS"]


@pytest.mark.parametrize(
    ("status", "updated", "under_way", "why"),
    [
        ("CREATE_COMPLETE", "2026-06-01T11:59:00Z", False, "its delete has not been requested"),
        ("DELETE_FAILED", "2026-06-01T11:59:00Z", False, "it is over"),
        ("DELETE_IN_PROGRESS", "2026-06-01T11:59:00Z", True, "since a minute"),
        ("DELETE_IN_PROGRESS", "2026-06-01T11:59:00", True, "Heat's times are UTC, said or not"),
        ("DELETE_IN_PROGRESS", "2026-06-01T10:59:00Z", False, "longer than Heat itself would let it"),
        ("DELETE_IN_PROGRESS", None, False, "it is unknown since when"),
    ],
)
def test_a_delete_that_is_under_way_is_not_begun_anew(status, updated, under_way, why):
    assert heat.stacks._is_under_way(listed_as(stack("1", status, updated_time=updated)), NOW) is under_way, why


DELETE = "DELETE /stacks/n-1/1"


def test_a_stack_is_deleted_by_name_and_id():
    api = cloud(orchestration={DELETE: (204, None)})
    heat.stacks._delete_stack(api, US, listed_as(stack("1")))
    assert api.orchestration.asked == [DELETE]


def test_a_failed_delete_is_repeated_and_says_why_the_last_one_failed():
    api = cloud(orchestration={DELETE: (204, None)})
    failed = stack("1", "DELETE_FAILED", stack_status_reason="a port is in use")
    with pytest.raises(Refused) as refused:
        heat.stacks._delete_stack(api, US, listed_as(failed))
    assert api.orchestration.asked == [DELETE]
    assert refused.value.verdict.reason is Reason.ERROR and "a port is in use" in refused.value.verdict.message


def trust(id_, trustor, trustee="heat", project=ID):
    return {"id": id_, "trustor_user_id": trustor, "trustee_user_id": trustee, "project_id": project}


TRUSTS = [
    trust("made", "we"),
    trust("stale", "she"),
    trust("robot", "she", "mistral"),
    trust("far", "she", project="y"),
]


def test_the_trust_of_a_creator_without_a_role_is_deleted_before_the_stack():
    """Heat answers 500 as long as it is there: it tries to take it back in the creator's name."""
    gone = []

    def drop(_):
        gone.append("stale")
        return 204, None

    identity = {"GET /OS-TRUST/trusts": (200, {"trusts": TRUSTS}), "DELETE /OS-TRUST/trusts/stale": drop}
    api = cloud(identity=identity)
    assert heat.stacks._unblock(api, cloud(), US, listed_as(stack("1")), exceptions.failure(500))
    assert api.identity.asked == list(identity)
    assert gone == ["stale"]


def test_a_trust_that_another_thread_deleted_first_is_no_error():
    gone = (404, {"error": {"code": 404, "message": "Could not find trust: stale."}})
    identity = {"GET /OS-TRUST/trusts": (200, {"trusts": TRUSTS}), "DELETE /OS-TRUST/trusts/stale": gone}
    api = cloud(identity=identity)
    assert heat.stacks._unblock(api, cloud(), US, listed_as(stack("1")), exceptions.failure(500))


def test_heat_is_known_by_the_trust_of_the_janitor_and_not_of_the_admin():
    identity = {"GET /OS-TRUST/trusts": (200, {"trusts": TRUSTS}), "DELETE /OS-TRUST/trusts/stale": (204, None)}
    api = cloud(identity=identity)
    api.session.get_user_id = lambda: "admin"
    assert heat.stacks._unblock(api, cloud(), US, listed_as(stack("1")), exceptions.failure(500))
    assert api.identity.asked == list(identity)


@pytest.mark.parametrize("name", ["stack", "failed_stack", "nested_stack"])
def test_each_type_of_stack_is_unblocked(name):
    assert next(t for t in heat.SERVICE.types if t.name == name).unblock is heat.stacks._unblock


@pytest.mark.parametrize("status", [503, 409])
def test_another_error_of_heat_is_an_error(status):
    api = cloud()
    us = dataclasses.replace(US, options={"abandon_forbidden_stacks": True})
    assert not heat.stacks._unblock(api, api, us, listed_as(stack("1")), exceptions.failure(status))


@pytest.mark.parametrize("wished", [False, True])
def test_a_stack_that_heat_cannot_delete_is_abandoned_if_the_operator_wants_that(wished):
    """Heat 25 answers 500 to each delete if the creator can get no token; see `tests/cloud/test_everything.py`."""
    identity = {"GET /OS-TRUST/trusts": (200, {"trusts": [TRUSTS[0], *TRUSTS[2:]]})}
    abandon = f"{DELETE}/abandon"
    admin = cloud(identity=identity, orchestration={"GET /stacks": page([stack("1")])})
    janitor = cloud(orchestration={DELETE: (500, None), abandon: (200, {})})
    us = dataclasses.replace(US, options={"abandon_forbidden_stacks": wished})
    with pytest.raises(Refused) as refused:
        heat.stacks._unblock(admin, janitor, us, listed_as(stack("1")), exceptions.failure(500, "oh"))
    verdict = refused.value.verdict
    assert admin.identity.asked == list(identity)
    assert janitor.orchestration.asked == [DELETE, *([abandon] if wished else [])]
    assert (verdict.reason, verdict.accepted) == ((Reason.DELETING, True) if wished else (Reason.ERROR, False))
    assert "oh" in verdict.message and ("abandon_forbidden_stacks" in verdict.message) is not wished


@pytest.mark.parametrize("wished", [False, True])
def test_what_heat_says_with_its_500_is_told_in_one_short_line_without_secrets(wished):
    identity = {"GET /OS-TRUST/trusts": (200, {"trusts": []})}
    admin = cloud(identity=identity, orchestration={"GET /stacks": page([stack("1")])})
    janitor = cloud(orchestration={DELETE: (500, None), f"{DELETE}/abandon": (200, {})})
    us = dataclasses.replace(US, options={"abandon_forbidden_stacks": wished})
    error = exceptions.failure(500, "password=hunter2\nTraceback:\n" + "  File x\n" * 5000)
    with pytest.raises(Refused) as refused:
        heat.stacks._unblock(admin, janitor, us, listed_as(stack("1")), error)
    text = refused.value.verdict.message
    assert "\n" not in text and "hunter2" not in text and len(text) < 1000
    assert text.endswith("asked to abandon it" if wished else "or force)")


def without_trusts(monkeypatch, again, row):
    """What a stack is left with after a 500 if no user's trust is left; also what was asked of Heat."""
    monkeypatch.setattr(heat.stacks, "_now", lambda: NOW)
    identity = {"GET /OS-TRUST/trusts": (200, {"trusts": [TRUSTS[0]]})}
    admin = cloud(identity=identity, orchestration={"GET /stacks": lambda _: (200, {"stacks": [row]})})
    janitor = cloud(orchestration={DELETE: (again, None)})
    us = dataclasses.replace(US, options={"abandon_forbidden_stacks": True})
    try:
        unblocked = heat.stacks._unblock(admin, janitor, us, listed_as(stack("1")), exceptions.failure(500))
    except Refused as refused:
        return refused.verdict, janitor.orchestration.asked
    return unblocked, janitor.orchestration.asked


def test_a_stack_whose_delete_is_accepted_when_it_is_requested_again_is_not_abandoned(monkeypatch):
    """Of several deletes at once, one deletes the trusts that made all of them fail."""
    verdict, asked = without_trusts(monkeypatch, 204, stack("1"))
    assert (verdict.reason, verdict.accepted, asked) == (Reason.DELETING, True, [DELETE])


@pytest.mark.parametrize("status", [404, 409, 503])
def test_a_stack_whose_second_delete_fails_otherwise_is_not_abandoned(monkeypatch, status):
    with pytest.raises(exceptions.HttpException) as raised:
        without_trusts(monkeypatch, status, stack("1"))
    assert raised.value.status_code == status


def test_a_stack_that_heat_deletes_in_spite_of_its_500_is_not_abandoned(monkeypatch):
    row = stack("1", "DELETE_IN_PROGRESS", updated_time="2026-06-01T11:59:00Z")
    verdict, asked = without_trusts(monkeypatch, 500, row)
    assert (verdict.reason, verdict.accepted, asked) == (Reason.DELETING, True, [DELETE])


def test_a_stack_that_another_project_has_by_now_is_not_abandoned(monkeypatch):
    assert without_trusts(monkeypatch, 500, stack("1", project="y")) == (False, [DELETE])


def test_a_stack_that_is_no_longer_listed_is_not_abandoned(monkeypatch):
    with pytest.raises(exceptions.NotFoundException):
        without_trusts(monkeypatch, 500, stack("2"))


@pytest.mark.parametrize(
    ("project", "status"),
    [
        (dataclasses.replace(US, gone=True), "CREATE_COMPLETE"),  # the abandon was answered with 500
        (US, "DELETE_IN_PROGRESS"),  # the list of events, or the end of a pause
    ],
)
def test_no_stack_is_abandoned_after_an_error_of_another_request(monkeypatch, project, status):
    monkeypatch.setattr(heat.stacks, "_now", lambda: NOW)
    us = dataclasses.replace(project, options={"abandon_forbidden_stacks": True})
    row = stack("1", status, updated_time="2026-06-01T11:30:00Z")
    assert not heat.stacks._unblock(cloud(), cloud(), us, listed_as(row), exceptions.failure(500))


EVENTS = "GET /stacks/n-1/1/events"
UNDER_WAY = stack("1", "DELETE_IN_PROGRESS", updated_time="2026-06-01T11:30:00Z")


def event(id_, reason, time="2026-06-01T11:40:00Z", resource="/stacks/n-1/1/resources/one"):
    link = {"rel": "resource", "href": f"http://cloud/v1/{ID}{resource}"}
    return {"id": id_, "event_time": time, "resource_status_reason": reason, "links": [link]}


def paused(when="pre", **values):
    return event("e", f"CREATE paused until Hook {when}-delete is cleared", **values)


@pytest.mark.parametrize(
    ("events", "asked"),
    [
        ([], []),
        ([event("e", "state changed")], []),
        ([paused(time="2026-06-01T11:00:00Z")], []),  # of an earlier delete
        ([paused()], ["POST /stacks/n-1/1/resources/one/signal"]),
        (
            [paused(resource="/stacks/below/2/resources/a%20b")],
            ["POST /stacks/below/2/resources/a%20b/signal"],
        ),
        ([paused("post")], [DELETE]),
        ([paused(resource="/stacks/1")], []),
    ],
)
def test_during_a_delete_of_heat_only_its_pauses_are_ended(monkeypatch, events, asked):
    monkeypatch.setattr(heat.stacks, "_now", lambda: NOW)
    answers = dict.fromkeys(asked, (200, None))
    api = cloud(orchestration={EVENTS: page(events, "events"), **answers})
    heat.stacks._delete_stack(api, US, listed_as(UNDER_WAY))
    assert [call for call in api.orchestration.asked if call != EVENTS] == asked


def test_a_pause_that_has_already_ended_is_no_error(monkeypatch):
    monkeypatch.setattr(heat.stacks, "_now", lambda: NOW)
    signal = {"POST /stacks/n-1/1/resources/one/signal": (400, {})}
    heat.stacks._delete_stack(
        cloud(orchestration={EVENTS: page([paused()], "events"), **signal}), US, listed_as(UNDER_WAY)
    )


FORBIDDEN = "Resource DELETE failed: Forbidden: resources.x: You are not authorized (HTTP 403) (Request-ID: req-1)"


@pytest.mark.parametrize(
    ("reason", "wished", "asked"),
    [
        (FORBIDDEN, False, DELETE),
        (FORBIDDEN, True, f"{DELETE}/abandon"),
        ("Resource DELETE failed: Conflict: resources.x: in use, 1403 of them", True, DELETE),
    ],
)
def test_what_a_member_may_not_delete_is_abandoned_if_the_operator_wants_that(reason, wished, asked):
    api = cloud(orchestration={asked: (204, None)})
    us = dataclasses.replace(US, options={"abandon_forbidden_stacks": wished})
    try:
        heat.stacks._delete_stack(api, us, listed_as(stack("1", "DELETE_FAILED", stack_status_reason=reason)))
    except Refused as refused:
        assert asked == DELETE
        assert ("abandon_forbidden_stacks" in refused.verdict.message) is (reason == FORBIDDEN)
    assert api.orchestration.asked == [asked]


def test_a_stack_is_read_again_out_of_the_list_even_when_heat_ignores_the_filter():
    api = cloud(orchestration={"GET /stacks": (200, {"stacks": [stack("other"), stack("1", project="theirs")]})})
    assert heat.listing.show_stack(api, US, listed_as(stack("1")))["project"] == "theirs"
    with pytest.raises(exceptions.NotFoundException):
        heat.listing.show_stack(api, US, listed_as(stack("2")))
    with pytest.raises(BadAnswer):
        heat.listing.show_stack(cloud(orchestration={"GET /stacks": (200, {})}), US, listed_as(stack("1")))


CONFIGS = [{"id": "c1", "project": ID}, {"id": "c2", "project": "theirs"}]
DEPLOYMENTS = [{"id": "d1", "config_id": "c1", "server_id": "s1"}, {"id": "d2", "config_id": "c2", "server_id": "s2"}]
ADMIN = {"GET /services": (200, {"services": []})}


def outside(module, name):
    """A type as it is listed with an admin's token: for all projects where it can be, else for its own."""
    type_ = next(t for t in module.SERVICE.types if t.name == name)
    return type_.all_projects_view() or type_


@pytest.mark.parametrize("name", ["software_config", "software_deployment", "stack", "failed_stack"])
def test_a_user_without_admin_rights_in_heat_gets_no_list_of_other_projects(name):
    """It lists his own project's things to him: the list of the whole cloud would look empty."""
    empty = {"GET /stacks": page([]), "GET /software_configs": page([], "software_configs")}
    refused = cloud(orchestration={"GET /services": (403, {"code": 403, "title": "Forbidden"}), **empty})
    with pytest.raises(exceptions.ForbiddenException):
        list(list_resources(outside(heat, name), refused, US))
    assert list(list_resources(outside(heat, name), cloud(orchestration={**ADMIN, **empty}), US)) == []


def test_a_deployment_is_the_projects_when_its_config_is():
    api = cloud(
        orchestration={
            **ADMIN,
            "GET /software_configs": page(CONFIGS, "software_configs"),
            "GET /software_deployments": (200, {"software_deployments": DEPLOYMENTS}),
        }
    )
    assert [(row["id"], row["project_id"]) for row in heat.configs._deployments(api, US)] == [("d1", ID)]


def test_without_a_config_the_list_of_the_whole_cloud_is_not_requested():
    api = cloud(orchestration={**ADMIN, "GET /software_configs": page(CONFIGS[1:], "software_configs")})
    assert list(heat.configs._deployments(api, US)) == []


@pytest.mark.parametrize(("config", "owner"), [("c1", ID), ("c2", None)])
def test_a_deployment_whose_config_was_replaced_has_no_known_owner(config, owner):
    rows = [{"id": "another", "config_id": "c9"}, {"id": "d1", "config_id": config}]
    api = cloud(orchestration={"GET /software_deployments": (200, {"software_deployments": rows})})
    assert heat.configs._show_deployment(api, US, listed_as(DEPLOYMENTS[0]))["project_id"] == owner


def test_a_deployment_is_read_from_the_list_and_not_by_its_id():
    """Heat looks for the signal that the config's inputs name, with the caller's token, or answers with an error."""
    api = cloud(orchestration={"GET /software_deployments": (200, {"software_deployments": []})})
    with pytest.raises(exceptions.NotFoundException):
        heat.configs._show_deployment(api, US, listed_as(DEPLOYMENTS[0]))
    assert api.orchestration.asked == ["GET /software_deployments"]


@pytest.mark.parametrize("minutes", [1, 600])
def test_of_a_project_that_is_gone_a_stack_is_never_abandoned_twice_at_once(minutes):
    """Heat starts what the second call stops again, and then deletes it with our token; a hook is cleared."""
    reason = "PRE_DELETE paused until Hook pre-delete is cleared"
    link = {"rel": "resource", "href": "http://heat/v1/p/stacks/n-s/s/resources/one"}
    event = {"id": "e", "event_time": "9999", "resource_status_reason": reason, "links": [link]}
    signal = "POST /stacks/n-s/s/resources/one/signal"
    answers = {"GET /stacks/n-s/s/events": page([], "events"), "GET /stacks/n-c/c/events": page([event], "events")}
    rows = [stack("s"), stack("c", parent="s"), stack("x", parent="another")]
    api = cloud(orchestration={**answers, "GET /stacks": page(rows), signal: (200, None)})
    since = (NOW - datetime.timedelta(minutes=minutes)).isoformat()
    one = listed_as(stack("s", "DELETE_IN_PROGRESS", updated_time=since))
    heat.stacks._delete_stack(api, dataclasses.replace(US, gone=True), one)
    assert signal in api.orchestration.asked
    assert not [each for each in api.orchestration.asked if each.startswith("DELETE")]


@pytest.mark.parametrize(
    ("status", "owner", "refused"),
    [(404, None, False), (400, None, False), (200, ID, False), (200, "theirs", True)],
)
def test_a_deployment_to_another_projects_server_is_left_alone(status, owner, refused):
    body = {"itemNotFound": {}} if status == 404 else {"server": {"tenant_id": owner}}
    api = cloud(compute={"GET /servers/s1": (status, body)})
    verdict = before_delete(heat.configs.SOFTWARE_DEPLOYMENT, api, US, listed_as(DEPLOYMENTS[0]))
    expected = ({"type": "compute.server", "id": "s1", "owner": "theirs"},)
    assert (verdict.blocked_by == expected) if refused else verdict is None


def test_a_deployment_whose_server_cannot_be_read_is_not_deleted():
    api = cloud(compute={"GET /servers/s1": (503, {})})
    verdict = before_delete(heat.configs.SOFTWARE_DEPLOYMENT, api, US, listed_as(DEPLOYMENTS[0]))
    assert (verdict.reason, "whether other projects use it" in verdict.message) == (Reason.ERROR, True)


NAME = f"{ID}-01234567-89ab-cdef-0123-456789a"  # as Heat cuts it: 64 characters
MADE = {"id": "p", "name": NAME, "domain_id": "h", "description": "Heat stack user project"}


@pytest.mark.parametrize(
    ("change", "made"),
    [
        ({}, True),
        ({"domain_id": "default"}, False),
        ({"description": "mine"}, False),
        ({"name": ID}, False),
        ({"name": f"{ID}-web"}, False),
        ({"name": NAME.replace("0123", "9999", 1)}, False),
        ({"name": f"x{NAME}"}, False),
        ({"name": None}, False),
    ],
)
def test_a_project_is_heats_by_domain_description_and_name(change, made):
    assert len(NAME) == 64
    assert heat.users._made_for(US, "h", {**MADE, **change}) is made


def test_only_users_that_heat_created_are_deleted():
    users = {
        "made": {"domain_id": "h", "default_project_id": "p"},
        "guest": {"domain_id": "default", "default_project_id": "p"},
        "other": {"domain_id": "h", "default_project_id": "q"},
    }
    rows = [{"user": {"id": name}} for name in users] + [{"group": {"id": "g"}}]
    api = cloud(
        identity={
            "GET /role_assignments": (200, {"role_assignments": rows}),
            **{f"GET /users/{name}": (200, {"user": user}) for name, user in users.items()},
            "DELETE /users/made": (204, None),
        }
    )
    heat.users._delete_users(api, US, listed_as(MADE))
    assert [call for call in api.identity.asked if call.startswith("DELETE")] == ["DELETE /users/made"]


def test_the_project_of_a_living_stack_is_left_to_heat():
    rows = [stack("1", stack_user_project_id="p")]
    with pytest.raises(Refused):
        heat.users._refuse_used(cloud(orchestration={"GET /stacks": page(rows)}), US, listed_as(MADE))
    heat.users._refuse_used(cloud(orchestration={"GET /stacks": page([stack("1")])}), US, listed_as(MADE))


def test_a_domain_that_is_not_there_is_no_empty_list():
    api = cloud(identity={"GET /domains": (200, {"domains": [{"id": "d", "name": "default"}]})})
    with pytest.raises(BadAnswer, match="heat"):
        list(heat.users._user_projects(api, US))


# ------------------------------------------------------------------------------------------------------------- force
PROBE = f"DELETE /stacks/none/{NIL_UUID}/abandon"


def heat_says(kind, message="no"):
    return {"error": {"type": kind, "message": message, "traceback": None}, "code": 0}


def test_a_heat_that_would_abandon_a_stack_is_recognised_by_its_not_finding_one():
    api = cloud(orchestration={PROBE: (404, heat_says("EntityNotFound"))})
    assert heat.stacks.refuse_without_abandon(api, US) is None
    assert api.orchestration.asked == [PROBE]


@pytest.mark.parametrize(
    ("status", "body", "reason", "words"),
    [
        (
            400,
            heat_says("NotSupported", "Stack Abandon is not supported."),
            Reason.NOT_SUPPORTED,
            "enable_stack_abandon",
        ),
        (403, {"code": 403, "title": "Forbidden"}, Reason.FORBIDDEN, "stacks:abandon"),
    ],
)
def test_a_heat_that_would_not_is_quoted_with_what_to_change(status, body, reason, words):
    with pytest.raises(Refused) as caught:
        heat.stacks.refuse_without_abandon(cloud(orchestration={PROBE: (status, body)}), US)
    assert caught.value.verdict.reason is reason
    assert words in caught.value.verdict.message


@pytest.mark.parametrize(
    ("status", "body"),
    [(404, None), (404, {"error": "no such page"}), (400, heat_says("ValueError")), (200, {}), (503, None)],
)
def test_any_other_answer_is_none(status, body):
    """A proxy's 404, and whatever else is no word of Heat's on it."""
    with pytest.raises((exceptions.HttpException, BadAnswer)):
        heat.stacks.refuse_without_abandon(cloud(orchestration={PROBE: (status, body)}), US)


@pytest.mark.parametrize("name", ["stack", "failed_stack", "nested_stack"])
def test_by_force_a_stack_is_abandoned_by_its_id(name):
    api = cloud(orchestration={"DELETE /stacks/web/s1/abandon": (200, {"id": "s1"})})
    type_ = next(t for t in heat.SERVICE.types if t.name == name)
    type_.force.act(api, US, Resource("s1", "web", ID, {"id": "s1", "stack_name": "web"}))
    assert api.orchestration.asked == ["DELETE /stacks/web/s1/abandon"]
    assert type_.force.allowed is heat.stacks.refuse_without_abandon
    assert "openstack stack abandon s1" in type_.remedy("s1", US)


@pytest.mark.parametrize(
    ("status", "probe", "words"),
    [
        (400, (400, heat_says("NotSupported")), "enable_stack_abandon = true"),
        (403, (403, None), "policy stacks:abandon"),
        (400, (404, heat_says("EntityNotFound")), "of this stack alone"),
    ],
)
def test_a_stack_that_heat_does_not_abandon_after_its_500_is_left_with_the_way_out(monkeypatch, status, probe, words):
    monkeypatch.setattr(heat.stacks, "_now", lambda: NOW)
    identity = {"GET /OS-TRUST/trusts": (200, {"trusts": []})}
    admin = cloud(identity=identity, orchestration={"GET /stacks": page([stack("1")])})
    said = (status, {"error": {"message": "of this stack alone"}})
    janitor = cloud(orchestration={DELETE: (500, None), f"{DELETE}/abandon": said, PROBE: probe})
    us = dataclasses.replace(US, options={"abandon_forbidden_stacks": True})
    with pytest.raises(Refused) as refused:
        heat.stacks._unblock(admin, janitor, us, listed_as(stack("1")), exceptions.failure(500))
    verdict = refused.value.verdict
    assert verdict.reason is Reason.ERROR and not verdict.accepted and words in verdict.message


@pytest.mark.parametrize("name", ["stack", "failed_stack", "nested_stack"])
def test_a_stack_that_heat_fails_to_abandon_by_force_is_not_said_to_have_failed_its_delete(name):
    """Nothing is unblocked: the delete would take what others use of the contents, which the abandon does not."""
    api = cloud(orchestration={f"{DELETE}/abandon": (500, {"error": {"message": "oh"}})})
    type_ = next(t for t in heat.SERVICE.types if t.name == name)
    with pytest.raises(Refused) as refused:
        type_.force.act(api, US, listed_as(stack("1")))
    assert refused.value.verdict.reason is Reason.ERROR and not refused.value.verdict.accepted
    assert "abandon" in refused.value.verdict.message and "oh" in refused.value.verdict.message


OURS, THEIRS = "p", "them"
PROJECT = project(OURS)


class Heat:
    """Configs of two projects, with a deployment of each."""

    @staticmethod
    def answer(method, path, query, body):
        if path == "/software_configs":
            rows = [{"id": "c1", "project": OURS}, {"id": "c2", "project": THEIRS}]
            return 200, {"software_configs": [] if "marker" in query else rows}
        rows = [{"id": "d1", "config_id": "c1"}, {"id": "d2", "config_id": "c2"}]
        return 200, {"software_deployments": rows}


def test_deployments_are_those_of_the_projects_configs():
    assert ids(orchestration.configs._deployments(connection(orchestration=Heat.answer), PROJECT)) == ["d1"]


@pytest.mark.parametrize(("owner", "foreign"), [(OURS, False), (THEIRS, True)])
def test_a_deployment_to_another_projects_server_stays(owner, foreign):
    nova = lambda *_: (200, {"server": {"id": "s", "tenant_id": owner}})  # noqa: E731
    deployment = resource("d", server_id="s")
    verdict = before_delete(orchestration.configs.SOFTWARE_DEPLOYMENT, connection(compute=nova), PROJECT, deployment)
    assert (verdict is not None) is foreign


def test_of_the_trusts_given_to_heat_those_for_the_project_are_deleted():
    trusts = [
        {"id": "own", "project_id": OURS, "trustor_user_id": "cleanup", "trustee_user_id": "heat"},
        {"id": "mine", "project_id": OURS, "trustor_user_id": "u", "trustee_user_id": "heat"},
        {"id": "theirs", "project_id": THEIRS, "trustor_user_id": "u", "trustee_user_id": "heat"},
        {"id": "another", "project_id": OURS, "trustor_user_id": "u", "trustee_user_id": "friend"},
    ]
    cloud = connection(identity=lambda method, *_: (200, {"trusts": trusts}) if method == "GET" else (204, {}))
    error = exceptions.failure(500)
    assert orchestration.stacks._unblock(cloud, cloud, PROJECT, resource("s"), error)
    assert [path for _, path, _ in cloud.identity.writes()] == ["/OS-TRUST/trusts/mine"]


DEAD = dataclasses.replace(project("dead"), gone=True)


def of_gone(module):
    return {type_.name: type_.for_missing_project(gone=True) for type_ in module.SERVICE.types}


def abandoning(abandon):
    def answer(method, path, query, body):
        assert method != "DELETE" or path.endswith("/abandon"), "with our token Heat would look in our own project"
        if path == f"/stacks/none/{NIL_UUID}/abandon":
            return abandon if abandon[0] != 200 else (404, {"error": {"type": "EntityNotFound"}})
        return abandon

    return connection(orchestration=answer)


def abandoned(status="CREATE_COMPLETE"):
    return Resource("s", "web", "dead", {"id": "s", "stack_name": "web", "project": "dead", "stack_status": status})


def test_a_stack_is_abandoned_and_never_deleted():
    cloud = abandoning((200, {}))
    of_gone(orchestration)["stack"].delete(cloud, DEAD, abandoned())
    assert cloud.orchestration.writes() == [("DELETE", "/stacks/web/s/abandon", None)]


@pytest.mark.parametrize(
    ("answer", "status", "said"),
    [
        ((400, {"error": {"type": "NotSupported"}}), "CREATE_COMPLETE", "enable_stack_abandon"),
        ((403, {"error": {"type": "Forbidden"}}), "CREATE_COMPLETE", "policy"),
        ((200, {}), "DELETE_FAILED", "asked to abandon it"),
    ],
)
def test_a_stack_that_heat_does_not_abandon_is_left_with_the_way_out(answer, status, said):
    with pytest.raises(Refused) as refused:
        of_gone(orchestration)["stack"].delete(abandoning(answer), DEAD, abandoned(status))
    assert refused.value.verdict.reason is Reason.PROJECT_GONE
    assert said in refused.value.verdict.message
