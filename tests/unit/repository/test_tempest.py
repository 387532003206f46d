"""What the comparison of Tempest's results reads, and what it takes for a difference."""

import pytest

from tests.cloud import tempest

OUTPUT = """
{0} tempest.api.identity.v3.test_users.UsersTest.test_a [1.254s] ... ok
{1} tempest.api.identity.v3.test_users.UsersTest.test_b [0.5s] ... FAILED

Captured traceback:
    Details: Unexpected http success status code 202, The expected status code is 204

{0} tempest.api.identity.v3.test_users.UsersTest.test_c ... SKIPPED: Security compliance not available.
{1} setUpClass (tempest.api.identity.v3.test_users.OtherTest) [0.000000s] ... FAILED
 - Passed: 1
"""
STOCK = {f"test_{n}": "ok" for n in range(tempest.LEAST)}


def test_each_result_is_read():
    """A class whose preparation failed is one, too."""
    assert list(tempest.read(OUTPUT, "").values()) == ["ok", "FAILED", "SKIPPED", "FAILED"]
    assert list(tempest.read(OUTPUT, ""))[3] == "setUpClass (tempest.api.identity.v3.test_users.OtherTest)"


def test_a_failure_because_of_the_mode_is_told_by_its_own_output():
    found = list(tempest.read(OUTPUT, tempest.EXPECTED["always"]).values())
    assert found == ["ok", tempest.BY_MODE, "SKIPPED", "FAILED"]


def test_the_same_results_are_no_problem():
    assert tempest.problems({"": STOCK, "off": STOCK}) == []


@pytest.mark.parametrize(
    ("results", "line"),
    [
        (STOCK | {"test_1": "FAILED"}, "off: test_1: ok -> FAILED"),
        (STOCK | {"test_1": "SKIPPED"}, "off: test_1: ok -> SKIPPED"),
        ({name: result for name, result in STOCK.items() if name != "test_1"}, "off: test_1: ok -> not run"),
        (STOCK | {"setUpClass (x)": "FAILED"}, "off: setUpClass (x): not run -> FAILED"),
    ],
)
def test_another_result_is_a_problem(results, line):
    assert tempest.problems({"": STOCK, "off": results}) == [line]


def test_a_difference_that_is_expected_has_to_be_there():
    assert tempest.problems({"": STOCK, "always": STOCK | {"test_1": tempest.BY_MODE}}) == []
    assert tempest.problems({"": STOCK, "always": STOCK}) == ["always: no test fails as the manual says"]


def test_a_stock_keystone_that_fails_shows_nothing():
    assert tempest.problems({"": STOCK | {"test_1": "FAILED"}})[0] == "without the package: test_1 failed"
    assert "fewer than" in tempest.problems({"": {"test_1": "ok"}})[0]
