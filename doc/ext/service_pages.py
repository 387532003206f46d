"""Writes a documentation page for each installed plugin from what it declares.

As a Sphinx extension it writes ``services/<type>.rst`` and ``services/index.rst`` below the sources before Sphinx reads
them. The sentences about what is kept, protected and refused are those of the report: they are read from the rules.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import stevedore
from generated import write_changed
from os_service_types import ServiceTypes

from cleanup_orchestrator import plugins as plugins_package
from cleanup_orchestrator.cloud.catalog import OWNS_NOTHING
from cleanup_orchestrator.plugins import registry
from cleanup_orchestrator.plugins.base import (
    EVERYTHING,
    SCOPED,
    LastChange,
    Reason,
    ResourceType,
    Rest,
    Sdk,
    Service,
    Token,
)

_TOKENS = {
    Token.ADMIN: "of the orchestrator's own project",
    Token.MEMBER: "the janitor's, scoped into the project. Without a janitor, and in a dry run: that of the "
    "orchestrator's user, scoped into the project",
}
_DEPTH = 4  # how many calls deep a hook's helpers are read for what it may refuse

INDEX = """\
========
Services
========

Each page has the list calls and the delete calls of a service, the order of the deletes, the resources that are kept,
the role that the orchestrator needs, and what can be left and why. The pages are made from the installed plugins.

.. toctree::
   :maxdepth: 1

{pages}

All services together
=====================
{order}

Services in which projects own nothing
======================================
``[catalog] owns_nothing`` has these service types by default. They need no plugin.

.. list-table::
   :header-rows: 1
   :widths: 25 75

   * - Service type
     - Why a project owns nothing there
{nothing}
"""


# ------------------------------------------------------------------------------------------------- reading plugins


def plugins() -> dict[str, tuple[Service, str]]:
    """Return each installed service with the docstring of its module."""
    manager = stevedore.ExtensionManager(registry.NAMESPACE, invoke_on_load=False)
    found = {}
    for extension in manager:
        module = importlib.import_module(extension.entry_point.value.partition(":")[0])
        found[extension.name] = (extension.plugin, inspect.getdoc(module) or "")
    return dict(sorted(found.items()))


def title(service_type: str) -> str:
    """Return ``orchestration (heat)``."""
    data = ServiceTypes().get_service_data(service_type) or {}
    project = str(data.get("project") or "")
    return f"{service_type} ({project})" if project else service_type


def _plugin_of(hook: Callable[..., Any]) -> str:
    """Return the module of a hook's plugin, or the package that the plugin is."""
    parent = hook.__module__.rpartition(".")[0]
    return hook.__module__ if parent in ("", plugins_package.__name__) else parent


def _functions(hook: Callable[..., Any]) -> Iterator[ast.AST]:
    """Yield the syntax of a hook and of the helpers of its own plugin that it calls."""
    todo, seen = [(hook, 0)], set()
    while todo:
        one, depth = todo.pop()
        one = inspect.unwrap(getattr(one, "func", one))
        code = getattr(one, "__code__", None)
        if code is None or code in seen:
            continue
        seen.add(code)
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(one)))
        except (OSError, SyntaxError):
            continue
        yield tree
        if depth < _DEPTH:
            names = {n.func.id for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
            within = inspect.getclosurevars(one)
            for name in sorted(names):
                helper = within.globals.get(name) or within.nonlocals.get(name)
                if inspect.isfunction(helper) and _plugin_of(helper) == _plugin_of(one):
                    todo.append((helper, depth + 1))


def _texts(node: ast.AST | None) -> list[str]:
    """Return the literal sentences that an expression may be.

    Filled-in parts become an ellipsis.
    """
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.JoinedStr):
        return ["".join("".join(_texts(part)) or "…" for part in node.values)]
    if isinstance(node, ast.BinOp):
        return [f"{text}…" for text in _texts(node.left)]
    if isinstance(node, ast.IfExp):
        return _texts(node.body) + _texts(node.orelse)
    return []


def sentences(rule: Callable[..., Any]) -> list[str]:
    """Return the sentences that a rule may return."""
    found = []
    for tree in _functions(rule):
        for node in ast.walk(tree):
            if isinstance(node, ast.Return):
                found += _texts(node.value)
    return list(dict.fromkeys(found))


