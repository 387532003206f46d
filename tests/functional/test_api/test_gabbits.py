"""The API in sentences: ``tests/functional/gabbits/*.yaml``, each file one test.

gabbi's pytest plugin is not used: it takes part in the collection of every other test, and fails on a ``:`` in their
ids.
"""

import unittest
from pathlib import Path

import pytest
from gabbi import driver

from tests.functional.test_api import fixtures

FOLDER = Path(__file__).parents[1] / "gabbits"


@pytest.fixture(scope="module")
def suites():
    """The suite of each file."""
    return driver.build_tests(
        str(FOLDER),
        unittest.TestLoader(),
        intercept=fixtures.application,
        fixture_module=fixtures,
        test_loader_name="api",
    )


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.yaml")))
def test_sentences(suites, name):
    [suite] = [s for s in suites if next(iter(s)).__class__.__name__.startswith(f"{name}_")]
    result = unittest.TestResult()
    suite.run(result)
    assert result.testsRun > 1
    failures = [f"{test.test_data['name']}: {trace}" for test, trace in result.failures + result.errors]
    assert not failures, "\n\n".join(failures)
    assert not result.skipped and not result.expectedFailures
