"""Placement: one call tells whether anything is allocated."""

import json
import types

import pytest
import requests
from openstack import exceptions

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.plugins.base import ProjectDefinition
from cleanup_orchestrator.plugins.placement import SERVICE
from tests.support import sweeps

US = ProjectDefinition("p", "P", "default", "R1")
(USAGE,) = SERVICE.types


def connection(status, body):
    def get(path, params, microversion):
        assert (path, params, microversion) == ("/usages", {"project_id": "p"}, "1.9")
        response = requests.Response()
        response.status_code, response.url = status, path
        response._content = json.dumps(body).encode()
        response.request = requests.Request("GET", "http://placement/usages").prepare()
        return response

    return types.SimpleNamespace(placement=types.SimpleNamespace(get=get))


@pytest.mark.parametrize(
    ("status", "body", "outcome", "reason"),
    [
        (200, {"usages": {}}, Outcome.CLEAR, ""),
        (200, {"usages": {"VCPU": 0}}, Outcome.CLEAR, ""),
        (200, {"usages": {"VCPU": 2, "MEMORY_MB": 64}}, Outcome.LEFTOVERS, Reason.PRESENT),
        (200, {}, Outcome.UNKNOWN, Reason.BAD_ANSWER),
        (406, {}, Outcome.UNKNOWN, Reason.REFUSED),  # older than the call
        (404, {}, Outcome.UNKNOWN, Reason.NOT_SUPPORTED),
        (403, {}, Outcome.UNKNOWN, Reason.FORBIDDEN),
    ],
)
def test_what_an_answer_means(status, body, outcome, reason):
    found = sweeps.inventory(USAGE, connection(status, body), US)
    assert (found.outcome, found.reason) == (outcome, reason)


def test_what_has_leaked_is_left_with_what_to_do_about_it():
    swept = sweeps.delete(USAGE, connection(200, {"usages": {"VCPU": 2, "MEMORY_MB": 64}}), US)
    (left,) = swept.leftovers
    assert (left.name, left.reason) == ("MEMORY_MB 64, VCPU 2", Reason.REFUSED)
    assert "nova-manage placement audit" in left.message


def test_an_error_of_placement_is_raised():
    with pytest.raises(exceptions.HttpException):
        list(USAGE.list(connection(503, {}), US))
