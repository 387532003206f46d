"""Logging through oslo.log, with ids on every line.

The ids are those of the deletion, its project and the request. Bodies of requests and responses are never logged: they
can contain secrets.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from types import MappingProxyType
from typing import Any

from oslo_config import cfg
from oslo_context import context as oslo_context
from oslo_log import log

from cleanup_orchestrator import compat
from cleanup_orchestrator.core.redact import redact
from cleanup_orchestrator.core.texts import printable

_IDS = "[%(request_id)s deletion=%(deletion_id)s project=%(target_project_id)s%(caller)s]"
#: The ids come from the context that :func:`context` sets; ``-`` without one. ``caller`` is empty, or names the request
#: id that the caller of the API sent.
FORMAT = f"%(asctime)s.%(msecs)03d %(process)d %(levelname)s %(name)s {_IDS} %(message)s"
_TRACE_PREFIX = f"%(asctime)s.%(msecs)03d %(process)d ERROR %(name)s {_IDS} "
#: Levels of libraries that log whole requests at DEBUG. They also apply if debug is on.
_QUIET = (
    "keystoneauth=WARNING",
    "keystonemiddleware=WARNING",
    "openstack=WARNING",
    "oslo_policy=WARNING",
    "urllib3=WARNING",
    "alembic=WARNING",
    "stevedore=ERROR",  # the caller reports a plugin that does not load
    "amqp=ERROR",  # it warns about each consumer that an orderly stop cancels
)


class Context(oslo_context.RequestContext):
    """The requester (in the API), and the ids of a log line."""

    def __init__(
        self,
        deletion_id: str = "-",
        target_project_id: str = "-",
        delegated: bool = False,
        trust_user_ids: Sequence[str] = (),
        **kwargs: Any,
    ) -> None:
        """Take the ids of a log line, and facts about the token.

        :param delegated: whether the token is of a trust or of OAuth1, so that another user can hold it
        :param trust_user_ids: trustor and trustee of a trust's token
        """
        super().__init__(**kwargs)
        self.deletion_id, self.target_project_id = deletion_id, target_project_id
        self.delegated, self.trust_user_ids = delegated, tuple(trust_user_ids)

    def to_dict(self) -> dict[str, Any]:
        """Return the values that the formatter fills in."""
        ids = {"deletion_id": self.deletion_id, "target_project_id": self.target_project_id}
        caller = f" global_request_id={self.global_request_id}" if self.global_request_id else ""
        return {**super().to_dict(), **ids, "caller": caller}


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of oslo.log with ``FORMAT`` as the default."""
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
    """Make every handler of every logger redact secrets.

    Call it again after anything that sets up logging anew.
    """
    for logger in (logging.root, *tuple(logging.root.manager.loggerDict.values())):
        for handler in logger.handlers if isinstance(logger, logging.Logger) else ():
            if not isinstance(handler.formatter, _Redacting):
                handler.setFormatter(_Redacting(handler.formatter or logging.Formatter()))


#: Fields whose values come from the path or a header of a request, each with its value outside of a request.
_FROM_OUTSIDE = MappingProxyType({"request_id": "-", "deletion_id": "-", "target_project_id": "-", "caller": ""})