def _reasons(tree: ast.AST, node: ast.AST) -> str:
    """Return the reason codes that an expression may be.

    A name is replaced by its assigned value.
    """
    if isinstance(node, ast.Name):
        for found in ast.walk(tree):
            if isinstance(found, ast.Assign):
                targets = {target.id for target in found.targets if isinstance(target, ast.Name)}
                if node.id in targets:
                    return _reasons(tree, found.value)
    names = [n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute) and n.attr in Reason.__members__]
    return " or ".join(f"``{Reason[name]}``" for name in names)


def verdicts(hook: Callable[..., Any]) -> list[tuple[str, str]]:
    """Return reasons and sentence of each verdict that a hook may return or raise."""
    found = []
    for tree in _functions(hook):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Verdict":
                texts = [text for text in _texts(node.args[1]) if re.search(r"\w", text)] if len(node.args) > 1 else []
                reasons = _reasons(tree, node.args[0])
                found += [(reasons, text) for text in texts or ["the blocking resource is named"] if reasons]
    return list(dict.fromkeys(found))


def about(hook: Callable[..., Any]) -> str:
    """Return the first paragraph of a hook's docstring.

    Of a hook that a function makes, that function's docstring is used, with the strings that the hook was made with.
    """
    text, made_with = inspect.getdoc(hook), ""
    outer, _, inner = getattr(hook, "__qualname__", "hook").partition(".<locals>.")
    if not text and inner:
        maker = getattr(sys.modules[hook.__module__], outer)
        text = re.sub(
            r"^Return an? (listing of|``available`` check: |``show`` that|action that)\s?",
            "",
            inspect.getdoc(maker) or "",
        )
        strings = [value for value in inspect.getclosurevars(hook).nonlocals.values() if isinstance(value, str)]
        made_with = ", ".join(f"``{value}``" for value in strings)
    text = text or outer.strip("_").replace("_", " ")
    text = re.sub(r"\s+", " ", text.split("\n\n")[0]).removeprefix("Yield ").removeprefix("Return ")
    if made_with:
        text = f"{text.rstrip('.')} ({made_with})"
    return text[:1].upper() + text[1:]


def call(action: Any) -> str:
    """Return a declared call as a literal, and a hook in words."""
    if isinstance(action, Rest):
        query = "&".join(f"{key}={value}" for key, value in action.query.items())
        return f"``{action.method} {action.path}{'?' + query if query else ''}``"
    if isinstance(action, Sdk):
        return f"``{action!r}`` of openstacksdk"
    return about(action)


# ------------------------------------------------------------------------------------------------------- writing


def _title(text: str, mark: str) -> str:
    return f"{text}\n{mark * len(text)}\n"


def _items(lines: Iterable[str]) -> str:
    return "".join(f"- {line}\n" for line in lines)


def _field(name: str, text: str) -> str:
    return f":{name}: {text}\n" if text else ""


def _names(names: Iterable[str], own: str) -> str:
    shown = []
    for name in names:
        if name == EVERYTHING:
            shown.append("everything else, in every service")
        else:
            shown.append(f"``{name.removeprefix(own + '.')}``")
    return ", ".join(shown)


def _sentence(text: str) -> str:
    text = text.strip()
    text = text[:1].upper() + text[1:]
    return text if not text or text.endswith((".", "?", "!")) else text + "."


def _deleted(type_: ResourceType) -> str:
    if type_.composition.deleted_with:
        wholes = " or ".join(f"``{name}``" for name in type_.composition.deleted_with)
        return f"no separate call: it is deleted with its {wholes}"
    if type_.delete is None:
        return "not deleted"
    return call(type_.delete)


def left_over(type_: ResourceType) -> list[str]:
    """Return what can be left of a type, and why.

    The errors that any service may answer are not listed.
    """
    found = [f"``{Reason.PROTECTED}``: {_sentence(s)}" for rule in type_.protect for s in sentences(rule)]
    hooks = [*type_.prepare, type_.delete, type_.explain, type_.force and type_.force.act]
    for hook in hooks:
        if hook is not None and not isinstance(hook, Sdk | Rest):
            found += [
                f"{reason}: {_sentence(text)}" if text else f"{reason}." for reason, text in verdicts(hook) if reason
            ]
    if type_.delete is None and not type_.keep:
        found.append(f"``{Reason.REFUSED}``: The API offers no delete for it.")
    return list(dict.fromkeys(found))


