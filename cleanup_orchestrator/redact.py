"""Makes text fit for a person to read: without secrets, and without characters that do something to a screen or a log.

Nothing here writes a secret on purpose. But services put what they were sent into their errors, and libraries put URLs
with passwords into theirs. Users choose names, and services repeat them. All of it takes time in proportion to the
length of the text, whatever is in it. Pure.
"""

from __future__ import annotations

import re

MASK = "***"

#: Characters of a longer text that are looked at: a message is far shorter.
LONGEST = 64 * 1024
_CUT = "..."

_VALUE = r"[^\s'\",;&}\])]++"
#: A secret may have any length, and a repeat with no end is tried again from each place where it may begin. So what is
#: repeated here either takes all that it could take for good (``++``), so that each character is looked at a few times
#: at most, or has a bound.
_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    # Keystone's tokens: Fernet.
    (re.compile(r"gAAAAA[\w\-=%]{16,}+"), MASK),
    # Names that are never a heading of ours: a colon or an equals sign is followed by the value.
    (
        re.compile(
            r"((?:password|passwd|passphrase|admin_?pass|x-(?:auth|subject|service|storage)-token|auth_token|api_?key|"
            r"(?:access|private|secret)_key|client_secret|temp_url_(?:key|sig))['\"]?\s*+[:=]\s*+(?:[bu](?=['\"]))?['\"]?+)"
            + _VALUE,
            re.I,
        ),
        rf"\1{MASK}",
    ),
    # "secret: 3 gone" is a line of ours about Barbican's secrets: here the colon counts only in JSON.
    (re.compile(r"(\b(?:token|secret)\s*+=\s*+['\"]?+)" + _VALUE, re.I), rf"\1{MASK}"),
    (re.compile(r"(['\"](?:token|secret)['\"]\s*+:\s*+['\"])[^'\"]++", re.I), rf"\1{MASK}"),
    (
        re.compile(r"(\bAuthorization['\"]?\s*+[:=]\s*+['\"]?+(?:Bearer|Basic|AWS\S{0,64}+)\s++)" + _VALUE, re.I),
        rf"\1{MASK}",
    ),
)
#: Keystone's other tokens, JWS. Also what only begins like one is taken, so that it is looked at once.
_JWS = re.compile(r"eyJ[\w\-]*+(\.[\w\-]++)?+(\.[\w\-]++)?+")
#: ``user:password@host``; transport_url names several hosts, each with its own. What is before the ``@`` may hold any
#: character but these two.
_PLACE = re.compile(r"://[^\s/]++")
_LOGIN = re.compile(r"([^:@,'\"]*+:).+", re.S)
_FURTHER_LOGIN = re.compile(r"([^,]*+,[^:@,'\"]*+:).+", re.S)
#: What does something to a terminal, or begins a new line in a log: control characters, other line ends, and those that
#: turn the direction of writing.
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def redact(text: str, most: int = LONGEST) -> str:
    """Return the text with every secret that can be told from its form replaced by ``***``.

    A text of more than ``most`` characters is cut first, at the end of a word: a secret that is cut in two would not be
    told from its form. One without a word's end is masked as a whole.
    """
    if len(text) > most:
        head = text[: most + 1]
        end = max(head.rfind(" "), head.rfind("\n"))
        text = f"{head[:end] if end >= 0 else MASK}{_CUT}"
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return _PLACE.sub(_without_logins, _JWS.sub(_without_jws, text))


def short(text: str, most: int) -> str:
    """Return the text as one line without secrets, and of ``most`` characters at most."""
    words = text[:LONGEST].split()
    if len(text) > LONGEST:
        words = words[:-1]  # it may be half a secret
    return redact(" ".join(words), 8 * most)[:most]


def printable(text: str) -> str:
    r"""Return the text with each character that is no text in Python's notation (``\x1b``), line ends included."""
    return _UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def _without_jws(found: re.Match[str]) -> str:
    parts = found[0].split(".")
    whole = len(parts) == 3 and len(parts[0]) >= 11 and min(map(len, parts)) >= 8
    return MASK if whole else found[0]


def _without_logins(found: re.Match[str]) -> str:
    login, *further, host = found[0].removeprefix("://").split("@") if "@" in found[0] else ("", found[0][3:])
    if not login and not further:
        return found[0]
    masked = [_LOGIN.sub(rf"\1{MASK}", login)]
    # After the first one comes a host, a comma, and the next user; without a comma it is still the password.
    masked += [_FURTHER_LOGIN.sub(rf"\1{MASK}", each) if "," in each else MASK for each in further]
    return "://" + "@".join([*masked, host])
