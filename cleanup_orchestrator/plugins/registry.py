"""The installed plugins, checked as a whole before anything runs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import stevedore
from os_service_types import ServiceTypes
from oslo_config import cfg

from cleanup_orchestrator.core import dependencies
from cleanup_orchestrator.errors import CleanupError
from cleanup_orchestrator.plugins.base import EVERYTHING, NeededBy, ResourceType, Service
from cleanup_orchestrator.plugins.contract import SUPPORTED_VERSIONS

NAMESPACE = "cleanup_orchestrator.services"
#: The part of the manual about the versions of the contract.
MANUAL = "Plugins: Versions of the contract"
_NAME = re.compile(r"[a-z][a-z0-9_]*")


class InvalidPlugin(CleanupError):
    """Raised for a plugin that must not run; names it and the defect."""

    code = "invalid_plugin"

    def __init__(self, message: str, *services: str) -> None:
        """Take the service types that the defect is about, the declaring one first."""
        super().__init__(message)
        self.services = services


class UnknownType(CleanupError):
    """An option names a resource type that is unknown or that it does not apply to."""

    code = "unknown_type"


def option_group(service_type: str) -> str:
    """Return the configuration group of a service's options: ``service_object_store``."""
    return "service_" + service_type.replace("-", "_")


def option_values(conf: cfg.ConfigOpts, service: Service) -> Mapping[str, Any]:
    """Return the values of a service's options, which are registered in its group."""
    return {o.dest: conf[option_group(service.service_type)][o.dest] for o in service.options}


