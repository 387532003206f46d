"""Implements ``cleanup-orchestrator-manage cloud bootstrap`` and ``cloud remove``.

They log in as an admin of the cloud (``clouds.yaml``, or ``OS_*`` in the environment).
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from keystoneauth1.adapter import Adapter
from oslo_config import cfg

from cleanup_orchestrator.cloud.bootstrap import Account, Bootstrap, Outcome, Wanted
from cleanup_orchestrator.cloud.removal import Removal
from cleanup_orchestrator.cloud.session import Guard, GuardedSession, http_pool, read_only
from cleanup_orchestrator.cmd import schema
from cleanup_orchestrator.cmd.schema import PROG, ManageError
from cleanup_orchestrator.core import transitions
from cleanup_orchestrator.core.texts import printable
from cleanup_orchestrator.errors import classify

if TYPE_CHECKING:
    from openstack.connection import Connection

BOOTSTRAP_EXAMPLE = "cloud bootstrap --os-cloud admin --public-url https://cleanup.example.org --dry-run"
REMOVE_EXAMPLE = "cloud remove --os-cloud admin --dry-run"
#: The names of the users by default.
NAMES = {"worker": "cleanup-orchestrator", "api": "cleanup-orchestrator-api", "protocol": ""}
_SECONDS = 60.0  #: that one call may take
_KEPT = "THE_PASSWORD_IN_USE"  #: in the configuration of a user that was there before
_FOLDER = "/etc/cleanup-orchestrator"


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--os-cloud",
        metavar="NAME",
        help="cloud of clouds.yaml, with a user who is an admin of the cloud (default: OS_CLOUD, or the variables OS_* "
        "of the environment)",
    )
    parser.add_argument("--dry-run", action="store_true", help="only print what would be done; make no write call")
    parser.add_argument("--worker-user", metavar="NAME", default=NAMES["worker"], help="default: %(default)s")
    parser.add_argument("--api-user", metavar="NAME", default=NAMES["api"], help="default: %(default)s")
    parser.add_argument(
        "--protocol-user",
        metavar="NAME",
        default="",
        help="also the user for services that answer for themselves, such as cleanup-orchestrator-protocol",
    )


def add_bootstrap_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``cloud bootstrap``."""
    _add_common(parser)
    parser.add_argument("--public-url", metavar="URL", type=_url, help="URL of the API for users")
    parser.add_argument(
        "--internal-url", metavar="URL", type=_url, help="URL of the API for services (default: the public)"
    )
    parser.add_argument("--region", metavar="NAME", help="region of the endpoints (default: that of the cloud)")
    parser.add_argument(
        "--project", default="service", metavar="NAME", help="project of the workers' user (default: %(default)s)"
    )
    parser.add_argument("--project-domain", default="default", metavar="NAME", help="its domain (default: %(default)s)")
    parser.add_argument(
        "--user-domain", default="default", metavar="NAME", help="domain of the users (default: %(default)s)"
    )
    parser.add_argument("--admin-role", default="admin", metavar="NAME", help="default: %(default)s")
    parser.add_argument(
        "--password-file",
        action="append",
        default=[],
        metavar="PART=PATH",
        help="file with the password of the user of a part: worker, api or protocol; may be repeated. The environment "
        "variables CLEANUP_WORKER_PASSWORD, CLEANUP_API_PASSWORD and CLEANUP_PROTOCOL_PASSWORD have the same effect. "
        "Without either, a password is generated and printed once",
    )
    parser.add_argument(
        "--reset-passwords",
        action="store_true",
        help="also change the passwords of users that this command has made before. The processes cannot log in until "
        "their files have the new passwords",
    )


def add_remove_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``cloud remove``."""
    _add_common(parser)
    parser.add_argument(
        "--no-database",
        action="store_true",
        help="do not look for unfinished deletions: there is no database of the orchestrator any longer",
    )


def _url(text: str) -> str:
    """Return the URL that an argument names; argparse reports the error."""
    try:
        parts = urlsplit(text)
        valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and parts.username is None
    except ValueError:
        valid = False
    if not valid or parts.query or parts.fragment or any(char.isspace() for char in text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a URL such as https://cleanup.example.org")
    return text.rstrip("/")


# -- the cloud
@dataclasses.dataclass(frozen=True)
class Admin:
    """An admin's login."""

    connection: Connection
    identity: Adapter
    auth_url: str
    region: str

    def needs_quota_role(self) -> bool:
        """Return whether Barbican refuses an admin the quotas of a project.

        :raises ManageError: Barbican does not answer, or it would not answer this token
        """
        access = self.connection.session.auth.get_access(self.connection.session)
        if not access.service_catalog.get_endpoints(service_type="key-manager", region_name=self.region or None):
            return False
        if not access.project_id:  # Barbican answers 401
            raise ManageError(
                "the token is of no project, and Barbican answers no other one: name a project of the admin in "
                "clouds.yaml (project_name), and run the command again"
            )
        response = self.connection.key_manager.get(f"/project-quotas/{access.project_id}")
        if response.status_code not in (200, 403, 404):
            raise ManageError(
                f"Barbican answers HTTP {response.status_code} to a question about a quota, so that it is not known "
                "whether the workers' user needs a role for it: mend Barbican, and run the command again"
            )
        return bool(response.status_code == 403)


