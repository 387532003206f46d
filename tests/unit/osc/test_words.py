"""An error on the command line names options and commands, whatever the API says."""

import ast
import importlib.metadata
import re
from pathlib import Path

from cleanup_orchestrator.api.operations import OPERATIONS
from cleanup_orchestrator.osc import project_delete, words
from tests.support.cases import each_case

API = Path(words.__file__).parents[1] / "api"
#: What only a program that calls the API needs: a field, a call, a path.
REST = re.compile(
    r"\b(GET|POST|DELETE|PATCH|PUT) /|/v1|'[a-z]+(_[a-z]+)+'|include_subtree|allow_unknown|mode (cascade|empty)"
)


def texts():
    """Return the texts of the API that are sentences, also the parts of f-strings."""
    for path in sorted(API.glob("*.py")):
        tree = ast.parse(path.read_text())
        documented = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                parts = [part.value if isinstance(part, ast.Constant) else "{id}" for part in node.values]
                text = "".join(parts)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documented:
                text = node.value
            else:
                continue
            if " " in text.strip() and not text.startswith("cleanup"):
                yield path.name, node.lineno, text


#: Modules without errors for a client: descriptions for other readers.
NOT_ERRORS = {"answers.py", "app.py", "openapi.py", "operations.py", "options.py", "policies.py", "root.py"}
#: The line of each text that a client may get.
RAISED = {text: f"api/{name}:{line}" for name, line, text in texts() if name not in NOT_ERRORS}


def test_the_api_has_texts_to_translate():
    assert sum(1 for text in RAISED if REST.search(text)) > 15


@each_case("text,place", RAISED.items())
def test_no_text_of_the_api_names_a_call_or_a_field(text, place):
    assert not REST.search(words.spoken(text)), f"{place}: {words.spoken(text)}"


FIELDS = {
    name
    for each in OPERATIONS.values()
    for part in (each.query, each.body or {})
    for name in part.get("properties", ())
}


@each_case("name", sorted(FIELDS))
def test_each_field_has_an_option_or_is_an_option(name):
    assert not REST.search(words.spoken(f"'{name}' is not valid"))


@each_case(
    "text,said",
    [
        (
            "there are projects below this one: a, b; delete them first, or set include_subtree",
            "there are projects below this one: a, b; delete them first, or use --include-subtree",
        ),
        (
            "no lien has this id; GET /v1/liens lists them",
            "no lien has this id; 'openstack project deletion lien list' lists them",
        ),
        ("'expires_at' must be later than now", "--expires-at must be later than now"),
        ("'created_since' must be a time in UTC", "--since must be a time in UTC"),
        ("'types' has x, which cannot be forced", "--type has x, which cannot be forced"),
        ("'sort' must be key:asc", "--sort must be key:asc"),
        (
            "'plan_id' needs mode cascade or empty, and no dry run",
            "--plan needs 'openstack project purge' or --cascade, without --dry-run",
        ),
        (
            "plan a cannot be used: it is of mode cascade, and the request is of mode empty; make a new dry run",
            "plan a cannot be used: it is of a cascade, and the request is of a purge; make a new dry run",
        ),
        (
            "'selection' names no service of this cloud; did you mean network?",
            "--service or --type names no service of this cloud; did you mean network?",
        ),
        (
            "'selection' names no resource type of this cloud; GET /v1/services lists them",
            "--type names no resource type of this cloud; 'openstack project deletion service list' lists them",
        ),
        ("'created_before' must be a time in UTC", "--created-before must be a time in UTC"),
        (
            "Ask the origin of the lien to have it removed: DELETE /v1/liens/{id}",
            "Ask the origin of the lien to have it removed: 'openstack project deletion lien delete'",
        ),
        (
            "'plan_id' cannot be combined with include_subtree: a plan covers one project",
            "--plan cannot be combined with --include-subtree: a plan covers one project",
        ),
        ("'allow_unknown' must be a boolean", "--not-yet must be a boolean"),
        ("GET /v1/orphan-scans/{id}/projects lists", "'openstack project orphan project list' lists"),
        ("nothing to translate in 'demo'", "nothing to translate in 'demo'"),
    ],
)
def test_examples(text, said):
    assert words.spoken(text) == said


def parsers():
    """Return the parser of each command."""
    for point in importlib.metadata.entry_points(group="openstack.project_cleanup.v1"):
        yield point.load()(None, None).get_parser(point.name)
    yield project_delete.DeleteProject(None, None).get_parser("project delete")


def test_each_option_exists():
    known = {option for parser in parsers() for action in parser._actions for option in action.option_strings}
    names = (f"'{name}'" for name in (*words.OPTIONS, *FIELDS))
    said = words.spoken(" ".join([*RAISED, *names, *(phrase for phrase, _words in words._PHRASES)]))
    options = set(re.findall(r"--[a-z-]+[a-z]", said))
    assert options > {"--include-subtree", "--not-yet", "--plan"}
    assert options <= known, options - known
