"""Defects in the commands of the operator: the schema, the checks before a start, the check of a plugin on a cloud."""

from tests.mutants.mutation import Mutation, tests

CMD, CLOUD = "cleanup_orchestrator/cmd/", "cleanup_orchestrator/cloud/"
BOOTSTRAP, REMOVAL = tests("cloud/bootstrap"), tests("cloud/removal")
SETUP = tests("cmd/cloud_setup")
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
        "Bootstrap gives a role to a user that another person made",
        f"{CLOUD}bootstrap.py",
        "        return user.row is not None and is_made_user(self._key, user.row)\n",
        "        return user.row is not None\n",
        BOOTSTRAP,
    ),
    Mutation(
        "Bootstrap writes although it refused a part",
        f"{CLOUD}bootstrap.py",
        "        if dry_run or self.outcome.refused:\n",
        "        if dry_run:\n",
        BOOTSTRAP,
    ),
    Mutation(
        "Two runs of bootstrap at once make two services",
        f"{CLOUD}bootstrap.py",
        '            if all(row["id"] == made["id"] for row in self._keystone.rows("services", type=SERVICE_TYPE)):\n',
        "            if True:\n",
        BOOTSTRAP,
    ),
    Mutation(
        "Bootstrap makes a user before it has recorded its name",
        f"{CLOUD}bootstrap.py",
        "            self._record(service, user_record(account.part), [domain_id, account.name])\n",
        "",
        REMOVAL,
    ),
    Mutation(
        "The mark of a user fits a user of another name",
        f"{CLOUD}keystone_rows.py",
        '"\\0".join((kind, *names)).encode()',
        "kind.encode()",
        tests("cloud/keystone_rows"),
    ),
    Mutation(
        "The removal removes a role that others have by now",
        f"{CLOUD}removal.py",
        "                if others:\n",
        "                if False:\n",
        REMOVAL,
    ),
    Mutation(
        "The removal removes a service with the endpoint of another person",
        f"{CLOUD}removal.py",
        "        if was_made(service) and not kept:\n",
        "        if was_made(service):\n",
        REMOVAL,
    ),
    Mutation(
        "The removal goes on while a deletion is unfinished",
        f"{CMD}cloud_setup.py",
        "    if found:\n",
        "    if False:\n",
        SETUP,
    ),
    Mutation(
        "Bootstrap prints a new secret of the janitors for a user that was there",
        f"{CMD}cloud_setup.py",
        'secrets.token_hex(32) if "worker" in outcome.made else',
        "secrets.token_hex(32) if True else",
        SETUP,
    ),
    Mutation(
        "A password that begins with a blank is read without it",
        f"{CMD}cloud_setup.py",
        "    quoted = text != text.strip() or ",
        "    quoted = False or ",
        SETUP,
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
