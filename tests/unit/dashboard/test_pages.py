"""What the pages request, and what they refuse, without Horizon and without a browser."""

import types

import pytest
from django import forms as django_forms
from django.http import Http404
from django.test import RequestFactory
from keystoneauth1 import exceptions as ksa_exceptions

from cleanup_orchestrator import sdk, shapes
from tests.unit.dashboard import stand_in

with stand_in.horizon():
    from cleanup_orchestrator.dashboard import calls, holds, pages, projects, times
    from cleanup_orchestrator.dashboard.brake import header
    from cleanup_orchestrator.dashboard.brake import views as brake
    from cleanup_orchestrator.dashboard.deletions import actions, detail, force, tabs
    from cleanup_orchestrator.dashboard.deletions import views as deletions
    from cleanup_orchestrator.dashboard.deletions.request import confirm, forms, preview
    from cleanup_orchestrator.dashboard.deletions.request import projects as chosen_projects
    from cleanup_orchestrator.dashboard.deletions.request import views as asking
    from cleanup_orchestrator.dashboard.orphans import adopting
    from cleanup_orchestrator.dashboard.orphans import views as orphans
    from cleanup_orchestrator.dashboard.services import views as services
    from cleanup_orchestrator.dashboard.waivers import forms as waivers

ID, OTHER = "0" * 8 + "-0000-0000-0000-" + "0" * 12, "1" * 8 + "-0000-0000-0000-" + "0" * 12
PROJECT = "5d7ec06b4c6a4c0f8d0a1c2b3e4f5a6b"
USER = types.SimpleNamespace(
    id="me", is_superuser=False, roles=[{"name": "manager"}], project_id="p", services_region="R", token=None
)


def deletion(**values):
    known = {
        "id": ID,
        "project_id": PROJECT,
        "project_name": "demo",
        "domain_id": "dom",
        "user_id": "alice",
        "mode": "cascade",
        "dry_run": False,
        "origin": "request",
        "status": "deleting",
        "attempt": 1,
        "retryable": True,
        "cancellable": True,
        "forcible": True,
        "finished_at": None,
        "progress": {"found": 3, "deleted": 1, "remaining": 2, "purpose": ""},
        "conditions": [],
    }
    return sdk.Deletion.received(known | values)


class Api:
    """The calls of the API that a page makes; each call is kept."""

    def __init__(self, **answers):
        self.answers, self.made = answers, []

    def __getattr__(self, name):
        def call(*args, **more):
            self.made.append((name, args, more))
            answer = self.answers.get(name)
            if isinstance(answer, list):
                answer = answer.pop(0) if len(answer) > 1 else answer[0]
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call

    def calls(self, *but):
        return [name for name, *_ in self.made if name not in but]


def api_error(status, code="x"):
    response = types.SimpleNamespace(
        status_code=status,
        headers={"content-type": "application/json"},
        json=lambda: {"errors": [{"status": status, "code": code, "detail": "refused"}]},
        url="https://cleanup.example.com/v1",
        reason="",
        text="",
    )
    return sdk.errors.from_response(response)


@pytest.fixture
def site(monkeypatch):
    """Pages whose calls go to `site.api`, and whose policy allows what `site.allowed` has; `None`: everything."""
    made = types.SimpleNamespace(api=Api(), allowed=None, asked=[])

    def enforce(rule, target, _credentials):
        made.asked.append((rule, target["target.project.domain_id"]))
        return made.allowed is None or rule in made.allowed

    enforcer = {sdk.SERVICE_TYPE: types.SimpleNamespace(enforce=enforce)}
    monkeypatch.setattr(calls.auth_policy, "_get_enforcer", lambda: enforcer)
    monkeypatch.setattr(calls, "proxy", lambda *_: made.api)
    monkeypatch.setattr(header, "forget", lambda _: None)
    modules = (actions, asking, adopting, brake, confirm, confirm.request_url, orphans, services, tabs)
    for module in modules:
        names = module.__globals__ if isinstance(module, types.FunctionType) else vars(module)
        if "reverse" in names:
            monkeypatch.setitem(names, "reverse", lambda name, args=(): f"/{name}/{'/'.join(map(str, args))}")
    monkeypatch.setattr(stand_in.MESSAGES, "said", [])
    made.said = stand_in.MESSAGES.said
    return made


