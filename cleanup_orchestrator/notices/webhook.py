"""Sends notices as signed JSON to a URL of the operator."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from typing import Any
from urllib.parse import urlsplit

import requests
from oslo_config import cfg

from cleanup_orchestrator.keystone.http_limits import MIB, LimitedAdapter, Limits, ResponseRefused
from cleanup_orchestrator.notices.driver import Notice, NoticeDriver, NoticeFailed, Sent
from cleanup_orchestrator.store import Store

#: The header with the time and the signature: ``t=SECONDS,v1=HEX``.
SIGNATURE = "X-Cleanup-Signature"
_SHORTEST = 32


def signature(secret: str, seconds: int, body: bytes) -> str:
    """Return the signature of a webhook: HMAC-SHA-256 over the time, a dot and the body.

    :param seconds: since the epoch; the receiver refuses an old time, which prevents replays
    """
    digest = hmac.new(secret.encode(), f"{seconds}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={seconds},v1={digest}"


def _place(url: str) -> str:
    """Return scheme, host and port of a URL: the rest, such as a path with a key, is a secret of the operator."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


class WebhookDriver(NoticeDriver):
    """Sends each notice with POST."""

    by = "webhook"

    def __init__(self, conf: Any, topics: Any, transport: Any) -> None:
        super().__init__(conf, topics, transport)
        if not self.options.webhook_url:
            raise cfg.RequiredOptError("webhook_url", cfg.OptGroup("notices"))
        if len(self.options.webhook_secret or "") < _SHORTEST:
            raise ValueError(f"[notices] webhook_secret must have {_SHORTEST} or more characters")

    def send(self, notice: Notice, store: Store) -> Sent:
        """Send a notice once.

        :raises NoticeFailed: the receiver does not answer with 2xx
        """
        o = self.options
        place = _place(o.webhook_url)
        body = json.dumps(notice.message, default=str).encode()
        headers = {"Content-Type": "application/json", SIGNATURE: signature(o.webhook_secret, int(time.time()), body)}
        try:
            with requests.Session() as session:
                session.trust_env = False
                for scheme in ("http://", "https://"):
                    session.mount(scheme, LimitedAdapter(Limits(MIB, o.timeout)))
                answer = session.post(
                    o.webhook_url,
                    data=body,
                    headers=headers,
                    timeout=o.timeout,
                    verify=o.webhook_cafile or True,
                    allow_redirects=False,
                )
        except ResponseRefused as error:
            # The text of the error begins with the whole URL.
            raise NoticeFailed(f"{place}: {str(error).partition(': ')[2]}", again=True) from error
        except OSError as error:  # as the errors of requests are
            raise NoticeFailed(f"{place}: {type(error).__name__}", again=True) from error
        if 200 <= answer.status_code < 300:
            return Sent((place,))
        text = f"{place} answered {answer.status_code}"
        if answer.is_redirect:
            text += ", and redirects are not followed: set [notices] webhook_url to the final URL"
        raise NoticeFailed(text, again=answer.status_code >= 500 or answer.status_code in (408, 425, 429))
