"""Defects of the drain that show only where the processes of Keystone disagree."""

from tests.mutants.mutation import Mutation, tests

BASE = "cleanup_orchestrator/drain/base.py"
FENCE = "cleanup_orchestrator/drain/fence.py"
ROUTES = "cleanup_orchestrator/drain/routes.py"
REVOKE = "cleanup_orchestrator/drain/revoke.py"

PROCESSES = tests("drain/processes")

MUTATIONS = (
    Mutation(
        "A proxy's 404 counts as a role that was given back",
        "cleanup_orchestrator/errors.py",
        "if error.response is None or not keystone_says_not_found(error.response):",
        "if False:",
        tests("cloud/projects"),
    ),
    Mutation(
        "A 404 without an answer counts as Keystone's",
        "cleanup_orchestrator/errors.py",
        "if error.response is None or not keystone_says_not_found(error.response):",
        "if error.response is not None and not keystone_says_not_found(error.response):",
        tests("cloud/projects"),
    ),
    Mutation(
        "A proxy's 404 counts as the refusal of a token",
        BASE,
        "        expect_keystones(error)\n        return False",
        "        return False",
        tests("drain/base"),
    ),
    Mutation(
        "A role that was not given back is not named",
        BASE,
        "            return _not_given_back(project_id, change.data)\n",
        "            pass\n",
        tests("drain/base"),
    ),
    Mutation(
        "A revoked token counts as refused unless each Keystone process accepts it",
        BASE,
        "if any(probe(accepted, PROBES)):",
        "if all(probe(accepted, PROBES)):",
        PROCESSES,
    ),
    Mutation(
        "A Keystone process that accepts a revoked token is not reported",
        BASE,
        "if any(probe(accepted, PROBES)):",
        "if False:",
        PROCESSES,
    ),
    Mutation(
        "A project counts as disabled unless each Keystone process accepts its token",
        BASE,
        "canary is not None and any(probe(",
        "canary is not None and all(probe(",
        PROCESSES,
    ),
    Mutation("One Keystone process is asked for all", BASE, "PROBES = 10\n", "PROBES = 1\n", PROCESSES),
    Mutation("Validations that are under way are not waited for", BASE, "_WAIT = 2\n", "_WAIT = 0\n", PROCESSES),
    Mutation(
        "A role through the grant of a group is relied upon",
        BASE,
        ' and not any("group" in r for r in direct)',
        "",
        PROCESSES,
    ),
    Mutation(
        "The first Keystone process that answers decides about the fence",
        FENCE,
        'problem = max(filter(None, probes), key=lambda text: text != _REFUSED, default="")',
        "problem = probes[0]",
        PROCESSES,
    ),
    Mutation(
        "A fence is not waited for until each process has read it",
        FENCE,
        "        time.sleep(protocol.FENCE_MAX_AGE)\n",
        "",
        PROCESSES,
    ),
    Mutation(
        "Roles that are given while others are taken stay",
        REVOKE,
        "for _ in range(3):  # users",
        "for _ in range(1):  # users",
        PROCESSES,
    ),
    Mutation(
        "Behind a fence it is not checked that the Keystone processes share their cache",
        FENCE,
        "        check_shared_cache(context)\n",
        "",
        PROCESSES,
    ),
    # -- requests that a proxy routes past the fence
    Mutation(
        "The fence counts as held although another service issues tokens",
        FENCE,
        "    if not problem and all_of_them:\n",
        "    if False:\n",
        tests("drain/fence"),
    ),
    Mutation(
        "A refused login shows a fence that did not refuse it",
        ROUTES,
        "if said.get(protocol.FENCED_HEADER) == context.deletion_id:",
        "if True:",
        tests("drain/routes"),
    ),
    Mutation(
        "Another version of the API that refuses the orchestrator counts as absent",
        ROUTES,
        "if status in (0, 404):",
        "if status in (0, 401, 403, 404):",
        tests("drain/routes"),
    ),
    Mutation(
        "The login that tests the fence does not ask to be refused",
        ROUTES,
        "    session.additional_headers[protocol.CANARY_HEADER] = context.deletion_id\n",
        "",
        tests("drain/routes"),
    ),
    Mutation(
        "A Keystone with the fence issues tokens to a login with the canary",
        "cleanup_orchestrator/keystone/fence.py",
        "        if stops(token) or stopped_by_canary(token):\n            raise exception.Unauthorized(",
        "        if stops(token):\n            raise exception.Unauthorized(",
        tests("keystone/fence_decisions"),
    ),
)
