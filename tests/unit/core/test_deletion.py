"""What a deletion does and may do, by its mode, its origin, and whether it is a dry run."""

import itertools

import pytest

from cleanup_orchestrator.core.deletion import Mode, Origin, Profile
from tests.unit.world import deletion

QUESTIONS = (
    *("only_reports", "keeps_project", "writes", "deletes", "plans", "insists", "may_be_forced"),
    *("requested", "noticed", "adopted"),
)
CASES = {
    (Mode.REPORT, False, Origin.REQUEST): "only_reports writes requested",
    (Mode.REPORT, True, Origin.REQUEST): "only_reports requested",
    (Mode.REPORT, False, Origin.NOTICED): "only_reports noticed",
    (Mode.CASCADE, False, Origin.REQUEST): "writes deletes insists may_be_forced requested",
    (Mode.CASCADE, True, Origin.REQUEST): "plans requested",
    (Mode.CASCADE, False, Origin.ADOPTED): "writes deletes insists adopted",
    (Mode.CASCADE, True, Origin.ADOPTED): "plans adopted",
    (Mode.PURGE, False, Origin.REQUEST): "keeps_project writes deletes requested",
    (Mode.PURGE, True, Origin.REQUEST): "keeps_project plans requested",
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join(map(str, case)))
def test_what_a_profile_answers(case):
    profile = Profile(*case)
    assert {name for name in QUESTIONS if getattr(profile, name)} == set(CASES[case].split())


def test_every_deletion_has_the_profile_of_its_fields():
    for mode, dry_run, origin in itertools.product(Mode, (False, True), Origin):
        assert deletion(mode=mode, dry_run=dry_run, origin=origin).profile == Profile(mode, dry_run, origin)


def test_the_table_asks_every_question():
    assert {name for name, value in vars(Profile).items() if isinstance(value, property)} == set(QUESTIONS)
