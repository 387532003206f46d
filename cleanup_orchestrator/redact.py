"""Takes secrets out of text that a person will read: messages of the record, log lines, notifications.

Nothing here writes a secret on purpose. But services put what they were sent into their errors, and libraries put URLs
with passwords into theirs. Pure.
"""

from __future__ import annotations

import re

MASK = "***"

_VALUE = r"[^\s'\",;&}\])]+"
_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    # Keystone's tokens: Fernet, and JWS.
    (re.compile(r"gAAAAA[\w\-=%]{16,}"), MASK),
    (re.compile(r"eyJ[\w\-]{8,}\.[\w\-]{8,}\.[\w\-]{8,}"), MASK),
    # scheme://user:password@host; transport_url names several hosts, each with its own.
    (re.compile(r"((?:://|,)[^\s/:@,'\"]*:)[^\s/@]+(?=@)"), rf"\1{MASK}"),
    # Names that are never a heading of ours: a colon or an equals sign is followed by the value.
    (
        re.compile(
            r"((?:password|passwd|passphrase|admin_?pass|x-(?:auth|subject|service|storage)-token|auth_token|api_?key|"
            r"(?:access|private|secret)_key|client_secret|temp_url_(?:key|sig))['\"]?\s*[:=]\s*(?:[bu](?=['\"]))?['\"]?)"
            + _VALUE,
            re.I,
        ),
        rf"\1{MASK}",
    ),
    # "secret: 3 gone" is a line of ours about Barbican's secrets: here the colon counts only in JSON.
    (re.compile(r"(\b(?:token|secret)\s*=\s*['\"]?)" + _VALUE, re.I), rf"\1{MASK}"),
    (re.compile(r"(['\"](?:token|secret)['\"]\s*:\s*['\"])[^'\"]+", re.I), rf"\1{MASK}"),
    (re.compile(r"(\bAuthorization['\"]?\s*[:=]\s*['\"]?(?:Bearer|Basic|AWS\S*)\s+)" + _VALUE, re.I), rf"\1{MASK}"),
)


def redact(text: str) -> str:
    """Return the text with every secret that can be told from its form replaced by ``***``."""
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text
