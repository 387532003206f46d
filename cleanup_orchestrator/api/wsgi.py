"""The WSGI application for uWSGI, mod_wsgi or gunicorn.

Configure the server with ``module = cleanup_orchestrator.api.wsgi:application``. The environment variable
``OS_CLEANUP_ORCHESTRATOR_CONFIG_FILES`` names the configuration files, separated by ``;``. Without it the default files
are read. The command line of the server is not read.
"""

from __future__ import annotations

import os

from cleanup_orchestrator import service

_FILES = os.environ.get("OS_CLEANUP_ORCHESTRATOR_CONFIG_FILES", "")

_ARGUMENTS = [f"--config-file={f.strip()}" for f in _FILES.split(";") if f.strip()]

application = service.Components(service.load(_ARGUMENTS)).api()
