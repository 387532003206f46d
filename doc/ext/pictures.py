"""Draws the pictures of the manual as SVG, from text in the pages and from the table of legal moves.

Four directives:

``.. usual::`` draws the statuses of a deletion without an obstacle. A line ``status: text`` says what happens in it.
There must be a line for each status in ``ORDER`` of ``cleanup_orchestrator.core.transitions``.

``.. states::`` draws ``MOVES`` of ``cleanup_orchestrator.core.transitions``. A status without a place in ``_SIDES`` is
an error of the build, so the picture always has every status and every move.

``.. boxes::`` draws boxes and arrows. A line ``name (column, row): text`` is a box, and ``a -> b: text`` an arrow.
``:column:`` sets the width of a column.

``.. sequence::`` draws messages. A line ``name: text`` is a participant, ``a -> b: text`` a message, ``loop text`` and
``end`` surround what is repeated.

The SVG is part of the page. Its colours are those of the style sheet, so it fits the light and the dark theme. It needs
no other program and no script. No picture is wider than ``WIDEST``, so that its text can be read on a phone. A builder
other than HTML shows the description instead.
"""

from __future__ import annotations

import html
import re
import textwrap
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive, directives

from cleanup_orchestrator.core import transitions
from cleanup_orchestrator.core.deletion import Status
from cleanup_orchestrator.core.transitions import By

#: Statuses beside the usual order: the column (-1: left, 1: right) and the row, where the first status has row 0.
_SIDES: dict[Status, tuple[int, float]] = {
    Status.PLANNED: (-1, 2.0),
    Status.LEFTOVERS: (-1, 4.5),
    Status.PURGED: (-1, 6.0),
    Status.FAILED: (1, 2.5),
    Status.CANCELLING: (1, 4.5),
    Status.CANCELLED: (1, 6.0),
}

#: The largest width. On a phone of 390 pixels this scales text of 13 pixels to 8.6.
WIDEST = 540

_MARKERS = (
    '<defs><marker id="{0}-head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" '
    'orient="auto-start-reverse" markerUnits="userSpaceOnUse"><path d="M0 0 10 5 0 10z"/></marker></defs>'
)


class PictureError(Exception):
    """The text of a picture cannot be drawn; the message says why."""


# ------------------------------------------------------------------------------------------------------------- shapes


def _svg(name: str, width: float, height: float, title: str, parts: list[str]) -> str:
    """Return a complete picture. ``name`` makes its IDs unique in the page."""
    if width > WIDEST:
        raise PictureError(f"the picture {name!r} is {width:g} wide, and {WIDEST} is the limit")
    return (
        f'<div class="picture"><svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'style="width:{width:g}px" role="img" aria-labelledby="{name}-title"><title id="{name}-title">'
        f"{html.escape(title)}</title>{_MARKERS.format(name)}{''.join(parts)}</svg></div>"
    )


def _text(x: float, y: float, lines: list[str], kind: str = "", anchor: str = "middle") -> str:
    """Return lines of text whose middle is at a point. The first line of several is bold."""
    top = y - (len(lines) - 1) * 8 + 4.5
    spans = (
        f'<tspan x="{x:g}" y="{top + 16 * n:g}"{" class=name" if n == 0 and len(lines) > 1 else ""}>'
        f"{html.escape(line)}</tspan>".replace("class=name", 'class="name"')
        for n, line in enumerate(lines)
    )
    return f'<text class="{kind}" text-anchor="{anchor}">{"".join(spans)}</text>'


def _box(x: float, y: float, width: float, height: float, lines: list[str], kind: str) -> str:
    """Return a box with text. The point is its middle."""
    return (
        f'<rect class="box {kind}" x="{x - width / 2:g}" y="{y - height / 2:g}" width="{width:g}" '
        f'height="{height:g}" rx="6"/>{_text(x, y, lines)}'
    )


def _path(name: str, points: str, kind: str = "", both: bool = False) -> str:
    start = f' marker-start="url(#{name}-head)"' if both else ""
    return f'<path class="arrow {kind}" d="{points}"{start} marker-end="url(#{name}-head)"/>'