class Registry:
    """The services by official type, with the graph over all their types."""

    def __init__(self, services: Iterable[Service], versions: Mapping[int, str] = SUPPORTED_VERSIONS) -> None:
        """Check the services and order their types.

        :param versions: the supported versions of the contract, see ``contract.SUPPORTED_VERSIONS``
        :raises InvalidPlugin: for an unknown or repeated name, or an unsupported version of the contract
        :raises cleanup_orchestrator.core.dependencies.Cycle: for a cycle in ``after`` and ``serves``
        """
        self.services: dict[str, Service] = {}
        for service in services:
            if service.service_type in self.services:
                raise InvalidPlugin(f"two plugins answer for {service.service_type}")
            if not _is_supported(service, versions):
                raise InvalidPlugin(_unsupported(service, versions))
            self.services[service.service_type] = service
        #: A sentence for each plugin that is written for a deprecated version of the contract.
        self.deprecations = tuple(
            text for service in self.services.values() if (text := deprecation(service, versions))
        )
        self.order = dependencies.check(self.graph())
        dependencies.check(self.graph(kept=True))
        self._related: dict[str, tuple[tuple[Service, ResourceType, bool, str], ...]] = {}

    def find(self, service_type: str, name: str) -> ResourceType:
        """Return a declared type.

        :raises KeyError: when there is none
        """
        declared = next((t for t in self.services[service_type].types if t.name == name), None)
        if declared is None:
            raise KeyError(f"{service_type}.{name}")
        return declared

    def related_types(
        self, service: Service, type_: ResourceType
    ) -> tuple[tuple[Service, ResourceType, bool, str], ...]:
        """Return the types deleted with a type, and those whose delete removes it.

        :returns: (service, type, whether it is the whole, the part's attribute with the id of the whole; empty: the
            plugin does not declare which part belongs to which whole)
        """
        own = f"{service.service_type}.{type_.name}"
        if own not in self._related:  # each sweep asks, and the declarations never change
            self._related[own] = tuple(self._find_related(service, type_, own))
        return self._related[own]

    def _find_related(
        self, service: Service, type_: ResourceType, own: str
    ) -> Iterator[tuple[Service, ResourceType, bool, str]]:
        for other_service in self.services.values():
            for other in other_service.types:
                name = f"{other_service.service_type}.{other.name}"
                yield from ((other_service, other, False, attribute) for attribute in _links(other_service, other, own))
                yield from ((other_service, other, True, attribute) for attribute in _links(service, type_, name))

    def after(self, service: Service, type_: ResourceType, kept: bool = False) -> tuple[str, ...]:
        """Return the full names that a type waits for. :data:`EVERYTHING` stays as it is.

        :param kept: whether the deletion keeps the project, so that the types of ``serves`` are among them
        """
        names = {n if n == EVERYTHING else _full_name(service, n) for n in type_.after}
        names |= {_full_name(service, name) for name, _rule in type_.serves} if kept else set()
        return tuple(sorted(names if type_.project_setting else names | set(service.after)))

    def needed_by(self, service: Service, type_: ResourceType, kept: bool = False) -> dict[str, NeededBy]:
        """Return the rules of a type's ``needed_by``, by the full name of the other type.

        :param kept: whether the deletion keeps the project, so that the rules of ``serves`` are among them
        """
        rules = (*type_.needed_by, *(type_.serves if kept else ()))
        return {_full_name(service, name): rule for name, rule in sorted(rules, key=lambda each: each[0])}

    def forcible(self) -> tuple[str, ...]:
        """Return the full names of the types that declare a force."""
        return tuple(f"{s.service_type}.{t.name}" for s in self.services.values() for t in s.types if t.force)

    def expect_ordinary(self, names: Iterable[str], option: str) -> None:
        """Check that an option names only ordinary types.

        Otherwise a misspelt name would protect nothing, without any error.

        :raises UnknownType: a name is no type, or one of a project setting, which no inventory lists
        """
        ordinary = {
            f"{s.service_type}.{t.name}" for s in self.services.values() for t in s.types if not t.project_setting
        }
        if unknown := sorted(set(names) - ordinary):
            raise UnknownType(f"{option}: no plugin has the ordinary type {', '.join(unknown)}")

    def expect_uses(self, names: Iterable[str], option: str) -> None:
        """Check that an option names only uses that plugins declare.

        :raises UnknownType: a name is no use
        """
        known = {
            f"{service.service_type}.{type_.name}:{by}"
            for service in self.services.values()
            for type_ in service.types
            for use in type_.used_by or ()
            for by in use.by
        }
        if unknown := sorted(set(names) - known):
            raise UnknownType(f"{option}: no plugin declares the use {', '.join(unknown)}")

    def graph(self, kept: bool = False) -> Mapping[str, set[str]]:
        """Return every type with the types that must be gone before it.

        :param kept: whether the deletion keeps the project
        :raises InvalidPlugin: for an unknown or repeated name
        """
        known = {f"{s.service_type}.{t.name}": (s, t) for s in self.services.values() for t in s.types}
        if len(known) != sum(len(s.types) for s in self.services.values()):
            raise InvalidPlugin("a service declares a type twice")
        ordinary = {n for n, (_, t) in known.items() if EVERYTHING not in t.after and not t.project_setting}
        official = ServiceTypes()
        graph: dict[str, set[str]] = {}
        for name, (service, type_) in known.items():
            if not _NAME.fullmatch(type_.name):
                text = f"{name}: a type's name is lower case letters, digits and underscores"
                raise InvalidPlugin(text, service.service_type)
            own, edges = service.service_type, set[str]()
            for before in self.after(service, type_, kept):
                if before == EVERYTHING:
                    edges |= ordinary - {name}
                    continue
                other = _service_of(before)
                if before not in known and (other in self.services or not official.is_official(other)):
                    raise InvalidPlugin(f"{name} waits for {before}, which no plugin declares", own, other)
                if before in known:
                    edges.add(before)
            for other in self.needed_by(service, type_, kept):
                if other not in self.after(service, type_, kept) or type_.project_setting:
                    raise InvalidPlugin(f"{name} is needed by {other}, which it does not wait for", own)
            for parent in type_.composition.deleted_with:
                full = _full_name(service, parent)
                if full not in known:
                    raise InvalidPlugin(
                        f"{name} is deleted with {full}, which no plugin declares", own, _service_of(full)
                    )
            for whole, _attribute in type_.composition.part_of:
                full = _full_name(service, whole)
                if full not in known:
                    raise InvalidPlugin(f"{name} is part of {full}, which no plugin declares", own, _service_of(full))
            graph[name] = edges
        return graph

    def register_options(self, conf: cfg.ConfigOpts) -> None:
        """Register every service's options in its group."""
        for service in self.services.values():
            conf.register_opts(service.options, group=option_group(service.service_type))

    def options(self, conf: cfg.ConfigOpts, service_type: str) -> Mapping[str, Any]:
        """Return the values of the options of a service's plugin; without a plugin, none."""
        service = self.services.get(service_type)
        if service is None:
            return {}
        return option_values(conf, service)


