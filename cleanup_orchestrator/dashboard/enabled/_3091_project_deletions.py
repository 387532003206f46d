"""The panel Identity → Project Deletion → Deletions."""

PANEL = "project_deletions"
PANEL_DASHBOARD = "identity"
PANEL_GROUP = "project_cleanup"
ADD_PANEL = "cleanup_orchestrator.dashboard.deletions.panel.Deletions"
