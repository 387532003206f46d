"""``cleanup-orchestrator-status upgrade check``: whether this release can be started here. Run it before you do."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from oslo_config import cfg
from oslo_upgradecheck import common_checks, upgradecheck

from cleanup_orchestrator import store
from cleanup_orchestrator.cmd import manage
from cleanup_orchestrator.plugins import registry

PROG = "cleanup-orchestrator-status"


class Checks(upgradecheck.UpgradeCommands):
    """The checks; each answers success, warning or failure, with what to do."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self._upgrade_checks = (
            ("Database", Checks._database),
            ("Plugins", Checks._plugins),
            ("Policy file", (common_checks.check_policy_json, {"conf": conf})),
        )

    def _database(self) -> upgradecheck.Result:
        try:
            current, head = manage.state(self._conf.database.connection)
        except manage.ManageError as error:
            return upgradecheck.Result(upgradecheck.Code.FAILURE, str(error))
        if current != head:
            why = f"The schema is at {current or 'nothing'}, this release needs {head}. Run: {manage.PROG} db upgrade"
            return upgradecheck.Result(upgradecheck.Code.FAILURE, why)
        return upgradecheck.Result(upgradecheck.Code.SUCCESS)

    def _plugins(self) -> upgradecheck.Result:
        try:
            registry.load()
        except Exception as error:  # a plugin's import may raise anything
            return upgradecheck.Result(upgradecheck.Code.FAILURE, f"{type(error).__name__}: {error}")
        return upgradecheck.Result(upgradecheck.Code.SUCCESS)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the checks; 0: go on, 1: go on after reading the warnings, 2: do not, 255: it broke."""
    conf = cfg.ConfigOpts()
    conf.register_opts(store.OPTS["database"], group="database")
    try:
        return upgradecheck.main(conf, manage.PROJECT, Checks(conf), argv=list(sys.argv[1:] if argv is None else argv))
    except cfg.Error as error:
        print(f"{PROG}: {' '.join(str(error).split())}", file=sys.stderr)
        return 255


if __name__ == "__main__":
    sys.exit(main())
