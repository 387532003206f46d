"""The checks of ``cloud check`` of the other services: coverage, lists, clocks and token caches."""

from __future__ import annotations

import configparser
import dataclasses
import email.utils
import functools
import glob
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import urlsplit

from cleanup_orchestrator.cloud.catalog import AnsweredBy, CatalogEntryStatus, read_catalog
from cleanup_orchestrator.cloud.session import GuardedSession, read_only
from cleanup_orchestrator.cmd.cloud_findings import BOOTSTRAP, Check, CheckContext, clock_finding, failed, ok, warning
from cleanup_orchestrator.core.conformance import Finding
from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome, StepResult, Token
from cleanup_orchestrator.core.texts import enumerated
from cleanup_orchestrator.errors import classify
from cleanup_orchestrator.plugins.base import ProjectDefinition, ResourceType
from cleanup_orchestrator.protocol.discovery import Discovery
from cleanup_orchestrator.worker.sweep import listing
from cleanup_orchestrator.worker.sweep.context import SweepContext

#: Where services have their configuration.
CONFIGS = ("/etc/*/*.conf", "/etc/kolla/*/*.conf")
#: Seconds by default: of keystonemiddleware, and of Swift's s3token.
_DEFAULTS = {"token_cache_time": 300, "secret_cache_duration": 60}


# -- coverage and lists
def checks(context: CheckContext) -> list[tuple[str, Check]]:
    """Return a check for each service in each region of the catalog."""
    try:
        statuses, protocol = _statuses(context)
    except Exception as error:
        text = f"Keystone does not list the catalog: {classify(error).message}"
        return [("catalog", lambda: [failed("catalog", text, BOOTSTRAP)])]
    return [
        (f"service {status.service_type}", functools.partial(_service, context, status, protocol))
        for status in statuses
    ]


def _statuses(context: CheckContext) -> tuple[Sequence[CatalogEntryStatus], Discovery]:
    parts = context.parts
    protocol = Discovery(parts.conf, parts.store, parts.clouds, parts.registry)
    try:
        waivers = parts.store.waivers_in_force(context.args.project or "")
        catalog = parts.catalog.with_protocol(protocol)
    except Exception:  # the database does not answer, which another line says: then nothing is waived
        waivers, catalog = (), parts.catalog
    identity = parts.clouds.identity(parts.clouds.admin_session())
    return catalog.statuses(identity, waivers), protocol


def _service(context: CheckContext, status: CatalogEntryStatus, protocol: Discovery) -> Iterator[Finding]:
    rule, subject = "service", f"{status.service_type} {status.region}".strip()
    if status.answered_by is AnsweredBy.UNSUPPORTED:
        command = (
            f"pip install a plugin of {status.service_type}, or openstack project deletion waiver create, or name it "
            "in [catalog] owns_nothing if it owns nothing"
        )
        yield failed(rule, f"no deletion can end: {status.message}", command, subject)
    elif status.answered_by is AnsweredBy.WAIVED:
        yield warning(rule, status.message, subject)
    elif status.answered_by is AnsweredBy.NOTHING_TO_OWN:
        yield ok(rule, status.message, subject)
    else:
        yield from _lists(context, status, protocol)


def _lists(context: CheckContext, status: CatalogEntryStatus, protocol: Discovery) -> Iterator[Finding]:
    """List each type of a service as an inventory does.

    What proves that an empty list means empty is in the plugins: without it the result is unknown.
    """
    rule, subject = "lists", f"{status.service_type} {status.region}".strip()
    region = status.region
    registry = protocol.registry(region, status.service_type)
    service = registry.services[status.service_type]
    project = context.project
    own = ProjectDefinition(
        project.id,
        project.name,
        project.domain_id,
        region if service.regional else "",
        context.projects().members(project.id),
        registry.options(context.conf, status.service_type),
    )
    found, janitors, bad = 0, [], False
    for type_ in service.types:
        if type_.token is Token.MEMBER and context.conf.janitor.secret:
            janitors.append(type_.name)
            continue
        result = inventory(context, type_, own)
        found += result.found
        if result.outcome is Outcome.UNKNOWN:
            bad = True
            full = f"{status.service_type}.{type_.name} {region}".strip()
            text = f"what a project has of it is unknown ({result.reason}): {result.message}"
            yield failed(rule, text, _mend(context, status, type_, result), full)
    if janitors:
        text = f"{', '.join(janitors)}: listed with the janitor's token, which only a deletion makes: not checked"
        yield warning(rule, text, subject)
    if not bad:
        yield ok(
            rule, f"{len(service.types) - len(janitors)} types: {found} resources of project {project.id}", subject
        )


def inventory(context: CheckContext, type_: ResourceType, project: ProjectDefinition) -> StepResult:
    """Return the inventory of one type, with the token that a deletion uses. It makes no write call."""
    clouds = context.parts.clouds
    try:
        session = _session(context, type_.token, project.id)
        connection = clouds.connection(session, project.region)
        most = context.conf.worker.most_listed
        return listing.inventory(SweepContext(type_, connection, project, most_listed=most))
    except Exception as error:
        return listing.unknown(error)


