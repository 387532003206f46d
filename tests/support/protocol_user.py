"""Removes the options of users from the configuration of the process.

keystoneauth registers them once ``auth_type`` is set. ``auth_url`` is required from then on, also for later tests.
"""

from __future__ import annotations

from keystoneauth1 import loading
from oslo_config import cfg


def forget_users(*groups: str) -> None:
    """Unregister the options of the password plugin in these groups."""
    cfg.CONF.reset()
    for group in groups:
        cfg.CONF.unregister_opts(loading.get_auth_plugin_conf_options("password"), group=group)
