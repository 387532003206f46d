"""Chooses by the commit which of the slow tests run, because not every commit can run all of them.

What is chosen depends on the commit alone, so that a failure in CI can be repeated from the commit.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
import subprocess
from collections.abc import Collection, Mapping, Sequence

ROOT = pathlib.Path(__file__).parents[2]
#: How far back a change still counts as a part of what the commit brings, in seconds. A submission has many commits.
RECENT = 4 * 3600


@dataclasses.dataclass(frozen=True)
class Commit:
    """A commit, and the files that changed recently."""

    hash: str  #: 40 hexadecimal digits
    number: int  #: how many commits there are up to this one: two neighbours differ by one
    changed: frozenset[str]  #: paths that this commit and those shortly before it changed


@functools.cache
def commit() -> Commit:
    """Reads the checkout's commit from git.

    CLEANUP_TESTS_HEAD (``HASH`` or ``HASH:NUMBER``) takes its place, to repeat another commit's choice, and where
    the checkout is not a git repository. CLEANUP_TESTS_BASE names the commit since which changes count.

    :raises RuntimeError: neither git nor the variable says which commit it is
    """
    if given := os.environ.get("CLEANUP_TESTS_HEAD"):
        hash_, _, number = given.partition(":")
        return Commit(hash_, int(number or 0), frozenset())
    try:
        hash_, date = _git("log", "-1", "--format=%H %ct").split()
        since = f"--before={int(date) - RECENT}"
        base = os.environ.get("CLEANUP_TESTS_BASE") or _git("rev-list", "-1", since, "HEAD")
        changed = _git("diff", "--name-only", base or _git("hash-object", "-t", "tree", "/dev/null"), "HEAD")
        return Commit(hash_, int(_git("rev-list", "--count", "HEAD")), frozenset(changed.splitlines()))
    except (OSError, subprocess.CalledProcessError) as error:
        raise RuntimeError(f"set CLEANUP_TESTS_HEAD: git does not say which commit this is: {error}") from None


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def choose(
    this: Commit,
    always: Collection[str],
    turns: Sequence[Collection[str]],
    sources: Mapping[str, Sequence[str]],
) -> dict[str, str]:
    """Returns the files that a commit runs, each with the reason.

    :param always: those that each commit runs
    :param turns: sets of the other files; consecutive commits run them in rotation
    :param sources: for a file, the paths (or folders, with a slash at the end) whose change makes it run
    """
    turn = this.number % len(turns)
    chosen = dict.fromkeys(always, "always")
    for file in set().union(*turns):
        changed = [path for path in this.changed if path.startswith(tuple(sources.get(file, ())))]
        if changed or file in this.changed:
            chosen[file] = f"{min(changed, default=file)} changed"
        elif file in turns[turn]:
            chosen[file] = f"turn {turn + 1} of {len(turns)}"
    return dict(sorted(chosen.items()))
