"""Defects at the doors: policies of the API, and the token fence inside Keystone."""

from tests.mutants.mutation import Mutation, tests

POLICIES = "cleanup_orchestrator/api/policies.py"
FENCE = "cleanup_orchestrator/keystone/fence.py"

BLOCKING = "cleanup_orchestrator/api/blocking.py"

RULES = tests("api/policies")
BLOCKED = tests("functional/test_api/test_api_blocking")
FENCED = tests("keystone/fence_decisions")

MUTATIONS = (
    # --------------------------------------------------------------------------------------------------------- the API
    Mutation(
        "Every path of the API is answered without a token",
        "cleanup_orchestrator/api/root.py",
        'return segments(path)[:1] == ("v1",) and not is_public(path)',
        "return False",
        tests("functional/test_api/test_api_openapi"),
    ),
    Mutation(
        "A microversion that the API does not support is ignored",
        "cleanup_orchestrator/api/microversions.py",
        'if not self._is_public(environ.get("PATH_INFO", "")):',
        "if False:",
        tests("functional/test_api/test_api_discovery"),
    ),
    Mutation(
        "Another deletion than the checked one is forced",
        "cleanup_orchestrator/api/force.py",
        "if (found.id, found.attempt) != (checked.id, checked.attempt):",
        "if False:",
        tests("functional/test_api/test_api_force"),
    ),
    Mutation(
        "A request that was repeated meanwhile begins the force again",
        "cleanup_orchestrator/api/force.py",
        "if _repeats(self._before(req, d, reason), wanted, types):",
        "if False:",
        tests("functional/test_api/test_api_force"),
    ),
    Mutation(
        "A list of liens shows all reasons to callers who may only list them",
        "cleanup_orchestrator/api/expiring.py",
        "self._shown(req, row, now, readable)",
        "self._shown(req, row, now)",
        tests("functional/test_hold_texts"),
    ),
    # ----------------------------------------------------------------------------------------------------- policies
    Mutation(
        "Any reader may see orphan scans",
        POLICIES,
        '"(rule:admin_required) or (role:reader and system_scope:all)"',
        '"(rule:admin_required) or role:reader"',
        RULES,
    ),
    Mutation(
        "Any system token may see orphan scans",
        POLICIES,
        '"(rule:admin_required) or (role:reader and system_scope:all)"',
        '"(rule:admin_required) or system_scope:all"',
        RULES,
    ),
    Mutation(
        "Readers may begin orphan scans",
        POLICIES,
        '("POST", "/v1/orphan-scans"),\n        who=ADMIN,',
        '("POST", "/v1/orphan-scans"),\n        who=ADMIN_OR_READER,',
        RULES,
    ),
    Mutation(
        "Domain managers may adopt what dead projects left",
        POLICIES,
        '("POST", "/v1/orphan-scans/{id}/adopt"),\n        who=ADMIN,',
        '("POST", "/v1/orphan-scans/{id}/adopt"),',
        RULES,
    ),
    Mutation(
        "Managers of any domain may delete a project",
        POLICIES,
        '"(rule:admin_required) or (role:manager and domain_id:%(target.project.domain_id)s "\n'
        '    "and not None:%(target.project.domain_id)s)"',
        '"(rule:admin_required) or role:manager"',
        RULES,
    ),
    Mutation(
        "Members of a domain may delete its projects",
        POLICIES,
        "(role:manager and domain_id:%(target.project.domain_id)s ",
        "(domain_id:%(target.project.domain_id)s ",
        RULES,
    ),
    Mutation(
        "A manager without a domain may delete projects without a domain",
        POLICIES,
        '(role:manager and domain_id:%(target.project.domain_id)s "\n    "and not None:%(target.project.domain_id)s)"',
        '(role:manager and domain_id:%(target.project.domain_id)s)"',
        RULES,
    ),
    Mutation(
        "A reader without a domain may see the deletions of projects without a domain",
        POLICIES,
        'role:reader) and domain_id:%(target.project.domain_id)s "\n    "and not None:%(target.project.domain_id)s)"',
        'role:reader) and domain_id:%(target.project.domain_id)s)"',
        RULES,
    ),
    Mutation(
        "Readers of any domain may see a deletion",
        POLICIES,
        '((role:manager or role:reader) and domain_id:%(target.project.domain_id)s "',
        '((role:manager or role:reader) "',
        RULES,
    ),
    Mutation(
        "A token without a user may see the deletions that no user requested",
        POLICIES,
        '(user_id:%(target.deletion.user_id)s and not None:%(target.deletion.user_id)s)"',
        '(user_id:%(target.deletion.user_id)s)"',
        RULES,
    ),
    Mutation(
        "The user who requested a deletion may cancel it with any token",
        POLICIES,
        '("POST", "/v1/deletions/{id}/cancel")),',
        '("POST", "/v1/deletions/{id}/cancel"), who=ADMIN_OR_DOMAIN_READER_OR_REQUESTER),',
        RULES,
    ),
    # ------------------------------------------------------------------------------------------------- what blocks
    Mutation(
        "Every reader sees which other project blocks a deletion",
        BLOCKING,
        'if not may_read(blocker.get("domain_id", ""), owner):',
        "if False:",
        BLOCKED,
    ),
    Mutation(
        "Every reader sees a project whose domain is unknown",
        BLOCKING,
        "if self._everything or not domain_id:\n            return self._everything",
        "if self._everything or not domain_id:\n            return True",
        BLOCKED,
    ),
    Mutation(
        "Who requested a deletion may read every project that blocks it",
        BLOCKING,
        "may(self._requester, policies.GET, domain_id, project_id)",
        "may(self._requester, policies.GET, domain_id, project_id, self._requester.user_id)",
        BLOCKED,
    ),
    Mutation(
        "A list has the deletions that others requested, too",
        "cleanup_orchestrator/api/deletions.py",
        'filters["user_id"] = self._requester(req)',
        "self._requester(req)",
        tests("functional/test_api/test_api_readers"),
    ),
    Mutation(
        "Domain managers may force a deletion",
        POLICIES,
        '("DELETE", "/v1/projects/{id}/force"),\n        who=ADMIN,',
        '("DELETE", "/v1/projects/{id}/force"),',
        RULES,
    ),
    Mutation(
        "Domain managers may lift the brake",
        POLICIES,
        '("DELETE", "/v1/brake"), who=ADMIN),',
        '("DELETE", "/v1/brake")),',
        RULES,
    ),
    Mutation(
        "Domain managers may remove liens",
        POLICIES,
        '("DELETE", "/v1/liens/{id}"), who=ADMIN),',
        '("DELETE", "/v1/liens/{id}")),',
        RULES,
    ),
    Mutation(
        "Domain managers may waive a service",
        POLICIES,
        '("POST", "/v1/waivers"),\n        who=ADMIN,',
        '("POST", "/v1/waivers"),',
        RULES,
    ),
    Mutation(
        "Everybody is an admin",
        POLICIES,
        'policy.RuleDefault("admin_required", "role:admin",',
        'policy.RuleDefault("admin_required", "@",',
        RULES,
    ),
    Mutation(
        "A token of a domain may do everything in its domain",
        POLICIES,
        "return self.may(context, rule) or bool(context.domain_id and self.may(context, rule, context.domain_id))",
        "return self.may(context, rule) or bool(context.domain_id)",
        RULES,
    ),
    # ------------------------------------------------------------------------------------------- the token fence
    Mutation(
        "A token of a fenced project is let through",
        FENCE,
        "return fence is not None and (not exempt or fence == canary)",
        "return fence is not None and exempt and fence == canary",
        FENCED,
    ),
    Mutation(
        "A canary of another deletion stops the orchestrator",
        FENCE,
        "return fence is not None and (not exempt or fence == canary)",
        "return fence is not None and (not exempt or canary is not None)",
        FENCED,
    ),
    Mutation(
        "A canary never stops the orchestrator",
        FENCE,
        "if not project_id or (exempt and canary is None):",
        "if not project_id or exempt:",
        FENCED,
    ),
    Mutation(
        "The canary header lets every token through",
        FENCE,
        "if not project_id or (exempt and canary is None):",
        "if not project_id or canary is not None:",
        FENCED,
    ),
    Mutation(
        "A reading without an end in sight holds for ever",
        FENCE,
        "        if clock() - last.began <= self._max_age:\n            return last.fences\n",
        "        if last.began > 0:\n            return last.fences\n",
        FENCED,
    ),
    Mutation(
        "What cannot be read counts as not fenced",
        FENCE,
        '                if self._failed >= arrived:\n                    raise Unknown("the fenced projects '
        'cannot be read")\n',
        "                if self._failed >= arrived:\n                    return {}\n",
        FENCED,
    ),
    Mutation(
        "A reading that takes too long counts as not fenced",
        FENCE,
        '                    raise Unknown("the fenced projects could not be read in time")\n',
        "                    return {}\n",
        FENCED,
    ),
    Mutation(
        "The age of a reading counts from its end",
        FENCE,
        "reading = Reading(began, self._read())",
        "reading = Reading((lambda fences: (clock(), fences))(self._read())[0], self._read())",
        FENCED,
    ),
    Mutation(
        "A token that is issued for a fenced project is handed out",
        FENCE,
        "        if stops(token, rescoped=is_rescoped(self, token)):\n            raise exception.Unauthorized(",
        "        if False:\n            raise exception.Unauthorized(",
        FENCED,
    ),
    Mutation(
        "A token for a fenced project is found valid",
        FENCE,
        "        if stops(token):\n            raise exception.TokenNotFound(token_id=token_id)\n        canary",
        "        canary",
        FENCED,
    ),
    Mutation(
        "A token that only the canary stops is found valid",
        FENCE,
        "        if canary is not None and stops(token, canary):\n",
        "        if False:\n",
        FENCED,
    ),
    Mutation(
        "The canary's header is not asked for",
        FENCE,
        "canary = flask.request.headers.get(protocol.CANARY_HEADER) if flask.has_request_context() else None",
        "canary = None",
        FENCED,
    ),
    Mutation(
        "Not to know the fences lets a token through",
        FENCE,
        '            raise exception.ServiceUnavailable("The projects with a token fence cannot be read '
        'now.") from error\n',
        "            return False\n",
        FENCED,
    ),
)
