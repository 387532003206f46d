"""Which report proves that a project is empty: one case for each thing that can be wrong with it."""

import dataclasses
import datetime

import pytest

from cleanup_orchestrator.core import emptiness
from cleanup_orchestrator.core.deletion import Mode, Origin, Status
from cleanup_orchestrator.core.holds import Brake, Lien, Waiver
from cleanup_orchestrator.core.selection import Selection
from cleanup_orchestrator.core.step import Outcome, Step, StepKind, StepState
from tests.unit.world import T0, deletion, sweep_step

LATER = T0 + datetime.timedelta(seconds=30)
SEEN = {"round": 2, "state": StepState.DONE, "outcome": Outcome.CLEAR, "started_at": LATER}
SURVEY = Step("survey", "d", StepKind.SURVEY, round=1, state=StepState.DONE, outcome=Outcome.CLEAR)
PORT, VOLUME = sweep_step("network.port", **SEEN), sweep_step("block-storage.volume", **SEEN)
QUOTA = sweep_step("network.quota", project_setting=True)
LIEN = Lien("l", "p", "billing", "an invoice", T0)
WAIVER = Waiver("w", "dns", "it is down", T0, LATER)
EMPTY = deletion(dry_run=True, status=Status.PLANNED, round=2, finished_at=LATER)


def why(report=EMPTY, steps=(SURVEY, PORT, VOLUME, QUOTA), since=T0, **changed):
    return emptiness.doubt(dataclasses.replace(report, **changed), steps, since)


@pytest.mark.parametrize("mode", [Mode.REPORT, Mode.CASCADE])
def test_a_complete_dry_run_that_found_nothing_is_a_proof(mode):
    assert why(mode=mode) == ""


def test_what_was_kept_and_settings_of_the_project_are_no_resources_of_the_user():
    quota = dataclasses.replace(QUOTA, **SEEN | {"outcome": Outcome.UNKNOWN})
    assert why(steps=(SURVEY, dataclasses.replace(PORT, kept=3), quota)) == ""


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        *(({"status": status}, f"ended as {status}") for status in Status if status is not Status.PLANNED),
        ({"origin": Origin.NOTICED}, "only a dry run"),
        ({"origin": Origin.ADOPTED}, "only a dry run"),
        ({"mode": Mode.PURGE}, "a part of the project"),
        ({"selection": Selection(services=("network",))}, "a part of the project"),
        ({"brake": Brake(True)}, "the brake is set"),
        ({"liens": (LIEN,)}, "lien l of billing on project p"),
        ({"waivers": (WAIVER,)}, "relies on a waiver"),
        ({"round": 3}, "block-storage.volume@R1 (not listed), network.port@R1 (not listed)"),
        ({"since_round": 2}, "did not read the catalog"),
        ({"since": LATER + datetime.timedelta(seconds=1)}, "too long ago"),
    ],
    ids=str,
)
def test_another_record_is_none(changed, said):
    assert said in why(**changed)


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ((), "did not read the catalog"),
        ((PORT,), "did not read the catalog"),
        ((SURVEY,), "listed no type"),
        ((SURVEY, QUOTA), "listed no type"),
        ((dataclasses.replace(SURVEY, outcome=Outcome.UNKNOWN), PORT), "did not read the catalog"),
        ((dataclasses.replace(SURVEY, state=StepState.RUNNING), PORT), "did not read the catalog"),
        *(
            ((SURVEY, VOLUME, dataclasses.replace(PORT, **wrong)), said)
            for wrong, said in [
                ({"outcome": Outcome.LEFTOVERS, "remaining": 2}, "is not empty: network.port@R1 (2 left)"),
                ({"outcome": Outcome.UNKNOWN, "reason": "forbidden"}, "is not empty: network.port@R1 (forbidden)"),
                ({"outcome": Outcome.NONE}, "network.port@R1 (not listed)"),
                ({"state": StepState.RUNNING}, "network.port@R1 (not listed)"),
                ({"round": 1}, "network.port@R1 (not listed)"),
                ({"waived": "w"}, "relies on a waiver"),
                ({"started_at": None}, "too long ago"),
                ({"started_at": T0 - datetime.timedelta(seconds=1)}, "too long ago"),
                ({"kind": StepKind.UNSUPPORTED, "outcome": Outcome.UNKNOWN, "reason": "no_plugin"}, "(no_plugin)"),
            ]
        ),
    ],
    ids=str,
)
def test_an_incomplete_inventory_is_none(steps, said):
    assert said in why(steps=steps)


def test_the_first_list_of_a_report_counts():
    later = dataclasses.replace(VOLUME, started_at=LATER + datetime.timedelta(hours=1))
    assert "too long ago" in why(steps=(SURVEY, PORT, later), since=LATER + datetime.timedelta(seconds=1))


def test_the_deletion_that_ended_last_counts():
    first = dataclasses.replace(EMPTY, id="a", finished_at=T0)
    assert emptiness.latest([first, EMPTY]) == emptiness.latest([EMPTY, first]) == EMPTY


def test_none_counts_while_one_is_under_way():
    live = deletion(id="live", status=Status.INVENTORY)
    assert emptiness.latest([EMPTY, live]) is None
    assert emptiness.latest([]) is None
