"""Chooses some of the mutations, for a run that has no time for all of them.

What is chosen depends only on the mutations, the commit and the recorded durations, so that a run can be repeated.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Mapping, Sequence

from tests.mutants.mutation import Mutation

#: Seconds to start the tests of a mutation. A file that takes less than a second has no recorded duration.
START = 2.0


def of_changed(mutations: Sequence[Mutation], changed: Collection[str]) -> list[Mutation]:
    """Return the mutations of the files that changed."""
    return [mutation for mutation in mutations if mutation.file in changed]


def part(mutations: Sequence[Mutation], number: int, count: int) -> list[Mutation]:
    """Return one of several parts of the mutations; a mutation stays in its part when others are added.

    :param number: of the part, from 1
    :param count: how many parts there are
    """
    return [mutation for mutation in mutations if zlib.crc32(mutation.name.encode()) % count == number - 1]


def within(
    mutations: Sequence[Mutation], seconds: float, durations: Mapping[str, float]
) -> tuple[list[Mutation], list[Mutation]]:
    """Return the mutations whose tests fit into a total, and those that are left out.

    The shortest mutations come first. Each test file also runs once without any mutation. A killed mutation takes at
    most the time of the first file that it names; the others are for the case that the first one does not notice it.

    :param seconds: the total, in seconds of one process
    :param durations: seconds that a test file takes
    """
    cost = {file: START + durations.get(file, 0) for mutation in mutations for file in mutation.tests}
    fit: list[Mutation] = []
    ran: set[str] = set()
    used = 0.0
    for mutation in sorted(mutations, key=lambda mutation: sum(cost[file] for file in mutation.tests)):
        more = cost[mutation.tests[0]] + sum(cost[file] for file in set(mutation.tests) - ran)
        if used + more <= seconds:
            used += more
            ran.update(mutation.tests)
            fit.append(mutation)
    return fit, [mutation for mutation in mutations if mutation not in fit]