def request(method="get", data=None, **values):
    made = getattr(RequestFactory(), method)("/page", data or {})
    made.user, made.session = USER, {}
    vars(made).update(values)
    return made


def view(kind, method="get", data=None, **kwargs):
    made = kind()
    made.setup(request(method, data), **kwargs)
    return made


def posted(page):
    return page.post(page.request, **page.kwargs)


def errors(answer):
    """Return the errors of the form that a page shows again."""
    form = answer.context_data["form"]
    return [str(each) for several in form.errors.values() for each in several]


# ----------------------------------------------------------------------------------------------------------- the brake
@pytest.mark.parametrize(("since", "lifted"), [("T1", False), ("T2", True), ("", False)])
def test_the_brake_is_lifted_only_if_it_is_the_one_that_was_shown(site, since, lifted):
    site.api = Api(get_brake=sdk.Brake.received({"on": True, "reason": "storm", "since": "T2"}))
    answer = posted(view(brake.Lift, "post", {"since": since}))
    assert site.api.calls("get_brake") == (["lift_brake"] if lifted else [])
    assert lifted or "The brake has changed since this page was shown" in errors(answer)[0]


def test_a_user_who_may_not_see_the_brake_can_lift_it(site):
    site.allowed = {"cleanup:brake:lift"}
    posted(view(brake.Lift, "post"))
    assert site.api.calls() == ["lift_brake"]


# ------------------------------------------------------------------------------------------------------------- the user
@pytest.mark.parametrize(
    ("user", "token"),
    [({"is_superuser": False}, "of the domain"), ({"is_superuser": True}, "of the project"),
     ({"is_superuser": False, "system_scoped": True}, "of the project")],
)  # fmt: skip
def test_a_domain_manager_calls_with_the_token_of_the_domain(monkeypatch, user, token):
    seen = []
    monkeypatch.setattr(calls.token_endpoint, "Token", lambda _url, token: seen.append(token))
    monkeypatch.setattr(calls.base, "url_for", lambda *_: "https://cleanup.example.com")
    monkeypatch.setattr(
        calls, "settings", types.SimpleNamespace(OPENSTACK_SSL_CACERT="", OPENSTACK_SSL_NO_VERIFY=False)
    )
    monkeypatch.setattr(calls, "Connection", lambda **_: None)
    monkeypatch.setattr(calls, "from_connection", lambda _: types.SimpleNamespace())
    own = types.SimpleNamespace(token=types.SimpleNamespace(id="of the project"), services_region="R", **user)
    calls.proxy(request(user=own, session={"domain_token": types.SimpleNamespace(auth_token="of the domain")}))
    assert seen == [token]


@pytest.mark.parametrize("lost", [api_error(401), sdk.LoginLost("expired")])
def test_a_login_that_has_expired_leads_to_the_login_page(lost):
    with pytest.raises(stand_in.NotAuthenticated):
        calls.check_login(lost)
    calls.check_login(api_error(403))


def test_the_policy_is_asked_about_the_domain_of_the_deletion(site):
    assert calls.allowed_for(request(), "cleanup:deletions:retry", deletion())
    assert site.asked == [("cleanup:deletions:retry", "dom")]


# -------------------------------------------------------------------------------------------------------- the deletion
@pytest.mark.parametrize(
    ("values", "shown", "made"),
    [
        ({}, "1 under way", ["retry_deletion"]),
        ({"attempt": 2}, "1 under way", []),
        ({"finished_at": "T"}, "1 under way", []),
        ({"retryable": False}, "1 under way", []),
    ],
)
def test_a_retry_is_of_what_the_page_showed(site, values, shown, made):
    site.api = Api(get_deletion=deletion(**values))
    posted(view(actions.Retry, "post", {"shown": shown}, deletion_id=ID))
    assert site.api.calls("get_deletion") == made


