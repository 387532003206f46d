"""Collects the options of all modules.

The module that uses an option declares it. A module with options has ``OPTS: dict[str, list[cfg.Opt]]``, by group
(``DEFAULT`` for no group), and is listed here. The options of a plugin are its ``Service.options``, in the group
``[service_<type>]``.
"""

from __future__ import annotations

import importlib

from oslo_config import cfg

from cleanup_orchestrator.cloud import connections
from cleanup_orchestrator.plugins import registry

MODULES = (
    "cleanup_orchestrator.api.options",
    "cleanup_orchestrator.cloud.catalog",
    "cleanup_orchestrator.cloud.janitors",
    "cleanup_orchestrator.cloud.projects",
    "cleanup_orchestrator.cloud.protection",
    "cleanup_orchestrator.cloud.protocol_options",
    "cleanup_orchestrator.cloud.rate_limit_options",
    "cleanup_orchestrator.cloud.connections",
    "cleanup_orchestrator.drain.base",
    "cleanup_orchestrator.engine.deletions",
    "cleanup_orchestrator.engine.keystone_listener",
    "cleanup_orchestrator.evidence.options",
    "cleanup_orchestrator.monitoring.server",
    "cleanup_orchestrator.notices.options",
    "cleanup_orchestrator.service",
    "cleanup_orchestrator.store.database",
    "cleanup_orchestrator.store.orphans",
    "cleanup_orchestrator.worker.sweep.exclusions",
    "cleanup_orchestrator.worker.worker",
)


def _declared() -> dict[str, list[cfg.Opt]]:
    groups: dict[str, list[cfg.Opt]] = {}
    for name in MODULES:
        for group, options in importlib.import_module(name).OPTS.items():
            groups.setdefault(group or "DEFAULT", []).extend(options)
    return groups


def register(conf: cfg.ConfigOpts) -> None:
    """Register all options, except those of plugins: the registry registers them."""
    for group, options in _declared().items():
        conf.register_opts(options, group=None if group == "DEFAULT" else group)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return all options by group, sorted, for oslo-config-generator."""
    groups = _declared()
    for group, options in connections.sample_options().items():
        groups[group] += options
    for service in registry.load().services.values():
        if service.options:
            groups.setdefault(registry.option_group(service.service_type), []).extend(service.options)
    return [(group, sorted(groups[group], key=lambda option: option.dest)) for group in sorted(groups)]
