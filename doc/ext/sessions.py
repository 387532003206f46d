"""Draws recorded terminal sessions as SVG.

``.. session:: FILE`` draws an asciicast file, which ``tests/cloud/recording.py`` writes: each line with the seconds
since the start. ``:rows:`` is the number of rows of a table that are shown; a line says how many are left out. Of the
lines that show the progress of one status, the first and the last one are shown.

There are two drawings of each session, and the style sheet shows one of them: with all columns, and, for a phone, with
lines that are broken between words, and with tables that are cut. A builder other than HTML shows the lines as text.
"""

from __future__ import annotations

import html
import itertools
import json
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive, directives

NARROW = 46  #: columns on a phone
CHARACTER, LINE = 7.83, 18  #: the size of a character of a font of 13 pixels, and of a line
GUTTER = 46  #: the width of the times

Line = tuple[float, str]


def lines(cast: str) -> Iterator[Line]:
    """Yield the lines of a recording, with the seconds at which each began."""
    _, *events = cast.splitlines()
    began, text = None, ""
    for event in events:
        seconds, _, output = json.loads(event)
        for part in re.split(r"(\r?\n)", output):
            if part in ("\n", "\r\n"):
                yield (seconds if began is None else began), text
                began, text = None, ""
            elif part:
                began, text = (seconds if began is None else began), text + part
    if text:
        yield began or 0.0, text


def shortened(found: Iterator[Line], rows: int) -> Iterator[Line]:
    """Yield the lines, with only the first rows of each table, and the first and last line of each status."""
    for status, group in itertools.groupby(_unbroken(_first_rows(found, rows)), key=lambda lines: _progress(lines[0])):
        same = list(group)
        for each in same if status is None else (same[:1] + same[1:][-1:]):
            yield from each


def _unbroken(found: Iterator[Line]) -> Iterator[list[Line]]:
    """Yield each line with those that continue it: the commands break a line after a comma or a semicolon."""
    lines: list[Line] = []
    for seconds, text in found:
        if lines and not (lines[-1][1].endswith((",", ";")) and text.startswith("  ")):
            yield lines
            lines = []
        lines.append((seconds, text))
    if lines:
        yield lines


def _progress(line: Line) -> str | None:
    """Return project and status of a line that shows the progress, and None for any other line."""
    match = re.match(r"(\S+: \w+)(?: \(\w+\))?; ", line[1])
    return match[1] if match else None


def _first_rows(found: Iterator[Line], rows: int) -> Iterator[Line]:
    seen, left, indent = 0, 0, ""
    for seconds, text in found:
        row = re.match(r"(\s*)\| ", text)
        seen = seen + 1 if row else 0
        if row and seen > rows + 1:  # the first one has the titles
            left, indent = left + 1, row[1]
            continue
        if left:
            yield seconds, f"{indent}… {left} more rows"
            left = 0
        yield seconds, text


def folded(found: Iterator[Line], columns: int) -> Iterator[tuple[float | None, str]]:
    """Yield the lines as a terminal of some columns shows them. A continued line has no time."""
    for seconds, text in found:
        yield seconds, text[:columns]
        for start in range(columns, len(text), columns):
            yield None, text[start : start + columns]


def narrowed(found: Iterator[Line], columns: int) -> Iterator[tuple[float | None, str]]:
    """Yield the lines for a screen that is narrower than the terminal was."""
    for seconds, text in found:
        if re.match(r"\s*[|+]", text):
            yield seconds, text if len(text) <= columns else f"{text[: columns - 1]}…"
        else:
            indent = re.match(r"\s*", text)[0]  # type: ignore[index]
            wrapped = textwrap.wrap(text, columns, subsequent_indent=f"{indent}  ", drop_whitespace=True) or [""]
            yield from zip((seconds, *([None] * (len(wrapped) - 1))), wrapped, strict=True)


def drawing(name: str, title: str, found: list[tuple[float | None, str]], columns: int, times: bool) -> str:
    """Return the SVG of some lines."""
    left = GUTTER if times else 8
    width, height = left + columns * CHARACTER + 8, LINE * len(found) + 16
    parts = []
    for number, (seconds, text) in enumerate(found):
        y = 8 + LINE * number + 13
        if times and seconds is not None and (number == 0 or seconds != found[number - 1][0]):
            parts.append(f'<text class="time" x="{left - 10}" y="{y}" text-anchor="end">{seconds:.0f} s</text>')
        kind = ' class="prompt"' if text.startswith("$ ") else ""
        parts.append(f'<text{kind} x="{left}" y="{y}" xml:space="preserve">{html.escape(text)}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="{name.rpartition("-")[2]}" viewBox="0 0 {width:g} {height:g}" '
        f'style="width:{width:g}px" role="img" aria-labelledby="{name}-title"><title id="{name}-title">'
        f'{html.escape(title)}</title><rect width="{width:g}" height="{height:g}" rx="6"/>{"".join(parts)}</svg>'
    )


def session(name: str, title: str, cast: str, rows: int) -> str:
    """Return both drawings of a recording."""
    found = list(shortened(lines(cast), rows))
    columns = int(json.loads(cast.splitlines()[0])["width"])
    wide = drawing(f"{name}-wide", title, list(folded(iter(found), columns)), columns, times=True)
    narrow = drawing(f"{name}-narrow", title, list(narrowed(iter(found), NARROW)), NARROW, times=False)
    return f'<div class="session">{wide}{narrow}</div>'


class Session(Directive):
    """``.. session:: FILE``."""

    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {
        "name": directives.unchanged_required,
        "title": directives.unchanged_required,
        "rows": directives.positive_int,
    }

    def run(self) -> list[nodes.Node]:
        environment = self.state.document.settings.env
        relative, path = environment.relfn2path(self.arguments[0])
        environment.note_dependency(relative)
        cast = Path(path).read_text()
        rows = self.options.get("rows", 5)
        only = nodes.raw("", session(self.options["name"], self.options["title"], cast, rows), format="html")
        return [only, nodes.comment("", "\n".join(text for _, text in shortened(lines(cast), rows)))]


def setup(app: Any) -> dict[str, Any]:
    """Connect the extension to Sphinx."""
    app.add_directive("session", Session)
    return {"parallel_read_safe": True}
