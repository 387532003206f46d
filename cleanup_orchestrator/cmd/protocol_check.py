"""Implements ``cleanup-orchestrator-manage protocol check``: runs the conformance test against a service.

It needs no configuration file and no database.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import urlsplit

from keystoneauth1 import exceptions as ka_exceptions
from oslo_config import cfg

from cleanup_orchestrator.cloud.session import Guard, GuardedSession, http_pool, origin, read_only
from cleanup_orchestrator.cmd.schema import PROG, ManageError
from cleanup_orchestrator.core.step import LITERAL_PATH
from cleanup_orchestrator.errors import CleanupError, WriteRefused, classify
from cleanup_orchestrator.protocol import conformance
from cleanup_orchestrator.protocol.conformance import NAMED, RULES, Callers, Finding, Options, Response, Send, Verdict
from cleanup_orchestrator.protocol.documents import PATH, PROTOCOL, ROLE

#: The role whose token the check sends to no service.
ADMIN = "admin"
#: What a check says: none of them warns.
_VERDICTS = (Verdict.OK, Verdict.FAILED, Verdict.NOT_CHECKED)
#: Seconds that a call may take.
_CALL_TIMEOUT = 60
_DESCRIPTION = """\
Check whether a service keeps the rules of the project resources protocol.

Without --delete the command only reads. With it everything that the project of --project owns in the service is
deleted; the project of --other-project loses nothing, unless the service is wrong. Use two projects for tests, with two
or more resources of each type in each, and let nothing else work in them meanwhile.

A check is "ok", "FAILED" or "not checked"; then it says what to pass. The exit code is 0 if no check failed, 1 if one
failed, 2 if the arguments are wrong or the service cannot be reached.
"""
#: The end of a command line, for the help.
EXAMPLE = "protocol check https://widgets.example.org --cloud widgets --project 0f5d61c2"
_EPILOG = f"""\
The clouds are those of clouds.yaml. The user of --cloud has the role {ROLE}; the user of --as-member does not.

example:
  {PROG} {EXAMPLE} \\
      --other-project 77c1de40 --as-member demo --delete
