"""An error on a page has neither calls nor fields of the API."""

import json
import string

import requests

from cleanup_orchestrator import sdk
from cleanup_orchestrator.api import errors as api_errors
from cleanup_orchestrator.api import responses
from tests.support.cases import each_case
from tests.unit.dashboard import stand_in

with stand_in.horizon():
    from cleanup_orchestrator.dashboard import errors

#: Problems of requests that no page can make.
OTHERS = {
    "empty_without_subtree",
    "hash_without_plan",
    "kept_not_recorded",
    "other_service",
    "plan_of_other_mode",
    "plan_with_selection",
    "plan_without_deletes",
    "selection_without_empty",
    "types_with_although_used",
}


def test_each_error_that_names_calls_or_fields_has_a_text():
    assert errors.TEXTS.keys() == (api_errors.SAID_BY_CODE | api_errors.PROBLEMS.keys()) - OTHERS
    assert OTHERS <= api_errors.PROBLEMS.keys()


@each_case("text", [str(text) for text in errors.TEXTS.values()])
def test_a_text_has_only_members_of_an_error(text):
    used = {name for _text, name, _format, _conversion in string.Formatter().parse(text) if name}
    assert used <= responses.Error.fields.keys() | {"name"}


def test_a_field_is_named_in_words():
    response = requests.Response()
    response.status_code = 400
    error = {"status": 400, "code": "invalid_body", "detail": "'expires_at' must be later than now"}
    error |= {"field": "expires_at", "expected": "must be later than now"}
    response._content = json.dumps({"errors": [error]}).encode()
    said = errors.spoken(sdk.errors.from_response(response))
    assert said == "Expires at must be later than now (HTTP 400, invalid_body)"
