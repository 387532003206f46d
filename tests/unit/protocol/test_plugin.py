"""The plugin that the orchestrator makes of a service's capabilities: what it asks, and what it does not believe."""

import dataclasses
import itertools

import pytest

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome, Token
from cleanup_orchestrator.errors import BadAnswer, Stopped
from cleanup_orchestrator.plugins import conformance
from cleanup_orchestrator.plugins.base import CONTROLLERS
from cleanup_orchestrator.protocol.documents import (
    Capabilities,
    Page,
    ProblemType,
    Resource,
    ResourceType,
    State,
    User,
)
from cleanup_orchestrator.protocol.plugin import service
from cleanup_orchestrator.worker.sweep.exclusions import KeepMarks
from tests.unit.protocol.vendor import BASE, PROJECT, WIDGET, Connection, Vendor, problem, response

HTML = "<html><body>Welcome</body></html>"
BAD = Reason.BAD_ANSWER


@pytest.fixture
def vendor():
    made = Vendor()
    for number in range(3):
        made.add(f"w{number}")
    made.add("theirs", "p2")
    return made


def reasons(result):
    return {one.id: one.reason for one in result.leftovers}


# ----------------------------------------------------------------------------------------------------------- honest
def test_an_inventory_names_what_the_project_owns_over_all_pages(vendor):
    vendor.page = 1
    result = vendor.inventory()
    assert (result.outcome, reasons(result)) == (Outcome.LEFTOVERS, dict.fromkeys(("w0", "w1", "w2"), Reason.PRESENT))
    markers = [options["params"].get("marker") for options in vendor.options]
    assert markers == [None, "1", "2"]
    assert {options["params"]["limit"] for options in vendor.options} == {1000}


def test_a_project_without_resources_is_empty(vendor):
    assert vendor.inventory(project=dataclasses.replace(PROJECT, id="p3")).outcome is Outcome.CLEAR


def test_a_delete_shows_each_resource_before_and_lists_again_afterwards(vendor):
    result = vendor.delete(parallel=1)
    assert (result.outcome, sorted(id_ for id_, _ in result.deleted)) == (Outcome.CLEAR, ["w0", "w1", "w2"])
    assert vendor.left() == ["theirs"]
    one = "/projects/p1/widget"
    each = [call for n in range(3) for call in (("GET", f"{one}/w{n}"), ("DELETE", f"{one}/w{n}"))]
    assert vendor.asked == [("GET", one), *each, ("GET", one)]


def test_every_request_names_the_service_and_the_region_and_follows_no_redirect(vendor):
    vendor.delete()
    assert {tuple(options["endpoint_filter"].items()) for options in vendor.options} == {
        (("service_type", "vendor"), ("region_name", "R1"))
    }
    assert {options["redirect"] for options in vendor.options} == {False}


def test_an_accepted_delete_is_a_leftover_until_the_list_has_it_no_more(vendor):
    vendor.slow = True
    assert set(reasons(vendor.delete()).values()) == {Reason.DELETING}
    before = len(vendor.deletes())
    assert set(reasons(vendor.delete()).values()) == {Reason.DELETING}
    assert len(vendor.deletes()) == before, "what is being deleted is not asked for again"
    vendor.rows["widget"] = {}
    assert vendor.delete().outcome is Outcome.CLEAR


def test_the_time_of_creation_is_in_the_row():
    vendor = Vendor(WIDGET, dataclasses.replace(WIDGET, name="quota", project_setting=True))
    vendor.add("w", created_at="2026-03-02T08:00:00Z")
    type_ = vendor.type_()
    (row,) = type_.list(Connection(vendor), PROJECT)
    assert row[type_.created] == "2026-03-02T08:00:00Z"
    assert vendor.type_("quota").created == ""


@pytest.mark.parametrize("id_", ["a/b", "%2e%2e", "ü", "a b?c#d", "...", "a%2Fb", "a;b"])
def test_an_id_is_one_segment_of_the_path(id_):
    vendor = Vendor()
    vendor.add(id_)
    result = vendor.delete()
    assert (result.outcome, vendor.left()) == (Outcome.CLEAR, [])
    assert all(path.count("/") == 4 for path in vendor.deletes())


