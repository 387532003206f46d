"""The base of the forms, and what a page says of the errors in them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from django import forms

#: Widgets that Bootstrap shows without the class of a text field.
_UNSTYLED = (forms.CheckboxInput, forms.RadioSelect, forms.CheckboxSelectMultiple)


class Form(forms.Form):
    """A form whose fields look like those of Horizon."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.style()

    def style(self) -> None:
        """Give the fields their CSS class. A form that adds fields calls this again."""
        for field in self.fields.values():
            if not isinstance(field.widget, _UNSTYLED):
                field.widget.attrs.setdefault("class", "form-control")


class Problem(NamedTuple):
    """An error in a form, for the summary at the top of the page."""

    text: str
    #: Label of the field; empty: the error concerns the whole form.
    label: Any = ""
    #: HTML id of the field that the summary links to; empty: there is none.
    field_id: str = ""


def problems(given: Iterable[forms.Form]) -> list[Problem]:
    """Return the errors of forms in the order of their fields, and give the focus to the first wrong field.

    The page then opens at the wrong field, also without JavaScript.
    """
    found = list[Problem]()
    for form in given:
        if not form.is_bound:
            continue
        found += [Problem(str(error)) for error in form.non_field_errors()]
        for bound in form:
            if not bound.errors:
                continue
            if not any(each.field_id for each in found):
                bound.field.widget.attrs["autofocus"] = True
            found += [Problem(str(error), bound.label, _id_of(bound)) for error in bound.errors]
    return found


def _id_of(bound: forms.BoundField) -> str:
    """Return the HTML id of a field: of several inputs that of the first one, which can take the focus."""
    return str(bound.id_for_label or f"{bound.auto_id}_0")
