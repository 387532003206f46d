"""Defects in the commands of the operator: the schema, the checks before a start, the check of a plugin on a cloud."""

from tests.mutants.mutation import Mutation, tests

CMD = "cleanup_orchestrator/cmd/"
STATUS = tests("functional/test_status")
PLUGIN = tests("functional/test_plugin_check")

MUTATIONS = (
    Mutation(
        "A command reads only the last configuration file that it is given",
        f"{CMD}arguments.py",
        'return list(getattr(given, "configuration", ()))',
        'return list(getattr(given, "configuration", ()))[-1:]',
        tests("cmd/arguments"),
    ),
    Mutation(
        "A purge that should only count removes records",
        f"{CMD}manage.py",
        "    if args.dry_run:\n        with connect(url) as connection:\n",
        "    if False:\n        with connect(url) as connection:\n",
        tests("functional/test_store/test_retention"),
    ),
    Mutation(
        "A purge ends after its first part",
        f"{CMD}manage.py",
        "        total.update(removed)\n",
        "        total.update(removed)\n        break\n",
        tests("functional/test_store/test_retention"),
    ),
    Mutation(
        "A plugin that breaks a rule passes the check",
        f"{CMD}plugin_check.py",
        "    return 1 if counts[Verdict.FAILED] else 0\n",
        "    return 0\n",
        PLUGIN,
    ),
    Mutation(
        "The check of a plugin lets it write past its connection",
        f"{CMD}plugin_cloud.py",
        '    _active[0].refused.append(f"{what} past its connection")\n    raise WriteRefused(',
        '    _active[0].refused.append(f"{what} past its connection")\n    return\n    raise WriteRefused(',
        PLUGIN,
    ),
    Mutation(
        "A list that loses a page passes the check",
        f"{CMD}plugin_live.py",
        "        missing = listed.ids - asked.value.ids\n",
        "        missing = set()\n",
        PLUGIN,
    ),
    Mutation(
        "A list whose rows have no owner passes the check",
        f"{CMD}plugin_live.py",
        "        if listed.ownerless and not type_.unfiltered:\n",
        "        if False:\n",
        PLUGIN,
    ),
    Mutation(
        "A list that shows the rows of others for an unknown project passes the check",
        f"{CMD}plugin_live.py",
        "        if asked.value.own:\n            return Verdict.FAILED",
        "        if False:\n            return Verdict.FAILED",
        PLUGIN,
    ),
    Mutation(
        "The error of a database shows its password",
        f"{CMD}schema.py",
        "        shown = parsed.render_as_string(hide_password=True)\n",
        "        shown = parsed.render_as_string(hide_password=False)\n",
        (*tests("functional/test_migrations"), "tests/unit/cmd/test_schema.py"),
    ),
    Mutation(
        "A schema of another revision passes the check before a start",
        f"{CMD}status.py",
        "        if current != head:\n",
        "        if current is None:\n",
        STATUS,
    ),
    Mutation(
        "Several processes with a bus that connects none pass the check",
        f"{CMD}status.py",
        "            if alone:\n                return _OK\n",
        "            if True:\n                return _OK\n",
        STATUS,
    ),
    Mutation(
        "Credentials with two scopes pass the check",
        f"{CMD}status.py",
        'if len({name.split("_")[0] for name in scopes}) > 1:',
        "if False:",
        STATUS,
    ),
    Mutation(
        "The public key of the sample passes the check",
        f"{CMD}status.py",
        "if self._conf[_TOKENS].memcache_secret_key == _PLACEHOLDER:",
        "if False:",
        STATUS,
    ),
    Mutation(
        "A worker whose own project may be deleted passes the check",
        f"{CMD}status.py",
        'if getattr(own, "system_scope", None) and not own.own_project_id:',
        "if False:",
        STATUS,
    ),
    Mutation(
        "A secret of the janitors that can be guessed passes the check",
        f"{CMD}status.py",
        "if secret == _PLACEHOLDER or len(secret) < _SHORTEST:",
        "if secret == _PLACEHOLDER:",
        STATUS,
    ),
    Mutation(
        "A policy file that refers to an unknown rule passes the check",
        f"{CMD}status.py",
        "        if not enforcer.check_rules():\n",
        "        if False:\n",
        STATUS,
    ),
)