def _is_supported(service: Service, versions: Mapping[int, str]) -> bool:
    return isinstance(service.contract_version, int) and service.contract_version in versions


def _unsupported(service: Service, versions: Mapping[int, str]) -> str:
    """Return why a plugin is refused for its version of the contract, and the way out."""
    supported = " and ".join(str(version) for version in sorted(versions))
    stated: object = service.contract_version
    if not isinstance(stated, int):
        remedy = "state a whole number in contract_version"
    elif stated > max(versions):
        remedy = "upgrade cleanup-orchestrator, or install an earlier release of the plugin"
    else:
        remedy = "install a later release of the plugin"
    return (
        f"the plugin for {service.service_type} is written for version {stated!r} of the plugin contract; this release "
        f"supports version {supported}: {remedy}"
    )


def deprecation(service: Service, versions: Mapping[int, str] = SUPPORTED_VERSIONS) -> str:
    """Return a warning about a plugin whose version of the contract is deprecated; empty if it is not.

    :param versions: the supported versions of the contract, see ``contract.SUPPORTED_VERSIONS``
    """
    if not _is_supported(service, versions) or not (end := versions[service.contract_version]):
        return ""
    return (
        f"the plugin for {service.service_type} is written for version {service.contract_version} of the plugin "
        f"contract, which is deprecated: release {end} refuses it; install a later release of the plugin, or see "
        f'"{MANUAL}" in the manual for how to change it'
    )


def _full_name(service: Service, name: str) -> str:
    """Return a type's name with its service.

    A name without a service is one of the same service.
    """
    return name if "." in name else f"{service.service_type}.{name}"


def _service_of(name: str) -> str:
    """Return the service type in the full name of a type. That of a second service of its type has a dot itself."""
    return name.rpartition(".")[0]


def combine(plugins: Registry, others: Iterable[Service]) -> tuple[Registry, Mapping[str, str]]:
    """Return a registry of the plugins and of further services, which replace the plugins of their types.

    A further service whose declarations do not fit is left out, and its plugin stays. What such a service declares is
    never an error of the plugins.

    :returns: the registry, and for each service that was left out the reason
    """
    left = {service.service_type: service for service in others}
    refused: dict[str, str] = {}
    while left:
        kept = (plugin for plugin in plugins.services.values() if plugin.service_type not in left)
        try:
            return Registry([*kept, *left.values()]), refused
        except InvalidPlugin as error:
            # The declaring service, if it is one of these. Otherwise a plugin relies on what one of these lacks.
            message, named = str(error), [name for name in error.services if name in left][:1]
        except dependencies.Cycle as error:
            message, named = str(error), [name for name in map(_service_of, error.names) if name in left]
        for name in named or list(left):
            left.pop(name, None)
            refused[name] = message
    return plugins, refused


def _links(service: Service, part: ResourceType, whole: str) -> tuple[str, ...]:
    """Return the attributes that link a type's resources to another type.

    :param whole: the full name of the other type
    :returns: an empty attribute when the relation is declared without one
    """
    declared = tuple(attribute for name, attribute in part.composition.part_of if _full_name(service, name) == whole)
    return declared or (("",) if whole in (_full_name(service, name) for name in part.composition.deleted_with) else ())


def expect_service(name: str, plugin: object) -> Service:
    """Return what an entry point refers to, if it is a service of the type that its name says.

    :raises InvalidPlugin: it is not
    """
    if not isinstance(plugin, Service) or plugin.service_type != name:
        raise InvalidPlugin(f"entry point {name} is not a Service of that type")
    return plugin


def load(versions: Mapping[int, str] = SUPPORTED_VERSIONS) -> Registry:
    """Return the installed plugins.

    :param versions: the supported versions of the contract, see ``contract.SUPPORTED_VERSIONS``
    :raises InvalidPlugin: when one does not load. Without it, its service would be an unsupported service
    """

    def failed(_manager: Any, entry_point: Any, error: BaseException) -> None:
        raise InvalidPlugin(f"plugin {entry_point.name} does not load: {error}") from error

    manager = stevedore.ExtensionManager(NAMESPACE, invoke_on_load=False, on_load_failure_callback=failed)
    services = [expect_service(extension.name, extension.plugin) for extension in manager]
    return Registry(sorted(services, key=lambda s: s.service_type), versions)
