"""Shows sizes: bytes for programs, and a short text for people."""

from __future__ import annotations

from cliff import columns

from cleanup_orchestrator.sdk.text import size_text


def text(size: int | None) -> str:
    """Return a size as a person reads it; empty if it is not known."""
    return "" if size is None else size_text(size)


class Size(columns.FormattableColumn["int | None"]):
    """The size of a resource in bytes, or ``None``. Unknown sizes are sorted before the others."""

    def human_readable(self) -> str:
        """Return it as text."""
        return text(self._value)

    def __lt__(self, other: object) -> bool:
        """Return whether it is smaller."""
        return isinstance(other, Size) and (-1 if self._value is None else self._value) < (
            -1 if other._value is None else other._value
        )
