"""The panel Identity → Project Deletion → Orphans."""

PANEL = "project_orphans"
PANEL_DASHBOARD = "identity"
PANEL_GROUP = "project_cleanup"
ADD_PANEL = "cleanup_orchestrator.dashboard.orphans.panel.Orphans"
