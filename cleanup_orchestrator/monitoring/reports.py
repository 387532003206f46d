"""Guru meditation reports: on SIGUSR2 a process says what it is doing, with every thread's stack and its configuration.

A thread waits for the signal and writes the report. oslo.reports would write it in a signal handler, which Python runs
in the main thread: no report comes from a process whose main thread hangs, and the handler itself hangs if it needs a
lock that the main thread holds at that moment.

oslo.reports masks what is declared as secret in the configuration. The section ``Work`` is ours.
"""

from __future__ import annotations

import importlib.metadata
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

from oslo_config import cfg
from oslo_log import log
from oslo_reports import guru_meditation_report as gmr
from oslo_reports import opts as gmr_opts
from oslo_reports.models.base import ReportModel

from cleanup_orchestrator.monitoring import activity

LOG = log.getLogger(__name__)


class _Version:
    """What the section ``Package`` says."""

    def vendor_string(self) -> str:
        """Return who made it."""
        return "cleanup-orchestrator"

    def product_string(self) -> str:
        """Return what it is."""
        return "cleanup-orchestrator"

    def version_string_with_package(self) -> str:
        """Return its version."""
        return version()


def version() -> str:
    """Return the installed version of this package."""
    return importlib.metadata.version("cleanup-orchestrator")


def register(conf: cfg.ConfigOpts) -> None:
    """Register oslo.reports' options."""
    gmr_opts.set_defaults(conf)


def setup(conf: cfg.ConfigOpts, prog: str) -> None:
    """Have this process report on SIGUSR2, or as ``[oslo_reports]`` says. Before it starts any other thread."""
    Report.persistent_sections = [("Work", _work)]
    Report.setup_autorun(_Version(), service_name=prog, conf=conf, setup_signal=False)
    if conf.oslo_reports.file_event_handler:
        return
    # Threads inherit what is blocked. One that does not block the signal would get it, and end the process.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    threading.Thread(target=_report_on_signal, args=(conf, prog), name="reports", daemon=True).start()


def _report_on_signal(conf: cfg.ConfigOpts, prog: str) -> None:
    while True:
        signal.sigwait({signal.SIGUSR2})
        try:
            Report.handle_signal(_Version(), prog, conf.oslo_reports.log_dir, None)
        except Exception:  # the next signal is served all the same
            LOG.exception("no guru meditation report")


class Report(gmr.TextGuruMeditation):
    """A report of which a section that fails costs that section only: it says why.

    The section ``Processes`` fails where ``/proc`` shows processes only (``ProcSubset=pid`` in the units).
    """

    def add_section(self, view: Any, generator: Callable[[], Any], index: int | None = None) -> None:
        """Add a section, as oslo.reports does."""

        def made() -> Any:
            try:
                return generator()
            except Exception as error:
                return f"(not to be had: {type(error).__name__}: {error})"

        super().add_section(view, made, index)


def _work() -> ReportModel:
    now = time.monotonic()
    lines = [
        f"{item.what}: deletion {item.deletion_id}, project {item.project_id or '-'}, step {item.step_id or '-'}, "
        f"for {now - item.since:.1f} s, in thread {item.thread}"
        for item in activity.items()
    ]
    return ReportModel(data={}, attached_view=_Lines("\n".join(lines) or "nothing"))


class _Lines:
    """A view that is a text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __call__(self, model: ReportModel) -> str:
        """Return the text."""
        return self._text
