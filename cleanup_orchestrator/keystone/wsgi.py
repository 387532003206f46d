"""The WSGI entry of Keystone with the fence, the hook, and the lists by project.

Serve it instead of ``keystone.wsgi.api:application``::

    module = cleanup_orchestrator.keystone.wsgi:application

The fence must be registered before Keystone is imported. This determines the order of the steps.
"""

from __future__ import annotations

import sys
from typing import Any

from cleanup_orchestrator.keystone import assumptions, delegations, fence, guard, options, pipeline, protocol


class NotConfigured(Exception):
    """An option in ``keystone.conf`` is missing or invalid."""


def _import_keystone() -> Any:
    """Import Keystone's WSGI entry, which also reads the configuration.

    Keystone parses ``sys.argv`` as its command line. Under a server with its own command line (gunicorn) that is wrong.
    uwsgi's ``pyargv``, however, can name a configuration file.
    """
    argv = sys.argv
    if not any(argument.startswith(("--config-file", "--config-dir")) for argument in argv):
        sys.argv = argv[:1]
    try:
        from keystone.wsgi import api
    except ModuleNotFoundError as error:
        if error.name != "keystone.wsgi":
            raise
        from keystone.server import wsgi as server  # Keystone before release 27

        return server.initialize_public_application()
    finally:
        sys.argv = argv
    return api.application


def _load() -> Any:
    fence.register_options()
    import keystone.conf

    conf = keystone.conf.CONF
    options.register(conf)
    application = _import_keystone()
    group = conf[protocol.GROUP]
    user_id = (group.user_id or "").strip()
    if not user_id:
        raise NotConfigured(
            f"[{protocol.GROUP}] user_id is empty in keystone.conf: set it to the id of the orchestrator's user "
            "(openstack user show -c id), or serve keystone.wsgi.api:application"
        )
    fence.guard_tokens(fence.Fence(fence.read_fences, user_id, group.fence_interval, fence.MAX_AGE))
    guarded = guard.install(user_id)
    pipeline.install(application)
    delegations.install(application, guarded)
    assumptions.check()
    return application


application = _load()
