"""Defects of the parts that run inside Keystone, apart from the fence and the guard."""

from tests.mutants.mutation import Mutation, tests

ASSUMPTIONS = "cleanup_orchestrator/keystone/assumptions.py"
FILTER = "cleanup_orchestrator/keystone/filter.py"
LIMITS = "cleanup_orchestrator/keystone/http_limits.py"
INTERCEPT = "cleanup_orchestrator/keystone/intercept.py"
PIPELINE = "cleanup_orchestrator/keystone/pipeline.py"
WSGI = "cleanup_orchestrator/keystone/wsgi.py"

ASSUMED = tests("keystone/assumptions")
FILTERED = tests("keystone/filter")
HOSTILE = tests("keystone/http_limits")
PIPED = tests("keystone/pipeline")
HOOKED = tests("keystone/intercept")
SERVED = tests("keystone/wsgi")

MUTATIONS = (
    Mutation(
        "Keystone starts although it lacks what the fence rests on",
        ASSUMPTIONS,
        "    if lacks:\n",
        "    if lacks and False:\n",
        ASSUMED,
    ),
    Mutation(
        "A method that another package wrapped counts as checked",
        ASSUMPTIONS,
        ".startswith(_OURS)",
        '.startswith("")',
        ASSUMED,
    ),
    Mutation(
        "The filter reads a path in one of its interpretations",
        FILTER,
        "    if routes or route is None or not _ID.fullmatch(route.id):",
        "    if route is None or not _ID.fullmatch(route.id):",
        FILTERED,
    ),
    Mutation(
        "The filter hands over a project that is immutable",
        FILTER,
        '        if options.get("immutable"):',
        "        if False:",
        FILTERED,
    ),
    Mutation(
        "The filter takes any caller's word that a delete is the last one",
        FILTER,
        "if final and self._settings.is_final(self._user_id(environ, route, token), final):",
        "if final:",
        FILTERED,
    ),
    Mutation(
        "An answer of Keystone about another project is used",
        FILTER,
        '        if ref.get("id") != route.id:',
        "        if not ref:",
        FILTERED,
    ),
    Mutation(
        "A domain is deleted while deletions below it are under way",
        INTERCEPT,
        "        _refuse_live_below(orchestrator, target)\n        return None",
        "        return None",
        PIPED + FILTERED,
    ),
    Mutation(
        "The first page of the deletions under way is taken for all",
        INTERCEPT,
        "            if marker is None:\n                return",
        "            if True:\n                return",
        PIPED + FILTERED,
    ),
    Mutation(
        "A fenced project is deleted by Keystone",
        INTERCEPT,
        "    if target.fence:\n",
        "    if target.fence and not asked:\n        return None\n    if target.fence:\n",
        PIPED + FILTERED,
    ),
    Mutation(
        "The caller's token follows a redirect",
        INTERCEPT,
        "allow_redirects=False",
        "allow_redirects=True",
        FILTERED + PIPED,
    ),
    Mutation(
        "A record of another project counts as the request's",
        INTERCEPT,
        'if deletion.get("project_id") != project_id:',
        "if False:",
        FILTERED + PIPED,
    ),
    Mutation(
        "A 404 of the orchestrator reaches the client as Keystone's",
        PIPELINE,
        "        if response.status == 404:",
        "        if False:",
        HOOKED,
    ),
    Mutation(
        "The hook enforces no policy",
        PIPELINE,
        "        self._enforce(kind)\n",
        "",
        HOOKED,
    ),
    Mutation(
        "An answer may be as long as a service likes",
        LIMITS,
        "            if length > self.limits.longest:",
        "            if False:",
        HOSTILE,
    ),
    Mutation(
        "Long answers are read at the same time without a limit",
        LIMITS,
        "            fits = self._taken + more <= self.memory",
        "            fits = more <= self.memory",
        HOSTILE,
    ),
    Mutation(
        "Keystone starts with a fence that lets no user pass",
        WSGI,
        "    if not user_id:",
        "    if False:",
        SERVED,
    ),
    Mutation(
        "Keystone starts without a check of what the fence rests on",
        WSGI,
        "    assumptions.check()\n",
        "",
        SERVED,
    ),
    Mutation(
        "A Keystone that lacks a module counts as an older release",
        WSGI,
        '        if error.name != "keystone.wsgi":\n',
        "        if False:\n",
        SERVED,
    ),
)
