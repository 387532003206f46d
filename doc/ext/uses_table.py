"""Writes the table of what other projects may use of each type, for the page about outsiders.

As a Sphinx extension it writes ``services/uses.inc`` before Sphinx reads the sources. Each row is a use that a plugin
declares, or a rule by which a plugin protects a resource.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from api_reference import heading, table
from generated import write_changed
from service_pages import plugins, sentences, title

from cleanup_orchestrator.plugins import registry
from cleanup_orchestrator.plugins.base import ResourceType, Service, Use

COLUMNS = ("Type", "Used by", "The delete", "How it is found", "Deleted all the same with")
NOWHERE = "–"


def _override(service: Service, name: str, use: Use) -> str:
    """Return the options under which a resource is deleted although it is used."""
    found = [f"``{name}:{by}``" for by in use.by] if use.find is not None else []
    group = registry.option_group(service.service_type)
    found += [f"``[{group}] {option.strip()}``" for option in use.option.split(",") if option.strip()]
    return ", ".join(found) or NOWHERE


def _rows(service: Service, type_: ResourceType) -> Iterator[tuple[str, ...]]:
    name = f"{service.service_type}.{type_.name}"
    for rule in type_.protect:
        for sentence in sentences(rule):
            yield f"``{type_.name}``", NOWHERE, NOWHERE, f"**protected**: {sentence}", NOWHERE
    for use in type_.used_by or ():
        how = f"**not looked for**: {use.unseen}" if use.unseen else "looked for" if use.find is not None else "refused"
        by = ", ".join(f"``{each}``" for each in use.by)
        yield f"``{type_.name}``", by, use.harm, how, _override(service, name, use)
    if type_.composition.contains is not None:
        by = "what its service deletes with it"
        yield f"``{type_.name}``", by, "deletes it", "looked for, by the checks of each", "the entries of its types"


def section(service: Service) -> str:
    """Return the table of one service."""
    rows = [row for type_ in service.types for row in _rows(service, type_)]
    text = heading(title(service.service_type), "-") + "\n"
    if rows:
        text += table(COLUMNS, (12, 18, 24, 28, 18), rows) + "\n"
    if unused := [f"``{type_.name}``" for type_ in service.types if not list(_rows(service, type_))]:
        text += f"No other project can use: {', '.join(unused)}.\n\n"
    return text


def text() -> str:
    """Return the tables of all services."""
    return "".join(section(service) for service, _ in plugins().values())


def setup(app: Any) -> dict[str, Any]:
    """Connect the extension to Sphinx."""

    def write(app: Any) -> None:
        folder = Path(app.srcdir) / "services"
        folder.mkdir(exist_ok=True)
        write_changed(folder / "uses.inc", text())

    app.connect("builder-inited", write)
    return {"parallel_read_safe": True}