class _Redacting(logging.Formatter):
    """Wraps a formatter: redacts secrets, and keeps foreign texts on one line.

    Names of projects and users, and the texts of exceptions, can contain line ends and escape codes. Therefore the
    message and the text of each exception become one printable line each. Only the frames of a traceback have lines of
    their own.
    """

    def __init__(self, inner: logging.Formatter) -> None:
        super().__init__()
        self._inner = inner

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record, and the lines of its traceback and stack."""
        plain = _Record(record)
        plain.msg, plain.args = _clean(record.getMessage()), None
        for name, default in _FROM_OUTSIDE.items():
            setattr(plain, name, str(record.__dict__.get(name, default)))
        if record.exc_info and record.exc_info[1] is not None:
            shown = _shown(record.exc_info[1])
            # Another handler may have stored its text of the traceback.
            plain.exc_info, plain.exc_text = (type(shown), shown, record.exc_info[2]), None
        elif record.exc_text:
            plain.exc_text = printable(record.exc_text)
        if record.stack_info:
            plain.stack_info = "\n".join(map(printable, record.stack_info.split("\n")))
        # Each foreign text is on one line, so no secret is split. Nothing was cut, which would break a line of JSON.
        return "\n".join(redact(line, len(line)) for line in self._inner.format(plain).split("\n"))


class _Record(logging.LogRecord):
    """A copy of a record that makes each text printable that a formatter sets.

    oslo.log's formatter sets the values of the context, and a summary of the exception that is being handled, even if
    the record has no ``exc_info``.
    """

    #: Texts of several lines, which are already printable.
    _lines = frozenset({"exc_text", "stack_info"})

    def __init__(self, record: logging.LogRecord) -> None:
        self.__dict__.update(record.__dict__)

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, str) and name not in self._lines:
            value = _clean(value) if name == "error_summary" else printable(value)
        super().__setattr__(name, value)


def _clean(text: str) -> str:
    """Return a text as one line without secrets."""
    return redact(printable(text))


def _text(value: object) -> str:
    """Return the text of an object as one line without secrets.

    The ``__str__`` of an exception can fail.
    """
    try:
        return _clean(str(value))
    except Exception:
        return "<exception str() failed>"


def _shown(error: BaseException) -> BaseException:
    """Return a copy of an exception and its chain, with texts of one line.

    A formatter writes the copy like the exception, with the same type, frames, notes, causes and members of a group.
    Suggestions of other names, and the position of a syntax error, are left out.
    """
    stand_ins: dict[int, BaseException] = {}
    unchained: list[BaseException] = []
    shown = _stand_in(error, stand_ins, unchained)
    while unchained:  # a chain can be long, and can be a loop
        real = unchained.pop()
        alike = stand_ins[id(real)]
        cause, context = real.__cause__, real.__context__
        alike.__cause__ = None if cause is None else _stand_in(cause, stand_ins, unchained)
        alike.__context__ = None if context is None else _stand_in(context, stand_ins, unchained)
        alike.__suppress_context__ = real.__suppress_context__
    return shown


def _stand_in(
    real: BaseException, stand_ins: dict[int, BaseException], unchained: list[BaseException]
) -> BaseException:
    """Return the copy of an exception; create it if there is none.

    A new copy, still without its chain, is added to both other arguments. It is not nested in :func:`_shown`: a nested
    recursive function would keep the frames of the traceback alive.
    """
    if id(real) not in stand_ins:
        members = real.exceptions if isinstance(real, BaseExceptionGroup) else ()
        stand_ins[id(real)] = _alike(real, [_stand_in(each, stand_ins, unchained) for each in members])
        unchained.append(real)
    return stand_ins[id(real)]


def _alike(real: BaseException, members: list[BaseException]) -> BaseException:
    """Return an exception with the type name, text, notes and traceback of another."""
    text, kind = _text(real), type(real)
    names = {"__module__": printable(str(kind.__module__)), "__qualname__": printable(kind.__qualname__)}
    base = BaseExceptionGroup if members else Exception
    made = type(printable(kind.__name__), (base,), {**names, "__str__": lambda _: text})
    alike: BaseException = made(text, members) if members else made()
    notes = getattr(real, "__notes__", None)
    for note in notes if isinstance(notes, list | tuple) else ():
        alike.add_note(_text(note))
    return alike.with_traceback(real.__traceback__)


class _Factory:
    """Gives every record the fields for the ids.

    Records outside of a context, or in the context of a library, need them, too.
    """

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __call__(self, *args: Any, **kwargs: Any) -> logging.LogRecord:
        record: logging.LogRecord = self._inner(*args, **kwargs)
        for name, default in _FROM_OUTSIDE.items():
            record.__dict__.setdefault(name, default)
        return record


@contextlib.contextmanager
def context(
    deletion_id: str = "-", project_id: str = "-", request_id: str = "", global_request_id: str | None = None
) -> Iterator[None]:
    """Put the ids on every log line of this thread during the block.

    :param global_request_id: the request id that the caller of the API sent
    """
    before = oslo_context.get_current()
    # "-" instead of None: for None oslo.context generates a new id.
    ids: dict[str, Any] = {"request_id": request_id or "-", "global_request_id": global_request_id}
    Context(deletion_id or "-", project_id or "-", overwrite=True, **ids)
    try:
        yield
    finally:
        if before is not None:
            before.update_store()
        else:
            compat.forget_context()


def about(deletion_id: str, project_id: str) -> None:
    """Set the deletion and the project for the rest of the current block."""
    current = oslo_context.get_current()
    if isinstance(current, Context):
        current.deletion_id, current.target_project_id = deletion_id, project_id
