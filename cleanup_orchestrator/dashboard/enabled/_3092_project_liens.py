"""The panel Identity → Project Deletion → Liens."""

PANEL = "project_liens"
PANEL_DASHBOARD = "identity"
PANEL_GROUP = "project_cleanup"
ADD_PANEL = "cleanup_orchestrator.dashboard.liens.panel.Liens"
