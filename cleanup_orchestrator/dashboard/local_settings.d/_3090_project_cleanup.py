"""The policy of the project-cleanup API. Horizon runs this file with its settings as the names."""

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
