"""The plugins that are installed, checked as a whole before anything runs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import stevedore
from os_service_types import ServiceTypes
from oslo_config import cfg

from cleanup_orchestrator.core import dependencies
from cleanup_orchestrator.errors import CleanupError
from cleanup_orchestrator.plugins.base import EVERYTHING, ResourceType, Service

NAMESPACE = "cleanup_orchestrator.services"
_NAME = re.compile(r"^[a-z][a-z0-9_]*$")


class InvalidPlugin(CleanupError):
    """A plugin that must not run: the message names it and what is wrong."""

    code = "invalid_plugin"


class UnknownType(CleanupError):
    """An option names a resource type that does not exist, or that the option does not apply to."""

    code = "unknown_type"


def option_group(service_type: str) -> str:
    """Return the configuration group of a service's options: ``service_object_store``."""
    return "service_" + service_type.replace("-", "_")


class Registry:
    """Services by official type, their types, and the graph over all of them."""

    def __init__(self, services: Iterable[Service]) -> None:
        """Take the services and check them.

        :raises InvalidPlugin: for an unknown or doubled name
        :raises cleanup_orchestrator.core.dependencies.Cycle: for a cycle in ``after``
        """
        self.services: dict[str, Service] = {}
        for service in services:
            if service.service_type in self.services:
                raise InvalidPlugin(f"two plugins answer for {service.service_type}")
            self.services[service.service_type] = service
        self.order = dependencies.check(self.graph())

    def find(self, service_type: str, name: str) -> ResourceType:
        """Return a declared type.

        :raises KeyError: when there is none
        """
        return next(t for t in self.services[service_type].types if t.name == name)

    def kin(self, service: Service, type_: ResourceType) -> tuple[tuple[Service, ResourceType, bool, str], ...]:
        """Return the types whose resources go along with those of a type, and those that take them along.

        :returns: (service, type, whether it is the greater one, the smaller one's attribute with the greater one's id;
            empty: it is not declared which one belongs to which)
        """
        own = f"{service.service_type}.{type_.name}"
        found = []
        for other_service in self.services.values():
            for other in other_service.types:
                name = f"{other_service.service_type}.{other.name}"
                found += [(other_service, other, False, attribute) for attribute in _links(other_service, other, own)]
                found += [(other_service, other, True, attribute) for attribute in _links(service, type_, name)]
        return tuple(found)

    def after(self, service: Service, type_: ResourceType) -> tuple[str, ...]:
        """Return the full names that a type waits for; :data:`EVERYTHING` stays as it is."""
        names = {n if n == EVERYTHING or "." in n else f"{service.service_type}.{n}" for n in type_.after}
        return tuple(sorted(names if type_.project_setting else names | set(service.after)))

    def forcible(self) -> tuple[str, ...]:
        """Return the full names of the types that declare a force."""
        return tuple(f"{s.service_type}.{t.name}" for s in self.services.values() for t in s.types if t.force)

    def expect_ordinary(self, names: Iterable[str], option: str) -> None:
        """Check that an option names only ordinary types: a misspelt name would protect nothing, without any error.

        :raises UnknownType: a name is no type, or one of a project setting, which no inventory lists
        """
        ordinary = {
            f"{s.service_type}.{t.name}" for s in self.services.values() for t in s.types if not t.project_setting
        }
        if unknown := sorted(set(names) - ordinary):
            raise UnknownType(f"{option}: no plugin has the ordinary type {', '.join(unknown)}")

    def graph(self) -> Mapping[str, set[str]]:
        """Return every type with the types that must be gone before it."""
        known = {f"{s.service_type}.{t.name}": (s, t) for s in self.services.values() for t in s.types}
        if len(known) != sum(len(s.types) for s in self.services.values()):
            raise InvalidPlugin("a service declares a type twice")
        ordinary = {n for n, (_, t) in known.items() if EVERYTHING not in t.after and not t.project_setting}
        official = ServiceTypes()
        graph: dict[str, set[str]] = {}
        for name, (service, type_) in known.items():
            if not _NAME.match(type_.name):
                raise InvalidPlugin(f"{name}: a type's name is lower case letters, digits and underscores")
            edges: set[str] = set()
            for before in self.after(service, type_):
                if before == EVERYTHING:
                    edges |= ordinary - {name}
                    continue
                other = before.split(".")[0]
                if before not in known and (other in self.services or not official.is_official(other)):
                    raise InvalidPlugin(f"{name} waits for {before}, which nobody declares")
                if before in known:
                    edges.add(before)
            for parent in type_.deleted_with:
                full = parent if "." in parent else f"{service.service_type}.{parent}"
                if full not in known:
                    raise InvalidPlugin(f"{name} is dragged by {full}, which nobody declares")
            for whole, _attribute in type_.part_of:
                full = whole if "." in whole else f"{service.service_type}.{whole}"
                if full not in known:
                    raise InvalidPlugin(f"{name} is part of {full}, which nobody declares")
            graph[name] = edges
        return graph

    def register_options(self, conf: cfg.ConfigOpts) -> None:
        """Register every service's options in its group."""
        for service in self.services.values():
            conf.register_opts(service.options, group=option_group(service.service_type))

    def options(self, conf: cfg.ConfigOpts, service_type: str) -> Mapping[str, Any]:
        """Return the values of a service's options."""
        service = self.services[service_type]
        return {o.dest: conf[option_group(service_type)][o.dest] for o in service.options}


def _links(service: Service, part: ResourceType, whole: str) -> tuple[str, ...]:
    """Return by which attributes a type's resources belong to those of another one (its full name); "": by none."""
    full = lambda name: name if "." in name else f"{service.service_type}.{name}"  # noqa: E731
    declared = tuple(attribute for name, attribute in part.part_of if full(name) == whole)
    return declared or (("",) if whole in map(full, part.deleted_with) else ())


def load() -> Registry:
    """Return the installed plugins.

    :raises InvalidPlugin: when one does not load: running without it would turn its service into a blocker at best
    """

    def failed(_manager: Any, entry_point: Any, error: BaseException) -> None:
        raise InvalidPlugin(f"plugin {entry_point.name} does not load: {error}") from error

    manager = stevedore.ExtensionManager(NAMESPACE, invoke_on_load=False, on_load_failure_callback=failed)
    services = []
    for extension in manager:
        if not isinstance(extension.plugin, Service) or extension.plugin.service_type != extension.name:
            raise InvalidPlugin(f"entry point {extension.name} is not a Service of that type")
        services.append(extension.plugin)
    return Registry(sorted(services, key=lambda s: s.service_type))