@pytest.mark.parametrize(
    ("row", "kept", "reason", "message"),
    [
        ({"keep": "it is every project's default"}, 1, None, ""),
        ({"protected": "it is shared"}, 0, Reason.PROTECTED, "it is shared"),
        ({"used_by": (User("vendor.gadget", "g", "p2"),)}, 0, Reason.FOREIGN, "another project's gadget"),
        ({"used_by": (User("vendor.gadget", "g", ""),)}, 0, Reason.FOREIGN, "another project's gadget"),
        ({"used_by": (User("vendor.gadget", "g", "p1"),)}, 0, Reason.IN_USE, "the project's own gadget"),
        ({"state": State.DELETING}, 0, Reason.DELETING, "its service is deleting it"),
        ({"tags": ("Keep",)}, 0, Reason.PROTECTED, "keep mark"),
    ],
)
def test_what_is_not_deleted_and_why(row, kept, reason, message):
    vendor = Vendor()
    vendor.add("w", **row)
    result = vendor.delete(keep_marks=KeepMarks(frozenset({"keep"})))
    assert (result.kept, reasons(result)) == (kept, {"w": reason} if reason else {})
    assert all(message in one.message for one in result.leftovers)
    assert vendor.left() == ["w"]
    if reason is Reason.FOREIGN:
        [blocker] = result.leftovers[0].blocked_by
        assert (blocker["type"], blocker["id"]) == ("vendor.gadget", "g")
        assert vendor.deletes() == [], "refused before the service is asked"


def test_a_dry_run_names_what_other_projects_use():
    vendor = Vendor()
    vendor.add("w", used_by=(User("vendor.gadget", "g", "p2"),))
    assert reasons(vendor.inventory(foresee=True)) == {"w": Reason.FOREIGN}


def test_a_service_that_refuses_with_protected_is_believed(vendor):
    vendor.lie = lambda method, _: problem(ProblemType.PROTECTED, "locked by its owner") if method == "DELETE" else None
    result = vendor.delete()
    assert set(reasons(result).values()) == {Reason.PROTECTED}
    assert {one.message for one in result.leftovers} == {"locked by its owner"}


def test_the_detail_of_a_refusal_is_the_message(vendor):
    vendor.lie = lambda method, _: problem(ProblemType.IN_USE, "a job runs on it") if method == "DELETE" else None
    result = vendor.delete()
    assert {(one.reason, one.message) for one in result.leftovers} == {(Reason.IN_USE, "a job runs on it")}


@pytest.mark.parametrize("after", [{"keep": "now a default"}, {"protected": "now shared"}])
def test_what_became_protected_after_it_was_listed_is_not_deleted(vendor, after):
    def lie(method, parts):
        if method == "GET" and parts[-1] == "w1":
            return response(200, Resource("w1", "p1", **after).to_dict())
        return None

    vendor.lie = lie
    assert reasons(vendor.delete()) == {"w1": Reason.PROTECTED}
    assert "w1" in vendor.left()


# ------------------------------------------------------------------------------------------------------------ liars
def page(rows=(), next_=None, project_id="p1", type_="widget"):
    return response(200, Page(tuple(rows), next_).to_dict(project_id, type_))


def without(field):
    """Return a page that lacks a field."""
    body = page([Resource("w0", "p1")]).json()
    del body[field]
    return response(200, body)


def with_row(**values):
    body = page([Resource("w0", "p1")]).json()
    body["resources"][0].update(values)
    return response(200, body)


def endless(rows):
    """Pages without end, each with a new marker."""
    count = itertools.count()
    return lambda: page(rows, str(next(count)))


def always(answer):
    return lambda: answer


#: What a service answers in place of each list, and the reason of the step's unknown result.
LISTS = {
    "an empty 200": (always(response(200)), BAD),
    "HTML with 200": (always(response(200, HTML, "text/html")), BAD),
    "a list in place of a page": (always(response(200, [])), BAD),
    "no content": (always(response(204)), BAD),
    "a page without next": (lambda: without("next"), BAD),
    "a page without resources": (lambda: without("resources"), BAD),
    "a page without its project": (lambda: response(200, {"type": "widget", "resources": [], "next": None}), BAD),
    "a row without its owner": (lambda: response(200, {**page().json(), "resources": [{"id": "w0"}]}), BAD),
    "a row whose owner is null": (lambda: with_row(project_id=None), BAD),
    "a row without an id": (lambda: with_row(id=""), BAD),
    "a row with a number as id": (lambda: with_row(id=7), BAD),
    "a row that no path can name": (lambda: with_row(id=".."), BAD),
    "an unknown state": (lambda: with_row(state="gone"), BAD),
    "the page of another project": (always(page(project_id="p2")), BAD),
    "the page of another type": (always(page(type_="gadget")), BAD),
    "more rows than asked for": (always(page([Resource(str(n), "p1") for n in range(1001)])), BAD),
    "the same marker again": (always(page([Resource("w0", "p1")], "1")), BAD),
    "empty pages without end": (endless([]), BAD),
    "one page without end": (endless([Resource("w0", "p1")]), BAD),
    "a redirect": (always(response(302, Location="http://thief/")), BAD),
    "the 404 of a proxy": (always(response(404, HTML, "text/html")), BAD),
    "an empty 404": (always(response(404)), BAD),
    "a JSON 404": (always(response(404, {"code": 404, "title": "Not Found"})), BAD),
    "a 410": (always(response(410)), BAD),
    "the type is unknown": (always(problem(ProblemType.UNKNOWN_TYPE)), BAD),
    "the project is unknown": (always(problem(ProblemType.NOT_FOUND)), Reason.NOT_SUPPORTED),
    "a problem with 200": (always(response(200, problem(ProblemType.NOT_FOUND).json())), BAD),
    "unavailable": (always(problem(ProblemType.UNAVAILABLE)), Reason.ERROR),
    "forbidden": (always(problem(ProblemType.FORBIDDEN)), Reason.FORBIDDEN),
    "a 403 of a proxy": (always(response(403, HTML, "text/html")), Reason.FORBIDDEN),
    "no token": (always(problem(ProblemType.NOT_AUTHENTICATED)), Reason.FORBIDDEN),
    "an error": (always(response(500, HTML, "text/html")), Reason.ERROR),
}  # fmt: skip


