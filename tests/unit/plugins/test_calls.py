"""Calls that a plugin declares instead of writing them: what is asked for, and what is no answer."""

from __future__ import annotations

import dataclasses

import pytest

from cleanup_orchestrator.core.step import Token
from cleanup_orchestrator.errors import BadAnswer
from cleanup_orchestrator.plugins.base import BODY, Collection, ProjectDefinition, Resource, ResourceType, Rest, Sdk
from tests.unit.answers import connection, project
from tests.unit.plugins import wire
from tests.unit.plugins.canned import Canned, canned, thing

PROJECT = project("p")
THINGS = Rest("image", "/things", key="things", query={"project_id": "{project_id}"}, paging="links")


def listed(answer, call=THINGS):
    return list(call.rows(connection(image=answer), PROJECT))


@pytest.mark.parametrize("body", [{}, {"things": None}, {"things": {}}, {"others": []}, [], "no JSON"])
def test_an_answer_without_the_collection_is_no_empty_collection(body):
    with pytest.raises(BadAnswer):
        listed(lambda *_: (200, body))


def test_the_owner_filter_is_in_the_request_for_each_page():
    """Several services leave it out of the link to the next page."""
    pages = {None: {"things": [{"id": "1"}], "things_links": [{"rel": "next", "href": "http://other/x?marker=1"}]}}
    pages["1"] = {"things": [{"id": "2"}]}
    asked = []

    def answer(_method, path, query, _body):
        asked.append((path, query))
        return 200, pages[query.get("marker")]

    assert [row["id"] for row in listed(answer)] == ["1", "2"]
    assert asked == [("/things", {"project_id": "p"}), ("/things", {"project_id": "p", "marker": "1"})]


#: What a link to the second page has besides its marker, and whether it leads on in the same list.
LINKS = {
    "nothing": ("", True),
    "all filters, in another order": ("limit=1&fields=b&fields=a&all_tenants=true&project_id=p", True),
    "the filters in another encoding": ("project%5Fid=%70&all_tenants=True", True),
    "a filter twice": ("project_id=p&project_id=p", True),
    "a parameter of its own": ("sort_key=id", True),
    "another project": ("project_id=q", False),
    "the project in another spelling": ("project_id=P", False),
    "another project as well": ("project_id=p&project_id=q", False),
    "only the caller's project": ("all_tenants=0", False),
    "one field of two": ("fields=a", False),
    "what was to be left out": ("hidden=True", False),
}


@pytest.mark.parametrize(("more", "same"), LINKS.values(), ids=list(LINKS))
@pytest.mark.parametrize("paging", ["links", "pages"])
def test_a_link_that_changes_what_was_asked_for_is_no_page_of_the_list(paging, more, same):
    """A list of another project is empty, and would look complete."""
    query, asked = {"project_id": "{project_id}", "all_tenants": True, "fields": ["a", "b"], "hidden": False}, []

    def answer(_method, _path, query, _body):
        asked.append(query)
        link = {"links": {"next": f"http://other/x?marker=1&{more}"}} if "marker" not in query else {}
        return 200, {"things": [{"id": len(asked)}], **link}

    call = dataclasses.replace(THINGS, paging=paging, query=query)
    if same:
        assert len(listed(answer, call)) == 2
        assert asked[1].keys() >= {"project_id", "all_tenants", "fields", "marker"}
    else:
        with pytest.raises(BadAnswer, match="next page"):
            listed(answer, call)
        assert len(asked) == 1


#: What each page of a list has: its rows, and the marker of its link to the next page.
PAGES_WITHOUT_ROWS = {
    "the first": ([([], "1"), (["a"], None)], ["a"]),
    "one between two others": ([(["a"], "1"), ([], "2"), (["b"], None)], ["a", "b"]),
    "several in succession": ([([], "1"), ([], "2"), ([], "3"), (["a"], "4"), ([], "5"), (["b"], None)], ["a", "b"]),
    "the last, to which a full page links": ([(["a"], "1"), ([], None)], ["a"]),
    "the only one": ([([], None)], []),
    "as many as a list may have": ([([], str(n)) for n in range(1, 101)] + [(["a"], None)], ["a"]),
    "more than a list may have": ([([], str(n)) for n in range(1, 102)] + [(["a"], None)], BadAnswer),
    "one that links to itself": ([(["a"], "1"), ([], "1")], BadAnswer),
    "two that link to each other": ([([], "1"), ([], "2"), ([], "1")], BadAnswer),
}


