"""The form for a lien."""

from __future__ import annotations

from django import forms
from django.utils.translation import gettext_lazy as _

from cleanup_orchestrator.dashboard import holds, projects, times


class CreateForm(projects.ProjectForm):
    """Protects a project from deletion."""

    project = projects.ProjectField(help_text=_("Each project below this one needs a lien of its own."))
    origin = forms.CharField(
        label=_("Origin"),
        max_length=128,
        help_text=_("Who needs the lien, such as billing or legal. All users whose request is refused see the origin."),
        widget=forms.TextInput(attrs={"dir": "auto"}),
    )
    reason = holds.ReasonField(help_text=_("Only users who may read liens see the reason."))
    expires_at = times.FutureTimeField(
        label=_("Ends at (UTC)"),
        required=False,
        help_text=_("Without a time, the lien is in force until a user removes it."),
    )
