"""Removes secrets and control characters from text for people. Pure.

No code of this service writes a secret into a message. But services repeat requests in their errors, libraries repeat
URLs with passwords, and services repeat names that users choose. Every function takes time in proportion to the length
of the text, whatever the text contains.
"""

from __future__ import annotations

import re

MASK = "***"

#: At most this many characters of a text are processed. A message is far shorter.
LONGEST = 64 * 1024
_CUT = "..."

#: A quote. Each string of JSON or Python around it puts backslashes before it.
_QUOTE = r"\\*+['\"]"
#: Begins a value that is in no quotes. A backslash before a quote is part of the quote.
_FIRST = r"(?:[^\s'\",;&}\])\\]|\\++(?!['\"]))"
_VALUE = rf"(?!b?{_QUOTE}){_FIRST}++"
#: Names of secrets. No message uses them as a heading, so a value follows a colon or an equals sign.
_NAME = (
    r"(?:password|passwd|passphrase|admin_?pass|x-(?:auth|subject|service|storage)-token|auth_token|api_?key|"
    r"(?:access|private|secret)_key|client_secret|temp_url_(?:key|sig))"
)
_IS = r"\s*+[:=]\s*+"
#: The rest of a block of PEM. If the block has no end, the text was cut, and all of it is taken.
_PEM_REST = r".*?(?:-----END[^\-]{0,64}+-{0,5}+|\Z)"
#: A secret may have any length, and a repeat with no end is tried again from each place where it may begin. So what is
#: repeated here either takes all that it could take for good (``++``), so that each character is looked at a few times
#: at most, or has a bound, or takes the rest of the text if its end is missing.
_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    # Keystone's tokens: Fernet.
    (re.compile(r"gAAAAA[\w\-=%]{16,}+"), MASK),
    (
        re.compile(rf"({_NAME}(?:{_QUOTE})?+{_IS})-----BEGIN[^\-]{{0,64}}+-----{_PEM_REST}", re.I | re.S),
        rf"\1{MASK}",
    ),
    (re.compile(rf"({_NAME}(?:{_QUOTE})?+{_IS}){_VALUE}", re.I), rf"\1{MASK}"),
    # "secret: 3 gone" is a message about Barbican's secrets: here the colon counts only in JSON.
    (re.compile(rf"(\b(?:token|secret)\s*+=\s*+){_VALUE}", re.I), rf"\1{MASK}"),
    (
        re.compile(
            rf"(\bAuthorization(?:{_QUOTE})?+{_IS}"
            rf"(?:(?:Bearer|Basic|AWS\S{{0,64}}+)\s++|[\w\-]{{1,64}}+[ \t]++)){_VALUE}",
            re.I,
        ),
        rf"\1{MASK}",
    ),
)
_PRIVATE_KEY = re.compile(rf"-----BEGIN [A-Z0-9 ]{{0,64}}PRIVATE KEY(?: BLOCK)?+-----{_PEM_REST}", re.S)
#: The name of a secret and the quote that begins its value. If the name is not in quotes, this quote may also end a
#: text (``"password: " + x``): then it counts only before a character that may begin a value.
_OPENING = re.compile(
    rf"(?:{_NAME}|(?P<header>\bAuthorization)|(?<=['\"])(?:token|secret)(?={_QUOTE})|\b(?:token|secret)(?=\s*+=))"
    rf"(?P<quoted>{_QUOTE})?+{_IS}[bu]?+(?P<slashes>\\*+)(?P<quote>['\"])(?(quoted)|(?={_FIRST}))"
    r"(?(header)(?:[\w\-]{1,64}+[ \t]++)?+)",  # the scheme stays
    re.I,
)
_QUOTES = {quote: re.compile(rf"(?<!\\)(\\*+){quote}") for quote in "'\""}
#: Keystone's other tokens, JWS. Also what only begins like one is taken, so that it is looked at once.
_JWS = re.compile(r"eyJ[\w\-]*+(\.[\w\-]++)?+(\.[\w\-]++)?+")
#: ``user:password@host``; transport_url names several hosts, each with its own. What is before the ``@`` may hold any
#: character but a slash and a space. If ``user:`` is not followed by a number, which may be a port, a password may hold
#: slashes or spaces. With slashes, it ends at the last ``@`` before a space or a quote. With spaces, it ends at the
#: first ``@``, after three spaces at most.
_PLACE = re.compile(
    r"://(?:"
    r"(?=[^\s/:@,'\"\[]++:(?!\d*+(?:[\s/?#,]|\Z)))"
    r"(?:[^\s/@]++(?: [^\s'\"@/:,]++){1,3}+@[^\s/]*+|[^\s/]++(?:/(?:(?:(?!://)[^\s'\"@])*+@)++[^\s/]*+)?+)"
    r"|[^\s/]++)"
)
_LOGIN = re.compile(r"([^:@,'\"]*+:).+", re.S)
_FURTHER_LOGIN = re.compile(r"([^,]*+,[^:@,'\"]*+:).+", re.S)


