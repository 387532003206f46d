"""An error on the command line names options and commands, whatever the API says."""

import importlib.metadata
import re
import string

import requests
import webob
from openstackclient import shell

from cleanup_orchestrator.api import errors, responses
from cleanup_orchestrator.api.operations import OPERATIONS
from cleanup_orchestrator.osc import project_delete, words
from cleanup_orchestrator.sdk import errors as sdk_errors
from tests.support.cases import each_case

FIELDS = {name for each in OPERATIONS.values() for part in (each.query, each.body) if part for name in part.fields}


def said(code, detail="what the API says", **members):
    """Return an error of the API in the words of the command line."""
    answer = errors.ApiError(errors.CODES[code][0], code, detail, **members).response(webob.Request.blank("/"))
    response = requests.Response()
    response.status_code, response._content = answer.status_int, answer.body
    error = sdk_errors.from_response(response)
    text = words.spoken(error)
    facts = f" (HTTP {response.status_code}, {code})"
    assert text.endswith(facts)
    return text.removesuffix(facts)


def test_each_error_that_names_calls_or_fields_has_a_text():
    assert words.TEXTS.keys() == errors.SAID_BY_CODE | errors.PROBLEMS.keys()
    assert errors.SAID_BY_CODE <= errors.CODES.keys() and not errors.PROBLEMS.keys() & errors.CODES.keys()


@each_case("text", words.TEXTS.values())
def test_a_text_has_only_members_of_an_error(text):
    used = {name for _text, name, _format, _conversion in string.Formatter().parse(text) if name}
    assert used <= responses.Error.fields.keys() | {"name"}


@each_case(
    "code,members,text",
    [
        ("lien_not_found", {}, "no lien has this id; 'openstack project deletion lien list' lists them"),
        ("invalid_query", {"field": "sort", "expected": "is wrong"}, "--sort is wrong"),
        ("invalid_query", {"field": "created_since", "expected": "must be a time"}, "--since must be a time"),
        ("invalid_body", {"field": "selection", "expected": "names no x"}, "--service, --type or --skip names no x"),
        (
            "invalid_body",
            {"field": "plan_id", "problem": "plan_of_one_project"},
            "--plan cannot be combined with --include-subtree: a plan covers one project",
        ),
        (
            "project_has_children",
            {"children": [f"p{number}" for number in range(52)]},
            f"there are projects below this one: {', '.join(f'p{number}' for number in range(50))}, and 2 more; "
            "delete them first, or use --include-subtree",
        ),
        (
            "project_has_liens",
            {
                "problem": "removable_liens",
                "liens": [
                    {"id": "l1", "origin": "billing", "project_id": "p", "reason": "unpaid", "expires_at": None},
                    {"id": "l2", "origin": "law", "project_id": "q", "reason": "a\nb\x1b", "expires_at": "2027"},
                ],
            },
            "protected by lien l1 of billing on project p until it is removed: unpaid; "
            "lien l2 of law on project q until 2027: a b?. "
            "Ask the origin of the lien to have it removed: 'openstack project deletion lien delete'",
        ),
        (
            "force_unavailable",
            {"problem": "force_refused", "refusals": ["Nova is down", "Heat is off"]},
            "Nova is down; Heat is off. Nothing was changed. To keep these, name only the others with --type",
        ),
        ("not_in_catalog", {"field": "region", "problem": "region_not_in_catalog"}, "what the API says"),
        ("project_has_liens", {"liens": []}, "what the API says"),
        ("project_has_liens", {"problem": "removable_liens", "liens": [{"id": "l1"}]}, "what the API says"),
        ("invalid_body", {"field": "x", "problem": "a_problem_of_a_newer_server"}, "what the API says"),
        ("invalid_body", {"problem": "unknown_field"}, "what the API says"),
        ("invalid_body", {"field": ["a\x1b"], "expected": "is {wrong}"}, "--['a\\x1b'] is {wrong}"),
        ("invalid_body", {"field": "a\x1b", "expected": "is wrong"}, "--a? is wrong"),
    ],
)
def test_examples(code, members, text):
    assert said(code, **members) == text


def parsers():
    """Return the parser of each command."""
    for point in importlib.metadata.entry_points(group="openstack.project_cleanup.v1"):
        yield point.load()(None, None).get_parser(point.name)
    yield project_delete.DeleteProject(None, None).get_parser("project delete")


def test_no_option_is_the_beginning_of_one_of_openstack_itself():
    """``openstack`` takes ``--in 90d`` for its own ``--insecure``, wherever it stands."""
    own = {option for action in shell.OpenStackShell().parser._actions for option in action.option_strings}
    ours = {option for parser in parsers() for action in parser._actions for option in action.option_strings}
    long = [option for option in ours - own if option.startswith("--")]
    assert [option for option in long if any(each.startswith(option) for each in own)] == []


def test_each_option_exists():
    known = {option for parser in parsers() for action in parser._actions for option in action.option_strings}
    texts = " ".join([*words.TEXTS.values(), *map(words.option, [*FIELDS, *words._OPTIONS])])
    options = set(re.findall(r"--[a-z-]+[a-z]", texts))
    assert options > {"--include-subtree", "--not-yet", "--plan"}
    assert options <= known, options - known
