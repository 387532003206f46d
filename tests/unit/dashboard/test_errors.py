"""An error on a page has neither calls nor fields of the API."""

import string

import requests
import webob

from cleanup_orchestrator import sdk
from cleanup_orchestrator.api import errors as api_errors
from cleanup_orchestrator.api import responses
from tests.support.cases import each_case
from tests.unit.dashboard import stand_in

with stand_in.horizon():
    from cleanup_orchestrator.dashboard import errors

#: Problems of requests that no page can make.
OTHERS = {
    "purge_without_subtree",
    "hash_without_plan",
    "kept_not_recorded",
    "other_service",
    "plan_of_other_mode",
    "plan_with_selection",
    "plan_without_deletes",
    "selection_without_purge",
    "types_with_although_used",
}


def test_each_error_that_names_calls_or_fields_has_a_text():
    assert errors.TEXTS.keys() == (api_errors.SAID_BY_CODE | api_errors.PROBLEMS.keys()) - OTHERS
    assert OTHERS <= api_errors.PROBLEMS.keys()


@each_case("text", [str(text) for text in errors.TEXTS.values()])
def test_a_text_has_only_members_of_an_error(text):
    used = {name for _text, name, _format, _conversion in string.Formatter().parse(text) if name}
    assert used <= responses.Error.fields.keys() | {"name"}


def said(code, detail, **members):
    """Return an error of the API in the words of the panels."""
    answer = api_errors.ApiError(api_errors.CODES[code][0], code, detail, **members).response(webob.Request.blank("/"))
    response = requests.Response()
    response.status_code, response._content = answer.status_int, answer.body
    return errors.spoken(sdk.errors.from_response(response))


def test_an_error_that_names_a_call_is_said_in_words():
    found = said("lien_not_found", "no lien has this id; GET /v1/liens lists them")
    assert found == "No lien has this ID. The panel Liens lists them (HTTP 404, lien_not_found)"


def test_a_field_is_named_in_words():
    expected = "must be later than now"
    found = said("invalid_body", f"'expires_at' {expected}", field="expires_at", expected=expected)
    assert found == "Expires at must be later than now (HTTP 400, invalid_body)"
