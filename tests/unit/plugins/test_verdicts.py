"""Which blockers a verdict names."""

from __future__ import annotations

import pytest

from cleanup_orchestrator.core.reasons import Reason
from cleanup_orchestrator.plugins.base import blocking_verdict
from tests.unit.answers import project

PROJECT = project("p")


@pytest.mark.parametrize(
    ("owners", "reason", "named"),
    [
        ([], None, []),
        (["p"], Reason.IN_USE, ["p"]),
        (["p", "them", ""], Reason.FOREIGN, ["them", ""]),
    ],
)
def test_of_several_blockers_those_of_other_projects_are_named(owners, reason, named):
    blockers = [{"type": "x", "id": str(number), "owner": owner} for number, owner in enumerate(owners)]
    verdict = blocking_verdict(PROJECT, blockers, lambda foreign, _: f"foreign: {foreign}")
    assert (verdict and verdict.reason) == reason
    assert [b["owner"] for b in (verdict.blocked_by if verdict else ())] == named
    assert verdict is None or verdict.message == f"foreign: {reason is Reason.FOREIGN}"
