"""Writes lines to the error output, and on a terminal a block below them that is redrawn."""

from __future__ import annotations

import os
import shlex
import unicodedata
from collections.abc import Iterable
from typing import TextIO

from cleanup_orchestrator.sdk import one_line

#: Ends a cell that was shortened, and begins the further parts of a line that was folded.
MARK = "…"
#: Comes before what is not broken. It is a control character, which :func:`one_line` replaces in texts of a server.
_UNBROKEN = "\x02"


def size(stream: TextIO) -> tuple[int, int]:
    """Return the columns and the lines of a terminal."""
    try:
        found = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        return 80, 24
    return found.columns or 80, found.lines or 24


class Screen:
    """Permanent lines, and on a terminal a block below them that is redrawn."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.live = stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._drawn = 0

    def _size(self) -> tuple[int, int]:
        return size(self.stream)

    @property
    def room(self) -> int:
        """The columns of the terminal; 0: there is no terminal, so that a line may have any length."""
        return self._size()[0] if self.stream.isatty() else 0

    def _erase(self) -> str:
        up = f"\x1b[{self._drawn - 1}A" if self._drawn > 1 else ""
        erase = f"\r{up}\x1b[J" if self._drawn else ""
        self._drawn = 0
        return erase

    def say(self, lines: Iterable[str]) -> None:
        """Write permanent lines. Erases the block until the next :meth:`draw`. A terminal gets them in its width."""
        room = self.room
        shown = [part for line in lines for part in (folded(line, room) if room else [plain(line)])]
        self.stream.write(self._erase() + "".join(f"{line}\n" for line in shown))
        self.stream.flush()

    def draw(self, lines: list[str]) -> None:
        """Draw the block. Does nothing without a terminal."""
        if not self.live:
            return
        columns, rows = self._size()
        if len(lines) > rows - 1:
            # Lines that scrolled out could not be erased.
            lines = [*lines[: rows - 2], f"... and {len(lines) - rows + 2} more"]
        erase = self._erase()
        self._drawn = len(lines)
        self.stream.write(erase + "\n".join(cut(line, columns - 1) for line in lines))
        self.stream.flush()

    def close(self) -> None:
        """Erase the block."""
        self.say(())


def unbroken(text: str) -> str:
    """Return a text, such as a command, that a terminal gets in one piece: on a line of its own if it does not fit.

    Only our own code marks a text: no text of a server has the mark, because ``one_line`` replaces it.
    """
    return f"{_UNBROKEN}{text}"


def command(template: str, **values: str) -> str:
    """Return a command that a user can copy, in one piece; each value is one word of it."""
    return unbroken(template.format(**{name: shlex.quote(one_line(value)) for name, value in values.items()}))


def plain(line: str) -> str:
    """Return a line without the mark of :func:`unbroken`."""
    return line.replace(_UNBROKEN, "")


def folded(line: str, columns: int) -> list[str]:
    """Return a line in parts that fit, except for what is :func:`unbroken`.

    Users choose names, and services choose messages. So no part but the first begins with a word of the text, and a
    long word is broken as well: a terminal would break it where the next line looks like one of ours.
    """
    text, _, whole = line.partition(_UNBROKEN)
    if not text.strip() or width(text + whole) <= columns:
        return [text + whole]
    indent = line[: -len(line.lstrip(" "))]
    return [*_wrapped(text.strip(" "), indent, columns), *([f"{indent}    {whole}"] if whole else [])]


def _wrapped(text: str, indent: str, columns: int) -> list[str]:
    """Return a text in lines of at most so many columns."""
    deeper = f"{indent}  {MARK} "
    columns = max(columns, len(deeper) + 2)
    lines, line, begun = [], indent, False
    for word in text.split(" "):
        if begun and width(line) + 1 + width(word) <= columns:
            line += f" {word}"
            continue
        if begun:
            lines.append(line)
            line = deeper
        while width(line) + width(word) > columns:
            part = cut(word, columns - width(line))
            lines.append(line + part)
            line, word = deeper, word[len(part) :]
        line, begun = line + word, True
    return [*lines, line]


def _columns(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf") or "\u1160" <= char <= "\u11ff":
        return 0  # it is drawn over the character before it, or not at all
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def width(text: str) -> int:
    """Return the number of columns that a text takes."""
    return sum(map(_columns, text))


def cut(text: str, columns: int) -> str:
    """Return the part of a text that fits. A wrapped line could not be erased."""
    used = 0
    for n, char in enumerate(text):
        used += _columns(char)
        if used > columns:
            return text[:n]
    return text
