"""Writes the resources of the SDK from the shapes: ``python -m tests.sdk_source``.

The SDK imports nothing else of this project, and a type checker has to see the types of its resources. So they are
written into ``cleanup_orchestrator/sdk`` and checked in. A test compares them with the shapes.
"""

import pathlib
import textwrap
import typing

import cleanup_orchestrator
from cleanup_orchestrator.shapes import deletions, evidence, holds, orphans, places, reports
from cleanup_orchestrator.shapes.base import Link, Shape, item_type

SDK = pathlib.Path(cleanup_orchestrator.__file__).with_name("sdk")
MODULES = {
    module.__name__.rpartition(".")[2]: module for module in (places, holds, deletions, reports, evidence, orphans)
}
WIDTH = 120


def shapes_of(module):
    """Return the shapes that a module declares, in their order."""
    return [
        each
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, Shape) and each.__module__ == module.__name__
    ]


def source(name):
    """Return the source of a module of the SDK."""
    module = MODULES[name]
    parts = [_class(each) for each in shapes_of(module)]
    text = "\n\n\n".join(parts)
    imports = ["from openstack import resource", "", *_ours(module)]
    if "Any]" in text:
        imports = ["from typing import Any", "", *imports]
    note = "Written by ``python -m tests.sdk_source`` from the shapes of the API: change these, and write it anew."
    doc = f'"""{module.__doc__.splitlines()[0]}\n\n{textwrap.fill(note, WIDTH)}\n"""'
    return "\n".join([doc, "", "from __future__ import annotations", "", *imports, "", "", text, ""])


def _ours(module):
    """Return the imports of other resources."""
    used = {"CleanupResource"} if any(Shape in each.__bases__ for each in shapes_of(module)) else set()
    found = {"base": used}
    for each in shapes_of(module):
        inner = [field.nested for name, field in each.fields.items() if name in vars(each)]
        for other in (*each.__bases__, *inner):
            where = other.__module__.rpartition(".")[2] if other else ""
            if where in MODULES and MODULES[where] is not module:
                found.setdefault(where, set()).add(other.__name__)
    lines = {where: ", ".join(sorted(names)) for where, names in found.items() if names}
    return [f"from cleanup_orchestrator.sdk.{where} import {names}" for where, names in sorted(lines.items())]


def _class(shape):
    """Return the source of the resource of a shape."""
    bases = ", ".join("CleanupResource" if base is Shape else base.__name__ for base in shape.__bases__)
    head = f'class {shape.__name__}({bases}):\n    """{shape.__doc__}"""'
    keys = [f'    {key} = "{value}"' for key, value in _keys(shape)]
    fields = [_field(each) for name, each in shape.fields.items() if name in vars(shape)]
    return "\n\n".join([head, *(["\n".join(keys)] if keys else []), *(["\n".join(fields)] if fields else [])])


def _keys(shape):
    inherited = [base.many for base in shape.__bases__]
    own = [("resource_key", shape.one), ("resources_key", "" if shape.many in inherited else shape.many)]
    return [(key, value) for key, value in own if value]


def _field(each):
    """Return the comment and the attribute of a field."""
    about = each.about or (each.nested.__doc__.splitlines()[0] if each.nested else "")
    comment = textwrap.wrap(about, WIDTH - 7, break_long_words=False, break_on_hyphens=False)
    item = item_type(each.kind)
    kind = _name(each.kind)
    typed = {list: "list", dict: "dict"}.get(typing.get_origin(each.kind) or each.kind, kind)
    listed = f", list_type={_name(item)}" if item and typing.get_origin(item) is None and item is not Link else ""
    null = " | None" if each.null else ""
    attribute = f'{each.name}: {kind}{null} = resource.Body("{each.name}", type={typed}{listed})'
    return "\n".join([*(f"    #: {line}" for line in comment), f"    {attribute}"])


def _name(kind):
    """Return a type as the source of the SDK names it."""
    if kind is Link:
        return "dict[str, Any]"
    item = item_type(kind)
    if item is not None:
        return f"list[{_name(item)}]"
    return "dict[str, Any]" if typing.get_origin(kind) is dict else kind.__name__


def main():
    """Write the modules."""
    for name in MODULES:
        (SDK / f"{name}.py").write_text(source(name))


if __name__ == "__main__":
    main()