def _all_projects(type_: ResourceType) -> str:
    """Return how the resources of all projects are listed, or why they are not."""
    if isinstance(type_.all_projects, str):
        return f"not covered: {type_.all_projects}" if type_.all_projects else "not covered"
    return f"the resources of all projects are listed with: {call(type_.all_projects)}"


def _age(type_: ResourceType) -> str:
    """Return the attribute with the age of a resource."""
    if type_.project_setting or type_.delete is None or type_.composition.deleted_with:
        return ""
    return f"``{type_.created}``" if type_.created else "unknown: a purge by age never deletes it"


def _last_change(type_: ResourceType) -> str:
    """Return the attribute with the time of the last change of a resource."""
    if not _age(type_):
        return ""
    return _shown_by(type_.updated) or "unknown: a purge by the last change never deletes it"


def _shown_by(change: LastChange | None) -> str:
    """Return the attribute of a last change, and what counts until the first one; empty: it is unknown."""
    if change is None:
        return ""
    return f"``{change.attribute}``" + (", or the age if it is ``null``" if change.null_until_changed else "")


def _parts(service: Service, type_: ResourceType, known: registry.Registry) -> str:
    """Return which parts of a resource keep it in a purge by age or by the last change."""
    if not _age(type_) or not (type_.created or type_.updated):
        return ""
    found = []
    for parts in type_.parts or ():
        whole = [f"``{parts.changed}`` of the {type_.name}"] if parts.changed else []
        age = ([f"``{parts.created}``"] if parts.created else []) + whole
        change = ([_shown_by(parts.updated)] if parts.updated else []) + whole
        found.append((parts.name, " or ".join(age), " or ".join(change)))
    for other_service, other, whole, _attribute in known.related_types(service, type_):
        if not whole and not other.project_setting:
            same = other_service.service_type == service.service_type
            name = other.name if same else f"{other_service.service_type}.{other.name}"
            found.append((name, f"``{other.created}``" if other.created else "", _shown_by(other.updated)))
    return "; ".join(_part(*each) for each in found) or "nothing"


def _part(name: str, age: str, change: str) -> str:
    """Return a part with the attributes of its age and of its last change, in words."""
    if age == change:
        return f"{name} ({age or 'age and last change unknown: it stays'})"
    return f"{name} ({age or 'age unknown: it stays'}; last change: {change or 'unknown: it stays'})"


def type_section(service: Service, type_: ResourceType, known: registry.Registry) -> str:
    """Return the section of the page about one type."""
    waits = known.after(service, type_)
    owner = f"``{type_.owner}``"
    if type_.owner == SCOPED:
        owner = "not shown: the service lists only the resources of the token's project"
    token = _TOKENS.get(type_.token, "scoped into the project")
    if type_.for_missing_project(gone=True).token is not type_.token:
        token += "; of the orchestrator's own project if Keystone no longer knows the project"
    if type_.fallback.unreadable is not None:
        token += ", or if a name in the project's token is not Latin-1 and the service fails to read it"
    fields = [
        _field("Listed with", call(type_.list)),
        _field("Owner", owner),
        _field("No owner filter", _sentence(type_.unfiltered)),
        _field("Token", token),
        _field("For orphan scans", _all_projects(type_)),
        _field("Exists if", _condition(type_.available) if type_.available else ""),
        _field("Deleted after", _names(waits, service.service_type)),
        _field("If these are left, only resources that they use wait", _needed_by(service, type_)),
        _field("If the project is kept, also deleted after, except for what these use", _serves(service, type_)),
        _field("Deleted before", about(type_.refers_to).removeprefix("Return ") if type_.refers_to else ""),
        _field("Before the delete", " ".join(_sentence(call(action)) for action in type_.prepare)),
        _field("Deleted with", _deleted(type_)),
        _field("Age", _age(type_)),
        _field("Last change", _last_change(type_)),
        _field("Must be old enough, or unchanged, too, because it is deleted with it", _parts(service, type_, known)),
        _field("Service acts on data of users", _acts(type_)),
        _field("Forced delete", _sentence(call(type_.force.act)) if type_.force else ""),
        _field("Checked before force", about(type_.force.allowed) if type_.force and type_.force.allowed else ""),
        _field("Used by other projects", _uses(type_)),
        _field("Stopped for the recovery window with", _sentence(call(type_.halt.stop)) if type_.halt else ""),
        _field("Started again with", _sentence(call(type_.halt.start)) if type_.halt else ""),
        _field("If abandoned", type_.if_abandoned),
        _field("By hand", type_.by_hand.format(id="ID", project_id="PROJECT")),
        _field("Owner checked again with", call(type_.show) if type_.show else _sentence(type_.why_no_show)),
        _field("Deleted last", _last(type_)),
        _field("Source", type_.source),
    ]
    text = _title(type_.name, "-") + "\n" + "".join(fields) + "\n"
    if type_.note:
        text += type_.note + "\n\n"
    kept = [_sentence(s) for rule in type_.keep for s in sentences(rule) or [about(rule)]]
    if kept:
        text += "Kept, and not counted as left:\n\n" + _items(kept) + "\n"
    if left := left_over(type_):
        text += "Left over:\n\n" + _items(left) + "\n"
    return text


