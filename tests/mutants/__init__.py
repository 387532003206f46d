"""Defects that the tests have to notice: see ``python -m tests.mutants --help``."""

from tests.mutants import (
    calls,
    conformance,
    decisions,
    doors,
    drain,
    plugins,
    protocol,
    records,
    selections,
    sweeps,
    workers,
)
from tests.mutants.mutation import Mutation

#: Every mutation, by what it breaks.
MUTATIONS: tuple[Mutation, ...] = (
    *decisions.MUTATIONS,
    *sweeps.MUTATIONS,
    *calls.MUTATIONS,
    *records.MUTATIONS,
    *workers.MUTATIONS,
    *plugins.MUTATIONS,
    *doors.MUTATIONS,
    *conformance.MUTATIONS,
    *protocol.MUTATIONS,
    *selections.MUTATIONS,
    *drain.MUTATIONS,
)
