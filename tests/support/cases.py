"""Tests that try a table of cases at once, and name all cases that fail in one message."""

from __future__ import annotations

import functools
import inspect
import itertools
import pathlib
import traceback
from collections.abc import Callable
from typing import Any

import pytest

#: The beginning of a message that is shown for each case.
_SHOWN = 2000


def _named(case: tuple[Any, ...], ids: Callable[..., Any]) -> str:
    return "-".join(" ".join(str(ids(value)).split()) for value in case)[:200]


def _offence(error: BaseException, file: str) -> str:
    """Return the last line of the test's file in the traceback, and the message."""
    frames = traceback.extract_tb(error.__traceback__)
    at = next((frame for frame in reversed(frames) if frame.filename == file), frames[-1])
    kind = "" if isinstance(error, (AssertionError, pytest.fail.Exception)) else f"{type(error).__name__}: "
    return f"{pathlib.Path(at.filename).name}:{at.lineno}: {kind}{str(error)[:_SHOWN]}"


def each_case(*tables: Any, ids: Callable[..., Any] = str) -> Callable[..., Any]:
    """Calls a test with each case of a table, and fails with one message that names all cases that fail.

    ``pytest.mark.parametrize`` makes a test of each case. pytest needs some milliseconds for a test, and one defect
    fails hundreds of them. This decorator is for tables of facts, such as "each option is in the manual". The cases
    share the fixtures of one test, so the test must not change them.

    :param tables: a parameter and its values, as in ``"a", [1, 2]``; or several parameters with a tuple for each case,
        as in ``"a,b", [(1, 2), (3, 4)]``. With several such pairs, each combination of their rows is a case
    :param ids: what names a value in the message
    """
    wanted: list[str] = []
    rows: list[list[tuple[Any, ...]]] = []
    for names, table in zip(tables[::2], tables[1::2]):
        wanted += names.split(",")
        rows.append([row if "," in names else (row,) for row in table])
    cases = [tuple(itertools.chain(*parts)) for parts in itertools.product(*rows)]
    if not cases:
        raise ValueError(f"a table of {', '.join(wanted)} has no case")

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        file = inspect.getfile(test)

        @functools.wraps(test)
        def all_cases(**fixtures: Any) -> None:
            found = []
            for case in cases:
                try:
                    test(**fixtures, **dict(zip(wanted, case)))
                except (Exception, pytest.fail.Exception) as error:
                    found.append(f"{_named(case, ids)}\n    {_offence(error, file)}")
            if found:
                pytest.fail("\n".join([f"{len(found)} of {len(cases)} cases fail:", *found]), pytrace=False)

        signature = inspect.signature(test)
        kept = [parameter for name, parameter in signature.parameters.items() if name not in wanted]
        all_cases.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return all_cases

    return decorate
