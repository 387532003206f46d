"""The shapes of the REST API: each resource, body and query, declared once.

A field is one line: its name, its type, and what it means. The views, the JSON Schemas, the OpenAPI document, the
resources of the SDK, the columns of the commands and the reference in the manual come from these lines. This room
imports the standard library and ``core``.
"""

from cleanup_orchestrator.shapes.deletions import (
    Approval,
    BlockedResource,
    Blocker,
    BlockingResource,
    ChildDeletion,
    Condition,
    Count,
    Deletion,
    Force,
    Grant,
    Progress,
    Selection,
    UnseenType,
)
from cleanup_orchestrator.shapes.evidence import (
    EmptyInventory,
    Facts,
    Journal,
    JournaledType,
    Lock,
    NamedLine,
    Report,
    ReportLine,
    RequestLine,
    SignedReport,
)
from cleanup_orchestrator.shapes.holds import Brake, Lien, Service, SkippedService, TypeFacts, Waiver
from cleanup_orchestrator.shapes.orphans import (
    NotCoveredType,
    Orphan,
    OrphanProject,
    OrphanScan,
    ScanCounts,
    ScannedType,
    TypeCount,
)
from cleanup_orchestrator.shapes.reports import (
    Event,
    Leftover,
    Plan,
    PlannedResource,
    PlannedType,
    ProjectEvent,
    ProjectLeftover,
)

__all__ = [
    "Approval", "BlockedResource", "Blocker", "BlockingResource", "Brake", "ChildDeletion", "Condition", "Count",
    "Deletion", "EmptyInventory", "Event", "Facts", "Force", "Grant", "Journal", "JournaledType", "Leftover", "Lien",
    "Lock", "NamedLine", "NotCoveredType", "Orphan", "OrphanProject", "OrphanScan", "Plan", "PlannedResource",
    "PlannedType", "Progress", "ProjectEvent", "ProjectLeftover", "Report", "ReportLine", "RequestLine", "ScanCounts",
    "ScannedType", "Selection", "Service", "SignedReport", "SkippedService", "TypeCount", "TypeFacts", "UnseenType",
    "Waiver",
]  # fmt: skip
