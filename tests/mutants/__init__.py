"""Defects that the tests have to notice: see ``python -m tests.mutants --help``."""

import importlib
import pkgutil

from tests.mutants.mutation import Mutation

#: Every mutation: the ``MUTATIONS`` of each module of this folder.
MUTATIONS: tuple[Mutation, ...] = tuple(
    mutation
    for module in pkgutil.iter_modules(__path__)
    if not module.name.startswith("_")
    for mutation in getattr(importlib.import_module(f"{__name__}.{module.name}"), "MUTATIONS", ())
)
