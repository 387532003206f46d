"""The fields of a form for a time."""

from __future__ import annotations

import datetime
from typing import Any

from django import forms
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext_lazy as _


class _Input(forms.DateTimeInput):
    input_type = "datetime-local"

    def format_value(self, value: Any) -> str | None:
        """Return a time of the API as the browser's field takes it: without its zone."""
        return str(value).removesuffix("Z") if value else None


class TimeField(forms.Field):
    """A time in UTC. The value is the time in the format of the API, or ``None``.

    The browser's field for a time has no zone. The time zone that the user chose in Horizon is not applied: the label
    says UTC, as the API does.
    """

    default_error_messages = {"invalid": _("Enter a date and a time in UTC, such as 2027-01-31T00:00.")}  # noqa: RUF012

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(widget=_Input(), **kwargs)

    def to_python(self, value: Any) -> str | None:
        """Return the time in the format of the API."""
        text = str(value or "").strip()
        if not text:
            return None
        try:
            moment = parse_datetime(text)
        except ValueError:
            moment = None
        if moment is None:
            raise forms.ValidationError(self.error_messages["invalid"], code="invalid")
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=datetime.timezone.utc)
        moment = moment.astimezone(datetime.timezone.utc)
        return str(self.checked(moment).strftime("%Y-%m-%dT%H:%M:%SZ"))

    def checked(self, moment: datetime.datetime) -> datetime.datetime:
        """Return the time.

        :raises django.forms.ValidationError: if the field does not allow it
        """
        return moment


class FutureTimeField(TimeField):
    """A time in UTC that is later than now."""

    default_error_messages = {  # noqa: RUF012
        "past": _("This time has already passed. Enter a time in UTC that is later than now."),
    }

    def checked(self, moment: datetime.datetime) -> datetime.datetime:
        """Refuse a time that has passed."""
        if moment <= datetime.datetime.now(datetime.timezone.utc):
            raise forms.ValidationError(self.error_messages["past"], code="past")
        return moment