def _log_in(cloud: str | None, region: str | None, guard: Guard) -> Admin:
    """Log in as an admin.

    :raises ManageError: there is no such cloud, Keystone issues no token, or the user is no admin
    """
    from openstack.connection import Connection  # it takes a third of a second to import

    from cleanup_orchestrator.cmd import clouds

    def make(**kwargs: object) -> GuardedSession:
        return GuardedSession(guard, **{**kwargs, "session": http_pool()})

    try:
        given = {"region_name": region} if region else {}
        connection = Connection(config=clouds.config(make, _SECONDS).get_one(cloud=cloud, **given))
        config = connection.config
        roles = connection.session.auth.get_access(connection.session).role_names
    except clouds.ERRORS as error:
        raise ManageError(f"cloud {cloud or os.environ.get('OS_CLOUD') or 'of OS_*'}: {_why(error)}") from None
    if not roles:
        raise ManageError("the token has no role: name a project, a domain or the system in clouds.yaml (project_name)")
    return Admin(
        connection, clouds.identity(connection), str(connection.session.auth.auth_url), str(config.region_name or "")
    )


def _why(error: BaseException) -> str:
    """Return the message of an error of Keystone, and the way out if the user is no admin."""
    failure = classify(error)
    if failure.status == 403:
        return f"Keystone refuses it: {failure.message}; log in as an admin of the cloud (--os-cloud)"
    return failure.message


def _guarded(call: Callable[[], None]) -> None:
    """Make calls to Keystone.

    :raises ManageError: with the message of an error
    """
    from cleanup_orchestrator.cmd import clouds

    try:
        call()
    except clouds.ERRORS as error:
        raise ManageError(_why(error)) from None


