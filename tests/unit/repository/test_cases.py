"""A table of cases names each case that fails, and fails for each reason for which a test does."""

import pytest

from tests.support.cases import each_case


def failure(test, **fixtures):
    with pytest.raises(pytest.fail.Exception) as caught:
        test(**fixtures)
    return str(caught.value)


def test_all_cases_that_fail_are_named_with_their_line_and_reason():
    @each_case("number,limit", [(1, 5), (6, 5), (7, 5)])
    def check(number, limit, unit):
        assert number <= limit, f"{number} {unit}"

    line = check.__wrapped__.__code__.co_firstlineno + 2
    said = failure(check, unit="m")
    assert said.splitlines()[:2] == ["2 of 3 cases fail:", "6-5"]
    assert f"test_cases.py:{line}: 6 m" in said and f"test_cases.py:{line}: 7 m" in said and "1 m" not in said


def test_an_error_and_a_failure_in_the_middle_count_and_the_rest_is_tried():
    tried = []

    @each_case("case", ["raise", "fail", "pass"])
    def check(case):
        tried.append(case)
        if case == "raise":
            raise KeyError(case)
        if case == "fail":
            pytest.fail("no")

    said = failure(check)
    assert tried == ["raise", "fail", "pass"]
    assert "KeyError: 'raise'" in said and ": no" in said and "2 of 3" in said


def test_several_tables_give_each_combination():
    seen = []

    @each_case("a,b", [(1, 2), (3, 4)], "c", "xy")
    def check(a, b, c):
        seen.append((a, b, c))

    check()
    assert seen == [(1, 2, "x"), (1, 2, "y"), (3, 4, "x"), (3, 4, "y")]


def test_a_table_without_cases_is_refused():
    with pytest.raises(ValueError, match="no case"):
        each_case("x", [])


@each_case("case", [1, 2])
def test_pytest_gives_the_other_parameters(case, tmp_path):
    assert tmp_path.is_dir() and case in (1, 2)
