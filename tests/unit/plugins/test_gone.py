"""What a project that is gone left where only its own token showed it: what an admin's token is trusted with."""

from cleanup_orchestrator.core.step import Token
from cleanup_orchestrator.plugins import (
    block_storage,
    compute,
    container_infrastructure_management,
    key_manager,
    object_store,
    orchestration,
)

SERVICES = (block_storage, compute, container_infrastructure_management, key_manager, object_store, orchestration)


def test_only_barbican_cannot_be_listed_for_a_project_that_is_gone():
    scoped = [t for module in SERVICES for t in module.SERVICE.types if t.token is Token.PROJECT]
    assert {t.name for t in scoped if t.for_missing_project(gone=True).token is Token.PROJECT} == {
        "order",
        "container",
        "secret",
    }
    assert all(t.for_missing_project(gone=False) is t for t in scoped)