APPROVAL = {"type": "approval", "status": True, "reason": "too_many_resources", "last_transition_at": "T"}


@pytest.mark.parametrize(("found", "made"), [(3, ["approve_deletion"]), (4, [])])
def test_an_approval_is_of_as_many_resources_as_were_shown(site, found, made):
    progress = {"found": found, "deleted": 0, "remaining": 0, "purpose": ""}
    site.api = Api(get_deletion=deletion(conditions=[APPROVAL], progress=progress))
    data = {"shown": "1 3 too_many_resources T", "reason": "as agreed"}
    posted(view(actions.Approve, "post", data, deletion_id=ID))
    assert site.api.calls("get_deletion") == made


@pytest.mark.parametrize(("user_id", "buttons"), [("alice", {"approve", "change", "retry", "cancel", "force"}),
                                                  ("me", {"change", "retry", "cancel", "force"})])  # fmt: skip
def test_the_user_who_requested_a_deletion_does_not_approve_it(site, user_id, buttons):
    assert detail.buttons_of(request(), deletion(conditions=[APPROVAL], user_id=user_id)) == buttons
    site.allowed = {"cleanup:deletions:cancel"}
    assert detail.buttons_of(request(), deletion()) == {"cancel"}


@pytest.mark.parametrize(
    ("values", "shown"),
    [({"restorable": False}, {"cancel"}), ({"restorable": True, "drained_at": None}, {"cancel"}),
     ({"restorable": True, "drained_at": "2026-11-01T12:00:00Z"}, {"restore"})],
)  # fmt: skip
def test_one_of_cancel_and_restore_is_offered(site, values, shown):
    site.allowed = {"cleanup:deletions:cancel", "cleanup:deletions:restore"}
    assert detail.buttons_of(request(), deletion(**values)) == shown
    site.allowed = {"cleanup:deletions:restore"}
    assert detail.buttons_of(request(), deletion(**values)) == ({"restore"} if values["restorable"] else set())


@pytest.mark.parametrize(
    ("values", "offered"),
    [({}, True), ({"attention": []}, False), ({"mode": "cascade"}, False), ({"status": "deleted"}, False)],
)
def test_a_report_leads_to_the_cascade_unless_a_later_deletion_replaced_it(site, values, offered):
    known = {"mode": "report", "status": "leftovers", "attention": ["leftovers"]}
    url = detail.cascade_url(request(), deletion(**known | values))
    assert url.endswith(f"request/?project={PROJECT}&mode=cascade") is offered, url
    site.allowed = set()
    assert detail.cascade_url(request(), deletion(**known)) == ""


@pytest.mark.parametrize(
    ("typed", "use", "valid", "types"),
    [("demo", "all", True, None), (" demo ", "none", True, []), ("Demo", "all", False, None),
     ("demo", "chosen", False, None)],
)  # fmt: skip
def test_force_is_confirmed_by_the_name_and_uses_the_chosen_types(typed, use, valid, types):
    form = force.ForceForm({"reason": "lost", "name": typed, "use": use}, expected="demo", types=["a.b"])
    assert form.is_valid() is valid
    assert not valid or form.chosen() == types


def counted(name, remaining):
    service, _dot, type_ = name.rpartition(".")
    return {"service": service, "type": type_, "region": "R", "remaining": remaining, "outcome": "leftovers"}


def force_page(site, **answers):
    counts = [counted("vendor.disk", 2), counted("vendor.tape", 0), counted("network.port", 1)]
    site.api = Api(get_deletion=deletion(counts=counts, forcible=True), leftovers=iter(()), **answers)
    return view(force.Force, deletion_id=ID)


def test_the_page_of_force_has_what_the_api_knows_of_each_type(site):
    """Also of the types of a vendor's plugin."""
    facts = [{"type": "disk", "forcible": True, "if_abandoned": "It still uses storage."},
             {"type": "array", "forcible": True, "if_abandoned": ""},
             {"type": "tape", "forcible": False, "if_abandoned": ""}]  # fmt: skip
    vendor = sdk.Service.received({"service_type": "vendor", "region": "R", "type_facts": facts})
    page = force_page(site, services=iter([vendor]))
    assert page.get_form_kwargs()["types"] == ["vendor.disk"]
    left = page.get_context_data(form=page.get_form())["left"]
    shown = [(name, number, facts and facts.if_abandoned) for name, number, facts in left]
    assert shown == [("network.port", 1, None), ("vendor.disk", 2, "It still uses storage.")]


