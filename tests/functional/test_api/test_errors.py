"""Errors of the API: each code is explained once, and an error links to its explanation."""

import inspect
import re
from pathlib import Path

from cleanup_orchestrator import http_server
from cleanup_orchestrator.api import errors
from cleanup_orchestrator.core import proposals
from tests.functional.test_api.site import Site

#: The codes with which the core refuses a proposal, and their status.
REFUSED = {
    "conflict": 409,
    "delegated_approval": 403,
    "forbidden": 403,
    "no_deletion_under_way": 409,
    "not_awaiting_approval": 409,
    "not_forcible": 409,
    "not_changeable": 409,
    "not_retryable": 409,
    "project_has_liens": 409,
    "project_protected": 403,
    "self_approval": 403,
}
ROOT = Path(__file__).parents[3]
API = ROOT / "cleanup_orchestrator" / "api"


def test_an_error_links_to_its_explanation(site):
    [link] = site.get("/v1/deletions?x=1").error["links"]
    assert link == {"rel": "help", "href": "http://cleanup.example.com/v1/openapi.json#/x-errors/invalid_query"}
    assert site.call("PUT", "/healthcheck").error["links"][0]["href"].endswith("#/x-errors/method_not_allowed")


def test_an_error_links_to_the_published_reference(tmp_path, keystone):
    extra = "[api]\nhelp_url = https://docs.example.com/api/reference.html\n"
    site = Site(tmp_path, keystone=keystone, extra=extra)
    [link] = site.get("/v1/deletions", token=None).error["links"]
    assert link == {"rel": "help", "href": "https://docs.example.com/api/reference.html#error-unauthorized"}
    site.close()


def test_every_code_is_explained_once():
    source = "".join(path.read_text() for path in API.glob("*.py"))
    raised = {(code, int(status)) for status, code in re.findall(r'ApiError\(\s*(\d{3}),\s*"(\w+)"', source)}
    assert len(raised) > 8
    foreign = {(code, status) for status, (code, _) in errors._FOREIGN.items()}
    passed_on = {
        ("not_cancellable", 409),
        ("not_restorable", 409),
        ("invalid_body", 400),
        ("invalid_query", 400),
    }
    refused = set(re.findall(r'Refused\("(\w+)"', inspect.getsource(proposals)))
    assert refused == REFUSED.keys()
    passed_on |= set(REFUSED.items())
    of_server = {(code, status) for status, (code, _) in http_server.ERRORS.items()}
    assert {(code, status) for code, (status, _) in errors.CODES.items()} == raised | foreign | passed_on | of_server


def test_every_problem_is_raised():
    raising = [inspect.getsource(proposals), *(p.read_text() for p in API.glob("*.py") if p.name != "errors.py")]
    assert errors.PROBLEMS.keys() <= set(re.findall(r'"(\w+)"', "".join(raising)))