def redact(text: str, most: int = LONGEST) -> str:
    """Return the text with every secret that has a known form replaced by ``***``.

    A text of more than ``most`` characters is cut first, at the end of a word, because a part of a secret has no known
    form. A text without the end of a word is replaced as a whole.
    """
    cut = ""
    if len(text) > most:
        head = text[: most + 1]
        end = max(head.rfind(" "), head.rfind("\n"))
        text, cut = head[:end] if end >= 0 else MASK, _CUT
    text = _without_quoted(_PRIVATE_KEY.sub(MASK, text))
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return _PLACE.sub(_without_logins, _JWS.sub(_without_jws, text)) + cut


def short(text: str, most: int) -> str:
    """Return the text as one line without secrets, and of ``most`` characters at most."""
    words = text[:LONGEST].split()
    if len(text) > LONGEST:
        words = words[:-1]  # the last word may be a part of a secret
    return redact(" ".join(words), 8 * most)[:most]


def _without_quoted(text: str) -> str:
    r"""Return the text with every secret that is in quotes replaced by ``***``.

    The next quote of the same kind and with as many backslashes ends the value. A quote with more backslashes is part
    of the value (``\"`` in ``"a\"b"``). A quote with fewer backslashes ends the string around the value: the value was
    cut. The end of the text ends a value that was cut as well. A value that was cut gets a closing quote, so that a
    second call finds the same value.
    """
    parts, at = [], 0
    while opening := _OPENING.search(text, at):
        quote, slashes = opening["quote"], len(opening["slashes"])
        for closing in _QUOTES[quote].finditer(text, opening.end()):
            if len(closing[1]) <= slashes:
                end, after = closing.start(), closing.end() if len(closing[1]) == slashes else closing.start()
                break
        else:
            end = after = len(text)
        masked = MASK + opening["slashes"] + quote if end > opening.end() else text[end:after]
        parts += [text[at : opening.end()], masked]
        at = after
    return "".join([*parts, text[at:]])


def _without_jws(match: re.Match[str]) -> str:
    parts = match[0].split(".")
    whole = len(parts) == 3 and len(parts[0]) >= 11 and min(map(len, parts)) >= 8
    return MASK if whole else match[0]


def _without_logins(match: re.Match[str]) -> str:
    login, *further, host = match[0].removeprefix("://").split("@") if "@" in match[0] else ("", match[0][3:])
    if not login and not further:
        return match[0]
    masked = [_LOGIN.sub(rf"\1{MASK}", login)]
    # A host, a comma and the next user follow the first login. Without a comma the text still belongs to the password.
    masked += [_FURTHER_LOGIN.sub(rf"\1{MASK}", each) if "," in each else MASK for each in further]
    return "://" + "@".join([*masked, host])
