"""A real Horizon on loopback, with the panels of this checkout, for one cloud."""

from __future__ import annotations

import os
import pathlib
import secrets
import shutil
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

from tests.cloud import releases
from tests.cloud.errors import CloudError
from tests.cloud.installing import install, make_venv
from tests.cloud.processes import HOST, Children, last_line

if TYPE_CHECKING:
    from tests.cloud.launcher import Cloud

ROOT = pathlib.Path(__file__).parents[2]
REQUIREMENTS = pathlib.Path(__file__).with_name("requirements-horizon.txt")
START_TIMEOUT = 300.0

#: The settings of the site, which import those of Horizon after the folders ``enabled`` and ``local_settings.d`` have
#: been added. An installation copies these files into Horizon's own folders instead, which a test may not write to.
_SETTINGS = """\
import pathlib

import openstack_dashboard.local.enabled

_SITE = pathlib.Path(__file__).parent
openstack_dashboard.local.enabled.__path__.append(str(_SITE / "enabled"))

from openstack_dashboard.settings import *  # noqa: E402, F403

for _file in sorted((_SITE / "local_settings.d").glob("*.py")):
    exec(_file.read_text())
"""
_LOCAL_SETTINGS = """\
DEBUG = False
COMPRESS_ENABLED = True
COMPRESS_OFFLINE = False
ALLOWED_HOSTS = ["*"]
SECRET_KEY = {key!r}
OPENSTACK_HOST = {host!r}
OPENSTACK_KEYSTONE_URL = {auth_url!r}
OPENSTACK_API_VERSIONS = {{"identity": 3}}
# Domain managers have a token of their domain, too.
OPENSTACK_KEYSTONE_MULTIDOMAIN_SUPPORT = True
OPENSTACK_KEYSTONE_DEFAULT_DOMAIN = "Default"
# If this is true, which is the default, Horizon shows a page only after a script has run.
DISALLOW_IFRAME_EMBED = False
# Two tokens do not fit into a cookie.
SESSION_ENGINE = "django.contrib.sessions.backends.file"
SESSION_FILE_PATH = {sessions!r}
CACHES = {{"default": {{"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}}}
STATIC_ROOT = {static!r}
LOGGING = {{"version": 1, "disable_existing_loggers": False,
    "handlers": {{"console": {{"class": "logging.StreamHandler"}}}},
    "root": {{"handlers": ["console"], "level": "WARNING"}}}}
"""


def horizon_venv(cloud: Cloud, default: pathlib.Path) -> pathlib.Path:
    """Return the venv with the Horizon of the cloud's release; install it, unless that has been done.

    :param default: the venv of the newest release, unless ``CLEANUP_HORIZON_VENV`` names it
    """
    venv = releases.venv(cloud.release, pathlib.Path(os.environ.get("CLEANUP_HORIZON_VENV") or default))
    stamp, wanted = venv / "horizon.stamp", releases.digest(cloud.release, [REQUIREMENTS])
    if not stamp.exists() or stamp.read_text() != wanted:
        log = cloud.log("horizon-venv")
        log.parent.mkdir(parents=True, exist_ok=True)
        make_venv(cloud.children, venv, log)
        requirements = releases.requirements(cloud.release, [REQUIREMENTS])
        until = releases.RELEASES[cloud.release].until
        install(cloud.children, str(venv / "bin" / "python"), requirements, log, lambda text: None, until)
        stamp.write_text(wanted)
    return venv


class Horizon:
    """One Horizon; its processes end with this one.

    :param children: the processes of the cloud
    :param source: the folder with the package; empty: install the checkout as pip does, which also tests the wheel
    """

    def __init__(
        self,
        directory: pathlib.Path,
        venv: pathlib.Path,
        auth_url: str,
        port: int,
        children: Children,
        source: pathlib.Path | None = None,
    ) -> None:
        self.directory = directory
        self.venv = venv
        self.auth_url = auth_url
        self.port = port
        self.children = children
        self.source = source
        self.url = f"http://{HOST}:{port}"

    def start(self) -> None:
        """Install the panels, and start; return when the page of the login answers."""
        self._make_site()
        django = str(self.venv / "bin" / "django-admin")
        python = str(self.venv / "bin" / "python")
        environment = {
            "PYTHONPATH": os.pathsep.join([str(self.directory / "site"), str(self._package())]),
            "DJANGO_SETTINGS_MODULE": "site_settings",
        }
        collect = [django, "collectstatic", "--noinput", "--verbosity", "0"]
        self.children.run("horizon-static", collect, python=python, environment=environment)
        address = f"{HOST}:{self.port}"
        serve = [django, "runserver", "--insecure", "--noreload", address]
        child = self.children.start("horizon", ["exec", "--", *serve], python=python, environment=environment)
        deadline = time.monotonic() + START_TIMEOUT
        while not self._answers():
            if how := child.ended():
                raise CloudError(f"Horizon did not start ({how}): {last_line(child.log)}; see {child.log}")
            if time.monotonic() > deadline:
                raise CloudError(f"Horizon did not answer within {START_TIMEOUT:.0f} s; see {child.log}")
            time.sleep(0.5)

    def stop(self) -> None:
        """Stop it."""
        self.children.end("horizon")

    def log(self) -> str:
        """Return what it has logged."""
        return (self.children.log_directory / "horizon.log").read_text(errors="replace")

    def _package(self) -> pathlib.Path:
        return self.source or self.directory / "package"

    def _make_site(self) -> None:
        if self.source is None:
            log = self.children.log_directory / "horizon-install.log"
            arguments = ["--target", str(self._package()), str(ROOT)]
            shutil.rmtree(self._package(), ignore_errors=True)
            install(self.children, str(self.venv / "bin" / "python"), arguments, log, lambda text: None)
        site = self.directory / "site"
        shutil.rmtree(site, ignore_errors=True)
        (site / "local").mkdir(parents=True)
        (self.directory / "sessions").mkdir(exist_ok=True)
        (site / "local" / "__init__.py").touch()
        (site / "local" / "local_settings.py").write_text(
            _LOCAL_SETTINGS.format(
                key=secrets.token_hex(32),
                host=HOST,
                auth_url=self.auth_url,
                sessions=str(self.directory / "sessions"),
                static=str(self.directory / "static"),
            )
        )
        (site / "site_settings.py").write_text(_SETTINGS)
        dashboard = self._package() / "cleanup_orchestrator" / "dashboard"
        for name in ("enabled", "local_settings.d"):
            shutil.copytree(dashboard / name, site / name, ignore=shutil.ignore_patterns("__pycache__"))

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/auth/login/", timeout=60) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False
