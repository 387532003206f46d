"""The policy file of the panels."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import yaml

import cleanup_orchestrator
from cleanup_orchestrator.api import policy_rules

DASHBOARD = pathlib.Path(cleanup_orchestrator.__file__).parent / "dashboard"
FILE = DASHBOARD / "conf" / "default_policies" / "project_cleanup.yaml"

#: Makes the file anew.
COMMAND = "python -m tests.unit.dashboard.test_policy"

_HEAD = (
    "# The defaults of the API's policy, in the form that Horizon reads. "
    "tests/unit/dashboard/test_policy.py checks them.\n"
)


def _wanted() -> list[dict[str, Any]]:
    """Return the rules of the API in the form that Horizon reads."""
    return [
        {
            "name": rule.name,
            "check_str": rule.check_str,
            "description": rule.description,
            "operations": [dict(operation) for operation in getattr(rule, "operations", [])],
            "scope_types": rule.scope_types and list(rule.scope_types),
        }
        for rule in policy_rules.list_rules()
    ]


def test_the_file_has_the_defaults_of_the_api() -> None:
    assert yaml.safe_load(FILE.read_text()) == _wanted(), f"write the file anew: {COMMAND}"


def test_each_rule_that_a_page_asks_for_exists() -> None:
    known = {rule.name for rule in policy_rules.list_rules()}
    named = {
        (rule, file.relative_to(DASHBOARD).as_posix())
        for file in DASHBOARD.rglob("*.py")
        for rule in re.findall(r"\"(cleanup:[a-z_:]+)\"", file.read_text())
    }
    assert len(named) > 5
    assert {(rule, file) for rule, file in named if rule not in known} == set()


if __name__ == "__main__":
    FILE.write_text(_HEAD + yaml.safe_dump(_wanted(), allow_unicode=True, width=120))
