"""The API reference has every call, parameter, field and error of the OpenAPI document."""

import re
import sys
from pathlib import Path

from cleanup_orchestrator.api import errors, openapi
from cleanup_orchestrator.api.operations import OPERATIONS
from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.core.reasons import Reason
from tests.support.cases import each_case

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "doc" / "ext"))
import api_reference  # noqa: E402

sys.path.remove(str(ROOT / "doc" / "ext"))

PAGE = api_reference.page()


def section(title, line="-"):
    _, found, rest = PAGE.partition(f"\n{title}\n{line * len(title)}\n")
    assert found, title
    return re.split(r"\n\.\. _(?:operation|schema|tag|errors)\b", rest)[0]


@each_case("method,path", OPERATIONS)
def test_every_call_has_its_parameters_errors_and_example(method, path):
    operation, text = OPERATIONS[method, path], section(f"{method} {path}")
    assert operation.summary in text
    rows = set(re.findall(r"^   \* - ``(\w+)``$", text, re.M))
    body = operation.body.fields if operation.body else ()
    assert rows == {*operation.query.fields, *body, *(["id"] if "{id}" in path else [])}
    for status, codes in operation.codes().items():
        [line] = re.findall(rf"^   \* - {status} .*\n     - (.*)$", text, re.M)
        assert re.findall(r":ref:`(\w+) ", line) == list(codes)
    for status in operation.responses:
        assert f"   * - {status} " in text
    assert (f"    {method} /" in text) is (operation.name in openapi.examples())


@each_case("shape", openapi.shapes())
def test_every_object_has_its_fields(shape):
    rows = set(re.findall(r"^   \* - ``([\w.\[\]]+)``$", section(shape.__name__), re.M))
    assert set(shape.fields) <= rows


@each_case("code", errors.CODES)
def test_every_code_has_the_anchor_of_the_help_link(code):
    assert PAGE.count(f"\n.. _{errors.anchor(code)}:\n\n``{code}`` (") == 1


def test_every_reference_leads_somewhere():
    wanted = set(re.findall(r"<((?:error|schema|tag)-[\w-]+)>", PAGE))
    assert wanted <= set(re.findall(r"^\.\. _([\w-]+):$", PAGE, re.M))


def test_a_value_is_described_with_its_limits():
    assert api_reference.kind({"type": ["string", "null"], "format": "date-time"}) == "time or null"
    assert api_reference.meaning({"enum": ["a", ""], "description": "X."}) == "X. One of ``a``, empty."
    assert api_reference.meaning({"type": "array", "maxItems": 20, "items": {}}) == "At most 20 items."


def test_a_long_set_of_values_leads_to_its_page():
    """The reference once called each status and each code of an error a reason."""
    assert api_reference.meaning({"enum": list(Status)}) == f"One of {', '.join(f'``{each}``' for each in Status)}."
    assert api_reference.meaning({"enum": list(Reason)}) == "A reason of :doc:`/admin/operations`."
    assert api_reference.meaning({"enum": list(errors.CODES)}) == "A code of :ref:`errors`."
