"""Implements ``cleanup-orchestrator-status cloud check``: whether the cloud is as the orchestrator needs it.

Each check runs in its own thread, and has a time limit. What is not known is not ok.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import datetime
import functools
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from oslo_config import cfg

from cleanup_orchestrator.cmd import cloud_check_keystone as keystone
from cleanup_orchestrator.cmd import cloud_check_services as services
from cleanup_orchestrator.cmd.cloud_findings import Check, CheckContext, clock_finding, failed, ok, read
from cleanup_orchestrator.core.conformance import Finding, Verdict
from cleanup_orchestrator.core.redact import redact
from cleanup_orchestrator.core.texts import printable
from cleanup_orchestrator.errors import classify
from cleanup_orchestrator.messaging import rpc
from cleanup_orchestrator.service import Components

EXAMPLE = "cloud check --config-file CONF --config-file CONF_OF_WORKERS --api-config-file CONF_OF_API"
#: As oslo.upgradecheck has them.
CODES = {Verdict.OK: 0, Verdict.WARNING: 1, Verdict.FAILED: 2}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    parser.add_argument(
        "--api-config-file",
        action="append",
        default=[],
        metavar="PATH",
        help="configuration file of the API, to check the API's user; may be repeated",
    )
    parser.add_argument(
        "--project",
        metavar="ID",
        help="project whose resources are listed. Choose one that has resources (default: the project of the workers' "
        "user)",
    )
    parser.add_argument(
        "--service-config",
        action="append",
        default=[],
        metavar="GLOB",
        help="configuration files of services whose token_cache_time is compared (default: /etc/*/*.conf and "
        "/etc/kolla/*/*.conf)",
    )
    parser.add_argument(
        "--no-test-project",
        action="store_true",
        help="do not test the lock of projects, for which a project is made and deleted again. Then nothing is written",
    )
    parser.add_argument(
        "--time-limit", type=_seconds, default=60.0, metavar="SECONDS", help="for each check (default: 60)"
    )


def _seconds(text: str) -> float:
    """Return the number of seconds that an argument names; argparse reports the error."""
    if not text.isdecimal() or not 0 < int(text) <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 1 to 3600")
    return float(text)


def components(conf: cfg.ConfigOpts) -> Components:
    """Return the parts of a process; with SQLite and no broker, those of the all-in-one process."""
    transport = rpc.transport_url(conf)
    alone = conf.database.connection.startswith("sqlite") and not transport.hosts
    return Components(conf, in_process=alone or transport.transport in ("fake", "kombu+memory"))


# -- running
@dataclasses.dataclass
class _Run:
    """A check under way, or ended."""

    name: str
    check: Check
    found: list[Finding] = dataclasses.field(default_factory=list)
    error: BaseException | None = None
    ended: threading.Event = dataclasses.field(default_factory=threading.Event)

    def __call__(self) -> None:
        try:
            self.found.extend(self.check())
        except BaseException as error:
            self.error = error
        self.ended.set()


def findings(checks: Sequence[tuple[str, Check]], seconds: float) -> Iterator[Finding]:
    """Run checks at the same time, and yield what they find in their order.

    :param seconds: that each may take
    """
    runs = [_Run(name, check) for name, check in checks]
    for run in runs:
        threading.Thread(target=run, name=f"check-{run.name}", daemon=True).start()
    deadline = time.monotonic() + seconds
    for run in runs:
        in_time = run.ended.wait(max(0.0, deadline - time.monotonic()))
        yield from list(run.found)
        if not in_time:
            text = f"it takes more than {seconds:g} seconds, so that the rest is unknown: see --time-limit"
            yield Finding(run.name, Verdict.FAILED, text)
        elif run.error is not None:
            yield Finding(run.name, Verdict.FAILED, f"unknown: {classify(run.error).message}")


def all_findings(context: CheckContext, upgrade_checks: Sequence[tuple[str, Check]]) -> Iterator[Finding]:
    """Yield what all checks find.

    :param upgrade_checks: those of ``upgrade check`` that are of the workers, too
    """
    seconds = context.args.time_limit
    local: list[tuple[str, Check]] = [
        *upgrade_checks,
        ("broker", functools.partial(_broker, context)),
        ("database clock", functools.partial(_database_clock, context)),
        ("token caches", functools.partial(services.token_caches, context)),
        ("api user", functools.partial(keystone.api_user, context)),
    ]
    yield from findings(local, seconds)
    login = list(findings([("worker user", functools.partial(keystone.worker_user, context))], seconds))
    yield from login
    if any(one.verdict is Verdict.FAILED for one in login):
        text = "not checked, because the workers' user cannot log in, or lacks its role: mend this first"
        yield Finding("cloud", Verdict.FAILED, text)
        return
    cloud: list[tuple[str, Check]] = [
        ("inherited role", functools.partial(keystone.inherited_roles, context)),
        ("janitor", functools.partial(keystone.janitor_roles, context)),
        ("protocol user", functools.partial(keystone.protocol_user, context)),
        ("api endpoint", functools.partial(keystone.api_endpoints, context)),
        ("lock", functools.partial(keystone.lock, context)),
        ("clock", functools.partial(services.clocks, context)),
    ]
    cloud += services.checks(context)
    yield from findings(cloud, seconds)


def _broker(context: CheckContext) -> Iterator[Finding]:
    ask = context.parts.broker()
    if ask is None:
        yield ok("broker", "the all-in-one process needs none")
        return
    try:
        ask()
    except Exception as error:
        command = "systemctl status rabbitmq-server (on the hosts of transport_url)"
        yield failed("broker", f"RabbitMQ does not answer: {classify(error).message}", command)
        return
    yield ok("broker", "RabbitMQ answers")


def _database_clock(context: CheckContext) -> Iterator[Finding]:
    before = time.time()
    now = context.parts.store.now().replace(tzinfo=datetime.UTC).timestamp()
    yield clock_finding("database clock", "the database", now, before, time.time())


# -- printing
def report(found: Iterable[Finding], as_json: bool) -> int:
    """Print findings as they come; return the exit code."""
    counts: collections.Counter[Verdict] = collections.Counter()
    rows: list[dict[str, Any]] = []
    for one in found:
        counts[one.verdict] += 1
        name = f"{one.rule} {one.subject}".strip()
        if as_json:
            rows.append({"check": name, "result": CODES[one.verdict], "details": redact(one.text)})
        else:
            print(printable(f"{one.verdict:<8} {name}: {redact(one.text)}"), flush=True)
    if as_json:
        print(json.dumps({"name": "cloud check", "checks": rows}, indent=2))
    else:
        print(", ".join(f"{counts[verdict]} {verdict}" for verdict in CODES))
    return max((CODES[verdict] for verdict in counts), default=0)


def run(files: Sequence[str], args: argparse.Namespace, upgrade: Callable[[cfg.ConfigOpts], Any]) -> int:
    """Run the checks; return the exit code.

    :param files: the configuration of the workers, as arguments of oslo.config
    :param upgrade: returns the checks of ``upgrade check``
    """
    conf = read(files)
    parts = components(conf)
    with contextlib.closing(parts.store):
        context = CheckContext(args, parts)
        try:
            return report(all_findings(context, upgrade(conf)), args.json)
        finally:  # also of a check that took too long, and is still under way
            for _ in findings([("undo", each) for each in context.undo], args.time_limit):
                pass
