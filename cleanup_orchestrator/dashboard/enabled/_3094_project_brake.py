"""The panel Identity → Project Deletion → Brake."""

PANEL = "project_brake"
PANEL_DASHBOARD = "identity"
PANEL_GROUP = "project_cleanup"
ADD_PANEL = "cleanup_orchestrator.dashboard.brake.panel.Brake"