def test_a_user_who_may_not_see_the_services_can_force_all_types(site):
    page = force_page(site, services=api_error(403))
    assert page.get_form_kwargs()["types"] == []


@pytest.mark.parametrize(("allowed", "names"), [(None, ["overview", "leftovers", "journal", "plan"]),
                                                (set(), ["overview", "leftovers", "journal"])])  # fmt: skip
def test_a_plan_is_shown_to_users_who_may_see_it(site, allowed, names):
    site.allowed = allowed
    assert [tab.name for tab in tabs.of_deletion(request(), deletion(plan_id=OTHER))] == names


def test_a_field_of_a_newer_server_is_shown_with_the_facts():
    sent = {"id": "d", "status": "deleting", "ticket_of_it": "CHG-4711", "weight": 7, "empty": "", "data": {"a": 1}}
    assert tabs._further(sdk.Deletion.received(sent)) == {"Ticket of it": "CHG-4711", "Weight": "7"}


def test_only_fields_of_the_shape_have_a_place_on_the_page():
    assert tabs._PLACED <= set(shapes.Deletion.fields)


def test_only_an_unknown_filter_means_that_there_are_no_leftovers(site):
    assert tabs._leftovers(request(), Api(page=api_error(400)), deletion())["services"] == []
    with pytest.raises(sdk.ApiError):
        tabs._leftovers(request(), Api(page=api_error(503)), deletion())


def test_a_list_begins_anew_if_the_deletion_of_its_marker_is_gone(site):
    site.api = Api(deletions=[api_error(400), iter([deletion()])])
    found = view(deletions.Index, data={"marker": OTHER}).get_context_data()
    assert [row["deletion"].id for row in found["rows"]] == [ID]
    assert [more.get("marker") for _name, _args, more in site.api.made] == [OTHER, None]
    site.api = Api(deletions=api_error(400))
    with pytest.raises(sdk.ApiError):
        view(deletions.Index).get_context_data()


# --------------------------------------------------------------------------------------------------------- the request
def dry_run(**values):
    ended = {"dry_run": True, "status": "planned", "finished_at": "T", "progress": {"remaining": 0}}
    return deletion(**{**ended, **values})


def found(plan=None, **values):
    made = preview.Found(dry_run(**values))
    made.plan = plan
    return made


def a_plan(**values):
    return types.SimpleNamespace(**{"id": ID, "hash": "h", "complete": True, "expires_at": "2999-01-01T00:00:00Z"}
                                 | values)  # fmt: skip


def test_a_deletion_is_bound_to_the_plan_that_was_shown():
    assert found(a_plan()).wanted() == {
        "project_id": PROJECT, "mode": "cascade", "plan_id": ID, "plan_hash": "h",
    }  # fmt: skip
    loose = {"project_id": PROJECT, "mode": "cascade", "include_subtree": False, "selection": None}
    assert found(a_plan(complete=False)).wanted() == loose


def test_only_a_plan_of_today_is_requested():
    assert found(a_plan()).requestable()
    assert not found(a_plan(expires_at="2001-01-01T00:00:00Z")).requestable()
    assert not found().requestable()
    assert not found(a_plan(), status="failed").requestable()


def test_servers_volumes_images_and_addresses_come_first_and_the_rest_is_counted():
    names = ("network.port", "network.floating_ip", "image.image", "compute.server", "dns.zone")
    one = found()
    one.types = [{"service": name.partition(".")[0], "type": name.partition(".")[2], "number": 2} for name in names]
    assert [row["type"] for row in one.first_types] == ["server", "image", "floating_ip"]
    assert [row["type"] for row in one.other_types] == ["port", "zone"] and one.other_number == 4


