"""Where the pages link a resource to: only to a page of this resource that the user may see."""

import types

import pytest
from django.test import override_settings
from django.urls import include, re_path

from tests.unit.dashboard import stand_in

with stand_in.horizon():
    from cleanup_orchestrator.dashboard import places


def _page(request):
    raise NotImplementedError


_PANEL = re_path(r"^(?P<id>[^/]+)/detail$", _page, name="detail")
_PANELS = [
    re_path(rf"^{name}/", include(([_PANEL], name), namespace=name)) for name in ("instances", "networks", "projects")
]
_DASHBOARDS = [re_path(rf"^{name}/", include((_PANELS, name), namespace=name)) for name in ("admin", "identity")]
urlpatterns = [re_path("", include((_DASHBOARDS, "horizon"), namespace="horizon"))]


@pytest.fixture
def hidden(monkeypatch):
    """Return the names of the dashboards and panels that the user may not see. The panels are those of Horizon."""
    names = set()

    class Seen:
        def __init__(self, name):
            self.name = name

        def can_access(self, context):
            return self.name not in names

        def get_panel(self, name):
            return Seen(name)

    monkeypatch.setattr(places.horizon, "get_dashboard", Seen, raising=False)
    with override_settings(ROOT_URLCONF=__name__):
        yield names


@pytest.fixture
def request_():
    return types.SimpleNamespace(user=types.SimpleNamespace(services_region="R"))


def test_a_resource_is_linked_to_its_page(hidden, request_):
    assert places.of_resource(request_, "compute.server", "s1", "R") == "/admin/instances/s1/detail"
    assert places.of_project(request_, "p1") == "/identity/projects/p1/detail"


@pytest.mark.parametrize("id_", ["", ".", "..", "a/b", "../x", "a/../../identity"])
def test_an_id_that_leads_to_another_page_has_no_link(hidden, request_, id_):
    assert places.of_resource(request_, "compute.server", id_, "R") == ""
    assert places.of_project(request_, id_) == ""


@pytest.mark.parametrize("id_", ["javascript:alert(1)", "//evil.example.com", "x?y#z", "\\evil", "..\\x"])
def test_an_id_is_only_a_part_of_the_path(hidden, request_, id_):
    url = places.of_resource(request_, "compute.server", id_, "R")
    assert url == "" or (url.startswith("/admin/instances/") and not set("?#\\") & set(url))


def test_a_type_without_a_page_has_no_link(hidden, request_):
    assert places.of_resource(request_, "object-store.container", "c1", "R") == ""
    assert places.of_resource(request_, "block-storage.volume", "v1", "R") == "", "this Horizon has no such panel"


def test_a_resource_of_another_region_has_no_link(hidden, request_):
    assert places.of_resource(request_, "compute.server", "s1", "S") == ""
    assert places.of_resource(request_, "compute.server", "s1") == "/admin/instances/s1/detail"


@pytest.mark.parametrize("name", ["admin", "instances"])
def test_a_page_that_the_user_may_not_see_has_no_link(hidden, request_, name):
    hidden.add(name)
    assert places.of_resource(request_, "compute.server", "s1", "R") == ""
