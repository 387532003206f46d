"""The settings of the panels. Horizon runs this file with its settings as the names."""

import os

import cleanup_orchestrator.dashboard

# An operator who changed the API's policy.yaml puts a copy of it at this place, below POLICY_FILES_PATH.
POLICY_FILES = {**globals()["POLICY_FILES"], "project-cleanup": "project_cleanup_policy.yaml"}
DEFAULT_POLICY_FILES = {
    **globals()["DEFAULT_POLICY_FILES"],
    "project-cleanup": os.path.join(
        os.path.dirname(cleanup_orchestrator.dashboard.__file__), "conf", "default_policies", "project_cleanup.yaml"
    ),
}

# What becomes of Horizon's own "Delete Project" in Identity → Projects. It deletes the project in Keystone, and leaves
# its resources behind, unless Keystone passes such deletes on to the orchestrator. "keep": it stays as it is. "rename":
# its label says that it leaves resources behind. "hide": Horizon does not show it. Set it in local_settings.py.
PROJECT_CLEANUP_KEYSTONE_DELETE = globals().get("PROJECT_CLEANUP_KEYSTONE_DELETE", "keep")
