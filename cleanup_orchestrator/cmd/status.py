"""Implements ``cleanup-orchestrator-status``.

``upgrade check`` checks whether this release can be started on this host. It reads the configuration and the database,
and does not contact Keystone or the broker. ``cloud check`` checks whether the cloud is as the orchestrator needs it.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence

import stevedore
from keystoneauth1 import loading as ka_loading
from oslo_config import cfg
from oslo_upgradecheck import common_checks, upgradecheck

from cleanup_orchestrator import drain, opts
from cleanup_orchestrator.api import policy_rules
from cleanup_orchestrator.cloud import connections, janitors
from cleanup_orchestrator.cmd import arguments, cloud_check, cloud_findings, schema
from cleanup_orchestrator.core.conformance import Finding, Verdict
from cleanup_orchestrator.core.redact import redact
from cleanup_orchestrator.errors import CleanupError
from cleanup_orchestrator.messaging import rpc
from cleanup_orchestrator.plugins import registry
from cleanup_orchestrator.plugins.contract import SUPPORTED_VERSIONS

PROG = "cleanup-orchestrator-status"

#: The group of keystonemiddleware, which validates tokens.
_TOKENS = "keystone_authtoken"
#: Options that name the scope of a token. Those with the same first word name the same scope.
_SCOPES = ("project_id", "project_name", "domain_id", "domain_name", "system_scope")
#: The value of each secret in the sample configuration.
_PLACEHOLDER = "A_LONG_RANDOM_STRING"
_SHORTEST = 32  #: characters of ``[janitor] secret``

_OK = upgradecheck.Result(upgradecheck.Code.SUCCESS)


def _failure(why: str) -> upgradecheck.Result:
    return upgradecheck.Result(upgradecheck.Code.FAILURE, redact(why))


def _warning(why: str) -> upgradecheck.Result:
    return upgradecheck.Result(upgradecheck.Code.WARNING, redact(why))


def _loads(load: Callable[[], object]) -> upgradecheck.Result:
    """Return success if a function returns, and failure with its error if it raises."""
    try:
        load()
    except Exception as error:  # plugins may raise any error when they are loaded
        return _failure(f"{type(error).__name__}: {error}")
    return _OK


class Checks(upgradecheck.UpgradeCommands):  # type: ignore[misc]  # oslo.upgradecheck has no types
    """The checks; each returns success, or a warning or failure that says what to do."""

    def __init__(self, conf: cfg.ConfigOpts, versions: Mapping[int, str] = SUPPORTED_VERSIONS) -> None:
        """Make the checks.

        :param versions: the supported versions of the plugin contract
        """
        self._conf, self._versions = conf, versions
        self._upgrade_checks = (
            ("Database", Checks._database),
            ("Message bus", Checks._bus),
            ("Credentials", Checks._credentials),
            ("Janitor", Checks._janitor),
            ("Plugins", Checks._plugins),
            ("Drain driver", Checks._drain),
            ("Settling time", Checks._settling),
            ("Notifications", Checks._notifications),
            ("Policy file", (common_checks.check_policy_json, {"conf": conf})),
            ("Policy rules", Checks._policies),
        )

    def _database(self) -> upgradecheck.Result:
        try:
            current, head = schema.state(self._conf.database.connection)
        except schema.ManageError as error:
            return _failure(str(error))
        if current != head:
            return _failure(
                f"The schema is at {current or 'nothing'}, this release needs {head}. Run: {schema.PROG} db upgrade"
            )
        return _OK

    def _bus(self) -> upgradecheck.Result:
        """Check that the database and the bus suit each other.

        The all-in-one process uses SQLite and no broker. Several processes use a database server and a broker.
        """
        try:
            transport = rpc.transport_url(self._conf)
        except Exception as error:
            return _failure(f"[DEFAULT] transport_url: {type(error).__name__}: {error}")
        alone = self._conf.database.connection.startswith("sqlite")
        if transport.transport in ("fake", "kombu+memory"):
            if alone:
                return _OK
            return _failure(
                f"[DEFAULT] transport_url = {transport.transport}:// connects no other process: name your RabbitMQ, or "
                "run only cleanup-orchestrator-all-in-one"
            )
        if alone and transport.hosts:
            return _warning(
                "[database] connection is SQLite, which serves one process, but transport_url names a broker, which "
                "several processes need: use PostgreSQL or MariaDB, or run only cleanup-orchestrator-all-in-one"
            )
        if not alone and not transport.hosts:
            return _warning("[DEFAULT] transport_url names no host: RabbitMQ on this host is used, with the user guest")
        return _OK

    def _credentials(self) -> upgradecheck.Result:
        missing = ""
        for group, what in ((connections.GROUP, "makes all calls"), (_TOKENS, "checks users' tokens in the API")):
            ka_loading.register_auth_conf_options(self._conf, group)
            try:
                auth = ka_loading.load_auth_from_conf_options(self._conf, group)
            except Exception as error:
                return _failure(f"[{group}]: {type(error).__name__}: {error}")
            if auth is None:
                missing = f"[{group}] auth_type is not set: set it and log in the user that {what}"
                if group == connections.GROUP:
                    return _failure(missing)
                continue
            # keystoneauth registers the options of a scope only where there is an auth_type.
            section = self._conf[group].auth_section or group
            scopes = [name for name in _SCOPES if getattr(self._conf[section], name, None)]
            if len({name.split("_")[0] for name in scopes}) > 1:
                return _failure(
                    f"[{group}] has {' and '.join(scopes)}: a token has one scope. Check the files of the API and "
                    "those of the workers separately, as each process reads them"
                )
        self._conf.register_opt(cfg.StrOpt("memcache_secret_key", secret=True), _TOKENS)
        if self._conf[_TOKENS].memcache_secret_key == _PLACEHOLDER:
            return _failure(
                f"[{_TOKENS}] memcache_secret_key is the one of the sample, which is public: with it, "
                "cached tokens can be forged. Set a new one: openssl rand -hex 32"
            )
        own = self._conf[connections.GROUP]
        if getattr(own, "system_scope", None) and not own.own_project_id:  # keystoneauth registers it with an auth_type
            return _failure(
                f"[{connections.GROUP}] own_project_id is not set, and with system_scope the token has no "
                "project: set it to the project of the workers' user, whose deletion is always refused"
            )
        if missing:
            return _warning(f"{missing}. Workers and engines do not need it")
        return _OK

    def _janitor(self) -> upgradecheck.Result:
        secret = self._conf[janitors.GROUP].secret
        if not secret:
            return _warning(
                f"[{janitors.GROUP}] secret is not set: no stack and no cluster can be deleted. In a cloud with Trove, "
                "or with packages in Tacker, no project can be deleted with [drain] project_role = admin. Set it in "
                "the configuration of all workers: openssl rand -hex 32"
            )
        if secret == _PLACEHOLDER or len(secret) < _SHORTEST:
            return _failure(
                f"[{janitors.GROUP}] secret is shorter than {_SHORTEST} characters, or the one of the sample: the "
                "passwords of the janitors can be guessed with it. Set a new one: openssl rand -hex 32"
            )
        return _OK

    def _plugins(self) -> upgradecheck.Result:
        try:
            loaded = registry.load(self._versions)
            loaded.register_options(self._conf)
        except Exception as error:  # plugins may raise any error when they are loaded
            return _failure(f"{type(error).__name__}: {error}")
        return _warning("; ".join(loaded.deprecations)) if loaded.deprecations else _OK

    def _drain(self) -> upgradecheck.Result:
        return _loads(lambda: drain.load(self._conf.drain.driver))

    def _settling(self) -> upgradecheck.Result:
        if self._conf.drain.token_cache_time:
            return _OK
        return _warning(
            "[drain] token_cache_time is 0: an inventory counts as final right after the lock. Use 0 only if no "
            "service of the cloud caches tokens ([keystone_authtoken] token_cache_time = -1 in each) or secrets of the "
            "S3 API (secret_cache_duration = 0 of Swift's s3token)"
        )

    def _notifications(self) -> upgradecheck.Result:
        _loads(lambda: rpc.notifier(self._conf, "check"))  # registers the options
        there = set(stevedore.ExtensionManager("oslo.messaging.notify.drivers").names())
        unknown = sorted(set(self._conf.oslo_messaging_notifications.driver) - there - {""})
        if unknown:
            return _warning(
                f"[oslo_messaging_notifications] driver: {', '.join(unknown)} is not installed: no notification is sent"
            )
        return _OK

    def _policies(self) -> upgradecheck.Result:
        try:
            enforcer = policy_rules.enforcer(self._conf)
            enforcer.load_rules()
        except Exception as error:
            return _failure(f"[oslo_policy]: {type(error).__name__}: {error}")
        if not enforcer.check_rules():
            return _failure("[oslo_policy]: a rule refers to an unknown rule, or to itself: see the log")
        named = self._conf.oslo_policy.policy_file
        if named != "policy.yaml" and not self._conf.find_file(named):
            return _warning(f"[oslo_policy] policy_file = {named} does not exist: the defaults are in force")
        if unknown := sorted(set(enforcer.file_rules) - set(enforcer.registered_rules)):
            return _warning(f"the policy file has unknown rules, which have no effect: {', '.join(unknown)}")
        return _OK


def _of_workers(conf: cfg.ConfigOpts) -> list[tuple[str, cloud_findings.Check]]:
    """Return the checks of ``upgrade check`` that ``cloud check`` makes, too: those of the workers."""
    made = Checks(conf)
    verdicts = {
        upgradecheck.Code.SUCCESS: Verdict.OK,
        upgradecheck.Code.WARNING: Verdict.WARNING,
        upgradecheck.Code.FAILURE: Verdict.FAILED,
    }

    def found(name: str, check: Callable[[], upgradecheck.Result]) -> Iterator[Finding]:
        result = check()
        yield Finding(name, verdicts[result.code], result.details or "as it must be")

    checks = (
        ("database", made._database),
        ("message bus", made._bus),
        ("plugins", made._plugins),
        ("drain driver", made._drain),
        ("settling time", made._settling),
        *((("janitor secret", made._janitor),) if conf.janitor.secret else ()),
    )
    return [(name, functools.partial(found, name, check)) for name, check in checks]


def _parser() -> argparse.ArgumentParser:
    common = arguments.parent()
    parser = argparse.ArgumentParser(
        prog=PROG,
        parents=[common],
        description="Check whether this release of cleanup-orchestrator can be started on this host, and whether the "
        "cloud is as it needs it.",
        epilog=f"example: {PROG} upgrade check",
    )
    text = "check the configuration and the database"
    codes = "Exit codes: 0: all checks passed, 1: warnings, 2: failures, or a wrong command line, 255: an error."
    nouns = parser.add_subparsers(dest="noun", required=True, metavar="upgrade|cloud")
    upgrade = nouns.add_parser("upgrade", parents=[common], help=text)
    verbs = upgrade.add_subparsers(dest="verb", required=True, metavar="check")
    check = verbs.add_parser("check", parents=[common], help=text, description=f"{text.capitalize()}. {codes}")
    check.add_argument("--json", action="store_true", help="print the results as JSON")
    text = "check users, roles, services, lock, clocks and caches of the cloud"
    cloud = nouns.add_parser("cloud", parents=[common], help=text)
    verbs = cloud.add_subparsers(dest="verb", required=True, metavar="check")
    check = verbs.add_parser(
        "check",
        parents=[common],
        help=text,
        description=f"{text.capitalize()}, with the files of the workers. A line that begins with FAILED ends with the "
        f"command that mends it. {codes}",
        epilog=f"example: {PROG} {cloud_check.EXAMPLE}",
    )
    cloud_check.add_arguments(check)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the checks and return the exit code.

    0: all passed, 1: there are warnings, 2: there are failures, 255: an error. argparse ends the process with 2 if the
    command line is wrong.
    """
    args = _parser().parse_args(argv)
    conf = cfg.ConfigOpts()
    opts.register(conf)
    try:
        if args.noun == "cloud":
            return cloud_check.run(arguments.sources(argv), args, _of_workers)
        line = [*arguments.sources(argv), "upgrade", "check", *(["--json"] if args.json else [])]
        code: int = upgradecheck.main(conf, schema.PROJECT, Checks(conf), argv=line)
        return code
    except (cfg.Error, CleanupError) as error:
        print(f"{PROG}: {' '.join(str(error).split())}", file=sys.stderr)
        return 255


if __name__ == "__main__":
    sys.exit(main())