# ------------------------------------------------------------------------------------------------------------- states


def _places() -> dict[Status, tuple[float, float]]:
    """Return the column and the row of each status."""
    places: dict[Status, tuple[float, float]] = {status: (0, row) for row, status in enumerate(transitions.ORDER)}
    places |= _SIDES
    if missing := sorted(set(Status) - set(places)):
        raise PictureError(f"give these statuses a place in _SIDES of {__name__}.py: {', '.join(missing)}")
    return places


def states() -> str:
    """Return the picture of the statuses and all legal moves between them."""
    name, pitch, wide, high = "states", 78.0, 96.0, 38.0
    middles = {-1: 70.0, 0: 268.0, 1: 466.0}
    places = {status: (middles[int(c)], 40 + row * pitch) for status, (c, row) in _places().items()}
    main = set(transitions.ORDER)
    parts: list[str] = []
    rails: dict[Status, list[Status]] = {}
    for (before, after), by in transitions.MOVES.items():
        kind = str(by)
        (x1, y1), (x2, y2) = places[before], places[after]
        if before in main and after in main:
            steps = transitions.ORDER.index(after) - transitions.ORDER.index(before)
            if steps == 1:
                parts.append(_path(name, f"M{x1} {y1 + high / 2}V{y2 - high / 2}", kind))
            else:
                side = -1 if steps > 0 else 1  # moves that skip a status are on the left, moves back on the right
                edge, bulge = x1 + side * wide / 2, side * (16 + 12 * abs(steps))
                start, end = y1 + (8 if steps > 0 else -8), y2 + (-8 if steps > 0 else 8)
                curve = f"M{edge} {start}C{edge + bulge} {start} {edge + bulge} {end} {edge} {end}"
                parts.append(_path(name, curve, kind))
        elif before in main:
            rails.setdefault(after, []).append(before)
        elif after in main:  # a retry: around the outside, into the top of the first status
            side = -1 if x1 < x2 else 1
            outer = x1 + side * (wide / 2 + 14)
            top, into = y2 - high / 2, x2 + side * 24
            parts.append(_path(name, f"M{x1 + side * wide / 2} {y1}H{outer}V{top - 16}H{into}V{top}", kind))
        else:
            parts.append(_path(name, f"M{x1} {y1 + high / 2}V{y2 - high / 2}", kind))
    for number, (after, sources) in enumerate(rails.items()):
        x2, y2 = places[after]
        side = -1 if x2 < middles[0] else 1
        rail = middles[0] + side * (wide / 2 + 50 + 18 * (number % 2))
        for before in sources:
            kind = str(transitions.MOVES[before, after])
            x1, y1 = places[before]
            y1 += (5 if number % 2 else -5) if len(sources) > 1 else 0
            parts.append(_path(name, f"M{x1 + side * wide / 2} {y1}H{rail}V{y2}H{x2 - side * wide / 2}", kind))
    for status, (x, y) in places.items():
        kind = "end" if status in transitions.FINAL else "rest" if status in transitions.RESTING else ""
        parts.append(_box(x, y, wide, high, [str(status)], kind))
    bottom = 40 + pitch * (len(transitions.ORDER) - 1) + 62
    for x, by, text in ((100, By.ENGINE, "by the orchestrator"), (330, By.USER, "by a user: cancel, retry")):
        parts.append(_path(name, f"M{x - 60} {bottom}H{x - 22}", str(by)))
        parts.append(_text(x - 14, bottom, [text], anchor="start"))
    bottom += 28
    for x, kind, text in ((48, "rest", "waits for a user"), (278, "end", "final")):
        parts.append(f'<rect class="box {kind}" x="{x}" y="{bottom - 8}" width="22" height="16" rx="3"/>')
        parts.append(_text(x + 38, bottom, [text], anchor="start"))
    return _svg(name, 536, bottom + 20, description(), parts)


def description() -> str:
    """Return the moves as one sentence for each status, for readers who do not see the picture."""
    found: dict[Status, list[str]] = {}
    for (before, after), by in transitions.MOVES.items():
        found.setdefault(before, []).append(str(after) + (" (by a user)" if by is By.USER else ""))
    lines = [f"{before} becomes {', '.join(after)}." for before, after in found.items()]
    return " ".join([*lines, f"Final: {', '.join(s for s in Status if s in transitions.FINAL)}."])


