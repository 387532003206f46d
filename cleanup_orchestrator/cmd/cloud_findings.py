"""What the checks of ``cloud check`` share: their context, and the findings that they return."""

from __future__ import annotations

import argparse
import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from oslo_config import cfg

from cleanup_orchestrator import opts
from cleanup_orchestrator.cloud.projects import Project, Projects
from cleanup_orchestrator.cmd.schema import PROJECT
from cleanup_orchestrator.core.conformance import Finding, Verdict
from cleanup_orchestrator.service import Components

BOOTSTRAP = "cleanup-orchestrator-manage cloud bootstrap"
#: Seconds between the clocks of two hosts that do not matter.
SKEW = 5.0

Check: TypeAlias = Callable[[], Iterable[Finding]]


def ok(rule: str, text: str, subject: str = "") -> Finding:
    """Return that all is well."""
    return Finding(rule, Verdict.OK, text, subject)


def warning(rule: str, text: str, subject: str = "") -> Finding:
    """Return that something is to be looked at, or cannot be known here."""
    return Finding(rule, Verdict.WARNING, text, subject)


def failed(rule: str, text: str, command: str, subject: str = "") -> Finding:
    """Return that something is wrong or unknown, with the command that mends it."""
    return Finding(rule, Verdict.FAILED, f"{text}. Run: {command}", subject)


def clock_finding(rule: str, what: str, shown: float, before: float, after: float) -> Finding:
    """Return whether a clock agrees with that of this host.

    :param shown: its time, in seconds
    :param before: this host's time before it was asked
    :param after: this host's time after it answered
    """
    skew = shown - after if shown > after else min(0.0, shown - before)
    if abs(skew) <= SKEW:
        return ok(rule, f"the clock of {what} agrees with that of this host")
    way = "fast" if skew > 0 else "slow"
    text = f"compared with this host, the clock of {what} is {abs(skew):.0f} s {way}: tokens end too early or too late"
    return failed(rule, text, "chronyc makestep (on the host whose clock is wrong)")


def read(files: Sequence[str]) -> cfg.ConfigOpts:
    """Return the configuration of files.

    :param files: arguments of oslo.config
    """
    conf = cfg.ConfigOpts()
    opts.register(conf)
    conf(list(files), project=PROJECT)
    return conf


@dataclasses.dataclass(frozen=True)
class CheckContext:
    """What the checks share."""

    args: argparse.Namespace
    parts: Components
    undo: list[Check] = dataclasses.field(default_factory=list)  #: undoes what a check made; is called twice if it ends

    @property
    def conf(self) -> cfg.ConfigOpts:
        """The configuration of the workers."""
        return self.parts.conf

    def projects(self) -> Projects:
        """Return Keystone's projects, with a session that only reads."""
        return Projects(self.parts.clouds.identity(self.parts.clouds.admin_session()))

    @functools.cached_property
    def project(self) -> Project:
        """The project whose resources are listed."""
        return self.projects().get(self.args.project or self.parts.clouds.project_id())
