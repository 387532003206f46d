"""The pages of the panel."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from django import forms
from django.http import HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _now
from django.utils.translation import gettext_lazy as _

from cleanup_orchestrator import sdk
from cleanup_orchestrator.dashboard import calls, fields, holds, pages
from cleanup_orchestrator.dashboard.brake import header


class Index(pages.Page):
    """Shows whether the brake is set."""

    page_title = _("Brake")
    template_name = "project_cleanup/brake/index.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Return the brake, and what the user may do."""
        context: dict[str, Any] = super().get_context_data(**kwargs)
        brake = calls.proxy(self.request).get_brake()
        return context | {
            "brake": brake,
            "may_set": not brake.on and calls.allowed(self.request, "cleanup:brake:set"),
            "may_lift": brake.on and calls.allowed(self.request, "cleanup:brake:lift"),
        }


class SetForm(fields.Form):
    """Sets the brake."""

    reason = holds.ReasonField(
        help_text=_("Each deletion on hold shows the reason to admins. Name a ticket or a person.")
    )


class _Switch(pages.FormPage):
    danger = True

    @cached_property
    def brake(self) -> sdk.Brake | None:
        """The brake, if the user may see it."""
        may_see = calls.allowed(self.request, "cleanup:brake:get")
        return calls.proxy(self.request).get_brake() if may_see else None

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Return the brake, if the user may see it."""
        context: dict[str, Any] = super().get_context_data(**kwargs)
        return context | {"brake": self.brake}

    def back(self) -> str:
        """Return to the state."""
        return str(reverse("horizon:identity:project_brake:index"))


class SetBrake(_Switch):
    """Sets the brake."""

    page_title = _("Set the brake")
    template_name = "project_cleanup/brake/set.html"
    form_class = SetForm
    form_id = "pc-brake-set"
    submit_label = _("Set the brake")

    def act(self, form: forms.Form) -> str:
        """Set the brake."""
        try:
            brake = calls.proxy(self.request).set_brake(form.cleaned_data["reason"])
        finally:  # after a timeout it can be set
            header.forget(self.request)
        if brake.user_id != self.request.user.id or brake.reason != form.cleaned_data["reason"]:
            return str(_now("The brake was already set. Its reason stays the first one."))
        return str(_now("The brake is set. No worker begins another lock or delete."))


class Lift(_Switch):
    """Lifts the brake, after a question."""

    page_title = _("Lift the Brake")
    template_name = "project_cleanup/brake/lift.html"
    form_class = forms.Form
    form_id = "pc-brake-lift"
    submit_label = _("Lift the brake")

    def form_valid(self, form: forms.Form) -> HttpResponse:
        """Lift the brake, unless it was lifted and set again since the page was shown."""
        if self.brake is None or self.request.POST.get("since") == self.brake.since:
            return super().form_valid(form)
        form.add_error(None, _now("The brake has changed since this page was shown. Read its reason again."))
        answer: HttpResponse = self.form_invalid(form)
        return answer

    def act(self, form: forms.Form) -> str:
        """Lift the brake."""
        try:
            calls.proxy(self.request).lift_brake()
        finally:
            header.forget(self.request)
        return str(_now("The brake is lifted. Deletions continue within seconds, unless something else holds them."))
