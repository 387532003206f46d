"""The project-cleanup API for programs that use openstacksdk.

Example::

    import openstack
    from cleanup_orchestrator import sdk

    conn = openstack.connect(cloud="mycloud")
    conn.add_service(sdk.DESCRIPTION)
    project = conn.identity.find_project("demo", ignore_missing=False)
    deletion = conn.project_cleanup.create_deletion(project, mode="cascade")
    conn.project_cleanup.wait_for_deletion(deletion)

``conn.project_cleanup`` is a :class:`~cleanup_orchestrator.sdk.proxy.Proxy`. It returns resources of openstacksdk, such
as :class:`~cleanup_orchestrator.sdk.deletions.Deletion`, and raises exceptions of openstacksdk.
"""

from cleanup_orchestrator.sdk.deletions import Blocker, Condition, Count, Deletion, Progress, Selection
from cleanup_orchestrator.sdk.errors import ApiError, EndpointMissing, LoginLost, Unreachable
from cleanup_orchestrator.sdk.evidence import SignedReport
from cleanup_orchestrator.sdk.holds import Brake, Lien, Service, TypeFacts, Waiver
from cleanup_orchestrator.sdk.orphans import Orphan, OrphanProject, OrphanScan
from cleanup_orchestrator.sdk.proxy import SERVICE_TYPE, Description, Proxy
from cleanup_orchestrator.sdk.reports import Event, Leftover, Plan, PlannedResource, ProjectEvent, ProjectLeftover
from cleanup_orchestrator.sdk.text import one_line

__all__ = [
    "DESCRIPTION",
    "SERVICE_TYPE",
    "ApiError",
    "Blocker",
    "Brake",
    "Condition",
    "Count",
    "Deletion",
    "EndpointMissing",
    "Event",
    "Leftover",
    "Lien",
    "LoginLost",
    "Orphan",
    "OrphanProject",
    "OrphanScan",
    "Plan",
    "PlannedResource",
    "Progress",
    "ProjectEvent",
    "ProjectLeftover",
    "Proxy",
    "Selection",
    "Service",
    "SignedReport",
    "TypeFacts",
    "Unreachable",
    "Waiver",
    "one_line",
]

#: For ``conn.add_service``. It adds ``conn.project_cleanup``.
DESCRIPTION = Description(SERVICE_TYPE, {"1": Proxy})
