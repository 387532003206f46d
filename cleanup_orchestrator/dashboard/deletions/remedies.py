"""What can be done about blockers and leftovers: each remedy once, with all that it is for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple


class Remedy(NamedTuple):
    """A remedy, and the records that it is for."""

    text: str
    rows: list[Any]
    #: Commands that apply the remedy, each once, in the order of the rows.
    commands: list[str]


def grouped(records: Iterable[Any]) -> list[Remedy]:
    """Return the remedies of blockers or leftovers, in the order of their first records."""
    by_text = dict[str, list[Any]]()
    for record in records:
        by_text.setdefault(record.get("remedy") or "", []).append(record)
    return [Remedy(text, rows, _commands(rows)) for text, rows in by_text.items()]


def by_service(leftovers: Iterable[Any]) -> list[tuple[str, list[Remedy]]]:
    """Return leftovers by their service and remedy. The API sorts them in the order in which they were found."""
    services = dict[str, list[Any]]()
    for row in leftovers:
        services.setdefault(row.service, []).append(row)
    return [(service, grouped(services[service])) for service in sorted(services)]


def _commands(rows: list[Any]) -> list[str]:
    return list(dict.fromkeys(command for row in rows for command in row.get("commands") or ()))
