"""The options of ``keystone.conf`` that the fence and the hook share.

The modules of the fence and of the hook have the others.
"""

from __future__ import annotations

import importlib

from oslo_config import cfg

from cleanup_orchestrator.keystone import protocol

OPTS: dict[str, list[cfg.Opt]] = {
    protocol.GROUP: [
        cfg.StrOpt(
            "user_id",
            default="",
            help="Id of the user that cleanup-orchestrator logs in as, with a password ([orchestrator] in its "
            "configuration). Its tokens are valid for fenced projects, only this user sets fences, and its final "
            "DELETE of a project is not intercepted. Required.",
        ),
    ]
}

#: The modules with options.
MODULES = (
    "cleanup_orchestrator.keystone.fence",
    "cleanup_orchestrator.keystone.options",
    "cleanup_orchestrator.keystone.pipeline",
)


def _declared() -> dict[str, list[cfg.Opt]]:
    groups: dict[str, list[cfg.Opt]] = {}
    for name in MODULES:
        for group, options in importlib.import_module(name).OPTS.items():
            groups.setdefault(group, []).extend(options)
    return groups


def register(conf: cfg.ConfigOpts) -> None:
    """Register all options with Keystone's configuration."""
    for group, options in _declared().items():
        conf.register_opts(options, group=group)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return all options by group, for oslo-config-generator."""
    groups = _declared()
    return [(group, sorted(groups[group], key=lambda option: option.dest)) for group in sorted(groups)]
