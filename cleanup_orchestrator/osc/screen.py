"""Writes lines to the error output, and on a terminal a block below them that is redrawn."""

from __future__ import annotations

import os
import re
import textwrap
import unicodedata
from collections.abc import Iterable
from typing import Any, TextIO


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
        shown = [part for line in lines for part in (folded(line, room) if room else [line])]
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


def folded(line: str, columns: int, break_words: bool = False) -> list[str]:
    """Return a line in parts that fit. A command at its end has a line of its own, and is never broken."""
    if width(line) <= columns:
        return [line]
    match = re.fullmatch(r"( *)(?:(.*?:) )?(openstack .+)", line)
    indent, text, command = match.groups() if match else (line[: -len(line.lstrip())], line.lstrip(), "")
    text = text or ""
    if text.startswith(("|", "+")):  # a table
        return [line]
    deeper = f"{indent}    "
    within: dict[str, Any] = {"initial_indent": indent, "subsequent_indent": deeper}
    parts = textwrap.wrap(text, columns, break_long_words=break_words, break_on_hyphens=False, **within)
    return [*parts, f"{deeper if text else indent}{command}"] if command else parts


def _columns(char: str) -> int:
    return 2 if unicodedata.east_asian_width(char) in "WF" else int(not unicodedata.combining(char))


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