@pytest.mark.parametrize("paging", ["links", "pages"])
@pytest.mark.parametrize(("pages", "expected"), PAGES_WITHOUT_ROWS.values(), ids=list(PAGES_WITHOUT_ROWS))
def test_a_page_without_rows_is_the_end_of_a_list_only_if_it_has_no_link(pages, expected, paging):
    """A service that removes rows from a page after it has read the page answers with such a page."""

    def answer(_method, _path, query, _body):
        rows, marker = pages[int(query.get("marker", 0))]
        return 200, {"things": [{"id": row} for row in rows], "next": marker and f"http://other/x?marker={marker}"}

    call = dataclasses.replace(THINGS, paging=paging)
    if expected is BadAnswer:
        with pytest.raises(BadAnswer, match=r"no end|same page twice"):
            listed(answer, call)
    else:
        assert [row["id"] for row in listed(answer, call)] == expected


@pytest.mark.parametrize(("paging", "end"), [("links", BadAnswer), ("pages", ["a", "b"])])
def test_a_list_that_is_cut_short_goes_on_only_where_it_has_pages(paging, end):
    """Without a ``limit`` in the query, a link is no sign that the service cuts the list into pages."""

    def answer(_method, _path, query, _body):
        if "marker" in query:
            return 200, {"things": [{"id": "b"}]}
        return 200, {"things": [{"id": "a"}], "truncated": True, "next": "http://other/x?marker=a"}

    call = dataclasses.replace(THINGS, paging=paging)
    if end is BadAnswer:
        with pytest.raises(BadAnswer, match="cut short"):
            listed(answer, call)
    else:
        assert [row["id"] for row in listed(answer, call)] == end


@pytest.mark.parametrize(
    ("paging", "query", "rows", "complete"),
    [
        ("none", {}, [], False),
        ("none", {}, ["a"], False),
        ("none", {"limit": 1}, ["a"], True),  # such a call asks whether there is a row
        ("none", {"limit": 1}, [], False),
        ("marker", {}, [], False),
        ("offset", {}, [], False),
    ],
)
def test_a_link_that_is_not_followed_is_no_end_of_a_list(paging, query, rows, complete):
    """A service that begins to cut a list into pages, or removes rows from a page, would look empty."""
    body = {
        "things": [{"id": row} for row in rows],
        "things_links": [{"rel": "next", "href": "http://other/x?marker=a"}],
    }
    call = dataclasses.replace(THINGS, paging=paging, query=query)
    if complete:
        assert [row["id"] for row in listed(lambda *_: (200, body), call)] == rows
    else:
        with pytest.raises(BadAnswer, match="link to another page"):
            listed(lambda *_: (200, body), call)


@pytest.mark.parametrize("paging", ["marker", "offset"])
def test_a_page_with_rows_may_have_a_link_where_another_parameter_leads_on(paging):
    link = {"things_links": [{"rel": "next", "href": "http://other/x?marker=a"}]}

    def answer(_method, _path, query, _body):
        return 200, {"things": []} if query.get("marker") or query.get("offset") else {"things": [{"id": "a"}], **link}

    assert [row["id"] for row in listed(answer, dataclasses.replace(THINGS, paging=paging))] == ["a"]


def of_sdk(*pages):
    """List subnets over openstacksdk; a page has the ids of its rows, and the query of its link to the next page."""
    text, service = wire.Text(), wire.Wire("network")
    for place, (rows, link) in enumerate(pages):
        text.lines.append("GET /v2.0/subnets?" + (f"marker={place}&" if place else "") + "project_id=p")
        links = [{"rel": "next", "href": f"http://network/v2.0/subnets?{link}"}] if link else []
        text.answers[place] = {"subnets": [{"id": row} for row in rows], "subnets_links": links}
    service.begin(text)
    cloud, subnets = wire.connection(service, Token.ADMIN), Sdk("network", "subnets", project_id="{project_id}")
    found = [row["id"] for row in subnets.rows(cloud, PROJECT)]
    assert service.recorded == text.lines and "get" not in vars(cloud.network)
    return found


@pytest.mark.parametrize(("pages", "expected"), PAGES_WITHOUT_ROWS.values(), ids=list(PAGES_WITHOUT_ROWS))
def test_openstacksdk_goes_on_behind_a_page_without_rows_that_has_a_link(pages, expected):
    pages = [(rows, marker and f"marker={marker}") for rows, marker in pages]
    if expected is BadAnswer:
        with pytest.raises((BadAnswer, wire.Unexpected)):
            of_sdk(*pages)
    else:
        assert of_sdk(*pages) == expected


