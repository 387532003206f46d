"""The main job, the fence and the hook with an older release of OpenStack, another one for each commit.

The tests are those for the newest release, in a process of their own. The nightly parts run all of them for each
release; CLEANUP_CLOUD_RELEASE chooses one.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.cloud import releases
from tests.cloud.conftest import ROOT

#: A few tests for each run of `releases.RUNS` in Keystone and the light cloud.
CHOSEN = {
    "job": ("test_a_cascade_leaves_nothing_and_changes_no_other_project",),
    "fence": (
        "test_fence_and_unfence_take_effect_within_a_second_in_every_process",
        "test_fences_that_cannot_be_read_refuse_every_project_s_token_until_they_can",
    ),
    "hook": (
        "test_a_user_who_may_not_delete_gets_the_exact_answer_of_a_stock_keystone",
        "test_from_the_users_delete_to_the_end_of_the_project",
    ),
}


@pytest.mark.parametrize("run", CHOSEN)
def test_the_chosen_tests_pass_with_an_older_release(older, run):
    release, _ = older
    file = f"tests/cloud/{releases.RUNS[run].file}"
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-m", "", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *(f"{file}::{name}" for name in CHOSEN[run])],
        cwd=ROOT,
        env=os.environ | {releases.VARIABLE: release},
        capture_output=True,
        text=True,
    )
    print(f"\n{release}: {done.stdout.splitlines()[-1:]}")
    assert done.returncode == 0, f"OpenStack {release}:\n{done.stdout[-8000:]}\n{done.stderr[-2000:]}"
    assert "skipped" not in done.stdout
