"""The actions on the table of Identity → Projects."""

from __future__ import annotations


def add() -> None:
    """Add the row action and the table action."""
