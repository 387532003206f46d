"""The options of ``[limits]``: the limits that all processes keep together."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

import os_service_types
from oslo_config import cfg

from cleanup_orchestrator.core.rate_limits import Limits
from cleanup_orchestrator.errors import CleanupError

GROUP = "limits"
_KEYS = (
    " A key is 'default', a service type (network), or a service type in one region (network@RegionOne); the most "
    "specific key applies, and 0 means no limit. Without the key 'default', its default value stays in force. The "
    "limit is for all processes together."
)
DEFAULTS = {
    "calls_per_second": {"default": "50"},
    "calls_at_once": {"default": "16"},
    "deletes_per_second": {"default": "20", "object-store": "50"},
}
OPTS = {
    GROUP: [
        cfg.DictOpt(
            "calls_per_second",
            default=DEFAULTS["calls_per_second"],
            mutable=True,
            help="Calls a second to one service in one region." + _KEYS,
        ),
        cfg.DictOpt(
            "calls_at_once",
            default=DEFAULTS["calls_at_once"],
            mutable=True,
            help="Calls to one service in one region that may be under way at once." + _KEYS,
        ),
        cfg.DictOpt(
            "deletes_per_second",
            default=DEFAULTS["deletes_per_second"],
            mutable=True,
            help="DELETE calls a second to one service in one region; they count as calls, too." + _KEYS,
        ),
        cfg.FloatOpt(
            "longest_wait",
            default=60.0,
            min=1.0,
            mutable=True,
            help="Seconds that a call waits for a permit. After that its step ends, and is tried again later.",
        ),
        cfg.FloatOpt(
            "longest_pause",
            default=300.0,
            min=1.0,
            mutable=True,
            help="The longest pause after a service answered 429, in seconds, whatever its Retry-After says.",
        ),
    ]
}

IDENTITY = "identity"


class BadLimit(CleanupError):
    """A limit in the configuration is not valid."""

    code = "bad_limit"


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """``[limits]`` as read; see :func:`settings`."""

    calls: Mapping[str, float]
    at_once: Mapping[str, float]
    deletes: Mapping[str, float]
    longest_wait: float
    longest_pause: float

    def limits(self, service: str, region: str) -> Limits:
        """Return the limits of one service in one region."""
        keys = (f"{service}@{region}", service, "default")
        calls, at_once, deletes = (
            next(limits[key] for key in keys if key in limits) for limits in (self.calls, self.at_once, self.deletes)
        )
        return Limits(calls, int(at_once), deletes)


def settings(conf: cfg.ConfigOpts) -> Settings:
    """Read ``[limits]``.

    :raises BadLimit: names the option and the key that are not valid
    """
    group = conf[GROUP]
    return Settings(
        calls=_read("calls_per_second", group.calls_per_second),
        at_once=_read("calls_at_once", group.calls_at_once, whole=True),
        deletes=_read("deletes_per_second", group.deletes_per_second),
        longest_wait=group.longest_wait,
        longest_pause=group.longest_pause,
    )


def _read(name: str, values: Mapping[str, str], whole: bool = False) -> dict[str, float]:
    """Return the limits of one option by key.

    A key without a valid number raises :class:`BadLimit`.
    """
    types = os_service_types.ServiceTypes()
    limits = {"default": float(DEFAULTS[name]["default"])}
    for key, text in values.items():
        service, at, region = key.partition("@")
        where = f"[{GROUP}] {name}: {key or '(empty)'}"
        if not service or bool(at) != bool(region) or (service == "default" and at):
            raise BadLimit(f"{where}: a key is 'default', a service type, or a service type@region")
        official = types.get_service_type(service) or service
        if official == IDENTITY and at:
            raise BadLimit(f"{where}: Keystone is one, whatever the region: use '{IDENTITY}'")
        try:
            number = float(text)
        except (TypeError, ValueError):
            raise BadLimit(f"{where}: {text!r} is no number") from None
        if not math.isfinite(number) or number < 0 or 0 < number < 0.1:
            raise BadLimit(f"{where}: {text} is neither 0 (no limit) nor 0.1 or more")
        if whole and number != int(number):
            raise BadLimit(f"{where}: {text} is no whole number")
        limits[official + at + region] = number
    return limits
