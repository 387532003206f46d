"""Converts records to JSON by their shapes. Pure."""

from __future__ import annotations

import datetime
import enum
from collections.abc import Iterable, Mapping
from typing import Any

from cleanup_orchestrator.core.times import utc
from cleanup_orchestrator.shapes.base import Shape, TypedField


def render(shape: type[Shape], record: Any, /, **computed: Any) -> dict[str, Any]:
    """Return a record as a JSON object.

    The value of a field is the attribute of the same name, unless it is computed. A nested shape is rendered in the
    same way; a mapping is already rendered. An empty text is ``null`` where the field can be ``null``.

    :param record: has the attributes
    :param computed: the values of the fields that are no attribute of the record
    :raises AttributeError: if the record does not have a field that is not optional
    :raises TypeError: if a computed value is of no field: the attribute that it ought to replace may be secret
    """
    return _rendered(shape, shape.fields.values(), record, computed)


def render_listed(shape: type[Shape], record: Any, /, **computed: Any) -> dict[str, Any]:
    """Return a record as lists show it; see :func:`render`."""
    return _rendered(shape, shape.in_lists, record, computed)


def _rendered(
    shape: type[Shape], fields: Iterable[TypedField], record: Any, computed: Mapping[str, Any]
) -> dict[str, Any]:
    if not computed.keys() <= shape.fields.keys():
        raise TypeError(f"{shape.__name__} has no field {', '.join(computed.keys() - shape.fields.keys())}")
    shown = {}
    for each in fields:
        name = each.name
        if name in computed:
            value = computed[name]
        elif each.optional and not hasattr(record, name):
            continue
        else:
            value = getattr(record, name)
        if type(value) not in _SIMPLE:
            value = _plain(value, each.nested)
        shown[name] = None if each.null and value == "" else value
    return shown


#: Types whose values are the same in JSON. A list of deletions has many such values: this is the fast way.
_SIMPLE = frozenset({str, int, bool, type(None)})


def _plain(value: Any, nested: type[Shape] | None) -> Any:
    """Return a value as JSON has it."""
    if type(value) in _SIMPLE:
        return value
    if isinstance(value, datetime.datetime):
        return utc(value)
    if isinstance(value, enum.Enum):
        return str(value)
    if isinstance(value, (list, tuple)):
        return [_plain(each, nested) for each in value]
    return value if nested is None or isinstance(value, Mapping) else render(nested, value)