# --------------------------------------------------------------------------------------------------------- usual path


def usual(name: str, title: str, content: list[str]) -> str:
    """Return the picture of the statuses in their usual order, with a text beside each."""
    texts = {line.partition(":")[0]: line.partition(":")[2].strip() for line in _lines(content)}
    if list(texts) != [str(status) for status in transitions.ORDER]:
        raise PictureError(f"the lines have to be {', '.join(transitions.ORDER)}, in this order")
    wide, high, parts, y = 96.0, 34.0, [], 22.0
    for number, (status, text) in enumerate(texts.items()):
        if number:
            parts.append(_path(name, f"M{wide / 2 + 4} {y + high / 2}V{y + 60 - high / 2}"))
            y += 60
        kind = "end" if status in transitions.FINAL else ""
        parts.append(_box(wide / 2 + 4, y, wide, high, [status], kind))
        lines = textwrap.wrap(text, 40)
        for row, line in enumerate(lines):
            parts.append(_text(wide + 22, y + 16 * (row - (len(lines) - 1) / 2), [line], anchor="start"))
    return _svg(name, 380, y + high, title, parts)


# -------------------------------------------------------------------------------------------------------------- boxes

_BOX = re.compile(r"(?P<name>\w+) \((?P<column>[\d.]+), (?P<row>[\d.]+)\): (?P<text>.+)")
_ARROW = re.compile(r"(?P<one>\w+) (?P<head><?->) (?P<other>\w+)(?:: (?P<text>.+))?")


def _lines(content: list[str]) -> Iterator[str]:
    return (line.strip() for line in content if line.strip())


def _edge(x: float, y: float, width: float, height: float, dx: float, dy: float) -> tuple[float, float]:
    """Return where the line from a box's middle in a direction leaves the box."""
    scale = min(width / 2 / abs(dx) if dx else 1e9, height / 2 / abs(dy) if dy else 1e9)
    return x + dx * scale, y + dy * scale


def boxes(name: str, title: str, content: list[str], column: float = 190, row: float = 92) -> str:
    """Return a picture of boxes and arrows."""
    found: dict[str, tuple[float, float, float, float]] = {}
    shapes: list[str] = []
    arrows: list[str] = []
    labels: list[str] = []
    for line in _lines(content):
        if match := _BOX.fullmatch(line):
            text, _, more = match["text"].partition(" | ")
            lines = [text, *textwrap.wrap(more, 21)]
            width, height = column * 0.8, 24 + 16 * len(lines)
            x, y = 4 + width / 2 + float(match["column"]) * column, 42 + float(match["row"]) * row
            found[match["name"]] = (x, y, width, height)
            shapes.append(_box(x, y, width, height, lines, match["name"]))
        elif match := _ARROW.fullmatch(line):
            if missing := {match["one"], match["other"]} - set(found):
                raise PictureError(f"{line!r}: there is no box {', '.join(sorted(missing))}")
            (x1, y1, w1, h1), (x2, y2, w2, h2) = found[match["one"]], found[match["other"]]
            left, top = _edge(x1, y1, w1, h1, x2 - x1, y2 - y1)
            right, bottom = _edge(x2, y2, w2, h2, x1 - x2, y1 - y2)
            arrows.append(_path(name, f"M{left:g} {top:g}L{right:g} {bottom:g}", both=match["head"] == "<->"))
            if match["text"]:
                labels.append(_text((left + right) / 2, (top + bottom) / 2, [match["text"]], "label"))
        else:
            raise PictureError(f"{line!r} is neither a box nor an arrow")
    width = max(x + w / 2 for x, _, w, _ in found.values()) + 4
    height = max(y + h / 2 for _, y, _, h in found.values()) + 4
    return _svg(name, width, height, title, [*arrows, *shapes, *labels])


# ----------------------------------------------------------------------------------------------------------- sequence

_PARTICIPANT = re.compile(r"(?P<name>\w+): (?P<text>.+)")