def test_the_sentence_of_a_plan_is_not_that_of_a_report():
    plan = sdk.Plan.received({"id": ID, "summary": "75 resources will be deleted"})
    assert found(plan).summary == "75 resources will be deleted"
    assert found(mode="report", summary="75 resources will be deleted").summary == ""


def test_what_a_blocker_says_stands_nowhere_else():
    place = {"region": "R", "service": "image", "type": "image"}
    counts = [{**place, "found": 1, "outcome": "leftovers", "message": "it is public"},
              {**place, "type": "task", "found": 1, "outcome": "unknown", "message": "HTTP 503"}]  # fmt: skip
    conditions = [{"type": "blocked", "status": True}, {"type": "drained", "status": True}]
    one = deletion(blockers=[place], counts=counts, conditions=conditions, attention=[], status_at=None)
    context = tabs._overview(request(), Api(), one)
    assert [said for _count, said in context["counts"]] == ["", "HTTP 503"]
    assert [each.type for each in context["shown_conditions"]] == ["drained"]


def test_a_dry_run_moves_while_one_below_does():
    made = found()
    made.below = [preview.Below(dry_run(finished_at=None))]
    assert made.moving and not found().moving


class Previewed(confirm.Preview):
    """The page, with the dry runs of a test."""

    def render_to_response(self, context, **_):
        return "shown again"


@pytest.fixture
def previewed(site, monkeypatch):
    monkeypatch.setattr(confirm, "render", lambda _request, _template, context: context)

    def make(data, *runs, session=None):
        page = view(Previewed, "post", data)
        page.request.session = {} if session is None else session
        page.found = list(runs)
        return page.post(page.request)

    return make


def test_a_page_that_is_sent_again_requests_nothing(site, previewed):
    site.api, session = Api(create_deletion=deletion()), {}
    for expected in (1, 1):
        previewed({f"{ID}-typed": "demo"}, found(a_plan()), session=session)
        assert site.api.calls().count("create_deletion") == expected


def test_if_one_deletion_is_not_confirmed_none_is_requested(site, previewed):
    site.api = Api(create_deletion=deletion())
    runs = found(a_plan()), found(a_plan(), id=OTHER, project_name="other")
    assert previewed({f"{ID}-typed": "demo", f"{OTHER}-typed": "demo"}, *runs) == "shown again"
    assert site.api.calls() == []
    previewed({f"{ID}-typed": "demo", f"{OTHER}-typed": "other"}, *runs)
    assert site.api.calls() == ["create_deletion"] * 2


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({"mode": "purge", "services": "compute"}, ""),
        ({"mode": "cascade", "services": "compute"}, "services"),
        ({"mode": "report", "tags": "old"}, "tags"),
        *(
            ({"mode": "cascade", name: value}, name)
            for name, value in {"skip": "image", "not_tags": "a", "names": "b", "not_names": "c"}.items()
        ),
        ({"mode": "cascade", "updated_before": "2026-11-01T00:00"}, "updated_before"),
        ({"mode": "purge", "not_names": " , "}, "not_names"),
        ({"mode": "purge", "types": " , "}, "types"),
        ({"mode": "purge", "include_subtree": "on"}, "include_subtree"),
    ],
)
def test_a_choice_without_an_effect_is_refused(data, field):
    assert list(forms.RequestForm(data).errors) == ([field] if field else [])


def test_each_criterion_of_the_form_is_in_the_request():
    """A criterion that is lost between the form, the dry run and the deletion would delete more."""
    texts = {"services": "compute, network", "types": "image.image", "skip": "network.port"}
    texts |= {"tags": "a, b c", "not_tags": "keep", "names": "web-*, db ?", "not_names": "prod [a]"}
    times = {"created_before": "2026-11-01T00:00", "updated_before": "2026-11-02T00:00"}
    form = forms.RequestForm({"mode": "purge", **texts, **times})
    assert form.is_valid(), form.errors
    selected = form.wanted()["selection"]
    assert selected == {name: text.split(", ") for name, text in texts.items()} | {
        name: f"{time}:00Z" for name, time in times.items()
    }
    assert set(forms.SELECTING) == set(selected) == set(shapes.Selection.__annotations__)
    run = sdk.Deletion(id=ID, project_id=ID, mode="purge", selection=selected)
    assert preview.selection_of(run) == selected


