"""Checks in the package index that no installed release is yanked, quarantined, or has a known vulnerability.

Every index can mark a release as yanked and a project as quarantined (PEP 592, PEP 792). Indexes with PyPI's JSON
interface report known vulnerabilities. The test prints what the index does not report.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import metadata
from typing import Any

import pytest
import requests
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename

pytestmark = pytest.mark.long

PROJECT = "cleanup-orchestrator"
SIMPLE = "application/vnd.pypi.simple.v1+json"
SECONDS = 60


def index() -> str:
    """The index that pip is configured for, without a slash at its end."""
    found = os.environ.get("PIP_INDEX_URL") or os.environ.get("UV_INDEX_URL")
    if not found:
        asked = subprocess.run(
            [sys.executable, "-m", "pip", "config", "get", "global.index-url"],
            check=False,
            capture_output=True,
            text=True,
        )
        found = asked.stdout.strip() if asked.returncode == 0 else ""
    return (found or "https://pypi.org/simple").rstrip("/")


def closure(name: str) -> dict[str, str]:
    """Return the installed releases that a distribution needs with its extra ``server``, by name."""
    found: dict[str, str] = {}
    todo = [(name, "server")]
    while todo:
        one, extra = todo.pop()
        try:
            known = metadata.distribution(one)
        except metadata.PackageNotFoundError:
            continue  # for another platform, or an extra that is not installed
        key = canonicalize_name(one)
        if key in found and not extra:
            continue
        found[key] = known.version
        for text in known.requires or ():
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                todo += [(needed.name, ""), *((needed.name, each) for each in needed.extras)]
    found.pop(canonicalize_name(name))
    return found


def version_of(filename: str) -> str:
    """The version in a file's name; empty: it has another form."""
    try:
        if filename.endswith(".whl"):
            return str(parse_wheel_filename(filename)[1])
        return str(parse_sdist_filename(filename)[1])
    except ValueError:
        return ""


def said(url: str, **headers: str) -> dict[str, Any] | None:
    """Return the JSON of the index; none: the index has none there."""
    answer = requests.get(url, headers=headers, timeout=SECONDS)
    if answer.status_code != 200 or "json" not in answer.headers.get("Content-Type", ""):
        return None
    found: dict[str, Any] = answer.json()
    return found


def problems(base: str, name: str, version: str) -> tuple[list[str], list[str]]:
    """Return the problems of a release, and what the index does not report about it."""
    wrong, untold = [], []
    page = said(f"{base}/{name}/", Accept=SIMPLE)
    if page is None:
        untold.append(f"{name}: the index has no page of it in JSON")
    else:
        status = (page.get("project-status") or {}).get("status", "active")
        if status == "quarantined":
            wrong.append(f"{name}: the project is quarantined")
        files = [each for each in page["files"] if version_of(each["filename"]) == version]
        if files and all(each.get("yanked") for each in files):
            wrong.append(f"{name} {version}: withdrawn: {files[0]['yanked']}")
        if not files:
            untold.append(f"{name} {version}: the index does not have it")
    release = said(f"{re.sub(r'/simple$', '', base)}/pypi/{name}/{version}/json")
    if release is None:
        untold.append(f"{name} {version}: the index tells of no holes")
    else:
        known = [each for each in release.get("vulnerabilities") or () if not each.get("withdrawn")]
        wrong += [f"{name} {version}: {each.get('id')}: {each.get('summary') or each.get('link')}" for each in known]
    return wrong, untold


def test_no_required_release_is_yanked_or_has_a_known_vulnerability() -> None:
    base, needed = index(), closure(PROJECT)
    assert {"oslo-config", "openstacksdk", "sqlalchemy", "waitress"} <= set(needed)
    wrong: list[str] = []
    untold: list[str] = []
    for name, version in sorted(needed.items()):
        found, missing = problems(base, name, version)
        wrong += found
        untold += missing
    print(f"\n{len(needed)} releases; not told: {len(untold)}")
    print("\n".join(untold))
    # An index that reports nothing at all does not count.
    assert len([line for line in untold if "no page" in line]) < len(needed), "the index cannot be read"
    assert not wrong, "\n".join(wrong)


def test_a_yanked_release_is_reported() -> None:
    """Checks that the audit can fail."""
    (wrong,) = problems(index(), "requests", "2.32.0")[0]
    assert wrong.startswith("requests 2.32.0: withdrawn: Yanked")
