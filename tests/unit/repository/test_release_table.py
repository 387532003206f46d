"""The table of releases says of each run what its record says, and of a run without a record that it was not run."""

import itertools
import sys
from pathlib import Path

import pytest

from tests import nightly
from tests.cloud import releases

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "doc" / "ext"))
import release_table  # noqa: E402

sys.path.remove(str(ROOT / "doc" / "ext"))

RECORD = {
    "2025.1-job": {"result": "passed", "date": "2026-11-29"},
    "2025.1-fence": {"result": "passed", "date": "2026-11-29"},
    "2025.1-whole": {"result": "failed", "date": "2026-11-30"},
    "services-1": {"result": "passed", "date": "2026-11-30"},
}


@pytest.mark.parametrize(
    ("service", "said"),
    [
        ("keystone", "job, fence: passed 2026-11-29; hook: **not run**; whole: **failed 2026-11-30**"),
        ("glance", "job: passed 2026-11-29; whole: **failed 2026-11-30**"),
        ("nova", "whole: **failed 2026-11-30**"),
    ],
)
def test_only_a_run_that_passed_is_said_to_have_passed(service, said):
    assert release_table.verdict(RECORD, "2025.1", service) == said


def test_every_service_of_every_release_has_a_version_and_a_verdict():
    services = {service for run in releases.RUNS.values() for service in run.services}
    text = release_table.text({})
    assert text.count("**not run**") == len(releases.OLDER) * len(services)
    assert (release_table.version("2025.1", "nova"), release_table.version("2024.1", "swift")) == ("31", "2.33")


def test_each_run_is_a_file_and_a_nightly_part_of_each_older_release():
    parts = nightly.parts()
    for release in releases.OLDER:
        for name, run in releases.RUNS.items():
            assert (ROOT / "tests" / "cloud" / run.file).exists()
            assert parts[f"{release}-{name}"].environment == {releases.VARIABLE: release}


def test_nine_commits_in_a_row_try_each_older_release_but_the_one_with_gaps_with_each_run():
    pairs = sorted(itertools.product(("2025.1", "2025.2", "2026.1"), releases.PER_COMMIT))
    assert sorted(releases.in_turn(number) for number in range(100, 109)) == sorted(pairs)
