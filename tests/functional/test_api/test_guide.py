"""The guide of the API leads to every operation, and its examples are requests and answers of the API."""

import http
import json
import pathlib
import re
import textwrap
import urllib.parse

import pytest

from cleanup_orchestrator.api import microversions, operations
from tests.functional.test_api import contract
from tests.support.cases import each_case

GUIDE = (pathlib.Path(__file__).parents[3] / "doc/source/api/v1.rst").read_text()
REQUEST = r"^    (?:GET|POST|PATCH|DELETE) /"
BLOCK = re.compile(rf"{REQUEST}.*\n(?:    .*\n|\n(?=    ))*", re.MULTILINE)


def examples(text):
    """Return each block that begins with a request, with an ID for each word that stands for one."""
    known = re.sub(r"\b(DELETION|PLAN|LIEN|WAIVER|SCAN|PROJECT)\b", "aaaaaaaa-2222-3333-4444-555555555555", text)
    return [textwrap.dedent(block) for block in BLOCK.findall(known)]


def check(example):
    """Check a request, and the answer to it, which need not have every field."""
    sent, _, answered = example.partition("\n\n")
    (method, url), body = _first(sent)
    path, _, query = url.partition("?")
    contract.check_request(method, path, urllib.parse.parse_qs(query), body)
    (status, phrase), answer = _first(re.sub(r"^Location: .*\n", "", answered, flags=re.MULTILINE))
    status = int(status)
    assert http.HTTPStatus(status).phrase == phrase
    whole = answer if status >= 400 else contract.complete_answer(method, path, status, answer)
    contract.check_answer(method, path, status, "application/json", whole, formats=False)
    operation = operations.OPERATIONS[method, contract.operation(method, path)[1]]
    assert "\nLocation: " not in example or operation.responses[status].location


def _first(text):
    """Return the words of the first line, and the JSON below it."""
    line, _, rest = text.partition("\n")
    return line.split(" ", 1), json.loads(rest) if rest.strip() else None


def test_the_guide_leads_to_every_operation():
    names = {each.name.replace("_", "-") for each in operations.OPERATIONS.values()}
    assert set(re.findall(r"<operation-([\w-]+)>", GUIDE)) == names


@each_case("example", examples(GUIDE))
def test_an_example_is_as_the_api_says(example):
    check(example)


def test_each_request_of_the_guide_is_an_example():
    assert len(examples(GUIDE)) == len(re.findall(REQUEST, GUIDE, re.MULTILINE)) > 30


@pytest.mark.parametrize(
    "request_and_answer",
    [
        '    POST /v1/deletions\n    {"project": "PROJECT"}\n\n    202 Accepted\n    {"deletion": {}}\n',
        '    GET /v1/deletions?state=live\n\n    200 OK\n    {"deletions": []}\n',
        '    GET /v1/brake\n\n    200 OK\n    {"brake": {"colour": "red"}}\n',
        '    GET /v1/brake\n\n    200 Fine\n    {"brake": {"on": true}}\n',
        '    GET /v1/brake\n\n    202 Accepted\n    {"brake": {"on": true}}\n',
        '    GET /v1/brake\n\n    200 OK\n    Location: https://x\n    {"brake": {"on": true}}\n',
        "    GET /v1/nothing\n\n    200 OK\n    {}\n",
    ],
)
def test_an_example_that_the_api_does_not_answer_is_seen(request_and_answer):
    [example] = examples(request_and_answer)
    with pytest.raises(AssertionError):
        check(example)


def test_each_microversion_is_explained():
    assert re.findall(r"^(\d+\.\d+)\n   \S", GUIDE, re.MULTILINE) == list(microversions.VERSIONS)