@pytest.mark.parametrize("name", LISTS)
def test_a_list_that_is_none_is_unknown_and_never_empty(vendor, name):
    answer, reason = LISTS[name]
    vendor.lie = lambda method, parts: answer() if method == "GET" and len(parts) == 3 else None
    for result in (vendor.inventory(), vendor.delete()):
        assert (result.outcome, result.reason) == (Outcome.UNKNOWN, reason)
    assert vendor.deletes() == []


@pytest.mark.parametrize("name", LISTS)
def test_a_second_list_that_is_none_confirms_nothing(vendor, name):
    answer, _reason = LISTS[name]

    def lie(method, parts):
        return answer() if method == "GET" and len(parts) == 3 and vendor.deletes() else None

    vendor.lie = lie
    result = vendor.delete()
    assert (result.outcome, result.deleted) == (Outcome.UNKNOWN, ())
    assert vendor.left() == ["theirs"]


def test_an_error_on_the_last_page_makes_the_whole_list_unknown(vendor):
    vendor.page, lists = 1, itertools.count()

    def lie(method, parts):
        return response(404, HTML) if len(parts) == 3 and next(lists) == 2 else None

    vendor.lie = lie
    assert vendor.inventory().outcome is Outcome.UNKNOWN


def test_a_row_of_another_project_is_never_touched(vendor):
    foreign = Resource("theirs", "p2")
    vendor.lie = lambda method, parts: page([foreign]) if method == "GET" and len(parts) == 3 else None
    assert vendor.delete().leftovers == ()
    assert vendor.deletes() == []
    assert vendor.left() == ["w0", "w1", "w2", "theirs"]


def test_a_row_with_the_projects_id_in_another_spelling_is_protected(vendor):
    vendor.lie = lambda method, parts: page([Resource("w0", "p-1")]) if method == "GET" and len(parts) == 3 else None
    assert reasons(vendor.delete()) == {"w0": Reason.OWNER_UNKNOWN}
    assert vendor.deletes() == []


#: What a service answers in place of a show right before a delete, and the reason of the leftover.
SHOWS = {
    "another project's": (always(response(200, Resource("w1", "p2").to_dict())), Reason.OWNER_UNKNOWN),
    "another resource": (always(response(200, Resource("w0", "p1").to_dict())), BAD),
    "no owner": (always(response(200, {"id": "w1"})), BAD),
    "the 404 of a proxy": (always(response(404, HTML, "text/html")), BAD),
    "a page": (always(page()), BAD),
    "an empty 200": (always(response(200)), BAD),
    "a redirect": (always(response(301, Location="http://thief/")), BAD),
    "an error": (always(problem(ProblemType.UNAVAILABLE)), Reason.ERROR),
}


@pytest.mark.parametrize("name", SHOWS)
def test_what_a_show_does_not_confirm_is_not_deleted(vendor, name):
    answer, reason = SHOWS[name]
    vendor.lie = lambda method, parts: answer() if method == "GET" and parts[-1] == "w1" else None
    assert reasons(vendor.delete()) == {"w1": reason}
    assert not [path for path in vendor.deletes() if path.endswith("w1")]


#: What a service answers in place of a delete that it does not make, and the reason of the leftover.
DELETES = {
    "the 404 of a proxy": (response(404, HTML, "text/html"), BAD),
    "an empty 404": (response(404), BAD),
    "a 410": (response(410), BAD),
    "an unknown type": (problem(ProblemType.UNKNOWN_TYPE), BAD),
    "HTML with 200": (response(200, HTML, "text/html"), BAD),
    "a redirect": (response(307, Location="http://thief/"), BAD),
    "not found": (problem(ProblemType.NOT_FOUND), Reason.REFUSED),
    "gone": (response(204), Reason.DELETING),
    "forbidden": (problem(ProblemType.FORBIDDEN), Reason.FORBIDDEN),
    "an error": (response(500, HTML), Reason.ERROR),
}


