"""Writes the pages that the extensions generate."""

from __future__ import annotations

from pathlib import Path


def write_changed(path: Path, text: str) -> None:
    """Write a page, unless the file has this text already.

    An unchanged page keeps its time, so that Sphinx does not read it again.
    """
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