# -- bootstrap
def bootstrap(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    """Make what is missing, print what was done, and the configuration; return the exit code."""
    accounts = _accounts(args)
    admin = _log_in(args.os_cloud, args.region, read_only if args.dry_run else _any_write)
    urls = {"public": args.public_url, "internal": args.internal_url or args.public_url}
    code = 0

    def make() -> None:
        nonlocal code
        region = args.region or admin.region
        wanted = Wanted(
            accounts=accounts,
            user_domain=args.user_domain,
            project=args.project,
            project_domain=args.project_domain,
            region=region,
            urls={name: url for name, url in urls.items() if url},
            role=args.admin_role,
            quota_role=admin.needs_quota_role(),
        )
        made = Bootstrap(admin.identity, wanted, _say)
        try:
            outcome = made.run(args.dry_run)
        finally:
            # Also after an error: a password that is lost would have to be changed.
            if made.outcome.passwords or (made.outcome.project_id and not args.dry_run and not made.outcome.refused):
                _print_configuration(made.outcome, accounts, admin.auth_url)
        for text in outcome.refused:
            _say("refused", text)
            code = 1
        if outcome.refused and not outcome.passwords:
            print("nothing was written")
        elif not urls["public"]:
            print(f"no endpoint was looked at or made: see --public-url\n{outcome.changes} changes")
        else:
            print(f"{outcome.changes} changes{' would be made' if args.dry_run else ''}")

    _guarded(make)
    return code


def _any_write(_method: str, _url: str) -> None:
    """Let each write pass: the guard of a run that is no dry run."""


def _say(verb: str, what: str) -> None:
    """Print a line; Keystone's names in it may have any characters."""
    print(printable(f"{verb:17} {what}"), flush=True)


def _accounts(args: argparse.Namespace) -> list[Account]:
    """Return the users, with the passwords that are given.

    :raises ManageError: a file cannot be read, or two users have one name
    """
    names = {"worker": args.worker_user, "api": args.api_user, "protocol": args.protocol_user}
    if len({name.casefold() for name in names.values() if name}) < sum(map(bool, names.values())):
        raise ManageError("two users have the same name: each part needs a user of its own")
    for part, name in names.items():
        if part != "protocol" and not name.strip():
            raise ManageError(f"--{part}-user is empty")
        if not name.isprintable():
            raise ManageError(f"the name {name!r} has a control character, which no configuration file can have")
    passwords = {part: os.environ.get(f"CLEANUP_{part.upper()}_PASSWORD", "") for part in names}
    for entry in args.password_file:
        part, equals, path = entry.partition("=")
        if not equals or part not in names:
            raise ManageError(f"--password-file {entry}: it is PART=PATH, and the parts are {', '.join(names)}")
        try:
            passwords[part] = Path(path).read_text(encoding="utf-8").removesuffix("\n").removesuffix("\r")
        except (OSError, UnicodeDecodeError) as error:
            raise ManageError(f"--password-file {entry}: {error}") from None
        if not passwords[part]:
            raise ManageError(f"--password-file {entry}: the file is empty")
    for part, password in passwords.items():
        if not password.isprintable():
            raise ManageError(f"the password of {part} has a control character, which no configuration file can have")
    return [Account(part, name, passwords[part], args.reset_passwords) for part, name in names.items() if name]


def value(text: str) -> str:
    """Return a text as a value in a configuration file of oslo.config."""
    text = text.replace("$", r"\$")  # not "$$": oslo.config reads a backslash before it as a part of it
    quoted = text != text.strip() or text[:1] in ("'", '"')
    return f'"{text}"' if quoted else text


def _section(name: str, options: Mapping[str, str]) -> str:
    return "\n".join([f"[{name}]", *(f"{option} = {value(text)}" for option, text in options.items())])


def configuration(outcome: Outcome, accounts: list[Account], auth_url: str) -> dict[str, str]:
    """Return the text to write, by file."""
    names = {account.part: account.name for account in accounts}
    logins: dict[str, dict[str, str]] = {}
    for part, name in names.items():
        logins[part] = {
            "auth_type": "v3password",
            "auth_url": auth_url,
            "username": name,
            "password": outcome.passwords.get(part, _KEPT),
            "user_domain_id": outcome.user_domain_id,
        }
    on_project = {"project_id": outcome.project_id}
    system = {"system_scope": "all"}
    # No secret at all is better than one that anybody knows, if the text is pasted over the file in use.
    janitor = _section("janitor", {"secret": secrets.token_hex(32)})
    if "worker" not in outcome.made:
        janitor = "[janitor]\n# secret = THE_SECRET_IN_USE"
    protocol = [_section("protocol", logins["protocol"] | on_project)] if "protocol" in logins else []
    worker = [_section("orchestrator", logins["worker"] | on_project), janitor]
    api = [
        _section("orchestrator", {**logins["api"], **system, "own_project_id": outcome.project_id}),
        _section("keystone_authtoken", {**logins["api"], **system, "www_authenticate_uri": auth_url}),
    ]
    return {
        f"{_FOLDER}/cleanup-orchestrator-worker.conf": "\n\n".join(worker + protocol),
        f"{_FOLDER}/cleanup-orchestrator-api.conf": "\n\n".join(api + protocol),
        "keystone.conf, of each Keystone that runs this package": _section(
            "project_cleanup", {"user_id": outcome.user_ids.get("worker", "")}
        ),
    }


def _print_configuration(outcome: Outcome, accounts: list[Account], auth_url: str) -> None:
    print("\nWrite this configuration." + (" The new passwords are shown only now." if outcome.passwords else ""))
    for file, text in configuration(outcome, accounts, auth_url).items():
        print(f"\n# -- {file}\n{text}")
    kept = [account.part for account in accounts if account.part not in outcome.passwords]
    if kept:
        print(f"\nUnchanged passwords: {', '.join(kept)}. If one is lost: {PROG} cloud bootstrap --reset-passwords")
    print(flush=True)


# -- remove
def remove(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    """Remove what was made; return the exit code.

    :raises ManageError: the database has unfinished deletions, or does not answer
    """
    if not args.no_database:
        expect_no_unfinished(conf)
    admin = _log_in(args.os_cloud, None, read_only if args.dry_run else _any_write)
    names = [name for name in (args.worker_user, args.api_user, args.protocol_user) if name]
    removal = Removal(admin.identity, _say, args.dry_run)
    _guarded(lambda: removal.run(names))
    if not removal.removed:
        print("there is nothing that cloud bootstrap made")
    elif not args.dry_run:
        print("Take the package out of each Keystone, and remove [project_cleanup] from its keystone.conf.")
    return 0


def expect_no_unfinished(conf: cfg.ConfigOpts) -> None:
    """Check that no deletion is under way: its lock would stay, because no user could undo it.

    :raises ManageError: there is one, or the database does not say
    """
    from cleanup_orchestrator.store import Store
    from cleanup_orchestrator.store.paging import Page

    url = conf.database.connection
    hint = "name its configuration with --config-file, or pass --no-database if there is none any longer"
    try:
        current, newest = schema.state(url)
    except ManageError as error:
        raise ManageError(f"whether deletions are unfinished is not known: {error}; {hint}") from None
    if current is None:
        return
    if current != newest:
        raise ManageError(f"whether deletions are unfinished is not known: run {PROG} db upgrade first; {hint}")
    store = Store.from_conf(conf)
    try:
        found = store.list(Page(limit=6), status=sorted(transitions.LIVE))
    finally:
        store.close()
    if found:
        shown = ", ".join(one.id for one in found[:5]) + (", …" if len(found) > 5 else "")
        raise ManageError(
            f"deletions are unfinished, and only the orchestrator's user undoes their locks: {shown}. Wait for "
            "them, or cancel them: openstack project deletion cancel ID. Then stop the API, so that no new one begins"
        )
