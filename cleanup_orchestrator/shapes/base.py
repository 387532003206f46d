"""What a shape and its fields are."""

from __future__ import annotations

import dataclasses
import sys
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

JsonSchema = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Field:
    """A field of a shape, without its name and its type: those are an annotation of the class."""

    about: str  #: what it means; empty: the text of its shape says it
    rules: Mapping[str, Any]  #: what its JSON Schema has besides the type
    label: str = ""  #: for people; empty: made from the name
    optional: bool = False  #: whether it can be absent
    detail: bool = False  #: whether lists leave it out; then it is optional, too
    quiet: bool = False  #: whether a table that shows one record leaves it out


@dataclasses.dataclass(frozen=True)
class TypedField:
    """A field with its name and its type."""

    name: str
    field: Field
    kind: Any  #: the type of a value that is not ``null``
    null: bool  #: whether the value can be ``null``
    nested: type[Shape] | None  #: the shape of its value, or of the items of its value
    optional: bool  #: whether it can be absent

    @property
    def label(self) -> str:
        """The title of its column."""
        return self.field.label or label(self.name)

    @property
    def about(self) -> str:
        """What it means."""
        return self.field.about + (" Absent in lists." if self.field.detail else "")


class Shape:
    """A JSON object of the API. A subclass declares its fields as annotations with a value of :func:`field`.

    A subclass of several shapes has their fields in the order of its bases, and its own after them. Parameters of a
    subclass: ``one`` and ``many`` are the names of a single record and of a list of them in an answer; ``columns`` and
    ``wide`` name the fields that a table shows of each record of a list, and those that it shows on request. A field of
    a nested object is ``progress.found``. ``open`` names the fields that every caller sees who sees the record, if the
    others need a right of their own.
    """

    one: ClassVar[str] = ""
    many: ClassVar[str] = ""
    columns: ClassVar[tuple[str, ...]] = ()
    wide: ClassVar[tuple[str, ...]] = ()
    open: ClassVar[tuple[str, ...]] = ()
    fields: ClassVar[Mapping[str, TypedField]] = {}  #: by name, in their order
    in_lists: ClassVar[tuple[TypedField, ...]] = ()  #: those that lists have

    def __init_subclass__(cls, **parameters: str) -> None:
        """Read the parameters and the fields."""
        super().__init_subclass__()
        for name, value in parameters.items():
            setattr(cls, name, value if name in ("one", "many") else tuple(value.split()))
        inherited: dict[str, TypedField] = {}
        for base in cls.__bases__:
            inherited |= base.fields if issubclass(base, Shape) else {}
        own = {name: value for name, value in vars(cls).items() if isinstance(value, Field)}
        cls.fields = inherited | {name: _typed(cls, name, value) for name, value in own.items()}
        cls.in_lists = tuple(each for each in cls.fields.values() if not each.field.detail)


def _typed(shape: type[Shape], name: str, value: Field) -> TypedField:
    """Return a field with the type of its annotation.

    The annotation is text. Python 3.9 cannot evaluate ``str | None``, so ``| None`` is not evaluated.
    """
    annotation: str = shape.__annotations__[name]
    plain = annotation.removesuffix(" | None")
    null = plain != annotation
    holder = types.SimpleNamespace(__annotations__={name: plain})
    kind = typing.get_type_hints(holder, vars(sys.modules[shape.__module__]))[name]
    inner = item_type(kind) or kind
    nested = inner if isinstance(inner, type) and issubclass(inner, Shape) else None
    return TypedField(name, value, kind, null, nested, value.optional)


def field_at(shape: type[Shape], path: str) -> TypedField:
    """Return the field of a column: ``name``, or ``name.name`` for one of a nested object."""
    name, _, inner = path.partition(".")
    outer = shape.fields[name]
    return field_at(outer.nested, inner) if inner and outer.nested else outer


def label(name: str) -> str:
    """Return the title of a column for the name of a field."""
    return " ".join("ID" if word == "id" else word.capitalize() for word in name.split("_"))


def item_type(kind: Any) -> Any:
    """Return the type of the items of a list type; ``None`` for another type."""
    return typing.get_args(kind)[0] if typing.get_origin(kind) is list else None


# The functions below return ``Any``: a type checker shall see the annotation of the class, and not the field.


def field(about: str = "", **more: Any) -> Any:
    """Return a field.

    :param about: what it means
    :param more: attributes of :class:`Field`; the others are rules of the JSON Schema, such as ``minimum``
    """
    known = {each.name for each in dataclasses.fields(Field)}
    rules = {name: value for name, value in more.items() if name not in known}
    given: dict[str, Any] = {name: value for name, value in more.items() if name in known}
    return Field(about, rules, **{"optional": more.get("detail", False), **given})


def time(about: str, **more: Any) -> Any:
    """Return a field with a time in UTC."""
    return field(about, format="date-time", **more)


def uuid(about: str, **more: Any) -> Any:
    """Return a field with a UUID."""
    return field(about, format="uuid", **more)


def word(values: Iterable[str], about: str, **more: Any) -> Any:
    """Return a field whose text is one of a closed set."""
    return field(about, enum=[str(value) for value in values], **more)


def quiet(each: Field) -> Any:
    """Return a field that a table of one record leaves out."""
    return dataclasses.replace(each, quiet=True)


class Input(Shape):
    """A body or a query. A field of a query whose type is a list can be given several times."""


def given(form: JsonSchema, about: str, required: bool = False) -> Any:
    """Return a field of an input.

    :param form: the JSON Schema of its value; empty: that of its type
    """
    return Field(about, form, optional=not required)


# ----------------------------------------------------------------------------------------------- shapes for many others
class Link(Shape):
    """A link to a record or a page."""

    rel: str = field("Kind of the link.")
    href: str = field("URL.")


#: Each record that has a URL of its own has this field.
SELF = field("One link with ``rel`` ``self``: the URL of the record.")
#: The same for records that are also shown inside others.
SELF_ALONE = dataclasses.replace(SELF, optional=True)


#: Who made a request. The fields stand where they belong in their shapes.
USER_ID = field("ID of the user who made the request.")
USER_NAME = field("Name of that user.", label="User")
REQUEST_ID = field("ID of that request.")