def _uses(type_: ResourceType) -> str:
    """Return what of other projects may use a resource of a type, and what its delete does to it."""
    said = (f"{' or '.join(f'``{name}``' for name in use.by)}: the delete {use.harm}" for use in type_.used_by or ())
    return "; ".join(said)


def _condition(hook: Callable[..., Any]) -> str:
    """Return the condition that a check decides, without the word "whether"."""
    return about(hook).removeprefix("Whether ")


def _serves(service: Service, type_: ResourceType) -> str:
    """Return the types that reach others through resources of a type, without a refusal of the service."""
    return _names((name for name, _rule in type_.serves), service.service_type)


def _needed_by(service: Service, type_: ResourceType) -> str:
    """Return the types whose leftovers keep only some resources of a type from being deleted."""
    return _names((name for name, _rule in type_.needed_by), service.service_type)


def _acts(type_: ResourceType) -> str:
    """Return the user input that the service acts on at a delete, and its token."""
    if not type_.user_content:
        return ""
    if type_.has_user_content:
        return f"{type_.user_content}. The janitor's token deletes a resource if {_condition(type_.has_user_content)}"
    return f"{type_.user_content}. The janitor's token deletes it"


def _last(type_: ResourceType) -> str:
    if type_.informational:
        return (
            "right before the project. Any user can create one, without a role on the project. A report names it, but "
            "it is no leftover, and no type waits for it"
        )
    return "right before the project. It is no leftover" if type_.project_setting else ""


def waves(names: Iterable[str], waits: Callable[[str], Iterable[str]]) -> list[list[str]]:
    """Return the names in the smallest number of steps that keeps their order."""

    @functools.cache
    def depth(name: str) -> int:
        return 1 + max((depth(before) for before in waits(name)), default=-1)

    found: dict[int, list[str]] = {}
    for name in sorted(names):
        found.setdefault(depth(name), []).append(name)
    return [found[key] for key in sorted(found)]


def _order(service: Service, known: registry.Registry) -> str:
    own = service.service_type
    ordinary = [t for t in service.types if not t.project_setting]
    graph = known.graph()
    inside = {f"{own}.{t.name}" for t in ordinary}
    steps = waves(inside, lambda name: graph[name] & inside)
    lines = [", ".join(f"``{name.removeprefix(own + '.')}``" for name in step) for step in steps]
    text = "".join(f"#. {line}\n" for line in lines)
    if project_setting := [t.name for t in service.types if t.project_setting]:
        named = ", ".join(f"``{name}``" for name in project_setting)
        text += f"\nDeleted right before the project, after all other resources are gone: {named}.\n"
    return text


