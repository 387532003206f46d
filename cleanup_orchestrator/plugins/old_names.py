"""The names of version 1 of the plugin contract, for as long as this version is supported."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

_Class = TypeVar("_Class", bound=type)


def renamed(**names: str) -> Callable[[_Class], _Class]:
    """Return a decorator: a dataclass knows its fields by their old names, too, with a ``DeprecationWarning``.

    :param names: the new name by the old one
    """

    def decorate(class_: _Class) -> _Class:
        declared = class_.__init__  # type: ignore[misc]

        @functools.wraps(declared)
        def init(self: Any, *args: Any, **given: Any) -> None:
            for old in [name for name in given if name in names]:
                _warn(class_, old, names[old])
                given[names[old]] = given.pop(old)
            declared(self, *args, **given)

        class_.__init__ = init  # type: ignore[misc]
        for old, new in names.items():
            setattr(class_, old, property(functools.partial(_read, class_=class_, old=old, new=new)))
        return class_

    return decorate


def _read(one: Any, class_: type, old: str, new: str) -> Any:
    _warn(class_, old, new)
    return getattr(one, new)


def _warn(class_: type, old: str, new: str) -> None:
    text = f"{class_.__name__}.{old} is {new} since version 2 of the plugin contract"
    warnings.warn(text, DeprecationWarning, stacklevel=3)