def sequence(name: str, title: str, content: list[str], row: float = 34) -> str:
    """Return a picture of messages between participants, from top to bottom."""
    participants = sum(1 for line in _lines(content) if _PARTICIPANT.fullmatch(line) and not _ARROW.fullmatch(line))
    column = min(140, WIDEST // max(1, participants))
    columns: dict[str, float] = {}
    shapes: list[str] = []
    messages: list[str] = []
    loops: list[tuple[float, str]] = []
    y = 60.0
    for line in _lines(content):
        if line.startswith("loop "):
            y += 22
            loops.append((y, line.removeprefix("loop ")))
            y += 14
        elif line == "end":
            top, text = loops.pop()
            y += 12
            shapes.append(
                f'<rect class="loop" x="2" y="{top - 8:g}" width="{column * len(columns) - 4:g}" '
                f'height="{y - top - 2:g}" rx="6"/>{_text(10, top + 6, [text], "label", "start")}'
            )
            y += 12
        elif match := _ARROW.fullmatch(line):
            if missing := {match["one"], match["other"]} - set(columns):
                raise PictureError(f"{line!r}: there is no participant {', '.join(sorted(missing))}")
            x1, x2 = columns[match["one"]], columns[match["other"]]
            y += row
            points = f"M{x1} {y}H{x2}" if x1 != x2 else f"M{x1} {y - 8}h26v14H{x1 + 2}"
            messages.append(_path(name, points))
            middle = (x1 + x2) / 2 if x1 != x2 else x1 + 32
            lines = [match["text"] or ""]
            messages.append(_text(middle, y - 9 if x1 != x2 else y, lines, "label", "middle" if x1 != x2 else "start"))
        elif match := _PARTICIPANT.fullmatch(line):
            columns[match["name"]] = column * (len(columns) + 0.5)
            shapes.append(_box(columns[match["name"]], 22, column * 0.84, 34, [match["text"]], ""))
        else:
            raise PictureError(f"{line!r} is neither a participant, a message, a loop nor an end")
    lives = [f'<path class="life" d="M{x} 39V{y + 24}"/>' for x in columns.values()]
    return _svg(name, column * len(columns), y + 28, title, [*lives, *shapes, *messages])


# --------------------------------------------------------------------------------------------------------- directives


class _Picture(Directive):
    """Inserts a picture; what a builder other than HTML shows is its description."""

    has_content = True
    option_spec: ClassVar[dict[str, Any]] = {
        "name": directives.unchanged_required,
        "title": directives.unchanged_required,
    }

    def draw(self) -> tuple[str, str]:
        """Return the SVG and its description."""
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        try:
            svg, title = self.draw()
        except PictureError as error:
            raise self.error(str(error)) from error
        only = nodes.raw("", svg, format="html")
        other = nodes.comment("", title)
        return [only, other]


class Usual(_Picture):
    """``.. usual::``."""

    def draw(self) -> tuple[str, str]:
        return usual(self.options["name"], self.options["title"], list(self.content)), self.options["title"]


class States(_Picture):
    """``.. states::``."""

    has_content = False

    def draw(self) -> tuple[str, str]:
        return states(), description()


class Boxes(_Picture):
    """``.. boxes::``."""

    option_spec: ClassVar[dict[str, Any]] = {**_Picture.option_spec, "column": directives.positive_int}

    def draw(self) -> tuple[str, str]:
        name, title, column = self.options["name"], self.options["title"], self.options.get("column", 190)
        return boxes(name, title, list(self.content), column), title


class Sequence(_Picture):
    """``.. sequence::``."""

    def draw(self) -> tuple[str, str]:
        return sequence(self.options["name"], self.options["title"], list(self.content)), self.options["title"]


def setup(app: Any) -> dict[str, Any]:
    """Connect the extension to Sphinx."""
    app.add_directive("usual", Usual)
    app.add_directive("states", States)
    app.add_directive("boxes", Boxes)
    app.add_directive("sequence", Sequence)
    # Sphinx reads the pages again if this number changes.
    drawn = zlib.crc32(Path(__file__).read_bytes() + states().encode())
    return {"parallel_read_safe": True, "env_version": drawn}
