"""Implements ``cleanup-orchestrator-manage plugin check``: whether a plugin keeps the contract.

The static rules need no database, no configuration file and no cloud. With ``--cloud`` the plugin is called on a cloud,
with an admin's token. No write call is made, see ``plugin_cloud``.
"""

from __future__ import annotations

import argparse
import collections
import importlib.metadata
import json
from collections.abc import Callable, Iterator, Mapping

from oslo_config import cfg

from cleanup_orchestrator.cmd.schema import ManageError, line
from cleanup_orchestrator.core.conformance import Finding, Verdict
from cleanup_orchestrator.core.redact import redact
from cleanup_orchestrator.plugins import conformance, registry
from cleanup_orchestrator.plugins.base import Service
from cleanup_orchestrator.plugins.contract import SUPPORTED_VERSIONS

EXAMPLE = "plugin check key-manager --cloud admin --project 5d7ec06b4c6a4c0f8d0a1c2b3e4f5a6b"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    parser.add_argument(
        "entry_point",
        metavar="ENTRY_POINT",
        help=f"name of an installed entry point of the group {registry.NAMESPACE} (key-manager), or an object "
        "reference (package.module:SERVICE) of a module that Python can import",
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
    live = parser.add_argument_group(
        "check on a cloud",
        "List, read again, and try a delete that is refused before it is sent. No write call is made. The project "
        "should have at least two resources of each type. The plugin's options have the values of --config-file, if it "
        "is given.",
    )
    live.add_argument("--cloud", metavar="NAME", help="cloud of clouds.yaml, with the user of the orchestrator")
    live.add_argument("--project", metavar="ID", help="id of the project whose resources are listed")
    live.add_argument(
        "--as-member",
        metavar="NAME",
        default="",
        help="another cloud of clouds.yaml, with a user without the admin role, in another project: a list must not "
        "look empty to this user",
    )
    live.add_argument(
        "--time-limit", metavar="SECONDS", type=_seconds, default=60.0, help="for each list and each call (default: 60)"
    )


def _seconds(text: str) -> float:
    """Return the number of seconds that an argument names; argparse reports the error."""
    if not text.isdecimal() or not 0 < int(text) <= 86400:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return float(text)


def expect_valid(args: argparse.Namespace, error: Callable[[str], object]) -> None:
    """Check the arguments that need each other.

    :param error: ends the process with the message
    """
    if bool(args.cloud) != bool(args.project):
        error("--cloud and --project need each other")
    if args.as_member and not args.cloud:
        error("--as-member needs --cloud and --project")


def run(conf: cfg.ConfigOpts, args: argparse.Namespace, versions: Mapping[int, str] = SUPPORTED_VERSIONS) -> int:
    """Print the findings.

    :param versions: the supported versions of the contract, see ``contract.SUPPORTED_VERSIONS``
    :returns: the exit code: 0, or 1 if a rule failed
    :raises ManageError: the plugin cannot be loaded, or the cloud not be reached
    """
    service = _load(args.entry_point)
    counts: collections.Counter[Verdict] = collections.Counter()
    told, as_json = [], args.format == "json"
    for one in _findings(conf, args, service, versions):
        counts[one.verdict] += 1
        text = redact(one.text)
        if as_json:
            told.append({"subject": one.subject, "rule": one.rule, "answer": one.verdict, "text": text})
        else:
            print(f"{one.verdict:<11}  {one.subject}  {one.rule}: {text}", flush=True)
    if as_json:
        print(json.dumps({"findings": told, "counts": {verdict: counts[verdict] for verdict in Verdict}}, indent=2))
    else:
        print(f"{service.service_type}: " + ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict))
    return 1 if counts[Verdict.FAILED] else 0


def _findings(
    conf: cfg.ConfigOpts, args: argparse.Namespace, service: Service, versions: Mapping[int, str]
) -> Iterator[Finding]:
    others, broken = _others(service)
    yield from conformance.check(service, *others, versions=versions)
    for name, why in broken:
        text = f"the plugin {name} does not load, so that names of its types are not checked: {why}"
        yield Finding("registry", Verdict.NOT_CHECKED, text, service.service_type)
    if not args.cloud:
        return
    # Only the check on a cloud imports what makes calls.
    from cleanup_orchestrator.cmd import plugin_cloud, plugin_live

    conf.register_opts(service.options, group=registry.option_group(service.service_type))
    options = registry.option_values(conf, service)
    tokens = plugin_cloud.connect(args.cloud, args.project, args.as_member, service, options, args.time_limit)
    yield from plugin_live.check(tokens, service)


def _load(entry_point: str) -> Service:
    """Return the plugin that an argument names.

    :raises ManageError: with what to change
    """
    if ":" in entry_point:
        point = importlib.metadata.EntryPoint("", entry_point, registry.NAMESPACE)
    else:
        points = _installed()
        if entry_point not in points:
            raise ManageError(
                f"no entry point {entry_point!r} is installed; there are: {', '.join(sorted(points))}; a plugin that "
                "is not installed is named as package.module:SERVICE"
            )
        point = points[entry_point]
    try:
        plugin: object = point.load()
    except Exception as error:  # plugins may raise any error when they are loaded
        text = f"{entry_point} does not load: {type(error).__name__}: {line(error)}"
        raise ManageError(f"{text}; install its package, or name its folder in PYTHONPATH") from None
    try:
        return registry.expect_service(point.name or getattr(plugin, "service_type", ""), plugin)
    except registry.InvalidPlugin:
        expected = f"a Service of type {point.name!r}" if point.name else "a Service"
        raise ManageError(f"{entry_point} is {type(plugin).__name__}, and must be {expected}") from None


def _installed() -> dict[str, importlib.metadata.EntryPoint]:
    return {point.name: point for point in importlib.metadata.entry_points(group=registry.NAMESPACE)}


def _others(service: Service) -> tuple[list[Service], list[tuple[str, str]]]:
    """Return the other installed plugins, and the names of those that do not load, each with the error."""
    others, broken = [], []
    for name, point in sorted(_installed().items()):
        try:
            other = registry.expect_service(name, point.load())
        except Exception as error:  # plugins may raise any error when they are loaded
            if name != service.service_type:
                broken.append((name, line(error)))
            continue
        if other is not service:
            others.append(other)
    return others, broken
