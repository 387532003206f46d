"""Reads the file of ``--from-file``: the projects to delete, one in each line, or a table in CSV."""

from __future__ import annotations

import argparse
import csv
import dataclasses
import io
import sys
from collections.abc import Iterator, Sequence

from cleanup_orchestrator.osc import arguments, usage
from cleanup_orchestrator.sdk import one_line

#: By the title of a column, in lower case: what it has. Of several columns for the project, the first of these counts.
_PROJECT = ("id", "project_id", "project id", "project", "name")
_OTHERS = {
    "domain": "domain",
    "domain_id": "domain",
    "domain id": "domain",
    "reason": "request_reason",
    "ticket": "ticket",
    "at": "not_before",
    "not_before": "not_before",
}


@dataclasses.dataclass(frozen=True)
class Entry:
    """One line of the file."""

    project: str  #: name or id
    domain: str | None = None  #: name or id
    record: tuple[tuple[str, str], ...] = ()  #: fields of the request, as the API takes them


def read(path: str) -> tuple[list[Entry], list[str]]:
    """Return the entries of a file, and the titles of the columns that were ignored.

    :param path: ``-``: the standard input
    :raises UsageError: if the file cannot be read, is empty, or has a line that cannot be understood
    """
    try:
        if path == "-":
            return parse(sys.stdin.read())
        with open(path, encoding="utf-8-sig", newline="") as file:
            return parse(file.read())
    except (OSError, UnicodeDecodeError) as exc:
        raise usage.UsageError(f"cannot read {one_line(path)}: {one_line(exc)}; nothing was deleted") from exc


def parse(text: str) -> tuple[list[Entry], list[str]]:
    """Return the entries of a text; see :func:`read`. Empty lines and lines that begin with ``#`` are skipped."""
    lines = list(_lines(text))
    if not lines:
        raise usage.UsageError("the file names no project; nothing was deleted")
    titles = [cell.lower() for cell in lines[0][1]]
    if not set(titles) & set(_PROJECT):
        return [_plain(number, cells) for number, cells in lines], []
    columns: dict[str, int] = {}
    for n, title in enumerate(titles):
        if title in _OTHERS:
            columns.setdefault(_OTHERS[title], n)
    columns["project"] = titles.index(next(title for title in _PROJECT if title in titles))
    ignored = [cell for n, cell in enumerate(lines[0][1]) if n not in columns.values()]
    entries = [_entry(number, cells, columns, len(titles)) for number, cells in lines[1:]]
    if not entries:
        raise usage.UsageError("the file names no project; nothing was deleted")
    return entries, ignored


def _lines(text: str) -> Iterator[tuple[int, Sequence[str]]]:
    r"""Yield the number and the cells of each line that is not empty and no comment.

    Only ``\n`` and ``\r`` end a line. The name of a project can have other characters that look like a line end, and
    must not become two names.
    """
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True, skipinitialspace=True)
    try:
        for cells in reader:
            cells = [cell.strip() for cell in cells]
            if any(cells) and not cells[0].startswith("#"):
                yield reader.line_num, cells
    except csv.Error as exc:
        raise _wrong(reader.line_num, f"is no CSV: {one_line(exc)}") from exc


def _plain(number: int, cells: Sequence[str]) -> Entry:
    if len(cells) > 1:
        raise _wrong(number, "has several columns: begin the file with their titles, such as 'project,domain,ticket'")
    return Entry(cells[0])


def _entry(number: int, cells: Sequence[str], columns: dict[str, int], width: int) -> Entry:
    if len(cells) != width:
        raise _wrong(number, f"has {len(cells)} columns, and the titles are {width}")
    values = {name: cells[n] for name, n in columns.items() if cells[n]}
    if "project" not in values:
        raise _wrong(number, "names no project")
    try:
        values |= {"not_before": arguments.utc(values["not_before"])} if "not_before" in values else {}
    except argparse.ArgumentTypeError as exc:
        raise _wrong(number, f"has a wrong date: {exc}") from exc
    project, domain = values.pop("project"), values.pop("domain", None)
    return Entry(project, domain, tuple(values.items()))


def _wrong(number: int, text: str) -> usage.UsageError:
    return usage.UsageError(f"line {number} of the file {text}; nothing was deleted")
