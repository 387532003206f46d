"""Checks a plugin against the contract without a cloud.

For the tests of this repository and of vendors:

from cleanup_orchestrator.plugins import conformance
assert conformance.problems(SERVICE) == []

``cleanup-orchestrator-manage plugin check`` prints the findings of :func:`check`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping

from openstack.connection import Connection
from os_service_types import ServiceTypes

from cleanup_orchestrator.core.conformance import Finding, Verdict
from cleanup_orchestrator.core.dependencies import EVERYTHING, Cycle
from cleanup_orchestrator.core.step import Token
from cleanup_orchestrator.plugins.base import SCOPED, ProjectDefinition, ResourceType, Rest, Sdk, Service, fill
from cleanup_orchestrator.plugins.contract import SUPPORTED_VERSIONS
from cleanup_orchestrator.plugins.registry import InvalidPlugin, Registry, deprecation

#: Service types that os-service-types lacks. The services are in Keystone's catalog under these types.
REGISTERED = frozenset({"metric"})  # Gnocchi, which is no part of OpenStack

_PROJECT = ProjectDefinition("0123456789abcdef", "name", "domain", "region")
#: A name of an attribute, such as ``os-vol-tenant-attr:tenant_id``, or several with dots between them.
_ATTRIBUTE = re.compile(r"[\w:-]+(\.[\w:-]+)*")


def problems(service: Service, *others: Service) -> list[str]:
    """Return a sentence for each violation of the contract.

    :param others: the plugins that this plugin waits for
    """
    return [_sentence(one, service) for one in check(service, *others) if one.verdict is Verdict.FAILED]


def _sentence(finding: Finding, service: Service) -> str:
    return finding.text if finding.subject == service.service_type else f"{finding.subject}: {finding.text}"


def check(service: Service, *others: Service, versions: Mapping[int, str] = SUPPORTED_VERSIONS) -> Iterator[Finding]:
    """Yield what each rule says about a plugin and about each of its types.

    :param others: the plugins that this plugin waits for
    :param versions: the supported versions of the contract, see ``contract.SUPPORTED_VERSIONS``
    """
    subject = service.service_type
    if ServiceTypes().is_official(subject):
        yield Finding("service-type", Verdict.OK, "the service type is official", subject)
    elif subject in REGISTERED:
        yield Finding("service-type", Verdict.OK, "the service type is in use, and not official", subject)
    else:
        text = f"{subject} is not an official service type of os-service-types"
        yield Finding("service-type", Verdict.FAILED, text, subject)
    if warning := deprecation(service, versions):
        yield Finding("contract-version", Verdict.WARNING, warning, subject)
    try:
        Registry([service, *others], versions)
    except (InvalidPlugin, Cycle) as error:
        yield Finding("registry", Verdict.FAILED, str(error), subject)
    else:
        text = "the version of the contract is supported, and all names and the order of the types are valid"
        yield Finding("registry", Verdict.OK, text, subject)
    for type_ in service.types:
        for rule, text, find in _RULES:
            full = f"{subject}.{type_.name}"
            failures = [Finding(rule, Verdict.FAILED, problem, full) for problem in find(type_)]
            yield from failures or [Finding(rule, Verdict.OK, text, full)]
        if type_.used_by is None:
            text = (
                "it does not say what of other projects may use it ('used_by'), so that its delete looks for nothing: "
                "declare an empty tuple if nothing can"
            )
            yield Finding("used-by", Verdict.WARNING, text, f"{subject}.{type_.name}")


def _calls(type_: ResourceType) -> Iterator[str]:
    calls = [("list", type_.list), ("show", type_.show), ("delete", type_.delete)]
    calls += [("force", type_.force.act)] if type_.force is not None else []
    calls += [("prepare", action) for action in type_.prepare]
    for what, call in calls:
        if call is not None:
            yield from (f"{what}: {problem}" for problem in _call_problems(call, what))


def _refers_to(type_: ResourceType) -> Iterator[str]:
    if type_.refers_to is None:
        return
    yield from (f"refers_to: {problem}" for problem in _call_problems(type_.refers_to, "refers_to"))
    if type_.delete is None or type_.composition.deleted_with:
        yield "its order ('refers_to') would never be used: it is not deleted by itself"


def _halt(type_: ResourceType) -> Iterator[str]:
    if type_.halt is None:
        return
    for what, call in (("stop", type_.halt.stop), ("start", type_.halt.start)):
        yield from (f"halt.{what}: {problem}" for problem in _call_problems(call, what))
    if type_.show is None:
        yield "it is stopped ('halt') without being read again ('show')"


def _all_projects(type_: ResourceType) -> Iterator[str]:
    if isinstance(type_.all_projects, str):
        return
    yield from (f"all_projects: {problem}" for problem in _call_problems(type_.all_projects, "list"))
    if type_.owner == SCOPED:
        yield "its rows show no owner ('owner'), so that a list of all projects ('all_projects') says nothing"
    elif not callable(type_.all_projects) and _filtered(type_.all_projects):
        yield "its list of all projects ('all_projects') carries an owner filter"


def _token(type_: ResourceType) -> Iterator[str]:
    if type_.fallback.if_gone is not None and (type_.token, type_.fallback.if_gone) != (Token.PROJECT, Token.ADMIN):
        yield "'fallback.if_gone' is for a type that needs a token of the project, and then does with an admin's"
    if type_.proof is not None and type_.proof.method != "GET":
        yield "what proves that the caller is an admin ('proof') is no read"


def _owner(type_: ResourceType) -> Iterator[str]:
    if not type_.owner:
        yield "it does not say which attribute names the owner"
    if callable(type_.list) or _filtered(type_.list):
        return
    if type_.owner != SCOPED and not type_.unfiltered:
        yield "its list call carries no owner filter, and 'unfiltered' does not say why"
    if type_.owner == SCOPED and type_.token is Token.ADMIN:
        yield (
            "its rows show no owner (SCOPED), and its list call names no project and is made with an admin's token: "
            "the rows of all projects would be the project's"
        )


def _why_no_show(type_: ResourceType) -> Iterator[str]:
    if type_.delete is not None and not type_.composition.deleted_with and type_.show is None and not type_.why_no_show:
        yield "it is deleted without being read again, and 'why_no_show' does not say why that is safe"


def _settings(type_: ResourceType) -> Iterator[str]:
    if type_.project_setting and EVERYTHING in type_.after and type_.composition.deleted_with:
        yield "project settings cannot be deleted with another type: by then nothing else is deleted"
    if type_.informational and not type_.project_setting:
        yield "what is only reported ('informational') is project settings, too: it goes right before the project does"
    if type_.informational and type_.token is not Token.ADMIN:
        yield "what is only reported ('informational') is listed with an admin's token: the last round has no other"


def _force(type_: ResourceType) -> Iterator[str]:
    if type_.force is not None and (type_.delete is None or type_.project_setting or type_.composition.deleted_with):
        yield "its force would never be used: it has no delete of its own that may be left undone"


def _created(type_: ResourceType) -> Iterator[str]:
    if type_.created and not _ATTRIBUTE.fullmatch(type_.created):
        yield f"'created' is {type_.created!r}, which is no name of an attribute and no dotted path"
    if type_.created and type_.project_setting:
        yield "its age ('created') would never be used: project settings are not selected by their age"
    if type_.updated and not _ATTRIBUTE.fullmatch(type_.updated.attribute):
        yield f"'updated' is {type_.updated.attribute!r}, which is no name of an attribute and no dotted path"
    if type_.updated and type_.project_setting:
        yield "its last change ('updated') would never be used: project settings are not selected by it"


def _parts(type_: ResourceType) -> Iterator[str]:
    for parts in type_.parts or ():
        if callable(parts.list):
            yield from (f"parts: {problem}" for problem in _call_problems(parts.list, "parts"))
        updated = parts.updated.attribute if parts.updated else ""
        for what in (parts.created, updated, parts.changed, "" if callable(parts.list) else parts.list):
            if what and not _ATTRIBUTE.fullmatch(what):
                yield f"its {parts.name} ('parts') has {what!r}, which is no name of an attribute and no dotted path"
    if (type_.created or type_.updated) and type_.parts is None and type_.delete is not None:
        yield (
            "it does not say what is deleted with it ('parts'), so that its age ('created') and its last change "
            "('updated') are never used: declare an empty tuple if there is nothing"
        )
    if type_.parts and not (type_.created or type_.updated):
        yield "its 'parts' would never be used: it does not say how old it is ('created', 'updated')"


def _size(type_: ResourceType) -> Iterator[str]:
    if type_.size is None:
        return
    if not (isinstance(type_.size, tuple) and [type(part) for part in type_.size] == [str, int]):
        yield f"'size' is {type_.size!r}: name an attribute, and the bytes of one unit of its value"
        return
    name, unit = type_.size
    if not _ATTRIBUTE.fullmatch(name):
        yield f"'size' names {name!r}, which is no name of an attribute and no dotted path"
    if unit < 1:
        yield f"'size' has a unit of {unit} bytes"


def _source(type_: ResourceType) -> Iterator[str]:
    if not type_.source:
        yield "it does not say which call of which service it rests on ('source')"


#: The rules for a type: the id, what holds if the rule finds no problem, and what yields the problems.
_RULES: tuple[tuple[str, str, Callable[[ResourceType], Iterator[str]]], ...] = (
    ("calls", "each declared call exists and takes its arguments, and each hook has a name", _calls),
    ("owner", "the declaration says how the owner of a row is known", _owner),
    ("fresh", "the owner is known right before the delete", _why_no_show),
    ("token", "the tokens and the proof suit each other", _token),
    ("settings", "the declarations about project settings suit each other", _settings),
    ("all-projects", "the list of all projects shows owners and has no owner filter, or there is none", _all_projects),
    ("refers-to", "the order within the type is a named rule, or there is none", _refers_to),
    ("force", "the declarations about force suit each other", _force),
    ("halt", "it can be stopped and started, or does not declare it", _halt),
    ("created", "'created' is the path of an attribute, or empty", _created),
    ("parts", "a type that can be selected by its age says which parts are deleted with it", _parts),
    ("size", "'size' is the path of an attribute with a unit, or there is none", _size),
    ("source", "the declaration names its source", _source),
)


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
            if what == "list" and _reads_one_page(method):
                yield (
                    f"openstacksdk's {call.proxy}.{call.method} reads only the first page (paginated=False): declare a "
                    "Rest call with paging"
                )
    elif isinstance(call, Rest):
        if what == "list" and not call.key:
            yield f"{call!r} does not say under which key the collection is"
        if what != "list" and not any(placeholder in call.path for placeholder in ("{id}", "{project_id}")):
            yield f"{call!r} does not address a resource by its id"
    elif not callable(call):
        yield f"{call!r} is neither a declared call nor a hook"
    elif not inspect.getdoc(call) and getattr(call, "__name__", "<lambda>") == "<lambda>":
        yield "a hook has a name: no lambdas"


def _reads_one_page(method: object) -> bool:
    """Return whether a list call of openstacksdk follows no pages, by its source: no attribute says so."""
    try:
        return "paginated=False" in inspect.getsource(method)  # type: ignore[arg-type]
    except (OSError, TypeError):  # without the source
        return False


def _proxies() -> dict[str, type]:
    """Return the newest proxy class of each service that the SDK has."""
    classes = {}
    for name in dir(Connection):
        description = inspect.getattr_static(Connection, name)
        supported = getattr(description, "supported_versions", None)
        if supported:
            classes[name] = supported[max(supported, key=lambda version: [int(n) for n in version.split(".")])]
    return classes
