"""The panel Identity → Project Deletion → Services."""

PANEL = "project_services"
PANEL_DASHBOARD = "identity"
PANEL_GROUP = "project_cleanup"
ADD_PANEL = "cleanup_orchestrator.dashboard.services.panel.Services"
