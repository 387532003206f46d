"""The Django application, its static files and the group of its panels, in Identity."""

from django.utils.translation import gettext_lazy as _

FEATURE = "project_cleanup"
ADD_INSTALLED_APPS = ["cleanup_orchestrator.dashboard"]
ADD_SCSS_FILES = ["project_cleanup/project_cleanup.scss"]
ADD_JS_FILES = ["project_cleanup/js/refresh.js", "project_cleanup/js/forms.js"]
ADD_HEADER_SECTIONS = ["cleanup_orchestrator.dashboard.brake.header.BrakeHeader"]

PANEL_GROUP = "project_cleanup"
PANEL_GROUP_NAME = _("Project Deletion")
PANEL_GROUP_DASHBOARD = "identity"