def test_an_id_that_is_none_is_no_part_of_a_path(site, monkeypatch):
    asked = []
    keystone = types.SimpleNamespace(tenant_get=lambda _request, id_, admin: asked.append(id_))
    monkeypatch.setattr(chosen_projects.api, "keystone", keystone, raising=False)
    (project,), _ = chosen_projects.chosen(request(data={"project": "../users"}))
    assert (project.missing, asked) == (True, [])


def test_a_project_that_is_gone_is_not_asked_for(site):
    site.api = Api(create_deletion=dry_run())
    page = view(asking.Ask, "post", {"mode": "report"})
    there, gone = chosen_projects.Project(PROJECT), chosen_projects.Project("gone", missing=True)
    page.chosen = [there, gone], 0
    posted(page)
    assert [args for _name, args, _more in site.api.made] == [(PROJECT,)]


# ------------------------------------------------------------------------------------------------------------ the lists
class Holds(holds.ListPage):
    create_rule = end_rule = "cleanup:liens:create"
    noun, table_id, columns = "lien", "liens", ()

    def records(self, filters):
        self.wanted = filters
        return iter(())


def test_a_filter_that_is_not_valid_lists_nothing(site, monkeypatch):
    def unknown(*_):
        raise django_forms.ValidationError("no such project")

    monkeypatch.setattr(projects, "find", unknown)
    page = view(Holds, data={"project": "demo"})
    assert page.get_context_data()["rows"] == []
    assert not hasattr(page, "wanted")


def test_the_next_page_keeps_the_filter():
    assert pages.next_link(request(data={"state": "all", "marker": "a"}), "b") == "?state=all&marker=b"
    assert pages.first_link(request(data={"state": "all", "marker": "a"})) == "?state=all"


def test_a_refusal_of_the_api_is_shown_above_the_form(site):
    site.api = Api(create_orphan_scan=api_error(409))
    answer = posted(view(orphans.Start, "post"))
    assert "refused" in errors(answer)[0]
    assert site.said == []


class Keystone:
    """Keystone with the projects of a name; an id is found if it is one of theirs."""

    def __init__(self, *ids):
        self.ids = ids
        listed = [types.SimpleNamespace(id=id_, domain_id="d") for id_ in ids]
        self.projects = types.SimpleNamespace(list=lambda name: listed if name == "demo" else [])

    def tenant_get(self, _request, id_, admin):
        raise ksa_exceptions.NotFound("none")

    def keystoneclient(self, _request):
        return self


@pytest.mark.parametrize(
    ("ids", "text", "expected"),
    [(["a"], "demo", "a"), (["a", "b"], "demo", None), ([], PROJECT, PROJECT), ([], "dmeo", None)],
)
def test_a_project_is_named_by_its_name_or_its_id(monkeypatch, ids, text, expected):
    monkeypatch.setattr(projects, "keystone", Keystone(*ids))
    if expected:
        assert projects.find(request(), text) == expected
    else:
        with pytest.raises(django_forms.ValidationError):
            projects.find(request(), text)


# ---------------------------------------------------------------------------------------------------------- the orphans
ADOPTED = {"origin": "adopted", "dry_run": True, "status": "planned", "counts": []}


@pytest.mark.parametrize(
    ("values", "made"),
    [({}, ["adopt_orphans"]), ({"status": "failed"}, []), ({"project_id": "other"}, None), ({"dry_run": False}, None)],
)
def test_orphans_are_deleted_after_a_dry_run_of_the_same_project(site, values, made):
    site.api = Api(
        get_deletion=deletion(**{**ADOPTED, **values}), adopt_orphans=deletion(), orphan_projects=[iter([1]), iter([1])]
    )
    page = view(adopting.Adopt, "post", {"project_id": PROJECT}, scan_id=OTHER, project_id=PROJECT, deletion_id=ID)
    if made is None:
        with pytest.raises(Http404):
            posted(page)
        made = []
    else:
        posted(page)
    assert site.api.calls("get_deletion", "orphan_projects") == made


