"""The calls of a hook: what is a list, and whose a resource is."""

import pytest

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.core.step import Outcome
from cleanup_orchestrator.plugins.base import ProjectDefinition
from tests.support import sweeps
from tests.unit.worker.test_deleting import Shelf, row, run

US = ProjectDefinition("us", "Us", "default", "R1")


@pytest.mark.parametrize("rows", [{}, {"things": []}, "", b""])
def test_what_is_no_list_is_no_empty_list(rows):
    shelf = Shelf()
    result = sweeps.inventory(shelf.type(list=lambda *_: rows), None, US)
    assert (result.outcome, result.reason) == (Outcome.UNKNOWN, Reason.BAD_ANSWER)


@pytest.mark.parametrize("owner", ["u-s", "US", "U-s"])
def test_the_projects_id_spelt_otherwise_is_no_other_project(owner):
    shelf = Shelf(row("1", owner=owner))
    result = run(shelf.type())
    assert (shelf.deletes, result.outcome, result.reason) == ([], Outcome.LEFTOVERS, Reason.OWNER_UNKNOWN)
