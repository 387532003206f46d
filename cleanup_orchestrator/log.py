"""Logging through oslo.log, with the ids of the deletion, its project and the request on every line.

No request or response body is ever logged, so no secret can be.
"""

from __future__ import annotations

import contextlib
import copy
import logging
from collections.abc import Iterator, Sequence
from typing import Any

from oslo_config import cfg
from oslo_context import context as oslo_context
from oslo_log import log

from cleanup_orchestrator.redact import printable, redact

_IDS = "[%(request_id)s deletion=%(deletion_id)s project=%(target_project_id)s]"
#: The ids come from the context that :func:`context` sets; ``-`` without one.
FORMAT = f"%(asctime)s.%(msecs)03d %(process)d %(levelname)s %(name)s {_IDS} %(message)s"
_TRACE_PREFIX = f"%(asctime)s.%(msecs)03d %(process)d ERROR %(name)s {_IDS} "
#: Libraries that log whole requests at DEBUG; kept quiet even with debug on.
_QUIET = (
    "keystoneauth=WARNING",
    "keystonemiddleware=WARNING",
    "openstack=WARNING",
    "oslo_policy=WARNING",
    "urllib3=WARNING",
    "alembic=WARNING",
    "stevedore=ERROR",  # what does not load is said where it is wanted
    "amqp=ERROR",  # it warns of every consumer that an orderly stop cancels
)


class Context(oslo_context.RequestContext):
    """Who is asking (in the API), and what a log line says about where it belongs."""

    def __init__(
        self,
        deletion_id: str = "-",
        target_project_id: str = "-",
        delegated: bool = False,
        trust_user_ids: Sequence[str] = (),
        **kwargs: Any,
    ) -> None:
        """Take the ids of a log line, and what of the token oslo.context does not know.

        :param delegated: whether another user, or a program of one, may be using the token: it is of a trust or OAuth1
        :param trust_user_ids: trustor and trustee of a token that is of a trust
        """
        super().__init__(**kwargs)
        self.deletion_id, self.target_project_id = deletion_id, target_project_id
        self.delegated, self.trust_user_ids = delegated, tuple(trust_user_ids)

    def to_dict(self) -> dict[str, Any]:
        """Return the values that the formatter fills in."""
        ids = {"deletion_id": self.deletion_id, "target_project_id": self.target_project_id}
        return {**super().to_dict(), **ids}


def register(conf: cfg.ConfigOpts) -> None:
    """Register oslo.log's options with our line format as the default."""
    log.register_options(conf)
    log.set_defaults(logging_context_format_string=FORMAT, default_log_levels=[*log.get_default_log_levels(), *_QUIET])
    conf.set_default("logging_default_format_string", FORMAT)
    conf.set_default("logging_exception_prefix", _TRACE_PREFIX)


def setup(conf: cfg.ConfigOpts) -> None:
    """Start logging as configured."""
    log.setup(conf, "cleanup-orchestrator")
    if not isinstance(logging.getLogRecordFactory(), _Factory):
        logging.setLogRecordFactory(_Factory(logging.getLogRecordFactory()))
    redact_handlers()


def redact_handlers() -> None:
    """Have every handler of every logger take the secrets out; again after whatever sets logging up anew."""
    for logger in (logging.root, *tuple(logging.root.manager.loggerDict.values())):
        for handler in logger.handlers if isinstance(logger, logging.Logger) else ():
            if not isinstance(handler.formatter, _Redacting):
                handler.setFormatter(_Redacting(handler.formatter or logging.Formatter()))


#: What a request may put on its lines: ids come from a path or a header.
_FROM_OUTSIDE = ("request_id", "deletion_id", "target_project_id")


class _Redacting(logging.Formatter):
    """Formats as another does, and takes the secrets out of what came of it, tracebacks and all.

    A message is one line: names of projects and users may hold line ends, and would begin lines of their own choice.
    """

    def __init__(self, inner: logging.Formatter) -> None:
        super().__init__()
        self._inner = inner

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        plain = copy.copy(record)
        plain.msg, plain.args = printable(record.getMessage()), None
        for name in _FROM_OUTSIDE:
            plain.__dict__[name] = printable(str(record.__dict__.get(name, "-")))
        return redact(self._inner.format(plain))


class _Factory:
    """Gives every record the ids' places, also one that is logged outside of any context, or in a library's."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __call__(self, *args: Any, **kwargs: Any) -> logging.LogRecord:
        record: logging.LogRecord = self._inner(*args, **kwargs)
        for name in _FROM_OUTSIDE:
            record.__dict__.setdefault(name, "-")
        return record


@contextlib.contextmanager
def context(deletion_id: str = "-", project_id: str = "-", request_id: str = "") -> Iterator[None]:
    """Put the ids on every line that this thread logs in the block."""
    before = oslo_context.get_current()
    # "-" and not None: for None oslo.context makes up an id that no request ever had.
    Context(deletion_id or "-", project_id or "-", request_id=request_id or "-", overwrite=True)
    try:
        yield
    finally:
        if before is not None:
            before.update_store()
        else:
            oslo_context._request_store.context = None


def about(deletion_id: str, project_id: str) -> None:
    """Say which deletion and project the rest of this thread's present block is about."""
    current = oslo_context.get_current()
    if isinstance(current, Context):
        current.deletion_id, current.target_project_id = deletion_id, project_id