def in_short(service: Service) -> str:
    """Return what is deleted, kept and never touched, for the reader who wants to know no more."""
    without = [t for t in service.types if not t.composition.deleted_with and t.delete is None]
    deleted = [f"``{t.name}``" for t in service.types if t not in without]
    reported = [f"``{t.name}``" for t in without if not t.keep]
    kept = {t.name: [_sentence(s) for rule in t.keep for s in sentences(rule) or [about(rule)]] for t in service.types}
    protected = {t.name: [_sentence(s) for rule in t.protect for s in sentences(rule)] for t in service.types}
    used = [f"``{t.name}``" for t in service.types if t.used_by]
    text = _title("In short", "=") + "\n"
    text += f"**Deleted**, if the project owns it: {', '.join(deleted) or 'nothing'}.\n\n"
    if reported:
        text += f"**Never deleted**, and only reported: {', '.join(reported)}.\n\n"
    text += _by_sentence("Kept", "it is no leftover", kept)
    stays = "the report names it, and the project stays until a person decides"
    text += _by_sentence("Never touched", stays, protected)
    if used:
        text += f"**Never touched while another project uses it**: {', '.join(used)}.\n\n"
    return text + "**Never touched**: what the project does not own.\n"


def _by_sentence(word: str, means: str, said: Mapping[str, Iterable[str]]) -> str:
    """Return a list of sentences, each once, with the types that say it."""
    names: dict[str, list[str]] = {}
    for name, lines in said.items():
        for line in dict.fromkeys(lines):
            names.setdefault(line, []).append(f"``{name}``")
    items = _items(f"{', '.join(types)}: {line}" for line, types in names.items())
    return f"**{word}** ({means}):\n\n{items}\n" if items else ""


def page(service: Service, intro: str, known: registry.Registry) -> str:
    """Return the page of one service."""
    name = title(service.service_type)
    text = "=" * len(name) + "\n" + _title(name, "=") + "\n" + in_short(service) + "\n" + intro + "\n\n"
    if service.roles:
        text += f"Role that the orchestrator needs: {service.roles}.\n\n"
    if service.proof:
        text += (
            f"Before each list, this call is made: {_sentence(call(service.proof))} Only an admin gets an answer to it."
            " Without the rights of an admin the lists would be empty although there are resources. Therefore, if the "
            "call is refused, each type of this page is unknown. Then check the policy of the service.\n\n"
        )
    if service.after:
        others = _names(service.after, service.service_type)
        text += f"All types of this page are deleted after {others}, if the catalog has such a service.\n\n"
    text += (
        _title("Order", "=") + "\nThe types of one step are deleted in parallel.\n\n" + _order(service, known) + "\n"
    )
    if service.options:
        text += _title("Options", "=") + f"\nIn the group ``[{registry.option_group(service.service_type)}]``.\n\n"
        for option in service.options:
            text += f"``{option.dest}`` (default: {option.default if option.default not in (None, '') else 'empty'})\n"
            text += textwrap.indent(re.sub(r"\s+", " ", option.help or ""), "   ") + "\n\n"
    text += _title("Types", "=") + "\n"
    text += (
        "Each call can also end with a reason of :doc:`/admin/operations`. This page has only the reasons that the "
        "plugin itself gives.\n\n"
    )
    for type_ in service.types:
        text += type_section(service, type_, known)
    return text


def index(services: dict[str, tuple[Service, str]], known: registry.Registry) -> str:
    """Return the page about all services together."""
    pages = "\n".join(f"   {name}" for name in services)
    graph = known.graph()
    ordinary = {name for name in graph if not known.find(*name.split(".")).project_setting}
    steps = waves(ordinary, lambda name: graph[name] & ordinary)
    order = "A type waits only for the types that it must follow, not for all types of the earlier steps.\n\n"
    order += "".join(f"#. {', '.join(f'``{name}``' for name in step)}\n" for step in steps)
    nothing = "\n".join(f"   * - ``{type_}``\n     - {why}" for type_, why in OWNS_NOTHING.items())
    return INDEX.format(pages=pages, order=order, nothing=nothing)


def write(directory: Path) -> None:
    """Write all pages, and remove those of services that have no plugin."""
    services = plugins()
    known = registry.Registry(service for service, _ in services.values())
    texts = {name: page(service, intro, known) for name, (service, intro) in services.items()}
    texts["index"] = index(services, known)
    directory.mkdir(exist_ok=True)
    for name, text in texts.items():
        write_changed(directory / f"{name}.rst", text)
    for path in directory.glob("*.rst"):
        if path.stem not in texts:
            path.unlink()


def setup(app: Any) -> dict[str, Any]:
    """Connect the extension to Sphinx."""
    app.connect("builder-inited", lambda app: write(Path(app.srcdir) / "services"))
    return {"parallel_read_safe": True}
