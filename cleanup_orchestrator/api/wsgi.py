"""The application for uWSGI, mod_wsgi or gunicorn: ``module = cleanup_orchestrator.api.wsgi:application``.

Configuration: the files that ``OS_CLEANUP_ORCHESTRATOR_CONFIG_FILES`` names (several with ``;``), else the default
ones. The server's own command line is not read.
"""

from __future__ import annotations

import os

from cleanup_orchestrator import service

_FILES = os.environ.get("OS_CLEANUP_ORCHESTRATOR_CONFIG_FILES", "")

application = service.Parts(service.load([f"--config-file={f.strip()}" for f in _FILES.split(";") if f.strip()])).api()