def test_pages_without_rows_of_openstacksdk_have_an_end():
    with pytest.raises(BadAnswer, match="no end: 100 pages"):
        of_sdk(*[([], f"marker={n}") for n in range(1, 102)])


@pytest.mark.parametrize("rows", [[], ["a"]])
def test_openstacksdk_takes_no_link_that_changes_what_was_asked_for(rows):
    assert of_sdk((rows, "marker=1&project_id=p"), (["b"], None)) == [*rows, "b"]
    with pytest.raises(BadAnswer, match="next page"):
        of_sdk((rows, "marker=1&project_id=q"), (["b"], None))


LISTS = Rest(
    "image", "/things", key=BODY, query={"project_id": "{project_id}"}, paging="marker", limit=2, marker="uuid"
)


@pytest.mark.parametrize("body", [{}, {"things": []}, {BODY: []}, None, "no JSON"])
def test_an_answer_that_is_no_list_is_no_empty_list(body):
    with pytest.raises(BadAnswer):
        listed(lambda *_: (200, body), LISTS)


def test_a_body_that_is_a_list_is_read_page_by_page():
    ids, asked = ["a", "b", "c"], []

    def answer(_method, _path, query, _body):
        asked.append(query)
        start = ids.index(query["marker"]) + 1 if "marker" in query else 0
        return 200, [{"uuid": id_, "id": "no marker"} for id_ in ids[start : start + query["limit"]]]

    assert [row["uuid"] for row in listed(answer, LISTS)] == ids
    assert [query.get("marker") for query in asked] == [None, "b", "c"]
    assert {query["project_id"] for query in asked} == {"p"}


def test_a_list_that_reports_a_truncation_is_refused():
    with pytest.raises(BadAnswer, match="cut short"):
        listed(lambda *_: (200, {"things": [{"id": "1"}], "truncated": True}))


@pytest.mark.parametrize("row", [{}, {"id": None}, {"id": ""}])
def test_a_row_without_an_id_is_no_resource(row):
    type_ = ResourceType("thing", THINGS, delete=None)
    with pytest.raises(BadAnswer, match="without 'id'"):
        type_.resource({"name": "n", "project_id": "p", **row}, PROJECT)


@pytest.mark.parametrize("owner", [None, "", " "])
def test_a_row_without_an_owner_belongs_to_no_project(owner):
    assert ResourceType("thing", THINGS, delete=None).resource({"id": "1", "project_id": owner}, PROJECT).owner is None


@pytest.mark.parametrize("owner", [{"id": "p"}, ["p"], 5, True])
def test_an_owner_that_is_no_text_is_not_another_project(owner):
    with pytest.raises(BadAnswer, match="the project_id of thing '1' is no text"):
        ResourceType("thing", THINGS, delete=None).resource({"id": "1", "project_id": owner}, PROJECT)


def test_an_id_is_quoted_in_a_path():
    type_ = ResourceType("thing", THINGS, delete=None)
    resource = type_.resource({"id": "a/b?c", "project_id": "p"}, PROJECT)
    cloud = connection(image=lambda *_: (200, {}))
    Rest("image", "/things/{id}", method="DELETE").call(cloud, PROJECT, resource)
    assert cloud.image.writes() == [("DELETE", "/things/a%2Fb%3Fc", None)]


def test_what_a_row_has_is_quoted_in_a_path_too():
    """A service repeats what a user wrote: a name with a slash would lead to another resource."""
    type_ = ResourceType("thing", THINGS, delete=None)
    resource = type_.resource({"id": "1", "project_id": "p", "name": "a/b?c", "number": 7}, PROJECT)
    cloud = connection(image=lambda *_: (200, {}))
    body = {"name": "{row[name]}"}
    call = Rest("image", "/{row[name]}/{row[number]}/{id}", method="DELETE", body=body)
    call.call(cloud, PROJECT, resource)
    assert cloud.image.writes() == [("DELETE", "/a%2Fb%3Fc/7/1", {"name": "a/b?c"})]


@pytest.mark.parametrize(("from_root", "wanted"), [(False, None), (True, "http://cloud:1")])
def test_a_path_with_the_version_is_below_the_endpoint_of_the_catalog(from_root, wanted):
    """Without it, the path is below the version that the discovery found."""
    cloud, asked = connection(image=lambda *_: (200, {"things": []})), []
    answers, plain = cloud.image, cloud.image.request
    answers.get_endpoint = lambda skip_discovery=False: "http://cloud:1" if skip_discovery else "http://cloud:1/v1"

    def request(url, method, endpoint_override=None, **more):
        asked.append((url, endpoint_override))
        return plain(url, method, **more)

    answers.request = request
    assert list(Rest("image", "/v2/things", key="things", from_root=from_root).rows(cloud, PROJECT)) == []
    assert asked == [("/v2/things", wanted)]


