"""Sends notices as mails: to the members of a project, to whom a property names, or to the operator."""

from __future__ import annotations

import contextlib
import email.message
import email.policy
import email.utils
import smtplib
import socket
import ssl
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

from keystoneauth1 import exceptions as ka_exceptions
from keystoneauth1.adapter import Adapter
from oslo_config import cfg

from cleanup_orchestrator.cloud import connections
from cleanup_orchestrator.core.texts import printable
from cleanup_orchestrator.errors import BadAnswer
from cleanup_orchestrator.notices import recipients
from cleanup_orchestrator.notices.driver import Notice, NoticeDriver, NoticeFailed, Sent
from cleanup_orchestrator.store import Store

#: By event: the subject. Another event has the last one.
_SUBJECTS = {
    "accepted": "The deletion of project $project_name was requested",
    "reminder": "Project $project_name will be deleted from $not_before on",
    "draining": "Project $project_name is being locked for its deletion",
    "blocked": "The deletion of project $project_name waits for a person",
    "deleted": "Project $project_name was deleted",
    "purged": "The resources of project $project_name were deleted",
    "leftovers": "The deletion of project $project_name ended, and resources are left",
    "cancelled": "The deletion of project $project_name was cancelled",
    "failed": "The deletion of project $project_name failed",
    "": "The deletion of project $project_name: $event",
}
_BODY = """Project: $project_name ($project_id)
Deletion: $deletion_id, mode $mode, status $status
Requested by: $user_name at $created_at
Reason: $request_reason
Ticket: $ticket
Not before: $not_before

$message
$blocked_message

Resources found: $found, deleted: $deleted, left: $remaining
"""


def rendered(notice: Notice, folder: str | None) -> tuple[str, str]:
    """Return the subject and the text of a mail.

    Words such as ``$project_name`` are replaced by the fields of the payload, its counters, and ``$event``. A value is
    one printable line: the name of a project is chosen by a tenant. An empty value is ``-``.

    :param folder: with the operator's templates; see ``[notices] mail_templates``
    :raises NoticeFailed: no template for the event can be read
    """
    values = {"event": notice.event, **notice.payload, **notice.payload["counters"]}
    words = {name: printable(str(value)) if value not in ("", None) else "-" for name, value in values.items()}
    subject, text = _SUBJECTS.get(notice.event, _SUBJECTS[""]), _BODY
    if folder:
        subject, text = _template(Path(folder), notice.event)
    return Template(subject).safe_substitute(words).strip(), Template(text).safe_substitute(words)


def _template(folder: Path, event: str) -> tuple[str, str]:
    for name in (event, "default"):
        try:
            subject, _, text = (folder / f"{name}.txt").read_text(encoding="utf-8").partition("\n")
        except FileNotFoundError:
            continue
        except (OSError, UnicodeDecodeError) as error:
            raise NoticeFailed(f"[notices] mail_templates: {folder / name}.txt: {error}") from error
        return subject, text.lstrip("\n")
    raise NoticeFailed(f"[notices] mail_templates: {folder} has neither {event}.txt nor default.txt")


def mail(sender: str, to: str, notice: Notice, folder: str | None) -> email.message.EmailMessage:
    """Return the mail of a notice to one recipient, who sees no other one."""
    subject, text = rendered(notice, folder)
    made = email.message.EmailMessage(policy=email.policy.SMTP)
    made["From"], made["To"], made["Subject"] = sender, to, subject[:200]
    made["Date"] = email.utils.formatdate()  # RFC 5322 requires it, and smtplib does not add it
    made["Auto-Submitted"] = "auto-generated"
    made["Message-ID"] = f"<{notice.message['message_id']}@cleanup-orchestrator.invalid>"
    made.set_content(text)
    return made


