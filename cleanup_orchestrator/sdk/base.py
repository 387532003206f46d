"""The base of the resources."""

from __future__ import annotations

from collections.abc import ItemsView, KeysView, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from openstack import resource

if TYPE_CHECKING:
    from typing import Self  # novermin: Python 3.11, for the type checker

#: Names of parameters of the constructor. A field of this name is only in the mapping.
_PARAMETERS = frozenset({"self", "_synchronized", "connection", "microversion"})


class CleanupResource(resource.Resource):
    """An object that the API returned. Its attributes are typed; as a mapping it is the object as the server sent it.

    ``deletion.progress`` is a :class:`Progress`; ``deletion["progress"]`` is a plain dict. An attribute is ``None`` if
    the server did not send it. Fields of newer servers are attributes as well. ``to_dict()`` returns all attributes.

    The methods of the proxy are the only calls. A change of a resource is never sent to the server.
    """

    _allow_unknown_attrs_in_body = True
    _complete = False
    _names: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Read the names of the typed attributes once."""
        super().__init_subclass__(**kwargs)
        cls._names = frozenset(cls._body_mapping())

    def __init__(self, _synchronized: bool = False, connection: Any = None, **attrs: Any) -> None:
        # With a connection, the base would add the location of the login, which is not that of the project.
        super().__init__(_synchronized=_synchronized, **attrs)
        self._complete = True
        dict.update(self, attrs)

    @classmethod
    def received(cls, answer: Mapping[str, Any]) -> Self:
        """Return the resource for an object of an answer."""
        made = cls(_synchronized=True, **{name: answer[name] for name in answer if name not in _PARAMETERS})
        dict.clear(made)
        dict.update(made, answer)
        return made

    def to_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return the attributes as a dict; the parameters are those of the base class."""
        # The constructor of the base would convert all attributes to fill the mapping. That takes most of the time.
        found: dict[str, Any] = super().to_dict(*args, **kwargs) if self._complete else {}
        return found

    def _collect_attrs(self, attrs: dict[str, Any]) -> tuple[dict[str, Any], ...]:
        """Return the attributes by their place; leave in the argument those without a type.

        All of them are in the body, under their own names. The base would compare the names one by one.
        """
        body = dict(attrs)
        for name in self._names:
            attrs.pop(name, None)
        return body, {}, {}, {}

    def __getitem__(self, name: str) -> Any:
        return dict.__getitem__(self, name) if name in self else super().__getitem__(name)

    def keys(self) -> KeysView[str]:
        """Return the names of the fields that the server sent."""
        return dict.keys(self)

    def items(self) -> ItemsView[str, Any]:
        """Return the fields that the server sent, with their values."""
        return dict.items(self)
