"""The panel Identity → Project Deletion → Waivers."""

PANEL = "project_waivers"
PANEL_DASHBOARD = "identity"
PANEL_GROUP = "project_cleanup"
ADD_PANEL = "cleanup_orchestrator.dashboard.waivers.panel.Waivers"