def _session(context: CheckContext, token: Token, project_id: str) -> GuardedSession:
    clouds = context.parts.clouds
    if token.scoped:
        return clouds.project_session(project_id)
    return clouds.service_session(read_only) if token is Token.SERVICE else clouds.admin_session()


def _mend(context: CheckContext, status: CatalogEntryStatus, type_: ResourceType, result: StepResult) -> str:
    """Return the command that mends a list that failed."""
    where = f"--service {status.service_type}" + (f" --region {status.region}" if status.region else "")
    if result.reason in (Reason.NO_PROJECT_TOKEN, Reason.FORBIDDEN):
        return f"{BOOTSTRAP}; if it has nothing to give, correct the policy of the service"
    if result.reason in (Reason.UNREACHABLE, Reason.NO_ENDPOINT):
        try:
            why = context.parts.clouds.why_no_endpoint(status.service_type, status.region)
        except Exception:
            why = ""
        return why or f"openstack endpoint list {where}, and openstack endpoint set --url URL ID if its URL is wrong"
    return f"openstack endpoint list {where}, and read the log of the service that answers there"


# -- clocks
def clocks(context: CheckContext) -> Iterator[Finding]:
    """Compare the ``Date`` of each service with the clock of this host."""
    clouds = context.parts.clouds
    origins: dict[str, str] = {}
    for entry in read_catalog(clouds.identity(clouds.admin_session())):
        parts = urlsplit(entry.url)
        if parts.hostname:
            origins.setdefault(f"{parts.scheme}://{parts.netloc}/", entry.service_type)
    session = clouds.session(clouds.admin_auth(), read_only)
    good = 0
    for url, service in sorted(origins.items()):
        before = time.time()
        try:
            answer = session.get(url, authenticated=False, raise_exc=False, redirect=False, once=True)
            date = email.utils.parsedate_to_datetime(answer.headers["Date"]).timestamp()
        except Exception as error:
            yield warning("clock", f"unknown: {url} shows no time: {type(error).__name__}", service)
            continue
        # The header has whole seconds, rounded down.
        finding = clock_finding("clock", f"{service} at {url}", date, before - 1, time.time())
        if finding.verdict == "ok":
            good += 1
        else:
            yield dataclasses.replace(finding, subject=service)
    yield ok("clock", f"the clocks of {good} of {len(origins)} addresses agree with that of this host")


# -- token caches
def token_caches(context: CheckContext) -> Iterator[Finding]:
    """Compare ``[drain] token_cache_time`` with what services are configured with, as far as files here show it."""
    rule, patterns = "token caches", context.args.service_config or CONFIGS
    ours = context.conf.drain.token_cache_time
    # With an old token the orchestrator's own API creates no resource.
    own = set(map(os.path.realpath, (*context.args.api_config_file, *context.conf.config_file)))
    paths = (path for pattern in patterns for path in sorted(glob.glob(pattern)))
    unread: list[str] = []
    found = list(cache_times((path for path in paths if os.path.realpath(path) not in own), unread))
    for path, option, seconds in found:
        if seconds == 0 and option == "token_cache_time":
            text = f"{option} is 0, so that this service never forgets a token: no lock ends its use"
            yield failed(rule, text, f"set {option} in it to a number above 0, and restart the service", path)
        elif seconds > ours:
            text = f"{option} is {seconds}, longer than [drain] token_cache_time, {ours}: deletions may miss resources"
            command = f"set [drain] token_cache_time = {seconds} for workers and engines, and restart them"
            yield failed(rule, text, command, path)
    if unread:
        yield warning(rule, f"files that cannot be read: {enumerated(unread, 5)}. Run this as root")
    if not found:
        text = (
            "no configuration of a service is readable here. Run this on a host of each service, or name the files "
            "with --service-config"
        )
        yield warning(rule, text)
    elif all(seconds <= ours and (seconds or option != "token_cache_time") for _, option, seconds in found):
        yield ok(rule, f"{len(found)} files on this host: none is longer than {ours} s. Other hosts are not seen")


def cache_times(paths: Iterable[str], unread: list[str]) -> Iterator[tuple[str, str, int]]:
    """Yield path, option and seconds of what is set in configuration files, or is the default there.

    :param unread: gets the paths of files that this user cannot read
    """
    for path in paths:
        parser = configparser.RawConfigParser(strict=False, allow_no_value=True, default_section="")
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                parser.read_file(file)
        except (configparser.Error, FileNotFoundError, IsADirectoryError):  # a link to nothing
            continue
        except OSError:
            unread.append(path)
            continue
        for section in parser.sections():
            swift = path.endswith("proxy-server.conf")
            if section == "keystone_authtoken" or (swift and section == "filter:authtoken"):
                option = "token_cache_time"
            elif section == "filter:s3token":
                option = "secret_cache_duration"
            else:
                continue
            text = parser.get(section, option, fallback=None) or str(_DEFAULTS[option])
            try:
                yield path, option, int(text)
            except ValueError:
                continue
