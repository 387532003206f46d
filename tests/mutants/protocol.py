"""Defects of the project resources protocol: of the service's side, and of the orchestrator's."""

from tests.mutants.mutation import Mutation, tests

WSGI = "cleanup_orchestrator/protocol/wsgi.py"
CHECKS = "cleanup_orchestrator/protocol/checks.py"
EXAMPLE = "doc/examples/service/widgets.py"
TESTS = tests("protocol/wsgi")

CALLS = "cleanup_orchestrator/protocol/calls.py"
PLUGIN = "cleanup_orchestrator/protocol/plugin.py"
DISCOVERY = "cleanup_orchestrator/protocol/discovery.py"
CLIENT = tests("protocol/plugin")
ASKING = tests("protocol/discovery")

MUTATIONS = (
    Mutation(
        "The headers of a client prove who it is",
        WSGI,
        "if info is None or not confirmed or not with_service_token:",
        "if not confirmed or not with_service_token:",
        TESTS,
    ),
    Mutation(
        "A wrong service token beside a right token is ignored",
        WSGI,
        "if info is None or not confirmed or not with_service_token:",
        "if info is None or not confirmed:",
        TESTS,
    ),
    Mutation(
        "A member of any project may delete what the service acts on",
        WSGI,
        "return acts and MEMBER in caller.roles and caller.project_id == project_id",
        "return acts and MEMBER in caller.roles",
        TESTS,
    ),
    Mutation(
        "A member may delete every resource of the own project over the protocol",
        WSGI,
        "acts = type_ is not None and bool(type_.acts_on)",
        "acts = type_ is not None",
        TESTS,
    ),
    Mutation(
        "A delete trusts the provider to look in the project only",
        WSGI,
        "resource = self._resource(project_id, type_.name, id_)\n",
        "resource = self._provider.show(project_id, type_.name, id_) or Resource(id_, project_id)\n",
        TESTS,
    ),
    Mutation(
        "A protected resource is deleted over the protocol",
        WSGI,
        "if reason := resource.protected or resource.keep:",
        "if reason := resource.keep:",
        TESTS,
    ),
    Mutation(
        "An unknown path says that a resource is gone",
        WSGI,
        'raise _Refused(ProblemType.BAD_REQUEST, "The protocol has no such path.")',
        'raise _Refused(ProblemType.NOT_FOUND, "The protocol has no such path.")',
        TESTS,
    ),
    Mutation(
        "An empty segment of a path is left out",
        WSGI,
        "first, *segments = [part.decode() for part in parts]",
        'first, *segments = [part.decode() for part in parts if part] and ["", *(p.decode() for p in parts if p)]',
        TESTS,
    ),
    Mutation(
        "Relative parts of an ID are accepted",
        CHECKS,
        'return _is_unicode(value) and not {"", ".", ".."} & {*value.split("/")}',
        "return _is_unicode(value)",
        TESTS,
    ),
    Mutation(
        "Unknown parameters of a query are ignored",
        WSGI,
        "if len(parameters) != len(pairs) or not parameters.keys() <= {*names}:",
        "if len(parameters) != len(pairs):",
        TESTS,
    ),
    Mutation(
        "The path is always the decoded one",
        WSGI,
        "if urllib.parse.unquote_to_bytes(encoded) == path:",
        "if False:",
        TESTS,
    ),
    Mutation(
        "Rows of other projects are left out instead of an error",
        CHECKS,
        "tuple(resource(row, project_id) for row in result.resources)",
        "tuple(resource(row, project_id) for row in result.resources if row.project_id == project_id)",
        TESTS,
    ),
    Mutation(
        "Rows over the limit are cut off",
        CHECKS,
        '_need(len(result.resources) <= min(limit, MAX_ROWS), f"list returned {len(result.resources)} rows, limit {limit}")',
        "result = dataclasses.replace(result, resources=result.resources[:limit])",
        TESTS,
    ),
    Mutation(
        "The text of an unexpected error reaches the client",
        WSGI,
        "answer = _problem(ProblemType.INTERNAL, detail, request_id)",
        "answer = _problem(ProblemType.INTERNAL, str(__import__('sys').exc_info()[1]), request_id)",
        TESTS,
    ),
    Mutation(
        "The example service acts with its own rights on what a user wrote",
        EXAMPLE,
        'allowed = "member" in caller.roles and row["target"] == caller.project_id',
        "allowed = True",
        tests("protocol/openapi"),
    ),
    Mutation(
        "The 404 of a proxy means that a resource is gone",
        CALLS,
        "if problem is None and status in NOT_HERE:",
        "if False:",
        CLIENT,
    ),
    Mutation(
        "A page about another project is believed",
        PLUGIN,
        'if (page["project_id"], page["type"]) != (project.id, self.declared.name):',
        'if page["type"] != self.declared.name:',
        CLIENT,
    ),
    Mutation(
        "What acts on what users wrote is deleted with the service's token once the project is gone",
        PLUGIN,
        "if self.declared.acts_on and project.gone:",
        "if False:",
        CLIENT,
    ),
    Mutation(
        "An answer of a time to come is used until then",
        DISCOVERY,
        "not now - FRESH < row.asked_at <= now",
        "not now - FRESH < row.asked_at",
        ASKING,
    ),
    Mutation(
        "The document of another service is believed",
        DISCOVERY,
        "if official(declared.service_type) != expected:",
        "if False:",
        ASKING,
    ),
    Mutation(
        "A service that no longer knows the protocol counts as one that never did",
        DISCOVERY,
        "elif row.spoken is Spoken.ABSENT and spoke:",
        "elif False:",
        ASKING,
    ),
    Mutation(
        "The lists of its old types prove a service empty that does not say which it has now",
        "cleanup_orchestrator/worker/steps/survey.py",
        "if answer.answered_by is AnsweredBy.PROTOCOL and answer.message and service is not None:",
        "if False:",
        tests("worker/survey"),
    ),
    Mutation(
        "A service without any type owns nothing",
        DISCOVERY,
        "if not declared.types:",
        "if False:",
        ASKING,
    ),
    # -- the documents, and what a provider may declare
    Mutation(
        "An answer to another question is not noticed",
        "cleanup_orchestrator/protocol/documents.py",
        'return {"project_id": project_id, "type": type_, "resources": resources, "next": self.next}',
        'return {"project_id": "", "type": type_, "resources": resources, "next": self.next}',
        tests("protocol/wsgi"),
    ),
    Mutation(
        "The type of a service in the same region must be gone before one of another service",
        "cleanup_orchestrator/protocol/documents.py",
        'for name in type_.after if name.startswith(own) or "." not in name)',
        'for name in type_.after if "." not in name)',
        tests("protocol/provider"),
    ),
    Mutation(
        "The document of the protocol does not say that a list has pages",
        "cleanup_orchestrator/protocol/openapi.py",
        "    if call.paged:\n",
        "    if False:\n",
        tests("protocol/openapi"),
    ),
    Mutation(
        "A provider may offer a drain without a function for it",
        "cleanup_orchestrator/protocol/provider.py",
        "            self._need(name, self.capabilities.drain)\n",
        "            pass\n",
        tests("protocol/provider protocol/wsgi"),
    ),
    Mutation(
        "A provider may have two types of one name",
        "cleanup_orchestrator/protocol/checks.py",
        "if names.count(name) > 1",
        "if False",
        tests("protocol/provider protocol/discovery protocol/conformance"),
    ),
)
