"""Keep marks: tags and properties that keep a resource from being deleted. Pure.

A resource whose tags or properties cannot be read is kept, too: a mark may be among them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from oslo_config import cfg, types

from cleanup_orchestrator.plugins.base import ROW, ResourceType, Row, pick

#: Who may have set a mark, and how to clear it, for the report.
SET_BY = (
    "any member of the project may set one, and its service does not record who did; an admin can remove it, or the "
    "operator can take it off the list ([protection] keep_tags, keep_properties)"
)

OPTS = {
    "protection": [
        cfg.ListOpt(
            "keep_tags",
            default=[],
            mutable=True,
            help="Tags that keep a resource: a resource with one of them is never deleted, and is reported as "
            "protected. Upper and lower case make no difference. Any member of a project may set a tag: with each tag "
            "in this list, the project's members can block its deletion, also a cascade that an operator requests.",
        ),
        cfg.ListOpt(
            "keep_properties",
            item_type=types.String(regex=r"^\s*[^=\s][^=]*(=.*)?$"),
            default=[],
            mutable=True,
            help="Properties (metadata) that keep a resource in the same way: 'key', whatever its value, or "
            "'key=value'. Members of the project can block its deletion with these, too, unless the service lets only "
            "admins set the property (Glance: property_protection_file).",
        ),
    ]
}


@dataclasses.dataclass(frozen=True, slots=True)
class KeepMarks:
    """The configured keep marks, in lower case for comparison."""

    tags: frozenset[str] = frozenset()
    properties: tuple[tuple[str, str | None], ...] = ()  #: (key, value); ``None``: any value

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> KeepMarks:
        """Read ``[protection]``."""
        tags = frozenset(tag.strip().casefold() for tag in conf.protection.keep_tags if tag.strip())
        pairs = (entry.partition("=") for entry in conf.protection.keep_properties if entry.strip())
        return cls(tags, tuple((key.strip().casefold(), _folded(value) if eq else None) for key, eq, value in pairs))

    def may_be_on(self, type_: ResourceType) -> bool:
        """Return whether resources of a type can bear any of the marks."""
        return bool((self.tags and type_.tags) or (self.properties and type_.properties))

    def why(self, type_: ResourceType, row: Row) -> str | None:
        """Return why a row is kept, with the name of the mark; ``None`` if it has none."""
        if self.tags and type_.tags:
            tags = pick(row, type_.tags)
            if not isinstance(tags, list | tuple | set | frozenset):
                return f"it does not show its {type_.tags}, and may bear a keep mark"
            for tag in sorted(map(str, tags)):
                if tag.strip().casefold() in self.tags:
                    return f"its tag '{tag}' is a keep mark"
        if self.properties and type_.properties:
            properties = row if type_.properties == ROW else pick(row, type_.properties)
            if not isinstance(properties, Mapping):
                return f"it does not show its {type_.properties}, and may bear a keep mark"
            for key, value in sorted(properties.items()):
                for wanted, only in self.properties:
                    if str(key).strip().casefold() == wanted and only in (None, _folded(value)):
                        return f"its property '{key}={value}' is a keep mark"
        return None


def _folded(value: Any) -> str:
    return str(value).strip().casefold()