@pytest.mark.parametrize("name", DELETES)
def test_a_delete_that_was_not_made_leaves_a_leftover(vendor, name):
    """Whatever the service says of the delete: it counts as gone only when the second list does not have it."""
    answer, reason = DELETES[name]
    vendor.lie = lambda method, _: answer if method == "DELETE" else None
    result = vendor.delete()
    assert (result.deleted, set(reasons(result).values())) == ((), {reason})


def test_a_resource_that_is_gone_already_is_gone():
    vendor = Vendor()
    vendor.add("w")

    def lie(method, _parts):
        if method == "DELETE":
            vendor.rows["widget"].clear()
            return problem(ProblemType.NOT_FOUND)
        return None

    vendor.lie = lie
    assert vendor.delete().outcome is Outcome.CLEAR


def test_a_cancel_stops_the_deletes(vendor):
    def lie(method, _parts):
        if method == "DELETE":
            raise Stopped("cancelled")
        return None

    vendor.lie = lie
    assert vendor.delete().reason == Reason.STOPPED
    assert len(vendor.left()) == 4


# ----------------------------------------------------------------------------------------------------- declarations
FULL = Capabilities(
    "vendor",
    (
        WIDGET,
        ResourceType("part", after=("widget", "network.port"), deleted_with=("widget",), delete=False),
        ResourceType("record", delete=False),
        ResourceType("hook", acts_on="its address"),
        ResourceType("quota", project_setting=True),
    ),
    drain=True,
)


def test_the_declaration_of_each_type():
    made = service(FULL, BASE + "/")
    types = {type_.name: type_ for type_ in made.types}
    assert {type_.token for type_ in made.types} == {Token.SERVICE}
    assert made.service_type == "vendor"
    assert made.after == CONTROLLERS
    assert types["part"].after == ("widget", "network.port")
    assert types["part"].composition.part_of == (("widget", "part_of.widget"),)
    assert types["record"].delete is None
    assert types["hook"].user_content == "its address"
    assert types["quota"].project_setting
    assert all(type_.all_projects_view() is None for type_ in made.types)
    assert types["widget"].remedy("w", PROJECT).endswith(f"DELETE {BASE}/projects/p1/widget/w")
    assert "an operator of vendor" in types["record"].remedy("r", PROJECT)


def test_it_keeps_the_contract_of_plugins():
    official = service(dataclasses.replace(FULL, service_type="workflow"), BASE)
    network = service(Capabilities("network", (ResourceType("port"),)), BASE)
    assert conformance.problems(official, network) == []


def test_braces_in_a_url_are_text():
    type_ = service(Capabilities("vendor", (WIDGET,)), "http://vendor/{project}").types[0]
    assert "http://vendor/{project}/projects/p1/widget/w" in type_.remedy("w", PROJECT)


def test_a_controller_does_not_wait_for_itself():
    assert service(Capabilities("orchestration", (ResourceType("stack"),)), BASE).after == ()


def test_what_is_deleted_with_another_type_is_listed_and_never_deleted():
    vendor = Vendor(WIDGET, ResourceType("part", deleted_with=("widget",)))
    vendor.add("w")
    vendor.add("x", type_="part", part_of={"widget": "w"})
    assert reasons(vendor.delete("part")) == {"x": Reason.IN_USE}
    assert vendor.deletes() == []


def test_what_no_call_deletes_is_left():
    vendor = Vendor(ResourceType("record", delete=False))
    vendor.add("r", type_="record")
    assert reasons(vendor.delete("record")) == {"r": Reason.REFUSED}
    assert vendor.deletes() == []


def test_what_acts_on_what_users_wrote_is_deleted_with_the_janitors_token():
    vendor, janitor = Vendor(ResourceType("hook", acts_on="its address")), Vendor(ResourceType("hook"))
    vendor.add("h", type_="hook")
    janitor.rows = vendor.rows
    assert vendor.delete("hook", janitor=lambda: Connection(janitor)).outcome is Outcome.CLEAR
    assert vendor.deletes() == []
    assert janitor.deletes() == ["/projects/p1/hook/h"]


def test_once_the_project_is_gone_nothing_acts_on_what_users_wrote():
    vendor = Vendor(ResourceType("hook", acts_on="its address"))
    vendor.add("h", type_="hook")
    result = vendor.delete("hook", project=dataclasses.replace(PROJECT, gone=True))
    assert reasons(result) == {"h": Reason.PROJECT_GONE}
    assert vendor.deletes() == []


def test_a_project_whose_id_no_path_can_name_is_refused(vendor):
    with pytest.raises(BadAnswer):
        list(vendor.type_().list(Connection(vendor), dataclasses.replace(PROJECT, id="..")))
