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

    def rotation(self, sets: int) -> int:
        """Returns how often the commits before this one have run all sets of files."""
        return self.number // sets


@dataclasses.dataclass(frozen=True)
class Choice:
    """Which files a commit runs."""

    chosen: dict[str, str]  #: the files, each with the reason
    over_budget: tuple[str, ...]  #: files that changed and wait for their turn, because the budget is used up


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
        hash_, date = git("log", "-1", "--format=%H %ct").split()
        since = f"--before={int(date) - RECENT}"
        base = os.environ.get("CLEANUP_TESTS_BASE") or git("rev-list", "-1", since, "HEAD")
        changed = git("diff", "--name-only", base or git("hash-object", "-t", "tree", "/dev/null"), "HEAD")
        return Commit(hash_, int(git("rev-list", "--count", "HEAD")), frozenset(changed.splitlines()))
    except (OSError, subprocess.CalledProcessError) as error:
        raise RuntimeError(f"set CLEANUP_TESTS_HEAD: git does not say which commit this is: {error}") from None


def git(*arguments: str, unless: str | None = None) -> str:
    """Returns what a git command prints in the checkout.

    :param unless: returned if the command fails
    :raises subprocess.CalledProcessError: the command fails, and ``unless`` is not given
    """
    done = subprocess.run(["git", *arguments], cwd=ROOT, check=unless is None, capture_output=True, text=True)
    return done.stdout.strip() if unless is None or done.returncode == 0 else unless


def divide(files: Collection[str], seconds: Mapping[str, float], sets: int) -> tuple[frozenset[str], ...]:
    """Divides files into sets that take about the same time: the longest file first, each to the shortest set.

    :param seconds: how long each file takes; an unknown file takes a minute
    """
    divided: list[tuple[float, list[str]]] = [(0.0, []) for _ in range(sets)]
    for file in sorted(files, key=lambda file: (-seconds.get(file, 60.0), file)):
        shortest = min(range(sets), key=lambda number: divided[number][0])
        taken, members = divided[shortest]
        divided[shortest] = (taken + seconds.get(file, 60.0), [*members, file])
    return tuple(frozenset(members) for _, members in divided)


def tracked(folder: str = "") -> list[str]:
    """Returns the files of the checkout, or of one of its folders, that git tracks.

    The folder may contain other files, such as a venv or notes. Without git, as in a source archive, all files count.
    """
    try:
        return git("ls-files", "--", folder or ".").splitlines()
    except (OSError, subprocess.CalledProcessError):
        return sorted(str(path.relative_to(ROOT)) for path in (ROOT / folder).rglob("*") if path.is_file())


def choose(
    this: Commit,
    always: Collection[str],
    turns: Sequence[Collection[str]],
    sources: Mapping[str, Sequence[str]],
    seconds: Mapping[str, float],
    budget: float,
) -> Choice:
    """Returns the files that a commit runs, each with the reason.

    Those that each commit runs and those of its turn are chosen first. Then follow the files whose source changed, and
    then those that changed themselves, each as long as all chosen files fit into the budget, and the shortest first. A
    change of all plugins changes the source of most files, and all of them take longer than CI waits.

    :param always: those that each commit runs
    :param turns: sets of the other files; consecutive commits run them in rotation
    :param sources: for a file, the paths (or folders, with a slash at the end) whose change makes it run
    :param seconds: how long each file takes, in seconds of one process; an unknown file takes none
    :param budget: how long all chosen files may take, in the same seconds
    """
    turn = this.number % len(turns)
    chosen = dict.fromkeys(always, "always")
    waiting, over = [], []
    for file in set().union(*turns):
        changed = [path for path in this.changed if path.startswith(tuple(sources.get(file, ())))]
        if file in turns[turn]:
            chosen[file] = f"{min(changed)} changed" if changed else f"turn {turn + 1} of {len(turns)}"
        elif changed or file in this.changed:
            waiting.append((not changed, seconds.get(file, 0), file, min(changed, default=file)))
    used = sum(seconds.get(file, 0) for file in chosen)
    for _, takes, file, path in sorted(waiting):
        if used + takes <= budget:
            used += takes
            chosen[file] = f"{path} changed"
        else:
            over.append(file)
    return Choice(dict(sorted(chosen.items())), tuple(over))
