"""The releases of OpenStack that a cloud can have, and what each of them installs.

The files ``requirements*.txt`` have the versions of the newest release. With each release a service raises its major
version by one, and Swift its minor version. So the versions of an older release follow from the number of releases
between the two. Libraries are those of the time: what was uploaded later than about a week after the release is left
out, because it was not tested with it.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from tests.cloud.errors import CloudError

NEWEST = "2026.2"
#: The release of the clouds of a test run, unless it is the newest one.
VARIABLE = "CLEANUP_CLOUD_RELEASE"
#: Packages whose versions do not follow the releases.
_UNRELATED = ("cheroot", "PyMySQL")
_BOUNDS = re.compile(r"(?P<name>[\w-]+)>=(?P<major>\d+)(?:\.(?P<minor>\d+))?[.\d]*,<\d+")


@dataclass(frozen=True)
class Release:
    """What is installed for one release.

    `python` is the oldest Python that the release supports. `back` is the number of releases between this and the
    newest one. `until` is the day from which on uploads are left out. `before` are packages to install first, whenever
    they were uploaded. `more` are further bounds. `horizon` are the requirements of Horizon, whose major version
    does not follow the releases.
    """

    python: str
    back: int = 0
    until: str = ""
    before: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    horizon: tuple[str, ...] = ()


#: Pecan imports `pkg_resources`, but the setuptools in a new venv has no such module.
_PKG_RESOURCES = "setuptools<81"
#: The style sheets of Horizon before 25.6 need it. Horizon does not say so.
_FONT_AWESOME = "XStatic-Font-Awesome<5"
#: Skipping 2024.2, which operators leave out on their way from one long-lived release to the next.
RELEASES = {
    "2024.1": Release(
        "3.8",
        5,
        "2024-04-11",
        before=("PyECLib==1.6.4",),  # no wheel for these Pythons was older
        # SQLAlchemy 2 came with the following release. With netaddr 1, Neutron takes no address of IPv6.
        more=("sqlalchemy<2", "netaddr<1", _PKG_RESOURCES),
        horizon=("horizon>=24,<24.1", _FONT_AWESOME),
    ),
    "2025.1": Release("3.9", 3, "2025-04-10", more=(_PKG_RESOURCES,), horizon=("horizon>=25.3,<25.4", _FONT_AWESOME)),
    "2025.2": Release("3.10", 2, "2025-10-09", more=(_PKG_RESOURCES,), horizon=("horizon>=25.5,<25.6", _FONT_AWESOME)),
    "2026.1": Release("3.10", 1, "2026-04-09", horizon=("horizon>=25.7,<25.8",)),
    NEWEST: Release("3.11"),
}
OLDER = tuple(RELEASES)[:-1]
#: Those that are supported without gaps.
SUPPORTED = tuple(RELEASES)[1:]
#: Those that the commits try in turn. 2024.1 is tried in the nightly parts alone.
IN_TURN = SUPPORTED[:-1]


@dataclass(frozen=True)
class Run:
    """What is tried with each older release: a test file, the services that it tests, and what it shows."""

    file: str
    services: tuple[str, ...]
    what: str


_LIGHT = ("keystone", "neutron", "glance", "swift", "barbican")
_MORE = ("placement", "nova", "cinder", "octavia", "designate", "manila", "heat", "magnum")
RUNS = {
    "job": Run("test_main_job.py", _LIGHT, "report, dry run, cascade and cancel in the light cloud"),
    "fence": Run("test_fence.py", ("keystone",), "the token fence in Keystone"),
    "hook": Run("test_pipeline.py", ("keystone",), "the hook in Keystone's pipeline, and the filter before it"),
    "panels": Run("test_dashboard.py", ("horizon",), "the panels in Horizon, with a browser"),
    "whole": Run("test_everything.py", (*_LIGHT, *_MORE), "everything that a project can own, in the whole cloud"),
}
#: The runs of which a commit does one, each with a few of its tests. The whole cloud is for the nightly parts.
PER_COMMIT = {
    "job": ("test_a_cascade_leaves_nothing_and_changes_no_other_project",),
    "fence": (
        "test_fence_and_unfence_take_effect_within_a_second_in_every_process",
        "test_fences_that_cannot_be_read_refuse_every_project_s_token_until_they_can",
    ),
    "hook": (
        "test_a_user_who_may_not_delete_gets_the_exact_answer_of_a_stock_keystone",
        "test_from_the_users_delete_to_the_end_of_the_project",
    ),
}


def wanted() -> str:
    """Return the release that the environment asks for.

    :raises CloudError: there is no such release
    """
    name = os.environ.get(VARIABLE) or NEWEST
    if name not in RELEASES:
        raise CloudError(f"{VARIABLE}={name}: the releases are {', '.join(RELEASES)}")
    return name


def in_turn(number: int) -> tuple[str, str]:
    """Return the older release that a commit tries, and what it runs of `PER_COMMIT`: nine commits have run all.

    :param number: of the commit
    """
    return IN_TURN[number % len(IN_TURN)], tuple(PER_COMMIT)[number // len(IN_TURN) % len(PER_COMMIT)]


def requirements(name: str, files: Sequence[pathlib.Path]) -> list[str]:
    """Return the requirements in these files with the versions of a release."""
    lines = [line.strip() for file in files for line in file.read_text().splitlines()]
    found = [line for line in lines if line and not line.startswith(("#", "-"))]
    return [*(each for line in found for each in _of_release(line, RELEASES[name])), *RELEASES[name].more]


def requirement(name: str, package: str, files: Sequence[pathlib.Path]) -> str:
    """Return the requirement of one of the packages in these files with the version of a release."""
    return next(line for line in requirements(name, files) if line.startswith(f"{package}>="))


def digest(name: str, files: Sequence[pathlib.Path]) -> str:
    """Return a digest of what an installation of the requirements in these files has with a release."""
    wanted = requirements(name, files), RELEASES[name].before, RELEASES[name].until
    return hashlib.sha256(f"{wanted}{sys.version}".encode()).hexdigest()


def venv(name: str, newest: pathlib.Path) -> pathlib.Path:
    """Return the venv of a release: that of an older release is beside that of the newest one."""
    return newest if name == NEWEST else newest.with_name(f"{newest.name}-{name}")


def _of_release(requirement: str, release: Release) -> tuple[str, ...]:
    """Return what a requirement of the newest release is in another release."""
    bounds = _BOUNDS.fullmatch(requirement)
    if bounds is None:
        raise ValueError(f"a requirement has to have the form name>=N,<M: {requirement}")
    if not release.back or bounds["name"] in _UNRELATED:
        return (requirement,)
    if bounds["name"] == "horizon":
        return release.horizon
    if bounds["name"] == "swift":
        minor = int(bounds["minor"]) - release.back
        return (f"swift>={bounds['major']}.{minor},<{bounds['major']}.{minor + 1}",)
    major = int(bounds["major"]) - release.back
    return (f"{bounds['name']}>={major},<{major + 1}",)