@pytest.mark.parametrize("ended", [None, "T"])
def test_orphans_are_adopted_when_the_scan_has_ended(site, ended):
    scan = types.SimpleNamespace(id=ID, finished_at=ended, status="scanning", coverage=[])
    site.api = Api(get_orphan_scan=scan, orphan_projects=[iter(())])
    page = view(orphans.Detail, scan_id=ID)
    assert page.get_context_data()["can_adopt"] is bool(ended)


# --------------------------------------------------------------------------------------------------------- the services
@pytest.mark.parametrize(("typed", "sent"), [("", None), ("0", 0), ("7200", 7200), ("-1", "refused"), ("x", "refused")])
def test_a_scan_has_the_minimum_age_that_was_typed(site, typed, sent):
    site.api = Api(create_orphan_scan=sdk.OrphanScan.received({"id": ID}))
    answer = posted(view(orphans.Start, "post", {"min_age": typed}))
    assert site.api.made == ([] if sent == "refused" else [("create_orphan_scan", (), {"min_age": sent})])
    assert sent != "refused" or errors(answer)


def service(type_, answered_by):
    return types.SimpleNamespace(service_type=type_, region="R", answered_by=answered_by, types=[], waiver_id="")


def test_services_that_block_deletions_come_first(site):
    site.api = Api(services=[[service("a", "plugin"), service("z", "unsupported"), service("m", "waived")]])
    assert [row["service"].service_type for row in view(services.Index).get_context_data()["rows"]] == ["z", "m", "a"]


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({"service_type": "dns"}, ""),
        ({"service_type": "dns", "other": "weather"}, "other"),
        ({"other": "weather"}, "allow_unknown"),
        ({"other": "weather", "allow_unknown": "on"}, ""),
        ({}, "service_type"),
    ],
)
def test_a_waiver_is_for_one_service(data, field):
    given = {"reason": "retired", "expires_at": "2999-01-01 00:00", **data}
    form = waivers.CreateForm(given, services=[service("dns", "unsupported")], request=request())
    assert list(form.errors) == ([field] if field else [])


def test_keystone_cannot_be_waived():
    choices = waivers.service_choices([service("identity", "plugin"), service("dns", "plugin")])
    assert [value for value, _text in choices] == ["", "dns"]


@pytest.mark.parametrize(
    ("given", "utc"),
    [
        ("2999-01-01T00:30", "2999-01-01T00:30:00Z"),
        ("2999-01-01T00:30Z", "2999-01-01T00:30:00Z"),
        ("2999-01-01T00:30+09:00", "2998-12-31T15:30:00Z"),
        ("", None),
    ],
)
def test_a_time_of_a_form_is_in_utc_unless_it_says_otherwise(given, utc):
    assert times.FutureTimeField(required=False).clean(given) == utc


def test_a_time_of_the_api_fills_in_the_field_of_the_browser():
    """The browser would show nothing for a time with a zone, and the selection of a purge would be lost."""
    assert times.TimeField().widget.format_value("2026-11-01T18:00:00Z") == "2026-11-01T18:00:00"
    assert times.TimeField(required=False).clean("2020-01-01T00:00") == "2020-01-01T00:00:00Z"


def test_a_report_is_a_file_and_no_page_of_horizon(site):
    """Its texts are escaped; a browser that opens it from here has neither a script nor the session."""
    made = {"report": {"verdict": "<script>", "deletion": {"project_name": "demo"}}, "journal": []}
    site.api = Api(deletion_report=sdk.SignedReport.received(made))
    page = view(detail.Report, deletion_id=ID)
    answer = page.get(page.request, ID)
    assert answer.status_code == 200 and answer["Content-Type"] == "text/html; charset=utf-8"
    assert answer["Content-Disposition"] == f'attachment; filename="deletion-report-{ID}.html"'
    assert b"&lt;script&gt;" in answer.content and b"<script" not in answer.content
