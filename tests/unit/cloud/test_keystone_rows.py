"""The marks of what bootstrap made, the lookups, and the commands that give a role by hand."""

from __future__ import annotations

import types
from urllib.parse import parse_qsl, urlsplit

import pytest

from cleanup_orchestrator.cloud import keystone_rows as rows
from cleanup_orchestrator.cloud.keystone_rows import BootstrapError, Keystone
from cleanup_orchestrator.errors import BadAnswer
from tests.unit.cloud import test_bootstrap as made
from tests.unit.cloud.test_projects import response

USER = {"id": "u", "name": "cleaner", "domain_id": "default"}


def test_a_mark_fits_one_kind_one_name_one_domain_and_one_key():
    marked = {**USER, rows.MARK: rows.mark("key", "user", "default", "cleaner")}
    assert rows.is_made_user("key", marked)
    assert not rows.is_made_user("other", marked) and not rows.is_made_user("", marked)
    assert not rows.is_made_user("key", USER)
    for change in ({"name": "other"}, {"domain_id": "other"}):
        assert not rows.is_made_user("key", {**marked, **change})
    assert not rows.is_made_role("key", {**marked, "name": "cleaner"})
    # No two lists of names give one text.
    assert rows.mark("key", "user", "a", "bc") != rows.mark("key", "user", "ab", "c")


def test_without_a_key_nothing_counts_as_made():
    assert not rows.is_made_user("", {**USER, rows.MARK: rows.mark("", "user", "default", "cleaner")})


@pytest.mark.parametrize(
    ("value", "key", "was_made"), [("made:k", "k", True), ("found:k", "k", False), (None, "", False)]
)
def test_the_key_of_a_service(value, key, was_made):
    service = {rows.KEY: value}
    assert (rows.key_of(service), rows.was_made(service)) == (key, was_made)


def test_an_endpoint_is_recorded_by_its_interface_region_and_url():
    service = {rows.endpoint_record("public", "One"): ["http://a", "http://b"]}
    row = {"interface": "public", "region_id": "One", "url": "http://b"}
    assert rows.is_recorded(service, row)
    for change in ({"interface": "internal"}, {"region_id": "Two"}, {"url": "http://c"}):
        assert not rows.is_recorded(service, {**row, **change})


def test_the_records_of_a_service_are_all_that_bootstrap_wrote_there():
    names = [rows.KEY, rows.endpoint_record("public", "One"), rows.user_record("api")]
    service = dict.fromkeys([*names, "name", "description", "cleanup"], "")
    assert rows.records(service) == names
    assert rows.recorded_users({rows.user_record("api"): [["default", "a"], ["d", "b"]], "name": "x"}) == [
        ("default", "a"),
        ("d", "b"),
    ]


@pytest.mark.parametrize(
    ("path", "command"),
    [
        ("/system", "openstack role add --user u --system all r"),
        ("/projects/p", "openstack role add --user u --project p r"),
        ("/domains/d", "openstack role add --user u --domain d r"),
        ("/OS-INHERIT/domains/d", "openstack role add --user u --domain d --inherited r"),
    ],
)
def test_each_scope_has_its_command_and_is_read_as_it_was_given(path, command):
    assert rows.role_command(path, "u", "r") == command
    keystone = made.Keystone()
    keystone.grants = {(path.removeprefix("/OS-INHERIT"), "u", "r", path.startswith("/OS-INHERIT"))}
    assert list(rows.grants(Keystone(keystone), "u")) == [(path, "r")]


def test_roles_of_other_users_do_not_count():
    keystone = made.Keystone()
    keystone.get = lambda _: response(
        {"role_assignments": [{"user": {"id": "other"}, "role": {"id": "r"}, "scope": {"system": {"all": True}}}]}
    )
    assert list(rows.grants(Keystone(keystone), "u")) == []


def test_a_truncated_list_is_no_list():
    keystone = made.Keystone()
    keystone.get = lambda _: response({"users": [], "role_assignments": [], "truncated": True})
    for ask in (lambda k: k.rows("users", name="x"), lambda k: k.assignments("user.id=x")):
        with pytest.raises(BadAnswer):
            ask(Keystone(keystone))


def keystone_30(ids, most, cut_off=False):
    """Return the ``get`` of a Keystone that cuts a list, and says so only if the request has a limit.

    :param most: ``[DEFAULT] max_db_limit``
    :param cut_off: whether the driver ignores the marker
    """

    def get(url):
        query = dict(parse_qsl(urlsplit(url).query))
        limit = min(int(query["limit"]), most) if "limit" in query else None
        after = "" if cut_off else query.get("marker", "")
        found = [id_ for id_ in ids if id_ > after][: limit or most]
        more = {"truncated": True} if limit and len(found) >= limit else {}
        return response({"domains": [{"id": id_, "name": id_} for id_ in found], **more})

    return types.SimpleNamespace(get=get)


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 8, 9])
def test_a_list_that_keystone_cuts_without_a_word_is_read_to_its_end(count):
    ids = [f"d{number:03}" for number in range(count)]
    assert [row["id"] for row in Keystone(keystone_30(ids, most=4)).rows("domains")] == ids


def test_a_list_that_begins_again_is_no_list():
    ids = [f"d{number:03}" for number in range(9)]
    with pytest.raises(BadAnswer):
        Keystone(keystone_30(ids, most=4, cut_off=True)).rows("domains")


def test_two_of_a_name_are_not_chosen_from_and_a_role_of_a_domain_is_another_one():
    keystone = made.Keystone()
    keystone.tables["roles"]["x"] = {"id": "x", "name": "admin", "domain_id": "default"}
    assert Keystone(keystone).named("roles", "admin")["id"] == "admin"
    assert [row["id"] for row in Keystone(keystone).roles("admin")] == ["admin"]
    keystone.tables["projects"]["q"] = {**keystone.tables["projects"]["p"], "id": "q"}
    with pytest.raises(BootstrapError, match="2 projects are named 'service' in domain default"):
        Keystone(keystone).named("projects", "service", domain_id="default")
    assert Keystone(keystone).named("projects", "q", domain_id="default")["id"] == "q"
    with pytest.raises(BootstrapError, match="no project is named 'q' in domain other"):
        Keystone(keystone).named("projects", "q", domain_id="other")
