"""What holds deletions by configuration: the hours (see ``windows``), and the types that raise liens (``raised``)."""

from __future__ import annotations

from typing import Any

from oslo_config import cfg, types

from cleanup_orchestrator.core.maintenance_windows import Windows, window
from cleanup_orchestrator.errors import CleanupError
from cleanup_orchestrator.plugins.registry import Registry


class _Window(types.String):
    """One window."""

    def __call__(self, value: Any) -> str:
        text = str(super().__call__(value))
        if text.strip():
            window(text)
        return text


class _TimeZone(types.String):
    """The name of a time zone."""

    def __call__(self, value: Any) -> str:
        text = str(super().__call__(value))
        Windows.of((), text)
        return text


OPTS = {
    "deletion": [
        cfg.ListOpt(
            "delete_windows",
            item_type=_Window(),
            default=[],
            help="Hours in which projects are locked and deleted, such as 'mon-fri 20:00-06:00, sat-sun 00:00-24:00'; "
            "without a day it is every day. One that ends before it begins goes over midnight, and belongs to the day "
            "on which it begins. Outside of them requests are taken, looks, reports and dry runs go on, and so does "
            "the undoing of a cancel. Empty: always.",
        ),
        cfg.Opt(
            "delete_windows_time_zone",
            type=_TimeZone(),
            default="UTC",
            help="Time zone of delete_windows, such as Europe/Berlin: what counts is what a clock on the wall shows "
            "there, summer time included.",
        ),
    ],
    "protection": [
        cfg.ListOpt(
            "lien_types",
            default=[],
            help="Resource types, each as service.type (image.image), of which one that is protected, or used by "
            "another project, raises a lien on its project: the cascade that finds it in its inventory deletes nothing "
            "at all until the reason is gone, or an admin removes the lien. Nor is anything deleted before these were "
            "looked at. Empty: it is left over, and everything else goes. The same for engines and workers.",
        ),
    ],
}


class UnknownType(CleanupError):
    """An option names a resource type that there is not, or that cannot do what it is named for."""

    code = "unknown_type"


def windows(conf: cfg.ConfigOpts) -> Windows:
    """Return the windows of ``[deletion]``."""
    return Windows.of(conf.deletion.delete_windows, conf.deletion.delete_windows_time_zone)


def lien_types(conf: cfg.ConfigOpts) -> frozenset[str]:
    """Return the types of ``[protection] lien_types``."""
    return frozenset(conf.protection.lien_types)


def check_lien_types(conf: cfg.ConfigOpts, registry: Registry) -> None:
    """Refuse a name that nobody declares: it would protect nothing, without a word.

    :raises UnknownType: for such a name, or for one of what goes with the project, which no inventory looks at
    """
    ordinary = {
        f"{s.service_type}.{t.name}" for s in registry.services.values() for t in s.types if not t.project_setting
    }
    if unknown := sorted(lien_types(conf) - ordinary):
        raise UnknownType(f"[protection] lien_types: no plugin has the ordinary type {', '.join(unknown)}")
