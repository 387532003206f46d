"""Checks a plugin against the contract without a cloud.

For the tests of this repository and of vendors:

from cleanup_orchestrator.plugins import conformance
assert conformance.problems(SERVICE) == []
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from openstack.connection import Connection
from os_service_types import ServiceTypes

from cleanup_orchestrator.core.dependencies import EVERYTHING, Cycle
from cleanup_orchestrator.core.step import Token
from cleanup_orchestrator.plugins.base import SCOPED, ProjectDefinition, ResourceType, Rest, Sdk, Service, fill
from cleanup_orchestrator.plugins.registry import InvalidPlugin, Registry

_PROJECT = ProjectDefinition("0123456789abcdef", "name", "domain", "region")


def problems(service: Service, *others: Service) -> list[str]:
    """Return a sentence for each violation of the contract.

    :param others: the plugins that this plugin waits for
    """
    found = []
    if not ServiceTypes().is_official(service.service_type):
        found.append(f"{service.service_type} is not an official service type of os-service-types")
    for type_ in service.types:
        found += [f"{service.service_type}.{type_.name}: {problem}" for problem in _type_problems(type_)]
    try:
        Registry([service, *others])
    except (InvalidPlugin, Cycle) as error:
        found.append(str(error))
    return found


def _type_problems(type_: ResourceType) -> Iterator[str]:
    for what, call in (
        ("list", type_.list),
        ("show", type_.show),
        ("delete", type_.delete),
        ("force", type_.force),
        *(("prepare", action) for action in type_.prepare),
    ):
        if call is not None:
            yield from (f"{what}: {problem}" for problem in _call_problems(call, what))
    if type_.halt is not None:
        for what, call in (("stop", type_.halt.stop), ("start", type_.halt.start)):
            yield from (f"halt.{what}: {problem}" for problem in _call_problems(call, what))
        if type_.show is None:
            yield "it is stopped ('halt') without being read again ('show')"
    if not isinstance(type_.all_projects, str):
        yield from (f"all_projects: {problem}" for problem in _call_problems(type_.all_projects, "list"))
        if type_.owner == SCOPED:
            yield "its rows show no owner ('owner'), so that a list of all projects ('all_projects') says nothing"
        elif not callable(type_.all_projects) and _filtered(type_.all_projects):
            yield "its list of all projects ('all_projects') carries an owner filter"
    if type_.token_if_gone is not None and (type_.token, type_.token_if_gone) != (Token.PROJECT, Token.ADMIN):
        yield "'token_if_gone' is for a type that needs a token of the project, and then does with an admin's"
    if type_.proof is not None and type_.proof.method != "GET":
        yield "what proves that the caller is an admin ('proof') is no read"
    if not type_.owner:
        yield "it does not say which attribute names the owner"
    if type_.owner != SCOPED and not type_.unfiltered and not callable(type_.list) and not _filtered(type_.list):
        yield "its list call carries no owner filter, and 'unfiltered' does not say why"
    if type_.delete is not None and not type_.deleted_with and type_.show is None and not type_.fresh:
        yield "it is deleted without being read again, and 'fresh' does not say why that is safe"
    if type_.project_setting and EVERYTHING in type_.after and type_.deleted_with:
        yield "project settings cannot be deleted with another type: by then nothing else is deleted"
    if type_.informational and not type_.project_setting:
        yield "what is only reported ('informational') is project settings, too: it goes right before the project does"
    if type_.informational and type_.token is not Token.ADMIN:
        yield "what is only reported ('informational') is listed with an admin's token: the last round has no other"
    if type_.force is not None and (type_.delete is None or type_.project_setting or type_.deleted_with):
        yield "its force would never be used: it has no delete of its own that may be left undone"
    if type_.may_force is not None and type_.force is None:
        yield "it says whether its force may be used, and has none"
    if not type_.source:
        yield "it does not say which call of which service it rests on ('source')"


def _filtered(call: Sdk | Rest) -> bool:
    """Return whether the project's id is anywhere in the call."""
    parts = (call.args, call.kwargs) if isinstance(call, Sdk) else (call.path, call.query, call.headers)
    return any(_PROJECT.id in str(fill(part, _PROJECT)) for part in parts)


def _call_problems(call: object, what: str) -> Iterator[str]:
    if isinstance(call, Sdk):
        proxy = _proxies().get(call.proxy)
        method = getattr(proxy, call.method, None)
        if proxy is None:
            yield f"openstacksdk has no proxy {call.proxy}"
        elif not callable(method):
            yield f"openstacksdk's {call.proxy} has no call {call.method}"
        else:
            try:
                inspect.signature(method).bind(None, *call.args, **call.kwargs)
            except TypeError as error:
                yield f"{call!r}: {error}"
    elif isinstance(call, Rest):
        if what == "list" and not call.key:
            yield f"{call!r} does not say under which key the collection is"
        if what != "list" and not any(placeholder in call.path for placeholder in ("{id}", "{project_id}")):
            yield f"{call!r} does not address a resource by its id"
    elif not callable(call):
        yield f"{call!r} is neither a declared call nor a hook"
    elif not inspect.getdoc(call) and getattr(call, "__name__", "<lambda>") == "<lambda>":
        yield "a hook has a name: no lambdas"


def _proxies() -> dict[str, type]:
    """Return the newest proxy class of each service that the SDK has."""
    found = {}
    for name in dir(Connection):
        description = inspect.getattr_static(Connection, name)
        supported = getattr(description, "supported_versions", None)
        if supported:
            found[name] = supported[max(supported, key=lambda version: [int(n) for n in version.split(".")])]
    return found
