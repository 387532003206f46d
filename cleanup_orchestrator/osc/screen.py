"""Writes lines to the error output, and on a terminal a block below them that is redrawn."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable
from typing import TextIO


class Screen:
    """Permanent lines, and on a terminal a block below them that is redrawn."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.live = stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._drawn = 0

    def _size(self) -> tuple[int, int]:
        try:
            size = os.get_terminal_size(self.stream.fileno())
        except (OSError, ValueError):
            return 80, 24
        return size.columns or 80, size.lines or 24

    def _erase(self) -> str:
        up = f"\x1b[{self._drawn - 1}A" if self._drawn > 1 else ""
        erase = f"\r{up}\x1b[J" if self._drawn else ""
        self._drawn = 0
        return erase

    def say(self, lines: Iterable[str]) -> None:
        """Write permanent lines. Erases the block until the next :meth:`draw`."""
        self.stream.write(self._erase() + "".join(f"{line}\n" for line in lines))
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


def cut(text: str, columns: int) -> str:
    """Return the part of a text that fits. A wrapped line could not be erased."""
    used = 0
    for n, char in enumerate(text):
        used += 2 if unicodedata.east_asian_width(char) in "WF" else not unicodedata.combining(char)
        if used > columns:
            return text[:n]
    return text