class MailDriver(NoticeDriver):
    """Sends each notice to each recipient."""

    by = "mail"

    def __init__(self, conf: Any, topics: Any, transport: Any) -> None:
        super().__init__(conf, topics, transport)
        for name in ("mail_server", "mail_from"):
            if not self.options[name]:
                raise cfg.RequiredOptError(name, cfg.OptGroup("notices"))
        self._clouds: connections.Clouds | None = None

    def send(self, notice: Notice, store: Store) -> Sent:
        """Send a notice to all recipients in one connection.

        :raises NoticeFailed: Keystone or the server does not answer, or the server accepted none
        """
        try:
            to = recipients.addresses(notice.payload, self.options.mail_to, self._identity, store)
        except (ka_exceptions.ClientException, BadAnswer) as error:
            raise NoticeFailed(f"Keystone does not say who gets it: {type(error).__name__}", again=True) from error
        if not to:
            raise NoticeFailed("no recipient has an address: see [notices] mail_to")
        mails = [mail(self.options.mail_from, each, notice, self.options.mail_templates) for each in to]
        try:
            server = self._connected(self.options.timeout * (1 + len(mails)))
            try:
                refused = _given(server, mails)
                with contextlib.suppress(OSError, smtplib.SMTPException):  # the server has the mails
                    server.quit()
            finally:
                server.close()
        except (OSError, smtplib.SMTPException) as error:
            raise NoticeFailed(f"{self.options.mail_server}: {type(error).__name__}: {error}", again=True) from error
        if len(refused) == len(to):
            said = "; ".join(f"{address}: {why}" for address, why in refused.items())
            raise NoticeFailed(f"{self.options.mail_server} refused every recipient: {said}")
        return Sent(tuple(each for each in to if each not in refused), refused)

    def _identity(self) -> Adapter:
        if self._clouds is None:
            self._clouds = connections.Clouds(self.conf)
        return self._clouds.identity(self._clouds.admin_session())

    def _connected(self, seconds: float) -> smtplib.SMTP:
        """Return a connection that ends after some time, whatever the server does."""
        o = self.options
        secure = ssl.create_default_context() if o.mail_security != "none" else None
        if o.mail_security == "tls":
            server: smtplib.SMTP = _SecureConnection(
                seconds, o.mail_server, o.mail_port, timeout=o.timeout, context=secure
            )
        else:
            server = _Connection(seconds, o.mail_server, o.mail_port, timeout=o.timeout)
        try:
            if o.mail_security == "starttls":
                server.starttls(context=secure)
            if o.mail_user:
                server.login(o.mail_user, o.mail_password or "")
        except BaseException:
            server.close()
            raise
        return server


class _Bounded(smtplib.SMTP):
    """Ends after some time. smtplib has a limit for each read only, and a server can send a byte at a time."""

    def __init__(self, seconds: float, *args: Any, **kwargs: Any) -> None:
        self._timer = threading.Timer(seconds, self._cut)
        self._timer.daemon = True
        super().__init__(*args, **kwargs)

    def connect(self, *args: Any, **kwargs: Any) -> Any:
        """Connect, and count the time from now on."""
        self._timer.start()
        return super().connect(*args, **kwargs)

    def close(self) -> None:
        """Close the connection."""
        self._timer.cancel()
        super().close()

    def _cut(self) -> None:
        if self.sock is not None:
            with contextlib.suppress(OSError):
                self.sock.shutdown(socket.SHUT_RDWR)


class _Connection(_Bounded):
    """Without encryption, or with STARTTLS."""


class _SecureConnection(_Bounded, smtplib.SMTP_SSL):
    """With TLS from the beginning."""


def _given(server: smtplib.SMTP, mails: Sequence[email.message.EmailMessage]) -> Mapping[str, str]:
    """Give mails to a server; return the addresses that it refused, and why.

    :raises OSError, smtplib.SMTPException: the connection ends before the server has accepted a mail. Afterwards no
        error is raised: another try would send mails twice
    """
    refused: dict[str, str] = {}
    for number, each in enumerate(mails):
        try:
            server.send_message(each)
        except smtplib.SMTPRecipientsRefused as error:
            refused |= {address: str(code) for address, (code, _text) in error.recipients.items()}
        except smtplib.SMTPResponseException as error:
            refused[str(each["To"])] = str(error.smtp_code)
        except (OSError, smtplib.SMTPException) as error:
            if len(refused) == number:
                raise
            refused |= {str(rest["To"]): type(error).__name__ for rest in mails[number:]}
            break
    return refused
