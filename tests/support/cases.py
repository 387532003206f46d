"""Tests that try a table of cases at once, and name all cases that fail in one message."""

from __future__ import annotations

import functools
import inspect
import itertools
import pathlib
import traceback
from collections.abc import Callable, Iterable
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


def each(names: str, *tables: Iterable[Any], ids: Callable[..., Any] = str) -> Callable[..., Any]:
    """Calls a test with each case of a table, and fails with one message that names all cases that fail.

    ``pytest.mark.parametrize`` makes a test of each case. pytest needs some milliseconds for a test, and a change of the
    source fails hundreds of them. This decorator is for tables of facts, such as "each option is in the manual". The
    cases share the fixtures of one test, so the test must not change them.

    :param names: the parameters, with commas between them
    :param tables: the values of the parameters; with several tables, each combination of their rows
    :param ids: what names a value in the message
    """
    wanted = names.replace(" ", "").split(",")
    rows = [[row if isinstance(row, tuple) and len(wanted) > 1 else (row,) for row in table] for table in tables]
    cases = [tuple(itertools.chain(*parts)) for parts in itertools.product(*rows)]
    if not cases:
        raise ValueError(f"the table of {names} has no case")

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        file = inspect.getfile(test)

        @functools.wraps(test)
        def all_cases(**fixtures: Any) -> None:
            found = []
            for case in cases:
                try:
                    test(**fixtures, **dict(zip(wanted, case, strict=True)))
                except (Exception, pytest.fail.Exception) as error:
                    found.append(f"{_named(case, ids)}\n    {_offence(error, file)}")
            if found:
                pytest.fail("\n".join([f"{len(found)} of {len(cases)} cases fail:", *found]), pytrace=False)

        signature = inspect.signature(test)
        kept = [parameter for name, parameter in signature.parameters.items() if name not in wanted]
        all_cases.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return all_cases

    return decorate
