"""What the preview of a report says: unknown is not empty, and neither is a service that a waiver skips."""

import pathlib

import pytest
from django.template import Context, Engine

from cleanup_orchestrator import sdk
from cleanup_orchestrator.dashboard.deletions.request import preview

TEMPLATES = pathlib.Path(preview.__file__).parents[2] / "templates"
EMPTY = "The project owns nothing. It is deleted."


class Client:
    """The API with one dry run."""

    def __init__(self, **values):
        body = {
            "id": "d",
            "mode": "report",
            "dry_run": True,
            "status": "planned",
            "finished_at": "2027-01-01T00:00:00Z",
        }
        self.dry_run = sdk.Deletion.received(body | {"progress": {"remaining": 0}, **values})

    def get_deletion(self, deletion_id):
        return self.dry_run


def said(**values):
    """Return what the page says of a dry run that found no resources."""
    libraries = {
        "i18n": "django.templatetags.i18n",
        "project_cleanup": "cleanup_orchestrator.dashboard.templatetags.project_cleanup",
    }
    (one,) = preview.read(Client(**values), ["d"])
    engine = Engine(dirs=[str(TEMPLATES)], libraries=libraries)
    page = engine.get_template("project_cleanup/request/_goes.html")
    return page.render(Context({"one": one, "run": one.dry_run}))


def test_a_project_is_called_empty_if_everything_was_listed():
    assert EMPTY in said(counts=[{"service": "image", "type": "image", "outcome": "clear", "remaining": 0}])


@pytest.mark.parametrize(
    "values",
    [
        {"counts": [{"service": "image", "type": "image", "outcome": "unknown", "remaining": 0}]},
        {"blockers": [{"service": "weather", "type": "unsupported", "reason": "unsupported"}]},
        {"waivers": [{"service_type": "image", "not_listed": [{"service": "image", "region": "RegionOne"}]}]},
    ],
    ids=["a list failed", "a service has no plugin", "a waiver skips a service"],
)
def test_a_project_is_not_called_empty_otherwise(values):
    assert EMPTY not in said(**values)