NAMED = ProjectDefinition("ours", "name", "default", "RegionOne")


@pytest.mark.parametrize("id_", [".", ".."])
def test_a_name_that_leads_to_another_place_is_not_put_into_a_path(id_):
    api = Canned({})
    with pytest.raises(BadAnswer, match="no path"):
        Rest("dns", "/zones/{id}/x", method="DELETE").call(canned(dns=api), NAMED, Resource(id_, "", "p"))
    assert not api.asked


def test_the_headers_of_a_declared_call_are_filled_too():
    """Designate takes the project from a header: left unfilled, it would be asked about a project of that name."""
    service = Canned({"GET /things": {"things": []}, "DELETE /things/id": {}})
    headers = {"X-Project": "{project_id}"}
    list(Rest("dns", "/things", key="things", headers=headers).rows(canned(dns=service), NAMED))
    Rest("dns", "/things/{id}", method="DELETE", headers=headers).call(canned(dns=service), NAMED, thing())
    assert [asked[3] for asked in service.asked] == [{"X-Project": "ours"}] * 2


def test_a_collection_has_its_lists_at_one_path_and_each_resource_at_another():
    rows = {"odd_things": [{"id": "id"}]}
    service = Canned({"GET /odd-things/detail": rows, "GET /odd-things/id": {"thing": {"id": "id", "shown": True}}})
    things = Collection(
        "dns",
        "/odd-things",
        one="thing",
        list_path="/odd-things/detail",
        query={"sort": "id"},
        all_query={"everyone": "1"},
        headers={"X-Project": "{project_id}"},
    )
    cloud = canned(dns=service)
    found = [list(call.rows(cloud, NAMED)) for call in (things.own, things.all, things.where(name="a"))]
    assert found == [rows["odd_things"]] * 3
    assert things.show.row(cloud, NAMED, thing()) == {"id": "id", "shown": True}
    things.delete.call(cloud, NAMED, thing())
    things.call("/{id}/action", method="POST", headers={"X-Other": "1"}).call(cloud, NAMED, thing())
    ours = {"X-Project": "ours"}
    assert service.asked == [
        ("GET", "/odd-things/detail", {"project_id": "ours", "sort": "id"}, ours),
        ("GET", "/odd-things/detail", {"everyone": "1", "sort": "id"}, ours),
        ("GET", "/odd-things/detail", {"name": "a", "sort": "id"}, ours),
        ("GET", "/odd-things/id", {}, ours),
        ("DELETE", "/odd-things/id", {}, ours),
        ("POST", "/odd-things/id/action", {}, {"X-Other": "1"}),
    ]


@pytest.mark.parametrize(("paging", "calls"), [("offset", 52), ("marker", 2)])
def test_a_list_that_does_not_know_its_paging_is_not_followed_for_ever(paging, calls):
    service = Canned({"GET /things": {"things": [{"id": "a"}, {"id": "b"}]}})
    listed = Rest("dns", "/things", key="things", paging=paging)
    with pytest.raises(BadAnswer, match="same page twice"):
        list(listed.rows(canned(dns=service), NAMED))
    assert len(service.asked) == calls


class Joined(Canned):
    """As Manila lists shares: an offset counts rows of a join with their instances, and each share is shown once."""

    def __init__(self, *instances):
        super().__init__({})
        self.joined = [share for share, count in instances for _ in range(count)]

    def request(self, path, method, params=None, **more):
        offset, limit = int(params["offset"]), int(params["limit"])
        ids = dict.fromkeys(self.joined[offset : offset + limit])
        self.answers = {f"{method} {path}": {"things": [{"id": id_} for id_ in ids]}}
        return super().request(path, method, params=params, **more)


@pytest.mark.parametrize(
    "instances",
    [
        [("a", 2)],
        [("a", 2), ("b", 2)],
        [("a", 9), ("b", 1), ("c", 4)],
        [(f"{n:03}", 1 + n % 3) for n in range(200)],
        [(f"{n:03}", 20) for n in range(10)],
    ],
)
@pytest.mark.parametrize("limit", [1, 7, 1000])
def test_what_is_counted_several_times_and_shown_once_is_listed_whole(instances, limit):
    service = Joined(*instances)
    listed = Rest("dns", "/things", key="things", paging="offset", limit=limit)
    found = [row["id"] for row in listed.rows(canned(dns=service), NAMED)]
    assert found == [id_ for id_, _ in instances]
