"""The pages with one table: each row has a cell for each column."""

import pathlib
import re

import pytest
from django import template

from cleanup_orchestrator import sdk
from tests.unit.dashboard import stand_in

with stand_in.horizon():
    from cleanup_orchestrator.dashboard import holds, pages
    from cleanup_orchestrator.dashboard.liens import views as liens
    from cleanup_orchestrator.dashboard.orphans import views as orphans
    from cleanup_orchestrator.dashboard.services import views as services
    from cleanup_orchestrator.dashboard.waivers import views as waivers

TEMPLATES = pathlib.Path(pages.__file__).parent / "templates"
TAGS = "cleanup_orchestrator.dashboard.templatetags.project_cleanup"
#: Replaces the tags that need Horizon.
register = template.Library()
register.simple_tag(lambda *_: "/url", name="url")
register.simple_tag(lambda: "", name="brake_banner")
register.simple_tag(lambda *_: "", name="place")
register.simple_tag(lambda *_: "", name="place_of_project")

LIEN = sdk.Lien.received({"id": "l", "project_id": "p", "origin": "billing", "state": "in_force", "user_id": "u"})
WAIVER = sdk.Waiver.received({"id": "w", "service_type": "dns", "state": "in_force", "user_id": "u"})
SCAN = sdk.OrphanScan.received({"id": "s", "status": "running", "scheduled": True})
ORPHAN = sdk.Orphan.received({"id": "o", "service": "network", "type": "port", "project_id": "p"})
SERVICE = {"service": sdk.Service.received({"service_type": "dns", "types": ["zone"]}), "answered_by": "its plugin"}
ACTIONS = {"may_end": True, "can_cancel": True}


def engine():
    found = {"builtins": [__name__], "libraries": {"i18n": "django.templatetags.i18n", "project_cleanup": TAGS}}
    found["libraries"] |= {"project_brake": __name__, "project_cleanup_places": __name__}
    base = ("django.template.loaders.locmem.Loader", {"base.html": "{% block main %}{% endblock %}"})
    files = ("django.template.loaders.filesystem.Loader", [str(TEMPLATES)])
    return template.Engine(loaders=[base, files], **found)


def rendered(kind, **values):
    return engine().get_template(kind.template_name).render(template.Context({"table_id": "t", **values}))


def shown(name, **values):
    return engine().get_template(f"project_cleanup/{name}").render(template.Context(values))


def test_each_template_loads_the_tags_and_filters_that_it_uses():
    names = [str(file.relative_to(TEMPLATES)) for file in sorted(TEMPLATES.rglob("*.html"))]
    loaded = engine()
    assert len([loaded.get_template(name) for name in names]) == len(names) > 50


MARKUP = "<script>alert(1)</script>"


def test_a_blocker_names_its_resources_and_a_remedy_stands_once():
    rows = [{"id": f"id-{n}", "name": MARKUP} for n in range(2)]
    known = {"service": "image", "type": "image", "region": "R", "message": "it is public", "remedy": "make it private"}
    blockers = [
        sdk.Blocker.received({**known, "resources": rows, "number": 12, "commands": ["openstack image set 'a b'"]}),
        sdk.Blocker.received({**known, "region": "S"}),
    ]
    page = shown("deletions/_blockers.html", blockers=blockers, table_id="t", caption="What blocks it")
    assert page.count("Make it private") == 1 and 'rowspan="2"' in page
    assert "id-0" in page and "id-1" in page and "and 10 more" in page
    assert MARKUP not in page and "&lt;script&gt;" in page
    assert page.count("<code") == 1 and "openstack image set &#x27;a b&#x27;" in page


@pytest.mark.parametrize(
    ("finished_at", "said"), [(None, "not searched so far"), ("2026-11-01T12:00:00Z", "not searched in this attempt")]
)
def test_nothing_is_not_yet_listed_in_an_ended_deletion(finished_at, said):
    deletion = sdk.Deletion.received({"id": "d", "finished_at": finished_at, "progress": {"found": 0}})
    types = [{"service": "dns", "type": "zone"}]
    page = shown("deletions/_overview.html", deletion=deletion, not_listed=types, counts=[({"outcome": ""}, "")])
    assert said in page
    assert ("Not listed yet" in page) is (finished_at is None)


@pytest.mark.parametrize(
    ("kind", "row", "actions"),
    [
        (liens.Index, holds.row(LIEN, {}), 1),
        (waivers.Index, holds.row(WAIVER, {}), 1),
        (services.Index, SERVICE, 0),
        (orphans.Index, SCAN, 1),
        (orphans.Orphans, ORPHAN, 0),
    ],
)
def test_each_row_has_a_cell_for_each_column(kind, row, actions):
    page = rendered(kind, rows=[row], columns=kind.columns, scan=SCAN)
    assert len(re.findall(r"<t[dh]\b", page.partition("<tbody>")[2])) == len(kind.columns)
    page = rendered(kind, rows=[row], columns=kind.columns, scan=SCAN, **ACTIONS)
    assert len(re.findall(r"<t[dh]\b", page.partition("<tbody>")[2])) == len(kind.columns) + actions
    assert page.count('<th scope="col">') == len(kind.columns)


@pytest.mark.parametrize("kind", [liens.Index, waivers.Index, services.Index, orphans.Index, orphans.Orphans])
def test_a_page_without_rows_says_why(kind):
    assert re.search(r'<p id="t-none">[^<]+\.</p>', rendered(kind, rows=[], nothing=True, scan=SCAN))
    assert "t-none" not in rendered(kind, rows=[], nothing=False, scan=SCAN)
