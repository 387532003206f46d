"""What a mutation is: one defect of the package that a test has to notice."""

from __future__ import annotations

import dataclasses


class DoesNotApply(Exception):
    """The text that a mutation replaces is not in its file as often as the mutation says."""


@dataclasses.dataclass(frozen=True, slots=True)
class Mutation:
    """One defect, and the tests of which at least one has to fail with it."""

    name: str  #: what the defective package does, in plain English; unique
    file: str  #: path below the root of the repository
    old: str  #: text that is replaced
    new: str  #: text that replaces it
    tests: tuple[str, ...]  #: paths of test files below the root of the repository, the most direct one first
    times: int = 1  #: how often ``old`` is in the file; each occurrence is replaced

    def apply(self, source: str) -> str:
        """Return a file's text with the defect.

        :raises DoesNotApply: the text is not there, or not as often as it should be
        """
        if (found := source.count(self.old)) != self.times:
            raise DoesNotApply(f"{self.name}: {self.file} has the old text {found} times, not {self.times}")
        return source.replace(self.old, self.new)


def tests(names: str) -> tuple[str, ...]:
    """Return paths of test files: ``"core/decide"`` is a unit test, ``"functional/test_stop"`` a path below tests."""
    paths = (name.rpartition("/") for name in names.split())
    return tuple(
        f"tests/{room}/{name}.py" if name.startswith("test_") else f"tests/unit/{room}/test_{name}.py"
        for room, _, name in paths
    )
