"""Writes a guru meditation report on SIGUSR2.

The report has the current work, the stacks of all threads and the configuration of the process.

A thread waits for the signal and writes the report. oslo.reports would write it in a signal handler, which Python runs
in the main thread. Then a process whose main thread hangs would write no report, and the handler would deadlock on a
lock that the main thread holds.

oslo.reports masks the secret options. This module adds the section ``Work``.
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
from oslo_reports.models.threading import ThreadModel
from oslo_reports.models.with_default_views import ModelWithDefaultViews
from oslo_reports.views.text.generic import MultiView

from cleanup_orchestrator.monitoring import activity, stacks

LOG = log.getLogger(__name__)


class _Version:
    """The content of the section ``Package``."""

    def vendor_string(self) -> str:
        """Return the name of the vendor."""
        return "cleanup-orchestrator"

    def product_string(self) -> str:
        """Return the name of the product."""
        return "cleanup-orchestrator"

    def version_string_with_package(self) -> str:
        """Return the version."""
        return version()


def version() -> str:
    """Return the installed version of this package."""
    return importlib.metadata.version("cleanup-orchestrator")


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of oslo.reports."""
    gmr_opts.set_defaults(conf)


def setup(conf: cfg.ConfigOpts, prog: str) -> None:
    """Write reports on SIGUSR2, or as ``[oslo_reports]`` says.

    Call it before the process starts any other thread.
    """
    Report.persistent_sections = [("Work", _work)]
    Report.setup_autorun(_Version(), service_name=prog, conf=conf, setup_signal=False)
    if conf.oslo_reports.file_event_handler:
        return
    # Threads inherit the signal mask. A thread that does not block the signal would receive it and end the process.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    threading.Thread(target=_report_on_signal, args=(conf, prog), name="reports", daemon=True).start()


def _report_on_signal(conf: cfg.ConfigOpts, prog: str) -> None:
    while True:
        signal.sigwait({signal.SIGUSR2})
        try:
            Report.handle_signal(_Version(), prog, conf.oslo_reports.log_dir, None)
        except Exception:  # the next signal must still be handled
            LOG.exception("cannot write the guru meditation report")


class Report(gmr.TextGuruMeditation):
    """A report in which a section that fails only shows its error.

    The section ``Processes`` fails if ``/proc`` shows only processes (``ProcSubset=pid`` in the units).

    The section ``Threads`` reads the frames with :func:`stacks.frames`, so that a report does not stop the process.

    There is no section ``Green Threads``. The process has none, and to find them oslo.reports calls ``gc.get_objects``.
    That function also returns a tuple that another thread is filling. ``tuple(...)`` then fails with ``SystemError`` in
    that thread.
    """

    def add_section(self, view: Any, generator: Callable[[], Any], index: int | None = None) -> None:
        """Add a section."""
        if view == "Green Threads":
            return
        if view == "Threads":
            generator = _threads

        def made() -> Any:
            try:
                return generator()
            except Exception as error:
                return f"(not available: {type(error).__name__}: {error})"

        super().add_section(view, made, index)


def _threads() -> ReportModel:
    threads = {identifier: ThreadModel(identifier, frame) for identifier, frame in stacks.frames().items()}
    return ModelWithDefaultViews(threads, text_view=MultiView())


def _work() -> ReportModel:
    now = time.monotonic()
    lines = [
        f"{item.what}: deletion {item.deletion_id}, project {item.project_id or '-'}, step {item.step_id or '-'}, "
        f"for {now - item.since:.1f} s, in thread {item.thread}"
        for item in activity.items()
    ]
    return ReportModel(data={}, attached_view=_Lines("\n".join(lines) or "nothing"))


class _Lines:
    """A view that returns a fixed text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __call__(self, model: ReportModel) -> str:
        """Return the text."""
        return self._text
