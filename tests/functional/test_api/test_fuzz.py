"""Sends generated requests to the API, from its OpenAPI document, with schemathesis.

The requests are the same in each run: valid ones, and ones that break a rule of the document. schemathesis checks that
no answer is a server error, that each is as documented, that valid requests are accepted, that invalid ones are
refused, and that no call works without a token. Each request is also sent with the IDs of records that exist. With
``-s`` the test prints how many requests it sent.
"""

import collections
import itertools

import pytest
from hypothesis import given, settings
from hypothesis.internal.conjecture import providers

from cleanup_orchestrator.api import openapi, operations
from tests.functional.test_api import keystone as ks
from tests.functional.test_api.site import Site
from tests.functional.test_api.test_plans import planned
from tests.support import orphaned
from tests.support.examples import examples

#: Generated requests of each operation and mode.
EXAMPLES = 6
#: Fields and codes of a refusal although the request matches its schema: a marker that does not exist, a time that is
#: past, a sort key twice, a plan or a selection together with another mode, a type without force, Keystone, a domain,
#: names that the cloud does not have, a tree in mode purge, and kept resources of a deletion that does not record them.
MORE_THAN_A_SCHEMA = {
    "region",
    "service",
    "type",
    "reason",
    "not_in_catalog",
    "marker",
    "expires_at",
    "not_before",
    "sort",
    "plan_id",
    "plan_hash",
    "selection",
    "include_subtree",
    "types",
    "service_type",
    "project_is_domain",
    "min_age",
}
#: The end of such a refusal in any other field: the pattern of a time allows a day that its month does not have.
NO_SUCH_DAY = "is a time that does not exist"
CONFIG = {
    # Literals of the modules that happen to be loaded would make the requests depend on the other tests.
    "analysis": {"constants": {"enabled": False}},
    # A body that is too large is refused before its fields are read.
    "checks": {"negative_data_rejection": {"expected-statuses": [400, 401, 403, 404, 405, 406, 409, 413, 415]}},
}
USABLE = """
[keystone_authtoken]
token_cache_time = 300
[catalog]
waiver_limit = 3650000
"""


class Api:
    """The API, with records that exist, and a count of its answers."""

    def start(self, site):
        self.site, self.sent = site, collections.Counter()
        self.tested, self.needs_token = set(), set()  #: operations
        self.numbers = itertools.count()

    def begin(self, operation):
        """Create a record of each resource before the first request of an operation."""
        if operation.label in self.tested:
            return
        self.tested.add(operation.label)
        project = f"fuzz{next(self.numbers)}"
        self.site.keystone.project(project, project, "d1")
        lien = {"project_id": "px", "origin": "billing", "reason": "an invoice"}
        waiver = {"service_type": "weather", "reason": "down", "expires_at": "2099-01-31T00:00:00Z"}
        self.project = project
        self.ids = {
            "deletions": self.site.ask(project, mode="cascade")["id"],
            "projects": project,
            "plans": self.plan,
            "liens": self.site.post("/v1/liens", lien).json["lien"]["id"],
            "waivers": self.site.post("/v1/waivers", waiver).json["waiver"]["id"],
            "orphan-scans": self.scan,
        }

    def __call__(self, environ, start_response):
        def counted(status, headers, *more):
            self.sent[status[:3]] += 1
            return start_response(status, headers, *more)

        return self.site.app(environ, counted)


API = Api()


@pytest.fixture(autouse=True, scope="module")
def no_literals_of_other_tests():
    """Keep Hypothesis from using the literals of loaded modules, for the same reason."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(providers, "_get_local_constants", providers.Constants)
        patch.setattr(providers, "CONSTANTS_CACHE", {})
        yield


@pytest.fixture(scope="module")
def schema(tmp_path_factory, keystone):
    """The document, with an API that answers the requests."""
    site = Site(tmp_path_factory.mktemp("fuzz"), keystone=keystone, extra=USABLE)
    API.start(site)
    API.plan, API.scan = planned(site), orphaned.found(site.store).id
    import schemathesis  # here, and not at the top: the other tests of a process do not need it
    from schemathesis.config import SchemathesisConfig

    document = openapi.document("http://cleanup.example.com")
    made = schemathesis.openapi.from_dict(document, config=SchemathesisConfig.from_dict(CONFIG))
    made.app = API
    yield made
    sent = dict(sorted(API.sent.items()))
    print(f"\n{sum(sent.values())} requests to {len(API.tested)} operations, by status: {sent}")
    site.close()


def send(case):
    """Send a request, and check the answer."""
    from schemathesis import checks
    from schemathesis.core.parameters import ParameterLocation

    headers = {"X-Auth-Token": ks.ADMIN}
    response = case.call(headers=headers)
    refused = response.json()["errors"][0] if response.status_code == 400 else {}
    excluded = []
    if case.operation.label in API.needs_token:  # checked once, because each check sends two more requests
        excluded.append(checks.ignored_auth)
    more = {refused.get("field"), refused.get("code")} & MORE_THAN_A_SCHEMA
    if more or NO_SUCH_DAY in refused.get("detail", ""):
        excluded.append(checks.positive_data_acceptance)
    if case.meta.is_negative_at(ParameterLocation.HEADER):
        # A version of another service is accepted. The document has no pattern for it.
        excluded.append(checks.negative_data_rejection)
    case.validate_response(response, headers=headers, excluded_checks=excluded)
    if response.status_code < 300:
        API.needs_token.add(case.operation.label)


#: (method, path, mode) of each test. Without parameters a request breaks no rule.
CASES = [
    (method, path, mode)
    for (method, path), operation in operations.OPERATIONS.items()
    for mode in ("positive", "negative")
    if mode == "positive" or not operation.public
]


@pytest.mark.parametrize(("method", "path", "mode"), CASES, ids=str)
def test_generated_requests(schema, method, path, mode):
    """Valid requests (positive), and requests that each break a rule of the document (negative)."""
    from schemathesis.generation import GenerationMode

    operation = schema[path][method]
    API.begin(operation)

    @given(operation.as_strategy(generation_mode=GenerationMode(mode)))
    @settings(max_examples=examples(EXAMPLES))
    def send_all(case):
        send(case)
        if "{id}" in path:
            case.path_parameters = {"id": API.ids[path.split("/")[2]]}
            send(case)
        if isinstance(case.body, dict) and isinstance(case.body.get("project_id"), str):
            case.body = {**case.body, "project_id": orphaned.DEAD if "adopt" in path else API.project}
            send(case)

    send_all()


def test_every_operation_was_tried(schema):
    """And most kinds of answers were seen."""
    assert {tuple(label.split(" ")) for label in API.tested} == set(operations.OPERATIONS)
    assert not [status for status in API.sent if status >= "500"]
    assert {"200", "201", "202", "204", "400", "401", "404", "409"} <= set(API.sent)
