"""The pages that change, retry, cancel, restore and approve a deletion."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

from django import forms
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from cleanup_orchestrator import sdk
from cleanup_orchestrator.dashboard import calls, fields, pages, times
from cleanup_orchestrator.dashboard.deletions import states

#: Characters of a reason at most.
REASON = 1000


class ActionPage(pages.FormPage):
    """The base: a page that says what will happen, with the button that does it."""

    #: Rule of the policy.
    rule: ClassVar[str] = ""
    form_class = forms.Form

    @cached_property
    def deletion(self) -> sdk.Deletion:
        """The deletion, read once for a page."""
        return calls.proxy(self.request).get_deletion(str(self.kwargs["deletion_id"]))

    @property
    def name(self) -> str:
        """The name of the project, for messages."""
        return pages.text(self.deletion.project_name or self.deletion.project_id)

    def possible(self) -> bool:
        """Return whether the state of the deletion allows the action."""
        raise NotImplementedError

    def permitted(self) -> bool:
        """Return whether the policy allows the action."""
        return calls.allowed_for(self.request, self.rule, self.deletion)

    def shown(self) -> str:
        """Return what the user decides on. The form sends it back: the page can be old."""
        return str(self.deletion.attempt)

    def form_valid(self, form: forms.Form) -> HttpResponse:
        """Make the call, unless the deletion has changed since the page was shown.

        Force names the project, not the deletion: a later deletion of the project must not get what this page showed.
        """
        if not self.possible():
            form.add_error(None, _("The deletion has changed, and no longer allows this. Nothing was requested."))
        elif self.request.POST.get("shown") != self.shown():
            form.add_error(
                None,
                _("The deletion has changed since this page was shown. Nothing was requested. Read the page again."),
            )
        else:
            return super().form_valid(form)
        answer: HttpResponse = self.form_invalid(form)
        return answer

    def back(self) -> str:
        """Return the URL of the deletion."""
        return str(reverse("horizon:identity:project_deletions:detail", args=[self.kwargs["deletion_id"]]))

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Return the deletion, and whether the action is possible."""
        context = super().get_context_data(**kwargs)
        permitted = self.permitted()
        return context | {
            "deletion": self.deletion,
            "name": self.name,
            "shown": self.shown(),
            "permitted": permitted,
            "possible": permitted and self.possible(),
        }


class RecordForm(fields.Form):
    """What a request says about itself."""

    request_reason = forms.CharField(
        label=gettext_lazy("Reason"),
        required=False,
        max_length=REASON,
        help_text=gettext_lazy("Why the project is deleted: one line. Every report has it."),
    )
    ticket = forms.CharField(
        label=gettext_lazy("Ticket"),
        required=False,
        max_length=128,
        help_text=gettext_lazy("Such as the number of a change. The filter of the deletions finds it."),
    )
    not_before = times.FutureTimeField(
        label=gettext_lazy("Not before (UTC)"),
        required=False,
        help_text=gettext_lazy(
            "Until this time nothing is locked or deleted. With a time, the deletion is not bound to a list: what "
            "exists at that time is deleted. An empty field: at once."
        ),
    )

    def given(self) -> dict[str, Any]:
        """Return the fields that have a value, as the API takes them."""
        return {name: value for name, value in self.cleaned_data.items() if value}


