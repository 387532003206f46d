"""The option of ``keystone.conf`` that the fence and the hook share; each has its own beside it."""

from __future__ import annotations

import importlib

from oslo_config import cfg

from cleanup_orchestrator.keystone import protocol

OPTS: dict[str, list[cfg.Opt]] = {
    protocol.GROUP: [
        cfg.StrOpt(
            "user_id",
            default="",
            help="Id of the user that cleanup-orchestrator logs in as ([orchestrator] in its own configuration). Its "
            "tokens are good for a fenced project, and its final DELETE of a project is not intercepted. Required.",
        ),
        cfg.StrOpt(
            "janitor_user_id",
            default="",
            help="Id of the janitor's user ([janitor] in cleanup-orchestrator's configuration). Its tokens are good "
            "for a fenced project, too, and nothing else. Empty: there is none, so that no stack and no cluster of a "
            "fenced project can be deleted.",
        ),
    ]
}

#: Every module of ours inside Keystone that has options.
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
    """Register every option of ours with Keystone's configuration."""
    for group, options in _declared().items():
        conf.register_opts(options, group=group)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return every option by group, for oslo-config-generator."""
    groups = _declared()
    return [(group, sorted(groups[group], key=lambda option: option.dest)) for group in sorted(groups)]
