"""The names of version 1 of the plugin contract, for as long as this version is supported."""

from __future__ import annotations

import collections
import dataclasses
import functools
import warnings
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, TypeVar

_Class = TypeVar("_Class", bound=type)

_NO_GROUPS: Mapping[str, type] = {}


def renamed(groups: Mapping[str, type] = _NO_GROUPS, /, **names: str) -> Callable[[_Class], _Class]:
    """Return a decorator: a dataclass knows its fields by their old names, too, with a ``DeprecationWarning``.

    :param groups: the dataclasses of those fields that are groups
    :param names: the new name by the old one: ``user_content``, or ``force.allowed`` in the group ``force``. A group
        may have an old name itself: its class tells it from an old value
    """

    def decorate(class_: _Class) -> _Class:
        declared = class_.__init__  # type: ignore[misc]

        def is_old(name: str, value: Any) -> bool:
            return name in names and not (name in groups and (value is None or isinstance(value, groups[name])))

        @functools.wraps(declared)
        def init(self: Any, *args: Any, **given: Any) -> None:
            members: dict[str, dict[str, Any]] = collections.defaultdict(dict)
            for old in [name for name, value in given.items() if is_old(name, value)]:
                _warn(class_, old, names[old])
                field, _, member = names[old].partition(".")
                value = given.pop(old)
                if member:
                    members[field][member] = value
                else:
                    given[field] = value
            for field, values in members.items():
                if (group := given.get(field)) is not None:
                    given[field] = dataclasses.replace(group, **values)
                elif _required(groups[field]) <= {name for name, value in values.items() if value}:
                    given[field] = groups[field](**values)
            declared(self, *args, **given)

        class_.__init__ = init  # type: ignore[misc]
        for old, new in names.items():
            if old not in groups:
                setattr(class_, old, _reader(class_, old, new))
        return class_

    return decorate


def _required(class_: type) -> set[str]:
    """Return the fields of a dataclass that have no default."""
    defaults = (dataclasses.MISSING, dataclasses.MISSING)
    return {field.name for field in dataclasses.fields(class_) if (field.default, field.default_factory) == defaults}


def _reader(class_: type, old: str, new: str) -> property:
    """Return the attribute with an old name. The attribute has no docstring, so that no manual lists the name."""

    def read(one: Any) -> Any:
        _warn(class_, old, new)
        for name in new.split("."):
            one = getattr(one, name, None)
        return one

    return property(read)


def constants(module: ModuleType, **names: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a module: it reads a constant by its old name, with a ``DeprecationWarning``."""

    def read(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
        _warn(module, name, names[name])
        return getattr(module, names[name])

    return read


def _warn(home: type | ModuleType, old: str, new: str) -> None:
    text = f"{home.__name__}.{old} is {new} since version 2 of the plugin contract"
    warnings.warn(text, DeprecationWarning, stacklevel=3)