class ChangeForm(RecordForm):
    """What becomes of a request."""

    begin_now = forms.BooleanField(
        label=gettext_lazy("Begin now"), required=False, help_text=gettext_lazy("Instead of at a date.")
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in ("request_reason", "ticket", "not_before"):
            self.fields[name].help_text = _("An empty field: as it is.")

    def clean(self) -> dict[str, Any]:
        """Check that something changes, and that there is one date."""
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if cleaned.get("begin_now") and cleaned.get("not_before"):
            self.add_error("begin_now", _("Clear the date, or this choice."))
        if not self.errors and not self.given():
            self.add_error(None, _("Nothing changes. Fill in a field."))
        return cleaned

    def changes(self) -> dict[str, Any]:
        """Return the changes, as the API takes them."""
        given = self.given()
        return {**given, "not_before": None} if given.pop("begin_now", None) else given


def changeable(request: HttpRequest, deletion: sdk.Deletion) -> bool:
    """Return whether the policy allows a change of a deletion under way."""
    rules = ("cleanup:deletions:set", "cleanup:deletions:postpone")
    under_way = not deletion.finished_at and deletion.status != "cancelling"
    return under_way and any(calls.allowed_for(request, rule, deletion) for rule in rules)


class Change(ActionPage):
    """Change the date, the reason or the ticket."""

    form_class = ChangeForm
    page_title = gettext_lazy("Change the deletion of project {{ name }}")
    template_name = "project_cleanup/deletions/change.html"
    submit_label = gettext_lazy("Change")

    def permitted(self) -> bool:
        """Return whether the policy allows the change."""
        return changeable(self.request, self.deletion)

    def possible(self) -> bool:
        """Return whether the deletion is under way."""
        return not self.deletion.finished_at

    def shown(self) -> str:
        """Return also the date that the page showed."""
        return f"{super().shown()} {self.deletion.not_before or ''}"

    def act(self, form: forms.Form) -> str:
        """Change the deletion."""
        assert isinstance(form, ChangeForm)
        calls.proxy(self.request).set_deletion(self.deletion.id, **form.changes())
        return str(_("The deletion of project %s is changed.") % self.name)


class Retry(ActionPage):
    """Start a new attempt, or try again at once."""

    rule = "cleanup:deletions:retry"
    page_title = gettext_lazy("Retry the deletion of project {{ name }}")
    template_name = "project_cleanup/deletions/retry.html"

    @property
    def submit_label(self) -> str:
        """The label of the button."""
        return str(_("Retry") if self.deletion.finished_at else _("Try now"))

    def possible(self) -> bool:
        """Return whether the state of the deletion allows the action."""
        return bool(self.deletion.retryable)

    def shown(self) -> str:
        """Return also whether the deletion has ended: a new attempt locks the project and deletes again."""
        return f"{super().shown()} {'ended' if self.deletion.finished_at else 'under way'}"

    def act(self, form: forms.Form) -> str:
        """Retry the deletion."""
        ended = self.deletion.finished_at
        calls.proxy(self.request).retry_deletion(self.deletion.id)
        if ended:
            return str(_("A new attempt to delete project %s has begun.") % self.name)
        return str(_("What the deletion of project %s waits for is tried again now.") % self.name)


class Cancel(ActionPage):
    """Stop a deletion, and undo the lock."""

    rule = "cleanup:deletions:cancel"
    page_title = gettext_lazy("Cancel the deletion of project {{ name }}")
    template_name = "project_cleanup/deletions/cancel.html"
    submit_label = gettext_lazy("Cancel the deletion")

    def possible(self) -> bool:
        """Return whether the state of the deletion allows the action."""
        return bool(self.deletion.cancellable)

    def act(self, form: forms.Form) -> str:
        """Cancel the deletion."""
        calls.proxy(self.request).cancel_deletion(self.deletion.id)
        return str(_("The deletion of project %s is being cancelled.") % self.name)


class Restore(ActionPage):
    """Stop a deletion before anything is deleted."""

    rule = "cleanup:deletions:restore"
    page_title = gettext_lazy("Restore project {{ name }}")
    template_name = "project_cleanup/deletions/restore.html"
    submit_label = gettext_lazy("Restore the project")

    def possible(self) -> bool:
        """Return whether the state of the deletion allows the action."""
        return bool(self.deletion.restorable)

    def act(self, form: forms.Form) -> str:
        """Restore the project."""
        calls.proxy(self.request).restore_deletion(self.deletion.id)
        return str(_("Project %s is being restored.") % self.name)


class ReasonForm(fields.Form):
    """A reason."""

    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        max_length=REASON,
        help_text=gettext_lazy("One line, such as the number of a ticket. The journal keeps it."),
    )


class Approve(ActionPage):
    """Approve a deletion that exceeds a limit."""

    rule = "cleanup:deletions:approve"
    form_class = ReasonForm
    page_title = gettext_lazy("Approve the deletion of project {{ name }}")
    template_name = "project_cleanup/deletions/approve.html"
    submit_label = gettext_lazy("Approve the deletion")
    danger = True

    def possible(self) -> bool:
        """Return whether the deletion waits for an approval."""
        return bool(states.condition(self.deletion, "approval"))

    def shown(self) -> str:
        """Return also the limit and the number of resources: the API approves what is found when it is called."""
        limit = states.condition(self.deletion, "approval")
        since = f"{limit.reason} {limit.last_transition_at}" if limit else ""
        return f"{super().shown()} {self.deletion.progress.found} {since}"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Return the limit that is exceeded."""
        own = self.deletion.user_id == self.request.user.id
        limit = states.condition(self.deletion, "approval")
        return super().get_context_data(**kwargs) | {"submit_id": "pc-submit", "limit": limit, "own": own}

    def act(self, form: forms.Form) -> str:
        """Approve the deletion."""
        calls.proxy(self.request).approve_deletion(self.deletion.id, form.cleaned_data["reason"])
        return str(_("The deletion of project %s is approved. It continues.") % self.name)
