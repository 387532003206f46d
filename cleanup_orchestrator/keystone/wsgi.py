"""Keystone with our part in it: the WSGI entry to serve instead of ``keystone.wsgi.api:application``.

    module = cleanup_orchestrator.keystone.wsgi:application

Everything has to be in its place before Keystone is imported, hence the order of what is done here.
"""

from __future__ import annotations

import sys
from typing import Any

from cleanup_orchestrator.keystone import fence, options, pipeline, protocol


class NotConfigured(Exception):
    """``keystone.conf`` lacks something without which our part must not run."""


def _import_keystone() -> Any:
    """Import Keystone's own entry, which reads the configuration by the way.

    It takes ``sys.argv`` for its own command line. Under a server that is started by a command (gunicorn) it is not;
    uwsgi's ``pyargv``, however, may well name a configuration file.
    """
    argv = sys.argv
    if not any(argument.startswith(("--config-file", "--config-dir")) for argument in argv):
        sys.argv = argv[:1]
    try:
        from keystone.wsgi import api
    finally:
        sys.argv = argv
    return api.application


def _load() -> Any:
    fence.register_option()
    import keystone.conf

    conf = keystone.conf.CONF
    options.register(conf)
    application = _import_keystone()
    ours = conf[protocol.GROUP]
    if not (ours.user_id or "").strip():
        raise NotConfigured(
            f"[{protocol.GROUP}] user_id is empty in keystone.conf: set it to the id of the orchestrator's user "
            "(openstack user show -c id), or serve keystone.wsgi.api:application"
        )
    user_ids = {user_id for user_id in (ours.user_id.strip(), (ours.janitor_user_id or "").strip()) if user_id}
    fence.guard_tokens(fence.Fence(fence.read_fences, user_ids, ours.fence_interval, fence.MAX_AGE))
    pipeline.install(application)
    return application


application = _load()