"""


class UsageError(ManageError):
    """The arguments do not fit the service or each other."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "url",
        metavar="URL",
        type=_url,
        help=f"base URL of the protocol, or the service's endpoint (then {PATH} is appended)",
    )
    parser.add_argument("--cloud", required=True, metavar="NAME", help=f"cloud of a user with the role {ROLE}")
    parser.add_argument("--as-member", metavar="NAME", help="cloud of a user without that role (rule 2)")
    parser.add_argument("--project", default="", metavar="ID", help="test project (rules 4 to 9)")
    parser.add_argument("--other-project", default="", metavar="ID", help="second project (rules 4, 8, 9)")
    parser.add_argument(
        "--without-backend", metavar="URL", type=_url, help="an instance whose backend does not answer (rule 5)"
    )
    parser.add_argument("--service-type", metavar="TYPE", help="default: that of the catalog's endpoint with this URL")
    parser.add_argument(
        "--delete",
        action="store_true",
        help="check deletes and drains, too (rules 9, 11): EVERYTHING IN --project IS DELETED",
    )
    parser.add_argument("--yes", action="store_true", help="with --delete: do not ask")
    parser.add_argument(
        "--wait",
        type=_seconds,
        default=60.0,
        metavar="SECONDS",
        help="how long a delete that was accepted may take (default: 60)",
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: text")


def _url(text: str) -> str:
    """Return the URL that an argument names; argparse reports the error."""
    parts = urlsplit(text) if origin(text) else None
    if parts is None or not parts.hostname or parts.query or parts.fragment:
        raise argparse.ArgumentTypeError(f"{text!r} is not a URL such as https://widgets.example.org/v1")
    return text


def _seconds(text: str) -> float:
    """Return the seconds that an argument names; argparse reports the error."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 24 * 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0 to 86400")
    return seconds


# -- requests
def sender(session: GuardedSession, base: str, authenticated: bool = True) -> Send:
    """Return what sends requests below a base URL, with the token of a session or without one."""

    def send(method: str, where: str, headers: Any) -> Response:
        url = base + where
        parts = urlsplit(url)
        # The path is sent unchanged: `requests` resolves dots and decodes characters.
        literal = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        request = f"{method} {where or '/'}"
        try:
            response = session.request(
                url,
                method,
                headers={"Accept": "application/json", LITERAL_PATH: literal, **headers},
                authenticated=authenticated,
                redirect=False,
                raise_exc=False,
            )
        except WriteRefused:
            raise
        except (ka_exceptions.ClientException, CleanupError) as error:
            return Response(request, 0, {}, str(error).encode())
        headers = {name.lower(): value for name, value in response.headers.items()}
        return Response(request, response.status_code, headers, response.content)

    return send


def below(bases: Sequence[str]) -> Guard:
    """Return a guard that allows writes to projects and drains below some bases, and no others."""

    def guard(method: str, url: str) -> None:
        if not url.startswith(tuple(f"{base}/{part}/" for base in bases for part in ("projects", "drains"))):
            raise WriteRefused(f"{method} {url} refused: it is not below {' or '.join(bases)}")

    return guard


def find_base(session: GuardedSession, url: str) -> str:
    """Return the base URL of the protocol: the URL itself, or the one below the service's endpoint.

    :raises UsageError: neither is answered as the protocol says
    """
    seen = []
    for base in (url.rstrip("/"), f"{url.rstrip('/')}/{PATH}"):
        answer = sender(session, base)("GET", "", {})
        document = answer.document
        if answer.status == 200 and isinstance(document, dict) and document.get("protocol") == PROTOCOL:
            return base
        seen.append(f"GET {base}: {answer.status or answer.body.decode(errors='replace')}")
    raise UsageError(f"the service does not answer with its capabilities ({'; '.join(seen)})")


def _session(cloud: str, guard: Guard, trusted: Sequence[str]) -> GuardedSession:
    """Return a session of a cloud of clouds.yaml.

    :raises UsageError: there is no such cloud, Keystone issues no token, or the token is an admin's
    """
    from cleanup_orchestrator.cmd import clouds  # it imports openstacksdk, which the other commands do not need

    make = functools.partial(GuardedSession, guard, trusted=trusted, session=http_pool())
    try:
        session: GuardedSession = clouds.config(make, _CALL_TIMEOUT).get_one(cloud=cloud).get_session()
        roles = session.auth.get_access(session).role_names
    except clouds.ERRORS as error:
        raise UsageError(f"cloud {cloud}: {classify(error).message}") from error
    if ADMIN in roles:
        raise UsageError(f"cloud {cloud}: the user has the role {ADMIN}; use one without it, as the orchestrator does")
    return session


def _service_type(session: GuardedSession, url: str) -> str:
    """Return the service type of the catalog's endpoint that a URL is at or below; empty: there is none.

    If the URL is below several endpoints, the longest one counts.
    """
    types = {"": ""}
    for service in session.auth.get_access(session).service_catalog.catalog:
        for endpoint in service.get("endpoints", ()):
            own = str(endpoint.get("url", "")).rstrip("/")
            if own and (url == own or url.startswith(f"{own}/")):
                types[own] = str(service["type"])
    return types[max(types, key=len)]


# -- the command
def run(_conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    """Run the command; return its exit code: 0 no check failed, 1 a check failed, 2 wrong usage."""
    try:
        return _check(args)
    except UsageError as error:
        print(f"{PROG}: {error}", file=sys.stderr)
        return 2


def _check(args: argparse.Namespace) -> int:
    if args.delete and not args.project:
        raise UsageError("--delete needs --project ID, the project whose resources are deleted")
    if args.project and args.project == args.other_project:
        raise UsageError("--project and --other-project are the same project")
    urls = [args.url, *filter(None, [args.without_backend])]
    reader = _session(args.cloud, read_only, urls)
    base = find_base(reader, args.url)
    guard = below([base]) if args.delete else read_only
    service = _session(args.cloud, guard, urls)
    member = _session(args.as_member, guard, urls) if args.as_member else None
    if member is not None and ROLE in member.auth.get_access(member).role_names:
        raise UsageError(f"the user of --as-member {args.as_member} has the role {ROLE}")
    callers = Callers(
        service=sender(service, base),
        anonymous=sender(service, base, authenticated=False),
        member=sender(member, base) if member is not None else None,
        # It is only read: what it answers without its backend is no reason to delete.
        without_backend=sender(reader, _other_base(args.without_backend, base)) if args.without_backend else None,
    )
    options = Options(
        project=args.project,
        other=args.other_project,
        service_type=args.service_type or _service_type(service, base),
        member_project=(member.get_project_id() or "") if member is not None else "",
        delete=args.delete,
        wait=args.wait,
    )
    if args.delete and not args.yes:
        _ask(base, args.project)
    return _report(conformance.run(callers, options), base, args.format)


def _other_base(url: str, base: str) -> str:
    """Return the base URL of the instance without a backend: it may not even answer with its capabilities."""
    url = url.rstrip("/")
    return url if url.endswith(f"/{PATH}") or not base.endswith(f"/{PATH}") else f"{url}/{PATH}"


def _ask(base: str, project: str) -> None:
    """Ask whether everything in the project may be deleted.

    :raises UsageError: it may not, or there is no terminal to ask at
    """
    if not sys.stdin.isatty():
        raise UsageError("--delete without a terminal needs --yes")
    print(f"Everything that project {project} owns at {base} will be deleted.", file=sys.stderr)
    print("Type the id of the project to go on: ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip() != project:
        raise UsageError("nothing was deleted")


def _report(findings: Iterable[Finding], base: str, form: str) -> int:
    """Print the findings by rule; return the exit code."""
    by_rule = sorted(findings, key=_rule)
    numbers = {verdict: sum(finding.verdict is verdict for finding in by_rule) for verdict in _VERDICTS}
    if form == "json":
        summary = {str(verdict): number for verdict, number in numbers.items()}
        rules = {str(number): sentence for number, sentence in RULES.items()}
        report = {"url": base, "rules": rules, "checks": [_document(one) for one in by_rule], "summary": summary}
        print(json.dumps(report, indent=2))
    else:
        print(f"Checked {base}")
        for number, sentence in RULES.items():
            print(f"\n{number:2} {sentence}")
            for finding in by_rule:
                if _rule(finding) == number:
                    print("\n".join(_lines(finding)))
        told = ", ".join(f"{number} {verdict}" for verdict, number in numbers.items())
        print(f"\n{len(by_rule)} checks: {told}")
    return 1 if numbers[Verdict.FAILED] else 0


def _rule(finding: Finding) -> int:
    return NAMED[finding.rule].rule


def _document(finding: Finding) -> dict[str, str | int]:
    """Return a finding for ``--format json``."""
    check = NAMED[finding.rule]
    own: dict[str, str | int] = {"rule": check.rule, "check": check.name, "verdict": str(finding.verdict)}
    harm = {"harm": check.harm} if finding.verdict is Verdict.FAILED else {}
    return {**own, "sentence": check.sentence, "seen": finding.text, **harm}


def _lines(finding: Finding) -> list[str]:
    check = NAMED[finding.rule]
    own = [f"   {finding.verdict:<11} {check.name}: {check.sentence}"]
    own.append(f"{'':15} {finding.text}")
    if finding.verdict is Verdict.FAILED:
        own.append(f"{'':15} This means: {check.harm}.")
    return own
