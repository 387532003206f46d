"""The main job, the fence or the hook with an older release of OpenStack: each commit tries another pair.

The tests are those for the newest release, in a process of their own. The nightly parts run all of them for each
release; CLEANUP_CLOUD_RELEASE chooses one.
"""

from __future__ import annotations

import os
import subprocess
import sys

from tests.cloud import releases
from tests.cloud.conftest import ROOT
from tests.support import commit


def test_the_chosen_tests_pass_with_an_older_release(older):
    release, _ = older
    _, run = releases.in_turn(commit.commit().number)
    file = f"tests/cloud/{releases.RUNS[run].file}"
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-m", "", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *(f"{file}::{name}" for name in releases.PER_COMMIT[run])],
        cwd=ROOT,
        env=os.environ | {releases.VARIABLE: release},
        capture_output=True,
        text=True,
    )
    print(f"\n{release}, {run}: {done.stdout.splitlines()[-1:]}")
    assert done.returncode == 0, f"OpenStack {release}, {run}:\n{done.stdout[-8000:]}\n{done.stderr[-2000:]}"
    assert "skipped" not in done.stdout
