"""Options that put deletions on hold: delete windows and plugin liens."""

from __future__ import annotations

from typing import Any

from oslo_config import cfg, types

from cleanup_orchestrator.core.delete_windows import Windows, window
from cleanup_orchestrator.core.guard import HoldOptions


class _Window(types.String):  # type: ignore[misc] # oslo.config has no type information
    """The option type of one delete window."""

    def __call__(self, value: Any) -> str:
        text = str(super().__call__(value))
        if text.strip():
            window(text)
        return text


class _TimeZone(types.String):  # type: ignore[misc] # oslo.config has no type information
    """The option type of a time zone name."""

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
            help="Hours in which projects are locked and deleted, such as 'mon-fri 20:00-06:00, sat-sun 00:00-24:00'. "
            "A window without a day applies to every day. A window that ends before it begins extends over midnight, "
            "and belongs to the day on which it begins. Outside of the windows, requests are accepted, and "
            "inventories, reports, dry runs and the undo of a cancelled deletion continue. Empty: always.",
        ),
        cfg.Opt(
            "delete_windows_time_zone",
            type=_TimeZone(),
            default="UTC",
            help="Time zone of delete_windows, such as Europe/Berlin. Windows are in local time there, daylight saving "
            "time included.",
        ),
    ],
    "protection": [
        cfg.ListOpt(
            "lien_types",
            default=[],
            help="Resource types, each as service.type (image.image), that raise liens. If the inventory of a cascade "
            "finds a resource of such a type that is protected, or used by another project, it raises a lien on the "
            "project: nothing is deleted until the reason is gone, or an admin removes the lien. Nothing is deleted "
            "before these types are listed. Empty: such a resource is left, and all other resources are deleted. Must "
            "be the same for engines and workers.",
        ),
        cfg.ListOpt(
            "ignored_uses",
            default=[],
            help="Uses by other projects that do not prevent a delete, each as the deleted type, a colon, and the type "
            "that uses it, such as 'network.floating_ip:network.port'. The page on outsiders has the table of all uses "
            "and of the harm that the delete does. Empty: a resource that another project uses is left, and named.",
        ),
    ],
}


def hold_options(conf: cfg.ConfigOpts) -> HoldOptions:
    """Return the options that holds read, as configured now."""
    windows = Windows.of(conf.deletion.delete_windows, conf.deletion.delete_windows_time_zone)
    return HoldOptions(windows)


def ignored_uses(conf: cfg.ConfigOpts) -> frozenset[str]:
    """Return ``[protection] ignored_uses``."""
    return frozenset(conf.protection.ignored_uses)


def lien_types(conf: cfg.ConfigOpts) -> frozenset[str]:
    """Return the types of ``[protection] lien_types``."""
    return frozenset(conf.protection.lien_types)
