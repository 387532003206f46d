"""Tables: a line for each row of a list, and at a terminal no wider than the terminal."""

from __future__ import annotations

import argparse
import copy
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

from cliff import columns
from cliff.formatters import table

from cleanup_orchestrator.osc.screen import MARK, cut, folded, size, width

#: A column is never made narrower than this, nor than its title.
_NARROWEST = 5
#: Width of the ids in the first column of ids: a user copies them into the next command. They are not shortened.
_ID = 36
#: More than any table has: cliff then wraps no cell.
_NO_LIMIT = 1 << 30


class OneLine(table.TableFormatter):
    """Writes a list as a table with one line for each row.

    At a terminal the default columns are shortened to its width. With ``--long`` no cell is shortened, and with ``-c``,
    ``--max-width`` or ``--fit-width`` cliff wraps the cells. Without a terminal the output does not depend on a width.
    """

    def emit_list(
        self,
        column_names: Sequence[str],
        data: Iterable[Sequence[Any]],
        stdout: TextIO,
        parsed_args: argparse.Namespace,
    ) -> None:
        """Write the table."""
        rows = [[_cell(value) for value in row] for row in data]
        if not (parsed_args.max_width or parsed_args.fit_width or parsed_args.columns):
            if sys.stdout.isatty() and not getattr(parsed_args, "long", False):
                rows = shortened(column_names, rows, size(sys.stdout)[0])
            parsed_args = copy.copy(parsed_args)
            parsed_args.max_width = _NO_LIMIT
        super().emit_list(column_names, rows, stdout, parsed_args)


class Details(table.TableFormatter):
    """Writes one object as a table. At a terminal long lines are folded, so that each shows where it began."""

    def emit_one(
        self, column_names: Sequence[str], data: Sequence[Any], stdout: TextIO, parsed_args: argparse.Namespace
    ) -> None:
        """Write the table."""
        if not (parsed_args.max_width or parsed_args.fit_width):
            names = max(width(name) for name in ("Field", *column_names))
            room = size(sys.stdout)[0] - names - 7 if sys.stdout.isatty() else 0
            data = [_block(value, room) for value in data]
            parsed_args = copy.copy(parsed_args)
            parsed_args.max_width = _NO_LIMIT
        super().emit_one(column_names, data, stdout, parsed_args)


def _block(value: Any, room: int) -> Any:
    """Return a value as the lines of a cell.

    :param room: columns of the cell; 0: any number
    """
    if isinstance(value, columns.FormattableColumn):
        value = value.human_readable()
    if value is None:
        return ""
    if not isinstance(value, str) or room < _NARROWEST:
        return value
    return "\n".join(part for line in value.splitlines() for part in folded(line, room))


def _cell(value: Any) -> Any:
    """Return a value as a cell of one line. Numbers stay numbers, which are aligned to the right."""
    if isinstance(value, columns.FormattableColumn):
        value = value.human_readable()
    if value is None:
        return ""
    return "; ".join(line.strip() for line in value.splitlines()) if isinstance(value, str) else value


def shortened(heads: Sequence[str], rows: Sequence[Sequence[Any]], room: int) -> list[list[Any]]:
    """Return the rows of a table that is as wide as a terminal at most, if the titles and ids allow that.

    The widest columns are shortened first.

    :param room: columns of the terminal
    """
    wide = [max([width(head), *(width(str(row[n])) for row in rows)]) for n, head in enumerate(heads)]
    copied = next((n for n, head in enumerate(heads) if head.endswith("ID")), None)
    least = [min(each, max(_ID if n == copied else _NARROWEST, width(heads[n]))) for n, each in enumerate(wide)]
    left = room - 1 - 3 * len(heads)  # without the borders
    limits = list(least)
    # One by one: the narrowest column that is not complete gets the next character.
    while sum(limits) < left and (open_ := [n for n in range(len(heads)) if limits[n] < wide[n]]):
        limits[min(open_, key=limits.__getitem__)] += 1
    return [[_short(value, limit) for value, limit in zip(row, limits)] for row in rows]


def _short(value: Any, limit: int) -> Any:
    text = str(value)
    return value if width(text) <= limit else f"{cut(text, limit - 1).rstrip()}{MARK}"
